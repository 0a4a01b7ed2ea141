//! EAR figure 18: how evenly racks are filled.

use super::on_paper::{Placement, RACKS, RR, record};
use super::{Bench, Experiment};
use crate::error::Result;
use crate::report::{Axis, Comparison, Label, Measure, Ratio, Results, Unit, sample};

pub const EXPERIMENT: Experiment = Experiment {
    id: "ear-18",
    title: "Share of all replicas in each rack, the fullest first",
    paper: "EAR, figure 18 (§5.3, experiment 8): 1,000 blocks over 20 racks of 20 nodes, 4.1 to 5.9 % in each rack, sorted, under RR \
            and EAR alike.",
    must_show: "EAR within 0.1 point of RR rank by rank in the same run.",
    run,
    compare,
};

/// Part of all replicas.
const SHARE: &str = "share";

const BLOCKS: usize = 1_000;
const RUNS: u64 = 1_000;

/// By how many blocks of a stripe one rack may hold; the paper does not say which it drew.
const EARS: [(&str, usize); 3] = [("ear, c = 1", 1), ("ear, c = 2", 2), ("ear, c = 4", 4)];

/// A point is a hundredth of everything.
const POINT: f64 = 0.01;

fn run(bench: &Bench<'_>) -> Result<Results> {
    let x = Axis::named("rank of the rack", 1..=RACKS);
    let y = Measure::new(SHARE, "share of all replicas", Unit::Percent);
    let rounds = bench.rounds(3, 1);
    let mut results = record(bench, &EXPERIMENT, rounds, x, y);
    results.ratios = Ratio::columns(&[], &[RR]);
    let runs = bench.sized(RUNS, RUNS / 20);
    results.notes.push(format!(
        "RS(14,10), three replicas in two racks. A sample is the average over {runs} runs of {BLOCKS} blocks, sorted in each run."
    ));
    for round in 0..rounds as u64 {
        let subjects = EARS.map(|(name, c)| (Label::subject(name), Placement::facebook("ear", c)));
        let rr = (Label::rival(RR), Placement::facebook("random", 1));
        for (label, placement) in subjects.into_iter().chain([rr]) {
            (bench.say)(&format!("round {} of {rounds}: {}", round + 1, label.name));
            let report = placement.try_out(BLOCKS, runs, round * RUNS + 1)?;
            for (x, share) in (0..).map(f64::from).zip(&report.rack_share) {
                results.add(label, x, sample([(SHARE, *share)]));
            }
        }
    }
    Ok(results)
}

fn compare(results: &Results) -> Vec<Comparison> {
    let share = |name: &str, rank: u32| results.median(name, f64::from(rank));
    let widest = |name: &str| {
        let apart = (0..RACKS).filter_map(|rank| Some((share(name, rank)? - share(RR, rank)?).abs() / POINT));
        apart.reduce(f64::max)
    };
    let mut comparisons: Vec<Comparison> = EARS
        .map(|(name, c)| {
            let what = format!("EAR and RR, c = {c}: points apart at the rank where most");
            let even = if c == 1 {
                "EAR is the more even one: with one block of a stripe in a rack, further replicas of a stripe lie in different racks"
            } else {
                ""
            };
            Comparison::times(what, widest(name)).at_most(0.1).why(even)
        })
        .into();
    let ends = [("fullest", 0, 5.9), ("emptiest", RACKS - 1, 4.1)];
    comparisons.extend(ends.map(|(which, rank, paper)| {
        let what = format!("the {which} rack under RR, percent of all replicas");
        Comparison::times(what, share(RR, rank).map(|share| share / POINT)).paper(paper)
    }));
    comparisons
}
