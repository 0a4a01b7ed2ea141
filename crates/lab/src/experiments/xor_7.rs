//! XOR supplement, figure 7: recovery of a node's blocks by one and by two servers.

use super::xor_nodes::{CODES, FEWEST, FIRST_PARITY, Parallel, Workers, against_place, place, saving};
use super::{Bench, Experiment, Result};
use crate::report::{Comparison, Results};

pub const EXPERIMENT: Experiment = Experiment {
    id: "xor-7",
    title: "Recovery of a node with XOR codes by one and by two requestors",
    paper: "XOR supplement, figure 7; as figure 6, a dispatcher that hands eight groups of stripes to one executor of four threads, or to two \
            of four each, on completion. Two executors −24.4, −22.0, −19.82 % (replace; RDP, STAR, CRS) against one; with two, replace recovery \
            −25.3, −28.0, −21.50 % against conventional recovery.",
    must_show: "two requestors take nearly half the time of one, for each receives half of the bytes; with two the fewest symbols save as much as \
                of the bytes.",
    run,
    compare,
};

const ONE: Workers = Workers { name: "one requestor", servers: 1, stripes: 4 };
const TWO: Workers = Workers { name: "two requestors", servers: 2, stripes: 8 };

fn run(bench: &Bench<'_>) -> Result<Results> {
    Parallel { experiment: &EXPERIMENT, workers: &[ONE, TWO], link_mbit: 500.0, stripes: 16 }.run(bench)
}

fn compare(results: &Results) -> Vec<Comparison> {
    // Two against one; the fewest symbols against the first parity's.
    let papers = [(0.756, 0.747), (0.78, 0.72), (0.8018, 0.785)];
    let at_most = [1.0, 0.75, 0.85];
    let mut comparisons = Vec::new();
    for ((code, (servers, symbols)), at_most) in CODES.into_iter().zip(papers).zip(at_most) {
        let (Some(one), Some(two)) = (place(results, code, ONE.name), place(results, code, TWO.name)) else {
            continue;
        };
        comparisons.push(against_place(results, FEWEST, two, one, Some(servers)).at_most(0.6));
        comparisons.push(against_place(results, FIRST_PARITY, two, one, None));
        comparisons.push(saving(results, two, Some(symbols), at_most));
    }
    comparisons
}
