//! RapidRAID figure 3: sets of k blocks that do not determine the data.

use super::on_paper::record;
use super::{Bench, Experiment};
use crate::error::{Result, bad};
use crate::report::{Axis, Comparison, Label, Measure, Ratio, Results, Sample, Unit, sample};
use codes::rapidraid::Chain;
use codes::{Code, Dependencies};
use gf::Field;

pub const EXPERIMENT: Experiment = Experiment {
    id: "rr-3",
    title: "Sets of k blocks of RapidRAID codes that determine the data",
    paper: "RapidRAID, figure 3 and §V.A: (n,k) codes of n = 8, 12 and 16; natural dependencies only. (8,4) has one, {c1, c2, c5, c6}; \
            codes are MDS if k ≥ n−3 (conjecture 1).",
    must_show: "natural dependencies exactly as the definitions give them, that one of (8,4) among them; MDS wherever k ≥ n−3; the kept \
                coefficients over GF(2^8) with no accidental one where a search found such.",
    run,
    compare,
};

const NATURAL: &str = "natural alone";
const KEPT: &str = "rapidraid, kept coefficients, GF(2^8)";
const LARGE: &str = "rapidraid16, GF(2^16)";
const DRAWN: &str = "drawn coefficients, GF(2^8)";

/// Part of all sets.
const INDEPENDENT: &str = "independent";
/// Number of those that do not determine the data.
const DEPENDENT: &str = "dependent";
/// 1 if any k blocks do.
const MDS: &str = "mds";
/// 1 if the only dependent set is {c1, c2, c5, c6}.
const IS_THE_PAPERS: &str = "is_the_papers";

/// Draws of coefficients without a search.
const DRAWS: u64 = 10;

fn shapes() -> impl Iterator<Item = (f64, usize, usize)> {
    let shapes = [8, 12, 16].into_iter().flat_map(|n| (n / 2..n).map(move |k| (n, k)));
    (0..).map(f64::from).zip(shapes).map(|(x, (n, k))| (x, n, k))
}

fn run(bench: &Bench<'_>) -> Result<Results> {
    let x = Axis::named("n, k", shapes().map(|(_, n, k)| format!("{n}, {k}")));
    let y = Measure::new(INDEPENDENT, "sets that determine the data", Unit::Percent);
    let mut results = record(bench, &EXPERIMENT, 1, x, y);
    results.ratios = Ratio::columns(&[DRAWN], &[]);
    results.notes.push(format!(
        "All sets are tried. Natural: dependent in four draws over GF(2^16). Drawn: {DRAWS} draws, each coefficient at random, \
         no search."
    ));
    for (x, n, k) in shapes() {
        (bench.say)(&format!("({n},{k})"));
        let kept = Code::parse(&format!("rapidraid-{k}+{}", n - k)).map_err(bad)?;
        let found = kept.dependencies().map_err(bad)?;
        let natural = found.natural.unwrap_or(0);
        results.add(Label::rival(NATURAL), x, counted(found.subsets, natural, false));
        results.add(Label::subject(KEPT), x, of(&found));
        let large = Code::parse(&format!("rapidraid16-{k}+{}", n - k)).map_err(bad)?;
        results.add(Label::subject(LARGE), x, of(&large.dependencies().map_err(bad)?));
        for seed in 1..=DRAWS {
            let drawn = Chain::draw(Field::Gf256, k, n - k, seed).generator();
            let code = Code::from_generator("drawn", n, k, 1, drawn).map_err(bad)?;
            results.add(Label::rival(DRAWN), x, of(&code.dependencies().map_err(bad)?));
        }
    }
    Ok(results)
}

fn of(found: &Dependencies) -> Sample {
    counted(found.subsets, found.dependent.len() as u64, found.dependent == [[0, 1, 4, 5]])
}

fn counted(subsets: u64, dependent: u64, is_the_papers: bool) -> Sample {
    let yes = |holds: bool| f64::from(u8::from(holds));
    sample([
        (INDEPENDENT, 1.0 - dependent as f64 / subsets as f64),
        (DEPENDENT, dependent as f64),
        (MDS, yes(dependent == 0)),
        (IS_THE_PAPERS, yes(is_the_papers)),
    ])
}

fn compare(results: &Results) -> Vec<Comparison> {
    let value = |name: &str, x: f64, measure: &str| Some(results.summary(name, x, measure)?.median);
    let of_8_4 = shapes().find(|(_, n, k)| (*n, *k) == (8, 4)).map(|(x, ..)| x);
    let conjectured: Vec<f64> = shapes().filter(|(_, n, k)| k + 3 >= *n).map(|(x, ..)| x).collect();
    let mds = conjectured.iter().filter_map(|&x| value(KEPT, x, MDS)).sum::<f64>() / conjectured.len() as f64;
    let most = |name: &str| {
        let accidental =
            shapes().filter_map(|(x, ..)| Some(value(name, x, DEPENDENT)? - value(NATURAL, x, DEPENDENT)?));
        accidental.reduce(f64::max)
    };
    vec![
        Comparison::times(
            "(8,4): its only dependent set is {c1, c2, c5, c6}",
            of_8_4.and_then(|x| value(KEPT, x, IS_THE_PAPERS)),
        )
        .paper(1.0)
        .at_least(1.0),
        Comparison::times("MDS, part of the codes with k ≥ n−3", Some(mds)).paper(1.0).at_least(1.0),
        Comparison::number(
            "accidental dependencies of kept coefficients over GF(2^8), the most of any code",
            most(KEPT),
        )
        .at_most(0.0),
        Comparison::number("… of those over GF(2^16)", most(LARGE)).at_most(0.0),
        Comparison::number("… of drawn ones over GF(2^8), the median draw", most(DRAWN)),
    ]
}
