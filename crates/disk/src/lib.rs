//! The one trait that every durable write of Stripeline goes through: blocks, sidecars, identities, the catalog.
//!
//! ```text
//!   store, catalog (redb) ──▶ dyn Disk ──┬─▶ RealDisk    a folder of the operating system
//!                                        └─▶ CrashDisk   memory that forgets what was not synced; its PowerSwitch
//!                                                        cuts the power after the n-th durable call of several disks
//! ```
//!
//! Because nothing writes around it, a test can cut the power after every single call, reopen, and compare; and
//! because every sync of the product has a name ([`SyncPoint`]), it can show that none of them is superfluous.
//!
//! What holds after a power cut, and all that callers may rely on:
//! - the bytes and the length of a file are those of its last [`DiskFile::sync`], or any mix of them with later ones;
//! - the entries of a folder (creations, renames, removals) are those of its last [`Disk::sync_folder`], and each
//!   later change may or may not be there, independently of the others;
//! - a rename over an existing name leaves the old file or the new one, never none;
//! - a rename within a folder leaves the file under its old name, its new one or both, never under none.
//!
//! Absent: what the files mean, except that [`walk_pages`] knows redb's pages. Internal: only the block store and the
//! catalog write through it, and it may change with them.

mod crash;
mod error;
mod pages;
mod power;
mod real;
mod redb;
mod replace;
mod sync_point;

pub use crash::{CrashDisk, KeptPages};
pub use error::{DiskError, Result};
pub use pages::{PageDamage, PageReport, PageVisitor, walk_pages};
pub use power::PowerSwitch;
pub use real::RealDisk;
pub use redb::{LastCommit, Opened, RedbBackend, open_database, open_database_noting};
pub use replace::{Durably, keep_spare, replace, set_aside};
pub use sync_point::SyncPoint;

use std::any::Any;
use std::fmt::Debug;
use std::ops::Range;
use std::path::{Component, Path};

/// A folder tree that survives, as far as it was synced. Paths are relative to its root; `..` and absolute paths are
/// refused with [`DiskError::Io`].
pub trait Disk: Send + Sync + Debug {
    /// Makes a new file, open for reading and writing. [`DiskError::AlreadyExists`] if the name is taken.
    fn create_new(&self, path: &Path) -> Result<Box<dyn DiskFile>>;

    /// Opens a file for reading.
    fn open(&self, path: &Path) -> Result<Box<dyn DiskFile>>;

    /// Opens an existing file for reading and writing in place.
    fn open_write(&self, path: &Path) -> Result<Box<dyn DiskFile>>;

    /// Renames a file, replacing what `to` named. Open handles stay valid. Durable once the folder of `to` is synced.
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;

    /// Removes a file. Open handles stay valid.
    fn remove(&self, path: &Path) -> Result<()>;

    /// Makes the entries of a folder durable (not the contents of its files, nor the entries of its subfolders).
    fn sync_folder(&self, path: &Path, point: SyncPoint) -> Result<()>;

    /// Makes a folder within an existing one.
    fn create_folder(&self, path: &Path) -> Result<()>;

    /// Removes an empty folder. Returns [`DiskError::Io`] if it is not empty.
    fn remove_folder(&self, path: &Path) -> Result<()>;

    /// The entries of a folder, in no particular order; names that are not UTF-8 are left out (nothing here makes any).
    fn list(&self, folder: &Path) -> Result<Vec<Entry>>;

    /// Length of a file, in bytes.
    fn len(&self, path: &Path) -> Result<u64>;

    /// Whether a file or folder of that name exists.
    fn exists(&self, path: &Path) -> Result<bool>;

    /// Takes an exclusive advisory lock that lasts as long as the guard and the process;
    /// [`DiskError::AlreadyLocked`] at once if another holds it. The file `path` is made if missing and never removed. If it is missing on a disk
    /// that takes no writes, the root of the disk is locked instead, against all others.
    fn lock(&self, path: &Path) -> Result<LockGuard>;

    /// Bytes that can still be written.
    fn free_bytes(&self) -> Result<u64>;
}

/// An open file. All calls take offsets, so one handle may be shared between threads.
pub trait DiskFile: Send + Sync + Debug {
    /// Fills `out` from `offset` on; returns fewer bytes than asked for only where the file ends.
    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize>;

    /// Writes all of `bytes` at `offset`; a gap before it reads as zero.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()>;

    /// Cuts or extends (with zeros) the file.
    fn set_len(&self, bytes: u64) -> Result<()>;

    /// Length in bytes.
    fn len(&self) -> Result<u64>;

    /// Whether the file has no bytes.
    fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Makes bytes and length durable. The file's name is not: see [`Disk::sync_folder`].
    fn sync(&self, point: SyncPoint) -> Result<()>;

    /// Hints that the range will be read soon, so that it is fetched in the background.
    fn advise_willneed(&self, range: Range<u64>);

    /// Hints that the range will not be read again soon, so that scrubs and repairs do not empty the page cache.
    fn advise_dontneed(&self, range: Range<u64>);

    /// Fills `out` from `offset` on; a file that ends earlier is [`DiskError::Io`] (`UnexpectedEof`).
    fn read_exact_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let got = self.read_at(offset, out)?;
        if got == out.len() {
            return Ok(());
        }
        Err(DiskError::Io {
            path: format!("{self:?}").into(),
            source: std::io::Error::new(
                std::io::ErrorKind::UnexpectedEof,
                format!("wanted {} bytes at {offset}, the file has {got} of them", out.len()),
            ),
        })
    }
}

/// An entry of a folder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Name within the folder.
    pub name: String,
    /// Whether it is a folder itself.
    pub is_folder: bool,
}

/// Holds an exclusive lock until it is dropped.
pub struct LockGuard {
    _held: Box<dyn Any + Send + Sync>,
}

impl LockGuard {
    pub(crate) fn new(held: impl Any + Send + Sync) -> Self {
        Self { _held: Box::new(held) }
    }
}

impl Debug for LockGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LockGuard")
    }
}

/// Refuses paths that could leave the disk's root.
pub(crate) fn check_relative(path: &Path) -> Result<()> {
    let inside = path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    if inside {
        return Ok(());
    }
    let source = std::io::Error::new(std::io::ErrorKind::InvalidInput, "not a path within the disk's root");
    Err(DiskError::Io { path: path.into(), source })
}
