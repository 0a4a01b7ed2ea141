//! The cheapest recovery from any sums of parity sets: branch and bound.
//!
//! Let H have a row for each symbol, saying which equations it is in. A set U of readable symbols can stay unread if and only
//! if the rows of the wanted symbols are independent modulo the span of U's; so the most expensive such set is looked for.
//! Symbols that are decided to stay unread are eliminated: each takes a pivot among the equations, and the rows of all others
//! are reduced by it. A row that becomes zero stays unread for nothing; one that is left in the span of the wanted ones must
//! be read. The others fall into classes by what they are modulo that span: of each class those can stay unread together that are
//! equal, so that the costliest equal ones of all classes are a bound. With one pivot left it is what there is.

use super::Bits;
use super::loss::Reading;
use super::problem::{Problem, invert};

/// Nodes of a search that nobody waits for: about a second.
pub(super) const MAX_NODES: usize = 150_000;

/// Equations that are searched at most: a row is a word, and beyond some thirty no search ends.
const MAX_EQUATIONS: usize = 63;

/// The cheapest reading, `found` if none is cheaper or the search ends before one is.
pub(super) fn search(problem: &Problem, found: Reading, nodes: usize) -> Reading {
    let Some(mut search) = Search::new(problem, found.cost, nodes) else { return found };
    let rows = search.rows.clone();
    search.descend(rows, search.pivots);
    let proven = search.nodes > 0;
    match search.best.take().and_then(|unread| problem.reading_without(&unread)) {
        Some(better) if better.cost < found.cost => Reading { proven, ..better },
        _ => Reading { proven, ..found },
    }
}

struct Search {
    /// Of each readable symbol that costs something, the equations that it is in: the low bits are coordinates in which the
    /// wanted symbols are unit vectors, the others are modulo their span.
    rows: Vec<Row>,
    /// The bits of the wanted symbols.
    low: u64,
    /// Symbols that can be eliminated.
    pivots: usize,
    /// All that can be read costs so much.
    total: u64,
    /// The least cost so far.
    least: u64,
    /// What stays unread then.
    best: Option<Vec<u32>>,
    /// Nodes that may still be visited.
    nodes: usize,
}

#[derive(Clone, Copy)]
struct Row {
    symbol: u32,
    cost: u64,
    vector: u64,
}

impl Search {
    fn new(problem: &Problem, least: u64, nodes: usize) -> Option<Self> {
        let equations = problem.equations.len();
        if equations > MAX_EQUATIONS || nodes == 0 {
            return None;
        }
        let wanted = problem.wanted.len();
        let mut vectors = vec![0_u64; wanted + problem.readable.len()];
        for (bit, equation) in problem.equations.iter().enumerate() {
            let reads = equation.reads.iter().map(|&place| wanted + place as usize);
            equation.wanted.iter().map(|&at| at as usize).chain(reads).for_each(|at| vectors[at] |= 1 << bit);
        }
        change_coordinates(&mut vectors, wanted, equations)?;
        let rows = vectors[wanted..].iter().zip(&problem.costs).zip(0..);
        let rows: Vec<Row> = rows
            .filter(|((_, cost), _)| **cost > 0)
            .map(|((&vector, &cost), symbol)| Row { symbol, cost, vector })
            .collect();
        let low = (1_u64 << wanted) - 1;
        let total = rows.iter().map(|row| row.cost).sum();
        Some(Self { rows, low, pivots: equations - wanted, total, least, best: None, nodes })
    }

    /// Looks for what can stay unread of `rows`, those that are undecided or stay unread; `pivots` may still be eliminated.
    fn descend(&mut self, rows: Vec<Row>, pivots: usize) {
        if self.nodes == 0 {
            return;
        }
        self.nodes -= 1;
        let classes = self.classes(&rows);
        let free: u64 = rows.iter().filter(|row| row.vector == 0).map(|row| row.cost).sum();
        let bound: u64 = free + classes.iter().map(|class| class.most).sum::<u64>();
        if self.total - bound >= self.least {
            return;
        }
        if pivots == 0 || classes.is_empty() {
            self.least = self.total - free;
            self.best = Some(rows.iter().filter(|row| row.vector == 0).map(|row| row.symbol).collect());
            return;
        }
        let mut bound = bound;
        let mut open = rows;
        for class in classes {
            for &(vector, _) in &class.equal {
                self.descend(eliminated(&open, vector, self.low), pivots - 1);
            }
            // From here on the whole class is read.
            bound -= class.most;
            if self.total - bound >= self.least {
                return;
            }
            open.retain(|row| row.vector & !self.low != class.modulo);
        }
    }

