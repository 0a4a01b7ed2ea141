//! Which losses a code survives, proved by rank.
//!
//! Losing the blocks L is survived if and only if no codeword but zero lives in L alone, that is, if the columns of the
//! parity-check matrix that belong to L are independent. Those are (n−k)α × |L|α elements, few beside the generator.

use crate::xor::{BitBasis, Bits};
use crate::{Code, CodeError};
use gf::{Matrix, MatrixError};

/// Patterns tried to prove a tolerance for which no theorem is at hand: at half a microsecond each (measured at (20,12)),
/// half a second.
const MAX_PROOF_PATTERNS: u128 = 1_000_000;

/// Patterns tried although a theorem already gives the answer: less than a millisecond, as codes are often parsed.
const QUICK_PATTERNS: u128 = 2_000;

/// Patterns counted when somebody asks: some five seconds.
pub(crate) const MAX_COUNTED_PATTERNS: u128 = 10_000_000;

/// How many patterns of some number of losses are survived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ToleranceCount {
    /// All patterns, C(n, losses).
    pub patterns: u64,
    /// Those from which every lost block can be recovered.
    pub recoverable: u64,
}

/// How a code of local groups compares with what is information-theoretically recoverable: a pattern of losses that
/// leaves no more unknowns than there are global parities once each group has repaired one of its own (Huang et al.,
/// Erasure Coding in Windows Azure Storage, USENIX ATC 2012, §2). Only patterns that use every parity up are counted, as
/// all others are parts of those.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// All such patterns were tried. If all are recoverable, no code of these groups recovers more (maximally
    /// recoverable).
    Tried(ToleranceCount),
    /// Too many patterns to try.
    Untried {
        /// Patterns of as many losses as there are parities, saturating.
        patterns: u64,
        /// At most so many are tried.
        limit: u64,
    },
}

impl Code {
    /// Whether all of the `lost` members follow from the others that are stored. One that is not in the stripe never does;
    /// virtual ones do if the data follow at all.
    pub fn recoverable(&self, lost: &[usize]) -> bool {
        let mut lost = lost.to_vec();
        lost.sort_unstable();
        lost.dedup();
        let exist = lost.last().is_none_or(|&last| last < self.n());
        let stored: Vec<usize> =
            lost.iter().filter_map(|member| member.checked_sub(self.virtuals())).collect();
        exist && (stored.len() <= self.tolerance() || survives(self.stored_checks(), self.alpha(), &stored))
    }

    /// Tries all patterns of so many lost stored blocks (static resilience).
    ///
    /// # Errors
    /// [`CodeError::TooManyPatterns`].
    pub fn count_recoverable(&self, losses: usize) -> Result<ToleranceCount, CodeError> {
        let mut count = ToleranceCount { patterns: 0, recoverable: 0 };
        self.every_loss(losses, |_, survived| {
            count.patterns += 1;
            count.recoverable += u64::from(survived);
        })?;
        Ok(count)
    }

    /// Calls `visit` with each pattern of so many of the stored blocks, counted from 0, and whether its loss is survived.
    pub(crate) fn every_loss(
        &self,
        losses: usize,
        mut visit: impl FnMut(&[usize], bool),
    ) -> Result<(), CodeError> {
        require_patterns(self.name(), self.stored(), losses, MAX_COUNTED_PATTERNS)?;
        every_pattern(self.stored(), losses, |lost| {
            visit(lost, survives(self.stored_checks(), self.alpha(), lost));
            true
        });
        Ok(())
    }
}

/// The parity-check matrix of a generator, transposed: a row for each symbol of the stripe, a column for each equation.
/// The equations say that each row of the generator outside its first independent rows is a combination of those.
pub(crate) fn checks(generator: &Matrix) -> Result<Matrix, MatrixError> {
    // X with X · G = G, nonzero only in the columns of the first independent rows, which stand for themselves.
    let combinations = generator.solve_left(generator)?;
    let symbols = generator.rows();
    let dependent: Vec<usize> = (0..symbols).filter(|&row| combinations.get(row, row) == 0).collect();
    let mut checks = Matrix::zero(generator.field(), symbols, dependent.len());
    for (equation, &row) in dependent.iter().enumerate() {
        for symbol in 0..symbols {
            checks.set(symbol, equation, combinations.get(row, symbol));
        }
        checks.set(row, equation, 1);
    }
    Ok(checks)
}

