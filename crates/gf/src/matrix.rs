//! Small dense matrices: coefficients of codes and of flow stages. Sizes are those of a stripe, so plain elimination will do.

use crate::Field;
use thiserror::Error;

/// A `rows` × `cols` matrix over a field. Indexes out of range panic, as they do for slices.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Matrix {
    field: Field,
    rows: usize,
    cols: usize,
    /// Row after row.
    cells: Vec<u16>,
}

/// What is wrong with a matrix or with a pair of them.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum MatrixError {
    /// Rows of different lengths.
    #[error("row {row} has {found} elements, the first row has {expected}")]
    Ragged {
        /// The first row that differs.
        row: usize,
        /// Length of the first row.
        expected: usize,
        /// Its length.
        found: usize,
    },
    /// A value that is no element of the field.
    #[error("{value} in row {row}, column {col} is not an element of {field}")]
    OutOfField {
        /// Where.
        row: usize,
        /// Where.
        col: usize,
        /// The value.
        value: u16,
        /// The field.
        field: Field,
    },
    /// Two matrices over different fields.
    #[error("matrices over different fields: {left} and {right}")]
    Fields {
        /// Field of the left operand.
        left: Field,
        /// Field of the right operand.
        right: Field,
    },
    /// Sizes (rows, columns) that do not fit the operation.
    #[error("cannot {operation} a {}×{} and a {}×{} matrix", left.0, left.1, right.0, right.1)]
    Shapes {
        /// What was tried.
        operation: &'static str,
        /// Size of the left operand.
        left: (usize, usize),
        /// Size of the right operand.
        right: (usize, usize),
    },
    /// A row or column was selected that does not exist.
    #[error("no row or column {index}: there are {count}")]
    NoSuchLine {
        /// What was asked for.
        index: usize,
        /// How many there are.
        count: usize,
    },
    /// A matrix that has no inverse.
    #[error("{rows}×{cols} matrix of rank {rank} has no inverse")]
    Singular {
        /// Its size.
        rows: usize,
        /// Its size.
        cols: usize,
        /// Its rank.
        rank: usize,
    },
    /// A wanted row that the known rows do not span.
    #[error("wanted row {row} is not a combination of the known rows")]
    NotSpanned {
        /// The first such row.
        row: usize,
    },
}

impl Matrix {
    /// The zero matrix.
    pub fn zero(field: Field, rows: usize, cols: usize) -> Self {
        Self { field, rows, cols, cells: vec![0; rows * cols] }
    }

    /// The identity of `size` rows.
    pub fn identity(field: Field, size: usize) -> Self {
        let mut identity = Self::zero(field, size, size);
        for i in 0..size {
            identity.cells[i * size + i] = 1;
        }
        identity
    }

    /// A matrix of the given rows; of no rows, the 0×0 matrix.
    ///
    /// # Errors
    /// [`MatrixError::Ragged`], [`MatrixError::OutOfField`].
    pub fn from_rows<R: AsRef<[u16]>>(field: Field, rows: &[R]) -> Result<Self, MatrixError> {
        let cols = rows.first().map_or(0, |row| row.as_ref().len());
        let mut cells = Vec::with_capacity(rows.len() * cols);
        for (row, values) in rows.iter().map(AsRef::as_ref).enumerate() {
            if values.len() != cols {
                return Err(MatrixError::Ragged { row, expected: cols, found: values.len() });
            }
            if let Some(col) = values.iter().position(|&value| !field.contains(value)) {
                return Err(MatrixError::OutOfField { row, col, value: values[col], field });
            }
            cells.extend_from_slice(values);
        }
        Ok(Self { field, rows: rows.len(), cols, cells })
    }

