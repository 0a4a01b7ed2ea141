//! The native block store: blocks are plain files that `cp`, `cmp` and `b3sum` understand.
//!
//! ```text
//!   <folder>/identity                   whose store it is, which one, and its starts
//!            identity.spare             a block of the disk for the next identity, in case the disk is full
//!            lock                       held while a process uses it
//!            tmp/                       files without a final name; created or emptied on opening
//!            blocks/3f/3f…9c.2          the bytes of generation 2 of a block (the folder is the id's first two digits)
//!            blocks/3f/3f…9c.2.meta     its sidecar: who it is; checksum and fingerprint of every chunk
//!            records/                   what it keeps of the catalog, if a coordinator wants it to: a snapshot, and records
//! ```
//!
//! What holds, whatever happens:
//! - a copy exists if both names do; either alone is no copy: it is counted, told and kept;
//! - both names exist only after the contents of both are durable, and both belong to the same write;
//! - a new copy of a block lies beside the old ones: nothing is ever replaced in place;
//! - after [`BlockWriter::finish`] returned, the copy survives a power cut; before, it exists whole or not at all;
//! - inventories and deletions use names alone: they open no file;
//! - reading needs no writing: a store on a disk that takes no writes opens, and its copies can be read.
//!
//! All calls block; async callers run them where blocking is allowed.

mod error;
mod heard;
mod identity;
mod inventory;
mod meta;
mod migrate;
mod names;
mod reader;
mod records;
mod room;
mod salvage;
mod scrub;
mod sidecar;
mod starts;
mod tally;
mod temp;
mod trial;
mod writer;

#[cfg(test)]
mod tests;

pub use error::{Damage, Result, StoreError};
pub use identity::Identity;
pub use inventory::{Listing, Unjudged, Usage};
pub use meta::{BlockMeta, NewBlock};
pub use names::CopyId;
pub use reader::BlockReader;
pub use records::{Held, HeldReader, MAX_RECORD_BYTES, PIECE_BYTES, RecordsWriter, SnapshotWriter};
pub use room::RESERVE_BYTES;
pub use salvage::Salvaged;
pub use scrub::Verdict;
pub use sidecar::{ChunkEntry, ENTRY_BYTES, MAX_META_BYTES, chunks_of};
pub use writer::{BlockWriter, Staged};

use disk::{Disk, DiskError, LockGuard, SyncPoint};
use identity::Loaded;
use model::{BlockId, Incarnation, NodeId, Stamp, StoreId, Traffic};
use names::{BLOCKS, Names, folder_path};
use records::Records;
use room::Room;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, PoisonError};

/// BLAKE3 of a block's bytes.
pub type Digest = [u8; 32];

const LOCK_FILE: &str = "lock";

/// A node's blocks in one folder. Clones share it; it is unlocked when the last of them, and of its readers and
/// writers, is gone.
#[derive(Clone, Debug)]
pub struct Store {
    folder: Arc<Folder>,
}

#[derive(Debug)]
struct Folder {
    disk: Arc<dyn Disk>,
    names: Names,
    identity: Mutex<Identity>,
    /// Whether the identity on disk is out of date because the disk took no writes.
    is_unnoted: AtomicBool,
    /// Whether names that an earlier process made may not be durable, because the disk refused a sync during opening.
    is_unsynced: bool,
    /// Why the disk took no writes at the last try.
    refusal: Mutex<Option<String>>,
    /// Of this start.
    incarnation: Incarnation,
    /// The last change of the catalog that was heard of; what is noted of it is in the identity.
    heard: Mutex<Stamp>,
    room: Arc<Room>,
    /// What is kept of the catalog.
    records: Records,
    /// Names the next temporary file.
    temps: AtomicU64,
    /// Temporary files that could not be removed.
    left: Mutex<VecDeque<PathBuf>>,
    _lock: LockGuard,
}

