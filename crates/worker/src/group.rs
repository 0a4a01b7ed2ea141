//! Everything that a daemon has begun and that ends with it.

use std::sync::{Mutex, PoisonError};
use tokio::task::JoinSet;

/// Futures that run until they end or the group does.
#[derive(Debug, Default)]
pub struct Group(Mutex<JoinSet<()>>);

impl Group {
    /// Runs something until it ends or the group does.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while running.try_join_next().is_some() {}
        running.spawn(work);
    }

    /// Ends all of it, each at its next pause.
    pub fn abort(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).abort_all();
    }

    /// Ends all of it and waits for that.
    pub async fn shut_down(&self) {
        let mut running = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        running.shutdown().await;
    }
}
