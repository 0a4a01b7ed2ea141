//! A redb file on a disk.

use super::open::{LastCommit, beside};
use crate::pages::HEADER_BYTES;
use crate::{Disk, DiskError, DiskFile, LockGuard, SyncPoint};
use redb::StorageBackend;
use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A redb database in one file of a disk, locked against a second opener while it lives.
///
/// The header is held back until the next sync, and written when everything else is: redb may write it before the
/// pages that it refers to. So [`walk_pages`](crate::walk_pages) can trust a header that it reads at any time, and a
/// process that dies between two syncs leaves its last commit.
#[derive(Debug)]
pub struct RedbBackend {
    file: Box<dyn DiskFile>,
    /// The lock beside the file, and the file itself: names can be removed, and then made again by a second opener.
    locks: Mutex<Option<[LockGuard; 2]>>,
    header: Mutex<Option<Vec<u8>>>,
    last_commit: LastCommit,
}

impl RedbBackend {
    /// The existing database file `path`.
    ///
    /// # Errors
    /// [`DiskError::AlreadyLocked`] if it is open already; those of the disk.
    pub fn open(disk: &dyn Disk, path: &Path) -> crate::Result<Self> {
        let beside = disk.lock(&beside(path, "lock"))?;
        let file = disk.open_write(path)?;
        Ok(Self::locked(file, [beside, disk.lock(path)?]))
    }

    /// A new, empty file `path`. Its name is not durable yet: [`open_database`](crate::open_database) sees to that.
    pub(super) fn create(disk: &dyn Disk, path: &Path) -> crate::Result<Self> {
        let beside = disk.lock(&beside(path, "lock"))?;
        match disk.remove(path) {
            Ok(()) | Err(DiskError::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
        let file = disk.create_new(path)?;
        Ok(Self::locked(file, [beside, disk.lock(path)?]))
    }

    fn locked(file: Box<dyn DiskFile>, locks: [LockGuard; 2]) -> Self {
        let (header, last_commit) = (Mutex::new(None), LastCommit::default());
        Self { file, locks: Mutex::new(Some(locks)), header, last_commit }
    }

    pub(super) fn last_commit(&self) -> LastCommit {
        self.last_commit.clone()
    }

    fn header(&self) -> MutexGuard<'_, Option<Vec<u8>>> {
        self.header.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StorageBackend for RedbBackend {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.len()?)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        if offset >= HEADER_BYTES as u64 {
            return Ok(self.file.read_exact_at(offset, out)?);
        }
        let header = self.header();
        self.file.read_exact_at(offset, out)?;
        let held = header.as_deref().and_then(|header| header.get(usize::try_from(offset).ok()?..));
        for (out, held) in out.iter_mut().zip(held.unwrap_or_default()) {
            *out = *held;
        }
        Ok(())
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        Ok(self.file.set_len(bytes)?)
    }

    fn sync_data(&self) -> io::Result<()> {
        let held = {
            let mut header = self.header();
            if let Some(bytes) = header.as_deref() {
                self.file.write_at(0, bytes)?;
            }
            header.take()
        };
        self.file.sync(SyncPoint::Catalog)?;
        if let Some(header) = held {
            self.last_commit.note(&header);
        }
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if offset == 0 && bytes.len() == HEADER_BYTES {
            *self.header() = Some(bytes.to_vec());
            return Ok(());
        }
        Ok(self.file.write_at(offset, bytes)?)
    }

    fn close(&self) -> io::Result<()> {
        self.locks.lock().unwrap_or_else(PoisonError::into_inner).take();
        Ok(())
    }
}
