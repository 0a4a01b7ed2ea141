//! Opening and making databases.

use super::backend::RedbBackend;
use crate::pages::Header;
use crate::{Disk, DiskError, SyncPoint};
use redb::{Database, DatabaseError, StorageError};
use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// An open database, and what its opening found.
#[derive(Debug)]
pub struct Opened {
    /// The database.
    pub database: Database,
    /// Whether redb's repair gave up the newest commit and went back to the one before it. A power cut during a commit
    /// does that, to a commit that was not acknowledged; without one, acknowledged changes are lost.
    pub rolled_back: bool,
    /// Follows the commits of `database`.
    pub last_commit: LastCommit,
}

/// The last commit that a database made durable, by what its process told the disk. A disk that loses a write of the
/// header shows an older one: then [`PageReport::transaction`](crate::PageReport::transaction) is less than
/// [`transaction`](Self::transaction) was before the walk.
#[derive(Clone, Debug, Default)]
pub struct LastCommit(Arc<AtomicU64>);

impl LastCommit {
    /// The transaction, as redb counts them.
    pub fn transaction(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// Notes a header that is durable now.
    pub(super) fn note(&self, header: &[u8]) {
        if let Some(transaction) = Header::decode(header, 0).transaction() {
            self.0.store(transaction, Ordering::Release);
        }
    }
}

/// Opens the database in `path`, or makes an empty one there. A new one is made under another name, synced and
/// renamed, so that a power cut never leaves half a database under `path`.
///
/// # Errors
/// As [`open_database_noting`].
pub fn open_database(disk: &Arc<dyn Disk>, path: &Path) -> Result<Database, DatabaseError> {
    Ok(open_database_noting(disk, path)?.database)
}

/// Opens the database in `path` as [`open_database`] does, and tells whether its newest commit was given up.
///
/// # Errors
/// [`DatabaseError::DatabaseAlreadyOpen`] if another holds it; [`StorageError::Corrupted`] if redb refuses the file or
/// panics over it; the disk's own wrapped as `std::io` errors.
pub fn open_database_noting(disk: &Arc<dyn Disk>, path: &Path) -> Result<Opened, DatabaseError> {
    if !disk.exists(path).map_err(database_error)? {
        let fresh = beside(path, "new");
        let backend = RedbBackend::create(disk.as_ref(), &fresh).map_err(database_error)?;
        caught(|| Database::builder().create_with_backend(backend).map(drop))?;
        disk.rename(&fresh, path).map_err(database_error)?;
    }
    // The folder is synced even if the name was there: an earlier process may have died between renaming and syncing.
    let folder = path.parent().unwrap_or(Path::new(""));
    disk.sync_folder(folder, SyncPoint::CatalogFolder).map_err(database_error)?;
    let backend = RedbBackend::open(disk.as_ref(), path).map_err(database_error)?;
    let last_commit = backend.last_commit();
    let before = read_header(disk.as_ref(), path)?;
    let was_repaired = Rc::new(Cell::new(false));
    let repairing = Rc::clone(&was_repaired);
    let database = caught(|| {
        let mut builder = Database::builder();
        builder.set_repair_callback(move |_| repairing.set(true));
        builder.create_with_backend(backend)
    })?;
    let after = read_header(disk.as_ref(), path)?;
    let rolled_back = went_back(&before, &after, was_repaired.get());
    Ok(Opened { database, rolled_back, last_commit })
}

/// Whether an opening went back to an older commit.
///
/// A repair ends with a commit of its own, numbered one above the commit that it kept (redb 4.4.0, `Database::new`).
/// So the number rises if the newest commit was kept. If it was given up, the kept one is older by one at least, and
/// the number does not rise. Without a repair redb uses the slot that the god byte names, unless that one is torn.
fn went_back(before: &Header, after: &Header, was_repaired: bool) -> bool {
    !before.has_primary() || (was_repaired && after.transaction() <= before.transaction())
}

fn read_header(disk: &dyn Disk, path: &Path) -> Result<Header, DatabaseError> {
    disk.open(path).and_then(|file| Header::read(file.as_ref())).map_err(database_error)
}

/// Calls redb, which panics over some damaged files.
fn caught<T>(call: impl FnOnce() -> Result<T, DatabaseError>) -> Result<T, DatabaseError> {
    // Nothing that the call touched is used after a panic: it owns the database and the backend.
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
        let why = format!("redb broke off over the file: {}", message(panic.as_ref()));
        Err(DatabaseError::Storage(StorageError::Corrupted(why)))
    })
}

fn message(panic: &(dyn Any + Send)) -> &str {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(message), _) => message,
        (_, Some(message)) => message,
        _ => "no message",
    }
}

fn database_error(error: DiskError) -> DatabaseError {
    match error {
        DiskError::AlreadyLocked { .. } => DatabaseError::DatabaseAlreadyOpen,
        other => DatabaseError::Storage(StorageError::Io(other.into())),
    }
}

/// `<path>.<suffix>`.
pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    name.into()
}
