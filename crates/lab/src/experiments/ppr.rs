//! What the experiments of PPR's section 7 share: its codes, the schemes that are compared, and how a saving is judged.

use super::stand::{CONVENTIONAL, PPR};
use super::{Bench, why};
use crate::report::{Axis, Comparison, Results, Scale};

/// A code as the paper writes it: (k, m).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PaperCode {
    /// In the paper.
    pub paper: &'static str,
    /// Our name.
    pub name: &'static str,
    /// Data blocks.
    pub k: usize,
}

/// The four codes of Figure 7.
pub const CODES: [PaperCode; 4] = [
    PaperCode { paper: "(6,3)", name: "rs-6+3", k: 6 },
    PaperCode { paper: "(8,3)", name: "rs-8+3", k: 8 },
    PaperCode { paper: "(10,4)", name: "rs-10+4", k: 10 },
    PaperCode { paper: "(12,4)", name: "rs-12+4", k: 12 },
];

/// A code with blocks of one size: a place on an axis of both.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Case {
    pub code: PaperCode,
    pub block_bytes: u64,
}

/// All codes, each with all block sizes.
pub fn cases(codes: &[PaperCode], sizes: &[u64]) -> Vec<Case> {
    let of = |&code: &PaperCode| sizes.iter().map(move |&block_bytes| Case { code, block_bytes });
    codes.iter().flat_map(of).collect()
}

/// All codes; in a quick run the first and the last.
pub fn few_codes(bench: &Bench<'_>) -> Vec<PaperCode> {
    if bench.quick { vec![CODES[0], CODES[3]] } else { CODES.to_vec() }
}

impl Case {
    /// An axis of cases.
    pub fn axis(cases: &[Case]) -> Axis {
        Axis::named("(k,m), chunk size", cases.iter().map(Case::text))
    }

    /// `(12,4), 64 MiB`.
    pub fn text(&self) -> String {
        format!("{}, {} MiB", self.code.paper, self.block_bytes >> 20)
    }

    /// Code and block size of its stripe.
    pub fn stripe(&self) -> (&'static str, u64) {
        (self.code.name, self.block_bytes)
    }
}

/// The place of a case on an axis of categories, by its text.
pub fn place(results: &Results, code: &PaperCode, largest: bool) -> Option<f64> {
    let of_code = |name: &String| name.split(", ").next() == Some(code.paper);
    let Scale::Categories(names) = &results.x.scale else { return None };
    let at = if largest { names.iter().rposition(of_code) } else { names.iter().position(of_code) };
    at.map(|at| at as f64)
}

/// Timeslots of PPR over those of traditional repair: what an even network allows (PPR §4.2).
pub fn limit(k: usize) -> f64 {
    f64::from(usize::BITS - k.leading_zeros()) / k as f64
}

/// PPR against traditional repair at `x`: within a tenth of what the network allows for that k.
pub fn saving(results: &Results, k: usize, x: f64, paper: Option<f64>) -> Comparison {
    let what = format!("ppr at {} against conventional", results.x.text(x));
    why::saving(results, what, [PPR, CONVENTIONAL], x, paper).at_most(limit(k) * 1.1)
}

/// One ratio of times against another of the same run: whether a saving grows.
pub fn grows(results: &Results, what: &str, (from, to): (f64, f64)) -> Comparison {
    let ratio = |x: f64| results.ratio(PPR, CONVENTIONAL, x);
    let left = |x: f64| ratio(x).map_or("?".to_owned(), |ratio| format!("{:.1} %", ratio * 100.0));
    let (first, last) = (results.x.text(from), results.x.text(to));
    // The time that is left, over that at the other end: less is a larger saving.
    let ours = ratio(to).zip(ratio(from)).map(|(to, from)| to / from);
    let why =
        format!("of conventional repair's time {} is left at {first} and {} at {last}", left(from), left(to));
    Comparison::times(what, ours).at_most(1.0).why(why)
}

/// Every code with its largest chunk beside the paper, then whether the saving grows from the first code to the last; and the
/// places of these two.
pub fn compare_ends(
    results: &Results,
    paper: impl Fn(&PaperCode) -> Option<f64>,
) -> (Vec<Comparison>, Option<(f64, f64)>) {
    let compared = |code: &PaperCode| Some(saving(results, code.k, place(results, code, true)?, paper(code)));
    let mut comparisons: Vec<Comparison> = CODES.iter().filter_map(compared).collect();
    let ends = place(results, &CODES[0], true).zip(place(results, &CODES[3], true));
    comparisons.extend(ends.map(|ends| grows(results, "what ppr leaves at (12,4), against (6,3)", ends)));
    (comparisons, ends)
}
