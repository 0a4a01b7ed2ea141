//! Time that has passed since a client began, and waits.

use std::future::Future;
use std::time::{Duration, Instant};

/// Tells how long ago it was started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(Instant);

impl Clock {
    pub fn start() -> Clock {
        Clock(Instant::now())
    }

    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

/// Waits this long.
pub(crate) async fn rest(pause: Duration) {
    tokio::time::sleep(pause).await;
}

/// Returns what is done within this time, or `None`.
pub(crate) async fn within<T>(longest: Duration, act: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(longest, act).await.ok()
}

/// Does something at intervals, until it is dropped.
pub(crate) async fn at_intervals<F: Future>(interval: Duration, mut act: impl FnMut() -> F) {
    loop {
        rest(interval).await;
        act().await;
    }
}
