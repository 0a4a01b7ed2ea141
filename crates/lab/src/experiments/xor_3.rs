//! XOR supplement, figure 3: symbols that recoveries of Cauchy Reed-Solomon codes read.

use super::symbols::{
    self, Case, EXACT, PROVEN, REPLACE, SEARCH, SHARE, all, ends, replace_over_exact, values,
};
use super::{Bench, Experiment};
use crate::error::Result;
use crate::report::{Comparison, Results};

pub const EXPERIMENT: Experiment = Experiment {
    id: "xor-3",
    title: "Symbols read for a lost data block of Cauchy Reed-Solomon codes",
    paper: "XOR supplement, figure 3, over k, m and w, with a matrix that it does not name: m = 2, replace recovery as good as \
            enumeration, 15.75 to 25.00 % less than conventional; m = 3, 16.25 to 22.22 % less, enumeration 19.75 to 25.00 %.",
    must_show: "the printed range at m = 2, w = 4 with the row of fewest ones; replace within 1 % of exact where that is proved; a search for \
                (12,4), w = 6 within 50 ms, exact ones within a second or said to be unproved.",
    run,
    compare,
};

/// m = 2, w = 4: the row of fewest ones, and the two Cauchy matrices; then three parities; then what the testbed repairs.
fn codes() -> Vec<String> {
    let two = ["crs-best", "crs-good", "crs"];
    let two = two.iter().flat_map(|family| (3..=14).map(move |k| format!("{family}-{k}+2-w4")));
    let three = [(4, 4), (5, 4), (6, 4), (8, 4), (10, 4), (13, 4), (6, 5), (10, 5), (6, 6), (10, 6)];
    let three = ["crs-good", "crs"]
        .iter()
        .flat_map(move |family| three.into_iter().map(move |(k, w)| format!("{family}-{k}+3-w{w}")));
    two.chain(three).chain(["crs-good-12+4-w6", "crs-12+4-w6"].map(str::to_owned)).collect()
}

fn run(bench: &Bench<'_>) -> Result<Results> {
    let cases: Vec<Case> = codes().into_iter().map(all).collect();
    let cases = if bench.quick { &cases[..3] } else { &cases[..] };
    symbols::run(bench, &EXPERIMENT, "code", cases)
}

/// k = 3 … 10, where the paper's numbers come from: beyond, less is saved.
const UP_TO_10: usize = 8;

fn compare(results: &Results) -> Vec<Comparison> {
    let codes = codes();
    let of = |start: &str, parities: &str| -> Vec<usize> {
        let is = |x: &usize| {
            let digit = codes[*x]
                .strip_prefix(start)
                .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
            digit && codes[*x].contains(parities)
        };
        (0..codes.len()).filter(is).collect()
    };
    let over = |cases: &[usize], method: &'static str, measure: &'static str| {
        let value = |&x: &usize| Some(results.summary(method, x as f64, measure)?.median);
        ends(cases.iter().filter_map(value).collect::<Vec<_>>())
    };
    let saved = |text: String, (best, worst): (Option<f64>, Option<f64>), paper: [f64; 2]| {
        [
            Comparison::saving(format!("{text}, the best"), best).paper(1.0 - paper[0]),
            Comparison::saving("… the worst", worst).paper(1.0 - paper[1]),
        ]
    };
    let fewest_ones = &of("crs-best-", "+2-")[..UP_TO_10];
    let [best, worst] = saved(
        "m = 2, row of fewest ones, k = 3 … 10: replace over conventional".to_owned(),
        over(fewest_ones, REPLACE, SHARE),
        [0.25, 0.1575],
    );
    let mut comparisons = vec![best.at_most(1.0 - 0.25), worst.at_most(1.0 - 0.1575)];
    for family in ["crs-good-", "crs-"] {
        let cases = of(family, "+3-");
        for (method, paper) in [(REPLACE, [0.2222, 0.1625]), (EXACT, [0.25, 0.1975])] {
            let text = format!("m = 3, {}: {method} over conventional", family.trim_end_matches('-'));
            comparisons.extend(saved(text, over(&cases, method, SHARE), paper));
        }
    }
    for (family, parities) in
        [("crs-best-", "+2-"), ("crs-good-", "+2-"), ("crs-", "+2-"), ("crs-good-", "+3-"), ("crs-", "+3-")]
    {
        let (name, m) = (family.trim_end_matches('-'), parities.trim_matches(['+', '-']));
        let text = format!("m = {m}, {name}: replace over exact where that is proved, the most");
        comparisons.push(
            Comparison::times(text, replace_over_exact(results, of(family, parities).into_iter()))
                .at_most(1.01),
        );
    }
    let all: Vec<usize> = (0..codes.len()).collect();
    let widest: Vec<usize> = all.iter().copied().filter(|&x| codes[x].contains("+4-")).collect();
    let proven: Vec<f64> = values(results, EXACT, PROVEN, codes.len());
    comparisons.extend([
        Comparison::number(
            "(12,4), w = 6: longest replace search, seconds",
            over(&widest, REPLACE, SEARCH).1,
        )
        .at_most(0.05),
        Comparison::number("longest exact search of all, seconds", over(&all, EXACT, SEARCH).1).at_most(1.0),
        Comparison::number(
            "part of the exact searches that proved their answer",
            (!proven.is_empty()).then(|| proven.iter().sum::<f64>() / proven.len() as f64),
        ),
    ]);
    comparisons
}
