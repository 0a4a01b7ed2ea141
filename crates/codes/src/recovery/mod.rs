//! Which symbols a repair reads: as few as possible.
//!
//! Any k blocks do for an MDS code of one symbol to a block, and no fewer; the preferred ones are taken. Other codes
//! are searched: an LRC repairs from a group, a rotated code from equations that share symbols, an XOR code from the
//! sums that its parity sets give (`sums.rs`). Every search has a bound; what it has found when it gets there is used, and [`Recovery::fewest`] says what it is worth.

mod checks;
mod hyperplanes;
mod stored;
mod sums;

pub use sums::ONLY_IN_NEED;
pub(crate) use sums::Solved;

use crate::{Code, CodeError, Equation, Method, SymbolId};

/// Sets of blocks tried where no search applies: each takes an elimination, in wide codes milliseconds.
const MAX_TRIALS: usize = 32;

/// A repair equation, and how sure it is that none reads less.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recovery {
    /// The equation.
    pub equation: Equation,
    /// What is known of the number of symbols it reads.
    pub fewest: Fewest,
}

/// What is known of the number of symbols that a repair reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fewest {
    /// No equation reads fewer.
    Proved,
    /// No set of as many of the code's own parity equations as symbols are wanted reads fewer (*primitive* recovery
    /// sets); combinations of more equations were not tried.
    OfStoredEquations,
    /// A bound ended the search.
    Unproved,
}

/// What a set of symbols costs to read: their number, their blocks' number, then how little the blocks are preferred.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Cost {
    symbols: usize,
    blocks: usize,
    preference: usize,
}

/// What a symbol of the stripe is to a repair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Role {
    /// It is to be computed.
    Wanted,
    /// It costs nothing.
    Known,
    /// It can be read, from the block of that place in the order of preference.
    Readable(usize),
    /// It cannot be had.
    Missing,
}

/// A repair to be planned, symbol by symbol of the stripe.
struct Question<'a> {
    code: &'a Code,
    roles: Vec<Role>,
    /// Rows of the generator.
    wanted: Vec<usize>,
}

impl Code {
    /// [`Code::recovery_at`] with the same costs for all.
    ///
    /// # Errors
    /// As there.
    pub fn recovery(
        &self,
        wanted: &[SymbolId],
        known: &[usize],
        available: &[usize],
    ) -> Result<Recovery, CodeError> {
        self.recovery_at(wanted, known, available, &[])
    }

    /// The wanted symbols from as few others as possible, any symbol of the blocks in `known` at no cost and any of
    /// those in `available` at the same cost; for an XOR code as cheaply as possible, by what a symbol of each of `available` costs
    /// (1 where `costs` ends), and from those that cost [`ONLY_IN_NEED`] only if the others do not suffice. It prefers fewer blocks among equals, then those listed first in
    /// `available`.
    ///
    /// # Errors
    /// [`CodeError::NotRecoverable`], [`CodeError::NoSuchSymbol`], [`CodeError::NoSuchBlock`].
    pub fn recovery_at(
        &self,
        wanted: &[SymbolId],
        known: &[usize],
        available: &[usize],
        costs: &[u32],
    ) -> Result<Recovery, CodeError> {
        if let Some(sets) = self.parity_sets() {
            return self.by_sums_of_others_first(sets, wanted, (known, available), costs);
        }
        let blocks = [known, available].concat();
        let is_plain = self.needs_any_k() && self.alpha() == 1;
        if let Some(equation) = if is_plain { self.by_checks(wanted, &blocks)? } else { None } {
            return Ok(Recovery { equation, fewest: Fewest::Proved });
        }
        let preferred = self.express(wanted, &self.symbols_of(&blocks)?)?;
        if is_plain {
            // Any k−1 other blocks of an MDS code say nothing at all about a symbol.
            return Ok(Recovery { equation: preferred, fewest: Fewest::Proved });
        }
        let question = Question::new(self, wanted, known, available)?;
        let cost = question.cost(preferred.inputs.iter().map(|&symbol| self.row_of(symbol)));
        let (found, fewest) = match hyperplanes::search(&question, cost) {
            Some(found) => (found, Fewest::Proved),
            None => stored::search(&question, cost),
        };
        let equation = match found {
            Some(symbols) => question.express(wanted, known, &symbols)?,
            None if fewest == Fewest::Proved => preferred,
            None => question.leave_out(wanted, blocks, known, preferred)?,
        };
        Ok(Recovery { equation, fewest })
    }

