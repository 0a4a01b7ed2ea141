//! Copies that cannot be read now.

use crate::block::{BlockCopy, BlockFacts, Flaw, Flawed, Location};
use crate::id::BlockId;
use std::collections::BTreeMap;

/// Copies that their nodes failed to open, list or judge, for reasons that say nothing about the copies: a missing permission, a folder that
/// answers with errors, an unknown version. They are neither damaged nor gone. Nobody reads them, and nothing is deleted because of them
/// (HEALING.md, "States of a copy": *unread*).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Unread(BTreeMap<BlockId, Vec<Location>>);

impl Unread {
    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of copies.
    pub fn len(&self) -> usize {
        self.0.values().map(Vec::len).sum()
    }

    /// Returns the unread copies of a block.
    pub fn of(&self, block: BlockId) -> &[Location] {
        self.0.get(&block).map_or(&[], Vec::as_slice)
    }

    /// Whether the copy is unread.
    pub fn contains(&self, copy: BlockCopy) -> bool {
        self.of(copy.block).contains(&copy.location())
    }

    /// Returns the blocks with unread copies, and these copies.
    pub fn blocks(&self) -> impl Iterator<Item = (BlockId, &[Location])> {
        self.0.iter().map(|(block, locations)| (*block, locations.as_slice()))
    }

    /// Returns the blocks whose unread copies differ between the two sets.
    pub fn unlike<'a>(&'a self, other: &'a Unread) -> impl Iterator<Item = BlockId> + 'a {
        let gone = self.blocks().filter(|(block, locations)| other.of(*block) != *locations);
        let new = other.blocks().filter(|(block, locations)| self.of(*block) != *locations);
        gone.chain(new).map(|(block, _)| block)
    }

    /// Moves the block's unread copies out of those that count.
    pub fn set_aside(&self, block: BlockId, facts: &mut BlockFacts) {
        let unread = self.of(block);
        if unread.is_empty() {
            return;
        }
        let (aside, stay) = facts.locations.iter().copied().partition(|location| unread.contains(location));
        facts.locations = stay;
        let aside: Vec<Location> = aside;
        facts.flawed.extend(aside.into_iter().map(|location| Flawed { location, flaw: Flaw::Unread }));
    }
}

impl FromIterator<BlockCopy> for Unread {
    fn from_iter<I: IntoIterator<Item = BlockCopy>>(copies: I) -> Unread {
        let mut unread = Unread::default();
        for copy in copies {
            let locations = unread.0.entry(copy.block).or_default();
            if !locations.contains(&copy.location()) {
                locations.push(copy.location());
            }
        }
        unread
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::Sums;
    use crate::node::NodeId;

    #[test]
    fn what_cannot_be_read_is_not_counted_on_and_is_still_there() {
        let copy = |node| BlockCopy { block: BlockId(5), node: NodeId(node), generation: 1 };
        let locations = [1, 2, 3].map(|node| copy(node).location()).to_vec();
        let mut facts = BlockFacts::new(10, Sums::default(), locations);
        let unread: Unread = [copy(2), copy(2), BlockCopy { generation: 2, ..copy(3) }].into_iter().collect();
        unread.set_aside(BlockId(5), &mut facts);
        assert_eq!(
            facts.locations,
            [copy(1).location(), copy(3).location()],
            "of 3 another generation is meant"
        );
        assert_eq!((facts.needs(&[1, 2, 3].map(NodeId).into()), unread.len()), (1, 2));
        assert_eq!(facts.on(NodeId(2)), Some(copy(2).location()));
        assert!(facts.in_the_last_resort().locations.contains(&copy(2).location()));
    }
}
