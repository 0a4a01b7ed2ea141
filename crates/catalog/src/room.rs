//! Room for the catalog on its disk. While there is little, changes are refused by name and reads go on. So that a coordinator can
//! begin its life, and nodes can register, on a disk that others have filled, a file keeps some room for these changes alone.

use crate::Catalog;
use crate::error::{CatalogError, Result};
use disk::{Disk, DiskError, SyncPoint};
use std::path::Path;

/// With less room than this no change is begun: a group of changes and the pages that it copies take some hundred KiB, and the commit
/// of the largest put some MiB.
pub const LEAST_BYTES: u64 = 4 << 20;

/// Length of the file that keeps room: the changes of some hundred starts.
pub const RESERVE_BYTES: u64 = 8 << 20;

const FILE: &str = "catalog.reserve";

/// The reserve is made only where it is a small part of what is free: a tiny disk is better used for the catalog itself.
const PARTS_FREE: u64 = 4;

/// Bytes that are written at once.
const PIECE_BYTES: usize = 1 << 20;

/// Makes the file that keeps room, if it is not there and there is room for it.
///
/// # Errors
/// [`CatalogError::Failed`].
pub fn reserve(disk: &dyn Disk, bytes: u64) -> Result<()> {
    let path = Path::new(FILE);
    let has = if disk.exists(path).map_err(failed)? { disk.len(path).map_err(failed)? } else { 0 };
    if bytes == 0 || has >= bytes || disk.free_bytes().map_err(failed)? < PARTS_FREE * bytes {
        return Ok(());
    }
    let filled = fill(disk, path, bytes);
    match filled {
        // Others were faster: what was written of it is given back.
        Err(DiskError::NoSpace { .. }) => release(disk),
        filled => filled.map_err(failed),
    }
}

fn fill(disk: &dyn Disk, path: &Path, bytes: u64) -> disk::Result<()> {
    match disk.remove(path) {
        Ok(()) | Err(DiskError::NotFound { .. }) => {}
        Err(error) => return Err(error),
    }
    let file = disk.create_new(path)?;
    // Zeros might be kept as a hole by the file system.
    let piece = [0xA5; PIECE_BYTES];
    for at in (0..bytes).step_by(PIECE_BYTES) {
        let length = PIECE_BYTES.min((bytes - at) as usize);
        file.write_at(at, &piece[..length])?;
    }
    file.sync(SyncPoint::Catalog)
}

fn release(disk: &dyn Disk) -> Result<()> {
    match disk.remove(Path::new(FILE)) {
        Ok(()) | Err(DiskError::NotFound { .. }) => Ok(()),
        Err(error) => Err(failed(error)),
    }
}

impl Catalog {
    /// Whether there is room for a change.
    ///
    /// # Errors
    /// [`CatalogError::NoRoom`].
    pub(crate) fn has_room(&self) -> Result<()> {
        match self.backend.disk().map(|disk| disk.free_bytes()) {
            Some(Ok(free_bytes)) if free_bytes < LEAST_BYTES => {
                Err(CatalogError::NoRoom { free_bytes, least_bytes: LEAST_BYTES })
            }
            // What cannot be asked for may be there.
            _ => Ok(()),
        }
    }

    /// Makes a change for which room was kept: if there is none, that is given to it.
    pub(crate) fn with_reserve<T>(&self, change: impl Fn() -> Result<T>) -> Result<T> {
        match (change(), self.backend.disk()) {
            (Err(CatalogError::NoRoom { .. }), Some(disk)) => {
                release(disk.as_ref())?;
                change()
            }
            (changed, _) => changed,
        }
    }
}

fn failed(error: DiskError) -> CatalogError {
    CatalogError::Failed(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NewPut;
    use crate::rows::ObjectRow;
    use crate::table::Read;
    use disk::{CrashDisk, PowerSwitch};
    use model::{ClusterId, PutId};
    use std::sync::Arc;

    #[test]
    fn a_full_disk_serves_reads_and_a_new_life_but_refuses_changes_by_name() {
        let crash_disk = CrashDisk::new(&PowerSwitch::new());
        let disk: Arc<dyn Disk> = Arc::new(crash_disk.clone());
        reserve(disk.as_ref(), RESERVE_BYTES).unwrap();
        let catalog = Catalog::open(&disk, ClusterId(1)).unwrap();
        catalog.begin_term(1, 0).unwrap();
        let used: u64 = ["catalog.redb", FILE].iter().map(|file| disk.len(Path::new(file)).unwrap()).sum();
        crash_disk.set_capacity(used + LEAST_BYTES / 2);
        let new = |put| NewPut {
            put: PutId(put),
            name: "a".to_owned(),
            block_bytes: 10,
            replicas: 3,
            lease_until_ms: 100,
            gathers: None,
        };
        let refused = catalog.begin_put(&new(1)).unwrap_err();
        assert!(matches!(refused, CatalogError::NoRoom { .. }), "{refused}");
        assert!(catalog.view(|txn| txn.all::<ObjectRow>(&[])).unwrap().is_empty(), "reads go on");
        catalog.close();
        let catalog = Catalog::open(&disk, ClusterId(1)).unwrap();
        assert_eq!(catalog.begin_term(2, 0).unwrap().number, 2, "the reserve is given to the new life");
        crash_disk.set_capacity(u64::MAX / 2);
        catalog.begin_put(&new(2)).unwrap();
    }

    #[test]
    fn the_reserve_is_made_once_and_not_on_a_small_disk() {
        let crash_disk = CrashDisk::new(&PowerSwitch::new());
        crash_disk.set_capacity(PARTS_FREE * RESERVE_BYTES - 1);
        reserve(&crash_disk, RESERVE_BYTES).unwrap();
        assert!(!crash_disk.exists(Path::new(FILE)).unwrap());
        crash_disk.set_capacity(PARTS_FREE * RESERVE_BYTES);
        reserve(&crash_disk, RESERVE_BYTES).unwrap();
        reserve(&crash_disk, RESERVE_BYTES).unwrap();
        assert_eq!(crash_disk.len(Path::new(FILE)).unwrap(), RESERVE_BYTES);
    }
}
