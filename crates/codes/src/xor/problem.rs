//! A recovery as equations: each says which wanted symbols sum to which readable ones.

use super::loss::{Loss, Reading};
use super::{BitBasis, Bits, ParitySets};
use std::collections::BTreeMap;

/// What a search for a recovery works on. Wanted and readable symbols are counted among themselves.
pub(super) struct Problem {
    /// Their numbers in the stripe.
    pub wanted: Vec<u32>,
    /// … of the readable symbols that some equation has.
    pub readable: Vec<u32>,
    /// What each of the latter costs.
    pub costs: Vec<u64>,
    /// The parity sets that have no other lost symbols, in their order; then sums of others in which those cancel.
    pub equations: Vec<Equation>,
}

/// Symbols that sum to zero.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Equation {
    /// Those of them that are wanted.
    pub wanted: Vec<u32>,
    /// Those that are readable, ascending.
    pub reads: Vec<u32>,
    /// Those that are known, by their numbers in the stripe.
    known: Vec<u32>,
}

/// What a symbol of the stripe is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Wanted(u32),
    Missing(usize),
    Known,
    Readable,
}

impl Problem {
    pub fn new(sets: &ParitySets, loss: &Loss) -> Self {
        let (roles, missing) = roles(sets, loss);
        let mut places = vec![u32::MAX; sets.symbols()];
        let mut problem = Self {
            wanted: loss.wanted.clone(),
            readable: Vec::new(),
            costs: Vec::new(),
            equations: Vec::new(),
        };
        for set in without_missing(sets, &roles, missing) {
            let mut equation = Equation { wanted: Vec::new(), reads: Vec::new(), known: Vec::new() };
            for symbol in set {
                match roles[symbol as usize] {
                    Role::Wanted(at) => equation.wanted.push(at),
                    Role::Known => equation.known.push(symbol),
                    Role::Readable | Role::Missing(_) => {
                        let place = &mut places[symbol as usize];
                        if *place == u32::MAX {
                            *place = problem.readable.len() as u32;
                            problem.readable.push(symbol);
                        }
                        equation.reads.push(*place);
                    }
                }
            }
            equation.reads.sort_unstable();
            problem.equations.push(equation);
        }
        let cost = |&symbol: &u32| loss.costs.get(symbol as usize).map_or(1, |&cost| u64::from(cost));
        problem.costs = problem.readable.iter().map(cost).collect();
        problem
    }

    /// The wanted symbols of an equation, as a vector.
    pub fn vector(&self, equation: usize) -> Bits {
        Bits::of(self.wanted.len(), self.equations[equation].wanted.iter().map(|&at| at as usize))
    }

    /// The first equations from which all wanted symbols follow.
    pub fn first_basis(&self) -> Option<Vec<usize>> {
        let mut basis = BitBasis::default();
        let chosen: Vec<usize> =
            (0..self.equations.len()).filter(|&at| basis.push(self.vector(at))).collect();
        (chosen.len() == self.wanted.len()).then_some(chosen)
    }

    /// What is read if the wanted symbols are computed from these equations, as many as there are wanted symbols and
    /// independent. What falls out of every sum is not read.
    pub fn reading(&self, chosen: &[usize]) -> Reading {
        let inverse = invert(chosen.iter().map(|&at| self.vector(at)).collect());
        let sums = inverse.iter().map(|row| self.sum_of(row.iter().map(|at| chosen[at])));
        self.reading_of(sums.collect(), false)
    }

    /// What these sums, one for each wanted symbol, read.
    pub fn reading_of(&self, sums: Vec<Vec<u32>>, proven: bool) -> Reading {
        let mut used: Vec<u32> = sums.iter().flatten().copied().collect();
        used.sort_unstable();
        used.dedup();
        let costs: BTreeMap<u32, u64> =
            self.readable.iter().copied().zip(self.costs.iter().copied()).collect();
        let symbols: Vec<u32> = used.into_iter().filter(|symbol| costs.contains_key(symbol)).collect();
        let cost = symbols.iter().filter_map(|symbol| costs.get(symbol)).sum();
        Reading { symbols, cost, sums, proven }
    }

    /// Of the sum of these equations the symbols that are not wanted.
    pub fn sum_of(&self, equations: impl Iterator<Item = usize>) -> Vec<u32> {
        let terms = equations.flat_map(|at| {
            let Equation { reads, known, .. } = &self.equations[at];
            reads.iter().map(|&place| self.readable[place as usize]).chain(known.iter().copied())
        });
        odd(terms.collect())
    }
}

/// What each symbol is, and how many are missing.
fn roles(sets: &ParitySets, loss: &Loss) -> (Vec<Role>, usize) {
    let mut roles = vec![Role::Readable; sets.symbols()];
    loss.known.iter().for_each(|&symbol| roles[symbol as usize] = Role::Known);
    for (number, &symbol) in loss.missing.iter().enumerate() {
        roles[symbol as usize] = Role::Missing(number);
    }
    for (at, &symbol) in (0..).zip(&loss.wanted) {
        roles[symbol as usize] = Role::Wanted(at);
    }
    (roles, loss.missing.len())
}

/// The parity sets without a missing symbol, then the sums of the others in which all of them cancel.
fn without_missing(sets: &ParitySets, roles: &[Role], missing: usize) -> Vec<Vec<u32>> {
    let lacks = |set: &[u32]| {
        let at = |&symbol: &u32| match roles[symbol as usize] {
            Role::Missing(at) => Some(at),
            _ => None,
        };
        Bits::of(missing, set.iter().filter_map(at))
    };
    let mut free = Vec::new();
    let mut pivots: Vec<(usize, Bits, Vec<u32>)> = Vec::new();
    let mut derived = Vec::new();
    for set in sets.sets() {
        let (mut rest, mut sum) = (lacks(set), set.clone());
        if rest.is_empty() {
            free.push(sum);
            continue;
        }
        for (pivot, row, pivot_sum) in &pivots {
            if rest.contains(*pivot) {
                rest.add(row);
                sum = odd([sum.as_slice(), pivot_sum].concat());
            }
        }
        match rest.first() {
            Some(pivot) => pivots.push((pivot, rest, sum)),
            None => derived.push(sum),
        }
    }
    free.append(&mut derived);
    free
}

/// The numbers that occur an odd number of times, ascending.
pub(crate) fn odd(mut numbers: Vec<u32>) -> Vec<u32> {
    numbers.sort_unstable();
    numbers.chunk_by(|a, b| a == b).filter(|same| same.len() % 2 == 1).map(|same| same[0]).collect()
}

/// Of independent rows, as many as columns: row j of what is returned says which of them sum to unit vector j.
pub(super) fn invert(mut rows: Vec<Bits>) -> Vec<Bits> {
    let size = rows.len();
    let mut inverse: Vec<Bits> = (0..size).map(|at| Bits::of(size, [at])).collect();
    for column in 0..size {
        let Some(pivot) = (column..size).find(|&row| rows[row].contains(column)) else { continue };
        rows.swap(column, pivot);
        inverse.swap(column, pivot);
        let (row, combination) = (rows[column].clone(), inverse[column].clone());
        for other in (0..size).filter(|&other| other != column) {
            if rows[other].contains(column) {
                rows[other].add(&row);
                inverse[other].add(&combination);
            }
        }
    }
    inverse
}
