//! XOR supplement, figure 6: recovery of a node's blocks with one and more stripes at once.

use super::xor_nodes::{CODES, FEWEST, FIRST_PARITY, Parallel, Workers, against_place, place, saving};
use super::{Bench, Experiment, Result};
use crate::report::{Comparison, Results};

pub const EXPERIMENT: Experiment = Experiment {
    id: "xor-6",
    title: "Recovery of a node with XOR codes over the stripes at once",
    paper: "XOR supplement, figure 6; RDP(13), STAR(13), CRS(12,4), chunks of 512 KB, stripe-oriented threads in one server of four \
            cores. Replace recovery −25.7 … −28.7 % against conventional recovery for STAR, −15.3 … −18.6 % for CRS with more than one \
            thread. Four threads −61 % (conventional) and −64 % (replace) for CRS; beyond, little.",
    must_show: "the fewest symbols take at least 25 % less time for STAR, 15 % for CRS, with any number of stripes at once. What more stripes \
                at once bring is reported: one flow fills the requestor's link already.",
    run,
    compare,
};

const THREADS: [Workers; 4] = [
    Workers { name: "1 at once", servers: 1, stripes: 1 },
    Workers { name: "2 at once", servers: 1, stripes: 2 },
    Workers { name: "4 at once", servers: 1, stripes: 4 },
    Workers { name: "8 at once", servers: 1, stripes: 8 },
];

fn run(bench: &Bench<'_>) -> Result<Results> {
    Parallel { experiment: &EXPERIMENT, workers: &THREADS, link_mbit: 1000.0, stripes: 8 }.run(bench)
}

fn compare(results: &Results) -> Vec<Comparison> {
    // What must be saved, and the paper's savings where they are least and most.
    let saved = [(1.0, None), (0.75, Some((0.743, 0.713))), (0.85, Some((0.847, 0.814)))];
    let mut comparisons = Vec::new();
    for (code, (at_most, paper)) in CODES.into_iter().zip(saved) {
        let places: Vec<f64> =
            THREADS.iter().filter_map(|workers| place(results, code, workers.name)).collect();
        let by_saving = |a: &&f64, b: &&f64| {
            let saving = |x: f64| results.ratio(FEWEST, FIRST_PARITY, x).unwrap_or(f64::NAN);
            saving(**a).total_cmp(&saving(**b))
        };
        let least =
            places.iter().max_by(by_saving).map(|&x| saving(results, x, paper.map(|range| range.0), at_most));
        let most =
            places.iter().min_by(by_saving).map(|&x| saving(results, x, paper.map(|range| range.1), at_most));
        comparisons.extend(least.into_iter().chain(most));
        let (Some(one), Some(four)) = (places.first(), places.get(2)) else { continue };
        let paper = (code.name == "CRS(12,4)").then_some([0.36, 0.39]);
        for (i, series) in [FEWEST, FIRST_PARITY].into_iter().enumerate() {
            comparisons.push(against_place(results, series, *four, *one, paper.map(|both| both[i])));
        }
    }
    comparisons
}
