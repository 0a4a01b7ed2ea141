//! Waits that end, and how long ago something was.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Waits for that at most so long.
pub async fn within<F: Future>(patience: Duration, wanted: F) -> Option<F::Output> {
    tokio::time::timeout(patience, wanted).await.ok()
}

/// Waits for `time`.
pub async fn rest(time: Duration) {
    tokio::time::sleep(time).await;
}

/// A moment from which time is measured.
#[derive(Clone, Copy, Debug)]
pub struct Since(Instant);

impl Default for Since {
    fn default() -> Since {
        Since(Instant::now())
    }
}

impl Since {
    /// Returns the milliseconds since that moment.
    pub fn ms(&self) -> u64 {
        self.0.elapsed().as_millis() as u64
    }
}

/// When something last happened, if it has since the start.
#[derive(Default, Debug)]
pub struct Last(Mutex<Option<Instant>>);

impl Last {
    /// It happens now.
    pub fn now(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// How long ago it was.
    pub fn ago(&self) -> Option<Duration> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).map(|at| at.elapsed())
    }
}
