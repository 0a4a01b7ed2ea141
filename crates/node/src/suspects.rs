//! Tracks copies with wrong bytes and copies that cannot be read. A flow's report, or one failed reading, is not enough: the node rereads the
//! copy, and reports it as corrupt or unread only if that fails too. Until then it vouches for no such copy. Reported copies are tried again with
//! growing pauses, and one successful reading withdraws the report.

use crate::clock::Since;
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

/// Number of failed readings, for want of descriptors, memory or permission, after which a copy is called unread.
const MAX_TRIES: u32 = 10;

/// Largest number of unread copies that are reported by name. Beyond it their folders are reported, and nothing in these counts as readable.
const MAX_UNREAD: usize = 1_024;

/// Number of failed listings in a row after which a folder is called unread.
const FOLDER_FAILURES: u32 = 2;

/// Time after which a corrupt copy is reread, because the fault may have been a passing one of the disk …
const AGAIN_MS: u64 = 10_000;

/// … and its upper limit: it doubles each time, because reading the whole copy costs the disk as much as a scrub does.
const AGAIN_AT_MOST_MS: u64 = 3_600_000;

/// Time after which a folder with unread copies is looked at again; it doubles each time …
const FOLDER_AGAIN_MS: u64 = 2_000;

/// … up to this limit, so that a mended folder counts again within a minute.
const FOLDER_AGAIN_AT_MOST_MS: u64 = 60_000;

/// Between two looks for suspects, and after a reading that failed for want of something.
const PAUSE: Duration = Duration::from_millis(200);

/// The name of the task that reads them again.
pub const REREAD: &str = "reread";

/// Suspected copies, corrupt copies that are still here, and copies that cannot be read now.
#[derive(Debug, Default)]
pub struct Suspects {
    state: Mutex<State>,
    since: Since,
}

#[derive(Debug, Default)]
struct State {
    /// With the number of vain attempts to read it.
    suspected: BTreeMap<CopyId, u32>,
    corrupt: BTreeMap<CopyId, Retry>,
    unread: BTreeSet<CopyId>,
    /// Folders in which something is or may be unread.
    folders: BTreeMap<u8, Folder>,
    /// The reason for one of the unread copies or folders.
    why: String,
    /// There was no room for one of them, so any copy may be it, until the next start of the node finds them anew.
    has_lost_count: bool,
}

/// Time of the next try.
#[derive(Clone, Copy, Debug)]
struct Retry {
    pause_ms: u64,
    at_ms: u64,
}

#[derive(Clone, Copy, Debug)]
struct Folder {
    /// Number of failed listings in a row.
    failures: u32,
    /// Whether more of its copies are unread than can be reported by name.
    is_whole: bool,
    again: Retry,
}

/// Copies and folders that cannot be read now, for reasons that say nothing about their content.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Unread {
    /// Copies.
    pub copies: Vec<CopyId>,
    /// Folders in which nothing counts as readable, as first bytes of block ids.
    pub folders: Vec<u8>,
    /// The reason for one of them.
    pub why: String,
}

impl Retry {
    const NEVER: Retry = Retry { pause_ms: u64::MAX, at_ms: u64::MAX };

    fn after(pause_ms: u64, now_ms: u64) -> Retry {
        Retry { pause_ms, at_ms: now_ms.saturating_add(pause_ms) }
    }

    fn longer(self, at_most_ms: u64, now_ms: u64) -> Retry {
        match self.at_ms {
            u64::MAX => self,
            _ => Retry::after(self.pause_ms.saturating_mul(2).min(at_most_ms), now_ms),
        }
    }
}

impl Suspects {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that somebody met wrong bytes in the copy, or could not read it.
    pub fn suspect(&self, copy: CopyId) {
        let mut state = self.lock();
        let is_known = state.corrupt.contains_key(&copy) || state.unread.contains(&copy);
        if state.suspected.len() < MAX_SUSPECTS && !is_known {
            state.suspected.entry(copy).or_insert(0);
        }
    }

    /// Notes that the copy failed twice. It is reread with growing pauses.
    pub fn condemn(&self, copy: CopyId) {
        self.condemned(copy, Retry::after(AGAIN_MS, self.since.ms()));
    }

    /// Notes a copy whose bytes are as they were written, but not those that the catalog recorded. Rereading it would tell nothing.
    pub fn condemn_for_good(&self, copy: CopyId) {
        self.condemned(copy, Retry::NEVER);
    }

