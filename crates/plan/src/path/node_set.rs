//! Sets of few nodes, as bits: searches copy and cut them at every step.

/// A set of numbers below 64·W.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct NodeSet<const W: usize>([u64; W]);

impl<const W: usize> NodeSet<W> {
    pub(super) const EMPTY: Self = NodeSet([0; W]);

    pub(super) fn insert(&mut self, node: usize) {
        self.0[node / 64] |= 1 << (node % 64);
    }

    pub(super) fn remove(&mut self, node: usize) {
        self.0[node / 64] &= !(1 << (node % 64));
    }

    pub(super) fn contains(&self, node: usize) -> bool {
        self.0[node / 64] >> (node % 64) & 1 == 1
    }

    pub(super) fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    pub(super) fn and(&self, other: &Self) -> Self {
        NodeSet(std::array::from_fn(|word| self.0[word] & other.0[word]))
    }

    pub(super) fn or(&self, other: &Self) -> Self {
        NodeSet(std::array::from_fn(|word| self.0[word] | other.0[word]))
    }

    pub(super) fn without(&self, other: &Self) -> Self {
        NodeSet(std::array::from_fn(|word| self.0[word] & !other.0[word]))
    }

    /// Takes the lowest number out.
    pub(super) fn pop(&mut self) -> Option<usize> {
        let (index, word) = self.0.iter_mut().enumerate().find(|(_, word)| **word != 0)?;
        let bit = word.trailing_zeros() as usize;
        *word &= *word - 1;
        Some(index * 64 + bit)
    }
}

impl<const W: usize> Iterator for NodeSet<W> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        self.pop()
    }
}
