//! Rows over GF(2), 64 columns to a word.

/// A row of bits: a set, or a vector over GF(2).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Bits(Vec<u64>);

impl Bits {
    /// None of so many.
    pub fn new(length: usize) -> Self {
        Self(vec![0; length.div_ceil(64)])
    }

    /// Those of `length` that are named.
    pub fn of(length: usize, members: impl IntoIterator<Item = usize>) -> Self {
        let mut bits = Self::new(length);
        members.into_iter().for_each(|member| bits.insert(member));
        bits
    }

    pub fn insert(&mut self, member: usize) {
        self.0[member / 64] |= 1 << (member % 64);
    }

    pub fn contains(&self, member: usize) -> bool {
        self.0[member / 64] >> (member % 64) & 1 == 1
    }

    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|&word| word == 0)
    }

    pub fn first(&self) -> Option<usize> {
        let at = self.0.iter().position(|&word| word != 0)?;
        Some(at * 64 + self.0[at].trailing_zeros() as usize)
    }

    pub fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Adds a vector of the same length.
    pub fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(word, other)| *word ^= other);
    }

    /// How many of `other` are not here.
    pub fn lacks(&self, other: &Self) -> usize {
        self.0.iter().zip(&other.0).map(|(here, there)| (there & !here).count_ones() as usize).sum()
    }

    pub fn union(&self, other: &Self) -> Self {
        Self(self.0.iter().zip(&other.0).map(|(a, b)| a | b).collect())
    }

    pub fn iter(&self) -> impl Iterator<Item = usize> {
        let words = self.0.iter().enumerate();
        words.flat_map(|(at, &word)| {
            std::iter::successors(Some(word), |rest| Some(rest & rest.wrapping_sub(1)))
                .take_while(|&rest| rest != 0)
                .map(move |rest| at * 64 + rest.trailing_zeros() as usize)
        })
    }
}

/// Independent vectors over GF(2), each with a pivot of its own.
#[derive(Clone, Default)]
pub(crate) struct BitBasis(Vec<(usize, Bits)>);

impl BitBasis {
    /// What is left of a vector when the members are subtracted.
    pub fn reduce(&self, mut row: Bits) -> Bits {
        for (pivot, member) in &self.0 {
            if row.contains(*pivot) {
                row.add(member);
            }
        }
        row
    }

    /// Takes a vector in if it is independent of the members; whether it was.
    pub fn push(&mut self, row: Bits) -> bool {
        let rest = self.reduce(row);
        let Some(pivot) = rest.first() else { return false };
        self.0.push((pivot, rest));
        true
    }
}
