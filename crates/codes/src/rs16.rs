//! Reed-Solomon codes over GF(2^16), for stripes wider than GF(2^8) has elements.
//!
//! A block is two symbols over GF(2^8), the low and the high halves of its elements: byte i of the first half of the block
//! and byte i of the second make one element. So everything that moves bytes knows one field.

use crate::{
    Code, CodeError,
    code::Evidence,
    registry::{Family, Parameters},
};
use gf::{Field, Matrix};

pub(crate) const FAMILY: Family = Family {
    pattern: "rs16-K+M",
    example: "rs16-300+20",
    description: "Reed-Solomon over GF(2^16), for more than 256 blocks; two symbols per block, twice the arithmetic of rs-cauchy",
    source: "Blömer et al. 1995; parity i = Σ 1/((65535−i) xor j)·d_j over GF(2^16) = GF(2^8)[z]/(z²+z+34)",
    prefix: "rs16-",
    build,
    parity_sets: None,
    redraw: None,
};

/// Largest number of blocks: the field would allow 65,536, but a flow has a stage for each block and at most 514 of them,
/// and takes 1,024 rows into one, two to a block.
const MAX_BLOCKS: usize = 512;

/// Halves of a block.
const ALPHA: usize = 2;

/// MDS: 65535−i and j run over distinct elements, so every square part of the parity rows is a Cauchy matrix and
/// invertible; a matrix over GF(2^16) stays so over GF(2^8).
fn build(parameters: &Parameters) -> Result<Code, CodeError> {
    let (k, m) = parameters.k_plus_m_up_to(MAX_BLOCKS)?;
    let field = Field::Gf65536;
    let mut parity = Matrix::zero(field, m, k);
    for i in 0..m {
        for j in 0..k {
            // Both are below 65,536, and not equal, as i + j < k + m.
            parity.set(i, j, field.inv((65_535 - i as u16) ^ j as u16).unwrap_or(0));
        }
    }
    let generator = Matrix::identity(field, k).stack(&parity)?.over_gf256();
    Code::from_mds_generator(parameters.name, k + m, k, ALPHA, generator, Evidence::Theorem)
}
