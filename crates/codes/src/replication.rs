//! Replication as a code: a replicated write is then a flow like any other, proved like any other.

use crate::{
    Code, CodeError,
    code::Evidence,
    registry::{Family, Parameters},
};
use gf::{Field, Matrix};

pub(crate) const FAMILY: Family = Family {
    pattern: "rep-N",
    example: "rep-3",
    description: "replication: N equal blocks",
    source: "the (N,1) repetition code",
    prefix: "rep-",
    build,
    parity_sets: None,
    redraw: None,
};

/// MDS: k is 1 and every block is the data.
fn build(parameters: &Parameters) -> Result<Code, CodeError> {
    let n = parameters.blocks()?;
    let generator = Matrix::from_rows(Field::Gf256, &vec![[1]; n])?;
    Code::from_mds_generator(parameters.name, n, 1, 1, generator, Evidence::Theorem)
}
