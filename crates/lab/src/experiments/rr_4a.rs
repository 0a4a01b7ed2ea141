//! RapidRAID figure 4(a): one object.

use super::conversion::{
    ALL, CLASSICAL, Objects, RR8, RR16, SYSTEMATIC, network, own, results, saving, take_turns,
};
use super::{Bench, Experiment};
use crate::error::Result;
use crate::report::{Axis, Comparison, Results};

pub const EXPERIMENT: Experiment = Experiment {
    id: "rr-4a",
    title: "Archival of one object by (16,11) codes",
    paper: "RapidRAID, figure 4(a): 50 thin clients at 1 Gb/s, blocks of 64 MB, (16,11): RapidRAID takes up to 90 % less time than \
            classical encoding.",
    must_show: "RapidRAID over either field at least 85 % faster than the classical archival, and within a tenth of its own bound.",
    run,
    compare,
};

fn run(bench: &Bench<'_>) -> Result<Results> {
    network(bench).with(bench, |site| {
        let objects = Objects { count: 1, block_bytes: bench.sized(32 << 20, 4 << 20) };
        let axis = Axis::named("objects", ["one"]);
        let mut results = results(site, &EXPERIMENT, objects, axis, bench.rounds(3, 1));
        take_turns(site, ALL, objects, (0.0, 0), &mut results)?;
        Ok(results)
    })
}

fn compare(results: &Results) -> Vec<Comparison> {
    let mut comparisons: Vec<Comparison> =
        [RR8, RR16].map(|name| saving(results, name, 0.0).paper(0.1).at_most(0.15)).into();
    comparisons.push(saving(results, SYSTEMATIC, 0.0));
    comparisons.extend([RR8, RR16].map(|name| own(results, name, 0.0).at_most(1.1)));
    comparisons.extend([SYSTEMATIC, CLASSICAL].map(|name| own(results, name, 0.0)));
    comparisons
}
