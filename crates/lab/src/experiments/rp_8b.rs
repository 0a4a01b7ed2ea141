//! RP Figure 8(b): repair time of one block over the block size.

use super::stand::{Contender, DIRECT, Label, Lineup, Stand, StandSpec};
use super::{Bench, Experiment, why};
use crate::error::LabError;
use crate::report::{Comparison, Form, Ratio, Results, Scale, Target};
use crate::testbed::LinkRate;

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

const PIPELINE: &str = "pipeline";
const CONVENTIONAL: &str = "conventional";
const PPR: &str = "ppr";
const PPR_SLICED: &str = "ppr-sliced";
const CODE: &str = "rs-10+4";

const SLICE_BYTES: u32 = 32 << 10;

const BLOCKS: &[u64] = &[1 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20];

/// The size that the other experiments have.
const HEADLINE: f64 = (64 << 20) as f64;

/// (against, the paper's least saving, its most), as ratios of times.
const RANGES: [(&str, f64, f64); 2] = [(CONVENTIONAL, 0.112, 0.084), (PPR, 0.340, 0.082)];

fn run(bench: &Bench<'_>) -> Result<Results, LabError> {
    let blocks = bench.sized(BLOCKS, &[1 << 20, 4 << 20]);
    let spec = StandSpec {
        hosts: 17,
        rate: bench.rate.unwrap_or(LinkRate::mbit(1000.0)),
        stripes: blocks.iter().map(|&bytes| (CODE, bytes)).collect(),
    };
    let labels =
        [Label::subject(PIPELINE), Label::rival(CONVENTIONAL), Label::rival(PPR), Label::rival(PPR_SLICED)];
    let mut lineup = Lineup::default();
    for (stripe, &bytes) in blocks.iter().enumerate() {
        for label in labels {
            lineup.add(label, bytes as f64, Contender::repair(stripe, label.name, SLICE_BYTES));
        }
        lineup.add(Label::bare(DIRECT), bytes as f64, Contender::Direct { bytes });
    }
    Stand::with(bench, &spec, |stand| {
        let mut results = stand.results(&EXPERIMENT, "block size", Scale::Bytes, bench.rounds(3, 2));
        results.setup.slice_bytes = Some(SLICE_BYTES.into());
        results.log_y = true;
        results.ratios = Ratio::savings(&[CONVENTIONAL, PPR, PPR_SLICED]);
        results.ratios.push(Ratio::times(DIRECT));
        stand.take(&lineup, &mut results)?;
        Ok(results)
    })
}

fn compare(results: &Results) -> Vec<Comparison> {
    let Some(ours) = results.series(PIPELINE) else { return Vec::new() };
    let sizes: Vec<f64> = ours.points.iter().map(|point| point.x).collect();
    let mut comparisons = Vec::new();
    for (against, least, most) in RANGES {
        let of = |x: &f64| results.ratio(PIPELINE, against, *x).unwrap_or(f64::NAN);
        let end = |largest: bool| {
            let sorted =
                sizes.iter().copied().reduce(|a, b| if (of(&a) > of(&b)) == largest { a } else { b });
            sorted.unwrap_or(HEADLINE)
        };
        for (x, which, paper, target) in
            [(end(true), "least", least, Target::AtMost(least)), (end(false), "most", most, Target::None)]
        {
            comparisons.push(Comparison {
                what: format!("pipeline against {against} where it saves {which}, at {}", results.x.text(x)),
                form: Form::Saving,
                paper: Some(paper),
                target,
                ours: results.ratio(PIPELINE, against, x),
                why: why::ratio(results, PIPELINE, against, x, Some(paper)),
            });
        }
    }
    let schemes = [PIPELINE, CONVENTIONAL, PPR, PPR_SLICED];
    comparisons.extend(schemes.map(|name| why::own_bound(results, name, HEADLINE)));
    comparisons
}