impl Store {
    /// Makes an empty store for `node`, durable on return. A format that a power cut interrupted can be repeated.
    /// [`StoreError::AlreadyFormatted`] if there is one, or if blocks are there whose store lost its identity.
    pub fn format(disk: &Arc<dyn Disk>, node: NodeId) -> Result<()> {
        let _lock = lock(disk.as_ref())?;
        match Identity::load(disk.as_ref()) {
            Err(StoreError::NotFormatted) => {}
            Ok(_) | Err(StoreError::BadIdentity { .. } | StoreError::UnknownStore { .. }) => {
                return Err(StoreError::AlreadyFormatted);
            }
            Err(error) => return Err(error),
        }
        names::must_be_empty(disk.as_ref())?;
        make_folder(disk.as_ref(), Path::new(temp::FOLDER))?;
        make_folder(disk.as_ref(), Path::new(BLOCKS))?;
        for first_byte in 0..=u8::MAX {
            make_folder(disk.as_ref(), &folder_path(first_byte))?;
        }
        disk.sync_folder(Path::new(BLOCKS), SyncPoint::FormatFolders)?;
        disk.sync_folder(Path::new(""), SyncPoint::FormatFolders)?;
        Identity::new(node, StoreId(rand::random())).save(disk.as_ref())
    }

    /// Opens the store of `node`, removes temporary files that a crash left, and makes durable what is there. A store of an
    /// older version becomes one of this version. This start of it has a word of its own from here on. A disk that takes no
    /// writes keeps no store of this version from being opened and read.
    ///
    /// `reserve_bytes` of the disk are never given to blocks.
    ///
    /// Errors: [`StoreError::NotFormatted`], [`StoreError::WrongNode`], [`StoreError::BadIdentity`],
    /// [`StoreError::UnknownStore`], [`StoreError::InUse`].
    pub fn open(disk: Arc<dyn Disk>, node: NodeId, reserve_bytes: u64) -> Result<Self> {
        // Before the lock: a folder that is no store is not touched.
        Identity::load(disk.as_ref())?;
        let lock = lock(disk.as_ref())?;
        let loaded = Identity::load(disk.as_ref())?;
        let found = loaded.node();
        if found != node {
            return Err(StoreError::WrongNode { expected: node, found });
        }
        // The process that made the name may have died before it synced it.
        let root = unless_refused(disk.sync_folder(Path::new(""), SyncPoint::FormatFolder))?;
        temp::make_or_empty(disk.as_ref());
        let identity = match loaded {
            Loaded::Current(identity) => identity,
            Loaded::Version1 { node, cluster } => {
                migrate::name_generations(disk.as_ref())?;
                let identity = Identity { cluster, ..Identity::new(node, StoreId(rand::random())) };
                identity.save(disk.as_ref())?;
                identity
            }
        };
        identity::keep_spare(disk.as_ref());
        let (names, synced) = Names::load(disk.as_ref())?;
        let records = Records::load(disk.as_ref(), identity.cluster);
        let folder = Folder {
            disk,
            names,
            records,
            heard: Mutex::new(identity.heard),
            identity: Mutex::new(identity),
            is_unnoted: AtomicBool::new(false),
            is_unsynced: !(root && synced),
            refusal: Mutex::default(),
            incarnation: Incarnation(rand::random()),
            room: Arc::new(Room::new(reserve_bytes)),
            temps: AtomicU64::new(0),
            left: Mutex::default(),
            _lock: lock,
        };
        Ok(Self { folder: Arc::new(folder) })
    }

    /// Begins to write a copy of `stored_bytes`. Nothing of it has a final name before [`BlockWriter::finish`].
    ///
    /// Errors: [`StoreError::NoRoom`], [`StoreError::TakesNoWrites`], the disk's.
    pub fn writer(&self, block: BlockId, generation: u64, stored_bytes: u64) -> Result<BlockWriter> {
        self.writer_for(Traffic::default(), block, generation, stored_bytes)
    }

