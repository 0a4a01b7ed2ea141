//! How much the disk can still take: what does not fit is refused before it is sent.

use super::sidecar::{ENTRY_BYTES, chunks_of};
use super::{Result, StoreError};
use disk::Disk;
use model::{BlockId, Traffic};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of a disk that are never given to blocks, unless an operator says otherwise: file systems slow down and fragment
/// when they are nearly full, a store must always be able to write its identity and to remove files, and whoever cleans up
/// needs room to work. Two percent of the smallest disk that one would use, and nothing on a large one.
pub const RESERVE_BYTES: u64 = 256 << 20;

/// Bytes of a sidecar before its entries, for all but the largest notes.
const SIDECAR_HEAD_BYTES: u64 = 4096;

/// The reserve, and what open writers will still write.
#[derive(Debug)]
pub(super) struct Room {
    reserve_bytes: u64,
    taken_bytes: Mutex<u64>,
}

/// Room that a writer has; what it did not use is free again when it is dropped.
#[derive(Debug)]
pub(super) struct Taken {
    room: Arc<Room>,
    left_bytes: u64,
}

impl Room {
    /// Of a disk of which so many bytes stay free.
    pub(super) fn new(reserve_bytes: u64) -> Room {
        Room { reserve_bytes, taken_bytes: Mutex::default() }
    }

    fn taken(&self) -> MutexGuard<'_, u64> {
        self.taken_bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn free_bytes(&self, disk: &dyn Disk, traffic: Traffic) -> Result<u64> {
        self.left(disk, *self.taken(), traffic)
    }

    /// An archival frees more than it takes, but takes it first: half of the reserve is open to it.
    fn left(&self, disk: &dyn Disk, taken: u64, traffic: Traffic) -> Result<u64> {
        let reserve_bytes = match traffic {
            Traffic::Archival => self.reserve_bytes / 2,
            Traffic::Client | Traffic::Healing => self.reserve_bytes,
        };
        Ok(disk.free_bytes()?.saturating_sub(reserve_bytes).saturating_sub(taken))
    }

    /// Room for a block of so many bytes and its sidecar; [`StoreError::NoRoom`] if there is none.
    pub(super) fn take(
        room: &Arc<Room>,
        disk: &dyn Disk,
        (block, stored_bytes): (BlockId, u64),
        traffic: Traffic,
    ) -> Result<Taken> {
        let entries = chunks_of(stored_bytes).saturating_mul(ENTRY_BYTES as u64);
        let wanted_bytes = stored_bytes.saturating_add(entries).saturating_add(SIDECAR_HEAD_BYTES);
        // Held while the disk is asked, so that two writers do not take the same room.
        let mut taken = room.taken();
        let free_bytes = room.left(disk, *taken, traffic)?;
        if wanted_bytes > free_bytes {
            return Err(StoreError::NoRoom { block, wanted_bytes, free_bytes });
        }
        *taken += wanted_bytes;
        Ok(Taken { room: Arc::clone(room), left_bytes: wanted_bytes })
    }
}

impl Taken {
    /// So many bytes are on the disk now, which counts them itself.
    pub(super) fn written(&mut self, bytes: u64) {
        let used = bytes.min(self.left_bytes);
        self.left_bytes -= used;
        let mut taken = self.room.taken();
        *taken = taken.saturating_sub(used);
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.written(self.left_bytes);
    }
}
