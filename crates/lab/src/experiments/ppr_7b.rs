//! PPR Figure 7(b): what PPR saves of the repair time of RS (12,4), over the chunk size.

use super::ppr::{CODES, grows, saving};
use super::stand::{CONVENTIONAL, DIRECT, Lineup, PIPELINE, PPR, PPR_SLICED, Stand, StandSpec};
use super::{Bench, Experiment, Result, why};
use crate::report::{Axis, Comparison, Label, Ratio, Results};

pub const EXPERIMENT: Experiment = Experiment {
    id: "ppr-7b",
    title: "PPR against traditional repair of RS (12,4), over the chunk size",
    paper: "PPR, Figure 7(b); chunks of 8 to 96 MB: −53 % at 8 MB, −57 % at 96 MB.",
    must_show: "at least as much as the paper at both ends, the limit being ⌈log2(13)⌉/12 = −66.7 %; every scheme within \
                10 % of its own bound at the largest chunk.",
    run,
    compare,
};

const LABELS: [Label; 4] =
    [Label::subject(PPR), Label::rival(CONVENTIONAL), Label::rival(PPR_SLICED), Label::rival(PIPELINE)];

const SIZES: &[u64] = &[8 << 20, 16 << 20, 32 << 20, 64 << 20, 96 << 20];

fn run(bench: &Bench<'_>) -> Result<Results> {
    let sizes = bench.sized(SIZES, &[1 << 20, 8 << 20]);
    let spec = StandSpec::usual(bench, 1000.0, sizes.iter().map(|&bytes| (CODES[3].name, bytes)).collect());
    let axis = Axis::bytes("chunk size");
    let lineup = Lineup::over_stripes(&spec, &axis, &LABELS);
    Stand::with(bench, &spec, |stand| {
        let mut results = stand.results(&EXPERIMENT, axis, bench.rounds(4, 1));
        results.log_y = true;
        results.ratios = Ratio::columns(&[CONVENTIONAL], &[DIRECT]);
        stand.take(&lineup, results)
    })
}

fn compare(results: &Results) -> Vec<Comparison> {
    let Some(ours) = results.series(PPR) else { return Vec::new() };
    let ends = ours.points.first().zip(ours.points.last()).map(|(first, last)| (first.x, last.x));
    let Some((small, large)) = ends else { return Vec::new() };
    let what = "what ppr leaves with the largest chunk, against the smallest";
    let mut comparisons = vec![
        saving(results, CODES[3].k, small, Some(0.47)),
        saving(results, CODES[3].k, large, Some(0.43)),
        grows(results, what, (small, large)),
    ];
    comparisons.extend(why::own_bounds(results, &[PPR, CONVENTIONAL, PPR_SLICED, PIPELINE], large));
    comparisons
}
