//! The path that crosses racks least (RP §4.2, Algorithm 1).
//!
//! ```text
//!   rack 2      rack 1          rack 0
//!   h5 ───────▶ h2 ▶ h3 ▶ h4 ───────▶ h1 ▶ R        k = 5: two streams cross racks
//! ```
//! Each rack stands on the path in one piece, so at most one stream enters a rack and one leaves it. Helpers of
//! the requestor's rack cost nothing; of the other racks, those with the most helpers make do with the fewest
//! racks. Each of them is left once, and none can be spared: so few streams cross racks as any path has.

use super::check_numbers;
use crate::error::PlanError;
use crate::topology::{RackId, Topology};
use model::NodeId;

/// A path of helpers to a requestor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RackAwarePath {
    /// The helpers in the order of the path, then the requestor.
    pub path: Vec<NodeId>,
    /// Streams from one rack to another, each as long as a block.
    pub cross_rack: usize,
}

/// A path through `k` of `helpers` to `requestor` with as few streams between racks as any, at most one into
/// and one out of each. Within a rack, and among racks of one size, `helpers` that come first in the list are
/// preferred.
///
/// # Errors
/// [`PlanError::NotEnoughHelpers`], [`PlanError::NoHelpers`], [`PlanError::RepeatedNode`];
/// [`PlanError::UnknownNode`] for a node without a rack.
pub fn rack_aware_path(
    topology: &Topology,
    helpers: &[NodeId],
    k: usize,
    requestor: NodeId,
) -> Result<RackAwarePath, PlanError> {
    check_numbers(helpers.iter().map(|node| node.0 as usize), requestor.0 as usize, k)?;
    let home = topology.rack_of(requestor)?;
    let mut racks: Vec<(RackId, Vec<NodeId>)> = vec![(home, Vec::new())];
    for &helper in helpers {
        let rack = topology.rack_of(helper)?;
        match racks.iter_mut().find(|(known, _)| *known == rack) {
            Some((_, members)) => members.push(helper),
            None => racks.push((rack, vec![helper])),
        }
    }
    // Stable, so that racks of one size keep the order of preference.
    racks[1..].sort_by_key(|(_, members)| std::cmp::Reverse(members.len()));
    let mut path = vec![requestor];
    let mut cross_rack = 0;
    for (rack, members) in racks {
        let taken = members.len().min(k + 1 - path.len());
        path.extend(&members[..taken]);
        cross_rack += usize::from(taken > 0 && rack != home);
    }
    path.reverse();
    Ok(RackAwarePath { path, cross_rack })
}
