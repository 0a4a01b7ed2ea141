//! A stripe of symbols that are XORed: which of them sum to zero.

use super::bits::Bits;
use super::problem::odd;
use crate::{CodeError, registry};

/// The parity sets of a code: sets of symbols that sum to zero, as its authors define them. Symbol i of block b has the number
/// bα + i. It has no matrix of the whole stripe, so that the largest arrays can be searched; where [`Code`](crate::Code) has
/// one, it is made of these.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParitySets {
    name: String,
    n: usize,
    alpha: usize,
    /// The data symbols, in the order of the data.
    data: Vec<u32>,
    /// The symbols of each set, ascending.
    sets: Vec<Vec<u32>>,
}

impl ParitySets {
    /// A set is any list of symbols; those that occur an even number of times fall out of it.
    pub(crate) fn new(name: &str, (n, alpha): (usize, usize), data: Vec<u32>, sets: Vec<Vec<u32>>) -> Self {
        let sets = sets.into_iter().map(odd).collect();
        Self { name: name.to_owned(), n, alpha, data, sets }
    }

    /// Those of a name such as `rdp-7`, of any size.
    ///
    /// # Errors
    /// As [`Code::parse`](crate::Code::parse), and [`CodeError::NotXor`] for codes of other coefficients.
    pub fn parse(name: &str) -> Result<Self, CodeError> {
        registry::parity_sets(name)?.ok_or_else(|| CodeError::NotXor { code: name.to_owned() })
    }

    /// The name of the code.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Blocks of a stripe.
    pub fn n(&self) -> usize {
        self.n
    }

    /// Symbols of a block (α).
    pub fn alpha(&self) -> usize {
        self.alpha
    }

    /// Blocks' worth of data.
    pub fn k(&self) -> usize {
        self.data.len() / self.alpha
    }

    /// Symbols of a stripe.
    pub fn symbols(&self) -> usize {
        self.n * self.alpha
    }

    /// The data symbols, in the order of the data.
    pub fn data(&self) -> &[u32] {
        &self.data
    }

    /// The sets, each ascending. Those of the first parity come first, (n−k)α in all.
    pub fn sets(&self) -> &[Vec<u32>] {
        &self.sets
    }

    /// Whether blocks 0 … k−1 are the data themselves.
    pub fn is_systematic(&self) -> bool {
        (0..).zip(&self.data).all(|(number, &symbol)| number == symbol)
    }

    /// Each symbol of the stripe as the data that sum to it.
    ///
    /// # Errors
    /// [`CodeError::OpenParitySets`] if the sets cannot be gone through so that each tells one more symbol.
    pub(crate) fn solve(&self) -> Result<Vec<Bits>, CodeError> {
        let mut rows: Vec<Option<Bits>> = vec![None; self.symbols()];
        for (column, &symbol) in self.data.iter().enumerate() {
            rows[symbol as usize] = Some(Bits::of(self.data.len(), [column]));
        }
        let mut open: Vec<&Vec<u32>> = self.sets.iter().collect();
        while !open.is_empty() {
            let before = open.len();
            open.retain(|set| {
                let mut unknown = set.iter().filter(|&&symbol| rows[symbol as usize].is_none());
                let (Some(&one), None) = (unknown.next(), unknown.next()) else { return true };
                let mut sum = Bits::new(self.data.len());
                set.iter().filter_map(|&symbol| rows[symbol as usize].as_ref()).for_each(|row| sum.add(row));
                rows[one as usize] = Some(sum);
                false
            });
            if open.len() == before {
                return Err(CodeError::OpenParitySets { code: self.name.clone(), open: before });
            }
        }
        let none = || CodeError::OpenParitySets { code: self.name.clone(), open: 0 };
        rows.into_iter().map(|row| row.ok_or_else(none)).collect()
    }
}
