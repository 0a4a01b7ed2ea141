//! The demonstration's cluster: made in a folder of its own, and gone afterwards whatever happens.

use crate::interrupt;
use crate::local::{DaemonDir, Home, no_more_daemons, stop_all};
use anyhow::{Context, Result, bail};
use disk::{Disk, RealDisk};
use std::path::PathBuf;
use tempfile::TempDir;

/// A folder with a cluster in it. Dropping it ends the daemons and removes the folder.
pub struct Stage {
    pub home: Home,
    folder: TempDir,
}

impl Stage {
    /// A new folder in `parent` with at least `needed_bytes` of room.
    pub fn new(parent: Option<PathBuf>, needed_bytes: u64) -> Result<Stage> {
        let parent = parent.unwrap_or_else(std::env::temp_dir);
        let disk = RealDisk::create(&parent)?;
        let free = disk.free_bytes()?;
        if free < needed_bytes {
            let (needed, free) = (crate::amount::Size(needed_bytes), crate::amount::Size(free));
            bail!(
                "the demonstration needs {needed} in {}, {free} are free; give another --dir",
                parent.display()
            );
        }
        let folder = tempfile::Builder::new().prefix("stripeline-demo-").tempdir_in(&parent);
        let folder = folder.with_context(|| format!("cannot make a folder in {}", parent.display()))?;
        let home = Home::locate(Some(folder.path().join("cluster")))?;
        clean_up_when_interrupted(home.clone(), folder.path().to_owned())?;
        Ok(Stage { home, folder })
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        end_daemons(&self.home);
    }
}

/// All daemons of a cluster, the coordinator last.
pub fn daemons(home: &Home) -> Result<Vec<DaemonDir>> {
    let mut dirs: Vec<DaemonDir> =
        home.cluster()?.into_iter().flat_map(|c| c.nodes).map(|node| home.node(node.id)).collect();
    dirs.push(home.coordinator());
    Ok(dirs)
}

fn end_daemons(home: &Home) {
    // Their data are about to be removed: there is nothing to finish.
    if let Err(error) = daemons(home).and_then(|dirs| stop_all(&dirs, true)) {
        eprintln!("some daemons may still run: {error:#}");
    }
}

fn clean_up_when_interrupted(home: Home, folder: PathBuf) -> Result<()> {
    interrupt::clean_up_when_interrupted(move || {
        no_more_daemons();
        end_daemons(&home);
        if let Err(error) = std::fs::remove_dir_all(&folder) {
            eprintln!("{} could not be removed: {error}", folder.display());
        }
    })
}
