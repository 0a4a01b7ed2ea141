//! Ours: a node that leaves, its blocks copied from it and rebuilt without it, beside copying alone.

use super::stand::{DIRECT, Stand};
use super::whole_node::{LOST, NodeSpec, Order, beside_bound, bound_leaving, rates};
use super::{Bench, Experiment, Result};
use crate::report::{Axis, Comparison, Label, Ratio, Results};

pub const EXPERIMENT: Experiment = Experiment {
    id: "own-decommission",
    title: "A node that leaves: from it and from its stripes, over the number of requestors",
    paper: "none: ours. In HDFS and Ozone the node that leaves is the only source of its blocks.",
    must_show: "100 blocks of a node that leaves: ≥ 0.9 of the bound of the busiest link, with one and four requestors, \
                beside copying alone.",
    run,
    compare,
};

const SPLIT: &str = "copied and rebuilt";
const COPIED: &str = "copied alone";

/// With one, its port carries every block, whoever sends it.
const REQUESTORS: &[usize] = &[1, 4];

/// As for whole nodes that are lost: faster links, and two cores decide.
const LINK_MBIT: f64 = 100.0;

/// As many as cost 100 blocks of one node: 14 of 17 nodes hold a block of each.
const STRIPES: usize = 122;

fn run(bench: &Bench<'_>) -> Result<Results> {
    let spec = NodeSpec {
        holders: bench.sized(17, 8),
        requestors: bench.sized(4, 4),
        rate: bench.rate_or(LINK_MBIT),
        code: bench.sized("rs-10+4", "rs-4+2"),
        block_bytes: bench.sized(2 << 20, 256 << 10),
        stripes: bench.sized(STRIPES, 12),
    };
    spec.stand(bench, |stand| {
        let axis = Axis::named("requestors", REQUESTORS);
        let mut results = spec.results(stand, &EXPERIMENT, axis, bench.rounds(3, 1));
        results.ratios = Ratio::columns(&[], &[COPIED]);
        let blocks = stand.lost(&[LOST], &stand.spares)?.len();
        results.notes.push(format!(
            "{blocks} blocks of {} stripes leave. Stripes at once: the product's default. Requestors hold no blocks and stand on \
             hosts of their own. The bound is that of any split: what is copied passes the leaving node's port, what is \
             rebuilt by a chain takes k blocks of the others' ports, and all of it passes the requestors'.",
            spec.stripes
        ));
        measure(stand, spec.block_bytes, &mut results)?;
        Ok(results)
    })
}

fn measure(stand: &Stand<'_>, block_bytes: u64, results: &mut Results) -> Result<()> {
    let places = || (0..).map(f64::from).zip(REQUESTORS.iter().map(|&count| &stand.spares[..count]));
    // An assignment that is not told of both ways knows one.
    let contenders = [(Label::subject(SPLIT), "balanced"), (Label::rival(COPIED), "lowest-index")];
    let order = |assign, requestors: &[_]| Order {
        requestors: requestors.to_vec(),
        leaves: true,
        ..Order::new("pipeline", assign)
    };
    let turns: Vec<(Label, f64, Order)> = places()
        .flat_map(|(x, nodes)| contenders.map(|(label, assign)| (label, x, order(assign, nodes))))
        .collect();
    let warm_up = order("balanced", &stand.spares);
    stand.take_recoveries(&warm_up, (Label::bare(DIRECT).level(), 0.0), block_bytes, &turns, results)?;
    for (x, nodes) in places() {
        bound_leaving(results, &[SPLIT, COPIED], x, &stand.lost(&[LOST], nodes)?);
    }
    Ok(())
}

fn compare(results: &Results) -> Vec<Comparison> {
    let Some(ours) = results.series(SPLIT) else { return Vec::new() };
    let mut comparisons = Vec::new();
    for x in ours.points.iter().map(|point| point.x) {
        comparisons.push(beside_bound(results, SPLIT, x, Some(0.9)));
        let what = format!("{SPLIT} over {COPIED} with {} requestors", results.x.text(x));
        let compared = Comparison::times(what, results.ratio(SPLIT, COPIED, x));
        comparisons.push(compared.why(rates(results, SPLIT, COPIED, x)));
    }
    comparisons
}
