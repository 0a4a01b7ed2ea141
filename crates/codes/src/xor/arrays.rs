//! Array codes over a prime p, as parity sets on lines of an array of symbols. A column is a block.

use super::{Build, ParitySets, full};
use crate::CodeError;
use crate::registry::{Family, Parameters};

pub(crate) const RDP: Family = Family {
    pattern: "rdp-P[-kK]",
    example: "rdp-7",
    description: "row-diagonal parity: XOR alone, P−1 blocks of data (or K of them) and 2 of parity, P−1 symbols to a block",
    source: "Corbett et al., Row-Diagonal Parity for Double Disk Failure Correction, FAST 2004",
    prefix: "rdp-",
    build: |parameters| full(parameters, RDP_SETS),
    parity_sets: Some(RDP_SETS),
    redraw: None,
};
const RDP_SETS: Build = |parameters| shortened(parameters, |p| p - 1, rdp);

pub(crate) const EVENODD: Family = Family {
    pattern: "evenodd-P[-kK]",
    example: "evenodd-7",
    description: "EVENODD: XOR alone, P blocks of data (or K of them) and 2 of parity, P−1 symbols to a block",
    source: "Blaum, Brady, Bruck, Menon, EVENODD, IEEE Transactions on Computers 44(2), 1995",
    prefix: "evenodd-",
    build: |parameters| full(parameters, EVENODD_SETS),
    parity_sets: Some(EVENODD_SETS),
    redraw: None,
};
const EVENODD_SETS: Build =
    |parameters| shortened(parameters, |p| p, |name, p, k| sloped(name, (p, k), &[0, 1]));

pub(crate) const STAR: Family = Family {
    pattern: "star-P[-kK]",
    example: "star-7",
    description: "STAR: EVENODD with a third parity; XOR alone, P blocks of data (or K of them), P−1 symbols to a block",
    source: "Huang, Xu, STAR: An Efficient Coding Scheme for Correcting Triple Storage Node Failures, IEEE Transactions on Computers 57(7), 2008",
    prefix: "star-",
    build: |parameters| full(parameters, STAR_SETS),
    parity_sets: Some(STAR_SETS),
    redraw: None,
};
const STAR_SETS: Build =
    |parameters| shortened(parameters, |p| p, |name, p, k| sloped(name, (p, k), &[0, 1, -1]));

pub(crate) const X_CODE: Family = Family {
    pattern: "xcode-P",
    example: "xcode-7",
    description: "X-Code: XOR alone, P blocks of P symbols, each with two of parity, and P−2 blocks' worth of data spread over all",
    source: "Xu, Bruck, X-Code: MDS Array Codes with Optimal Encoding, IEEE Transactions on Information Theory 45(1), 1999",
    prefix: "xcode-",
    build: |parameters| full(parameters, X_CODE_SETS),
    parity_sets: Some(X_CODE_SETS),
    redraw: None,
};
const X_CODE_SETS: Build = |parameters| Ok(x_code(parameters.name, parameters.prime(5)?));

pub(crate) const HDP: Family = Family {
    pattern: "hdp-P",
    example: "hdp-7",
    description: "HDP: XOR alone, P−1 blocks of P−1 symbols, each with two of parity, and P−3 blocks' worth of data spread over all",
    source: "Wu et al., HDP Code: A Horizontal-Diagonal Parity Code to Optimize I/O Load Balancing in RAID-6, DSN 2011",
    prefix: "hdp-",
    build: |parameters| full(parameters, HDP_SETS),
    parity_sets: Some(HDP_SETS),
    redraw: None,
};
const HDP_SETS: Build = |parameters| Ok(hdp(parameters.name, parameters.prime(5)?));

/// The sets of a code of which columns of data can be left out: of `P`, or of `P-kK` with fewer than the `most` that P has.
fn shortened(
    parameters: &Parameters,
    most: fn(usize) -> usize,
    sets: fn(&str, usize, usize) -> ParitySets,
) -> Result<ParitySets, CodeError> {
    let (p, k) = parameters.prime_and_k(most)?;
    Ok(sets(parameters.name, p, k))
}

