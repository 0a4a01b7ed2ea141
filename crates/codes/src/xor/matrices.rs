//! Codes whose parities are bit matrices times the data: Cauchy Reed-Solomon, and the RAID-6 codes whose matrices have the
//! fewest ones. Symbol r of parity i is the sum of those symbols c of each data block that row r of its matrix has.

use super::small_field::SmallField;
use super::{Build, ParitySets, full};
use crate::CodeError;
use crate::registry::{Family, Parameters};

pub(crate) const CAUCHY: Family = Family {
    pattern: "crs-K+M-wW",
    example: "crs-12+4-w6",
    description: "Cauchy Reed-Solomon as bit matrices: XOR alone, W symbols to a block, K+M at most 2^W; elements 1/(i + (M+j))",
    source: "Blomer et al., An XOR-Based Erasure-Resilient Coding Scheme, ICSI TR-95-048, 1995",
    prefix: "crs-",
    build: |parameters| full(parameters, CAUCHY_SETS),
    parity_sets: Some(CAUCHY_SETS),
    redraw: None,
};
const CAUCHY_SETS: Build = |parameters| cauchy(parameters, &original);

pub(crate) const CAUCHY_GOOD: Family = Family {
    pattern: "crs-good-K+M-wW",
    example: "crs-good-12+4-w6",
    description: "Cauchy Reed-Solomon with columns and rows divided so that the first row is 1 and the others have few ones",
    source: "Plank, Xu, Optimizing Cauchy Reed-Solomon Codes for Fault-Tolerant Network Storage Applications, NCA 2006, §3",
    prefix: "crs-good-",
    build: |parameters| full(parameters, CAUCHY_GOOD_SETS),
    parity_sets: Some(CAUCHY_GOOD_SETS),
    redraw: None,
};
const CAUCHY_GOOD_SETS: Build =
    |parameters| cauchy(parameters, &|field, k, m| good(field, original(field, k, m)));

pub(crate) const CAUCHY_BEST: Family = Family {
    pattern: "crs-best-K+2-wW",
    example: "crs-best-8+2-w4",
    description: "Reed-Solomon of two parities as bit matrices: a row of 1, and one of the K elements of GF(2^W) with the fewest ones",
    source: "Plank, Xu, NCA 2006, §4",
    prefix: "crs-best-",
    build: |parameters| full(parameters, CAUCHY_BEST_SETS),
    parity_sets: Some(CAUCHY_BEST_SETS),
    redraw: None,
};
const CAUCHY_BEST_SETS: Build = |parameters| {
    let (k, _, w) = two_parities(parameters)?;
    let field = small_field(parameters, w)?;
    if k > field.units() {
        return Err(
            parameters.bad(format!("K must be at most {}, the elements of GF(2^{w}) but 0", field.units()))
        );
    }
    let mut elements: Vec<usize> = (1..=field.units()).collect();
    elements.sort_by_key(|&element| (field.ones(element), element));
    let rows = [vec![1; k], elements[..k].to_vec()];
    Ok(of_elements(parameters.name, field, &rows))
};

pub(crate) const LIBERATION: Family = Family {
    pattern: "liberation-K+2-wW",
    example: "liberation-6+2-w7",
    description: "Liberation: RAID-6 by XOR alone with matrices of the fewest ones; W, the symbols to a block, an odd prime, K at most W",
    source: "Plank, The RAID-6 Liberation Codes, FAST 2008, §3",
    prefix: "liberation-",
    build: |parameters| full(parameters, LIBERATION_SETS),
    parity_sets: Some(LIBERATION_SETS),
    redraw: None,
};
const LIBERATION_SETS: Build = |parameters| {
    let (k, _, w) = two_parities(parameters)?;
    if w < 3 || !super::is_prime(w) || k > w {
        return Err(parameters.bad("W must be an odd prime, and K at most W".to_owned()));
    }
    Ok(raid6(parameters.name, k, w, |block, row| liberation_row(w, block, row)))
};

