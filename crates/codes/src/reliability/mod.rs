//! What a code and a layout are worth: how likely an object cannot be had at a moment (static resilience, RapidRAID §V.A),
//! and how long it lasts while what is lost is repaired (mean time to data loss, RP §4.2).
//!
//! ```text
//!   Code ──▶ Survival: of all patterns of f losses, the part that is survived ──▶ Resilience at p ──▶ nines
//!                                   └──▶ Markov chain over losses by rack ──▶ MTTDL
//! ```

mod chain;
mod mttdl;
#[cfg(test)]
mod tests;

pub use mttdl::{Layout, Rates, mttdl_hours};

use crate::draw::SplitMix64;
use crate::tolerance::{patterns, survives};
use crate::{Code, CodeError};

/// Patterns that are tried for one code, all numbers of losses together: about a second. (16,8) has 39,000 that matter.
const MAX_TRIED: u128 = 1_000_000;

/// Patterns drawn for a number of losses that has more than are tried.
const SAMPLE: usize = 100_000;

/// Width of the interval around a sampled part that holds the true one 19 times out of 20, in standard errors.
const CONFIDENCE: f64 = 1.96;

/// For each number of lost blocks, 0 … n, the part of all patterns that is survived.
#[derive(Clone, PartialEq, Debug)]
pub struct Survival {
    parts: Vec<Part>,
}

/// The part of the patterns of some number of losses that is survived.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Part {
    /// 0 … 1.
    pub survived: f64,
    /// Half of the width of its 95 % interval; 0 if all patterns were tried.
    pub error: f64,
}

/// How likely an object cannot be had when each node fails alone with the same probability.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Resilience {
    /// Probability that it cannot be had.
    pub loss: f64,
    /// Half of the width of its 95 % interval; 0 if all patterns were tried.
    pub error: f64,
}

impl Resilience {
    /// −log10 of the loss: three nines are 0.999.
    pub fn nines(&self) -> f64 {
        -self.loss.log10()
    }
}

impl Code {
    /// What it survives: tried from the fewest losses on, which weigh most, as long as there are not too many patterns, then
    /// sampled; the same at each call.
    ///
    /// # Errors
    /// A code that was constructed causes none; only what [`Code::count_recoverable`] might report.
    pub fn survival(&self) -> Result<Survival, CodeError> {
        let mut left = MAX_TRIED;
        let mut part = |losses: usize| {
            if losses <= self.tolerance() {
                return Ok(Part::exactly(1.0));
            }
            if losses > self.stored() - self.k() {
                return Ok(Part::exactly(0.0));
            }
            match left.checked_sub(patterns(self.stored(), losses)) {
                Some(rest) => {
                    left = rest;
                    let count = self.count_recoverable(losses)?;
                    Ok(Part::exactly(count.recoverable as f64 / count.patterns as f64))
                }
                None => Ok(self.sampled(losses)),
            }
        };
        Ok(Survival { parts: (0..=self.stored()).map(&mut part).collect::<Result<_, CodeError>>()? })
    }

    fn sampled(&self, losses: usize) -> Part {
        let mut draw = SplitMix64::seeded(losses as u64);
        let mut blocks: Vec<usize> = (0..self.stored()).collect();
        let survived = (0..SAMPLE).filter(|_| {
            for at in 0..losses {
                blocks.swap(at, at + draw.below(self.stored() - at));
            }
            survives(self.stored_checks(), self.alpha(), &blocks[..losses])
        });
        let part = survived.count() as f64 / SAMPLE as f64;
        let error = CONFIDENCE * (part * (1.0 - part) / SAMPLE as f64).sqrt();
        // None or all of a sample: the rule of three.
        Part { survived: part, error: error.max(3.0 / SAMPLE as f64) }
    }
}

impl Part {
    fn exactly(survived: f64) -> Self {
        Part { survived, error: 0.0 }
    }
}

impl Survival {
    /// Of so many losses; none of more than there are blocks.
    pub fn of(&self, losses: usize) -> Part {
        self.parts.get(losses).copied().unwrap_or(Part::exactly(0.0))
    }

    /// Blocks of a stripe.
    pub fn blocks(&self) -> usize {
        self.parts.len() - 1
    }

    /// Whether all patterns were tried.
    pub fn is_exact(&self) -> bool {
        self.parts.iter().all(|part| part.error == 0.0)
    }

    /// How likely the data cannot be had if each block is lost with probability `p`, 0 … 1, by itself.
    pub fn resilience(&self, p: f64) -> Resilience {
        let (mut loss, mut error) = (0.0, 0.0);
        for (weight, part) in binomial(self.blocks(), p).into_iter().zip(&self.parts) {
            loss += weight * (1.0 - part.survived);
            error += weight * part.error;
        }
        Resilience { loss, error }
    }
}

/// The probability of each number of hits out of `all`, 0 … `all`, each of probability `p`.
fn binomial(all: usize, p: f64) -> Vec<f64> {
    // From the end that is the likelier one for each: its power is none that vanishes below 500 blocks.
    if p > 0.5 {
        let mut misses = binomial(all, 1.0 - p);
        misses.reverse();
        return misses;
    }
    let next = |(hits, weight): &(usize, f64)| {
        let ways = (all - hits) as f64 / (hits + 1) as f64;
        (*hits < all).then(|| (hits + 1, weight * ways * p / (1.0 - p)))
    };
    let first = (0, (1.0 - p).powi(all as i32));
    std::iter::successors(Some(first), next).map(|(_, weight)| weight).collect()
}
