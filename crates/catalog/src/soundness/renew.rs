//! A damaged file is renewed: a file made of what a node keeps of the catalog takes its place, and the damaged one is kept under
//! another name. Both must have the same last change, so that no acknowledged change is dropped.
//!
//! ```text
//!   catalog.redb              the one that counts
//!   catalog.redb.coming       made of a snapshot and the records that follow it (`incoming.rs`)
//!   catalog.redb.damaged-<n>  was damaged, and is kept to find out why; the latest has the highest number
//! ```
//!
//! A power cut between the two renames leaves no catalog: the next start gives the damaged one its name back, and begins anew.

use crate::aside;
use crate::backend::Redb;
use crate::error::{CatalogError, Result};
use crate::{Catalog, Incoming};
use disk::{Disk, DiskError, SyncPoint};
use model::Position;
use std::path::Path;

const DAMAGED: &str = "damaged-";

/// What was saved of a damaged file, until it takes that one's place.
pub(super) const SALVAGED: &str = "catalog.redb.salvaged";

/// Damaged files that are kept. They only serve to find out what damaged them, and must not fill a disk that damages one after
/// another.
const MAX_KEPT: usize = 8;

impl Catalog {
    /// Puts what came from a node in the place of this catalog's file. Returns the name under which the damaged file is kept. The
    /// catalog stays damaged, so nothing is changed, until it is opened again: what was read of the damaged file is still in memory.
    ///
    /// # Errors
    /// [`CatalogError::Invalid`] if what came does not end with the change `wanted`; [`CatalogError::Malformed`] if it is
    /// damaged itself; [`CatalogError::Failed`].
    pub fn renew(&self, incoming: Incoming, wanted: &Position) -> Result<String> {
        let (disk, rows, at) = incoming.into_rows()?;
        if at != *wanted {
            return Err(CatalogError::Invalid(format!(
                "what the node keeps ends with change {}, and not with {} any more",
                at.stamp, wanted.stamp
            )));
        }
        let fresh = Catalog::of(Box::new(rows), false);
        let checked = fresh.check(&|_| true);
        let condition = fresh.condition();
        fresh.close();
        if checked?.findings > 0 {
            let why = match condition {
                crate::Condition::Damaged(damage) => damage.to_string(),
                _ => "a check of it failed".to_owned(),
            };
            return Err(CatalogError::Malformed { what: "copy of the catalog that the node keeps", why });
        }
        let (mut kept, mut replaced) = (String::new(), Ok(()));
        self.group.alone(self, || {
            replaced = self.backend.replace(&mut || {
                kept = exchange(disk.as_ref(), Incoming::FILE)?;
                Ok(())
            });
        });
        replaced?;
        Ok(kept)
    }
}

/// Gives the catalog's file, which is closed, the next `damaged` name, and its own name to `other`. Returns the former.
pub(crate) fn exchange(disk: &dyn Disk, other: &str) -> Result<String> {
    // No other process may open it between the two renames.
    let _lock = aside::lock(disk)?;
    let kept = damaged_files(disk)?;
    let number = kept.last().and_then(|name| number(name)).map_or(1, |last| last + 1);
    let name = format!("{}.{DAMAGED}{number}", Redb::FILE);
    disk.rename(Path::new(Redb::FILE), Path::new(&name)).map_err(failed)?;
    if let Err(error) = disk.rename(Path::new(other), Path::new(Redb::FILE)) {
        disk.rename(Path::new(&name), Path::new(Redb::FILE)).map_err(failed)?;
        return Err(failed(error));
    }
    disk.sync_folder(Path::new(""), SyncPoint::CatalogFolder).map_err(failed)?;
    for old in kept.iter().rev().skip(MAX_KEPT - 1) {
        disk.remove(Path::new(old)).map_err(failed)?;
    }
    Ok(name)
}

/// Lists the damaged files that are kept, the latest last.
pub fn damaged_files(disk: &dyn Disk) -> Result<Vec<String>> {
    let entries = disk.list(Path::new("")).map_err(failed)?;
    let names = entries.into_iter().filter(|entry| !entry.is_folder).map(|entry| entry.name);
    let mut files: Vec<String> = names.filter(|name| number(name).is_some()).collect();
    files.sort_by_key(|name| number(name));
    Ok(files)
}

/// Gives the latest damaged file its name back if a power cut came between the two renames of `exchange`. Returns whether that was
/// so. To be called before the catalog is opened.
///
/// # Errors
/// [`CatalogError::InUse`], [`CatalogError::Failed`].
pub fn restore_name(disk: &dyn Disk) -> Result<bool> {
    let own = Path::new(Redb::FILE);
    if disk.exists(own).map_err(failed)? {
        return Ok(false);
    }
    // Between the two renames the other file has its former name yet. Without it somebody else took the catalog away.
    let mut others = [Incoming::FILE, SALVAGED].into_iter().map(|other| disk.exists(Path::new(other)));
    let was_exchanging = others.try_fold(false, |any, exists| Ok(any || exists?)).map_err(failed)?;
    let Some(last) = damaged_files(disk)?.pop().filter(|_| was_exchanging) else { return Ok(false) };
    let _lock = aside::lock(disk)?;
    disk.rename(Path::new(&last), own).map_err(failed)?;
    disk.sync_folder(Path::new(""), SyncPoint::CatalogFolder).map_err(failed)?;
    Ok(true)
}

fn number(name: &str) -> Option<u64> {
    let number = name.strip_prefix(Redb::FILE)?.strip_prefix('.')?.strip_prefix(DAMAGED)?;
    // A lock's name begins in the same way, and ends with no number.
    number.parse().ok()
}

fn failed(error: DiskError) -> CatalogError {
    CatalogError::Failed(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use disk::{CrashDisk, PowerSwitch};

    fn make(disk: &CrashDisk, name: &str) {
        drop(disk.create_new(Path::new(name)).unwrap());
    }

    #[test]
    fn a_damaged_file_gets_its_name_back_only_from_an_exchange_that_broke_off() {
        let disk = CrashDisk::new(&PowerSwitch::new());
        assert!(!restore_name(&disk).unwrap(), "an empty folder");
        make(&disk, "catalog.redb.damaged-1");
        make(&disk, "catalog.redb.damaged-12");
        assert!(!restore_name(&disk).unwrap(), "the catalog was taken away: an old damaged one is none");
        make(&disk, Incoming::FILE);
        assert!(restore_name(&disk).unwrap() && disk.exists(Path::new(Redb::FILE)).unwrap());
        assert_eq!(damaged_files(&disk).unwrap(), ["catalog.redb.damaged-1"]);
        assert!(!restore_name(&disk).unwrap(), "it is there");
        assert_eq!(exchange(&disk, Incoming::FILE).unwrap(), "catalog.redb.damaged-2");
    }
}
