//! Reed-Solomon codes from a Cauchy matrix, block for block those of HDFS 3.

use crate::{
    Code, CodeError,
    code::Evidence,
    registry::{Family, Parameters},
};
use gf::{Field, Matrix};

pub(crate) const FAMILY: Family = Family {
    pattern: "rs-cauchy-K+M",
    example: "rs-cauchy-6+3",
    description: "Reed-Solomon with the matrix of HDFS 3 and ISA-L: reads and writes what HDFS does",
    source: "Blömer et al. 1995; parity i = Σ 1/((K+i) xor j)·d_j over GF(2^8), as in ISA-L gf_gen_cauchy1_matrix",
    prefix: "rs-cauchy-",
    build,
    parity_sets: None,
    redraw: None,
};

/// MDS: k+i and j run over distinct elements, so every square part of the parity rows is a Cauchy matrix and invertible.
fn build(parameters: &Parameters) -> Result<Code, CodeError> {
    let (k, m) = parameters.k_plus_m()?;
    let field = Field::Gf256;
    let mut parity = Matrix::zero(field, m, k);
    for i in 0..m {
        for j in 0..k {
            // (k+i) xor j is not 0, as k+i ≥ k > j, and below 256, as both are.
            parity.set(i, j, field.inv(((k + i) ^ j) as u16).unwrap_or(0));
        }
    }
    let generator = Matrix::identity(field, k).stack(&parity)?;
    Code::from_mds_generator(parameters.name, k + m, k, 1, generator, Evidence::Theorem)
}
