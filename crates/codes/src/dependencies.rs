//! Which sets of k stored blocks do not determine the data (RapidRAID §V.A).
//!
//! A set of k blocks is dependent if and only if the loss of all the others is fatal.

use crate::tolerance::{self, MAX_COUNTED_PATTERNS, every_pattern, survives};
use crate::{Code, CodeError, registry};
use gf::Matrix;

/// Draws over GF(2^16) in all of which a subset must be dependent to be counted as natural. One that is not natural is
/// dependent in a draw with a probability of at most k/65535 (Schwartz, Zippel: its determinant has degree k in the
/// coefficients); in all of these, at n = 16, with less than 10^-10 for all subsets together.
const DRAWS: u64 = 4;

/// Dependent subsets of a code.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Dependencies {
    /// Subsets of k of the n stored blocks, C(n, k).
    pub subsets: u64,
    /// Those from which the data do not follow, as blocks counted from 0; in the order of what they leave out.
    pub dependent: Vec<Vec<u16>>,
    /// How many are dependent whatever the coefficients; `None` for a family that leaves none to be chosen.
    pub natural: Option<u64>,
}

impl Dependencies {
    /// Dependent by the choice of coefficients alone.
    pub fn accidental(&self) -> Option<u64> {
        self.natural.map(|natural| self.dependent.len() as u64 - natural)
    }
}

impl Code {
    /// Tries every subset.
    ///
    /// # Errors
    /// [`CodeError::TooManyPatterns`].
    pub fn dependencies(&self) -> Result<Dependencies, CodeError> {
        let (n, k) = (self.stored(), self.k());
        let mut found = Dependencies { subsets: 0, dependent: Vec::new(), natural: None };
        self.every_loss(n - k, |left_out, survived| {
            found.subsets += 1;
            if !survived {
                let others = (0..n).filter(|block| !left_out.contains(block));
                found.dependent.push(others.map(|block| block as u16).collect());
            }
        })?;
        if let Some(redraw) = registry::redraw(self.name()) {
            found.natural = Some(natural(self.name(), n, k, redraw)?);
        }
        Ok(found)
    }
}

/// How many subsets of k of n blocks are dependent for each of some draws of the coefficients; `redraw` makes the n × k
/// generator of a seed over GF(2^16).
fn natural(
    code: &str,
    n: usize,
    k: usize,
    redraw: impl Fn(u64) -> Result<Matrix, CodeError>,
) -> Result<u64, CodeError> {
    let mut natural = 0;
    each_by_nature(code, (n, k), redraw, |_, is_natural| natural += u64::from(is_natural))?;
    Ok(natural)
}

/// Calls `visit` with what each subset leaves out, and whether it is dependent whatever the coefficients.
pub(crate) fn each_by_nature(
    code: &str,
    (n, k): (usize, usize),
    redraw: impl Fn(u64) -> Result<Matrix, CodeError>,
    mut visit: impl FnMut(&[usize], bool),
) -> Result<(), CodeError> {
    tolerance::require_patterns(code, n, n - k, MAX_COUNTED_PATTERNS)?;
    let draws: Vec<Matrix> =
        (0..DRAWS).map(|seed| Ok(tolerance::checks(&redraw(seed)?)?)).collect::<Result<_, CodeError>>()?;
    every_pattern(n, n - k, |left_out| {
        visit(left_out, draws.iter().all(|checks| !survives(checks, 1, left_out)));
        true
    });
    Ok(())
}
