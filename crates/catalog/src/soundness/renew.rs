//! A damaged file is made anew from what nodes keep of the catalog: another file with the same last change takes its place, and it is
//! kept aside. No change that the damaged one acknowledged is dropped for that: what nodes keep must reach it.
//!
//! ```text
//!   catalog.redb              the one that counts
//!   catalog.redb.coming       made of a snapshot and the records that follow it (`incoming.rs`)
//!   catalog.redb.damaged-<n>  was damaged, and is kept for whoever wants to look at it; the latest of them have the highest numbers
//! ```
//!
//! A power cut between the two renames leaves no catalog: the next start gives the damaged one its name back, and begins anew.

use crate::aside;
use crate::backend::Redb;
use crate::error::{CatalogError, Result};
use crate::{Catalog, Incoming};
use disk::{Disk, DiskError, SyncPoint};
use std::path::Path;

const DAMAGED: &str = "damaged-";

/// Damaged files that are kept. They are of no use but to find out what damaged them, and a disk that goes on damaging is not to be
/// filled with them.
const MAX_KEPT: usize = 8;

impl Catalog {
    /// Puts what nodes keep in the place of this catalog's file, which is kept aside. Returns the name that it has there. Nothing is
    /// changed until the catalog is opened anew: what was read of the damaged file is still in memory.
    ///
    /// # Errors
    /// [`CatalogError::Invalid`] if what came does not end with this catalog's last change; [`CatalogError::Malformed`] if it is
    /// damaged itself; [`CatalogError::Failed`].
    pub fn renew(&self, incoming: Incoming) -> Result<String> {
        let (disk, rows, at) = incoming.into_rows()?;
        let own = self.position()?;
        if at != own {
            return Err(CatalogError::Invalid(format!(
                "what the node keeps ends with change {}, and the last change of the damaged file is {}",
                at.stamp, own.stamp
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

/// The file, which is closed, is kept aside, and another one takes its name. Returns the name that it has then.
pub(crate) fn exchange(disk: &dyn Disk, other: &str) -> Result<String> {
    // Nobody opens it meanwhile.
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

/// Files that are kept because they were damaged, the latest last.
pub fn damaged_files(disk: &dyn Disk) -> Result<Vec<String>> {
    let entries = disk.list(Path::new("")).map_err(failed)?;
    let names = entries.into_iter().filter(|entry| !entry.is_folder).map(|entry| entry.name);
    let mut files: Vec<String> = names.filter(|name| number(name).is_some()).collect();
    files.sort_by_key(|name| number(name));
    Ok(files)
}

/// To be called before the catalog is opened: a power cut may have left it without its name. Whether that was so.
///
/// # Errors
/// [`CatalogError::InUse`], [`CatalogError::Failed`].
pub fn restore_name(disk: &dyn Disk) -> Result<bool> {
    let own = Path::new(Redb::FILE);
    if disk.exists(own).map_err(failed)? {
        return Ok(false);
    }
    let Some(last) = damaged_files(disk)?.pop() else { return Ok(false) };
    let _lock = aside::lock(disk)?;
    disk.rename(Path::new(&last), own).map_err(failed)?;
    disk.sync_folder(Path::new(""), SyncPoint::CatalogFolder).map_err(failed)?;
    Ok(true)
}

fn number(name: &str) -> Option<u64> {
    let number = name.strip_prefix(Redb::FILE)?.strip_prefix('.')?.strip_prefix(DAMAGED)?;
    // Whatever else begins so (a lock) is none.
    number.parse().ok()
}

fn failed(error: DiskError) -> CatalogError {
    CatalogError::Failed(error.to_string())
}
