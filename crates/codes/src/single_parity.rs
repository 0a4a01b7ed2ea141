//! One parity, the sum of the data blocks: the codec `xor` of HDFS 3.

use crate::{
    Code, CodeError,
    code::Evidence,
    registry::{Family, Parameters},
};
use gf::{Field, Matrix};

pub(crate) const FAMILY: Family = Family {
    pattern: "xor-K+1",
    example: "xor-2+1",
    description: "one parity, the sum of K data blocks: reads and writes what the codec xor of HDFS does",
    source: "Patterson, Gibson and Katz 1988 (RAID)",
    prefix: "xor-",
    build,
    parity_sets: None,
    redraw: None,
};

/// MDS: whatever is lost is the sum of the rest.
fn build(parameters: &Parameters) -> Result<Code, CodeError> {
    let (k, m) = parameters.k_plus_m()?;
    if m != 1 {
        return Err(parameters.bad("has one parity: the second would be the first again".to_owned()));
    }
    let field = Field::Gf256;
    let mut parity = Matrix::zero(field, 1, k);
    (0..k).for_each(|j| parity.set(0, j, 1));
    let generator = Matrix::identity(field, k).stack(&parity)?;
    Code::from_mds_generator(parameters.name, k + 1, k, 1, generator, Evidence::Theorem)
}
