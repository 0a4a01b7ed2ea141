//! How many repairs each node takes part in, and whether it has room for one more.

use super::assign::Pending;
use plan::NodeId;
use plan::recovery::{Assignment, NodeLoad, loads_of};
use std::collections::BTreeMap;
use wire::BlockId;

/// Repairs under way.
#[derive(Debug)]
pub(super) struct InFlight {
    per_node: usize,
    by_node: BTreeMap<NodeId, usize>,
    repairs: BTreeMap<BlockId, (Assignment, u64)>,
}

impl InFlight {
    /// None, and at most `per_node` on each.
    pub fn new(per_node: usize) -> InFlight {
        InFlight { per_node, by_node: BTreeMap::new(), repairs: BTreeMap::new() }
    }

    /// Repairs that the node takes part in.
    pub fn of(&self, node: NodeId) -> usize {
        self.by_node.get(&node).copied().unwrap_or(0)
    }

    /// Whether it may take part in one more.
    pub fn has_room(&self, node: NodeId) -> bool {
        self.of(node) < self.per_node
    }

    /// Whether all nodes of an assignment may.
    pub fn fits(&self, assignment: &Assignment) -> bool {
        nodes(assignment).all(|node| self.has_room(node))
    }

    /// Who repairs what now, and how many bytes each sends.
    pub fn under_way(&self) -> impl Iterator<Item = &(Assignment, u64)> {
        self.repairs.values()
    }

    /// What nodes send and receive for it.
    pub fn loads(&self) -> BTreeMap<NodeId, NodeLoad> {
        loads_of(self.under_way().map(|(assignment, bytes)| (assignment, *bytes)))
    }

    /// A repair begins.
    pub fn begin(&mut self, pending: &Pending) {
        let Some(assignment) = &pending.assignment else { return };
        for node in nodes(assignment) {
            *self.by_node.entry(node).or_default() += 1;
        }
        self.repairs.insert(pending.lost.block, (assignment.clone(), pending.lost.bytes));
    }

    /// It has ended.
    pub fn end(&mut self, pending: &Pending) {
        for node in pending.assignment.iter().flat_map(nodes) {
            if let Some(count) = self.by_node.get_mut(&node) {
                *count = count.saturating_sub(1);
            }
        }
        self.repairs.remove(&pending.lost.block);
    }
}

fn nodes(assignment: &Assignment) -> impl Iterator<Item = NodeId> {
    assignment.chain.iter().copied().chain([assignment.requestor])
}
