//! How long reads usually take between this client and its cluster: one that takes far longer is held up by somebody,
//! and others are asked. Only the client can know, because its own link is part of all its reads.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use wire::proto::Price;

/// A read may take this many times as long as usual: two reads of a get sometimes share the client's link.
const ROOM: f64 = 2.0;

/// Remembered as long as the client.
#[derive(Clone, Debug)]
pub(crate) struct Usual(Arc<Mutex<Known>>);

#[derive(Debug)]
struct Known {
    pace: plan::decide::Usual,
    /// What flows cost is told in seconds, not in bytes over equal links.
    in_seconds: bool,
}

impl Usual {
    pub fn new() -> Usual {
        Usual(Arc::new(Mutex::new(Known { pace: plan::decide::Usual::with_room(ROOM), in_seconds: false })))
    }

    /// Notes how long a read of that price took with which nothing went wrong.
    pub fn note(&self, price: &Price, took: Duration) {
        self.with(price, |pace, cost| pace.note(cost, took));
    }

    /// How long a read should take at most, if anything can be said.
    pub fn expected(&self, price: &Price) -> Option<Duration> {
        self.with(price, |pace, cost| pace.expected(cost))
    }

    /// Forgets what was usual: it has changed.
    pub fn forget(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pace.forget();
    }

    fn with<T>(&self, price: &Price, f: impl FnOnce(&mut plan::decide::Usual, f64) -> T) -> T {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Links became known, or are forgotten.
        if price.seconds.is_some() != known.in_seconds {
            known.pace.forget();
            known.in_seconds = price.seconds.is_some();
        }
        f(&mut known.pace, price.seconds.unwrap_or(price.slot_bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_in_other_units_begin_anew() {
        let (usual, took) = (Usual::new(), Duration::from_millis(100));
        let slots = Price { slot_bytes: 4e6, seconds: None };
        let seconds = Price { seconds: Some(0.04), ..slots };
        (0..3).for_each(|_| usual.note(&slots, took));
        let expected = usual.expected(&slots).unwrap();
        assert!((expected.as_secs_f64() - 0.2).abs() < 1e-6, "{expected:?}");
        assert_eq!(usual.expected(&seconds), None);
        assert_eq!(usual.expected(&slots), None);
    }
}
