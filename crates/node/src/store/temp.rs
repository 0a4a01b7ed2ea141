//! Files that have no final name yet.

use super::identity::Loaded;
use super::names::{SIDECAR_SUFFIX, is_copy};
use super::{Folder, Identity, Result, StoreError, make_folder};
use disk::{Disk, DiskError, DiskFile, SyncPoint};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The folder of temporary files. It is made and emptied whenever a store is opened, and made again if it goes away.
pub(super) const FOLDER: &str = "tmp";

/// Names that others have taken in the folder while the store is open, and that are passed over at once. There should be none.
const MAX_TAKEN: u32 = 1000;

/// Folders within each other that are emptied. Deeper ones stay.
const MAX_DEPTH: u32 = 16;

/// Makes the folder, or empties it, in a folder whose identity was read a moment ago. Reading needs nothing of it, so what fails is no
/// error; whoever writes gets it.
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

/// Removes what is in the folder. Nothing here is anybody's but the store's, except copies that somebody moved here by hand.
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
    /// A new one, of a name that nothing has.
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
    /// Makes `tmp/` again. Only where the store's identity is: a folder whose disk is not mounted looks like an empty one.
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
            // The next opening of the store sweeps it away.
            tracing::debug!(path = %self.path.display(), %error, "a temporary file stays");
        }
    }
}
