//! Coefficients over GF(2^8) without accidental dependencies, by hill climbing (RapidRAID §V.A expects that they take long to find).

use super::{Chain, DRAWN_FROM};
use crate::draw::SplitMix64;
use crate::tolerance::{checks, survives};
use crate::{CodeError, dependencies};
use gf::Field;

/// What a search came to.
#[derive(Clone, Debug)]
pub struct Found {
    /// The best coefficients.
    pub chain: Chain,
    /// Their accidental dependencies; 0 ends a search.
    pub accidental: u64,
    /// Chains that were tried.
    pub tried: u64,
}

/// Chains without becoming better after which two, then three coefficients are changed at once.
const PATIENCE: u64 = 400;

/// Changes one coefficient at a time and keeps what leaves no more dependent subsets, for `tries` chains at most. A climb
/// that has become no better for long changes two, then three at once. The same for the same seed.
///
/// # Errors
/// [`CodeError::TooManyPatterns`].
pub fn search(k: usize, m: usize, seed: u64, tries: u64) -> Result<Found, CodeError> {
    let field = Field::Gf256;
    // What is natural is no matter of the coefficients.
    let mut avoidable: Vec<Vec<usize>> = Vec::new();
    let redraw = |draw| Ok(Chain::draw(Field::Gf65536, k, m, draw).generator());
    let name = format!("rapidraid-{k}+{m}");
    dependencies::each_by_nature(&name, (k + m, k), redraw, |left_out, is_natural| {
        avoidable.extend((!is_natural).then(|| left_out.to_vec()));
    })?;
    let mut draw = SplitMix64::seeded(seed);
    let mut best = Chain::draw(field, k, m, DRAWN_FROM);
    let mut accidental = dependent(&best, &avoidable, u64::MAX)?;
    let (mut tried, mut since) = (1, 0);
    while accidental > 0 && tried < tries {
        let mut other = best.clone();
        for _ in 0..1 + since / PATIENCE {
            let at = draw.below(4 * k - 1);
            *other.coefficient_mut(at) = draw.unit(field.order());
        }
        let found = dependent(&other, &avoidable, accidental)?;
        (tried, since) = (tried + 1, if since == 3 * PATIENCE { 0 } else { since + 1 });
        if found <= accidental {
            since = if found < accidental { 0 } else { since };
            (best, accidental) = (other, found);
        }
    }
    Ok(Found { chain: best, accidental, tried })
}

/// How many of the subsets that leave these blocks out are dependent; more than `most` are not counted.
fn dependent(chain: &Chain, left_out: &[Vec<usize>], most: u64) -> Result<u64, CodeError> {
    let checks = checks(&chain.generator())?;
    let mut dependent = 0;
    for blocks in left_out {
        dependent += u64::from(!survives(&checks, 1, blocks));
        if dependent > most {
            break;
        }
    }
    Ok(dependent)
}
