//! Whether the disk still does what a store needs: a worker tries it, and a node whose disk fails leaves by itself. Its blocks
//! are away then, as those of any node that left, and no other node is touched; when the disk is well again it comes back.

use crate::clock::within;
use crate::store::Store;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::task::JoinHandle;
use worker::{Step, Task, Worker};

/// The name of its task.
pub const DISK: &str = "disk";

/// Between two tries, unless a test says otherwise: a disk that fails is found within half a minute, as a silent node is, and
/// a try costs it less than a heartbeat costs the network.
pub const TRY_EVERY: Duration = Duration::from_secs(10);

/// One failure may be a moment without descriptors or memory; a second one, a pause later, is none.
const FAILURES: u32 = 2;

/// A try that takes longer counts as failed: the system gives a command to a disk 30 s, and tries it again.
const HUNG_AFTER: Duration = Duration::from_secs(60);

/// What is wrong with the disk.
#[derive(Debug, Default)]
pub struct Ailment(Mutex<Tries>);

#[derive(Debug, Default)]
struct Tries {
    failed: u32,
    why: String,
}

impl Ailment {
    fn lock(&self) -> MutexGuard<'_, Tries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why the disk cannot be relied on; `None` while it can.
    pub fn now(&self) -> Option<String> {
        let tries = self.lock();
        (tries.failed >= FAILURES).then(|| tries.why.clone())
    }

    /// What a try came to.
    fn tried(&self, outcome: Result<(), String>) {
        let mut tries = self.lock();
        *tries = match outcome {
            Ok(()) => Tries::default(),
            Err(why) => Tries { failed: tries.failed.saturating_add(1), why },
        };
    }
}

/// Tries the disk.
pub struct DiskTrier {
    store: Store,
    ailment: Arc<Ailment>,
    every: Duration,
    /// The folder of blocks that is listed next: all of them in turn.
    folder: u8,
    /// A try that the disk has not answered yet: no second one is begun beside it.
    hanging: Option<JoinHandle<Result<(), String>>>,
}

impl DiskTrier {
    /// Tries the disk of a store each so long, and says in `ailment` what came of it.
    pub fn new(store: Store, ailment: Arc<Ailment>, every: Duration) -> DiskTrier {
        DiskTrier { store, ailment, every, folder: 0, hanging: None }
    }
}

impl Worker for DiskTrier {
    type Error = Infallible;

    fn name(&self) -> &'static str {
        DISK
    }

    fn pause(&self) -> Duration {
        self.every
    }

    async fn step(&mut self, task: &Task) -> Result<Step, Infallible> {
        let mut trying = self.hanging.take().unwrap_or_else(|| {
            let (store, folder) = (self.store.clone(), self.folder);
            tokio::task::spawn_blocking(move || store.try_disk(folder).map_err(|error| error.to_string()))
        });
        self.folder = self.folder.wrapping_add(1);
        let outcome = match within(HUNG_AFTER, &mut trying).await {
            Some(ended) => ended.unwrap_or_else(|broken| Err(broken.to_string())),
            None => {
                self.hanging = Some(trying);
                Err(format!("it has not answered for {} s", HUNG_AFTER.as_secs()))
            }
        };
        task.note(|report| {
            report.done += 1;
            report.errors += u64::from(outcome.is_err());
            report.detail = outcome.as_ref().err().cloned().unwrap_or_default();
        });
        if let Err(why) = &outcome {
            tracing::warn!("the disk was tried, and failed: {why}");
        }
        self.ailment.tried(outcome);
        Ok(Step::Wait(self.every))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_failure_is_none_and_one_success_ends_an_ailment() {
        let ailment = Ailment::default();
        ailment.tried(Err("a".to_owned()));
        assert_eq!(ailment.now(), None);
        ailment.tried(Err("b".to_owned()));
        assert_eq!(ailment.now().as_deref(), Some("b"));
        ailment.tried(Ok(()));
        ailment.tried(Err("c".to_owned()));
        assert_eq!(ailment.now(), None);
    }
}
