//! Replace recovery: as many parity sets as symbols are wanted, replaced one by another as long as less is read.
//!
//! An equation y outside the chosen ones may take the place of one of its fundamental circuit, that is, of those whose sum has
//! the wanted symbols of y; what is chosen then stays a basis. Steepest descent gets stuck early. So from the sets of each
//! parity in turn, and from what was best so far, swaps are tried in random order until none helps; then comes a chain of as many
//! swaps as symbols are wanted, each the best of those that bring in an equation that the chain has not had, even if it costs, of
//! which the best beginning is kept.

use super::Bits;
use super::problem::{Problem, invert};
use crate::draw::SplitMix64;

/// Equations whose swaps are weighed, times the symbols that they read: some ten milliseconds. What is online has small codes,
/// which end sooner.
const MAX_WORK: u64 = 20_000_000;

/// Of the largest arrays a single descent takes longer than that, and is always finished.
const SHAKES: usize = 64;

/// Chosen equations that read as little as was found.
pub(super) fn search(problem: &Problem, first: Vec<usize>) -> Vec<usize> {
    let mut draw = SplitMix64::seeded(1);
    let mut state = State::new(problem, first);
    state.improve(&mut draw);
    let mut best = state.clone();
    for parity in 0..starts(problem) {
        let Some(start) = from_parity(problem, parity) else { continue };
        if best.work + state.work > MAX_WORK {
            break;
        }
        let mut other = State::new(problem, start);
        other.improve(&mut draw);
        state.work += other.work;
        if other.cost < best.cost {
            best = other;
        }
    }
    let mut work = best.work + state.work;
    for _ in 0..SHAKES {
        if work > MAX_WORK {
            break;
        }
        let mut other = best.clone();
        other.work = 0;
        other.shake(&mut draw);
        other.improve(&mut draw);
        work += other.work.max(1);
        if other.cost < best.cost {
            best = other;
        }
    }
    best.chosen
}

/// How many parities there are: groups of equations of which each determines all that is wanted.
fn starts(problem: &Problem) -> usize {
    problem.equations.len() / problem.wanted.len().max(1)
}

/// The basis that begins with the equations of that parity.
fn from_parity(problem: &Problem, parity: usize) -> Option<Vec<usize>> {
    let count = problem.equations.len();
    let from = parity * problem.wanted.len();
    let mut basis = super::BitBasis::default();
    let order = (from..count).chain(0..from);
    let chosen: Vec<usize> = order.filter(|&at| basis.push(problem.vector(at))).collect();
    (chosen.len() == problem.wanted.len()).then_some(chosen)
}

/// Chosen equations, and what follows from them.
#[derive(Clone)]
struct State<'a> {
    problem: &'a Problem,
    chosen: Vec<usize>,
    is_chosen: Vec<bool>,
    /// For each wanted symbol the chosen equations that sum to it.
    inverse: Vec<Bits>,
    /// How many chosen equations read each symbol.
    readers: Vec<u32>,
    cost: u64,
    /// Symbols that were looked at.
    work: u64,
}

/// An equation that comes, and the place among the chosen ones that it takes.
#[derive(Clone, Copy)]
struct Swap {
    comes: usize,
    place: usize,
    /// What it changes.
    gain: i64,
}

impl<'a> State<'a> {
    fn new(problem: &'a Problem, chosen: Vec<usize>) -> Self {
        let mut is_chosen = vec![false; problem.equations.len()];
        let mut readers = vec![0; problem.readable.len()];
        for &at in &chosen {
            is_chosen[at] = true;
            problem.equations[at].reads.iter().for_each(|&symbol| readers[symbol as usize] += 1);
        }
        let inverse = invert(chosen.iter().map(|&at| problem.vector(at)).collect());
        let read = readers.iter().zip(&problem.costs).filter(|(readers, _)| **readers > 0);
        let cost = read.map(|(_, cost)| cost).sum();
        Self { problem, chosen, is_chosen, inverse, readers, cost, work: 0 }
    }

    /// Swaps until neither a swap nor a chain of them helps, or it has taken long.
    fn improve(&mut self, draw: &mut SplitMix64) {
        loop {
            self.descend(draw);
            if self.work > MAX_WORK || !self.chain() {
                return;
            }
        }
    }

    /// Swaps that help, in random order, until there are none.
    fn descend(&mut self, draw: &mut SplitMix64) {
        let mut order: Vec<usize> = (0..self.problem.equations.len()).collect();
        loop {
            shuffle(&mut order, draw);
            let before = self.cost;
            for &comes in &order {
                if let Some(swap) = self.best_for(comes).filter(|swap| swap.gain > 0) {
                    self.swap(swap);
                }
            }
            if self.cost == before {
                return;
            }
        }
    }

