//! Lost symbols of an XOR code, and from which others they follow.
//!
//! Two notions of a recovery set are in use. A *primitive* one consists of as many of the code's own parity sets as symbols are
//! wanted ([`Method::Conventional`], [`Method::Replace`]); an *exact* one of any sums of them ([`Method::Exact`]), and may read
//! less.

use super::problem::Problem;
use super::{ParitySets, exact, replace};
use crate::CodeError;

/// How the symbols to read are found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Method {
    /// The sets of the first parity, completed by those of the next where they do not suffice.
    Conventional,
    /// The cheapest of any sums of parity sets, unless a limit ends the search: branch and bound.
    Exact,
    /// Parity sets that are replaced one by another as long as that makes it cheaper: polynomial (XOR supplement §3, and the
    /// replace algorithm of its main file).
    Replace,
}

/// What is lost of a stripe, what is wanted of it, and what it costs to read the rest. Symbols go by their numbers.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Loss {
    /// The symbols to be computed.
    pub wanted: Vec<u32>,
    /// Others that cannot be read; a wanted one may be among them.
    pub missing: Vec<u32>,
    /// Those that are known without being read, such as those that are all zero.
    pub known: Vec<u32>,
    /// What each symbol of the stripe costs to read; empty if all cost the same.
    pub costs: Vec<u32>,
}

/// Symbols from which the wanted ones follow.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reading {
    /// What is read, ascending.
    pub symbols: Vec<u32>,
    /// What that costs.
    pub cost: u64,
    /// For each wanted symbol those whose sum it is, read or known, ascending.
    pub sums: Vec<Vec<u32>>,
    /// Whether nothing cheaper suffices.
    pub proven: bool,
}

impl ParitySets {
    /// The loss of these blocks, all of which is wanted. `costs`: what a symbol of each block costs, 1 where there is none.
    ///
    /// # Errors
    /// [`CodeError::NoSuchBlock`].
    pub fn loss(&self, blocks: &[usize], costs: &[u32]) -> Result<Loss, CodeError> {
        if let Some(&block) = blocks.iter().find(|&&block| block >= self.n()) {
            return Err(CodeError::NoSuchBlock { code: self.name().to_owned(), n: self.n(), block });
        }
        let alpha = self.alpha() as u32;
        let symbols = |&block: &usize| block as u32 * alpha..(block as u32 + 1) * alpha;
        let wanted = blocks.iter().flat_map(symbols).collect();
        let cost = |symbol| costs.get(symbol / self.alpha()).copied().unwrap_or(1);
        let costs = if costs.is_empty() { Vec::new() } else { (0..self.symbols()).map(cost).collect() };
        Ok(Loss { wanted, costs, ..Loss::default() })
    }

    /// What to read for the wanted symbols.
    ///
    /// # Errors
    /// [`CodeError::NotRecoverable`] if they do not follow from what there is.
    ///
    /// # Panics
    /// As slices do, if a symbol is not in the stripe.
    pub fn recover(&self, loss: &Loss, method: Method) -> Result<Reading, CodeError> {
        self.recover_within(loss, method, exact::MAX_NODES)
    }

    /// The same, with an end of the exact search after so many nodes.
    pub(crate) fn recover_within(
        &self,
        loss: &Loss,
        method: Method,
        nodes: usize,
    ) -> Result<Reading, CodeError> {
        let problem = Problem::new(self, loss);
        let none = || {
            let lost = blocks_of(self, loss.wanted.iter().chain(&loss.missing));
            let available = (0..self.n()).filter(|block| !lost.contains(block)).collect();
            CodeError::NotRecoverable { code: self.name().to_owned(), lost, available }
        };
        let chosen = problem.first_basis().ok_or_else(none)?;
        let chosen = match method {
            Method::Conventional => chosen,
            Method::Replace | Method::Exact => replace::search(&problem, chosen),
        };
        let found = problem.reading(&chosen);
        Ok(match method {
            Method::Exact => exact::search(&problem, found, nodes),
            _ => found,
        })
    }
}

/// The blocks that these symbols are in.
fn blocks_of<'a>(sets: &ParitySets, symbols: impl Iterator<Item = &'a u32>) -> Vec<usize> {
    let mut blocks: Vec<usize> = symbols.map(|&symbol| symbol as usize / sets.alpha()).collect();
    blocks.sort_unstable();
    blocks.dedup();
    blocks
}
