//! What a store keeps of the catalog for a coordinator: a snapshot, and the records that follow it (HEALING.md, "Terms,
//! records, holders"). Numbers are little-endian.
//!
//! ```text
//!   records/0000000000000003.snapshot   "SLholder" (8) │ version (2) │ cluster (16) │ term, its word, change, hash (56) │
//!                                       the snapshot … │ BLAKE3 of all the above (32)
//!   records/0000000000000003.records    for each record: its length (8) │ CRC-32C of it (4) │ the record
//! ```
//!
//! What holds, whatever happens:
//! - the whole snapshot with the highest number counts, with the records of the same number. An older pair goes once a
//!   newer snapshot is durable under its final name, and only if it was read and found whole;
//! - what is no whole snapshot of a version known here is not used, and kept: absence is no proof;
//! - each record names the hash of the one before. Behind the first that does not is a torn tail, which the next append
//!   overwrites;
//! - what is said to be held is durable. After a failed write or sync it is read again before anything is said.
//!
//! The reserve of the disk is not kept free of these files: what waits for them may be an order that makes room.

mod frames;
mod read;
mod snapshot;

pub use frames::{MAX_RECORD_BYTES, RecordsWriter};
pub use read::{HeldReader, PIECE_BYTES};
pub use snapshot::SnapshotWriter;

use super::names::remove_if_there;
use super::{Folder, Result, Store, StoreError, make_folder, unless_refused};
use disk::{Disk, SyncPoint};
use model::{ClusterId, Position};
use snapshot::Judged;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const FOLDER: &str = "records";
const SNAPSHOT_SUFFIX: &str = ".snapshot";
const RECORDS_SUFFIX: &str = ".records";

/// Digits of a file's number.
const DIGITS: usize = 16;

/// What is held, durably.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Held {
    /// How far the snapshot has come.
    pub snapshot: Position,
    /// How far the records have that follow it.
    pub last: Position,
    /// Length of the snapshot.
    pub snapshot_bytes: u64,
    /// Length of the records together.
    pub record_bytes: u64,
}

/// The pair of files that counts.
#[derive(Clone, Copy, Debug)]
struct Counting {
    number: u64,
    held: Held,
    /// Where the records end in their file: what lies behind is a torn tail.
    end: u64,
    /// Whether the file of records has a durable name.
    is_named: bool,
}

#[derive(Clone, Copy, Debug)]
enum Known {
    Yes(Option<Counting>),
    /// Something failed. When it is read again, no more counts of the file of records of that number than so many bytes:
    /// what a disk failed to sync may be read back from memory, and be gone after a power cut.
    No {
        durable: Option<(u64, u64)>,
    },
}

/// What is known of the folder.
#[derive(Debug)]
pub(super) struct Records(Mutex<State>);

#[derive(Debug)]
struct State {
    known: Known,
    /// Whether somebody is writing.
    is_taken: bool,
}

