//! Files that have no final name yet.

use super::identity::Loaded;
use super::names::{SIDECAR_SUFFIX, is_copy};
use super::{Folder, Identity, Result, Store, StoreError, make_folder};
use disk::{Disk, DiskError, DiskFile, SyncPoint};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

/// The folder of temporary files. It is created or emptied when a store is opened, and created again if it disappears.
pub(super) const FOLDER: &str = "tmp";

/// Largest number of existing names that are skipped in one go. While the store is open there should be none.
const MAX_TAKEN: u32 = 1000;

/// Depth to which nested folders are emptied. Deeper ones stay.
const MAX_DEPTH: u32 = 16;

/// Largest number of files of dropped writers that are remembered because the disk refused to remove them. The next start removes the others.
const MAX_LEFT: usize = 1024;

/// Creates or empties the folder. The caller has just read the identity of the store's folder. Failures are ignored, because reading does not
/// need the folder; a writer meets them later.
pub(super) fn make_or_empty(disk: &dyn Disk) {
    let folder = Path::new(FOLDER);
    let emptied = match disk.list(folder) {
        Err(DiskError::NotFound { .. }) => make_folder(disk, folder),
        Ok(_) => empty(disk, folder, 0),
        Err(error) => Err(error.into()),
    };
    if let Err(error) = emptied {
        tracing::warn!(%error, "the folder of temporary files cannot be made or emptied");
    }
}

/// Removes the folder's contents, which belong to the store. Copies that somebody moved here by hand stay.
fn empty(disk: &dyn Disk, folder: &Path, depth: u32) -> Result<()> {
    for entry in disk.list(folder)? {
        let path = folder.join(&entry.name);
        let removed = match entry.is_folder {
            true if depth < MAX_DEPTH => {
                empty(disk, &path, depth + 1).and_then(|()| Ok(disk.remove_folder(&path)?))
            }
            false if !is_copy(entry.name.strip_suffix(SIDECAR_SUFFIX).unwrap_or(&entry.name)) => {
                disk.remove(&path).map_err(Into::into)
            }
            _ => continue,
        };
        if let Err(error) = removed {
            tracing::warn!(path = %path.display(), %error, "it stays in the folder of temporary files");
        }
    }
    Ok(())
}

/// A file in `tmp/`, removed when it is dropped before it was renamed.
#[derive(Debug)]
pub(super) struct TempFile {
    folder: Arc<Folder>,
    path: PathBuf,
    file: Box<dyn DiskFile>,
    renamed: bool,
}

impl TempFile {
    /// Creates a temporary file under a free name.
    ///
    /// Errors: [`StoreError::TakesNoWrites`], [`StoreError::NotMounted`], the disk's.
    pub(super) fn create(folder: &Arc<Folder>) -> Result<Self> {
        let mut was_made = false;
        for _ in 0..MAX_TAKEN {
            let number = folder.temps.fetch_add(1, Ordering::Relaxed);
            let path = Path::new(FOLDER).join(number.to_string());
            match folder.disk.create_new(&path) {
                Ok(file) => return Ok(Self { folder: Arc::clone(folder), path, file, renamed: false }),
                Err(DiskError::AlreadyExists { .. }) => {}
                Err(DiskError::NotFound { .. }) if !was_made => {
                    folder.make_temps()?;
                    was_made = true;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(StoreError::TakesNoWrites { why: format!("the names in {FOLDER} are taken") })
    }

    pub(super) fn file(&self) -> &dyn DiskFile {
        self.file.as_ref()
    }

    pub(super) fn sync(&self, point: SyncPoint) -> Result<()> {
        Ok(self.file.sync(point)?)
    }

    pub(super) fn rename(mut self, to: &Path) -> Result<()> {
        self.folder.disk.rename(&self.path, to)?;
        self.renamed = true;
        Ok(())
    }
}

impl Folder {
    /// Creates `tmp/` again, but only beside the store's identity: without its disk, a mount point looks like an empty folder.
    fn make_temps(&self) -> Result<()> {
        match Identity::load(self.disk.as_ref()) {
            Ok(Loaded::Current(found)) if found.store == self.locked_identity().store => {
                tracing::warn!("the folder of temporary files is gone, and is made again");
                make_folder(self.disk.as_ref(), Path::new(FOLDER))
            }
            Ok(_) | Err(StoreError::NotFormatted) => Err(StoreError::NotMounted),
            Err(error) => Err(error),
        }
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        if !self.renamed
            && let Err(error) = self.folder.disk.remove(&self.path)
        {
            tracing::debug!(path = %self.path.display(), %error, "a temporary file stays for now");
            let mut left = self.folder.left.lock().unwrap_or_else(PoisonError::into_inner);
            if left.len() < MAX_LEFT {
                left.push_back(std::mem::take(&mut self.path));
            }
        }
    }
}

impl Store {
    /// Removes a temporary file that the disk refused to remove before. Does nothing if there is none; otherwise it costs one removal.
    pub fn remove_one_left(&self) {
        let left = || self.folder.left.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(path) = left().pop_front() else { return };
        match self.folder.disk.remove(&path) {
            Ok(()) | Err(DiskError::NotFound { .. }) => {}
            Err(_) => left().push_back(path),
        }
    }
}
