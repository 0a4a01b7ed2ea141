//! A catalog that is kept aside: the coordinator's own one, when another life of it went on from an older state and leads the
//! nodes now (HEALING.md, "Broken history: safe mode"). Its changes are those of a lost branch. Nothing here removes it.
//!
//! ```text
//!   catalog.redb                                    the one that counts
//!   catalog.redb.branch-<term>-<its word>-<change>  one aside, by its last change; not all of it is settled
//!   catalog.redb.settled-…                          the same, and nothing of it is left to decide
//! ```
//!
//! The own catalog is renamed, durably, before the one that was brought takes its name. A power cut between the two leaves no
//! catalog: the next start gives the own one its name back, and begins anew.

use crate::Catalog;
use crate::backend::Redb;
use crate::error::{CatalogError, Result};
use disk::{Disk, DiskError, LockGuard, SyncPoint};
use model::{ClusterId, Stamp, Term};
use std::path::Path;
use std::sync::Arc;

/// So many are kept aside, settled or not. Each is the work of a coordinator that ran over a copy of a folder: who has more has
/// to look after that first, and moves them away.
pub const MAX_ASIDE: usize = 16;

const OPEN: &str = "branch-";
const SETTLED: &str = "settled-";

/// One that is kept aside.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Aside {
    /// Its last change.
    pub last: Stamp,
    /// Nothing of it is left to decide.
    pub is_settled: bool,
}

impl Aside {
    /// Its file, in the coordinator's folder.
    pub fn file(&self) -> String {
        let Stamp { term: Term { number, word }, change } = self.last;
        let kind = if self.is_settled { SETTLED } else { OPEN };
        format!("{}.{kind}{number}-{word:016x}-{change}", Redb::FILE)
    }

    fn of(file: &str) -> Option<Aside> {
        let rest = file.strip_prefix(Redb::FILE)?.strip_prefix('.')?;
        let (is_settled, rest) = match rest.strip_prefix(OPEN) {
            Some(rest) => (false, rest),
            None => (true, rest.strip_prefix(SETTLED)?),
        };
        let mut parts = rest.split('-');
        let number = parts.next()?.parse().ok()?;
        let word = u64::from_str_radix(parts.next()?, 16).ok()?;
        let change = parts.next()?.parse().ok()?;
        let aside = Aside { last: Stamp { term: Term { number, word }, change }, is_settled };
        // Whatever else begins so (a lock) is none.
        (aside.file() == file).then_some(aside)
    }
}

/// Those that are kept aside, in order.
pub fn asides(disk: &dyn Disk) -> Result<Vec<Aside>> {
    let entries = disk.list(Path::new("")).map_err(failed)?;
    let mut asides: Vec<Aside> =
        entries.iter().filter(|entry| !entry.is_folder).filter_map(|entry| Aside::of(&entry.name)).collect();
    asides.sort();
    Ok(asides)
}

/// To be called before the catalog is opened: a power cut may have left it without its name. Whether that was so.
///
/// # Errors
/// [`CatalogError::InUse`], [`CatalogError::Failed`].
pub fn undo(disk: &dyn Disk) -> Result<bool> {
    let (own, is_there) = (Path::new(Redb::FILE), |path| disk.exists(path).map_err(failed));
    if is_there(own)? {
        return Ok(false);
    }
    // The own one has the latest term: each life of a coordinator begins one above those of all that it kept aside.
    let Some(last) = asides(disk)?.into_iter().rfind(|aside| !aside.is_settled) else { return Ok(false) };
    let _lock = lock(disk)?;
    if is_there(own)? {
        return Ok(false);
    }
    rename(disk, &last.file(), Redb::FILE)?;
    Ok(true)
}

/// Gives the catalog, which must be closed, the name under which it is kept aside. Whoever calls holds its lock.
pub(crate) fn put_aside(disk: &dyn Disk, last: Stamp) -> Result<()> {
    let aside = Aside { last, is_settled: false };
    let settled = Aside { last, is_settled: true };
    for name in [aside.file(), settled.file()] {
        if disk.exists(Path::new(&name)).map_err(failed)? {
            return Err(CatalogError::Invalid(format!("{name} is there already: move it away")));
        }
    }
    rename(disk, Redb::FILE, &aside.file())
}

/// Nothing of it is left to decide.
pub fn settle(disk: &dyn Disk, aside: &Aside) -> Result<()> {
    let settled = Aside { is_settled: true, ..*aside };
    rename(disk, &aside.file(), &settled.file())
}

/// Opens one, to read it.
///
/// # Errors
/// As [`Catalog::open`].
pub fn open(disk: &Arc<dyn Disk>, aside: &Aside) -> Result<Catalog> {
    let path = aside.file();
    if !disk.exists(Path::new(&path)).map_err(failed)? {
        return Err(CatalogError::Failed(format!("{path} is gone")));
    }
    Catalog::over(Box::new(Redb::open_at(disk, Path::new(&path))?), ClusterId(0))
}

/// The lock of the catalog, for who renames it. [`CatalogError::InUse`] while it is open.
pub(crate) fn lock(disk: &dyn Disk) -> Result<LockGuard> {
    let name = format!("{}.lock", Redb::FILE);
    disk.lock(Path::new(&name)).map_err(|error| match error {
        DiskError::AlreadyLocked { .. } => CatalogError::InUse,
        other => failed(other),
    })
}

fn rename(disk: &dyn Disk, from: &str, to: &str) -> Result<()> {
    disk.rename(Path::new(from), Path::new(to)).map_err(failed)?;
    disk.sync_folder(Path::new(""), SyncPoint::CatalogFolder).map_err(failed)
}

fn failed(error: DiskError) -> CatalogError {
    CatalogError::Failed(error.to_string())
}
