//! Row and column parities: K rows of M data blocks, an XOR for each row and one for each column. A lost data block is
//! repaired from its row or its column.
//!
//! ```text
//!   grid-2+3      d0 d1 d2 → block 6
//!                 d3 d4 d5 → block 7
//!                  ↓  ↓  ↓
//!                  8  9  10
//! ```

use crate::{
    Code, CodeError,
    registry::{Family, Parameters},
};
use gf::{Field, Matrix};

pub(crate) const FAMILY: Family = Family {
    pattern: "grid-K+M",
    example: "grid-3+4",
    description: "row and column parities: K rows of M data blocks, an XOR for each row and each column",
    source: "the product of two single-parity codes, without the parity of the parities",
    prefix: "grid-",
    build,
    parity_sets: None,
    redraw: None,
};

/// The most blocks that other families have too.
const MAX_BLOCKS: usize = 256;

/// Blocks are the data row by row, then the parities of the rows, then those of the columns.
fn build(parameters: &Parameters) -> Result<Code, CodeError> {
    let (rows, columns) = parameters.k_plus_m()?;
    let k = rows * columns;
    let n = k + rows + columns;
    if n > MAX_BLOCKS {
        return Err(parameters.bad(format!("{n} blocks; at most {MAX_BLOCKS} are possible")));
    }
    let mut parity = Matrix::zero(Field::Gf256, rows + columns, k);
    for block in 0..k {
        parity.set(block / columns, block, 1);
        parity.set(rows + block % columns, block, 1);
    }
    let generator = Matrix::identity(Field::Gf256, k).stack(&parity)?;
    Code::from_generator(parameters.name, n, k, 1, generator)
}
