//! RP Figure 8(e): recovery rate of a whole node over the number of requestors.

use super::stand::{DIRECT, Stand};
use super::whole_node::{LOST, NodeSpec, Order, beside_bound, bound, rates};
use super::{Bench, Experiment, Result};
use crate::report::{Axis, Comparison, Label, Ratio, Results};
use model::NodeId;

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
const PIPELINE: &str = "pipeline";
const SCHEDULED: &str = "pipeline, least recent";
const BALANCED: &str = "pipeline, balanced";

/// Series, scheme, assignment.
const CONTENDERS: [(Label, &str, &str); 5] = [
    (Label::subject(BALANCED), "pipeline", "balanced"),
    (Label::rival(SCHEDULED), "pipeline", "least-recent"),
    (Label::rival(PIPELINE), "pipeline", "lowest-index"),
    (Label::rival("PPR, sliced"), "ppr-sliced", "lowest-index"),
    (Label::rival(CONVENTIONAL), "conventional", "lowest-index"),
];

/// Sixteen hosts that relay at 1 Gb/s would be bound by two cores; at 200 Mb/s these are 85 % busy, and decide.
const LINK_MBIT: f64 = 100.0;

const REQUESTORS: &[usize] = &[1, 2, 4, 8, 16];

/// As many as cost 64 lost blocks: 14 of 17 nodes hold a block of each.
const STRIPES: usize = 78;

fn run(bench: &Bench<'_>) -> Result<Results> {
    let requestors = bench.sized(REQUESTORS, &[1, 4]);
    let spec = NodeSpec {
        holders: bench.sized(17, 8),
        requestors: requestors.iter().copied().max().unwrap_or(1),
        rate: bench.rate_or(LINK_MBIT),
        code: bench.sized("rs-10+4", "rs-4+2"),
        block_bytes: bench.sized(2 << 20, 256 << 10),
        stripes: bench.sized(STRIPES, 12),
    };
    spec.stand(bench, |stand| {
        let axis = Axis::named("requestors", requestors);
        let mut results = spec.results(stand, &EXPERIMENT, axis, bench.rounds(2, 1));
        results.ratios = Ratio::columns(&[], &[CONVENTIONAL, PIPELINE]);
        let lost = stand.lost(&[LOST], &stand.spares)?;
        results.notes.push(format!(
            "{} blocks lost of {} stripes, scaled down from 64 blocks of 64 MiB at 1 Gb/s. Stripes at once: the product's \
             default. Requestors hold no blocks and stand on hosts of their own. Bounds are those of chains.",
            lost.len(),
            spec.stripes
        ));
        measure(stand, requestors, spec.block_bytes, &mut results)?;
        Ok(results)
    })
}

fn measure(stand: &Stand<'_>, requestors: &[usize], block_bytes: u64, results: &mut Results) -> Result<()> {
    let places = || (0..).map(f64::from).zip(requestors.iter().map(|&count| &stand.spares[..count]));
    let order = |scheme, assign, requestors: &[NodeId]| Order {
        requestors: requestors.to_vec(),
        ..Order::new(scheme, assign)
    };
    let turns: Vec<(Label, f64, Order)> = places()
        .flat_map(|(x, nodes)| {
            CONTENDERS.map(|(label, scheme, assign)| (label, x, order(scheme, assign, nodes)))
        })
        .collect();
    let warm_up = order("pipeline", "balanced", &stand.spares);
    stand.take_recoveries(&warm_up, (Label::bare(DIRECT).level(), 0.0), block_bytes, &turns, results)?;
    for (x, nodes) in places() {
        bound(results, &[PIPELINE, SCHEDULED, BALANCED], x, &stand.lost(&[LOST], nodes)?);
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
    let over = |series: &str, against: &str, x: f64| {
        let what = format!("{series} over {against} with {} requestors", results.x.text(x));
        let compared = Comparison::times(what, results.ratio(series, against, x));
        compared.at_least(1.0).why(rates(results, series, against, x))
    };
    let mut comparisons = Vec::new();
    for x in ours.points.iter().map(|point| point.x) {
        comparisons.push(beside_bound(results, BALANCED, x, Some(0.9)));
        comparisons.push(over(PIPELINE, CONVENTIONAL, x).paper(paper(x, 1.89, 1.51)));
        comparisons.push(over(SCHEDULED, PIPELINE, x).paper(paper(x, 1.133, 1.089)));
        comparisons.push(over(BALANCED, SCHEDULED, x));
        comparisons.push(over(BALANCED, CONVENTIONAL, x));
    }
    comparisons
}