impl Records {
    /// Reads what is there. A folder that cannot be read now keeps no store from opening.
    pub(super) fn load(disk: &dyn Disk, cluster: Option<ClusterId>) -> Records {
        let known = match load(disk, cluster, None) {
            Ok(counting) => Known::Yes(counting),
            Err(error) => {
                tracing::warn!(%error, "what is held of the catalog cannot be read");
                Known::No { durable: None }
            }
        };
        Records(Mutex::new(State { known, is_taken: false }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right to write, which one has at a time.
#[derive(Debug)]
struct Turn {
    folder: Arc<Folder>,
}

impl Turn {
    fn take(folder: &Arc<Folder>) -> Result<Turn> {
        let mut state = folder.records.state();
        if state.is_taken {
            return Err(StoreError::HoldBusy);
        }
        state.is_taken = true;
        Ok(Turn { folder: Arc::clone(folder) })
    }

    fn disk(&self) -> &dyn Disk {
        self.folder.disk.as_ref()
    }

    /// What counts, read again if something failed.
    fn known(&self) -> Result<Option<Counting>> {
        let durable = match self.folder.records.state().known {
            Known::Yes(counting) => return Ok(counting),
            Known::No { durable } => durable,
        };
        let cluster = self.folder.identity.lock().unwrap_or_else(PoisonError::into_inner).cluster;
        let counting = load(self.disk(), cluster, durable)?;
        self.counts(counting);
        Ok(counting)
    }

    fn counts(&self, counting: Option<Counting>) {
        self.folder.records.state().known = Known::Yes(counting);
    }

    /// What is held has to be read again; what was durable before is so still.
    fn doubt(&self) {
        let known = &mut self.folder.records.state().known;
        if let Known::Yes(counting) = *known {
            *known = Known::No { durable: counting.map(|counting| (counting.number, counting.end)) };
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.folder.records.state().is_taken = false;
    }
}

impl Store {
    /// What is held of the catalog, durably; nothing as long as that is not known after a failure. No disk access.
    pub fn held(&self) -> Option<Held> {
        match self.folder.records.state().known {
            Known::Yes(counting) => counting.map(|counting| counting.held).filter(|_| self.vouches()),
            Known::No { .. } => None,
        }
    }

    /// Begins to take a snapshot of the catalog of `cluster`, which has come as far as `at`. What is held stays until
    /// [`SnapshotWriter::finish`].
    ///
    /// Errors: [`StoreError::HoldBusy`], the disk's.
    pub fn hold_snapshot(&self, cluster: ClusterId, at: Position) -> Result<SnapshotWriter> {
        self.folder.must_be_noted()?;
        let turn = Turn::take(&self.folder)?;
        make_folder(turn.disk(), Path::new(FOLDER))?;
        turn.disk().sync_folder(Path::new(""), SyncPoint::HeldFolder)?;
        SnapshotWriter::begin(turn, cluster, at)
    }

    /// Begins to take records that follow `at`; `None` if what is held ends elsewhere, or nothing is.
    ///
    /// Errors: [`StoreError::HoldBusy`], the disk's.
    pub fn hold_records(&self, at: Position) -> Result<Option<RecordsWriter>> {
        self.folder.must_be_noted()?;
        let turn = Turn::take(&self.folder)?;
        let counting = turn.known()?.filter(|counting| counting.held.last == at);
        Ok(counting.map(|counting| RecordsWriter::begin(turn, counting)))
    }

    /// Opens what is held; whoever reads it sees the same though more is held meanwhile.
    ///
    /// Errors: [`StoreError::HoldBusy`] if it has to be read again after a failure and somebody is writing; the disk's.
    pub fn read_held(&self) -> Result<Option<HeldReader>> {
        let known = self.folder.records.state().known;
        if let Known::No { .. } = known {
            Turn::take(&self.folder)?.known()?;
        }
        // Under the lock: the files of what counts are there as long as it does.
        let state = self.folder.records.state();
        match state.known {
            Known::Yes(Some(counting)) => HeldReader::open(self.folder.disk.as_ref(), &counting).map(Some),
            _ => Ok(None),
        }
    }
}

fn snapshot_path(number: u64) -> PathBuf {
    Path::new(FOLDER).join(format!("{number:016x}{SNAPSHOT_SUFFIX}"))
}

fn records_path(number: u64) -> PathBuf {
    Path::new(FOLDER).join(format!("{number:016x}{RECORDS_SUFFIX}"))
}

/// The numbers in the folder, each of a snapshot (true) or of records.
fn numbers(disk: &dyn Disk) -> Result<BTreeSet<(u64, bool)>> {
    let mut numbers = BTreeSet::new();
    for entry in disk.list(Path::new(FOLDER))? {
        let (digits, is_snapshot) = match entry.name.strip_suffix(SNAPSHOT_SUFFIX) {
            Some(digits) => (digits, true),
            None => (entry.name.strip_suffix(RECORDS_SUFFIX).unwrap_or_default(), false),
        };
        let is_ours =
            digits.len() == DIGITS && digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        match u64::from_str_radix(digits, 16).ok().filter(|_| is_ours && !entry.is_folder) {
            Some(number) => _ = numbers.insert((number, is_snapshot)),
            None => {
                tracing::warn!(name = entry.name, "a strange file lies among what is held of the catalog")
            }
        }
    }
    Ok(numbers)
}

/// Above all that are there, whole or not.
fn next_number(disk: &dyn Disk) -> Result<u64> {
    let last = numbers(disk)?.last().map_or(0, |(number, _)| *number);
    last.checked_add(1).ok_or(StoreError::HeldDamaged { why: "no number is left for a snapshot" })
}

/// What counts in the folder, made durable; older pairs that are whole go.
fn load(
    disk: &dyn Disk,
    cluster: Option<ClusterId>,
    durable: Option<(u64, u64)>,
) -> Result<Option<Counting>> {
    if !disk.exists(Path::new(FOLDER))? {
        return Ok(None);
    }
    // Names that an earlier process made may not be durable if it died without a power cut. If the disk refuses to sync them, the store can be
    // read but claims to hold nothing.
    unless_refused(disk.sync_folder(Path::new(FOLDER), SyncPoint::HeldFolder))?;
    let mut counting = None;
    for (number, is_snapshot) in numbers(disk)?.into_iter().rev() {
        if !is_snapshot {
            continue;
        }
        match snapshot::judge(disk, number, cluster)? {
            Judged::Whole { .. } if counting.is_some() => remove_pair(disk, number),
            Judged::Whole { at, bytes } => {
                let durable = durable.filter(|(of, _)| *of == number).map(|(_, end)| end);
                counting = Some(frames::follow(disk, number, at, bytes, durable)?);
            }
            Judged::Unusable(why) => {
                tracing::warn!(number, why, "a snapshot of the catalog cannot be used, and is kept");
            }
        }
    }
    Ok(counting)
}

/// Removes an older pair: the records first, and durably, for alone they are worth nothing and nobody could judge them.
fn remove_pair(disk: &dyn Disk, number: u64) {
    let remove = || -> Result<()> {
        remove_if_there(disk, &records_path(number))?;
        disk.sync_folder(Path::new(FOLDER), SyncPoint::HeldFolder)?;
        remove_if_there(disk, &snapshot_path(number))?;
        Ok(())
    };
    if let Err(error) = remove() {
        // The next opening of the store finds it again.
        tracing::warn!(number, %error, "an older snapshot of the catalog stays");
    }
}
