//! The facts that decide whether failed work may be tried again.

use model::NodeId;
use plan::decide::World;
use std::collections::BTreeSet;

/// Living nodes, nodes that take blocks, and those of them that have room for the longest block.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Scene {
    living: BTreeSet<NodeId>,
    pub takers: BTreeSet<NodeId>,
    roomy: BTreeSet<NodeId>,
    /// Number of changes of what can be read ([`Cluster::changes`](super::Cluster::changes)).
    changes: u64,
}

impl Scene {
    /// Returns the current scene for a view and its number of changes.
    pub fn of((view, changes): (&World, u64), longest_bytes: u64) -> Scene {
        let taking = || view.nodes.iter().filter(|(_, node)| node.takes_blocks());
        let roomy = taking().filter(|(_, node)| node.has_room(longest_bytes));
        Scene {
            living: view.living(),
            takers: taking().map(|(id, _)| id).collect(),
            roomy: roomy.map(|(id, _)| id).collect(),
            changes,
        }
    }
}
