//! The code of docs/first-change.md: built and proved, though no name leads to it.

#![allow(clippy::unwrap_used)] // a test may

mod grid;

use super::{Family, Parameters};
use crate::{Code, CodeError};

const GRID: &Family = &grid::FAMILY;

fn parse(name: &str) -> Result<Code, CodeError> {
    (GRID.build)(&Parameters { name, rest: &name[GRID.prefix.len()..], family: GRID })
}

#[test]
fn a_grid_survives_two_losses_and_repairs_from_a_row_or_a_column() {
    let code = parse(GRID.example).unwrap();
    assert_eq!((code.n(), code.k(), code.tolerance(), code.is_mds()), (19, 12, 2, false));
    // Block 5 is in row 1 with 4, 6 and 7, and in column 1 with 1 and 9: the column is shorter by one.
    let others: Vec<usize> = (0..19).filter(|&block| block != 5).collect();
    let repair = code.recovery(&code.symbols_of(&[5]).unwrap(), &[], &others).unwrap();
    assert_eq!(repair.equation.blocks(), [1, 9, 16]);
    // A data block and both its parities are more than the code survives.
    assert!(code.recoverable(&[0, 12]) && !code.recoverable(&[0, 12, 15]));
}

#[test]
fn the_matrix_of_a_grid_does_not_change() {
    let code = parse("grid-2+2").unwrap();
    let parity: Vec<&[u16]> = (4..8).map(|row| code.generator().row(row)).collect();
    assert_eq!(parity, [[1, 1, 0, 0], [0, 0, 1, 1], [1, 0, 1, 0], [0, 1, 0, 1]]);
}

#[test]
fn a_grid_of_too_many_blocks_is_refused() {
    let refused = parse("grid-15+16").unwrap_err().to_string();
    assert!(refused.contains("271 blocks; at most 256 are possible"), "{refused}");
}
