//! The embedded catalog's storage: redb over a [`Disk`], so that its writes are cut and counted like all others.

use crate::{Disk, DiskError, DiskFile, LockGuard, SyncPoint};
use redb::{Database, DatabaseError, StorageBackend};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// A redb database in one file of a disk, locked against a second opener while it lives.
#[derive(Debug)]
pub struct RedbBackend {
    file: Box<dyn DiskFile>,
    lock: Mutex<Option<LockGuard>>,
}

impl RedbBackend {
    /// The existing database file `path`.
    pub fn open(disk: &dyn Disk, path: &Path) -> crate::Result<Self> {
        let lock = Mutex::new(Some(disk.lock(&beside(path, "lock"))?));
        Ok(Self { file: disk.open_write(path)?, lock })
    }

    /// A new, empty file `path`. Its name is not durable yet: [`open_database`] sees to that.
    fn create(disk: &dyn Disk, path: &Path) -> crate::Result<Self> {
        let lock = Mutex::new(Some(disk.lock(&beside(path, "lock"))?));
        match disk.remove(path) {
            Ok(()) | Err(DiskError::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
        Ok(Self { file: disk.create_new(path)?, lock })
    }
}

/// Opens the database in `path`, or makes an empty one there. A new one is made under another name, synced and
/// renamed, so that a power cut never leaves half a database under `path`.
///
/// Errors: [`DatabaseError::DatabaseAlreadyOpen`] if another holds it; the disk's own wrapped as `std::io` errors.
pub fn open_database(disk: &Arc<dyn Disk>, path: &Path) -> Result<Database, DatabaseError> {
    if !disk.exists(path).map_err(database_error)? {
        let fresh = beside(path, "new");
        let backend = RedbBackend::create(disk.as_ref(), &fresh).map_err(database_error)?;
        drop(Database::builder().create_with_backend(backend)?);
        disk.rename(&fresh, path).map_err(database_error)?;
    }
    // The folder is synced even if the name was there: an earlier process may have died between renaming and syncing.
    let folder = path.parent().unwrap_or(Path::new(""));
    disk.sync_folder(folder, SyncPoint::CatalogFolder).map_err(database_error)?;
    let backend = RedbBackend::open(disk.as_ref(), path).map_err(database_error)?;
    Database::builder().create_with_backend(backend)
}

fn database_error(error: DiskError) -> DatabaseError {
    match error {
        DiskError::AlreadyLocked { .. } => DatabaseError::DatabaseAlreadyOpen,
        other => DatabaseError::Storage(redb::StorageError::Io(other.into())),
    }
}

/// `<path>.<suffix>`.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    name.into()
}

impl StorageBackend for RedbBackend {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.len()?)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        Ok(self.file.read_exact_at(offset, out)?)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        Ok(self.file.set_len(bytes)?)
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(self.file.sync(SyncPoint::Catalog)?)
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        Ok(self.file.write_at(offset, bytes)?)
    }

    fn close(&self) -> io::Result<()> {
        self.lock.lock().unwrap_or_else(PoisonError::into_inner).take();
        Ok(())
    }
}
