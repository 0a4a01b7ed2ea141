//! Copies in which wrong bytes were met. A flow's word, or one reading, is not enough: the node reads such a copy again
//! itself, and only what fails twice is reported as corrupt. Meanwhile it vouches for none of them.

use crate::store::{CopyId, Store, StoreError, Verdict};
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use worker::{Step, Task, Worker};

/// Corrupt copies of which one heartbeat tells; the others are told of when these are gone.
const MAX_TOLD: usize = 4096;

/// Corrupt copies that are remembered, in about ten megabytes. A store with more of them vouches for nothing.
const MAX_CORRUPT: usize = 1 << 18;

/// Copies that wait to be read again. What does not fit is met again by the next flow or scrub.
const MAX_SUSPECTS: usize = 4096;

/// A copy that cannot be read for want of descriptors, memory or permission is tried so often: that says nothing about it.
const MAX_TRIES: u32 = 10;

/// Between two looks for suspects, and after a reading that failed for want of something.
const PAUSE: Duration = Duration::from_millis(200);

/// The name of the task that reads them again.
pub const REREAD: &str = "reread";

/// What is suspected, and what was found corrupt and is still here.
#[derive(Debug, Default)]
pub struct Suspects(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// With the number of vain attempts to read it.
    suspected: BTreeMap<CopyId, u32>,
    corrupt: BTreeSet<CopyId>,
    /// There was no room for one of them, so any copy may be it, until the next start of the node finds them anew.
    has_lost_count: bool,
}

impl Suspects {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody met wrong bytes in it.
    pub fn suspect(&self, copy: CopyId) {
        let mut state = self.lock();
        if state.suspected.len() < MAX_SUSPECTS && !state.corrupt.contains(&copy) {
            state.suspected.entry(copy).or_insert(0);
        }
    }

    /// It failed twice.
    pub fn condemn(&self, copy: CopyId) {
        let mut state = self.lock();
        state.suspected.remove(&copy);
        if state.corrupt.len() < MAX_CORRUPT || state.corrupt.contains(&copy) {
            state.corrupt.insert(copy);
        } else if !std::mem::replace(&mut state.has_lost_count, true) {
            tracing::error!(%copy, "more than {MAX_CORRUPT} copies are corrupt: this node vouches for none any more");
        }
    }

    /// It is whole, or not here any more.
    pub fn forget(&self, copy: CopyId) {
        let mut state = self.lock();
        state.suspected.remove(&copy);
        state.corrupt.remove(&copy);
    }

    /// Found corrupt and still here: as many as are told of at once.
    pub fn corrupt(&self) -> Vec<CopyId> {
        self.lock().corrupt.iter().take(MAX_TOLD).copied().collect()
    }

    /// Whether it was found corrupt.
    pub fn is_corrupt(&self, copy: CopyId) -> bool {
        self.lock().corrupt.contains(&copy)
    }

    /// Whether nothing is held against it.
    pub fn is_clear(&self, copy: CopyId) -> bool {
        let state = self.lock();
        !state.has_lost_count && !state.corrupt.contains(&copy) && !state.suspected.contains_key(&copy)
    }

    /// The one that was tried least often.
    fn next(&self) -> Option<CopyId> {
        self.lock().suspected.iter().min_by_key(|(_, tries)| **tries).map(|(copy, _)| *copy)
    }

    /// It could not be read, which says nothing about it. Whether it is given up.
    fn tried_in_vain(&self, copy: CopyId) -> bool {
        let mut state = self.lock();
        let tries = state.suspected.entry(copy).or_insert(0);
        *tries += 1;
        let is_given_up = *tries >= MAX_TRIES;
        if is_given_up {
            state.suspected.remove(&copy);
        }
        is_given_up
    }

    /// Reads the next suspect and judges it. False if there was none, or if it could not be read now.
    pub fn judge_next(&self, store: &Store) -> bool {
        let Some(copy) = self.next() else { return false };
        match store.verify(copy.block, copy.generation, |_| ()) {
            Ok(Verdict::Whole) => {
                tracing::warn!(%copy, "wrong bytes were met in it, and now it is whole");
                self.forget(copy);
            }
            Ok(Verdict::Damaged(damage)) => {
                tracing::warn!(%copy, %damage, "corrupt");
                self.condemn(copy);
            }
            // Deleted meanwhile.
            Err(StoreError::NotFound { .. }) => self.forget(copy),
            Err(error) => {
                if self.tried_in_vain(copy) {
                    tracing::warn!(%copy, %error, "it cannot be read, and nothing is said of it");
                }
                return false;
            }
        }
        true
    }
}

/// The worker that reads suspects again.
pub struct Rereader {
    /// What is suspected.
    pub suspects: Arc<Suspects>,
    /// Where it lies.
    pub store: Store,
}

impl Worker for Rereader {
    type Error = Infallible;

