//! RapidRAID figure 4(b): sixteen objects at once.

use super::conversion::{ALL, Objects, RR8, RR16, SYSTEMATIC, network, own, results, saving, take_turns};
use super::{Bench, Experiment};
use crate::error::Result;
use crate::report::{Axis, Comparison, Results};

pub const EXPERIMENT: Experiment = Experiment {
    id: "rr-4b",
    title: "Archival of sixteen objects at once by (16,11) codes",
    paper: "RapidRAID, figure 4(b): as 4(a), sixteen objects at once: RapidRAID over GF(2^8) takes up to 20 % less time than classical \
            encoding; over GF(2^16) about half more where processor caches are small. Both send about n−1 blocks for each object.",
    must_show: "the paper's order, or better.",
    run,
    compare,
};

/// Of the paper.
const OBJECTS: usize = 16;

fn run(bench: &Bench<'_>) -> Result<Results> {
    network(bench).with(bench, |site| {
        let objects = Objects { count: OBJECTS, block_bytes: bench.sized(8 << 20, 1 << 20) };
        let axis = Axis::named("objects", ["sixteen"]);
        let mut results = results(site, &EXPERIMENT, objects, axis, bench.rounds(2, 1));
        take_turns(site, ALL, objects, (0.0, 0), &mut results)?;
        Ok(results)
    })
}

fn compare(results: &Results) -> Vec<Comparison> {
    let mut comparisons = vec![
        saving(results, RR8, 0.0).paper(0.8).at_most(1.0),
        saving(results, RR16, 0.0).paper(1.5),
        saving(results, SYSTEMATIC, 0.0),
    ];
    comparisons.extend([RR8, RR16, SYSTEMATIC].map(|name| own(results, name, 0.0)));
    comparisons
}