    /// The undecided rows by what they are modulo the wanted ones, those first that matter most.
    fn classes(&self, rows: &[Row]) -> Vec<Class> {
        let mut undecided: Vec<(u64, u64, u64)> = rows
            .iter()
            .filter(|row| row.vector & !self.low != 0)
            .map(|row| (row.vector & !self.low, row.vector, row.cost))
            .collect();
        undecided.sort_unstable();
        let class = |members: &[(u64, u64, u64)]| {
            let equal = members.chunk_by(|a, b| a.1 == b.1);
            let mut equal: Vec<(u64, u64)> =
                equal.map(|same| (same[0].1, same.iter().map(|member| member.2).sum())).collect();
            equal.sort_by_key(|&(_, cost)| std::cmp::Reverse(cost));
            Class { modulo: members[0].0, most: equal[0].1, equal }
        };
        let mut classes: Vec<Class> = undecided.chunk_by(|a, b| a.0 == b.0).map(class).collect();
        classes.sort_by_key(|class| std::cmp::Reverse(class.most));
        classes
    }
}

/// Rows that are equal modulo the wanted ones.
struct Class {
    modulo: u64,
    /// Those that are equal, with their cost, the costliest first.
    equal: Vec<(u64, u64)>,
    /// The cost of the first.
    most: u64,
}

/// The rows when `vector` stays unread: reduced by it, and without those that then must be read.
fn eliminated(rows: &[Row], vector: u64, low: u64) -> Vec<Row> {
    let pivot = 1_u64 << (63 - (vector & !low).leading_zeros());
    let reduce = |row: &Row| Row {
        vector: if row.vector & pivot != 0 { row.vector ^ vector } else { row.vector },
        ..*row
    };
    rows.iter().map(reduce).filter(|row| row.vector == 0 || row.vector & !low != 0).collect()
}

/// Changes coordinates so that the first vectors, the wanted ones, become the first unit vectors; `None` if they are dependent.
fn change_coordinates(vectors: &mut [u64], wanted: usize, equations: usize) -> Option<()> {
    for at in 0..wanted {
        let pivot = (at..equations).find(|&bit| vectors[at] >> bit & 1 == 1)?;
        let others = vectors[at] & !(1 << pivot);
        for vector in vectors.iter_mut() {
            // Adds coordinate `pivot` to the others of this vector, then swaps it to place `at`.
            if *vector >> pivot & 1 == 1 {
                *vector ^= others;
            }
            let (low, high) = (*vector >> at & 1, *vector >> pivot & 1);
            if low != high {
                *vector ^= (1 << at) | (1 << pivot);
            }
        }
    }
    Some(())
}

impl Problem {
    /// What is read if these readable symbols are not: sums of equations in which they cancel.
    fn reading_without(&self, unread: &[u32]) -> Option<Reading> {
        let (wanted, equations) = (self.wanted.len(), self.equations.len());
        let mut places = vec![None; self.readable.len()];
        unread.iter().enumerate().for_each(|(at, &symbol)| places[symbol as usize] = Some(at));
        // Columns: unread symbols, then wanted ones, then which equations were added.
        let width = unread.len() + wanted;
        let mut pivots: Vec<(usize, Bits)> = Vec::new();
        let mut sums = Vec::new();
        for (at, equation) in self.equations.iter().enumerate() {
            let reads = equation.reads.iter().filter_map(|&place| places[place as usize]);
            let lost = equation.wanted.iter().map(|&lost| unread.len() + lost as usize);
            let mut row = Bits::of(width + equations, reads.chain(lost).chain([width + at]));
            for (pivot, member) in &pivots {
                if row.contains(*pivot) {
                    row.add(member);
                }
            }
            match row.first() {
                Some(pivot) if pivot < unread.len() => pivots.push((pivot, row)),
                Some(pivot) if pivot < width => {
                    sums.push(row.clone());
                    pivots.push((pivot, row));
                }
                _ => {}
            }
        }
        if sums.len() != wanted {
            return None;
        }
        let lost = |row: &Bits| {
            Bits::of(
                wanted,
                row.iter().filter(|bit| (unread.len()..width).contains(bit)).map(|bit| bit - unread.len()),
            )
        };
        let solved = invert(sums.iter().map(lost).collect()).into_iter().map(|row| {
            let mut sum = Bits::new(width + equations);
            row.iter().for_each(|at| sum.add(&sums[at]));
            self.sum_of(sum.iter().filter(|&bit| bit >= width).map(|bit| bit - width))
        });
        Some(self.reading_of(solved.collect(), true))
    }
}
