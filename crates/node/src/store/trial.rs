//! Whether the disk does what a store needs of it.

use super::temp::TempFile;
use super::{Identity, Result, Store, StoreError, identity};
use std::sync::PoisonError;

/// A page: less is not written by any file system.
const TRIAL_BYTES: [u8; 4096] = [0x5a; 4096];

impl Store {
    /// Writes a file and removes it, reads whose store it is, and lists one folder of blocks. Nothing of it is durable, so it
    /// costs no sync. A disk that takes no writes passes if it can be read; [`refusal`](Self::refusal) reports it from then on.
    ///
    /// # Errors
    /// The disk's; [`StoreError::BadIdentity`] or another one if the folder is not this store's any more.
    pub fn try_disk(&self, folder: u8) -> Result<()> {
        let written =
            TempFile::create(&self.folder).and_then(|file| Ok(file.file().write_at(0, &TRIAL_BYTES)?));
        let refusal = match written {
            Ok(()) => None,
            Err(StoreError::Disk(error)) if error.refuses_writes() => Some(error.to_string()),
            Err(StoreError::TakesNoWrites { why }) => Some(why),
            Err(error) => return Err(error),
        };
        self.note_refusal(refusal);
        Identity::load(self.folder.disk.as_ref())?;
        self.list_folder(folder).map(|_| ())
    }

    fn note_refusal(&self, refusal: Option<String>) {
        if refusal.is_none() {
            // An earlier start may have used up the spare.
            identity::keep_spare(self.folder.disk.as_ref());
        }
        let before = {
            let mut last = self.folder.refusal.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *last, refusal.clone())
        };
        match (before, refusal) {
            (None, Some(why)) => tracing::warn!("the disk takes no writes, and is read: {why}"),
            (Some(_), None) => tracing::info!("the disk takes writes again"),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::store::Store;
    use disk::{CrashDisk, Disk, PowerSwitch};
    use model::NodeId;
    use std::path::Path;
    use std::sync::Arc;

    #[test]
    fn a_disk_that_lacks_what_it_needs_fails_its_trial_and_leaves_nothing_behind() {
        let disk = CrashDisk::new(&PowerSwitch::new());
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        Store::format(&shared, NodeId(1)).unwrap();
        let store = Store::open(Arc::clone(&shared), NodeId(1), 0).unwrap();
        store.try_disk(7).unwrap();
        assert_eq!(shared.list(Path::new("tmp")).unwrap(), [], "the file is gone");
        disk.starve(true);
        assert!(store.try_disk(7).is_err(), "no descriptors");
        disk.starve(false);
        store.try_disk(7).unwrap();
        shared.remove(Path::new("identity")).unwrap();
        assert!(store.try_disk(7).is_err(), "the folder is no store any more");
    }
}
