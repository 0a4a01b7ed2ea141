//! XOR codes: array codes and bit matrices, of α symbols to a block. They are defined by their parity sets, sets of symbols
//! that sum to zero; the generator follows from these. Coefficients are 0 and 1, so that the data path only XORs.

mod arrays;
mod bits;
mod exact;
mod loss;
mod matrices;
mod problem;
mod replace;
mod sets;
mod small_field;
#[cfg(test)]
mod tests;

pub(crate) use arrays::{EVENODD, HDP, RDP, STAR, X_CODE};
pub(crate) use bits::{BitBasis, Bits};
pub use loss::{Loss, Method, Reading};
pub(crate) use matrices::{BLAUM_ROTH, CAUCHY, CAUCHY_BEST, CAUCHY_GOOD, LIBER8TION, LIBERATION};
pub(crate) use problem::odd;
pub use sets::ParitySets;

use crate::registry::Parameters;
use crate::{Code, CodeError};

/// How a family makes parity sets of a name.
pub(crate) type Build = fn(&Parameters) -> Result<ParitySets, CodeError>;

/// The code of these sets, its tolerance proved by rank: these families are all MDS, so what is not is refused.
fn full(parameters: &Parameters, sets: Build) -> Result<Code, CodeError> {
    Code::from_parity_sets(sets(parameters)?)
}

/// Whether a number has no divisors.
pub(crate) fn is_prime(number: usize) -> bool {
    number >= 2 && (2..).take_while(|d| d * d <= number).all(|d| !number.is_multiple_of(d))
}
