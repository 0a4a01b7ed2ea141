//! How many repairs each node takes part in, and whether it has room for one more.

use super::assign::Pending;
use plan::NodeId;
use plan::recovery::{Assignment, NodeLoad, loads_of};
use std::collections::BTreeMap;
use wire::BlockId;

/// Repairs under way.
#[derive(Debug)]
pub(crate) struct InFlight {
    per_node: usize,
    by_node: BTreeMap<NodeId, usize>,
    repairs: BTreeMap<BlockId, (Assignment, u64)>,
}

impl InFlight {
    /// None, and at most `per_node` on each.
    pub fn new(per_node: usize) -> InFlight {
        InFlight { per_node, by_node: BTreeMap::new(), repairs: BTreeMap::new() }
    }

    /// At most `per_node` on each from now on.
    pub(super) fn allow(&mut self, per_node: usize) {
        self.per_node = per_node;
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

    /// The most repairs that one node of an assignment takes part in.
    pub fn busiest_of(&self, assignment: &Assignment) -> usize {
        nodes(assignment).map(|node| self.of(node)).max().unwrap_or(0)
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
    pub(super) fn begin(&mut self, pending: &Pending) {
        let Some(assignment) = &pending.assignment else { return };
        for node in nodes(assignment) {
            *self.by_node.entry(node).or_default() += 1;
        }
        self.repairs.insert(pending.lost.block, (assignment.clone(), pending.lost.bytes));
    }

    /// It has ended.
    pub(super) fn end(&mut self, pending: &Pending) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::recover::Lost;

    #[test]
    fn a_node_takes_part_in_so_many_repairs_and_no_more() {
        let assignment = |chain: [u32; 2], requestor: u32| Assignment {
            chain: chain.map(NodeId).to_vec(),
            requestor: NodeId(requestor),
        };
        let pending = |block: u128, assignment: Assignment| {
            Pending::assigned(Lost { block: BlockId(block), node: 9, bytes: 10, margin: 1 }, assignment)
        };
        let mut in_flight = InFlight::new(2);
        let (first, second) = (pending(1, assignment([1, 2], 3)), pending(2, assignment([2, 4], 5)));
        in_flight.begin(&first);
        assert!(in_flight.fits(&assignment([2, 4], 5)));
        in_flight.begin(&second);
        assert!(!in_flight.has_room(NodeId(2)) && in_flight.has_room(NodeId(3)));
        assert!(!in_flight.fits(&assignment([6, 7], 2)), "a requestor counts like a helper");
        assert_eq!(
            [[6, 7], [4, 1], [1, 2]].map(|chain| in_flight.busiest_of(&assignment(chain, 6))),
            [0, 1, 2]
        );
        assert_eq!(in_flight.loads()[&NodeId(2)], NodeLoad { sent: 20, received: 10 });
        in_flight.end(&first);
        assert!(in_flight.fits(&assignment([6, 7], 2)));
        in_flight.end(&second);
        assert!(in_flight.loads().is_empty() && in_flight.of(NodeId(2)) == 0);
    }
}