    /// The equation of conventional recovery: for an XOR code by the parity sets of its first parity, completed by those of the next
    /// where these do not suffice; for others that of [`Code::recovery`].
    ///
    /// # Errors
    /// As there.
    pub fn conventional(
        &self,
        wanted: &[SymbolId],
        known: &[usize],
        available: &[usize],
    ) -> Result<Equation, CodeError> {
        let recovery = match self.parity_sets() {
            Some(sets) => self.by_sums(sets, wanted, (known, available), (Method::Conventional, &[]))?,
            None => self.recovery(wanted, known, available)?,
        };
        Ok(recovery.equation)
    }

    /// Whether no member follows from fewer than k others: virtual ones may.
    fn needs_any_k(&self) -> bool {
        self.is_mds() && self.virtuals() == 0
    }

    /// The row of the generator that belongs to an existing symbol.
    fn row_of(&self, symbol: SymbolId) -> usize {
        usize::from(symbol.block) * self.alpha() + usize::from(symbol.index)
    }
}

impl<'a> Question<'a> {
    fn new(
        code: &'a Code,
        wanted: &[SymbolId],
        known: &[usize],
        available: &[usize],
    ) -> Result<Self, CodeError> {
        let mut roles = vec![Role::Missing; code.n() * code.alpha()];
        let mut assign = |symbols: &[SymbolId], role: Role| {
            symbols.iter().for_each(|&symbol| roles[code.row_of(symbol)] = role);
        };
        for (place, &block) in available.iter().enumerate().rev() {
            assign(&code.symbols_of(&[block])?, Role::Readable(place));
        }
        assign(&code.symbols_of(known)?, Role::Known);
        assign(wanted, Role::Wanted);
        Ok(Self { code, roles, wanted: wanted.iter().map(|&symbol| code.row_of(symbol)).collect() })
    }

    /// What it costs to read `symbols`, which may include known ones.
    fn cost(&self, symbols: impl Iterator<Item = usize>) -> Cost {
        let mut cost = Cost { symbols: 0, blocks: 0, preference: 0 };
        let mut places = Vec::new();
        for symbol in symbols {
            if let Role::Readable(place) = self.roles[symbol] {
                cost.symbols += 1;
                places.push(place);
            }
        }
        places.sort_unstable();
        places.dedup();
        Cost { blocks: places.len(), preference: places.iter().sum(), ..cost }
    }

    /// The wanted symbols from known blocks and the given symbols, most preferred blocks first.
    fn express(
        &self,
        wanted: &[SymbolId],
        known: &[usize],
        symbols: &[usize],
    ) -> Result<Equation, CodeError> {
        let place = |&symbol: &usize| match self.roles[symbol] {
            Role::Readable(place) => place,
            _ => usize::MAX,
        };
        let mut symbols = symbols.to_vec();
        symbols.sort_by_key(|symbol| (place(symbol), *symbol));
        let mut from = self.code.symbols_of(known)?;
        from.extend(symbols.into_iter().map(|row| self.code.symbol_at(row)));
        self.code.express(wanted, &from)
    }

    /// Leaves out blocks, the least preferred first, as long as that lowers the number of those that are read, in a bounded
    /// number of trials.
    fn leave_out(
        &self,
        wanted: &[SymbolId],
        mut blocks: Vec<usize>,
        known: &[usize],
        mut best: Equation,
    ) -> Result<Equation, CodeError> {
        let code = self.code;
        let read = |equation: &Equation| {
            let mut blocks = equation.blocks();
            blocks.retain(|&block| !known.contains(&usize::from(block)));
            blocks
        };
        let mut trials = if code.needs_any_k() { 0 } else { MAX_TRIALS };
        while trials > 0 {
            let without = |&left_out: &u16| {
                trials = usize::checked_sub(trials, 1)?;
                let rest: Vec<usize> =
                    blocks.iter().copied().filter(|&block| block != usize::from(left_out)).collect();
                let equation = code.express(wanted, &code.symbols_of(&rest).ok()?).ok()?;
                (read(&equation).len() < read(&best).len()).then_some((rest, equation))
            };
            match read(&best).iter().rev().find_map(without) {
                Some(better) => (blocks, best) = better,
                None => break,
            }
        }
        Ok(best)
    }
}
