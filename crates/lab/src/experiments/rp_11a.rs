//! RP Figure 11(a): ways to implement a chain, over the block size.

use super::stand::{Contender, DIRECT, Label, Lineup, Stand, StandSpec};
use super::{Bench, Experiment, why};
use crate::error::LabError;
use crate::report::{Comparison, Form, Ratio, Results, Scale, Target};
use crate::testbed::LinkRate;

pub const EXPERIMENT: Experiment = Experiment {
    id: "rp-11a",
    title: "Ways to implement the chain, over the block size",
    paper: "repair pipelining, Figure 11(a); Pipe-B passes whole blocks on, Pipe-S takes the next slice only after the \
            successor has the last. At 64 MiB 9.0 s, 1.1 s, and 0.61 s for repair pipelining, which takes −41.1 … −43.0 % \
            against Pipe-S over all block sizes.",
    must_show: "the same order.",
    run,
    compare,
};

const PIPELINE: &str = "pipeline";
const PIPE_B: &str = "pipe-b";
const PIPE_S: &str = "pipe-s";
const CODE: &str = "rs-10+4";
const SLICE_BYTES: u32 = 32 << 10;

/// The paper goes on to 256 MiB; Pipe-B at 64 MiB takes ten sends of a block already.
const BLOCKS: &[u64] = &[1 << 20, 4 << 20, 16 << 20, 64 << 20];

/// Of the paper's headline.
const HEADLINE: f64 = (64 << 20) as f64;

fn run(bench: &Bench<'_>) -> Result<Results, LabError> {
    let blocks = bench.sized(BLOCKS, &[1 << 20, 4 << 20]);
    let spec = StandSpec {
        hosts: 17,
        rate: bench.rate.unwrap_or(LinkRate::mbit(1000.0)),
        stripes: blocks.iter().map(|&bytes| (CODE, bytes)).collect(),
    };
    let labels = [Label::subject(PIPELINE), Label::rival(PIPE_B), Label::rival(PIPE_S)];
    let mut lineup = Lineup::default();
    for (stripe, &bytes) in blocks.iter().enumerate() {
        for label in labels {
            lineup.add(label, bytes as f64, Contender::repair(stripe, label.name, SLICE_BYTES));
        }
        lineup.add(Label::bare(DIRECT), bytes as f64, Contender::Direct { bytes });
    }
    Stand::with(bench, &spec, |stand| {
        let mut results = stand.results(&EXPERIMENT, "block size", Scale::Bytes, bench.rounds(10, 2));
        results.setup.slice_bytes = Some(SLICE_BYTES.into());
        results.log_y = true;
        results.ratios = Ratio::savings(&[PIPE_B, PIPE_S]);
        results.ratios.push(Ratio::times(DIRECT));
        stand.take(&lineup, &mut results)?;
        Ok(results)
    })
}

fn compare(results: &Results) -> Vec<Comparison> {
    let saving = |x: f64, against: &str, paper: Option<f64>| Comparison {
        what: format!("pipeline at {} against {against}", results.x.text(x)),
        form: Form::Saving,
        paper,
        // The same order.
        target: Target::AtMost(1.0),
        ours: results.ratio(PIPELINE, against, x),
        why: why::ratio(results, PIPELINE, against, x, paper),
    };
    let smallest = BLOCKS[0] as f64;
    vec![
        saving(HEADLINE, PIPE_B, Some(0.61 / 9.0)),
        saving(HEADLINE, PIPE_S, Some(0.57)),
        saving(smallest, PIPE_B, None),
        saving(smallest, PIPE_S, Some(0.589)),
        Comparison {
            what: "pipe-s at 64 MiB against pipe-b".to_owned(),
            form: Form::Saving,
            paper: Some(1.1 / 9.0),
            target: Target::AtMost(1.0),
            ours: results.ratio(PIPE_S, PIPE_B, HEADLINE),
            why: why::ratio(results, PIPE_S, PIPE_B, HEADLINE, None),
        },
    ]
}
