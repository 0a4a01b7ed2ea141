//! The exact search for one wanted symbol.
//!
//! A repair equation is a codeword of the dual code, y·H with a coefficient for the wanted symbol and none for missing
//! ones; it reads few symbols where y is orthogonal to many rows of H (the checks, a row for each symbol). Take the
//! symbols it does not read: if their rows span less than a hyperplane, another can be added that does not bring the wanted
//! row into the span, and fewer are read. So every hyperplane spanned by rows, without the wanted one, is tried: with
//! R = (n−k)α equations those are at most C(nα, R−1), few beside the sets of symbols.

use super::{Cost, Question, Role};
use crate::tolerance::patterns;
use gf::Field;

/// Hyperplanes that are tried: a few milliseconds, as plans wait for it. lrc-12+2+2 has 455.
const MAX_HYPERPLANES: u128 = 20_000;

/// The symbols of the cheapest equation if they cost less than `best`. `None` if it would take too long to tell, or
/// several symbols are wanted.
pub(super) fn search(question: &Question<'_>, best: Cost) -> Option<Option<Vec<usize>>> {
    let &[wanted] = question.wanted.as_slice() else { return None };
    let checks = question.code.checks();
    let equations = checks.cols();
    let mut span = Span { field: checks.field(), members: Vec::with_capacity(equations) };
    for (symbol, role) in question.roles.iter().enumerate() {
        if *role == Role::Missing {
            span.push(checks.row(symbol));
        }
    }
    let usable = |role: &Role| matches!(role, Role::Known | Role::Readable(_));
    let mut symbols: Vec<usize> =
        (0..question.roles.len()).filter(|&symbol| usable(&question.roles[symbol])).collect();
    // The least preferred symbols are left unread first.
    symbols.sort_by_key(|&symbol| match question.roles[symbol] {
        Role::Readable(place) => std::cmp::Reverse(place),
        _ => std::cmp::Reverse(0),
    });
    let missing = equations.checked_sub(span.members.len() + 1)?;
    if patterns(symbols.len(), missing) > MAX_HYPERPLANES {
        return None;
    }
    let mut search = Search { question, symbols, wanted, span, best, found: None };
    search.descend(0);
    Some(search.found)
}

struct Search<'a> {
    question: &'a Question<'a>,
    /// The symbols that may be left unread.
    symbols: Vec<usize>,
    wanted: usize,
    /// The span of the symbols that are not read.
    span: Span,
    best: Cost,
    found: Option<Vec<usize>>,
}

impl Search<'_> {
    fn descend(&mut self, from: usize) {
        let checks = self.question.code.checks();
        if self.span.contains(checks.row(self.wanted)) {
            return;
        }
        if self.span.members.len() + 1 == checks.cols() {
            self.settle();
            return;
        }
        for at in from..self.symbols.len() {
            if self.span.push(checks.row(self.symbols[at])) {
                self.descend(at + 1);
                self.span.members.pop();
            }
        }
    }

    /// The equation that is orthogonal to the span.
    fn settle(&mut self) {
        let checks = self.question.code.checks();
        let normal = self.span.normal(checks.cols());
        let read = |&symbol: &usize| dot(checks.field(), &normal, checks.row(symbol)) != 0;
        let cost = self.question.cost(self.symbols.iter().copied().filter(|symbol| read(symbol)));
        if cost < self.best {
            self.best = cost;
            self.found = Some(self.symbols.iter().copied().filter(read).collect());
        }
    }
}

/// Independent rows, each zero at the pivots of those before it and 1 at its own.
struct Span {
    field: Field,
    members: Vec<(usize, Vec<u16>)>,
}

impl Span {
    fn reduce(&self, row: &[u16]) -> Vec<u16> {
        let mut rest = row.to_vec();
        for (pivot, member) in &self.members {
            let factor = rest[*pivot];
            if factor != 0 {
                for (cell, &value) in rest.iter_mut().zip(member) {
                    *cell = self.field.add(*cell, self.field.mul(factor, value));
                }
            }
        }
        rest
    }

    fn contains(&self, row: &[u16]) -> bool {
        self.reduce(row).iter().all(|&value| value == 0)
    }

    /// Adds a row; whether it was independent.
    fn push(&mut self, row: &[u16]) -> bool {
        let mut rest = self.reduce(row);
        let Some(pivot) = rest.iter().position(|&value| value != 0) else { return false };
        let Some(scale) = self.field.inv(rest[pivot]) else { return false };
        rest.iter_mut().for_each(|cell| *cell = self.field.mul(scale, *cell));
        self.members.push((pivot, rest));
        true
    }

    /// The vector orthogonal to all members, of which there is one less than `width`, up to a factor.
    fn normal(&self, width: usize) -> Vec<u16> {
        let mut normal = vec![0; width];
        let free = (0..width).find(|&column| self.members.iter().all(|&(pivot, _)| pivot != column));
        normal[free.unwrap_or(0)] = 1;
        // A member is zero at the pivots before its own: from the last one on, all but one coordinate are settled.
        for (pivot, member) in self.members.iter().rev() {
            normal[*pivot] = dot(self.field, &normal, member);
        }
        normal
    }
}

fn dot(field: Field, a: &[u16], b: &[u16]) -> u16 {
    a.iter().zip(b).fold(0, |sum, (&a, &b)| field.add(sum, field.mul(a, b)))
}
