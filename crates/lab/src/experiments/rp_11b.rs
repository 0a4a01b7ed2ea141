//! RP Figure 11(b): implementations of repair pipelining in the recovery of a whole node, over the block size.

use super::whole_node::{DIRECT, LOST, Link, NodeSpec, NodeStand, Order, RATE, beside_bound, rates};
use super::{Bench, Experiment};
use crate::error::LabError;
use crate::report::{Axis, Comparison, Form, Kind, Results, Scale, Shape, Target};
use crate::testbed::LinkRate;

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
const CONTENDERS: [(&str, Kind, &str, &str, bool); 4] = [
    (RP_ALL, Kind::Subject, "pipeline", "least-recent", true),
    (RP_SINGLE, Kind::Subject, "pipeline", "least-recent", false),
    (PIPE_SUR, Kind::Rival, "pipe-b", "lowest-index", true),
    (PIPE_REP, Kind::Rival, "pipe-b", "lowest-index", false),
];

const SLICE_BYTES: u32 = 32 << 10;

/// Repairs at once, of every scheme: the paper's 16 requestors.
const PARALLEL: u32 = 16;

/// Bytes of a block, and stripes: about 64 MiB lost of each size.
const SIZES: &[(u64, usize)] = &[(256 << 10, 312), (1 << 20, 78), (4 << 20, 20), (16 << 20, 5)];
const QUICK_SIZES: &[(u64, usize)] = &[(256 << 10, 12)];

fn run(bench: &Bench<'_>) -> Result<Results, LabError> {
    let mut results: Option<Results> = None;
    for &(block_bytes, stripes) in bench.sized(SIZES, QUICK_SIZES) {
        let spec = NodeSpec {
            holders: bench.sized(17, 8),
            requestors: bench.sized(16, 4),
            rate: bench.rate.unwrap_or(LinkRate::mbit(200.0)),
            code: bench.sized("rs-10+4", "rs-4+2"),
            block_bytes,
            stripes,
        };
        NodeStand::with(bench, &spec, |stand| {
            let x = Axis { label: "block size".to_owned(), scale: Scale::Bytes };
            let mut record = match results.take() {
                Some(record) => record,
                None => empty(stand, &spec, x),
            };
            record.notes.push(format!(
                "{} blocks of {} lost of {stripes} stripes.",
                stand.lost(&[LOST], &stand.requestors)?.len(),
                record.x.text(block_bytes as f64)
            ));
            measure(stand, block_bytes, &mut record)?;
            results = Some(record);
            Ok(())
        })?;
    }
    results.ok_or_else(|| LabError::BadSpec("no block size".to_owned()))
}

fn empty(stand: &NodeStand<'_>, spec: &NodeSpec, x: Axis) -> Results {
    let mut record = stand.results(&EXPERIMENT, spec, x, stand.bench.rounds(2, 1));
    record.setup.slice_bytes = Some(SLICE_BYTES.into());
    record.setup.block_bytes = None;
    record.notes.push(format!(
        "Scaled down from 4 TiB at 1 Gb/s. Pipe-Rep and Pipe-Sur take the helpers of the lowest indexes, RP-single and \
         RP-all the least recently selected; {PARALLEL} stripes at once, of each. Requestors hold no blocks and stand on \
         hosts of their own. Bounds are those of chains streamed in slices, RP-all and RP-single."
    ));
    record
}

fn measure(stand: &NodeStand<'_>, block_bytes: u64, results: &mut Results) -> Result<(), LabError> {
    let x = block_bytes as f64;
    let receivers = |all: bool| if all { &stand.requestors[..] } else { &stand.requestors[..1] };
    let order = |scheme, assign, all| Order {
        nodes: vec![LOST],
        scheme,
        assign,
        requestors: receivers(all).to_vec(),
        slice_bytes: SLICE_BYTES,
        parallel: PARALLEL,
    };
    (stand.bench.say)("warming up");
    stand.recover(&order("pipeline", "balanced", true))?;
    for round in 1..=results.setup.runs {
        stand.note(results, round, (DIRECT, Kind::Bare, Shape::Curve), x, stand.direct(block_bytes)?);
        for (name, kind, scheme, assign, all) in CONTENDERS {
            let sample = stand.recover(&order(scheme, assign, all))?;
            stand.note(results, round, (name, kind, Shape::Curve), x, sample);
        }
    }
    if let Some(link) = results.summary(DIRECT, x, RATE).map(|summary| Link(summary.median)) {
        for (name, all) in [(RP_ALL, true), (RP_SINGLE, false)] {
            results.bound(name, x, link.best(&stand.lost(&[LOST], receivers(all))?));
        }
    }
    Ok(())
}

fn compare(results: &Results) -> Vec<Comparison> {
    let points = results.series(RP_ALL).map_or(&[][..], |series| &series.points);
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return Vec::new() };
    let over = |series: &str, against: &str, x: f64, paper: f64, target: Target| Comparison {
        what: format!("{series} over {against} at {}", results.x.text(x)),
        form: Form::Saving,
        paper: Some(paper),
        target,
        ours: results.ratio(series, against, x),
        why: rates(results, series, against, x),
    };
    let ahead = Target::AtLeast(1.0);
    let mut comparisons = vec![
        over(RP_SINGLE, PIPE_REP, last.x, 1.802, ahead),
        over(RP_ALL, PIPE_SUR, last.x, 3.681, ahead),
        over(RP_ALL, RP_SINGLE, last.x, 1.581, ahead),
    ];
    if first.x != last.x {
        // Who is ahead with small blocks is no demand on us.
        comparisons.push(over(PIPE_REP, RP_SINGLE, first.x, 1.09, Target::None));
        comparisons.push(over(PIPE_SUR, RP_ALL, first.x, 1.097, Target::None));
    }
    for name in [RP_ALL, RP_SINGLE] {
        comparisons.extend(points.iter().map(|point| beside_bound(results, name, point.x, None)));
    }
    comparisons
}
