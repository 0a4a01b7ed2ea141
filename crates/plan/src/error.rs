//! Why there is no plan.

use crate::topology::NodeId;

/// Errors of planning.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PlanError {
    /// A stripe needs more distinct nodes than are alive.
    #[error("{code} needs {needed} nodes, {alive} are alive")]
    NotEnoughNodes {
        /// The code.
        code: String,
        /// Distinct nodes needed.
        needed: usize,
        /// Nodes alive.
        alive: usize,
    },
    /// Fewer candidates than helpers needed.
    #[error("{needed} helpers are needed, {available} are available")]
    NotEnoughHelpers {
        /// Helpers to select.
        needed: usize,
        /// Candidates.
        available: usize,
    },
    /// No live node holds a replica of a block that is to be archived.
    #[error("data block {block} of the stripe has no live replica")]
    NoReplica {
        /// Index of the block in its stripe.
        block: usize,
    },
    /// Every live node already holds a block of the stripe.
    #[error("all {alive} live nodes hold a block of the stripe already")]
    NoTarget {
        /// Nodes alive.
        alive: usize,
    },
    /// A node without a rack.
    #[error("{node} is not in the topology")]
    UnknownNode {
        /// The node.
        node: NodeId,
    },
}
