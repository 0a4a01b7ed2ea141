//! The nodes of a recovery, numbered without gaps.

use super::balanced::{LostBlock, NodeLoad};
use crate::numbers::Numbers;
use model::NodeId;
use std::collections::BTreeMap;

/// The nodes that some blocks and loads name, in rising order.
pub(super) struct Index {
    nodes: Vec<NodeId>,
    numbers: Numbers,
}

impl Index {
    pub fn of(blocks: &[&LostBlock], loads: &BTreeMap<NodeId, NodeLoad>) -> Index {
        let of_blocks = blocks.iter().flat_map(|block| block.survivors.iter().chain(&block.requestors));
        let mut numbers = Numbers::default();
        of_blocks.chain(loads.keys()).for_each(|&node| numbers.set(node, 0));
        Index { nodes: numbers.renumber(), numbers }
    }

    /// The node of a number.
    pub fn node(&self, number: u32) -> NodeId {
        self.nodes[number as usize]
    }

    /// The numbers of those of `nodes` that are known, in rising order, each once.
    pub fn of_nodes<'a>(&self, nodes: impl IntoIterator<Item = &'a NodeId>) -> Vec<u32> {
        let nodes = nodes.into_iter();
        let mut found = Vec::with_capacity(nodes.size_hint().1.unwrap_or(0));
        found.extend(nodes.filter_map(|&node| self.numbers.get(node)));
        if !found.is_sorted() {
            found.sort_unstable();
        }
        found.dedup();
        found
    }

    /// What each node carries already.
    pub fn loads(&self, loads: &BTreeMap<NodeId, NodeLoad>, which: fn(&NodeLoad) -> u64) -> Vec<u64> {
        self.nodes.iter().map(|node| loads.get(node).map_or(0, which)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_far_apart_are_numbered_in_rising_order() {
        let ids = [u32::MAX, 7, 4_095, 4_096, 1 << 20, 7];
        let block = LostBlock {
            survivors: ids.map(NodeId).to_vec(),
            needed: 1,
            requestors: vec![NodeId(3)],
            bytes: 1,
        };
        let loads = BTreeMap::from([(NodeId(9), NodeLoad { sent: 5, received: 6 })]);
        let index = Index::of(&[&block], &loads);
        let named: Vec<u32> = (0..7).map(|number| index.node(number).0).collect();
        assert_eq!(named, [3, 7, 9, 4_095, 4_096, 1 << 20, u32::MAX]);
        assert_eq!(index.of_nodes(&block.survivors), [1, 3, 4, 5, 6]);
        assert_eq!(index.of_nodes(&[NodeId(8), NodeId(3), NodeId(70_000)]), [0]);
        assert_eq!(index.loads(&loads, |load| load.sent), [0, 0, 5, 0, 0, 0, 0]);
    }
}
