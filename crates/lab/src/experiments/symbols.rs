//! Symbols that recoveries of XOR codes read, on paper: each method for each lost block, and how long it looks.

use super::on_paper::{record, timed};
use super::{Bench, Experiment};
use crate::error::{Result, bad};
use crate::report::{Axis, Label, Measure, Ratio, Results, Sample, sample};
use codes::{Method, ParitySets};

pub(super) const CONVENTIONAL: &str = "conventional";
pub(super) const EXACT: &str = "exact";
pub(super) const REPLACE: &str = "replace";

/// Symbols that are read, of those that conventional recovery reads.
pub(super) const SHARE: &str = "share";
/// Their number, for a block on average.
pub(super) const SYMBOLS: &str = "symbols";
/// Part of the blocks of which it was proved that no fewer suffice.
pub(super) const PROVEN: &str = "proven";
/// The longest search for a block.
pub(super) const SEARCH: &str = "search_s";

/// What is measured of a code.
pub(super) struct Case {
    pub code: String,
    /// The lost blocks, one at a time; `None`: all that hold data.
    pub lost: Option<Vec<usize>>,
    pub methods: &'static [Method],
}

/// All methods, for every block that holds data.
pub(super) fn all(code: impl Into<String>) -> Case {
    Case { code: code.into(), lost: None, methods: &[Method::Conventional, Method::Replace, Method::Exact] }
}

/// A record of these cases, each at its place.
pub(super) fn run(bench: &Bench<'_>, experiment: &Experiment, axis: &str, cases: &[Case]) -> Result<Results> {
    let x = Axis::named(axis, cases.iter().map(|case| &case.code));
    let y = Measure::new(SHARE, "symbols read, of conventional recovery's", crate::report::Unit::Percent);
    let mut results = record(bench, experiment, 1, x, y);
    results.ratios = Ratio::columns(&[CONVENTIONAL], &[]);
    results.notes.push(
        "One block is lost, each that holds data in turn unless it is said otherwise, all symbols at the same cost; symbols are averaged \
         over the lost blocks. Conventional and replace recovery take as many of the code's own parity sets as symbols are lost, \
         exact recovery any sums of them. A search that a limit ended proved nothing: what it found is no more than an upper bound."
            .to_owned(),
    );
    for (x, case) in (0..).map(f64::from).zip(cases) {
        (bench.say)(&case.code);
        let sets = ParitySets::parse(&case.code).map_err(bad)?;
        let conventional = mean(&sets, case, Method::Conventional)?;
        for &method in case.methods {
            let found = mean(&sets, case, method)?;
            results.add(label(method), x, found.sample(&conventional));
        }
    }
    Ok(results)
}

fn label(method: Method) -> Label {
    match method {
        Method::Conventional => Label::rival(CONVENTIONAL),
        Method::Exact => Label::subject(EXACT),
        Method::Replace => Label::subject(REPLACE),
    }
}

/// Over the lost blocks.
struct Mean {
    symbols: f64,
    proven: f64,
    search_s: f64,
}

impl Mean {
    fn sample(&self, conventional: &Mean) -> Sample {
        sample([
            (SHARE, self.symbols / conventional.symbols),
            (SYMBOLS, self.symbols),
            (PROVEN, self.proven),
            (SEARCH, self.search_s),
        ])
    }
}

fn mean(sets: &ParitySets, case: &Case, method: Method) -> Result<Mean> {
    let blocks = if sets.is_systematic() { sets.k() } else { sets.n() };
    let lost = case.lost.clone().unwrap_or_else(|| (0..blocks).collect());
    let (mut sum, mut proven, mut longest) = (0, 0, 0.0_f64);
    for &block in &lost {
        let loss = sets.loss(&[block], &[]).map_err(bad)?;
        let (took_s, found) = timed(|| sets.recover(&loss, method));
        let found = found.map_err(bad)?;
        longest = longest.max(took_s);
        sum += found.symbols.len();
        proven += usize::from(found.proven);
    }
    let count = lost.len() as f64;
    Ok(Mean { symbols: sum as f64 / count, proven: proven as f64 / count, search_s: longest })
}

/// Of a method at each case for which there is one.
pub(super) fn values(results: &Results, method: &str, measure: &str, cases: usize) -> Vec<f64> {
    let value = |x: usize| Some(results.summary(method, x as f64, measure)?.median);
    (0..cases).filter_map(value).collect()
}

/// The most that replace recovery reads for each symbol that exact recovery does, of the cases in which that is proved for all
/// blocks.
pub(super) fn replace_over_exact(results: &Results, cases: impl Iterator<Item = usize>) -> Option<f64> {
    let value =
        |method: &str, x: usize, measure: &str| Some(results.summary(method, x as f64, measure)?.median);
    let proven = cases.filter(|&x| value(EXACT, x, PROVEN) == Some(1.0));
    proven.filter_map(|x| Some(value(REPLACE, x, SYMBOLS)? / value(EXACT, x, SYMBOLS)?)).reduce(f64::max)
}

/// The smallest and the largest of some values.
pub(super) fn ends(values: impl IntoIterator<Item = f64>) -> (Option<f64>, Option<f64>) {
    let values: Vec<f64> = values.into_iter().collect();
    (values.iter().copied().reduce(f64::min), values.iter().copied().reduce(f64::max))
}
