//! How many repairs each node takes part in, and whether it has room for one more.

use super::assign::Pending;
use plan::NodeId;
use plan::recovery::Assignment;
use std::collections::BTreeMap;

/// Repairs under way by node.
#[derive(Debug)]
pub(super) struct InFlight {
    per_node: usize,
    repairs: BTreeMap<NodeId, usize>,
}

impl InFlight {
    /// None, and at most `per_node` on each.
    pub fn new(per_node: usize) -> InFlight {
        InFlight { per_node, repairs: BTreeMap::new() }
    }

    /// Repairs that the node takes part in.
    pub fn of(&self, node: NodeId) -> usize {
        self.repairs.get(&node).copied().unwrap_or(0)
    }

    /// Whether it may take part in one more.
    pub fn has_room(&self, node: NodeId) -> bool {
        self.of(node) < self.per_node
    }

    /// Whether all nodes of an assignment may.
    pub fn fits(&self, assignment: &Assignment) -> bool {
        nodes(assignment).all(|node| self.has_room(node))
    }

    /// A repair begins.
    pub fn begin(&mut self, pending: &Pending) {
        for node in pending.assignment.iter().flat_map(nodes) {
            *self.repairs.entry(node).or_default() += 1;
        }
    }

    /// It has ended.
    pub fn end(&mut self, pending: &Pending) {
        for node in pending.assignment.iter().flat_map(nodes) {
            if let Some(count) = self.repairs.get_mut(&node) {
                *count = count.saturating_sub(1);
            }
        }
    }
}

fn nodes(assignment: &Assignment) -> impl Iterator<Item = NodeId> {
    assignment.chain.iter().copied().chain([assignment.requestor])
}