    /// Opens a writer for this kind of traffic. Archival may use half of the reserve.
    ///
    /// Errors: as [`writer`](Self::writer).
    pub fn writer_for(
        &self,
        traffic: Traffic,
        block: BlockId,
        generation: u64,
        stored_bytes: u64,
    ) -> Result<BlockWriter> {
        BlockWriter::begin(&self.folder, CopyId { block, generation }, stored_bytes, traffic)
    }

    /// Opens a copy for reading. The reader sees the same bytes even if the copy is deleted meanwhile.
    ///
    /// Errors: [`StoreError::NotFound`]; [`StoreError::Corrupt`] if its sidecar or length is wrong;
    /// [`StoreError::UnknownVersion`].
    pub fn reader(&self, block: BlockId, generation: u64) -> Result<BlockReader> {
        BlockReader::open(&self.folder, CopyId { block, generation })
    }

    /// Whether both files of the copy are here (not whether they are intact).
    pub fn contains(&self, block: BlockId, generation: u64) -> Result<bool> {
        self.folder.names.contains(self.folder.disk.as_ref(), CopyId { block, generation })
    }

    /// Whether neither file of the copy is here, as its folder's list says.
    ///
    /// Errors: the disk's; a folder that cannot be listed says nothing of what is in it.
    pub fn is_absent(&self, block: BlockId, generation: u64) -> Result<bool> {
        self.folder.names.is_absent(self.folder.disk.as_ref(), CopyId { block, generation })
    }

    /// When a copy was noted of which only the sidecar is here; `None` if that is not so.
    ///
    /// Errors: the disk's, and those of a sidecar that cannot be read.
    pub fn birth_of_half(&self, block: BlockId, generation: u64) -> Result<Option<Stamp>> {
        self.folder.names.birth_of_half(self.folder.disk.as_ref(), CopyId { block, generation })
    }

    /// Removes exactly this copy, durably on return, and no other of the block; false if nothing of it was here. It goes by
    /// names and opens nothing, so a damaged copy can go.
    ///
    /// Errors: the disk's. Nothing more is removed then, and the order can be repeated.
    pub fn delete(&self, block: BlockId, generation: u64) -> Result<bool> {
        self.folder.names.delete(self.folder.disk.as_ref(), CopyId { block, generation })
    }

    /// Returns the bytes that blocks can still take: the disk's free bytes minus the reserve and pending writes. Returns 0 if the disk takes no
    /// writes.
    pub fn free_bytes(&self) -> Result<u64> {
        self.free_bytes_for(Traffic::default())
    }

    /// Returns the free bytes for blocks of this kind of traffic.
    pub fn free_bytes_for(&self, traffic: Traffic) -> Result<u64> {
        match self.refusal() {
            Some(_) => Ok(0),
            None => self.folder.room.free_bytes(self.folder.disk.as_ref(), traffic),
        }
    }

    /// Returns why the disk took no writes at the last try; `None` if it took them. Its contents can be read in either case.
    pub fn refusal(&self) -> Option<String> {
        self.folder.refusal.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether the names of all copies are known to be durable, so that other copies may be deleted because of them.
    pub fn vouches(&self) -> bool {
        !self.folder.is_unsynced
    }
}

/// Returns whether the sync was made. A disk that takes no writes refuses it.
fn unless_refused(synced: disk::Result<()>) -> Result<bool> {
    match synced {
        Ok(()) => Ok(true),
        Err(error) if error.refuses_writes() => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn lock(disk: &dyn Disk) -> Result<LockGuard> {
    disk.lock(Path::new(LOCK_FILE)).map_err(|error| match error {
        DiskError::AlreadyLocked { .. } => StoreError::InUse,
        other => other.into(),
    })
}

fn make_folder(disk: &dyn Disk, path: &Path) -> Result<()> {
    match disk.create_folder(path) {
        Ok(()) | Err(DiskError::AlreadyExists { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