    /// The field of its elements.
    pub fn field(&self) -> Field {
        self.field
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// The element at (`row`, `col`).
    pub fn get(&self, row: usize, col: usize) -> u16 {
        self.row(row)[col]
    }

    /// Replaces the element at (`row`, `col`).
    ///
    /// # Panics
    /// If `value` is not an element of the field: check what comes from outside with [`Field::contains`].
    pub fn set(&mut self, row: usize, col: usize, value: u16) {
        assert!(self.field.contains(value), "{value} is not an element of {}", self.field);
        self.row_mut(row)[col] = value;
    }

    /// A row.
    pub fn row(&self, row: usize) -> &[u16] {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        &self.cells[row * self.cols..(row + 1) * self.cols]
    }

    fn row_mut(&mut self, row: usize) -> &mut [u16] {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        &mut self.cells[row * self.cols..(row + 1) * self.cols]
    }

    /// Whether every element of column `col` is zero.
    pub fn is_zero_col(&self, col: usize) -> bool {
        (0..self.rows).all(|row| self.get(row, col) == 0)
    }

    /// The sum of two matrices of one size.
    ///
    /// # Errors
    /// [`MatrixError::Fields`], [`MatrixError::Shapes`].
    pub fn add(&self, right: &Self) -> Result<Self, MatrixError> {
        self.require("add", right, (self.rows, self.cols) == (right.rows, right.cols))?;
        let mut sum = self.clone();
        self.field.add_multiple(&mut sum.cells, 1, &right.cells);
        Ok(sum)
    }

    /// The product `self` × `right`.
    ///
    /// # Errors
    /// [`MatrixError::Fields`], [`MatrixError::Shapes`].
    pub fn mul(&self, right: &Self) -> Result<Self, MatrixError> {
        self.require("multiply", right, self.cols == right.rows)?;
        let mut product = Self::zero(self.field, self.rows, right.cols);
        for row in 0..self.rows {
            for (inner, &factor) in self.row(row).iter().enumerate() {
                self.field.add_multiple(product.row_mut(row), factor, right.row(inner));
            }
        }
        Ok(product)
    }

    /// The rows of `self`, then those of `below`.
    ///
    /// # Errors
    /// [`MatrixError::Fields`], [`MatrixError::Shapes`].
    pub fn stack(&self, below: &Self) -> Result<Self, MatrixError> {
        self.require("stack", below, self.cols == below.cols)?;
        let cells = [self.cells.as_slice(), &below.cells].concat();
        Ok(Self { field: self.field, rows: self.rows + below.rows, cols: self.cols, cells })
    }

    /// The given rows, in the given order; repeats are allowed.
    ///
    /// # Errors
    /// [`MatrixError::NoSuchLine`].
    pub fn select_rows(&self, rows: &[usize]) -> Result<Self, MatrixError> {
        require_lines(rows, self.rows)?;
        let cells = rows.iter().flat_map(|&row| self.row(row)).copied().collect();
        Ok(Self { field: self.field, rows: rows.len(), cols: self.cols, cells })
    }

    /// The given columns, in the given order; repeats are allowed.
    ///
    /// # Errors
    /// [`MatrixError::NoSuchLine`].
    pub fn select_cols(&self, cols: &[usize]) -> Result<Self, MatrixError> {
        require_lines(cols, self.cols)?;
        let cells = (0..self.rows).flat_map(|row| cols.iter().map(move |&col| self.get(row, col))).collect();
        Ok(Self { field: self.field, rows: self.rows, cols: cols.len(), cells })
    }

    /// The rank.
    pub fn rank(&self) -> usize {
        let mut basis = Basis::new(self.field, self.cols, 0);
        for row in 0..self.rows {
            basis.offer(self.row(row), None);
        }
        basis.rank()
    }

    /// The inverse of a square matrix.
    ///
    /// # Errors
    /// [`MatrixError::Singular`], also for a matrix that is not square.
    pub fn invert(&self) -> Result<Self, MatrixError> {
        // A left inverse of a square matrix is its inverse.
        let inverse = if self.rows == self.cols {
            self.solve_left(&Self::identity(self.field, self.rows)).ok()
        } else {
            None
        };
        inverse.ok_or_else(|| MatrixError::Singular { rows: self.rows, cols: self.cols, rank: self.rank() })
    }

    /// Solves X · `self` = `target` for X, (target rows) × (rows of `self`): each wanted row as a combination of known rows.
    ///
    /// Earlier known rows are preferred: only those outside the span of the rows before them have nonzero columns in X.
    ///
    /// # Errors
    /// [`MatrixError::NotSpanned`], [`MatrixError::Fields`], [`MatrixError::Shapes`].
    pub fn solve_left(&self, target: &Self) -> Result<Self, MatrixError> {
        self.require("solve", target, self.cols == target.cols)?;
        let mut basis = Basis::new(self.field, self.cols, self.rows);
        for row in 0..self.rows {
            if basis.rank() == self.cols {
                break;
            }
            basis.offer(self.row(row), Some(row));
        }
        let mut solution = Self::zero(self.field, target.rows, self.rows);
        for row in 0..target.rows {
            let rest = basis.reduce(target.row(row), None);
            if rest[..self.cols].iter().any(|&value| value != 0) {
                return Err(MatrixError::NotSpanned { row });
            }
            solution.row_mut(row).copy_from_slice(&rest[self.cols..]);
        }
        Ok(solution)
    }

    fn require(&self, operation: &'static str, right: &Self, fits: bool) -> Result<(), MatrixError> {
        if self.field != right.field {
            return Err(MatrixError::Fields { left: self.field, right: right.field });
        }
        if !fits {
            let (left, right) = ((self.rows, self.cols), (right.rows, right.cols));
            return Err(MatrixError::Shapes { operation, left, right });
        }
        Ok(())
    }
}

fn require_lines(lines: &[usize], count: usize) -> Result<(), MatrixError> {
    match lines.iter().find(|&&index| index >= count) {
        Some(&index) => Err(MatrixError::NoSuchLine { index, count }),
        None => Ok(()),
    }
}

/// Independent rows, each reduced by those before it and scaled so that its pivot is 1.
/// Behind the `width` cells of a row stand `origins` cells that say of which offered rows it is the combination.
struct Basis {
    field: Field,
    width: usize,
    origins: usize,
    /// (column of the pivot, row of `width + origins` cells)
    members: Vec<(usize, Vec<u16>)>,
}

impl Basis {
    fn new(field: Field, width: usize, origins: usize) -> Self {
        Self { field, width, origins, members: Vec::with_capacity(width) }
    }

