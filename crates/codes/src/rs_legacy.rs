//! Reed-Solomon codes by a generating polynomial: the codec `rs-legacy` of HDFS 3, and of HDFS-RAID before it.

use crate::{
    Code, CodeError,
    code::Evidence,
    registry::{Family, Parameters},
};
use gf::{Field, Matrix};

pub(crate) const FAMILY: Family = Family {
    pattern: "rs-legacy-K+M",
    example: "rs-legacy-6+3",
    description: "Reed-Solomon by its generating polynomial: reads and writes what the codec rs-legacy of HDFS does",
    source: "Reed and Solomon 1960; parities are the remainder of Σ d_j·x^(M+j) by Π (x − 2^i), i < M, over GF(2^8)",
    prefix: "rs-legacy-",
    build,
    parity_sets: None,
    redraw: None,
};

/// Parity i is the coefficient of x^i. MDS: the codewords are the multiples of a polynomial with M consecutive powers of a
/// primitive element as roots, and shorter than the field (the BCH bound).
fn build(parameters: &Parameters) -> Result<Code, CodeError> {
    let (k, m) = parameters.k_plus_m_up_to(u8::MAX as usize)?;
    let field = Field::Gf256;
    // Lowest coefficient first.
    let mut generating = vec![1];
    for i in 0..m {
        let scaled: Vec<u16> = generating.iter().map(|&c| field.mul(c, field.pow(2, i as u64))).collect();
        generating.insert(0, 0);
        generating.iter_mut().zip(scaled).for_each(|(sum, term)| *sum ^= term);
    }
    // The highest coefficient, of x^M, is 1: the rest is the remainder of x^M.
    generating.truncate(m);
    let mut parity = Matrix::zero(field, m, k);
    // From the remainder of a power that of the next one: times x, less the highest coefficient times the polynomial.
    let mut remainder = generating.clone();
    for j in 0..k {
        for (i, &coefficient) in remainder.iter().enumerate() {
            parity.set(i, j, coefficient);
        }
        let highest = remainder[m - 1];
        for i in (0..m).rev() {
            let below = if i == 0 { 0 } else { remainder[i - 1] };
            remainder[i] = below ^ field.mul(highest, generating[i]);
        }
    }
    let generator = Matrix::identity(field, k).stack(&parity)?;
    Code::from_mds_generator(parameters.name, k + m, k, 1, generator, Evidence::Theorem)
}
