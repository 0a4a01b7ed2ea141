//! The native block store: blocks are plain files that `cp`, `cmp` and `b3sum` understand.
//!
//! ```text
//!   <folder>/identity                 whose store it is
//!            lock                     held while a process uses it
//!            tmp/                     files without a final name; emptied on opening
//!            blocks/3f/3f…9c          a block's bytes (the folder is the id's first two digits)
//!            blocks/3f/3f…9c.meta     its sidecar: who it is; checksum and fingerprint of every chunk
//! ```
//!
//! What holds, whatever happens:
//! - a block exists if both names do; either alone is no copy: it is counted, told and kept;
//! - both names exist only after the contents of both are durable, and both belong to the same write;
//! - after [`BlockWriter::finish`] returned, the block survives a power cut; before, it exists whole or not at all.
//!
//! All calls block; async callers run them where blocking is allowed.

mod error;
mod identity;
mod inventory;
mod meta;
mod names;
mod reader;
mod scrub;
mod sidecar;
mod temp;
mod writer;

#[cfg(test)]
mod tests;

pub use error::{Damage, Result, StoreError};
pub use identity::Identity;
pub use inventory::Usage;
pub use meta::{BlockMeta, NewBlock};
pub use reader::BlockReader;
pub use scrub::Verdict;
pub use sidecar::{ChunkEntry, ENTRY_BYTES, MAX_META_BYTES, chunks_of};
pub use writer::{BlockWriter, Staged};

use disk::{Disk, DiskError, LockGuard, SyncPoint};
use model::{BlockId, ClusterId, NodeId};
use names::{BLOCKS, Names, folder_path};
use std::path::Path;
use std::sync::atomic::AtomicU64;
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
    /// Names the next temporary file.
    temps: AtomicU64,
    _lock: LockGuard,
}

impl Store {
    /// Makes an empty store for `node`, durable on return. A format that a power cut interrupted can be repeated.
    /// [`StoreError::AlreadyFormatted`] if there is one, or if blocks are there whose store lost its identity.
    pub fn format(disk: &Arc<dyn Disk>, node: NodeId) -> Result<()> {
        let _lock = lock(disk.as_ref())?;
        match Identity::load(disk.as_ref()) {
            Err(StoreError::NotFormatted) => {}
            Ok(_) | Err(StoreError::BadIdentity { .. }) => return Err(StoreError::AlreadyFormatted),
            Err(error) => return Err(error),
        }
        make_folder(disk.as_ref(), Path::new(temp::FOLDER))?;
        make_folder(disk.as_ref(), Path::new(BLOCKS))?;
        for first_byte in 0..=u8::MAX {
            let folder = folder_path(first_byte);
            make_folder(disk.as_ref(), &folder)?;
            if !disk.list(&folder)?.is_empty() {
                return Err(StoreError::AlreadyFormatted);
            }
        }
        disk.sync_folder(Path::new(BLOCKS), SyncPoint::FormatFolders)?;
        disk.sync_folder(Path::new(""), SyncPoint::FormatFolders)?;
        Identity { node, cluster: None }.save(disk.as_ref())
    }

    /// Opens the store of `node`, removes temporary files that a crash left, and makes durable what is there.
    ///
    /// Errors: [`StoreError::NotFormatted`], [`StoreError::WrongNode`], [`StoreError::BadIdentity`],
    /// [`StoreError::InUse`], [`StoreError::UnknownVersion`].
    pub fn open(disk: Arc<dyn Disk>, node: NodeId) -> Result<Self> {
        // Before the lock: a folder that is no store is not touched.
        Identity::load(disk.as_ref())?;
        let lock = lock(disk.as_ref())?;
        let identity = Identity::load(disk.as_ref())?;
        if identity.node != node {
            return Err(StoreError::WrongNode { expected: node, found: identity.node });
        }
        // The process that made the name may have died before it synced it.
        disk.sync_folder(Path::new(""), SyncPoint::FormatFolder)?;
        for entry in disk.list(Path::new(temp::FOLDER))? {
            disk.remove(&Path::new(temp::FOLDER).join(entry.name))?;
        }
        let names = Names::load(disk.as_ref())?;
        let folder =
            Folder { disk, names, identity: Mutex::new(identity), temps: AtomicU64::new(0), _lock: lock };
        Ok(Self { folder: Arc::new(folder) })
    }

    /// Whose store it is.
    pub fn identity(&self) -> Identity {
        *self.folder.identity.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records, durably and for good, that the store belongs to `cluster`; nothing happens if it does already.
    /// [`StoreError::WrongCluster`] if it belongs to another.
    pub fn join(&self, cluster: ClusterId) -> Result<()> {
        let mut identity = self.folder.identity.lock().unwrap_or_else(PoisonError::into_inner);
        match identity.cluster {
            Some(found) if found != cluster => Err(StoreError::WrongCluster { expected: cluster, found }),
            Some(_) => Ok(()),
            None => {
                let joined = Identity { cluster: Some(cluster), ..*identity };
                joined.save(self.folder.disk.as_ref())?;
                *identity = joined;
                Ok(())
            }
        }
    }

    /// Begins to write a block. Nothing of it has a final name before [`BlockWriter::finish`].
    pub fn writer(&self, block: BlockId, generation: u64) -> Result<BlockWriter> {
        BlockWriter::begin(&self.folder, block, generation)
    }

    /// Opens a block for reading. The reader sees the same bytes even if the block is deleted or replaced meanwhile.
    ///
    /// Errors: [`StoreError::NotFound`]; [`StoreError::Corrupt`] if its sidecar or length is wrong.
    pub fn reader(&self, block: BlockId) -> Result<BlockReader> {
        BlockReader::open(&self.folder, block)
    }

    /// Whether the block is here (not whether it is intact).
    pub fn contains(&self, block: BlockId) -> Result<bool> {
        self.folder.names.contains(self.folder.disk.as_ref(), block)
    }

    /// Removes a copy of a block, durably on return; false if there is none of exactly that generation here.
    ///
    /// Errors: whatever keeps the store from knowing which copy it has; nothing is removed then.
    pub fn delete(&self, block: BlockId, generation: u64) -> Result<bool> {
        self.folder.names.delete(self.folder.disk.as_ref(), block, generation)
    }

    /// Bytes that can still be written, as the disk says.
    pub fn free_bytes(&self) -> Result<u64> {
        Ok(self.folder.disk.free_bytes()?)
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
