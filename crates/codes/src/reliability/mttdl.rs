//! Mean time to data loss of a stripe (RP §4.2, after Hu et al., Optimal repair layering, TOS 2017): a Markov chain whose
//! states are how many blocks each rack lacks.
//!
//! ```text
//!   (0,0,0) ──a node──▶ (1,0,0) ──a node──▶ (1,1,0) …      each step is survived with the probability that a pattern of
//!      ▲                  │  ▲                  │          so many losses is, if it was before
//!      └──────repaired────┘  └─────repaired─────┘
//!   a rack fails: each of its blocks that are there is lost with some probability
//! ```

use super::chain::Chain;
use super::{Survival, binomial};
use crate::CodeError;
use std::collections::BTreeMap;

/// States of a chain: eliminating a thousand takes about a second.
const MAX_STATES: usize = 1_000;

/// Blocks of a stripe in each rack.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout(Vec<usize>);

/// What happens to blocks, per hour.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rates {
    /// A node is lost for good.
    pub node: f64,
    /// A rack fails: its power, its switch.
    pub rack: f64,
    /// The part of a rack's nodes that do not come back from that, 0 … 1.
    pub lost_with_rack: f64,
    /// A lost block is made again; several of a stripe one after another.
    pub repair: f64,
}

impl Layout {
    /// A block in each rack (flat).
    pub fn flat(blocks: usize) -> Self {
        Self(vec![1; blocks])
    }

    /// `per_rack` blocks in each rack but perhaps the last (hierarchical).
    pub fn of(blocks: usize, per_rack: usize) -> Self {
        let per_rack = per_rack.max(1);
        let rest = blocks % per_rack;
        let mut racks = vec![per_rack; blocks / per_rack];
        racks.extend((rest > 0).then_some(rest));
        Self(racks)
    }

    /// Blocks in each rack.
    pub fn racks(&self) -> &[usize] {
        &self.0
    }
}

/// Hours until a stripe is lost, on average; infinite if nothing is ever lost.
///
/// Which blocks are lost is taken to be any of so many with the same probability, also where a code survives some patterns
/// and not others.
///
/// # Errors
/// [`CodeError::TooManyStates`].
pub fn mttdl_hours(survival: &Survival, layout: &Layout, rates: &Rates) -> Result<f64, CodeError> {
    let mut states = States { racks: layout.racks(), survival, of: BTreeMap::new(), open: Vec::new() };
    let start = vec![0; layout.racks().len()];
    states.number(start)?;
    let mut steps = Vec::new();
    let mut ends = Vec::new();
    let mut at = 0;
    while at < states.open.len() {
        let state = states.open[at].clone();
        for (to, rate) in leaving(&states, &state, rates) {
            let (before, after): (usize, usize) = (state.iter().sum(), to.iter().sum());
            let survived = match survival.of(before).survived {
                part if part > 0.0 && after > before => survival.of(after).survived / part,
                _ => 1.0,
            };
            ends.push((at, rate * (1.0 - survived)));
            if survived > 0.0 {
                steps.push((at, states.number(to)?, rate * survived));
            }
        }
        at += 1;
    }
    let mut chain = Chain::new(states.open.len());
    steps.into_iter().for_each(|(from, to, rate)| chain.add(from, to, rate));
    ends.into_iter().for_each(|(from, rate)| chain.add_end(from, rate));
    Ok(chain.time_to_end())
}

struct States<'a> {
    racks: &'a [usize],
    survival: &'a Survival,
    /// Lost blocks of each rack, racks of a size in falling order, to the state's number.
    of: BTreeMap<Vec<usize>, usize>,
    open: Vec<Vec<usize>>,
}

impl States<'_> {
    /// Racks of one size are alike.
    fn number(&mut self, lost: Vec<usize>) -> Result<usize, CodeError> {
        let mut racks: Vec<(usize, usize)> = self.racks.iter().copied().zip(lost).collect();
        racks.sort_unstable_by(|a, b| b.cmp(a));
        // The layout has its racks in this order too, once sorted by size: sizes fall.
        let lost: Vec<usize> = racks.iter().map(|&(_, lost)| lost).collect();
        if let Some(&number) = self.of.get(&lost) {
            return Ok(number);
        }
        let number = self.open.len();
        if number == MAX_STATES {
            let racks = self.racks.len();
            return Err(CodeError::TooManyStates {
                blocks: self.survival.blocks(),
                racks,
                limit: MAX_STATES,
            });
        }
        self.of.insert(lost.clone(), number);
        self.open.push(lost);
        Ok(number)
    }
}

/// Where a state leads, and at which rate.
fn leaving(states: &States<'_>, lost: &[usize], rates: &Rates) -> Vec<(Vec<usize>, f64)> {
    let all: usize = lost.iter().sum();
    let with = |rack: usize, now: usize| {
        let mut to = lost.to_vec();
        to[rack] = now;
        to
    };
    let mut steps = Vec::new();
    for (rack, (&size, &gone)) in states.racks.iter().zip(lost).enumerate() {
        let there = size - gone;
        if there > 0 {
            steps.push((with(rack, gone + 1), there as f64 * rates.node));
        }
        for (more, chance) in binomial(there, rates.lost_with_rack).into_iter().enumerate().skip(1) {
            steps.push((with(rack, gone + more), rates.rack * chance));
        }
        if gone > 0 {
            steps.push((with(rack, gone - 1), rates.repair * gone as f64 / all as f64));
        }
    }
    steps.retain(|(_, rate)| *rate > 0.0);
    steps
}