/// The largest f such that every f losses are survived.
pub(crate) fn prove(code: &str, checks: &Matrix, n: usize, alpha: usize) -> Result<usize, CodeError> {
    // The loss of more blocks than there are equations for is never survived (the Singleton bound). Surviving any f
    // losses includes surviving fewer, so that for an MDS code the first step is the whole proof; for others it soon
    // fails.
    let most = checks.cols() / alpha;
    if patterns(n, most) <= MAX_PROOF_PATTERNS && survives_any(code, checks, n, alpha, most)? {
        return Ok(most);
    }
    for losses in 1..=most {
        if !survives_any(code, checks, n, alpha, losses)? {
            return Ok(losses - 1);
        }
    }
    Ok(most)
}

/// Tries every pattern of as many losses as there are equations which some code of these `groups` could survive; α = 1.
pub(crate) fn reach(checks: &Matrix, groups: &[Option<usize>]) -> Reach {
    let (n, losses) = (groups.len(), checks.cols());
    let patterns = patterns(n, losses);
    if patterns > MAX_PROOF_PATTERNS {
        let saturate = |count: u128| u64::try_from(count).unwrap_or(u64::MAX);
        return Reach::Untried { patterns: saturate(patterns), limit: saturate(MAX_PROOF_PATTERNS) };
    }
    let count = groups.iter().flatten().max().map_or(0, |last| last + 1);
    let mut tried = ToleranceCount { patterns: 0, recoverable: 0 };
    every_pattern(n, losses, |lost| {
        // With as many losses as parities, a group without a loss leaves its parity idle and the global ones too few.
        let touched = (0..count).all(|group| lost.iter().any(|&block| groups[block] == Some(group)));
        if touched {
            tried.patterns += 1;
            tried.recoverable += u64::from(survives(checks, 1, lost));
        }
        true
    });
    Reach::Tried(tried)
}

/// Whether every pattern of `losses` losses is survived, by trying.
pub(crate) fn survives_any(
    code: &str,
    checks: &Matrix,
    n: usize,
    alpha: usize,
    losses: usize,
) -> Result<bool, CodeError> {
    require_patterns(code, n, losses, MAX_PROOF_PATTERNS)?;
    Ok(every_pattern(n, losses, |lost| survives(checks, alpha, lost)))
}

/// As [`survives_any`], of a code over GF(2): `checks` has for each symbol the equations that it is in.
pub(crate) fn survives_any_xor(
    code: &str,
    checks: &[Bits],
    (n, alpha): (usize, usize),
    losses: usize,
) -> Result<bool, CodeError> {
    require_patterns(code, n, losses, MAX_PROOF_PATTERNS)?;
    Ok(every_pattern(n, losses, |lost| {
        let mut basis = BitBasis::default();
        let mut symbols = lost.iter().flat_map(|block| block * alpha..(block + 1) * alpha);
        symbols.all(|symbol| basis.push(checks[symbol].clone()))
    }))
}

/// Whether trying all patterns of `losses` losses takes no noticeable time.
pub(crate) fn is_quick(n: usize, losses: usize) -> bool {
    patterns(n, losses) <= QUICK_PATTERNS
}

pub(crate) fn survives(checks: &Matrix, alpha: usize, lost: &[usize]) -> bool {
    let symbols: Vec<usize> = lost.iter().flat_map(|block| block * alpha..(block + 1) * alpha).collect();
    symbols.len() <= checks.cols()
        && checks.select_rows(&symbols).is_ok_and(|rows| rows.rank() == symbols.len())
}

pub(crate) fn require_patterns(code: &str, n: usize, losses: usize, limit: u128) -> Result<(), CodeError> {
    let patterns = patterns(n, losses);
    if patterns > limit {
        return Err(CodeError::TooManyPatterns { code: code.to_owned(), losses, patterns, limit });
    }
    Ok(())
}

/// C(n, losses), saturating.
pub(crate) fn patterns(n: usize, losses: usize) -> u128 {
    if losses > n {
        return 0;
    }
    // After step i the value is C(n, i+1), so each division is exact.
    (0..losses.min(n - losses))
        .try_fold(1u128, |c, i| Some(c.checked_mul((n - i) as u128)? / (i as u128 + 1)))
        .unwrap_or(u128::MAX)
}

/// Calls `visit` with each set of `losses` out of n blocks, ascending, until it says false; whether it never did.
pub(crate) fn every_pattern(n: usize, losses: usize, mut visit: impl FnMut(&[usize]) -> bool) -> bool {
    if losses > n {
        return true;
    }
    let mut pattern: Vec<usize> = (0..losses).collect();
    loop {
        if !visit(&pattern) {
            return false;
        }
        // The last position that can still move; all after it follow close behind.
        let Some(moved) = (0..losses).rev().find(|&i| pattern[i] < n - losses + i) else { return true };
        pattern[moved] += 1;
        for i in moved + 1..losses {
            pattern[i] = pattern[i - 1] + 1;
        }
    }
}
