//! How many streams of repairs each node carries, and whether it has room for one more repair.

use crate::recovery::{Assignment, NodeLoad, loads_of};
use flow::Scheme;
use model::{BlockId, NodeId};
use std::collections::BTreeMap;

/// Repairs under way.
#[derive(Debug)]
pub struct InFlight {
    per_node: usize,
    scheme: Option<Scheme>,
    by_node: BTreeMap<NodeId, usize>,
    repairs: BTreeMap<BlockId, (Assignment, u64)>,
}

impl InFlight {
    /// None, and at most `per_node` streams on each, one for each repair.
    pub fn new(per_node: usize) -> InFlight {
        InFlight { per_node, scheme: None, by_node: BTreeMap::new(), repairs: BTreeMap::new() }
    }

    /// At most `per_node` on each from now on, as many for a repair as this scheme has a node receive: to the requestor of a
    /// star come k. Of a scheme that forwards whole blocks a node keeps as much however many come: there each repair counts
    /// as one.
    pub fn allow(&mut self, per_node: usize, scheme: Option<Scheme>) {
        (self.per_node, self.scheme) = (per_node, scheme.filter(|scheme| !scheme.whole_block()));
    }

    /// Streams that the node carries.
    pub fn of(&self, node: NodeId) -> usize {
        self.by_node.get(&node).copied().unwrap_or(0)
    }

    /// Whether it may take part in one more.
    pub fn has_room(&self, node: NodeId) -> bool {
        self.of(node) < self.per_node
    }

    /// Whether all nodes of an assignment may: a repair that is wider than the limit if they have nothing else to do.
    pub fn fits(&self, assignment: &Assignment) -> bool {
        let mut nodes = self.streams(assignment);
        nodes.all(|(node, streams)| self.of(node) == 0 || self.of(node) + streams <= self.per_node)
    }

    /// How crowded the nodes of an assignment are: the most streams that one of them carries, then those of its helpers, in
    /// hundredths of a stream for each. A repair goes as fast as the most crowded of its links, and what it leaves of the others
    /// is lost unless repairs run that take it: of those as good by the first number, the one with the idler helpers.
    pub fn crowd_of(&self, assignment: &Assignment) -> (usize, usize) {
        let busiest = self.streams(assignment).map(|(node, _)| self.of(node)).max().unwrap_or(0);
        let helpers = &assignment.chain;
        let sum: usize = helpers.iter().map(|&helper| self.of(helper)).sum();
        (busiest, sum * 100 / helpers.len().max(1))
    }

    /// The nodes of an assignment, and how much of their room each takes.
    fn streams(&self, assignment: &Assignment) -> impl Iterator<Item = (NodeId, usize)> + use<> {
        let Assignment { chain, requestor } = assignment;
        let nodes: Vec<NodeId> = chain.iter().copied().chain([*requestor]).collect();
        let received =
            self.scheme.map_or_else(|| vec![1; nodes.len()], |scheme| scheme.received(chain.len()));
        nodes.into_iter().zip(received).map(|(node, streams)| (node, streams.max(1)))
    }

    /// Who repairs what now, and how many bytes each sends.
    pub fn under_way(&self) -> impl Iterator<Item = &(Assignment, u64)> {
        self.repairs.values()
    }

    /// What nodes send and receive for it.
    pub fn loads(&self) -> BTreeMap<NodeId, NodeLoad> {
        loads_of(self.under_way().map(|(assignment, bytes)| (assignment, *bytes)))
    }

    /// The repair of a block begins: each of its helpers sends so many bytes.
    pub fn begin(&mut self, block: BlockId, assignment: &Assignment, bytes: u64) {
        for (node, streams) in self.streams(assignment) {
            *self.by_node.entry(node).or_default() += streams;
        }
        self.repairs.insert(block, (assignment.clone(), bytes));
    }

    /// It has ended.
    pub fn end(&mut self, block: BlockId, assignment: &Assignment) {
        for (node, streams) in self.streams(assignment) {
            if let Some(count) = self.by_node.get_mut(&node) {
                *count = count.saturating_sub(streams);
            }
        }
        self.repairs.remove(&block);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_takes_part_in_so_many_repairs_and_no_more() {
        let assignment = |chain: [u32; 2], requestor: u32| Assignment {
            chain: chain.map(NodeId).to_vec(),
            requestor: NodeId(requestor),
        };
        let mut in_flight = InFlight::new(2);
        let (first, second) = (assignment([1, 2], 3), assignment([2, 4], 5));
        in_flight.begin(BlockId(1), &first, 10);
        assert!(in_flight.fits(&assignment([2, 4], 5)));
        in_flight.begin(BlockId(2), &second, 10);
        assert!(!in_flight.has_room(NodeId(2)) && in_flight.has_room(NodeId(3)));
        assert!(!in_flight.fits(&assignment([6, 7], 2)), "a requestor counts like a helper");
        assert_eq!(
            [[6, 7], [4, 1], [4, 7], [1, 2]].map(|chain| in_flight.crowd_of(&assignment(chain, 6))),
            [(0, 0), (1, 100), (1, 50), (2, 150)]
        );
        assert_eq!(in_flight.loads()[&NodeId(2)], NodeLoad { sent: 20, received: 10 });
        in_flight.end(BlockId(1), &first);
        assert!(in_flight.fits(&assignment([6, 7], 2)));
        in_flight.end(BlockId(2), &second);
        assert!(in_flight.loads().is_empty() && in_flight.of(NodeId(2)) == 0);

        // To the requestor of a star come all streams: one is too wide, and runs alone.
        in_flight.allow(3, Some(Scheme::Conventional));
        in_flight.begin(BlockId(1), &first, 10);
        assert!(!in_flight.fits(&assignment([4, 5], 3)) && in_flight.fits(&assignment([1, 2], 6)));
        assert_eq!((in_flight.of(NodeId(1)), in_flight.of(NodeId(3))), (1, 2));
        in_flight.end(BlockId(1), &first);
        in_flight.allow(1, Some(Scheme::Conventional));
        assert!(in_flight.fits(&assignment([4, 5], 3)));
        in_flight.allow(1, Some(Scheme::Ppr));
        in_flight.begin(BlockId(2), &second, 10);
        assert_eq!([2, 4, 5].map(|node| in_flight.of(NodeId(node))), [1; 3]);
    }
}
