//! Where a repaired block goes (RP §3.3 leaves it to deployment): never a second block of a stripe on a node,
//! racks kept even, then least load.

use crate::error::PlanError;
use crate::topology::{NodeId, Topology};

/// A live node that holds none of the stripe's blocks: of those in racks with the fewest blocks of the stripe
/// the least loaded, then the lowest. `stripe` lists the nodes of all surviving blocks and of repairs under
/// way; `load` is in any unit, blocks or bytes stored or repairs running.
///
/// # Errors
/// [`PlanError::NoTarget`], [`PlanError::UnknownNode`] for a live node without rack.
pub fn requestor(
    topology: &Topology,
    alive: &[NodeId],
    stripe: &[NodeId],
    load: impl Fn(NodeId) -> u64,
) -> Result<NodeId, PlanError> {
    let mut best = None;
    for &node in alive.iter().filter(|node| !stripe.contains(node)) {
        let rack = topology.rack_of(node)?;
        // A survivor on a node that the topology has forgotten counts for no rack.
        let in_rack = stripe.iter().filter(|&&other| topology.rack_of(other) == Ok(rack)).count();
        let rank = (in_rack, load(node), node);
        if best.is_none_or(|known| rank < known) {
            best = Some(rank);
        }
    }
    best.map(|(_, _, node)| node).ok_or(PlanError::NoTarget { alive: alive.len() })
}