    fn rank(&self) -> usize {
        self.members.len()
    }

    /// What is left of `row` when the members are subtracted; its origins tell which of them were.
    fn reduce(&self, row: &[u16], origin: Option<usize>) -> Vec<u16> {
        let mut rest = vec![0; self.width + self.origins];
        rest[..self.width].copy_from_slice(row);
        if let Some(origin) = origin {
            rest[self.width + origin] = 1;
        }
        for (pivot, member) in &self.members {
            let factor = rest[*pivot];
            self.field.add_multiple(&mut rest, factor, member);
        }
        rest
    }

    /// Takes `row` in if it is independent of the members.
    fn offer(&mut self, row: &[u16], origin: Option<usize>) {
        let mut rest = self.reduce(row, origin);
        let Some(pivot) = rest[..self.width].iter().position(|&value| value != 0) else { return };
        if let Some(scale) = self.field.inv(rest[pivot]) {
            for cell in &mut rest {
                *cell = self.field.mul(scale, *cell);
            }
            self.members.push((pivot, rest));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FIELD: Field = Field::Gf256;

    fn matrix(rows: &[&[u16]]) -> Matrix {
        Matrix::from_rows(FIELD, rows).unwrap()
    }

    fn any_matrix(rows: usize, cols: usize) -> impl Strategy<Value = Matrix> {
        proptest::collection::vec(proptest::collection::vec(0u16..256, cols), rows)
            .prop_map(|rows| Matrix::from_rows(FIELD, &rows).unwrap())
    }

    #[test]
    fn bad_rows_are_named() {
        let ragged = Matrix::from_rows(FIELD, &[vec![1, 2], vec![3]]);
        assert_eq!(ragged, Err(MatrixError::Ragged { row: 1, expected: 2, found: 1 }));
        let large = Matrix::from_rows(FIELD, &[[1, 2], [3, 256]]);
        assert_eq!(large, Err(MatrixError::OutOfField { row: 1, col: 1, value: 256, field: FIELD }));
    }

    #[test]
    fn what_cannot_be_inverted_is_an_error() {
        let singular = matrix(&[&[1, 2], &[2, 4]]);
        assert_eq!(singular.invert(), Err(MatrixError::Singular { rows: 2, cols: 2, rank: 1 }));
        let wide = matrix(&[&[1, 2, 3]]);
        assert_eq!(wide.invert(), Err(MatrixError::Singular { rows: 1, cols: 3, rank: 1 }));
    }

    #[test]
    fn sizes_that_do_not_fit_are_errors() {
        let (wide, tall) = (matrix(&[&[1, 2, 3]]), matrix(&[&[1], &[2]]));
        assert!(matches!(wide.mul(&tall), Err(MatrixError::Shapes { left: (1, 3), right: (2, 1), .. })));
        assert!(matches!(wide.add(&tall), Err(MatrixError::Shapes { .. })));
        assert!(matches!(wide.stack(&tall), Err(MatrixError::Shapes { .. })));
        assert!(matches!(wide.solve_left(&tall), Err(MatrixError::Shapes { .. })));
        assert_eq!(wide.select_cols(&[0, 3]), Err(MatrixError::NoSuchLine { index: 3, count: 3 }));
        assert_eq!(wide.select_rows(&[1]), Err(MatrixError::NoSuchLine { index: 1, count: 1 }));
    }

    #[test]
    fn solving_prefers_earlier_rows() {
        let known = matrix(&[&[1, 0, 0], &[2, 0, 0], &[0, 1, 1], &[1, 1, 1], &[0, 0, 1], &[7, 8, 9]]);
        let solution = known.solve_left(&matrix(&[&[5, 3, 3], &[1, 0, 1]])).unwrap();
        assert_eq!(solution, matrix(&[&[5, 0, 3, 0, 0, 0], &[1, 0, 0, 0, 1, 0]]));
        let short = known.select_rows(&[0, 2]).unwrap();
        assert_eq!(
            short.solve_left(&matrix(&[&[1, 1, 1], &[0, 1, 0]])),
            Err(MatrixError::NotSpanned { row: 1 })
        );
    }

    proptest! {
        #[test]
        fn an_inverse_multiplies_to_the_identity(square in any_matrix(6, 6)) {
            match square.invert() {
                Ok(inverse) => {
                    prop_assert_eq!(square.mul(&inverse).unwrap(), Matrix::identity(FIELD, 6));
                    prop_assert_eq!(inverse.mul(&square).unwrap(), Matrix::identity(FIELD, 6));
                }
                Err(_) => prop_assert!(square.rank() < 6),
            }
        }

        #[test]
        fn combinations_of_known_rows_are_found_again(known in any_matrix(7, 5), weights in any_matrix(3, 7)) {
            let target = weights.mul(&known).unwrap();
            let solution = known.solve_left(&target).unwrap();
            prop_assert_eq!(solution.mul(&known).unwrap(), target);
            prop_assert!((0..7).filter(|&col| !solution.is_zero_col(col)).count() <= known.rank());
        }
    }
}
