//! Replaces small files as a whole, even on a full disk.
//!
//! ```text
//!   identity.new    ──write, sync, rename──▶ identity     the usual way: needs a block of the disk for a moment
//!   identity.spare  ──write, sync, rename──▶ identity     on a full disk: the spare has had its block all the time
//! ```
//!
//! Nobody else can take the spare's block. They could if the old file were deleted first to make room. Copy-on-write file systems may refuse all
//! the same.

use crate::{Disk, DiskError, Result, SyncPoint};
use std::path::{Path, PathBuf};

/// Length of a spare: one page, which no file system splits. Longer files have no spare.
const SPARE_BYTES: usize = 4096;

/// Sync points that make a replacement durable: first the file, then its folder's entries.
#[derive(Clone, Copy, Debug)]
pub struct Durably {
    /// Sync point of the file.
    pub file: SyncPoint,
    /// Sync point of the disk's root, where the file lies.
    pub folder: SyncPoint,
}

/// Replaces the file `name` in the disk's root. Readers see the old or the new file, and so does a start after a power cut. Without `durably`
/// nothing is synced. Keeps a spare for the next time if there is room.
///
/// # Errors
/// Those of the disk. [`DiskError::NoSpace`] only if there is no spare either.
pub fn replace(disk: &dyn Disk, name: &Path, bytes: &[u8], durably: Option<Durably>) -> Result<()> {
    let written = match write_new(disk, name, bytes, durably) {
        Err(full @ DiskError::NoSpace { .. }) => write_spare(disk, name, bytes, durably).map_err(|_| full),
        written => written,
    }?;
    disk.rename(&written, name)?;
    if let Some(durably) = durably {
        disk.sync_folder(Path::new(""), durably.folder)?;
    }
    keep_spare(disk, name, durably);
    Ok(())
}

/// Removes the file `name` if it exists; its block becomes the spare for the next file of that name. Syncs nothing.
///
/// # Errors
/// Those of the disk.
pub fn set_aside(disk: &dyn Disk, name: &Path) -> Result<()> {
    match disk.rename(name, &beside(name, "spare")) {
        Ok(()) | Err(DiskError::NotFound { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Creates the spare of `name` if it does not exist. A disk without room gets none.
pub fn keep_spare(disk: &dyn Disk, name: &Path, durably: Option<Durably>) {
    let spare = beside(name, "spare");
    if disk.len(&spare).is_ok_and(|bytes| bytes > 0) {
        return;
    }
    let made = remove_if_there(disk, &spare)
        .and_then(|()| write(disk.create_new(&spare)?.as_ref(), &[b' '; SPARE_BYTES], durably));
    if let Err(error) = made {
        // A truncated spare would be taken for a whole one.
        let _ = disk.remove(&spare);
        tracing::debug!(path = %spare.display(), %error, "no spare is kept");
    }
}

fn write_new(disk: &dyn Disk, name: &Path, bytes: &[u8], durably: Option<Durably>) -> Result<PathBuf> {
    let new = beside(name, "new");
    remove_if_there(disk, &new)?;
    let written = write(disk.create_new(&new)?.as_ref(), bytes, durably);
    if written.is_err() {
        let _ = disk.remove(&new);
    }
    written.map(|()| new)
}

fn write_spare(disk: &dyn Disk, name: &Path, bytes: &[u8], durably: Option<Durably>) -> Result<PathBuf> {
    let spare = beside(name, "spare");
    write(disk.open_write(&spare)?.as_ref(), bytes, durably)?;
    Ok(spare)
}

fn write(file: &dyn crate::DiskFile, bytes: &[u8], durably: Option<Durably>) -> Result<()> {
    file.write_at(0, bytes)?;
    if file.len()? > bytes.len() as u64 {
        file.set_len(bytes.len() as u64)?;
    }
    durably.map_or(Ok(()), |durably| file.sync(durably.file))
}

fn remove_if_there(disk: &dyn Disk, path: &Path) -> Result<()> {
    match disk.remove(path) {
        Ok(()) | Err(DiskError::NotFound { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

fn beside(name: &Path, suffix: &str) -> PathBuf {
    name.with_added_extension(suffix)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CrashDisk, PowerSwitch};

    const NAME: &str = "identity";
    const DURABLY: Option<Durably> =
        Some(Durably { file: SyncPoint::Format, folder: SyncPoint::FormatFolder });

    fn read(disk: &CrashDisk) -> Vec<u8> {
        let file = disk.open(Path::new(NAME)).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_exact_at(0, &mut bytes).unwrap();
        bytes
    }

    fn fill(disk: &CrashDisk) {
        disk.set_capacity(u64::MAX);
        disk.set_capacity(u64::MAX - disk.free_bytes().unwrap());
    }

    #[test]
    fn a_full_disk_takes_one_replacement_and_the_next_once_there_is_room() {
        let disk = CrashDisk::new(&PowerSwitch::new());
        replace(&disk, Path::new(NAME), b"first", DURABLY).unwrap();
        fill(&disk);
        replace(&disk, Path::new(NAME), b"the second, longer", DURABLY).unwrap();
        assert_eq!(read(&disk), b"the second, longer");
        // While nobody takes the block of the old file, it becomes the next spare.
        replace(&disk, Path::new(NAME), b"3", DURABLY).unwrap();
        fill(&disk);
        disk.remove(Path::new("identity.spare")).unwrap();
        fill(&disk);
        let refused = replace(&disk, Path::new(NAME), b"4", DURABLY);
        assert!(matches!(refused, Err(DiskError::NoSpace { .. })), "{refused:?}");
        assert_eq!(read(&disk), b"3", "the old one stays");
        assert!(!disk.exists(Path::new("identity.new")).unwrap());
        disk.set_capacity(u64::MAX);
        replace(&disk, Path::new(NAME), b"5", DURABLY).unwrap();
        fill(&disk);
        replace(&disk, Path::new(NAME), b"6", DURABLY).unwrap();
        assert_eq!(read(&disk), b"6");
    }

    #[test]
    fn a_file_that_comes_and_goes_keeps_its_block() {
        let (disk, name) = (CrashDisk::new(&PowerSwitch::new()), Path::new(NAME));
        set_aside(&disk, name).unwrap();
        replace(&disk, name, b"12345", None).unwrap();
        for _ in 0..5 {
            set_aside(&disk, name).unwrap();
            assert!(!disk.exists(name).unwrap());
            fill(&disk);
            replace(&disk, name, b"12345", None).unwrap();
            assert_eq!(read(&disk), b"12345");
        }
    }

    #[test]
    fn a_power_cut_leaves_the_old_file_or_the_new_one_on_a_full_disk_too() {
        for seed in 0..20 {
            for cut in 0..12 {
                let power = PowerSwitch::new();
                let disk = CrashDisk::new(&power);
                replace(&disk, Path::new(NAME), b"old", DURABLY).unwrap();
                disk.sync_folder(Path::new(""), SyncPoint::FormatFolder).unwrap();
                fill(&disk);
                power.survive_at_random(seed);
                power.cut_after(cut);
                let replaced = replace(&disk, Path::new(NAME), b"new", DURABLY).is_ok();
                power.cut();
                power.restart();
                let found = read(&disk.reopen());
                let fits = found == b"new" || (found == b"old" && !replaced);
                assert!(fits, "seed {seed}, cut {cut}: {:?}", String::from_utf8_lossy(&found));
            }
        }
    }
}
