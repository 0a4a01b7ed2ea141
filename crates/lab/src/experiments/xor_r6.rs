//! XOR supplement §3: symbols that recoveries of RAID-6 codes read, beside the known optima.

use super::symbols::{
    self, Case, EXACT, PROVEN, REPLACE, SEARCH, SHARE, SYMBOLS, all, ends, replace_over_exact,
};
use super::{Bench, Experiment};
use crate::error::Result;
use crate::report::{Comparison, Label, Results, sample};

pub const EXPERIMENT: Experiment = Experiment {
    id: "xor-r6",
    title: "Symbols read for a lost block of RAID-6 codes",
    paper: "XOR supplement §3 refers to what is known to be least for one lost data block: RDP 3(p−1)²/4, EVENODD (p−1)(3p+1)/4, \
            X-Code (3p²−8p+13)/4 with the two parities of the block.",
    must_show: "the known optima at p = 5, 7, 11, 13; replace within 1 % of exact for the other codes.",
    run,
    compare,
};

const OPTIMUM: &str = "known optimum";

/// The code at each place, and what is known to be least.
fn cases() -> Vec<(String, Option<usize>)> {
    let primes = [5_usize, 7, 11, 13];
    let with_optimum = primes.iter().flat_map(|&p| {
        [
            (format!("rdp-{p}"), Some(3 * (p - 1) * (p - 1) / 4)),
            (format!("evenodd-{p}"), Some((p - 1) * (3 * p + 1) / 4)),
            (format!("xcode-{p}"), Some((3 * p * p - 8 * p + 13) / 4)),
        ]
    });
    let others = [
        "hdp-5",
        "hdp-7",
        "hdp-11",
        "hdp-13",
        "blaum-roth-4+2-w4",
        "blaum-roth-6+2-w6",
        "blaum-roth-10+2-w10",
        "liberation-5+2-w5",
        "liberation-7+2-w7",
        "liberation-11+2-w11",
    ];
    with_optimum.chain(others.map(|code| (code.to_owned(), None))).collect()
}

fn run(bench: &Bench<'_>) -> Result<Results> {
    let known = &cases()[..bench.sized(cases().len(), 3)];
    let codes: Vec<Case> = known.iter().map(|(code, _)| all(code.as_str())).collect();
    let mut results = symbols::run(bench, &EXPERIMENT, "code", &codes)?;
    for (x, (_, least)) in known.iter().enumerate() {
        let conventional =
            results.summary(symbols::CONVENTIONAL, x as f64, SYMBOLS).map(|summary| summary.median);
        if let (Some(least), Some(conventional)) = (least, conventional) {
            let least = *least as f64;
            results.add(
                Label::rival(OPTIMUM),
                x as f64,
                sample([(SHARE, least / conventional), (SYMBOLS, least)]),
            );
        }
    }
    Ok(results)
}

fn compare(results: &Results) -> Vec<Comparison> {
    let cases = cases();
    let value =
        |method: &str, x: usize, measure: &str| Some(results.summary(method, x as f64, measure)?.median);
    let of = |family: &str, method: &'static str| {
        let of_family = (0..cases.len()).filter(|&x| cases[x].0.starts_with(family));
        let ratio = |x| Some(value(method, x, SYMBOLS)? / value(OPTIMUM, x, SYMBOLS)?);
        ends(of_family.filter_map(ratio).collect::<Vec<_>>()).1
    };
    let mut comparisons = Vec::new();
    for (family, name) in [("rdp", "RDP"), ("evenodd", "EVENODD"), ("xcode", "X-Code")] {
        for method in [REPLACE, EXACT] {
            let what = format!("{name}: {method} over the known optimum, the most of any p");
            comparisons.push(Comparison::times(what, of(family, method)).paper(1.0).at_most(1.0));
        }
    }
    let others = cases.iter().enumerate().filter(|(_, (_, least))| least.is_none()).map(|(x, _)| x);
    comparisons.push(
        Comparison::times(
            "HDP, Blaum-Roth, Liberation: replace over exact where that is proved, the most",
            replace_over_exact(results, others),
        )
        .at_most(1.01),
    );
    let all = |measure| symbols::values(results, EXACT, measure, cases.len());
    let proven = all(PROVEN);
    comparisons.push(Comparison::number("longest exact search, seconds", ends(all(SEARCH)).1).at_most(1.0));
    comparisons.push(Comparison::number(
        "part of the exact searches that proved their answer",
        (!proven.is_empty()).then(|| proven.iter().sum::<f64>() / proven.len() as f64),
    ));
    comparisons
}
