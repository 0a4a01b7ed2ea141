//! RP Figure 8(b): repair time of one block over the block size.

use super::stand::{CONVENTIONAL, DIRECT, Lineup, PIPELINE, PPR, PPR_SLICED, SCHEMES, Stand, StandSpec};
use super::{Bench, Experiment, Result, why};
use crate::report::{Axis, Comparison, Ratio, Results};

pub const EXPERIMENT: Experiment = Experiment {
    id: "rp-8b",
    title: "Single-block repair time over the block size",
    paper: "repair pipelining, Figure 8(b); RS(14,10), blocks of 1 to 256 MiB: −88.8…−91.6 % against conventional repair, \
            −66.0…−91.8 % against PPR (no more than 75 % is possible; the last figure is probably a misprint).",
    must_show: "at least −88.8 % against conventional repair and −66.0 % against PPR at every block size; every scheme \
                within 10 % of its own bound at 64 MiB.",
    run,
    compare,
};

const BLOCKS: &[u64] = &[1 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20];

/// The size that the other experiments have.
const HEADLINE: f64 = (64 << 20) as f64;

/// (against, the paper's least saving, its most), as ratios of times.
const RANGES: [(&str, f64, f64); 2] = [(CONVENTIONAL, 0.112, 0.084), (PPR, 0.340, 0.082)];

fn run(bench: &Bench<'_>) -> Result<Results> {
    let blocks = bench.sized(BLOCKS, &[1 << 20, 4 << 20]);
    let spec = StandSpec::usual(bench, 1000.0, blocks.iter().map(|&bytes| ("rs-10+4", bytes)).collect());
    let axis = Axis::bytes("block size");
    let lineup = Lineup::over_stripes(&spec, &axis, &SCHEMES);
    Stand::with(bench, &spec, |stand| {
        let mut results = stand.results(&EXPERIMENT, axis, bench.rounds(3, 2));
        results.log_y = true;
        results.ratios = Ratio::columns(&[CONVENTIONAL, PPR, PPR_SLICED], &[DIRECT]);
        stand.take(&lineup, results)
    })
}

fn compare(results: &Results) -> Vec<Comparison> {
    let Some(ours) = results.series(PIPELINE) else { return Vec::new() };
    let sizes: Vec<f64> = ours.points.iter().map(|point| point.x).collect();
    let mut comparisons = Vec::new();
    for (against, least, most) in RANGES {
        comparisons.extend(why::savings(results, [PIPELINE, against], &sizes, "at", Some((least, most))));
    }
    comparisons.extend(why::own_bounds(results, &[PIPELINE, CONVENTIONAL, PPR, PPR_SLICED], HEADLINE));
    comparisons
}