    fn condemned(&self, copy: CopyId, retry: Retry) {
        let now_ms = self.since.ms();
        let mut state = self.lock();
        state.suspected.remove(&copy);
        state.unread.remove(&copy);
        if let Some(before) = state.corrupt.get_mut(&copy) {
            // A failure that somebody else met before the next reading does not postpone it.
            *before = match retry.at_ms {
                u64::MAX => retry,
                _ if now_ms < before.at_ms => *before,
                _ => before.longer(AGAIN_AT_MOST_MS, now_ms),
            };
        } else if state.corrupt.len() < MAX_CORRUPT {
            state.corrupt.insert(copy, retry);
        } else if !std::mem::replace(&mut state.has_lost_count, true) {
            tracing::error!(%copy, "more than {MAX_CORRUPT} copies are corrupt: this node vouches for none any more");
        }
    }

    /// Forgets a copy that is no longer here.
    pub fn forget(&self, copy: CopyId) {
        let mut state = self.lock();
        state.suspected.remove(&copy);
        state.corrupt.remove(&copy);
        state.unread.remove(&copy);
    }

    /// Notes that the whole copy was read and matches its sidecar.
    pub fn is_whole(&self, copy: CopyId) {
        let mut state = self.lock();
        state.suspected.remove(&copy);
        state.unread.remove(&copy);
        if state.corrupt.get(&copy).is_some_and(|retry| retry.at_ms < u64::MAX) {
            state.corrupt.remove(&copy);
            tracing::warn!(%copy, "it was found corrupt before, and now it is whole");
        }
    }

    /// Found corrupt and still here: as many as are told of at once.
    pub fn corrupt(&self) -> Vec<CopyId> {
        self.lock().corrupt.keys().take(MAX_TOLD).copied().collect()
    }

    /// Whether it was found corrupt.
    pub fn is_corrupt(&self, copy: CopyId) -> bool {
        self.lock().corrupt.contains_key(&copy)
    }

    /// Whether nothing is held against it.
    pub fn is_clear(&self, copy: CopyId) -> bool {
        let state = self.lock();
        let is_held = state.corrupt.contains_key(&copy)
            || state.suspected.contains_key(&copy)
            || state.unread.contains(&copy)
            || state.folders.get(&folder_of(copy)).is_some_and(Folder::is_unread);
        !(state.has_lost_count || is_held)
    }

    /// Returns what cannot be read now.
    pub fn unread(&self) -> Unread {
        let state = self.lock();
        let folders: Vec<u8> =
            state.folders.iter().filter(|(_, folder)| folder.is_unread()).map(|(first, _)| *first).collect();
        let copies: Vec<CopyId> =
            state.unread.iter().filter(|copy| !folders.contains(&folder_of(**copy))).copied().collect();
        let is_none = copies.is_empty() && folders.is_empty();
        Unread { why: if is_none { String::new() } else { state.why.clone() }, copies, folders }
    }

    /// Schedules an early look at all copies of a folder in which something could not be listed or read: that look counts.
    pub fn look_at(&self, folder: u8, after: Duration) {
        let at_ms = self.since.ms().saturating_add(after.as_millis() as u64);
        self.lock().folder(folder, at_ms);
    }

    /// Whether something in the folder is or may be unread: then whether its next look is due.
    pub fn is_due(&self, folder: u8) -> Option<bool> {
        let now_ms = self.since.ms();
        self.lock().folders.get(&folder).map(|folder| folder.again.at_ms <= now_ms)
    }

    /// Returns a folder whose next look is due.
    pub fn due_folder(&self) -> Option<u8> {
        let now_ms = self.since.ms();
        let state = self.lock();
        let due = state.folders.iter().filter(|(_, folder)| folder.again.at_ms <= now_ms);
        due.min_by_key(|(_, folder)| folder.again.at_ms).map(|(first, _)| *first)
    }

    /// Notes that the folder could not be listed.
    pub fn folder_failed(&self, folder: u8, why: &str) {
        let now_ms = self.since.ms();
        let mut state = self.lock();
        why.clone_into(&mut state.why);
        let entry = state.folder(folder, now_ms);
        entry.failures = entry.failures.saturating_add(1);
        entry.again = entry.again.longer(FOLDER_AGAIN_AT_MOST_MS, now_ms);
    }

