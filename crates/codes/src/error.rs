//! What can be wrong with a code, its name, or a question put to it.

use crate::SymbolId;
use gf::MatrixError;
use thiserror::Error;

/// Every error of this crate.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum CodeError {
    /// No family has such names.
    #[error("unknown code '{name}'; known are {}{}", .known.join(", "), did_you_mean(.suggestion))]
    Unknown {
        /// The name.
        name: String,
        /// Name patterns of all families.
        known: Vec<&'static str>,
        /// The pattern that looks most like the name.
        suggestion: Option<&'static str>,
    },
    /// The family is known, its parameters are not acceptable.
    #[error("bad code name '{name}': {reason} (expected {pattern}, such as {example})")]
    BadParameters {
        /// The name.
        name: String,
        /// How names of the family are made.
        pattern: &'static str,
        /// A good name.
        example: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// A name so long that it is not looked at.
    #[error("a code name of {bytes} bytes; the longest allowed is {limit}")]
    NameTooLong {
        /// Its length.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// (n,k) and α that make no stripe, or too large a one.
    #[error("{code}: (n,k) = ({n},{k}) with α = {alpha} is no stripe: needs 1 ≤ k ≤ n, α ≥ 1, nα ≤ {limit}")]
    Size {
        /// The code.
        code: String,
        /// Blocks in all.
        n: usize,
        /// Blocks of data.
        k: usize,
        /// Symbols per block.
        alpha: usize,
        /// Largest number of symbols in a stripe.
        limit: usize,
    },
    /// A generator whose size is not nα × kα.
    #[error("{code}: the generator is {rows}×{cols}, should be {expected_rows}×{expected_cols}")]
    Shape {
        /// The code.
        code: String,
        /// Rows found.
        rows: usize,
        /// Columns found.
        cols: usize,
        /// nα
        expected_rows: usize,
        /// kα
        expected_cols: usize,
    },
    /// A generator from whose blocks, all together, the data do not follow.
    #[error("{code}: the generator has rank {rank}, {needed} is needed")]
    RankDeficient {
        /// The code.
        code: String,
        /// Its rank.
        rank: usize,
        /// kα
        needed: usize,
    },
    /// More erasure patterns than it is reasonable to try.
    #[error("{code}: {patterns} patterns of {losses} losses; at most {limit} are tried")]
    TooManyPatterns {
        /// The code.
        code: String,
        /// Lost blocks per pattern.
        losses: usize,
        /// C(n, losses), saturating.
        patterns: u128,
        /// The limit.
        limit: u128,
    },
    /// Parity sets from which some symbols do not follow: a mistake in a family.
    #[error("{code}: {open} of its parity sets have more than one unknown symbol")]
    OpenParitySets {
        /// The code.
        code: String,
        /// Sets that are left.
        open: usize,
    },
    /// A code whose blocks are not sums of symbols alone.
    #[error("{code} is no XOR code")]
    NotXor {
        /// The code.
        code: String,
    },
    /// A layout whose Markov chain would be too large.
    #[error("{blocks} blocks in {racks} racks have more than {limit} states")]
    TooManyStates {
        /// Blocks of a stripe.
        blocks: usize,
        /// Racks.
        racks: usize,
        /// The limit.
        limit: usize,
    },
    /// A generator that should be MDS and is not: parameters that the family cannot serve, or, where all codes of a family
    /// are MDS, a bug.
    #[error("{code} is not MDS: some {losses} losses are fatal")]
    NotMds {
        /// The code.
        code: String,
        /// n−k
        losses: usize,
    },
    /// A random code of which no draw was good enough.
    #[error("{code}: none of {draws} random generators survives any {losses} losses")]
    NoDraw {
        /// The code.
        code: String,
        /// How many were tried.
        draws: usize,
        /// Wanted tolerance.
        losses: usize,
    },
    /// A block or symbol that the stripe does not have.
    #[error("{code} has no symbol {} of block {}", symbol.index, symbol.block)]
    NoSuchSymbol {
        /// The code.
        code: String,
        /// What was asked for.
        symbol: SymbolId,
    },
    /// A block index that the stripe does not have.
    #[error("{code} has {n} blocks; there is no block {block}")]
    NoSuchBlock {
        /// The code.
        code: String,
        /// Blocks in all.
        n: usize,
        /// What was asked for.
        block: usize,
    },
    /// A block was said to be lost and available.
    #[error("{code}: block {block} is said to be both lost and available")]
    LostAndAvailable {
        /// The code.
        code: String,
        /// The block.
        block: usize,
    },
    /// The wanted symbols do not follow from the available ones.
    #[error("{code}: blocks {lost:?} cannot be recovered from blocks {available:?}")]
    NotRecoverable {
        /// The code.
        code: String,
        /// Blocks of which symbols are wanted.
        lost: Vec<usize>,
        /// Blocks that could be read.
        available: Vec<usize>,
    },
    /// A code whose blocks do not hold the data symbols themselves has no equation from data blocks to the others.
    #[error("{code} does not store its data symbols, so there is nothing to encode from")]
    DataNotStored {
        /// The code.
        code: String,
    },
    /// Matrices that do not fit.
    #[error(transparent)]
    Matrix(#[from] MatrixError),
}

fn did_you_mean(suggestion: &Option<&'static str>) -> String {
    suggestion.map(|pattern| format!("; did you mean {pattern}?")).unwrap_or_default()
}
