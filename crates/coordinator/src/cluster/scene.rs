//! What decides whether something that could not be done may be tried again.

use model::NodeId;
use plan::decide::World;
use std::collections::BTreeSet;

/// Who lives, who takes blocks, and who of these has room for the longest one.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Scene {
    living: BTreeSet<NodeId>,
    pub takers: BTreeSet<NodeId>,
    roomy: BTreeSet<NodeId>,
    /// So often copies were counted on again.
    changes: u64,
}

impl Scene {
    /// As it is now, after so many changes of what can be read.
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
