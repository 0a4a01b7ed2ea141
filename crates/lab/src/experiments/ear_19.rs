//! EAR figure 19: how evenly racks are read.

use super::on_paper::{EAR, Placement, RR, record};
use super::{Bench, Experiment};
use crate::error::Result;
use crate::report::{Axis, Comparison, Label, Measure, Ratio, Results, Unit, sample};

pub const EXPERIMENT: Experiment = Experiment {
    id: "ear-19",
    title: "The hottest rack's share of reads (H), by the length of the file",
    paper: "EAR, figure 19 (§5.3, experiment 9): H of RR and EAR almost identical for files of 10 to 10,000 blocks.",
    must_show: "H of EAR equal to that of RR within 2 % in the same run.",
    run,
    compare,
};

/// The hottest rack's part of all reads.
const HOTNESS: &str = "hotness";

/// Blocks of the file, and runs that a sample averages.
const FILES: [(usize, u64); 4] = [(10, 1_000), (100, 1_000), (1_000, 1_000), (10_000, 100)];

/// The strictest capacity, under which the policies differ most.
const C: usize = 1;

fn run(bench: &Bench<'_>) -> Result<Results> {
    let x = Axis::named("blocks of the file", FILES.map(|(blocks, _)| blocks));
    let y = Measure::new(HOTNESS, "H", Unit::Percent);
    let rounds = bench.rounds(3, 1);
    let mut results = record(bench, &EXPERIMENT, rounds, x, y);
    results.ratios = Ratio::columns(&[], &[RR]);
    results.notes.push(format!(
        "RS(14,10), 20 racks of 20 nodes, three replicas in two racks, c = {C}. A sample is the average over {} runs, for the \
         longest file {}.",
        bench.sized(FILES[0].1, FILES[0].1 / 20),
        bench.sized(FILES[3].1, FILES[3].1 / 20)
    ));
    for round in 0..rounds as u64 {
        for (x, (blocks, runs)) in (0..).map(f64::from).zip(FILES) {
            (bench.say)(&format!("round {} of {rounds}: {blocks} blocks", round + 1));
            for (label, policy) in [(Label::subject(EAR), "ear"), (Label::rival(RR), "random")] {
                let runs = bench.sized(runs, runs / 20);
                let report = Placement::facebook(policy, C).try_out(blocks, runs, round * runs + 1)?;
                results.add(label, x, sample([(HOTNESS, report.hotness)]));
            }
        }
    }
    Ok(results)
}

fn compare(results: &Results) -> Vec<Comparison> {
    let hotness = |name: &str, x: f64| results.median(name, x);
    let of_file = |(x, (blocks, _)): (f64, (usize, u64))| {
        let times = hotness(EAR, x).zip(hotness(RR, x)).map(|(ear, rr)| ear / rr);
        let what = format!("files of {blocks} blocks: H of EAR against RR, as part of it apart");
        Comparison::times(what, times.map(|times| (times - 1.0).abs())).at_most(0.02)
    };
    (0..).map(f64::from).zip(FILES).map(of_file).collect()
}
