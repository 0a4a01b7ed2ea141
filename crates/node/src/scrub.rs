//! The scrubber: a worker that reads every block against its sidecar, again and again, at a bounded rate.

use crate::ending::Ending;
use crate::flows::FlowStore;
use crate::store::{CopyId, StoreError, Verdict};
use std::sync::Arc;
use std::sync::atomic::Ordering;
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
    /// Folders are listed one after another, so a round holds one folder's names.
    folders: std::ops::RangeInclusive<u8>,
    left: std::vec::IntoIter<CopyId>,
    done: u64,
    total: u64,
    seen: Seen,
}

/// What a round has seen so far.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Copies that were read.
    pub read: u64,
    /// Those of them that are corrupt.
    pub corrupt: u64,
    /// Copies, and folders, that could not be read: that says nothing about them.
    pub unread: u64,
    /// Why the first of them could not.
    pub why: String,
}

/// A copy that was read.
pub struct Read {
    /// It.
    pub copy: CopyId,
    /// What is wrong with it.
    pub problem: Option<String>,
    /// How many were read, it included.
    pub done: u64,
    /// Of so many.
    pub total: u64,
}

impl Round {
    /// At its beginning. Of so many blocks as there are now.
    pub fn begin(store: Arc<FlowStore>, rate: u64, ending: Ending, task: &Task) -> Round {
        let total = store.store.usage().blocks;
        task.note(|report| (report.done, report.total) = (0, total));
        let (folders, left) = (0..=u8::MAX, Vec::new().into_iter());
        Round { store, rate, ending, folders, left, done: 0, total, seen: Seen::default() }
    }

    /// Reads until there is something to say of a copy; `None` after the last.
    pub async fn next(&mut self, task: &Task) -> Result<Option<Read>, JoinError> {
        while let Some(copy) = self.next_copy(task).await? {
            let (store, rate, ending) = (Arc::clone(&self.store), self.rate, self.ending.clone());
            let read = move || read_twice(&store, copy, |bytes| wait(rate, bytes, &ending));
            let checked = tokio::task::spawn_blocking(read).await?;
            self.done += 1;
            // Some may have been written since it began.
            self.total = self.total.max(self.done);
            task.note(|report| (report.done, report.total) = (self.done, self.total));
            let problem = match checked {
                Ok(Verdict::Whole) => None,
                Ok(Verdict::Damaged(damage)) => {
                    self.seen.corrupt += 1;
                    Some(damage.to_string())
                }
                // Deleted meanwhile.
                Err(StoreError::NotFound { .. }) => continue,
                // Says nothing about the copy: too few descriptors, a version that is not known.
                Err(error) => {
                    self.store.suspects.suspect(copy);
                    self.missed(task, &error);
                    continue;
                }
            };
            self.seen.read += 1;
            if let Some(problem) = &problem {
                task.note(|report| report.errors += 1);
                tracing::warn!("scrub: block {copy}: {problem}");
            }
            return Ok(Some(Read { copy, problem, done: self.done, total: self.total }));
        }
        self.end(task);
        Ok(None)
    }

    async fn next_copy(&mut self, task: &Task) -> Result<Option<CopyId>, JoinError> {
        loop {
            if let Some(copy) = self.left.next() {
                return Ok(Some(copy));
            }
            let Some(first_byte) = self.folders.next() else { return Ok(None) };
            let store = self.store.store.clone();
            match tokio::task::spawn_blocking(move || store.list_folder(first_byte)).await? {
                Ok(listing) => self.left = listing.copies.into_iter(),
                Err(error) => {
                    self.store.suspects.look_at(first_byte, Duration::ZERO);
                    self.missed(task, &error);
                }
            }
        }
    }

    fn missed(&mut self, task: &Task, error: &StoreError) {
        if self.seen.unread == 0 {
            self.seen.why = error.to_string();
        }
        self.seen.unread += 1;
        task.note(|report| report.errors += 1);
        tracing::warn!("scrub: {error}");
    }

    /// What it has seen: after the last copy, all that there is.
    pub fn seen(&self) -> &Seen {
        &self.seen
    }

    /// What came of it, be it whole or not.
    pub fn end(&self, task: &Task) {
        let Round { total, seen: Seen { corrupt, unread, .. }, .. } = self;
        task.note(|report| {
            report.total = 0;
            report.detail =
                format!("last round: {total} blocks, {corrupt} corrupt, {unread} could not be read");
        });
    }
}

/// Reads a copy, and once more if it is not as it was written: what fails twice is corrupt.
fn read_twice(store: &FlowStore, copy: CopyId, mut wait: impl FnMut(u64)) -> Result<Verdict, StoreError> {
    let mut read = || store.store.verify(copy.block, copy.generation, &mut wait);
    if let Verdict::Damaged(damage) = read()? {
        let Verdict::Damaged(again) = read()? else {
            tracing::warn!("scrub: block {copy}: {damage}, but not when it was read again");
            return Ok(Verdict::Whole);
        };
        store.cache.forget(copy.block, copy.generation);
        store.suspects.condemn(copy);
        return Ok(Verdict::Damaged(again));
    }
    store.suspects.is_whole(copy);
    Ok(Verdict::Whole)
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
            None => Round::begin(Arc::clone(&self.store), SCRUB_BYTES_PER_S, self.ending.clone(), task),
        };
        if round.next(task).await?.is_none() {
            // With the next heartbeat the coordinator hears of it, and looks for what lacks: that cannot be read.
            self.store.scrub_rounds.fetch_add(1, Ordering::Relaxed);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Store;
    use disk::{CrashDisk, Disk, PowerSwitch};
    use model::NodeId;
    use worker::Tasks;

    #[tokio::test]
    async fn a_round_that_ended_is_told() {
        let disk: Arc<dyn Disk> = Arc::new(CrashDisk::new(&PowerSwitch::new()));
        Store::format(&disk, NodeId(1)).unwrap();
        let store = Arc::new(FlowStore::new(Store::open(disk, NodeId(1), 0).unwrap(), 0));
        let (_serving, ending) = Ending::new();
        let (mut scrubber, task) = (Scrubber::new(Arc::clone(&store), ending), Tasks::default().add(SCRUB));
        for rounds in 1..3 {
            while scrubber.step(&task).await.unwrap() == Step::Again {}
            assert_eq!(store.scrub_rounds.load(Ordering::Relaxed), rounds);
        }
    }
}
