//! Systematic Reed-Solomon codes from a Vandermonde matrix.

use crate::{
    Code, CodeError,
    code::Evidence,
    registry::{Family, Parameters},
};
use gf::{Field, Matrix};

pub(crate) const FAMILY: Family = Family {
    pattern: "rs-K+M",
    example: "rs-10+4",
    description: "Reed-Solomon: K data and M parity blocks, any K suffice",
    source: "Reed and Solomon 1960; systematic Vandermonde matrix over GF(2^8)",
    prefix: "rs-",
    build,
    parity_sets: None,
    redraw: None,
};

/// Row i of the Vandermonde matrix is the powers 0 … k−1 of element i; multiplied by the inverse of its first k rows,
/// the top becomes the identity.
///
/// MDS: any k rows are a Vandermonde matrix of distinct elements, and stay invertible times an invertible matrix.
fn build(parameters: &Parameters) -> Result<Code, CodeError> {
    let (k, m) = parameters.k_plus_m()?;
    let field = Field::Gf256;
    let mut vandermonde = Matrix::zero(field, k + m, k);
    // k+m ≤ 256, so that each i is an element of the field.
    for i in 0..k + m {
        for power in 0..k {
            vandermonde.set(i, power, field.pow(i as u16, power as u64));
        }
    }
    let top: Vec<usize> = (0..k).collect();
    let generator = vandermonde.mul(&vandermonde.select_rows(&top)?.invert()?)?;
    Code::from_mds_generator(parameters.name, k + m, k, 1, generator, Evidence::Theorem)
}
