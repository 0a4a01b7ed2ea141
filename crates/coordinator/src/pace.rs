//! How long repairs took lately: what the next one should take. A flow that takes far longer is held up by somebody, whom
//! its driver finds (`exec::drive::pace`). Repairs of a recovery share links with each other and are remembered apart.

use plan::decide::Price;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Among many a repair may take this many times as long as most before anybody asks why: how many others cross its links
/// differs from one to the next, and from one moment to the next.
const ROOM_AMONG_MANY: f64 = 2.0;

/// What is usual.
#[derive(Debug)]
pub(crate) struct Pace(Mutex<Recent>);

#[derive(Debug)]
struct Recent {
    pace: flow::Pace,
    /// How often what was known became void.
    forgotten: u64,
}

impl Pace {
    /// Of repairs that have the network to themselves.
    pub fn alone() -> Pace {
        Pace::with_room(1.0)
    }

    /// Of repairs of a recovery.
    pub fn among_many() -> Pace {
        Pace::with_room(ROOM_AMONG_MANY)
    }

    fn with_room(room: f64) -> Pace {
        Pace(Mutex::new(Recent { pace: flow::Pace::with_room(room), forgotten: 0 }))
    }

    /// A repair that nothing went wrong with took this long.
    pub fn note(&self, price: &Price, block_bytes: u64, took: Duration) {
        self.recent().pace.note(in_theory(price, block_bytes), took);
    }

    /// What a repair should take at most.
    pub fn expected(&self, price: &Price, block_bytes: u64) -> Option<Duration> {
        self.recent().pace.expected(in_theory(price, block_bytes))
    }

    /// To be called when prices become others, or rates.
    pub fn forget(&self) {
        let mut recent = self.recent();
        recent.pace.forget();
        recent.forgotten += 1;
    }

    /// Changes whenever what was expected before is void.
    pub fn era(&self) -> u64 {
        self.recent().forgotten
    }

    fn recent(&self) -> MutexGuard<'_, Recent> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn in_theory(price: &Price, block_bytes: u64) -> f64 {
    price.seconds.unwrap_or(price.timeslots * block_bytes as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_expected_is_void_once_rates_are_others() {
        let price = |timeslots| Price { timeslots, seconds: None, cross_rack_bytes: 0 };
        let pace = Pace::among_many();
        (0..3).for_each(|_| pace.note(&price(1.0), 1 << 20, Duration::from_millis(50)));
        let expected = pace.expected(&price(10.0), 2 << 20).unwrap();
        assert!((expected.as_secs_f64() - 2.0).abs() < 1e-4, "a star of blocks twice as long: {expected:?}");
        let era = pace.era();
        pace.forget();
        assert_eq!(pace.expected(&price(1.0), 1 << 20), None);
        assert_ne!(pace.era(), era);
    }
}
