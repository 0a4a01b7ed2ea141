//! What a symbol of each helper costs to read, beside those of the others: codes that can choose read less from nodes whose links
//! or disks are slow, or that have much to do (XOR supplement §2, the heterogeneous scenario).

use super::draft::Source;
use super::{NodeFacts, World};
use codes::ONLY_IN_NEED;
use flow::Helper;
use model::NodeId;

/// A symbol costs so many times as much as the cheapest at most: beyond, a node is as good as lost, which codes know to go
/// around anyway.
const MOST: f64 = 64.0;

/// So many stages on a node make its symbols cost twice. A star's requestor takes all symbols that are read while each helper sends a few,
/// so that a stage more or less of many is no reason to read more in all: with stages counted singly, recoveries of eight stripes at once
/// read 4 % more (`xor-7`).
const BUSY_STAGES: f64 = 8.0;

/// The sources as helpers. Costs are powers of two, of which the least is 1, so that what is slightly busier changes nothing and the
/// same recoveries are asked for again and again. Last resorts are read only where the others do not suffice.
pub(super) fn helpers(world: &World, sources: &[Source<'_>]) -> Vec<Helper> {
    let nodes: Vec<NodeId> = sources.iter().map(|source| source.location.node).collect();
    let factors: Vec<Option<f64>> = factors(world, &nodes);
    let least = factors.iter().copied().flatten().fold(f64::INFINITY, f64::min);
    let cost = |factor: Option<f64>| match factor {
        Some(factor) => ((factor / least).min(MOST).log2().round().exp2() as u32).max(1),
        None => ONLY_IN_NEED,
    };
    sources
        .iter()
        .zip(factors)
        .map(|(source, factor)| Helper { cost: cost(factor), ..source.helper() })
        .collect()
}

/// How many times as long a symbol of each node takes as one of a node with nothing to do, on the fastest uplink or disk that is
/// known, whichever is the slower of a node's two; `None` for a last resort.
fn factors(world: &World, nodes: &[NodeId]) -> Vec<Option<f64>> {
    let known = |node: NodeId| Some(world.links.supply(node)).filter(|rate| rate.is_finite());
    let fastest = nodes.iter().filter_map(|&node| known(node)).fold(0.0, f64::max);
    let factor = |&node: &NodeId| {
        let slower = known(node).filter(|&rate| rate > 0.0).map_or(1.0, |rate| fastest / rate);
        let stages = world.nodes.get(node).map_or(0, |node| node.running_stages);
        let resort =
            world.last_resort.contains(&node) || world.nodes.get(node).is_some_and(NodeFacts::is_last_resort);
        (!resort).then(|| slower * (1.0 + f64::from(stages) / BUSY_STAGES))
    };
    nodes.iter().map(factor).collect()
}
