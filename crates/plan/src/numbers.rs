//! A number for each of some nodes, found by one look into a table: plans name the same thousand nodes a million times.

use model::NodeId;

/// Ids to a page of the table. Nodes are mostly numbered from 1, so that one page holds them; ids that lie far apart
/// cost a page each, and the list of pages at most 8 MiB.
const PAGE: usize = 4_096;

const NONE: u32 = u32::MAX;

/// Numbers of nodes, below 2^32 − 1.
#[derive(Clone, Debug, Default)]
pub(crate) struct Numbers {
    /// [`NONE`] for a node without number.
    pages: Vec<Option<Box<[u32]>>>,
}

impl Numbers {
    /// Gives a node a number, or another one.
    pub fn set(&mut self, node: NodeId, number: u32) {
        let id = node.0 as usize;
        if self.pages.len() <= id / PAGE {
            self.pages.resize(id / PAGE + 1, None);
        }
        self.pages[id / PAGE].get_or_insert_with(|| vec![NONE; PAGE].into_boxed_slice())[id % PAGE] = number;
    }

    /// The number of a node.
    pub fn get(&self, node: NodeId) -> Option<u32> {
        let page = self.pages.get(node.0 as usize / PAGE)?.as_ref()?;
        Some(page[node.0 as usize % PAGE]).filter(|&number| number != NONE)
    }

    /// Numbers the nodes anew, in rising order from 0. The nodes in that order.
    pub fn renumber(&mut self) -> Vec<NodeId> {
        let mut nodes = Vec::new();
        for (page, entries) in self.pages.iter_mut().enumerate() {
            for (place, number) in entries.iter_mut().flatten().enumerate().filter(|(_, n)| **n != NONE) {
                *number = nodes.len() as u32;
                nodes.push(NodeId((page * PAGE + place) as u32));
            }
        }
        nodes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_far_apart_have_their_numbers() {
        let ids = [u32::MAX, 7, 4_095, 4_096, 1 << 20, 7].map(NodeId);
        let mut numbers = Numbers::default();
        (0..).zip(ids).for_each(|(number, id)| numbers.set(id, number));
        assert_eq!(numbers.get(NodeId(7)), Some(5), "the later one");
        assert_eq!([6, 8, 70_000].map(|id| numbers.get(NodeId(id))), [None; 3]);
        let rising = [7, 4_095, 4_096, 1 << 20, u32::MAX].map(NodeId);
        assert_eq!(numbers.renumber(), rising);
        assert_eq!(rising.map(|id| numbers.get(id)), [0, 1, 2, 3, 4].map(Some));
    }
}