pub(crate) const BLAUM_ROTH: Family = Family {
    pattern: "blaum-roth-K+2-wW",
    example: "blaum-roth-6+2-w6",
    description: "Blaum-Roth: RAID-6 by XOR alone with matrices of the fewest ones; W+1 an odd prime, K at most W",
    source: "Blaum, Roth, On Lowest Density MDS Codes, IEEE Transactions on Information Theory 45(1), 1999: powers of x modulo 1+x+…+x^W",
    prefix: "blaum-roth-",
    build: |parameters| full(parameters, BLAUM_ROTH_SETS),
    parity_sets: Some(BLAUM_ROTH_SETS),
    redraw: None,
};
const BLAUM_ROTH_SETS: Build = |parameters| {
    let (k, _, w) = two_parities(parameters)?;
    if w < 2 || !super::is_prime(w + 1) || k > w {
        return Err(parameters.bad("W+1 must be an odd prime, and K at most W".to_owned()));
    }
    Ok(raid6(parameters.name, k, w, |block, row| blaum_roth_row(w, block, row)))
};

pub(crate) const LIBER8TION: Family = Family {
    pattern: "liber8tion-K+2",
    example: "liber8tion-6+2",
    description: "Liber8tion: RAID-6 by XOR alone with matrices of the fewest ones, eight symbols to a block, K at most 8",
    source: "Plank, A New Minimum Density RAID-6 Code with a Word Size of Eight, NCA 2008, as Jerasure has its matrices",
    prefix: "liber8tion-",
    build: |parameters| full(parameters, LIBER8TION_SETS),
    parity_sets: Some(LIBER8TION_SETS),
    redraw: None,
};
const LIBER8TION_SETS: Build = |parameters| {
    let (k, m) = parameters.k_plus_m()?;
    if m != 2 || k > LIBER8TION_ROWS.len() {
        return Err(parameters.bad("there are two parities, and K is at most 8".to_owned()));
    }
    let row = |block: usize, row: usize| {
        let (other, second) = LIBER8TION_SECOND[block];
        let second = (other == row).then_some(second);
        [Some(LIBER8TION_ROWS[block][row]), second].into_iter().flatten().collect()
    };
    Ok(raid6(parameters.name, k, 8, row))
};

/// The column of the one in each row of the matrix of each block, but for one row that has another.
const LIBER8TION_ROWS: [[usize; 8]; 8] = [
    [0, 1, 2, 3, 4, 5, 6, 7],
    [7, 3, 0, 2, 6, 1, 5, 4],
    [6, 2, 4, 0, 7, 3, 1, 5],
    [2, 5, 7, 6, 0, 3, 4, 1],
    [5, 6, 1, 7, 2, 4, 3, 0],
    [1, 2, 3, 4, 5, 6, 7, 0],
    [3, 0, 6, 5, 1, 7, 4, 2],
    [4, 7, 1, 5, 3, 2, 0, 6],
];

/// That row, and the column of its other one; the first block has none, and names a row that there is not.
const LIBER8TION_SECOND: [(usize, usize); 8] =
    [(8, 0), (4, 7), (1, 3), (5, 4), (2, 0), (7, 2), (6, 5), (3, 1)];

/// Block j has the identity, its columns moved by j, and for j > 0 one more one.
fn liberation_row(w: usize, block: usize, row: usize) -> Vec<usize> {
    let one_more = (block > 0 && row == block * ((w - 1) / 2) % w).then(|| (row + block - 1) % w);
    [(row + block) % w].into_iter().chain(one_more).collect()
}

/// Row `row` of the matrix that multiplies by x^block modulo 1 + x + … + x^w: x^c goes to x^(c+block), with x^(w+1) = 1 and
/// x^w the sum of all lower powers.
fn blaum_roth_row(w: usize, block: usize, row: usize) -> Vec<usize> {
    let power = |column: usize| (column + block) % (w + 1);
    (0..w).filter(|&column| power(column) == row || power(column) == w).collect()
}

/// A parity that is the sum of the blocks, and one of which row r has the given symbols of each block.
fn raid6(name: &str, k: usize, w: usize, row: impl Fn(usize, usize) -> Vec<usize>) -> ParitySets {
    of_matrices(name, (k, 2, w), |parity, block, at| if parity == 0 { vec![at] } else { row(block, at) })
}

