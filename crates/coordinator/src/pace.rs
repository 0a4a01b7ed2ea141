//! How long repairs took lately: what the next one should take. A flow that takes far longer is held up by somebody, whom
//! its driver finds (`exec::drive::pace`). Repairs of a recovery share links with each other and are remembered apart.

use crate::planner::Price;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Repairs that are remembered: enough that a few slow ones among them are no rule, few enough that a network that
/// changes is soon known.
const REMEMBERED: usize = 15;

/// Of fewer nothing is concluded.
const ENOUGH: usize = 3;

/// Among many a repair may take this many times as long as most before anybody asks why: how many others cross its links
/// differs from one to the next, and from one moment to the next.
const ROOM_AMONG_MANY: f64 = 2.0;

/// What is usual.
#[derive(Debug)]
pub(crate) struct Pace {
    recent: Mutex<Recent>,
    room: f64,
}

#[derive(Debug, Default)]
struct Recent {
    /// Of each of the last repairs, seconds for each second (or, where links are not known, byte and timeslot) that it
    /// should have taken in theory.
    factors: VecDeque<f64>,
    /// How often what was known became void.
    forgotten: u64,
}

impl Pace {
    /// Of repairs that have the network to themselves.
    pub fn alone() -> Pace {
        Pace { recent: Mutex::default(), room: 1.0 }
    }

    /// Of repairs of a recovery.
    pub fn among_many() -> Pace {
        Pace { recent: Mutex::default(), room: ROOM_AMONG_MANY }
    }

    /// A repair that nothing went wrong with took this long.
    pub fn note(&self, price: &Price, bytes: u64, took: Duration) {
        let theory = in_theory(price, bytes);
        if theory > 0.0 && !took.is_zero() {
            let factors = &mut self.recent().factors;
            factors.push_back(took.as_secs_f64() / theory);
            while factors.len() > REMEMBERED {
                factors.pop_front();
            }
        }
    }

    /// What a repair should take at most.
    pub fn expected(&self, price: &Price, bytes: u64) -> Option<Duration> {
        let mut factors: Vec<f64> = self.recent().factors.iter().copied().collect();
        if factors.len() < ENOUGH {
            return None;
        }
        factors.sort_by(f64::total_cmp);
        let usual = factors[factors.len() / 2] * in_theory(price, bytes);
        Duration::try_from_secs_f64(usual * self.room).ok()
    }

    /// To be called when prices become others, or rates.
    pub fn forget(&self) {
        let mut recent = self.recent();
        recent.factors.clear();
        recent.forgotten += 1;
    }

    /// Changes whenever what was expected before is void.
    pub fn era(&self) -> u64 {
        self.recent().forgotten
    }

    fn recent(&self) -> MutexGuard<'_, Recent> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn in_theory(price: &Price, bytes: u64) -> f64 {
    price.seconds.unwrap_or(price.timeslots * bytes as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_one_should_take_what_most_of_the_last_ones_took() {
        let price = |timeslots| Price { timeslots, seconds: None, cross_rack_bytes: 0 };
        let (pace, ms) = (Pace::alone(), Duration::from_millis);
        for took in [100, 110] {
            pace.note(&price(1.0), 1 << 20, ms(took));
        }
        assert_eq!(pace.expected(&price(1.0), 1 << 20), None, "two are not enough");
        pace.note(&price(10.0), 1 << 20, ms(9_000));
        let about = |found: Option<Duration>, ms: f64| (found.unwrap().as_secs_f64() * 1e3 - ms).abs() < 0.01;
        assert!(about(pace.expected(&price(1.0), 1 << 20), 110.0));
        assert!(about(pace.expected(&price(10.0), 2 << 20), 2_200.0), "a star of blocks twice as long");
        for _ in 0..REMEMBERED {
            pace.note(&price(1.0), 1 << 20, ms(50));
        }
        assert!(about(pace.expected(&price(1.0), 1 << 20), 50.0), "older ones are forgotten");
        let era = pace.era();
        pace.forget();
        assert_eq!(pace.expected(&price(1.0), 1 << 20), None);
        assert_ne!(pace.era(), era);
        let among_many = Pace::among_many();
        for _ in 0..ENOUGH {
            among_many.note(&price(1.0), 1 << 20, ms(50));
        }
        assert!(about(among_many.expected(&price(1.0), 1 << 20), 100.0));
    }
}
