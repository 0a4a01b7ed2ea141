//! How long repairs took lately: what the next one should take. A flow that takes far longer is held up by somebody, whom
//! its driver finds (`exec::drive::pace`).

use crate::planner::Price;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Repairs that are remembered: enough that a few slow ones among them are no rule, few enough that a network that
/// changes is soon known.
const REMEMBERED: usize = 15;

/// Of fewer nothing is concluded.
const ENOUGH: usize = 3;

/// Of each of the last repairs, seconds for each second (or, where links are not known, byte and timeslot) that it should
/// have taken in theory.
#[derive(Debug, Default)]
pub(crate) struct Pace(Mutex<VecDeque<f64>>);

impl Pace {
    /// A repair that nothing went wrong with took this long.
    pub fn note(&self, price: &Price, bytes: u64, took: Duration) {
        let theory = in_theory(price, bytes);
        if theory > 0.0 && !took.is_zero() {
            let mut recent = self.recent();
            recent.push_back(took.as_secs_f64() / theory);
            while recent.len() > REMEMBERED {
                recent.pop_front();
            }
        }
    }

    /// What a repair should take.
    pub fn expected(&self, price: &Price, bytes: u64) -> Option<Duration> {
        let mut recent: Vec<f64> = self.recent().iter().copied().collect();
        if recent.len() < ENOUGH {
            return None;
        }
        recent.sort_by(f64::total_cmp);
        Duration::try_from_secs_f64(recent[recent.len() / 2] * in_theory(price, bytes)).ok()
    }

    /// To be called when prices become others.
    pub fn forget(&self) {
        self.recent().clear();
    }

    fn recent(&self) -> MutexGuard<'_, VecDeque<f64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
        let (pace, ms) = (Pace::default(), Duration::from_millis);
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
        pace.forget();
        assert_eq!(pace.expected(&price(1.0), 1 << 20), None);
    }
}
