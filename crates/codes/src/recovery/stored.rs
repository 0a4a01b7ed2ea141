//! The search among the code's own parity equations: as many of them as there are wanted symbols, so that they
//! determine those and the rest of them shares as many symbols as possible (Khan et al., Rethinking Erasure Codes for
//! Cloud File Systems, FAST 2012, §4; *primitive* recovery sets).
//!
//! Equations that determine w symbols can be matched with them so that each has a coefficient at its symbol. So the
//! symbols are gone through and each gets one of the equations that know it: m^w cases for a code whose equations know
//! one lost symbol each, less what cannot beat the best.

use super::{Cost, Fewest, Question, Role};
use crate::xor::Bits;
use gf::Matrix;

/// Steps of a search: some ten milliseconds, as plans wait for it. rotated-12+4-r4 takes a few hundred.
const MAX_STEPS: usize = 20_000;

/// The symbols that the best equations read, if those cost less than `best`, and what is known of them.
pub(super) fn search(question: &Question<'_>, best: Cost) -> (Option<Vec<usize>>, Fewest) {
    let checks = question.code.checks();
    let equations: Vec<Stored> =
        (0..checks.cols()).filter_map(|column| Stored::new(question, checks, column)).collect();
    let mut search = Search { question, equations, best, chosen: Vec::new(), found: None, steps: 0 };
    search.descend(&Bits::new(question.roles.len()));
    let fewest = if search.steps < MAX_STEPS { Fewest::OfStoredEquations } else { Fewest::Unproved };
    (search.found, fewest)
}

/// A parity equation that misses nothing.
struct Stored {
    /// Its coefficients at the wanted symbols.
    coefficients: Vec<u16>,
    /// The symbols it reads.
    reads: Bits,
}

impl Stored {
    /// The equation of a column of the checks, if it can be used.
    fn new(question: &Question<'_>, checks: &Matrix, column: usize) -> Option<Self> {
        let mut reads = Bits::new(checks.rows());
        for symbol in (0..checks.rows()).filter(|&symbol| checks.get(symbol, column) != 0) {
            match question.roles[symbol] {
                Role::Missing => return None,
                Role::Readable(_) => reads.insert(symbol),
                Role::Wanted | Role::Known => {}
            }
        }
        let coefficients: Vec<u16> = question.wanted.iter().map(|&row| checks.get(row, column)).collect();
        coefficients.iter().any(|&c| c != 0).then_some(Self { coefficients, reads })
    }
}

struct Search<'a> {
    question: &'a Question<'a>,
    equations: Vec<Stored>,
    best: Cost,
    /// Equations of the first wanted symbols.
    chosen: Vec<usize>,
    found: Option<Vec<usize>>,
    steps: usize,
}

impl Search<'_> {
    /// Gives the next wanted symbol an equation; `read` is what the chosen ones read.
    fn descend(&mut self, read: &Bits) {
        if self.steps == MAX_STEPS {
            return;
        }
        self.steps += 1;
        let next = self.chosen.len();
        if next == self.question.wanted.len() {
            self.settle(read);
            return;
        }
        let count = read.count();
        // A set that equals the bound to beat is of no use; one that equals what was found may be preferred to it.
        let most = self.best.symbols - usize::from(self.found.is_none() && self.best.symbols > 0);
        let open = |equation: &usize| !self.chosen.contains(equation);
        let mut candidates: Vec<(usize, usize)> = Vec::new();
        for symbol in next..self.question.wanted.len() {
            let knowing = (0..self.equations.len())
                .filter(open)
                .filter(|&equation| self.equations[equation].coefficients[symbol] != 0)
                .map(|equation| (read.lacks(&self.equations[equation].reads), equation));
            let knowing: Vec<(usize, usize)> = knowing.collect();
            // Every symbol still to come adds at least what its best equation adds.
            match knowing.iter().min() {
                Some((added, _)) if count + added <= most => {}
                _ => return,
            }
            if symbol == next {
                candidates = knowing;
            }
        }
        candidates.sort_unstable();
        for (_, equation) in candidates {
            self.chosen.push(equation);
            self.descend(&read.union(&self.equations[equation].reads));
            self.chosen.pop();
        }
    }

    fn settle(&mut self, read: &Bits) {
        let cost = self.question.cost(read.iter());
        if cost < self.best && self.determines() {
            self.best = cost;
            self.found = Some(read.iter().collect());
        }
    }

    /// Whether the chosen equations determine the wanted symbols.
    fn determines(&self) -> bool {
        let rows: Vec<&[u16]> =
            self.chosen.iter().map(|&equation| self.equations[equation].coefficients.as_slice()).collect();
        let field = self.question.code.field();
        Matrix::from_rows(field, &rows).is_ok_and(|matrix| matrix.rank() == rows.len())
    }
}
