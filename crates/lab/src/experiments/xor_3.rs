//! XOR supplement, figure 3: symbols that recoveries of Cauchy Reed-Solomon codes read.

use super::symbols::{self, Case, EXACT, PROVEN, REPLACE, SEARCH, SHARE, all, ends, replace_over_exact};
use super::{Bench, Experiment};
use crate::error::Result;
use crate::report::{Comparison, Results};

pub const EXPERIMENT: Experiment = Experiment {
    id: "xor-3",
    title: "Symbols read for a lost data block of Cauchy Reed-Solomon codes",
    paper: "XOR supplement, figure 3, over k, m and w, with a matrix that it does not name: m = 2, replace recovery as good as \
            enumeration, 15.75 to 25.00 % less than conventional; m = 3, 16.25 to 22.22 % less, enumeration 19.75 to 25.00 %.",
    must_show: "the printed range at m = 2, w = 4 with the row of fewest ones; replace within 1 % of exact at m = 2; a search for \
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

fn compare(results: &Results) -> Vec<Comparison> {
    let codes = codes();
    let of =
        |is: &dyn Fn(&str) -> bool| -> Vec<usize> { (0..codes.len()).filter(|&x| is(&codes[x])).collect() };
    let value =
        |method: &str, x: usize, measure: &str| Some(results.summary(method, x as f64, measure)?.median);
    let over = |cases: &[usize], method: &'static str, measure: &'static str| {
        ends(cases.iter().filter_map(|&x| value(method, x, measure)).collect::<Vec<_>>())
    };
    let best = of(&|code| code.starts_with("crs-best"));
    let [two, three] = ["+2-", "+3-"].map(|m| of(&|code| code.contains(m)));
    let (widest, all) = (of(&|code| code.contains("+4-")), of(&|_| true));
    let (least, most) = over(&best, REPLACE, SHARE);
    let mut comparisons = vec![
        Comparison::saving("m = 2, row of fewest ones: replace over conventional, the best k", least)
            .paper(1.0 - 0.25)
            .at_most(1.0 - 0.25),
        Comparison::saving("… the worst k", most).paper(1.0 - 0.1575).at_most(1.0 - 0.1575),
        Comparison::times(
            "m = 2, replace over exact where that is proved, the most",
            replace_over_exact(results, two.iter().copied()),
        )
        .paper(1.0)
        .at_most(1.01),
    ];
    for family in ["crs-good", "crs"] {
        let cases: Vec<usize> = three
            .iter()
            .copied()
            .filter(|&x| {
                codes[x]
                    .rsplit_once('-')
                    .is_some_and(|(name, _)| name.rsplit_once('-').is_some_and(|(f, _)| f == family))
            })
            .collect();
        for (method, paper) in [(REPLACE, [0.2222, 0.1625]), (EXACT, [0.25, 0.1975])] {
            let (least, most) = over(&cases, method, SHARE);
            comparisons.extend([
                Comparison::saving(format!("m = 3, {family}: {method} over conventional, the best"), least)
                    .paper(1.0 - paper[0]),
                Comparison::saving("… the worst", most).paper(1.0 - paper[1]),
            ]);
        }
        comparisons.push(
            Comparison::times(
                format!("m = 3, {family}: replace over exact where that is proved, the most"),
                replace_over_exact(results, cases.into_iter()),
            )
            .at_most(1.01),
        );
    }
    let (_, replace) = over(&widest, REPLACE, SEARCH);
    let (_, exact) = over(&all, EXACT, SEARCH);
    let proven = all.iter().filter_map(|&x| value(EXACT, x, PROVEN));
    let proven: Vec<f64> = proven.collect();
    comparisons.extend([
        Comparison::number("(12,4), w = 6: longest replace search, seconds", replace).at_most(0.05),
        Comparison::number("longest exact search of all, seconds", exact).at_most(1.0),
        Comparison::number(
            "part of the exact searches that proved their answer",
            (!proven.is_empty()).then(|| proven.iter().sum::<f64>() / proven.len() as f64),
        ),
    ]);
    comparisons
}
