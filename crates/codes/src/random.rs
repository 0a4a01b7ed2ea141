//! A code for tests: two symbols to a block and coefficients without any structure, so that nothing downstream can
//! quietly rely on α = 1 or on a particular matrix. Not meant for data.

use crate::{
    Code, CodeError,
    code::Evidence,
    draw::SplitMix64,
    registry::{Family, Parameters},
};
use gf::{Field, Matrix};

pub(crate) const FAMILY: Family = Family {
    pattern: "random-a2-K+M-sSEED",
    example: "random-a2-4+2-s1",
    description: "test code: two symbols per block, random coefficients drawn from SEED; not for production data",
    source: "a random linear code over GF(2^8), redrawn until any M losses are proved survivable",
    prefix: "random-a2-",
    build,
    parity_sets: None,
    redraw: None,
};

const ALPHA: usize = 2;

/// Largest stripe. Beyond it hardly any draw passes, and each takes long.
const MAX_BLOCKS: usize = 16;

/// Draws before giving up. One pattern in about 255 fails, so a draw of (14,10) passes one time in fifty.
const MAX_DRAWS: usize = 1_000;

/// The parity rows of each draw are the next bytes of the generator, row after row; names must mean the same for ever.
fn build(parameters: &Parameters) -> Result<Code, CodeError> {
    let (k, m, seed) = parameters.k_plus_m_seed()?;
    if k + m > MAX_BLOCKS {
        return Err(parameters.bad(format!("K+M must be at most {MAX_BLOCKS} in this family")));
    }
    let field = Field::Gf256;
    let mut random = SplitMix64::seeded(seed);
    for _ in 0..MAX_DRAWS {
        let mut parity = Matrix::zero(field, m * ALPHA, k * ALPHA);
        for row in 0..parity.rows() {
            for col in 0..parity.cols() {
                parity.set(row, col, random.next_byte().into());
            }
        }
        let generator = Matrix::identity(field, k * ALPHA).stack(&parity)?;
        match Code::from_mds_generator(parameters.name, k + m, k, ALPHA, generator, Evidence::Trial) {
            Err(CodeError::NotMds { .. }) => (),
            settled => return settled,
        }
    }
    Err(CodeError::NoDraw { code: parameters.name.to_owned(), draws: MAX_DRAWS, losses: m })
}
