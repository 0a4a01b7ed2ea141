//! A matrix of zeros and ones as a schedule of sums: what XOR codes calculate with, none of it multiplication.
//!
//! A sum of N regions costs N loads and a store, in one pass. Sums that many rows share are made once, and a row that differs little
//! from one that is made already begins with that (as RDP's diagonals do with its row parities).

use crate::Matrix;
use std::collections::BTreeMap;

/// A pair of terms is made a sum of its own if so many rows have it: it costs two loads and a store, and saves each of them a
/// load.
const LEAST_SHARED: usize = 4;

/// Sums of their own at most: their tiles lie in the cache beside those of inputs and outputs.
const MAX_SHARED: usize = 64;

/// Pairs that are counted at most to find them: some ten milliseconds, once for each flow.
const MAX_PAIRS: usize = 200_000;

/// What a step adds up.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Term {
    /// An input.
    Input(usize),
    /// A sum of its own.
    Shared(usize),
    /// An output that was made before.
    Output(usize),
}

/// Steps that make all outputs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Sums {
    /// Sums of their own.
    pub shared: usize,
    /// What is made, in this order, and of what. Never an input.
    pub steps: Vec<(Term, Vec<Term>)>,
}

impl Sums {
    /// The schedule of a matrix; `None` if it has other elements than 0 and 1.
    pub fn of(matrix: &Matrix) -> Option<Sums> {
        let rows = (0..matrix.rows()).map(|row| terms(matrix.row(row))).collect::<Option<Vec<_>>>()?;
        let mut schedule = Sums { shared: 0, steps: Vec::new() };
        let rows = schedule.share(rows);
        schedule.outputs(rows);
        Some(schedule)
    }

    /// Regions that are read by all steps.
    pub fn loads(&self) -> usize {
        self.steps.iter().map(|(_, terms)| terms.len()).sum()
    }

    /// Makes pairs that many rows have sums of their own, the most frequent first.
    fn share(&mut self, mut rows: Vec<Vec<Term>>) -> Vec<Vec<Term>> {
        let mut left = MAX_PAIRS;
        let mut made: Vec<Vec<Term>> = Vec::new();
        while made.len() < MAX_SHARED {
            let pairs: usize = rows.iter().map(|row| row.len() * row.len() / 2).sum();
            let Some(rest) = left.checked_sub(pairs) else { break };
            left = rest;
            let Some((pair, _)) = most_frequent(&rows).filter(|&(_, count)| count >= LEAST_SHARED) else {
                break;
            };
            let sum = Term::Shared(made.len());
            for row in rows.iter_mut().filter(|row| pair.iter().all(|term| row.contains(term))) {
                row.retain(|term| !pair.contains(term));
                row.push(sum);
            }
            made.push(pair.to_vec());
        }
        self.keep(made, rows)
    }

    /// Keeps those sums that more than one other has; the others are written out where they are used.
    fn keep(&mut self, made: Vec<Vec<Term>>, mut rows: Vec<Vec<Term>>) -> Vec<Vec<Term>> {
        let mut made: Vec<Option<Vec<Term>>> = made.into_iter().map(Some).collect();
        for number in (0..made.len()).rev() {
            let term = Term::Shared(number);
            let Some(sum) = made[number].clone() else { continue };
            let mut users: Vec<&mut Vec<Term>> =
                rows.iter_mut().chain(made.iter_mut().flatten()).filter(|row| row.contains(&term)).collect();
            if let [user] = users.as_mut_slice() {
                user.retain(|&other| other != term);
                user.extend(sum);
                made[number] = None;
            }
        }
        let mut numbers = BTreeMap::new();
        let renamed = |terms: Vec<Term>, numbers: &BTreeMap<usize, usize>| {
            let name = |term| match term {
                Term::Shared(number) => Term::Shared(numbers.get(&number).copied().unwrap_or(number)),
                other => other,
            };
            terms.into_iter().map(name).collect::<Vec<Term>>()
        };
        for (number, sum) in made.into_iter().enumerate() {
            if let Some(sum) = sum {
                let sum = renamed(sum, &numbers);
                numbers.insert(number, self.shared);
                self.steps.push((Term::Shared(self.shared), sum));
                self.shared += 1;
            }
        }
        rows.into_iter().map(|row| renamed(row, &numbers)).collect()
    }

    /// The outputs, those that are made of the fewest terms first; each from another one if that takes fewer.
    fn outputs(&mut self, mut rows: Vec<Vec<Term>>) {
        rows.iter_mut().for_each(|row| row.sort_unstable());
        let mut open: Vec<usize> = (0..rows.len()).collect();
        let mut best: Vec<(usize, Option<usize>)> = rows.iter().map(|row| (row.len(), None)).collect();
        while let Some(place) = (0..open.len()).min_by_key(|&place| best[open[place]].0) {
            let output = open.swap_remove(place);
            let terms = match best[output].1 {
                Some(from) => {
                    let mut terms = difference(&rows[output], &rows[from]);
                    terms.push(Term::Output(from));
                    terms
                }
                None => rows[output].clone(),
            };
            self.steps.push((Term::Output(output), terms));
            for &other in &open {
                let cost = difference(&rows[other], &rows[output]).len() + 1;
                if cost < best[other].0 {
                    best[other] = (cost, Some(output));
                }
            }
        }
    }
}

