//! XOR supplement, figure 1: symbols that recoveries of Liber8tion read.

use super::symbols::{self, EXACT, PROVEN, REPLACE, SHARE, all, ends, replace_over_exact, values};
use super::{Bench, Experiment};
use crate::error::Result;
use crate::report::{Comparison, Results};

pub const EXPERIMENT: Experiment = Experiment {
    id: "xor-1",
    title: "Symbols read for a lost data block of Liber8tion",
    paper: "XOR supplement, figure 1: k data nodes, two parities, eight symbols to a block; replace recovery reads as little as \
            enumeration, 26.56 to 29.17 % less than conventional recovery.",
    must_show: "replace recovery as good as exact recovery for k = 2 … 8, and that proved.",
    run,
    compare,
};

const CASES: usize = 7;
/// The paper's figure begins where its range does: with two data blocks less is saved.
const FIRST_OF_THE_PAPER: usize = 1;

fn run(bench: &Bench<'_>) -> Result<Results> {
    let cases: Vec<symbols::Case> = (2..2 + CASES).map(|k| all(format!("liber8tion-{k}+2"))).collect();
    symbols::run(bench, &EXPERIMENT, "code", &cases)
}

fn compare(results: &Results) -> Vec<Comparison> {
    let (least, most) = ends(values(results, REPLACE, SHARE, CASES).into_iter().skip(FIRST_OF_THE_PAPER));
    let (proven, _) = ends(values(results, EXACT, PROVEN, CASES));
    vec![
        Comparison::times("replace over exact, the most of any k", replace_over_exact(results, 0..CASES))
            .paper(1.0)
            .at_most(1.0),
        Comparison::number("proved, the least part of the blocks for any k", proven).at_least(1.0),
        Comparison::saving("replace over conventional, the best of k = 3 … 8", least).paper(1.0 - 0.2917),
        Comparison::saving("… the worst", most).paper(1.0 - 0.2656),
    ]
}