/// ```text
///   rdp-5   d d d d  P Q       P of row r: the data of the row; Q of diagonal i: the data and row parities at
///           0 1 2 3  4 0       (r, c) with r + c = i mod p. The last diagonal, p−1, has none.
/// ```
fn rdp(name: &str, p: usize, k: usize) -> ParitySets {
    let array = Array { rows: p - 1, columns: k + 2 };
    let rows = (0..p - 1).map(|row| (0..=k).map(|column| array.at(row, column)).collect());
    // Column p−1 of the full array are the row parities; what is left out between is zero.
    let place = |column: usize| if column == k { p - 1 } else { column };
    let diagonals = (0..p - 1).map(|diagonal| {
        let cell = |column| array.cell((diagonal + p - place(column)) % p, column);
        (0..=k).filter_map(cell).chain([array.at(diagonal, k + 1)]).collect()
    });
    ParitySets::new(name, (k + 2, p - 1), array.first(k), rows.chain(diagonals).collect())
}

/// EVENODD and STAR: a parity for each slope s. Parity i of it is the sum of the data at (r, c) with r + s·c = i mod p and of
/// those with r + s·c = p−1, the *adjuster*, which rows do not have.
fn sloped(name: &str, (p, k): (usize, usize), slopes: &[i8]) -> ParitySets {
    let array = Array { rows: p - 1, columns: k + slopes.len() };
    let line = |slope: i8, sum: usize| {
        (0..k).filter_map(move |column| {
            let shift = match slope {
                0 => 0,
                1 => p - column,
                _ => column,
            };
            array.cell((sum + shift) % p, column)
        })
    };
    let of_a_slope = |(parity, &slope): (usize, &i8)| {
        (0..p - 1).map(move |row| {
            let adjuster = (slope != 0).then(|| line(slope, p - 1)).into_iter().flatten();
            line(slope, row).chain(adjuster).chain([array.at(row, k + parity)]).collect()
        })
    };
    let sets = slopes.iter().enumerate().flat_map(of_a_slope).collect();
    ParitySets::new(name, (k + slopes.len(), p - 1), array.first(k), sets)
}

/// Rows 0 … p−3 of the p × p array are data; the parity at (p−2, i) is the sum of the data on the diagonal that leads there
/// with slope 1, that at (p−1, i) with slope −1.
fn x_code(name: &str, p: usize) -> ParitySets {
    let array = Array { rows: p, columns: p };
    let along = |parity: usize, step: usize| {
        (0..p).map(move |column| {
            let cell = |row: usize| array.at(row, (column + step * (row + 2)) % p);
            (0..p - 2).map(cell).chain([array.at(parity, column)]).collect()
        })
    };
    let sets = along(p - 2, 1).chain(along(p - 1, p - 1)).collect();
    let data = (0..p - 2).flat_map(|row| (0..p).map(move |column| array.at(row, column))).collect();
    ParitySets::new(name, (p, p), data, sets)
}

/// Cell (i, i) of the (p−1) × (p−1) array is the sum of its row, with the other parity in it; cell (i, p−2−i) is the sum of the
/// cells (⟨2i+j+2⟩ mod p, j).
fn hdp(name: &str, p: usize) -> ParitySets {
    let side = p - 1;
    let array = Array { rows: side, columns: side };
    let rows = (0..side).map(|row| (0..side).map(|column| array.at(row, column)).collect());
    let diagonals = (0..side)
        .map(|row| (0..side).filter_map(|column| array.cell((2 * row + column + 2) % p, column)).collect());
    let is_data = |&(row, column): &(usize, usize)| row != column && row + column != p - 2;
    let cells = (0..side).flat_map(|row| (0..side).map(move |column| (row, column)));
    let data = cells.filter(is_data).map(|(row, column)| array.at(row, column)).collect();
    ParitySets::new(name, (side, side), data, rows.chain(diagonals).collect())
}

/// Symbols of a stripe as cells: a column is a block.
#[derive(Clone, Copy)]
struct Array {
    rows: usize,
    columns: usize,
}

impl Array {
    /// `None` for a row that the array does not have.
    fn cell(self, row: usize, column: usize) -> Option<u32> {
        (row < self.rows && column < self.columns).then(|| self.at(row, column))
    }

    fn at(self, row: usize, column: usize) -> u32 {
        (column * self.rows + row) as u32
    }

    /// All cells of the first columns.
    fn first(self, columns: usize) -> Vec<u32> {
        (0..(columns * self.rows) as u32).collect()
    }
}
