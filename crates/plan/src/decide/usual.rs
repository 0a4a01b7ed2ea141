//! How long flows usually take for what they should cost: what the next one should take. One that takes far longer is
//! held up by somebody, whom its driver finds. The coordinator remembers it for repairs; a client does for its own reads,
//! because its own link is part of all of them and nobody else knows it.

use core::time::Duration;
use std::collections::VecDeque;

/// Flows that are remembered: enough that a few slow ones among them are no rule, few enough that a network that changes
/// is soon known.
const REMEMBERED: usize = 15;

/// Fewer flows than this say nothing about what is usual.
const ENOUGH: usize = 3;

/// A flow that shares links with others like it (repairs of a recovery, two reads of a get) may take this many times as
/// long as most before anybody asks why: how many others cross its links differs from one to the next, and from one moment
/// to the next.
const ROOM_AMONG_MANY: f64 = 2.0;

/// What a flow costs in theory.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct InTheory {
    /// On the links as they are known, if any is.
    pub seconds: Option<f64>,
    /// Else bytes over one of equal links.
    pub slot_bytes: f64,
}

/// What is usual.
#[derive(Clone, Debug)]
pub struct Usual {
    /// Seconds for each unit of cost in theory, one number for each of the last flows.
    factors: VecDeque<f64>,
    /// That unit is the second, not the byte.
    in_seconds: bool,
    room: f64,
    /// How often what was known became void.
    era: u64,
}

impl Usual {
    /// Of flows that have the network to themselves.
    pub fn alone() -> Usual {
        Usual { factors: VecDeque::new(), in_seconds: false, room: 1.0, era: 0 }
    }

    /// Of flows that share links with others like them.
    pub fn among_many() -> Usual {
        Usual { room: ROOM_AMONG_MANY, ..Usual::alone() }
    }

    /// Notes how long a flow took with which nothing went wrong. If costs have another unit than before, because links
    /// became known or are forgotten, all that was known is void.
    pub fn note(&mut self, cost: InTheory, took: Duration) {
        let amount = cost.amount();
        if amount <= 0.0 || took.is_zero() {
            return;
        }
        let in_seconds = cost.seconds.is_some();
        if in_seconds != self.in_seconds && !self.factors.is_empty() {
            self.forget();
        }
        self.in_seconds = in_seconds;
        self.factors.push_back(took.as_secs_f64() / amount);
        self.factors.drain(..self.factors.len().saturating_sub(REMEMBERED));
    }

    /// What a flow should take at most; `None` if too few are known.
    pub fn expected(&self, cost: InTheory) -> Option<Duration> {
        self.expected_with(cost, self.room)
    }

    /// The same of one that begins while no other one is under way: it has the links to itself, whatever those had that are
    /// remembered.
    pub fn expected_alone(&self, cost: InTheory) -> Option<Duration> {
        self.expected_with(cost, 1.0)
    }

    fn expected_with(&self, cost: InTheory, room: f64) -> Option<Duration> {
        if self.factors.len() < ENOUGH || cost.seconds.is_some() != self.in_seconds {
            return None;
        }
        let mut factors: Vec<f64> = self.factors.iter().copied().collect();
        factors.sort_by(f64::total_cmp);
        Duration::try_from_secs_f64(factors[factors.len() / 2] * cost.amount() * room).ok()
    }

    /// Forgets all flows: links, rates or how many share them have changed.
    pub fn forget(&mut self) {
        self.factors.clear();
        self.era += 1;
    }

    /// Changes whenever what was expected before is void.
    pub fn era(&self) -> u64 {
        self.era
    }
}

impl InTheory {
    fn amount(self) -> f64 {
        self.seconds.unwrap_or(self.slot_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(slot_bytes: f64) -> InTheory {
        InTheory { seconds: None, slot_bytes }
    }

    fn about(found: Option<Duration>, ms: f64) -> bool {
        (found.unwrap().as_secs_f64() * 1e3 - ms).abs() < 0.01
    }

    #[test]
    fn the_next_one_should_take_what_most_of_the_last_ones_took() {
        let (mut usual, ms) = (Usual::alone(), Duration::from_millis);
        for took in [100, 110] {
            usual.note(bytes(1.0), ms(took));
        }
        assert_eq!(usual.expected(bytes(1.0)), None, "two are not enough");
        usual.note(bytes(10.0), ms(9_000));
        assert!(about(usual.expected(bytes(1.0)), 110.0));
        assert!(about(usual.expected(bytes(20.0)), 2_200.0), "of twenty times the cost");
        usual.note(bytes(0.0), ms(1));
        for _ in 0..REMEMBERED {
            usual.note(bytes(1.0), ms(50));
        }
        assert!(about(usual.expected(bytes(1.0)), 50.0), "older ones are forgotten");
        usual.forget();
        assert_eq!(usual.expected(bytes(1.0)), None);
        let mut among_many = Usual::among_many();
        for _ in 0..ENOUGH {
            among_many.note(bytes(1.0), ms(50));
        }
        assert!(about(among_many.expected(bytes(1.0)), 100.0));
        assert!(about(among_many.expected_alone(bytes(1.0)), 50.0));
    }

    #[test]
    fn what_was_expected_is_void_once_rates_are_others() {
        let mut usual = Usual::among_many();
        (0..3).for_each(|_| usual.note(bytes(1e6), Duration::from_millis(50)));
        assert!(about(usual.expected(bytes(20e6)), 2_000.0), "a star of blocks twice as long");
        let era = usual.era();
        usual.forget();
        assert_eq!(usual.expected(bytes(1e6)), None);
        assert_ne!(usual.era(), era);
    }

    #[test]
    fn prices_in_other_units_begin_anew() {
        let (mut usual, took) = (Usual::among_many(), Duration::from_millis(100));
        let slots = bytes(4e6);
        let seconds = InTheory { seconds: Some(0.04), ..slots };
        (0..3).for_each(|_| usual.note(slots, took));
        assert!(about(usual.expected(slots), 200.0));
        assert_eq!(usual.expected(seconds), None);
        let era = usual.era();
        usual.note(seconds, took);
        assert_eq!((usual.expected(seconds), usual.expected(slots)), (None, None));
        assert_ne!(usual.era(), era);
    }
}