    /// A chain of swaps, each the best that brings in an equation that it has not had; its best beginning is kept. Whether
    /// that is any.
    fn chain(&mut self) -> bool {
        let (mut best, mut state) = (None, self.clone());
        let mut had = self.is_chosen.clone();
        for _ in 0..self.problem.wanted.len() {
            let open = (0..had.len()).filter(|&comes| !had[comes]);
            let swaps: Vec<Swap> = open.filter_map(|comes| state.best_for(comes)).collect();
            let Some(swap) = swaps.into_iter().max_by_key(|swap| (swap.gain, std::cmp::Reverse(swap.comes)))
            else {
                break;
            };
            had[swap.comes] = true;
            state.swap(swap);
            if state.cost < best.as_ref().map_or(self.cost, |best: &State<'_>| best.cost) {
                best = Some(state.clone());
            }
            if state.work > 2 * MAX_WORK {
                break;
            }
        }
        self.work = state.work;
        let Some(mut best) = best else { return false };
        best.work = self.work;
        *self = best;
        true
    }

    /// Swaps at random, an eighth of what is chosen.
    fn shake(&mut self, draw: &mut SplitMix64) {
        let count = self.problem.equations.len();
        for _ in 0..self.chosen.len() / 8 + 2 {
            let comes = draw.below(count);
            if self.is_chosen[comes] {
                continue;
            }
            let circuit: Vec<usize> = self.circuit(comes).iter().collect();
            if !circuit.is_empty() {
                let place = circuit[draw.below(circuit.len())];
                self.swap(Swap { comes, place, gain: 0 });
            }
        }
    }

    /// The chosen equations, by their places, that sum to the wanted symbols of another.
    fn circuit(&self, equation: usize) -> Bits {
        let mut circuit = Bits::new(self.chosen.len());
        let wanted = &self.problem.equations[equation].wanted;
        wanted.iter().for_each(|&at| circuit.add(&self.inverse[at as usize]));
        circuit
    }

    /// The best swap that brings in an equation; `None` if it is chosen, or takes no part.
    fn best_for(&mut self, comes: usize) -> Option<Swap> {
        if self.is_chosen[comes] {
            return None;
        }
        let Problem { equations, costs, .. } = self.problem;
        let reads = &equations[comes].reads;
        let added: u64 = reads
            .iter()
            .filter(|&&symbol| self.readers[symbol as usize] == 0)
            .map(|&s| costs[s as usize])
            .sum();
        self.work += reads.len() as u64;
        let mut best: Option<Swap> = None;
        for place in self.circuit(comes).iter() {
            let goes = &equations[self.chosen[place]].reads;
            let alone = |symbol: &&u32| self.readers[**symbol as usize] == 1;
            let least: u64 = goes.iter().filter(alone).map(|&symbol| costs[symbol as usize]).sum();
            self.work += goes.len() as u64;
            // What both read stays read: no more is gained than that.
            let most = least as i64 - added as i64;
            if best.is_some_and(|best| most <= best.gain) {
                continue;
            }
            let shared = common(goes, reads).filter(|symbol| self.readers[*symbol as usize] == 1);
            let gain = most - shared.map(|symbol| costs[symbol as usize] as i64).sum::<i64>();
            if best.is_none_or(|best| gain > best.gain) {
                best = Some(Swap { comes, place, gain });
            }
        }
        best
    }

    fn swap(&mut self, Swap { comes, place, .. }: Swap) {
        let circuit = self.circuit(comes);
        let Problem { equations, costs, .. } = self.problem;
        let goes = std::mem::replace(&mut self.chosen[place], comes);
        (self.is_chosen[goes], self.is_chosen[comes]) = (false, true);
        for &symbol in &equations[comes].reads {
            let readers = &mut self.readers[symbol as usize];
            self.cost += if *readers == 0 { costs[symbol as usize] } else { 0 };
            *readers += 1;
        }
        for &symbol in &equations[goes].reads {
            let readers = &mut self.readers[symbol as usize];
            *readers -= 1;
            self.cost -= if *readers == 0 { costs[symbol as usize] } else { 0 };
        }
        // What summed with the one that goes now does with the one that comes, and with the others of the circuit.
        for row in &mut self.inverse {
            if row.contains(place) {
                row.add(&circuit);
                row.insert(place);
            }
        }
    }
}

/// What two ascending lists have in common.
fn common<'a>(a: &'a [u32], b: &'a [u32]) -> impl Iterator<Item = u32> + 'a {
    let mut rest = b;
    a.iter().copied().filter(move |&symbol| {
        let skipped = rest.iter().take_while(|&&other| other < symbol).count();
        rest = &rest[skipped..];
        rest.first() == Some(&symbol)
    })
}

fn shuffle(order: &mut [usize], draw: &mut SplitMix64) {
    for last in (1..order.len()).rev() {
        order.swap(last, draw.below(last + 1));
    }
}
