//! EAR figure 3: how often blocks would have to be relocated if replicas only shared a core rack.

use super::on_paper::{Placement, record};
use super::{Bench, Experiment};
use crate::error::Result;
use crate::report::{Axis, Comparison, Label, Measure, Ratio, Results, Unit, sample};
use plan::placement::ear_preliminary::violation_probability;

pub const EXPERIMENT: Experiment = Experiment {
    id: "ear-3",
    title: "Stripes that encoding would have to relocate blocks of, with a core rack alone",
    paper: "EAR, figure 3 and equation (1): of stripes whose replicas share a core rack and are drawn otherwise, 0.97 violate \
            rack-level fault tolerance at k = 12 and 16 racks, with one block of a stripe in a rack.",
    must_show: "ours, counted, within a point of equation (1); 0.97 at k = 12 and 16 racks; none with ear.",
    run,
    compare,
};

const COUNTED: &str = "ear-preliminary, counted";
const EQUATION: &str = "equation (1)";
const WITH_EAR: &str = "ear, counted";

/// Part of the stripes.
const VIOLATING: &str = "violating";

/// Codes and numbers of data blocks, as the paper has them: k and four parities.
const CODES: [(&str, usize); 4] = [("rs-6+4", 6), ("rs-8+4", 8), ("rs-10+4", 10), ("rs-12+4", 12)];
const RACKS: [u32; 4] = [16, 20, 30, 40];
const NODES_PER_RACK: u32 = 20;

/// Stripes of a sample: the standard error of a part is half a point at most.
const STRIPES: usize = 10_000;

/// The pair that the paper's text names.
const HEADLINE: (usize, u32) = (12, 16);

fn cases() -> impl Iterator<Item = (f64, &'static str, usize, u32)> {
    let pairs = CODES.into_iter().flat_map(|(code, k)| RACKS.map(|racks| (code, k, racks)));
    (0..).map(f64::from).zip(pairs).map(|(x, (code, k, racks))| (x, code, k, racks))
}

fn run(bench: &Bench<'_>) -> Result<Results> {
    let x = Axis::named("k, racks", cases().map(|(_, _, k, racks)| format!("{k}, {racks}")));
    let y = Measure::new(VIOLATING, "violating stripes", Unit::Percent);
    let rounds = bench.rounds(3, 1);
    let mut results = record(bench, &EXPERIMENT, rounds, x, y);
    results.ratios = Ratio::columns(&[], &[EQUATION]);
    let stripes = bench.sized(STRIPES, STRIPES / 20);
    results.notes.push(format!(
        "Three replicas in two racks, {NODES_PER_RACK} nodes in each, c = 1; {stripes} stripes a sample, another seed each time."
    ));
    for round in 0..rounds as u64 {
        for (x, code, k, racks) in cases() {
            (bench.say)(&format!("round {} of {rounds}: k = {k}, {racks} racks", round + 1));
            for (label, policy) in
                [(Label::subject(COUNTED), "ear-preliminary"), (Label::subject(WITH_EAR), "ear")]
            {
                let placement = Placement { policy, code, c: 1, racks, nodes_per_rack: NODES_PER_RACK };
                let totals = placement.try_out(stripes * k, 1, round + 1)?.stripes;
                let part = totals.per_stripe(totals.violating);
                results.add(label, x, sample([(VIOLATING, part)]));
            }
            let expected = violation_probability(racks as usize, k);
            results.add(Label::rival(EQUATION), x, sample([(VIOLATING, expected)]));
        }
    }
    Ok(results)
}

fn compare(results: &Results) -> Vec<Comparison> {
    let part = |name: &str, x: f64| results.median(name, x);
    let apart = cases().filter_map(|(x, ..)| Some((part(COUNTED, x)? - part(EQUATION, x)?).abs()));
    let widest = apart.reduce(f64::max);
    let with_ear = cases().filter_map(|(x, ..)| part(WITH_EAR, x)).reduce(f64::max);
    let headline =
        cases().find(|(_, _, k, racks)| (*k, *racks) == HEADLINE).and_then(|(x, ..)| part(COUNTED, x));
    vec![
        Comparison::times("counted against equation (1), the widest apart, as part of the stripes", widest)
            .at_most(0.01),
        Comparison::times("counted at k = 12 and 16 racks, part of the stripes", headline)
            .paper(0.97)
            .at_least(0.96),
        Comparison::times("with ear, part of the stripes, the most anywhere", with_ear).at_most(0.0),
    ]
}
