//! Matrices put together column by column, as stages are put together input by input.

use gf::{Field, Matrix, MatrixError};

use crate::error::FlowError;

/// Coefficients of one input row: one per output row.
pub(super) type Column = Vec<u16>;

/// The `rows`-row matrix of these columns.
pub(super) fn matrix(field: Field, rows: usize, columns: &[Column]) -> Result<Matrix, FlowError> {
    passing(field, &[], rows, columns)
}

/// The same matrix behind columns that pass received rows on: one column for each entry of `live`, which is zero if
/// the row always is.
pub(super) fn passing(
    field: Field,
    live: &[bool],
    rows: usize,
    columns: &[Column],
) -> Result<Matrix, FlowError> {
    let mut matrix = Matrix::zero(field, rows, live.len() + columns.len());
    for row in (0..live.len()).filter(|&row| live[row]) {
        matrix.set(row, row, 1);
    }
    for (col, column) in (live.len()..).zip(columns) {
        for (row, &value) in column.iter().take(rows).enumerate() {
            if !field.contains(value) {
                return Err(MatrixError::OutOfField { row, col, value, field }.into());
            }
            matrix.set(row, col, value);
        }
    }
    Ok(matrix)
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