    /// Notes the result of opening every copy in the folder again: these fail.
    pub fn folder_looked_at(&self, folder: u8, failing: &[CopyId], why: Option<String>) {
        let now_ms = self.since.ms();
        let mut state = self.lock();
        state.unread.retain(|copy| folder_of(*copy) != folder);
        if failing.is_empty() {
            // What was wrong with one folder is often what was wrong with all, and is over for all.
            let was_unread = state.folders.remove(&folder).is_some_and(|folder| folder.has_failed());
            if was_unread {
                state
                    .folders
                    .values_mut()
                    .for_each(|other| other.again.at_ms = other.again.at_ms.min(now_ms));
            }
            return;
        }
        state.why = why.unwrap_or_default();
        let has_room = state.unread.len() + failing.len() <= MAX_UNREAD;
        let entry = state.folder(folder, now_ms);
        (entry.failures, entry.is_whole) = (0, !has_room);
        entry.again = entry.again.longer(FOLDER_AGAIN_AT_MOST_MS, now_ms);
        if has_room {
            state.unread.extend(failing);
        }
    }

    /// Returns the suspect with the fewest tries, or a corrupt copy whose next reading is due.
    fn next(&self) -> Option<CopyId> {
        let now_ms = self.since.ms();
        let state = self.lock();
        let suspect = state.suspected.iter().min_by_key(|(_, tries)| **tries).map(|(copy, _)| *copy);
        let due = || state.corrupt.iter().find(|(_, retry)| retry.at_ms <= now_ms).map(|(copy, _)| *copy);
        suspect.or_else(due)
    }

    /// Notes that the copy could not be read, which says nothing about its content. Returns whether it is called unread now.
    fn tried_in_vain(&self, copy: CopyId, why: &StoreError) -> bool {
        let now_ms = self.since.ms();
        let mut state = self.lock();
        if let Some(retry) = state.corrupt.get_mut(&copy) {
            *retry = retry.longer(AGAIN_AT_MOST_MS, now_ms);
            return false;
        }
        // The prober finds out how many others in its folder cannot be read.
        state.folder(folder_of(copy), now_ms);
        let tries = state.suspected.entry(copy).or_insert(0);
        *tries += 1;
        let is_over = *tries >= MAX_TRIES;
        if is_over {
            state.suspected.remove(&copy);
            state.why = why.to_string();
            if state.unread.len() < MAX_UNREAD {
                state.unread.insert(copy);
            } else {
                state.folder(folder_of(copy), now_ms).is_whole = true;
            }
        }
        is_over
    }

    /// Reads the next suspect and judges it. False if there was none, or if it could not be read now.
    pub fn judge_next(&self, store: &Store) -> bool {
        let Some(copy) = self.next() else { return false };
        match store.verify(copy.block, copy.generation, |_| ()) {
            Ok(Verdict::Whole) => {
                tracing::warn!(%copy, "wrong bytes were met in it, and now it is whole");
                self.is_whole(copy);
            }
            Ok(Verdict::Damaged(damage)) => {
                tracing::warn!(%copy, %damage, "corrupt");
                self.condemn(copy);
            }
            // Deleted meanwhile.
            Err(StoreError::NotFound { .. }) => self.forget(copy),
            Err(error) => {
                if self.tried_in_vain(copy, &error) {
                    tracing::warn!(%copy, %error, "it cannot be read now, and nothing is said of it");
                }
                return false;
            }
        }
        true
    }
}

impl State {
    /// Returns the folder; a new one is due for a look at once.
    fn folder(&mut self, folder: u8, now_ms: u64) -> &mut Folder {
        let again = Retry { pause_ms: FOLDER_AGAIN_MS / 2, at_ms: now_ms };
        self.folders.entry(folder).or_insert(Folder { failures: 0, is_whole: false, again })
    }
}

impl Folder {
    fn is_unread(&self) -> bool {
        self.is_whole || self.failures >= FOLDER_FAILURES
    }

    /// Whether it was looked at before, in vain.
    fn has_failed(&self) -> bool {
        self.again.pause_ms >= FOLDER_AGAIN_MS
    }
}

