//! RapidRAID figure 5(b): sixteen objects, while some hosts are congested.

use super::conversion::{Objects, RR8, TWO, network, results, saving, take_turns};
use super::rr_5a::{CONGESTED, NO_LATENCY};
use super::{Bench, Experiment};
use crate::error::Result;
use crate::report::{Axis, Comparison, Results};

pub const EXPERIMENT: Experiment = Experiment {
    id: "rr-5b",
    title: "Archival of sixteen objects while hosts are congested",
    paper: "RapidRAID, figure 5(b): as 5(a), sixteen objects at once, RapidRAID over GF(2^8): its time grows nearly linearly with the \
            congested nodes, the classical one's less evenly.",
    must_show: "with one congested host RapidRAID is still ahead.",
    run,
    compare,
};

fn run(bench: &Bench<'_>) -> Result<Results> {
    network(bench).with(bench, |site| {
        let objects = Objects { count: 16, block_bytes: bench.sized(4 << 20, 512 << 10) };
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
    let at = (0..CONGESTED.len() as u32).map(f64::from);
    at.map(|x| {
        let saved = saving(results, RR8, x);
        if x == 1.0 { saved.at_most(1.0) } else { saved }
    })
    .collect()
}
