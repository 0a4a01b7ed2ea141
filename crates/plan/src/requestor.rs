//! Where a repaired block goes (RP §3.3 leaves it to deployment): never a second block of a stripe on a node,
//! racks kept even, then least load.

use crate::error::PlanError;
use crate::topology::{NodeId, RackId, Topology};
use std::collections::BTreeMap;

/// Live nodes that hold none of the stripe's blocks, in the racks with the fewest blocks of the stripe. `stripe` lists the
/// nodes of all surviving blocks and of repairs under way.
///
/// # Errors
/// [`PlanError::NoTarget`], [`PlanError::UnknownNode`] for a live node without rack.
pub fn requestors(
    topology: &Topology,
    alive: &[NodeId],
    stripe: &[NodeId],
) -> Result<Vec<NodeId>, PlanError> {
    let mut in_rack: BTreeMap<RackId, usize> = BTreeMap::new();
    // A survivor on a node that the topology has forgotten counts for no rack.
    for rack in stripe.iter().filter_map(|&node| topology.rack_of(node).ok()) {
        *in_rack.entry(rack).or_default() += 1;
    }
    let mut fewest = usize::MAX;
    let mut found = Vec::new();
    for &node in alive.iter().filter(|node| !stripe.contains(node)) {
        let count = in_rack.get(&topology.rack_of(node)?).copied().unwrap_or(0);
        if count < fewest {
            fewest = count;
            found.clear();
        }
        if count == fewest {
            found.push(node);
        }
    }
    if found.is_empty() { Err(PlanError::NoTarget { alive: alive.len() }) } else { Ok(found) }
}

/// Of the nodes that [`requestors`] names the least loaded, then the lowest; `load` is in any unit, blocks or bytes
/// stored or repairs running.
///
/// # Errors
/// Those of [`requestors`].
pub fn requestor(
    topology: &Topology,
    alive: &[NodeId],
    stripe: &[NodeId],
    load: impl Fn(NodeId) -> u64,
) -> Result<NodeId, PlanError> {
    let found = requestors(topology, alive, stripe)?;
    let least = found.into_iter().min_by_key(|&node| (load(node), node));
    least.ok_or(PlanError::NoTarget { alive: alive.len() })
}
