//! RP Figure 11(a): ways to implement a chain, over the block size.

use super::stand::{DIRECT, Lineup, PIPELINE, Stand, StandSpec};
use super::{Bench, Experiment, Result, why};
use crate::report::{Axis, Comparison, Label, Ratio, Results};

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

const PIPE_B: &str = "pipe-b";
const PIPE_S: &str = "pipe-s";
const LABELS: [Label; 3] = [Label::subject(PIPELINE), Label::rival(PIPE_B), Label::rival(PIPE_S)];

/// The paper goes on to 256 MiB; Pipe-B at 64 MiB takes ten sends of a block already.
const BLOCKS: &[u64] = &[1 << 20, 4 << 20, 16 << 20, 64 << 20];

/// Of the paper's headline.
const HEADLINE: f64 = (64 << 20) as f64;

fn run(bench: &Bench<'_>) -> Result<Results> {
    let blocks = bench.sized(BLOCKS, &[1 << 20, 4 << 20]);
    let spec = StandSpec::usual(bench, 1000.0, blocks.iter().map(|&bytes| ("rs-10+4", bytes)).collect());
    let axis = Axis::bytes("block size");
    let lineup = Lineup::over_stripes(&spec, &axis, &LABELS);
    Stand::with(bench, &spec, |stand| {
        let mut results = stand.results(&EXPERIMENT, axis, bench.rounds(10, 2));
        results.log_y = true;
        results.ratios = Ratio::columns(&[PIPE_B, PIPE_S], &[DIRECT]);
        stand.take(&lineup, results)
    })
}

fn compare(results: &Results) -> Vec<Comparison> {
    // The same order is all that is asked for.
    let saving = |x: f64, against: &str, paper: Option<f64>| {
        let what = format!("pipeline at {} against {against}", results.x.text(x));
        why::saving(results, what, [PIPELINE, against], x, paper)
    };
    let smallest = BLOCKS[0] as f64;
    let serial = "pipe-s at 64 MiB against pipe-b".to_owned();
    vec![
        saving(HEADLINE, PIPE_B, Some(0.61 / 9.0)),
        saving(HEADLINE, PIPE_S, Some(0.57)),
        saving(smallest, PIPE_B, None),
        saving(smallest, PIPE_S, Some(0.589)),
        // Of the paper's ratio nothing is said: it lies beyond no bound of ours.
        why::saving(results, serial, [PIPE_S, PIPE_B], HEADLINE, None).paper(1.1 / 9.0),
    ]
}
