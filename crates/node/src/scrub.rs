//! The scrubber: a worker that reads every block against its sidecar, again and again, at a bounded rate.

use crate::ending::Ending;
use crate::flows::FlowStore;
use crate::store::{StoreError, Verdict};
use exec::BlockStore;
use model::{BlockId, StoredCopy};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinError;
use worker::{Step, Task, Worker};

/// Bytes per second that a scrub reads: a disk of 4 TB in about ten days at an eighth of its speed, and no more than
/// a few percent of one core.
pub const SCRUB_BYTES_PER_S: u64 = 5 << 20;

/// Between two rounds; a node with little data need not read it all day.
pub const SCRUB_PAUSE: Duration = Duration::from_secs(24 * 3600);

/// The first round begins after a pause too: starting a cluster is busy enough.
const FIRST_PAUSE: Duration = Duration::from_secs(600);

/// The name of its task.
pub const SCRUB: &str = "scrub";

/// One reading of everything.
pub struct Round {
    store: Arc<FlowStore>,
    /// Bytes per second; 0 is as fast as the disk.
    rate: u64,
    ending: Ending,
    left: std::vec::IntoIter<Result<StoredCopy, StoreError>>,
    done: u64,
    total: u64,
    corrupt: u64,
    unread: u64,
}

/// A block that was read.
pub struct Read {
    /// It.
    pub block: BlockId,
    /// What is wrong with it.
    pub problem: Option<String>,
    /// How many were read, it included.
    pub done: u64,
    /// Of so many.
    pub total: u64,
}

impl Round {
    /// Lists what there is.
    pub async fn begin(
        store: Arc<FlowStore>,
        rate: u64,
        ending: Ending,
        task: &Task,
    ) -> Result<Round, JoinError> {
        let listing = Arc::clone(&store);
        let listed: Vec<_> = tokio::task::spawn_blocking(move || listing.store.list().collect()).await?;
        let total = listed.len() as u64;
        task.note(|report| (report.done, report.total) = (0, total));
        Ok(Round { store, rate, ending, left: listed.into_iter(), done: 0, total, corrupt: 0, unread: 0 })
    }

    /// Reads until there is something to say of a block; `None` after the last.
    pub async fn next(&mut self, task: &Task) -> Result<Option<Read>, JoinError> {
        while let Some(listed) = self.left.next() {
            let (store, rate, ending) = (Arc::clone(&self.store), self.rate, self.ending.clone());
            let check = move || {
                let block = listed?.block;
                Ok((block, store.store.verify(block, |bytes| wait(rate, bytes, &ending))?))
            };
            let checked = tokio::task::spawn_blocking(check).await?;
            self.done += 1;
            task.note(|report| report.done = self.done);
            let (block, problem) = match checked {
                Ok((block, Verdict::Whole)) => (block, None),
                Ok((block, Verdict::Damaged(damage))) | Err(StoreError::Corrupt { block, damage }) => {
                    self.corrupt += 1;
                    self.store.report_corrupt(block);
                    (block, Some(damage.to_string()))
                }
                // Deleted meanwhile.
                Err(StoreError::NotFound { .. }) => continue,
                // Says nothing about the block: too few descriptors, a folder that cannot be listed.
                Err(error) => {
                    self.unread += 1;
                    task.note(|report| report.errors += 1);
                    tracing::warn!("scrub: {error}");
                    continue;
                }
            };
            if let Some(problem) = &problem {
                task.note(|report| report.errors += 1);
                tracing::warn!("scrub: block {block}: {problem}");
            }
            return Ok(Some(Read { block, problem, done: self.done, total: self.total }));
        }
        self.end(task);
        Ok(None)
    }

    /// What came of it, be it whole or not.
    pub fn end(&self, task: &Task) {
        let Round { total, corrupt, unread, .. } = self;
        task.note(|report| {
            report.total = 0;
            report.detail =
                format!("last round: {total} blocks, {corrupt} corrupt, {unread} could not be read");
        });
    }
}

/// Waits as long as `bytes` take at that rate. A node that ends waits for nothing.
fn wait(bytes_per_s: u64, bytes: u64, ending: &Ending) {
    if bytes_per_s > 0 && !ending.is_asked() {
        std::thread::sleep(Duration::from_secs_f64(bytes as f64 / bytes_per_s as f64));
    }
}

/// The worker: rounds at the slow rate.
pub struct Scrubber {
    store: Arc<FlowStore>,
    ending: Ending,
    round: Option<Round>,
}

impl Scrubber {
    /// Of a store, until its node ends.
    pub fn new(store: Arc<FlowStore>, ending: Ending) -> Scrubber {
        Scrubber { store, ending, round: None }
    }
}

impl Worker for Scrubber {
    type Error = JoinError;

    fn name(&self) -> &'static str {
        SCRUB
    }

    fn pause(&self) -> Duration {
        FIRST_PAUSE
    }

    async fn step(&mut self, task: &Task) -> Result<Step, JoinError> {
        let mut round = match self.round.take() {
            Some(round) => round,
            None => {
                Round::begin(Arc::clone(&self.store), SCRUB_BYTES_PER_S, self.ending.clone(), task).await?
            }
        };
        if round.next(task).await?.is_none() {
            return Ok(Step::Wait(SCRUB_PAUSE));
        }
        self.round = Some(round);
        Ok(Step::Again)
    }

    fn stopped(&mut self, task: &Task) {
        if let Some(round) = self.round.take() {
            round.end(task);
        }
    }
}