fn terms(row: &[u16]) -> Option<Vec<Term>> {
    let is_binary = row.iter().all(|&coefficient| coefficient <= 1);
    let inputs = (0..row.len()).filter(|&input| row[input] == 1).map(Term::Input);
    is_binary.then(|| inputs.collect())
}

/// The pair of terms that most rows have, and how many.
fn most_frequent(rows: &[Vec<Term>]) -> Option<([Term; 2], usize)> {
    let mut counts: BTreeMap<[Term; 2], usize> = BTreeMap::new();
    for row in rows {
        let mut row = row.clone();
        row.sort_unstable();
        for (at, &a) in row.iter().enumerate() {
            row[at + 1..].iter().for_each(|&b| *counts.entry([a, b]).or_default() += 1);
        }
    }
    let most = counts.values().copied().max()?;
    counts.into_iter().find(|&(_, count)| count == most)
}

/// The terms that one of two has and the other has not, of rising terms. Wide rows are compared with all others: each pair once, term
/// by term.
fn difference(a: &[Term], b: &[Term]) -> Vec<Term> {
    let (mut a, mut b) = (a.iter().copied().peekable(), b.iter().copied().peekable());
    let mut only = Vec::new();
    loop {
        match (a.peek(), b.peek()) {
            (Some(one), Some(other)) if one == other => _ = (a.next(), b.next()),
            (Some(one), Some(other)) if one < other => only.extend(a.next()),
            (Some(_), None) => only.extend(a.next()),
            (_, Some(_)) => only.extend(b.next()),
            (None, None) => return only,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Field;
    use proptest::prelude::*;

    /// The inputs that each output is the sum of, by going through the steps.
    fn evaluated(schedule: &Sums, outputs: usize, inputs: usize) -> Vec<Vec<u16>> {
        let mut shared: Vec<Vec<u16>> = Vec::new();
        let mut made: Vec<Option<Vec<u16>>> = vec![None; outputs];
        for (to, terms) in &schedule.steps {
            let mut sum = vec![0; inputs];
            for term in terms {
                match *term {
                    Term::Input(number) => sum[number] ^= 1,
                    Term::Shared(number) => {
                        sum.iter_mut().zip(&shared[number]).for_each(|(sum, term)| *sum ^= term)
                    }
                    Term::Output(number) => {
                        let term = made[number].as_ref().unwrap();
                        sum.iter_mut().zip(term).for_each(|(sum, term)| *sum ^= term);
                    }
                }
            }
            match *to {
                Term::Output(number) => assert!(made[number].replace(sum).is_none(), "made twice"),
                _ => shared.push(sum),
            }
        }
        assert_eq!(shared.len(), schedule.shared);
        made.into_iter().map(|row| row.expect("every output is made")).collect()
    }

    proptest! {
        #[test]
        fn schedules_make_every_row(
            (rows, columns) in (1_usize..12, 1_usize..30),
            bits in prop::collection::vec(0_u16..2, 12 * 30),
        ) {
            let rows: Vec<Vec<u16>> = (0..rows).map(|row| bits[row * columns..(row + 1) * columns].to_vec()).collect();
            let schedule = Sums::of(&Matrix::from_rows(Field::Gf256, &rows).unwrap()).unwrap();
            prop_assert_eq!(evaluated(&schedule, rows.len(), columns), rows.clone());
            let ones: usize = rows.iter().flatten().map(|&bit| usize::from(bit)).sum();
            prop_assert!(schedule.loads() <= ones + 2 * schedule.shared);
        }
    }

    #[test]
    fn rows_that_differ_little_begin_with_each_other_and_common_sums_are_made_once() {
        // Eight ones, and the same with one more: two loads.
        let rows = [[1, 1, 1, 1, 1, 1, 1, 1, 0], [1; 9]];
        let schedule = Sums::of(&Matrix::from_rows(Field::Gf256, &rows).unwrap()).unwrap();
        assert_eq!((schedule.shared, schedule.loads()), (0, 8 + 2));
        // An adjuster of four terms in five rows.
        let rows: Vec<Vec<u16>> = (0..5)
            .map(|row| {
                (0..14)
                    .map(|column| u16::from(column < 4 || column == 4 + 2 * row || column == 5 + 2 * row))
                    .collect()
            })
            .collect();
        let schedule = Sums::of(&Matrix::from_rows(Field::Gf256, &rows).unwrap()).unwrap();
        assert_eq!((schedule.shared, schedule.loads()), (1, 4 + 5 * 3), "{schedule:?}");
    }

    #[test]
    fn other_coefficients_have_no_schedule() {
        assert_eq!(Sums::of(&Matrix::from_rows(Field::Gf256, &[[1, 2]]).unwrap()), None);
    }
}
