//! Files that have no final name yet.

use super::{Folder, Result};
use disk::{DiskFile, SyncPoint};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The folder of temporary files. It is emptied whenever a store is opened.
pub(super) const FOLDER: &str = "tmp";

/// A file in `tmp/`, removed when it is dropped before it was renamed.
#[derive(Debug)]
pub(super) struct TempFile {
    folder: Arc<Folder>,
    path: PathBuf,
    file: Box<dyn DiskFile>,
    renamed: bool,
}

impl TempFile {
    /// A new one. The count makes its name unique as long as the store is open, and the store has emptied the folder.
    pub(super) fn create(folder: &Arc<Folder>) -> Result<Self> {
        let number = folder.temps.fetch_add(1, Ordering::Relaxed);
        let path = Path::new(FOLDER).join(number.to_string());
        let file = folder.disk.create_new(&path)?;
        Ok(Self { folder: Arc::clone(folder), path, file, renamed: false })
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
