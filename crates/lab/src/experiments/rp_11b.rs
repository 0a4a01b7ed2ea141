//! RP Figure 11(b): implementations of repair pipelining in the recovery of a whole node, over the block size.

use super::stand::{DIRECT, Stand};
use super::whole_node::{LOST, NodeSpec, Order, beside_bound, bound, rates};
use super::{Bench, Experiment};
use crate::error::{Result, bad};
use crate::report::{Axis, Comparison, Label, Results, Target};
use model::NodeId;

pub const EXPERIMENT: Experiment = Experiment {
    id: "rp-11b",
    title: "Implementations of repair pipelining in the recovery of a whole node",
    paper: "repair pipelining, Figure 11(b); 4 TiB lost of 16 helpers, RS(14,10), 1 Gb/s, blocks of 1 to 64 MiB. Pipe-Rep and \
            Pipe-Sur (PUSH) forward whole blocks, into one node or all in turn; RP-single and RP-all slices, with greedy \
            scheduling and 16 requestors. At 64 MiB RP-single +80.2 % over Pipe-Rep, RP-all +268.1 % over Pipe-Sur and \
            +58.1 % over RP-single; at 1 MiB Pipe-Rep and Pipe-Sur ahead by 9.0 and 9.7 %.",
    must_show: "the same order at the largest block.",
    run,
    compare,
};

const PIPE_REP: &str = "Pipe-Rep";
const PIPE_SUR: &str = "Pipe-Sur";
const RP_SINGLE: &str = "RP-single";
const RP_ALL: &str = "RP-all";

/// Series, scheme, assignment, and whether all requestors receive.
const CONTENDERS: [(Label, &str, &str, bool); 4] = [
    (Label::subject(RP_ALL), "pipeline", "least-recent", true),
    (Label::subject(RP_SINGLE), "pipeline", "least-recent", false),
    (Label::rival(PIPE_SUR), "pipe-b", "lowest-index", true),
    (Label::rival(PIPE_REP), "pipe-b", "lowest-index", false),
];

/// Repairs at once, of every scheme: the paper's 16 requestors.
const PARALLEL: u32 = 16;

/// Bytes of a block, and stripes: about 64 MiB lost of each size.
const SIZES: &[(u64, usize)] = &[(256 << 10, 312), (1 << 20, 78), (4 << 20, 20), (16 << 20, 5)];
const QUICK_SIZES: &[(u64, usize)] = &[(256 << 10, 12)];

fn run(bench: &Bench<'_>) -> Result<Results> {
    let mut results: Option<Results> = None;
    for &(block_bytes, stripes) in bench.sized(SIZES, QUICK_SIZES) {
        let spec = NodeSpec {
            holders: bench.sized(17, 8),
            requestors: bench.sized(16, 4),
            rate: bench.rate_or(200.0),
            code: bench.sized("rs-10+4", "rs-4+2"),
            block_bytes,
            stripes,
        };
        spec.stand(bench, |stand| {
            let mut record = results.take().unwrap_or_else(|| empty(stand, &spec));
            record.notes.push(format!(
                "{} blocks of {} lost of {stripes} stripes.",
                stand.lost(&[LOST], &stand.spares)?.len(),
                record.x.text(block_bytes as f64)
            ));
            measure(stand, block_bytes, &mut record)?;
            results = Some(record);
            Ok(())
        })?;
    }
    results.ok_or_else(|| bad("no block size"))
}

fn empty(stand: &Stand<'_>, spec: &NodeSpec) -> Results {
    let mut record = spec.results(stand, &EXPERIMENT, Axis::bytes("block size"), stand.bench.rounds(2, 1));
    record.setup.block_bytes = None;
    record.notes.push(format!(
        "Scaled down from 4 TiB at 1 Gb/s. Pipe-Rep and Pipe-Sur take the helpers of the lowest indexes, RP-single and \
         RP-all the least recently selected; {PARALLEL} stripes at once, of each. Requestors hold no blocks and stand on \
         hosts of their own. Bounds are those of chains streamed in slices, RP-all and RP-single."
    ));
    record
}

fn measure(stand: &Stand<'_>, block_bytes: u64, results: &mut Results) -> Result<()> {
    let x = block_bytes as f64;
    let receivers = |all: bool| -> &[NodeId] { if all { &stand.spares } else { &stand.spares[..1] } };
    let order = |scheme, assign, all| Order {
        requestors: receivers(all).to_vec(),
        parallel: PARALLEL,
        ..Order::new(scheme, assign)
    };
    let turns = CONTENDERS.map(|(label, scheme, assign, all)| (label, x, order(scheme, assign, all)));
    let warm_up = order("pipeline", "balanced", true);
    stand.take_recoveries(&warm_up, (Label::bare(DIRECT), x), block_bytes, &turns, results)?;
    for (name, all) in [(RP_ALL, true), (RP_SINGLE, false)] {
        bound(results, &[name], x, &stand.lost(&[LOST], receivers(all))?);
    }
    Ok(())
}

fn compare(results: &Results) -> Vec<Comparison> {
    let points = results.series(RP_ALL).map_or(&[][..], |series| &series.points);
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return Vec::new() };
    let over = |series: &str, against: &str, x: f64, paper: f64| {
        let what = format!("{series} over {against} at {}", results.x.text(x));
        let compared = Comparison::saving(what, results.ratio(series, against, x));
        compared.paper(paper).at_least(1.0).why(rates(results, series, against, x))
    };
    let mut comparisons = vec![
        over(RP_SINGLE, PIPE_REP, last.x, 1.802),
        over(RP_ALL, PIPE_SUR, last.x, 3.681),
        over(RP_ALL, RP_SINGLE, last.x, 1.581),
    ];
    if first.x != last.x {
        // Who is ahead with small blocks is no demand on us.
        comparisons.push(over(PIPE_REP, RP_SINGLE, first.x, 1.09).target(Target::None));
        comparisons.push(over(PIPE_SUR, RP_ALL, first.x, 1.097).target(Target::None));
    }
    for name in [RP_ALL, RP_SINGLE] {
        comparisons.extend(points.iter().map(|point| beside_bound(results, name, point.x, None)));
    }
    comparisons
}