    fn name(&self) -> &'static str {
        REREAD
    }

    fn pause(&self) -> Duration {
        PAUSE
    }

    async fn step(&mut self, task: &Task) -> Result<Step, Infallible> {
        let (suspects, store) = (Arc::clone(&self.suspects), self.store.clone());
        let judged = tokio::task::spawn_blocking(move || suspects.judge_next(&store)).await.unwrap_or(false);
        if !judged {
            return Ok(Step::Wait(PAUSE));
        }
        task.note(|report| report.done += 1);
        Ok(Step::Again)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::NewBlock;
    use disk::{CrashDisk, Disk, PowerSwitch};
    use model::{BlockId, NodeId, Stamp};
    use std::path::Path;

    const COPY: CopyId = CopyId { block: BlockId(5), generation: 2 };

    fn store() -> (CrashDisk, Store) {
        let disk = CrashDisk::new(&PowerSwitch::new());
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        Store::format(&shared, NodeId(1)).unwrap();
        let store = Store::open(shared, NodeId(1), 0).unwrap();
        let mut writer = store.writer(COPY.block, COPY.generation, 3).unwrap();
        writer.write(0, b"abc", None).unwrap();
        let facts = NewBlock {
            birth: Stamp::default(),
            stored_bytes: 3,
            alpha: 1,
            symbol_bytes: 3,
            part: None,
            note: Vec::new(),
        };
        writer.finish(facts, None).unwrap();
        (disk, store)
    }

    fn flip(disk: &CrashDisk) {
        let path = format!("blocks/00/{COPY}");
        disk.damage(Path::new(&path), |bytes| bytes[1] ^= 1).unwrap();
    }

    #[test]
    fn only_what_fails_when_the_node_reads_it_again_is_corrupt() {
        let (disk, store) = store();
        let suspects = Suspects::default();
        suspects.suspect(COPY);
        assert!(!suspects.is_clear(COPY) && suspects.corrupt().is_empty(), "nobody vouches for it meanwhile");
        assert!(suspects.judge_next(&store));
        assert!(suspects.is_clear(COPY), "a flow's word was wrong");
        flip(&disk);
        suspects.suspect(COPY);
        assert!(suspects.judge_next(&store));
        assert_eq!(suspects.corrupt(), [COPY]);
        suspects.suspect(COPY);
        assert!(!suspects.judge_next(&store), "what is corrupt is not read again and again");
        suspects.forget(COPY);
        assert!(suspects.is_clear(COPY));
    }

    #[test]
    fn a_lack_of_descriptors_condemns_nothing_and_the_file_s_length_does() {
        let (disk, store) = store();
        let suspects = Suspects::default();
        suspects.suspect(COPY);
        disk.starve(true);
        assert!((1..MAX_TRIES).all(|_| !suspects.judge_next(&store) && !suspects.is_clear(COPY)));
        assert!(!suspects.judge_next(&store) && suspects.is_clear(COPY), "it is given up, not condemned");
        disk.starve(false);
        disk.damage(Path::new(&format!("blocks/00/{COPY}")), |bytes| bytes.truncate(2)).unwrap();
        suspects.suspect(COPY);
        assert!(suspects.judge_next(&store));
        assert_eq!(suspects.corrupt(), [COPY]);
    }

    #[test]
    fn what_is_corrupt_is_never_vouched_for_however_much_else_is() {
        let suspects = Suspects::default();
        let copy = |generation| CopyId { generation, ..COPY };
        let all = 0..=MAX_TOLD as u64;
        all.clone().for_each(|generation| suspects.condemn(copy(generation)));
        assert!(all.clone().all(|generation| !suspects.is_clear(copy(generation))));
        let last = copy(MAX_TOLD as u64);
        assert!(suspects.corrupt().len() == MAX_TOLD && !suspects.corrupt().contains(&last));
        suspects.forget(copy(0));
        assert!(suspects.corrupt().contains(&last), "it is told of when there is room");

        (0..MAX_CORRUPT as u64).for_each(|generation| suspects.condemn(copy(generation)));
        let never_seen = copy(u64::MAX);
        assert!(suspects.is_clear(never_seen), "as many as can be remembered");
        suspects.condemn(copy(0));
        assert!(suspects.is_clear(never_seen), "and one of them again");
        suspects.condemn(copy(MAX_CORRUPT as u64));
        assert!(!suspects.is_clear(never_seen) && !suspects.is_clear(copy(MAX_CORRUPT as u64)));
    }

    #[test]
    fn suspects_are_bounded() {
        let suspects = Suspects::default();
        (0..2 * MAX_SUSPECTS as u64).for_each(|generation| suspects.suspect(CopyId { generation, ..COPY }));
        assert_eq!(suspects.lock().suspected.len(), MAX_SUSPECTS);
    }
}
