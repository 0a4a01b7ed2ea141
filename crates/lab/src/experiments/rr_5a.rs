//! RapidRAID figure 5(a): one object, while some hosts are congested.

use super::conversion::{CLASSICAL, Objects, RR8, TWO, network, results, saving, take_turns};
use super::{Bench, Experiment};
use crate::error::Result;
use crate::report::{Axis, Comparison, Results};

pub const EXPERIMENT: Experiment = Experiment {
    id: "rr-5a",
    title: "Archival of one object while hosts are congested",
    paper: "RapidRAID, figure 5(a): 0 to 16 of the nodes at half of the rate and with 100 ± 10 ms more latency. The classical archival is \
            hit by a single one; RapidRAID's time grows nearly linearly.",
    must_show: "with one congested host RapidRAID is still ahead.",
    run,
    compare,
};

/// Hosts at half of the rate.
pub const CONGESTED: [usize; 5] = [0, 1, 2, 4, 8];

/// What is left out of the paper's congestion.
pub const NO_LATENCY: &str = "Congested hosts have half of the others' rate in each direction, the first ones, among them the coordinator's; \
                              latency is as it was: the kernel of the record has no queue that delays packets.";

fn run(bench: &Bench<'_>) -> Result<Results> {
    network(bench).with(bench, |site| {
        let objects = Objects { count: 1, block_bytes: bench.sized(16 << 20, 2 << 20) };
        let axis = Axis::named("congested hosts", CONGESTED);
        let mut results = results(site, &EXPERIMENT, objects, axis, bench.rounds(2, 1));
        results.notes.push(NO_LATENCY.to_owned());
        for (x, congested) in (0..).map(f64::from).zip(CONGESTED) {
            take_turns(site, TWO, objects, (x, congested), &mut results)?;
        }
        Ok(results)
    })
}

fn compare(results: &Results) -> Vec<Comparison> {
    let mut comparisons = Vec::new();
    for x in (0..CONGESTED.len() as u32).map(f64::from) {
        let saved = saving(results, RR8, x);
        comparisons.push(if x == 1.0 { saved.at_most(1.0) } else { saved });
        let over = |name: &str| Some(results.median(name, x)? / results.median(name, 0.0)?);
        if x > 0.0 {
            for name in [CLASSICAL, RR8] {
                let what = format!("{name}: {} against none", results.x.text(x));
                comparisons.push(Comparison::times(what, over(name)));
            }
        }
    }
    comparisons
}
