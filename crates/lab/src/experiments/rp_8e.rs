//! RP Figure 8(e): recovery rate of a whole node over the number of requestors.

use super::whole_node::{DIRECT, LOST, Link, NodeSpec, NodeStand, Order, RATE, beside_bound, named, rates};
use super::{Bench, Experiment};
use crate::error::LabError;
use crate::report::{Comparison, Form, Kind, Ratio, Results, Shape, Target};
use crate::testbed::LinkRate;

pub const EXPERIMENT: Experiment = Experiment {
    id: "rp-8e",
    title: "Recovery rate of a whole node over the number of requestors",
    paper: "repair pipelining, Figure 8(e); 64 blocks of 64 MiB lost in one of 16 helpers, RS(14,10), 1 Gb/s; without \
            scheduling the k helpers of the lowest indexes. Repair pipelining 1.89 × conventional repair with 8 requestors, \
            1.51 × with 16; scheduling +13.3 % and +8.9 %; with 16 conventional repair slightly better than PPR.",
    must_show: "our assignment (balanced) ≥ 0.9 of the bound that the busiest link sets, with 1, 4, 8 and 16 requestors; the \
                ratio to conventional repair reported.",
    run,
    compare,
};

const CONVENTIONAL: &str = "conventional";
const PPR: &str = "PPR, sliced";
const PIPELINE: &str = "pipeline";
const SCHEDULED: &str = "pipeline, least recent";
const BALANCED: &str = "pipeline, balanced";

/// Series, scheme, assignment.
const CONTENDERS: [(&str, Kind, &str, &str); 5] = [
    (BALANCED, Kind::Subject, "pipeline", "balanced"),
    (SCHEDULED, Kind::Rival, "pipeline", "least-recent"),
    (PIPELINE, Kind::Rival, "pipeline", "lowest-index"),
    (PPR, Kind::Rival, "ppr-sliced", "lowest-index"),
    (CONVENTIONAL, Kind::Rival, "conventional", "lowest-index"),
];

const CODE: &str = "rs-10+4";
const QUICK_CODE: &str = "rs-4+2";

/// Sixteen hosts that relay at 1 Gb/s would be bound by two cores; at 200 Mb/s these are 85 % busy, and decide.
const LINK_MBIT: f64 = 100.0;

const SLICE_BYTES: u32 = 32 << 10;

const REQUESTORS: &[usize] = &[1, 2, 4, 8, 16];

/// As many as cost 64 lost blocks: 14 of 17 nodes hold a block of each.
const STRIPES: usize = 78;

fn run(bench: &Bench<'_>) -> Result<Results, LabError> {
    let requestors = bench.sized(REQUESTORS, &[1, 4]);
    let block_bytes = bench.sized(2 << 20, 256 << 10);
    let spec = NodeSpec {
        holders: bench.sized(17, 8),
        requestors: requestors.iter().copied().max().unwrap_or(1),
        rate: bench.rate.unwrap_or(LinkRate::mbit(LINK_MBIT)),
        code: bench.sized(CODE, QUICK_CODE),
        block_bytes,
        stripes: bench.sized(STRIPES, 12),
    };
    NodeStand::with(bench, &spec, |stand| {
        let axis = named("requestors", requestors.iter().map(usize::to_string));
        let mut results = stand.results(&EXPERIMENT, &spec, axis, bench.rounds(2, 1));
        results.setup.slice_bytes = Some(SLICE_BYTES.into());
        results.ratios = vec![Ratio::times(CONVENTIONAL), Ratio::times(PIPELINE)];
        let lost = stand.lost(&[LOST], &stand.requestors)?;
        results.notes.push(format!(
            "{} blocks lost of {} stripes, scaled down from 64 blocks of 64 MiB at 1 Gb/s. Stripes at once: the product's \
             default. Requestors hold no blocks and stand on hosts of their own. Bounds are those of chains.",
            lost.len(),
            spec.stripes
        ));
        measure(stand, requestors, block_bytes, &mut results)?;
        Ok(results)
    })
}

fn measure(
    stand: &NodeStand<'_>,
    requestors: &[usize],
    block_bytes: u64,
    results: &mut Results,
) -> Result<(), LabError> {
    let order = |scheme, assign, count: usize| Order {
        nodes: vec![LOST],
        scheme,
        assign,
        requestors: stand.requestors[..count].to_vec(),
        slice_bytes: SLICE_BYTES,
        parallel: 0,
    };
    (stand.bench.say)("warming up");
    stand.recover(&order("pipeline", "balanced", requestors[requestors.len() - 1]))?;
    for round in 1..=results.setup.runs {
        stand.note(results, round, (DIRECT, Kind::Bare, Shape::Level), 0.0, stand.direct(block_bytes)?);
        for (x, &count) in requestors.iter().enumerate() {
            for (name, kind, scheme, assign) in CONTENDERS {
                let sample = stand.recover(&order(scheme, assign, count))?;
                stand.note(results, round, (name, kind, Shape::Curve), x as f64, sample);
            }
        }
    }
    let Some(link) = results.summary(DIRECT, 0.0, RATE).map(|summary| Link(summary.median)) else {
        return Ok(());
    };
    for (x, &count) in requestors.iter().enumerate() {
        let best = link.best(&stand.lost(&[LOST], &stand.requestors[..count])?);
        for name in [PIPELINE, SCHEDULED, BALANCED] {
            results.bound(name, x as f64, best);
        }
    }
    Ok(())
}

fn compare(results: &Results) -> Vec<Comparison> {
    let Some(ours) = results.series(BALANCED) else { return Vec::new() };
    let paper = |x: f64, with_8: f64, with_16: f64| match results.x.text(x).as_str() {
        "8" => Some(with_8),
        "16" => Some(with_16),
        _ => None,
    };
    let over = |series: &str, against: &str, x: f64, paper: Option<f64>| Comparison {
        what: format!("{series} over {against} with {} requestors", results.x.text(x)),
        form: Form::Times,
        paper,
        target: Target::AtLeast(1.0),
        ours: results.ratio(series, against, x),
        why: rates(results, series, against, x),
    };
    let mut comparisons = Vec::new();
    for x in ours.points.iter().map(|point| point.x) {
        comparisons.push(beside_bound(results, BALANCED, x, Some(0.9)));
        comparisons.push(over(PIPELINE, CONVENTIONAL, x, paper(x, 1.89, 1.51)));
        comparisons.push(over(SCHEDULED, PIPELINE, x, paper(x, 1.133, 1.089)));
        comparisons.push(over(BALANCED, SCHEDULED, x, None));
        comparisons.push(over(BALANCED, CONVENTIONAL, x, None));
    }
    comparisons
}
