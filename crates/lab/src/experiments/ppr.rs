//! What the experiments of PPR's section 7 share: its codes, the schemes that are compared, and how a saving is judged.

use super::why;
use crate::report::{Comparison, Form, Results, Target};

/// The paper's traditional repair: the destination gathers k chunks.
pub const CONVENTIONAL: &str = "conventional";
/// A reduction tree that forwards whole combined chunks, as the paper's does.
pub const PPR: &str = "ppr";
/// The same tree in slices.
pub const PPR_SLICED: &str = "ppr-sliced";
/// Ours beside it: a chain in slices.
pub const PIPELINE: &str = "pipeline";

/// Slices of the schemes that have any.
pub const SLICE_BYTES: u32 = 32 << 10;

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

impl Case {
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
    let crate::report::Scale::Categories(names) = &results.x.scale else { return None };
    let at = if largest { names.iter().rposition(of_code) } else { names.iter().position(of_code) };
    at.map(|at| at as f64)
}

/// Timeslots of PPR over those of traditional repair: what an even network allows (PPR §4.2).
pub fn limit(k: usize) -> f64 {
    f64::from(usize::BITS - k.leading_zeros()) / k as f64
}

/// PPR against traditional repair at `x`: within a tenth of what the network allows for that k.
pub fn saving(results: &Results, k: usize, x: f64, paper: Option<f64>) -> Comparison {
    Comparison {
        what: format!("ppr at {} against conventional", results.x.text(x)),
        form: Form::Saving,
        paper,
        target: Target::AtMost(limit(k) * 1.1),
        ours: results.ratio(PPR, CONVENTIONAL, x),
        why: why::ratio(results, PPR, CONVENTIONAL, x, paper),
    }
}

/// One ratio of times against another of the same run: whether a saving grows.
pub fn grows(results: &Results, what: String, (from, to): (f64, f64)) -> Comparison {
    let ratio = |x: f64| results.ratio(PPR, CONVENTIONAL, x);
    Comparison {
        what,
        form: Form::Times,
        paper: None,
        // The time that is left, over that at the other end: less is a larger saving.
        target: Target::AtMost(1.0),
        ours: ratio(to).zip(ratio(from)).map(|(to, from)| to / from),
        why: format!(
            "of conventional repair's time {} is left at {} and {} at {}",
            ratio(from).map_or("?".to_owned(), |r| format!("{:.1} %", r * 100.0)),
            results.x.text(from),
            ratio(to).map_or("?".to_owned(), |r| format!("{:.1} %", r * 100.0)),
            results.x.text(to)
        ),
    }
}
