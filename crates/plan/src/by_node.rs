//! A value for each node, found by its id: a plan looks up each node of a stripe several times, and a recovery makes
//! a million plans.

use model::NodeId;

/// Values of nodes, in the rising order of their ids. Ids mostly follow each other, so that a node's place follows
/// from its id; if ids are missing, as many entries are searched.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ByNode<T> {
    entries: Vec<(NodeId, T)>,
}

impl<T> ByNode<T> {
    /// The value of a node.
    pub fn get(&self, node: NodeId) -> Option<&T> {
        self.find(node).ok().map(|place| &self.entries[place].1)
    }

    /// Keeps `value` for a node, in place of an earlier one.
    pub fn insert(&mut self, node: NodeId, value: T) {
        match self.find(node) {
            Ok(place) => self.entries[place].1 = value,
            Err(place) => self.entries.insert(place, (node, value)),
        }
    }

    /// The value of a node, which is the default from now on if it had none.
    pub fn or_default(&mut self, node: NodeId) -> &mut T
    where
        T: Default,
    {
        let place = self.find(node).unwrap_or_else(|place| {
            self.entries.insert(place, (node, T::default()));
            place
        });
        &mut self.entries[place].1
    }

    /// Keeps nothing of a node.
    pub fn remove(&mut self, node: NodeId) {
        if let Ok(place) = self.find(node) {
            self.entries.remove(place);
        }
    }

    /// The number of nodes.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing is kept of any node.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The nodes in rising order, each with its value.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (NodeId, &T)> {
        self.entries.iter().map(|(node, value)| (*node, value))
    }

    /// The place of a node, or the one where it would be.
    fn find(&self, node: NodeId) -> Result<usize, usize> {
        let (Some((first, _)), Some((last, _))) = (self.entries.first(), self.entries.last()) else {
            return Err(0);
        };
        let Some(most) = node.0.checked_sub(first.0) else { return Err(0) };
        // A node stands at the place that it would have without gaps, or before it by at most as many places as ids
        // are missing.
        let missing = (last.0 - first.0) as usize + 1 - self.entries.len();
        let end = (most as usize + 1).min(self.entries.len());
        let start = (most as usize).saturating_sub(missing).min(end);
        let found = self.entries[start..end].binary_search_by_key(&node, |(node, _)| *node);
        found.map(|place| start + place).map_err(|place| start + place)
    }
}

impl<T> Default for ByNode<T> {
    fn default() -> Self {
        ByNode { entries: Vec::new() }
    }
}

impl<T> FromIterator<(NodeId, T)> for ByNode<T> {
    fn from_iter<I: IntoIterator<Item = (NodeId, T)>>(nodes: I) -> Self {
        let mut all = ByNode::default();
        nodes.into_iter().for_each(|(node, value)| all.insert(node, value));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::Draw;
    use std::collections::BTreeMap;

    #[test]
    fn it_keeps_what_a_tree_would_keep() {
        for ids in [8, 40, usize::from(u16::MAX)] {
            let mut draw = Draw::seeded(ids as u64);
            let (mut table, mut tree) = (ByNode::default(), BTreeMap::new());
            for step in 0..400 {
                let node = NodeId(draw.below(ids) as u32 + 3);
                match draw.below(3) {
                    0 => {
                        table.remove(node);
                        tree.remove(&node);
                    }
                    1 => {
                        table.insert(node, step);
                        tree.insert(node, step);
                    }
                    _ => {
                        *table.or_default(node) += 1;
                        *tree.entry(node).or_default() += 1;
                    }
                }
                assert!(table.iter().eq(tree.iter().map(|(node, value)| (*node, value))));
                assert_eq!((table.len(), table.is_empty()), (tree.len(), tree.is_empty()));
                for id in (0..50).chain([node.0, u32::MAX]) {
                    assert_eq!(table.get(NodeId(id)), tree.get(&NodeId(id)), "{id}");
                }
            }
        }
        let ends: ByNode<u8> = [(NodeId(u32::MAX), 1), (NodeId(0), 2)].into_iter().collect();
        assert_eq!([0, 1, u32::MAX].map(|id| ends.get(NodeId(id)).copied()), [Some(2), None, Some(1)]);
    }
}