/// The parities of a matrix of elements of GF(2^w), m rows of k.
fn of_elements(name: &str, field: SmallField, rows: &[Vec<usize>]) -> ParitySets {
    let (k, w) = (rows.first().map_or(0, Vec::len), field.degree());
    of_matrices(name, (k, rows.len(), w), |parity, block, at| {
        (0..w).filter(|&column| field.times_power(rows[parity][block], column) >> at & 1 == 1).collect()
    })
}

/// Parity `parity` has at row `at` the symbols of block `block` that `row(parity, block, at)` names.
fn of_matrices(
    name: &str,
    (k, m, w): (usize, usize, usize),
    row: impl Fn(usize, usize, usize) -> Vec<usize>,
) -> ParitySets {
    let symbol = |block: usize, index: usize| (block * w + index) as u32;
    let set = |(parity, at): (usize, usize)| {
        let of_block = |block| row(parity, block, at).into_iter().map(move |index| symbol(block, index));
        (0..k).flat_map(of_block).chain([symbol(k + parity, at)]).collect()
    };
    let sets = (0..m).flat_map(|parity| (0..w).map(move |at| (parity, at))).map(set).collect();
    ParitySets::new(name, (k + m, w), (0..(k * w) as u32).collect(), sets)
}

/// Parities at most: beyond, patterns of losses are too many to try, and matrices take long to make.
const MAX_PARITIES: usize = 16;

fn cauchy(
    parameters: &Parameters,
    matrix: &dyn Fn(SmallField, usize, usize) -> Vec<Vec<usize>>,
) -> Result<ParitySets, CodeError> {
    let (k, m, w) = parameters.k_plus_m_w()?;
    let field = small_field(parameters, w)?;
    if m > MAX_PARITIES {
        return Err(parameters.bad(format!("M must be at most {MAX_PARITIES}")));
    }
    if k + m > field.units() + 1 {
        return Err(
            parameters.bad(format!("K+M must be at most {}, the elements of GF(2^{w})", field.units() + 1))
        );
    }
    Ok(of_elements(parameters.name, field, &matrix(field, k, m)))
}

/// Element (i, j) is 1/(i + (m+j)), where numbers stand for elements.
fn original(field: SmallField, k: usize, m: usize) -> Vec<Vec<usize>> {
    (0..m).map(|i| (0..k).map(|j| field.inverse(i ^ (m + j))).collect()).collect()
}

/// Columns divided so that the first row is 1, then each other row by the one of its elements that leaves the fewest ones.
fn good(field: SmallField, mut matrix: Vec<Vec<usize>>) -> Vec<Vec<usize>> {
    let first = matrix[0].clone();
    for row in &mut matrix {
        row.iter_mut().zip(&first).for_each(|(element, &first)| *element = field.divide(*element, first));
    }
    for row in &mut matrix[1..] {
        // An inverse for each divisor, not for each quotient.
        let divided = |by: usize| {
            let inverse = field.inverse(by);
            row.iter().map(|&element| field.multiply(element, inverse)).collect::<Vec<usize>>()
        };
        let ones = |row: &Vec<usize>| row.iter().map(|&element| field.ones(element)).sum::<usize>();
        if let Some(best) = row.iter().map(|&by| divided(by)).chain([row.clone()]).min_by_key(ones) {
            *row = best;
        }
    }
    matrix
}

fn two_parities(parameters: &Parameters) -> Result<(usize, usize, usize), CodeError> {
    let (k, m, w) = parameters.k_plus_m_w()?;
    if m != 2 {
        return Err(parameters.bad("there are two parities".to_owned()));
    }
    Ok((k, m, w))
}

fn small_field(parameters: &Parameters, w: usize) -> Result<SmallField, CodeError> {
    let limit = SmallField::MAX_DEGREE;
    SmallField::of_degree(w).ok_or_else(|| parameters.bad(format!("W must be from 2 to {limit}")))
}
