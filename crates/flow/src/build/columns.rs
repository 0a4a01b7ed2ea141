//! Matrices put together column by column, as stages are put together input by input.

use gf::{Field, Matrix};

use crate::error::FlowError;

/// Coefficients of one input row: one per output row.
pub(super) type Column = Vec<u16>;

/// The `rows`-row matrix of these columns.
pub(super) fn matrix(field: Field, rows: usize, columns: &[Column]) -> Result<Matrix, FlowError> {
    let by_row: Vec<Vec<u16>> =
        (0..rows).map(|row| columns.iter().map(|column| column[row]).collect()).collect();
    Ok(Matrix::from_rows(field, &by_row)?)
}

/// Columns that pass on those rows that are not always zero, as the proof demands.
pub(super) fn pass(live: &[bool]) -> Vec<Column> {
    let column = |row: usize| (0..live.len()).map(|r| u16::from(r == row && live[row])).collect();
    (0..live.len()).map(column).collect()
}

/// Marks the rows to which `columns` contribute.
pub(super) fn enliven(live: &mut [bool], columns: &[Column]) {
    for column in columns {
        for (live, &coefficient) in live.iter_mut().zip(column) {
            *live |= coefficient != 0;
        }
    }
}
