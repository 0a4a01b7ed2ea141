//! Folders for the time of an experiment, in memory unless told otherwise: experiments are about networks, not disks.

use crate::error::{LabError, Result};
use std::fs::{self, File};
use std::io;
use std::path::Path;
use tempfile::TempDir;

/// Where folders are that nobody places.
pub const MEMORY: &str = "/dev/shm";

const PREFIX: &str = "stripeline-lab-";

/// In every folder, locked for as long as its owner lives, however that one ends.
const OWNER: &str = "owner";

/// A folder that goes when it is dropped, or, if its owner was killed, when the next one is made.
pub struct Scratch {
    folder: TempDir,
    _owner: File,
}

impl Scratch {
    /// A new folder in `parent`.
    pub fn new(parent: Option<&Path>) -> Result<Scratch> {
        let parent = parent.unwrap_or(Path::new(MEMORY));
        sweep(parent);
        let made = TempDir::with_prefix_in(PREFIX, parent).and_then(|folder| {
            // Named once it is locked: a sweep that comes between finds no owner, and leaves the folder alone.
            let unnamed = folder.path().join("locking");
            let owner = File::create(&unnamed)?;
            owner.try_lock()?;
            fs::rename(unnamed, folder.path().join(OWNER))?;
            Ok(Scratch { folder, _owner: owner })
        });
        made.map_err(LabError::io(format!("make a folder in {}", parent.display())))
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Removes it, and says so if that fails.
    pub fn close(self) -> Result<()> {
        let path = self.path().display().to_string();
        self.folder.close().map_err(LabError::io(format!("remove {path}")))
    }
}

/// Removes folders whose owners are gone. What cannot be removed now may be later.
pub fn sweep(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        if ours && is_orphan(&entry.path()).unwrap_or(false) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn is_orphan(folder: &Path) -> io::Result<bool> {
    Ok(File::open(folder.join(OWNER))?.try_lock().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_the_living_stay_and_those_of_the_dead_go() {
        let parent = tempfile::tempdir().unwrap();
        let living = Scratch::new(Some(parent.path())).unwrap();
        let dead = parent.path().join(format!("{PREFIX}dead"));
        let strange = parent.path().join("another-program");
        for folder in [&dead, &strange] {
            fs::create_dir(folder).unwrap();
            fs::write(folder.join(OWNER), "").unwrap();
        }
        let second = Scratch::new(Some(parent.path())).unwrap();
        assert!(living.path().exists() && second.path().exists() && strange.exists());
        assert!(!dead.exists());
        let path = living.path().to_owned();
        living.close().unwrap();
        assert!(!path.exists());
    }
}
