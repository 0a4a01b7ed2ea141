//! PPR Figure 7(b): what PPR saves of the repair time of RS (12,4), over the chunk size.

use super::ppr::{CODES, CONVENTIONAL, PIPELINE, PPR, PPR_SLICED, SLICE_BYTES, grows, saving};
use super::stand::{Contender, DIRECT, Label, Lineup, Stand, StandSpec};
use super::{Bench, Experiment, why};
use crate::error::LabError;
use crate::report::{Comparison, Ratio, Results, Scale};
use crate::testbed::LinkRate;

pub const EXPERIMENT: Experiment = Experiment {
    id: "ppr-7b",
    title: "PPR against traditional repair of RS (12,4), over the chunk size",
    paper: "PPR, Figure 7(b); chunks of 8 to 96 MB: −53 % at 8 MB, −57 % at 96 MB.",
    must_show: "at least as much as the paper at both ends, the limit being ⌈log2(13)⌉/12 = −66.7 %; every scheme within \
                10 % of its own bound at the largest chunk.",
    run,
    compare,
};

const SIZES: &[u64] = &[8 << 20, 16 << 20, 32 << 20, 64 << 20, 96 << 20];

fn run(bench: &Bench<'_>) -> Result<Results, LabError> {
    let code = CODES[3];
    let sizes = bench.sized(SIZES, &[1 << 20, 8 << 20]);
    let spec = StandSpec {
        hosts: 17,
        rate: bench.rate.unwrap_or(LinkRate::mbit(1000.0)),
        stripes: sizes.iter().map(|&bytes| (code.name, bytes)).collect(),
    };
    let labels =
        [Label::subject(PPR), Label::rival(CONVENTIONAL), Label::rival(PPR_SLICED), Label::rival(PIPELINE)];
    let mut lineup = Lineup::default();
    for (stripe, &bytes) in sizes.iter().enumerate() {
        for label in labels {
            lineup.add(label, bytes as f64, Contender::repair(stripe, label.name, SLICE_BYTES));
        }
        lineup.add(Label::bare(DIRECT), bytes as f64, Contender::Direct { bytes });
    }
    Stand::with(bench, &spec, |stand| {
        let mut results = stand.results(&EXPERIMENT, "chunk size", Scale::Bytes, bench.rounds(4, 1));
        results.setup.slice_bytes = Some(SLICE_BYTES.into());
        results.log_y = true;
        results.ratios = Ratio::savings(&[CONVENTIONAL]);
        results.ratios.push(Ratio::times(DIRECT));
        stand.take(&lineup, &mut results)?;
        Ok(results)
    })
}

fn compare(results: &Results) -> Vec<Comparison> {
    let Some(ours) = results.series(PPR) else { return Vec::new() };
    let ends = ours.points.first().zip(ours.points.last()).map(|(first, last)| (first.x, last.x));
    let Some((small, large)) = ends else { return Vec::new() };
    let mut comparisons =
        vec![saving(results, CODES[3].k, small, Some(0.47)), saving(results, CODES[3].k, large, Some(0.43))];
    comparisons.push(grows(
        results,
        "what ppr leaves with the largest chunk, against the smallest".to_owned(),
        (small, large),
    ));
    let schemes = [PPR, CONVENTIONAL, PPR_SLICED, PIPELINE];
    comparisons.extend(schemes.map(|name| why::own_bound(results, name, large)));
    comparisons
}