fn folder_of(copy: CopyId) -> u8 {
    copy.block.to_bytes()[0]
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
        assert!((1..MAX_TRIES).all(|_| !suspects.judge_next(&store) && suspects.unread().copies.is_empty()));
        assert!(!suspects.judge_next(&store) && suspects.corrupt().is_empty());
        assert_eq!(suspects.unread().copies, [COPY], "it is called unread, not condemned");
        assert!(!suspects.is_clear(COPY) && suspects.is_due(0).is_some());
        disk.starve(false);
        suspects.folder_looked_at(0, &[], None);
        assert!(suspects.is_clear(COPY) && suspects.unread() == Unread::default(), "it could be read");
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
    fn what_was_condemned_is_read_again_and_one_good_reading_clears_it() {
        let (disk, store) = store();
        let suspects = Suspects::default();
        flip(&disk);
        suspects.suspect(COPY);
        assert!(suspects.judge_next(&store) && !suspects.judge_next(&store), "not at once");
        flip(&disk);
        suspects.lock().corrupt.insert(COPY, Retry { pause_ms: AGAIN_MS, at_ms: 0 });
        assert!(suspects.judge_next(&store));
        assert!(suspects.is_clear(COPY) && suspects.corrupt().is_empty());
        suspects.condemn_for_good(COPY);
        suspects.is_whole(COPY);
        assert_eq!(suspects.corrupt(), [COPY], "it is whole, and another block than was recorded");
        assert!(!suspects.judge_next(&store));
    }

    #[test]
    fn what_others_find_damaged_before_its_next_reading_is_not_read_later() {
        let suspects = Suspects::default();
        suspects.condemn(COPY);
        let before = suspects.lock().corrupt[&COPY];
        suspects.condemn(COPY);
        assert_eq!(suspects.lock().corrupt[&COPY].at_ms, before.at_ms);
        suspects.lock().corrupt.insert(COPY, Retry { pause_ms: AGAIN_MS, at_ms: 0 });
        suspects.condemn(COPY);
        assert_eq!(suspects.lock().corrupt[&COPY].pause_ms, 2 * AGAIN_MS);
    }

    #[test]
    fn pauses_grow_to_a_bound() {
        let mut retry = Retry::after(AGAIN_MS, 0);
        let pauses: Vec<u64> = (0..12)
            .map(|_| {
                retry = retry.longer(AGAIN_AT_MOST_MS, retry.at_ms);
                retry.pause_ms
            })
            .collect();
        assert_eq!((pauses[0], pauses[11]), (2 * AGAIN_MS, AGAIN_AT_MOST_MS));
        assert!(pauses.is_sorted());
    }

    #[test]
    fn many_unread_copies_are_told_of_by_their_folders() {
        let suspects = Suspects::default();
        let copies = |first: u128, count: u128| -> Vec<CopyId> {
            (0..count).map(|n| CopyId { block: BlockId(first << 120 | n), generation: 1 }).collect()
        };
        suspects.folder_looked_at(3, &copies(3, 2), Some("a permission".to_owned()));
        assert_eq!(
            suspects.unread(),
            Unread { copies: copies(3, 2), folders: vec![], why: "a permission".to_owned() }
        );
        let many = copies(5, MAX_UNREAD as u128);
        suspects.folder_looked_at(5, &many, Some("a permission".to_owned()));
        assert_eq!((suspects.unread().copies.len(), suspects.unread().folders), (2, vec![5]));
        assert!(!suspects.is_clear(many[0]));
        suspects.folder_failed(7, "an error");
        assert!(suspects.is_clear(copies(7, 1)[0]), "once says nothing");
        suspects.folder_failed(7, "an error");
        assert_eq!(suspects.unread().folders, [5, 7]);
        for folder in [3, 5, 7] {
            suspects.folder_looked_at(folder, &[], None);
        }
        assert_eq!(suspects.unread(), Unread::default());
    }

    #[test]
    fn a_folder_that_can_be_read_again_makes_the_others_due() {
        let suspects = Suspects::default();
        (0..5).for_each(|_| (0..4).for_each(|folder| suspects.folder_failed(folder, "no permission")));
        assert_eq!(suspects.due_folder(), None, "each has its pause");
        suspects.folder_looked_at(2, &[], None);
        let due: Vec<Option<bool>> = (0..4).map(|folder| suspects.is_due(folder)).collect();
        assert_eq!(due, [Some(true), Some(true), None, Some(true)]);
    }

    #[test]
    fn suspects_are_bounded() {
        let suspects = Suspects::default();
        (0..2 * MAX_SUSPECTS as u64).for_each(|generation| suspects.suspect(CopyId { generation, ..COPY }));
        assert_eq!(suspects.lock().suspected.len(), MAX_SUSPECTS);
    }
}
