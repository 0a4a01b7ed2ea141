//! The folders of a local cluster and of its daemons.

use super::process::ProcessRecord;
use super::state::Cluster;
use anyhow::{Context, Result, anyhow};
use disk::{Disk, DiskError, LockGuard, RealDisk};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Names the folder of the local cluster where no `--dir` does.
const HOME_ENV: &str = "STRIPELINE_HOME";

/// The folder of a local cluster.
#[derive(Clone, Debug)]
pub struct Home(PathBuf);

/// The folder of one daemon.
#[derive(Clone, Debug)]
pub struct DaemonDir(PathBuf);

/// What a daemon tells about itself once it listens.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Ready {
    pub pid: u32,
    /// Start of the process, as in [`ProcessRecord`].
    pub start_ticks: u64,
    /// Address of the control port.
    pub control: String,
    /// Address of the data port, of a node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
}

impl Home {
    /// `dir`, or `$STRIPELINE_HOME`, or the usual place for data of programs.
    pub fn locate(dir: Option<PathBuf>) -> Result<Home> {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let path = dir
            .or_else(|| set(HOME_ENV))
            .or_else(|| set("XDG_DATA_HOME").map(|data| data.join("stripeline/default")))
            .or_else(|| set("HOME").map(|home| home.join(".local/share/stripeline/default")))
            .ok_or_else(|| anyhow!("no folder for the cluster: give --dir or set {HOME_ENV}"))?;
        Ok(Home(std::path::absolute(&path).unwrap_or(path)))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn coordinator(&self) -> DaemonDir {
        DaemonDir(self.0.join("coordinator"))
    }

    pub fn node(&self, id: u32) -> DaemonDir {
        DaemonDir(self.0.join(format!("node-{id}")))
    }

    /// The cluster as it was last recorded; `None` if there never was one.
    pub fn cluster(&self) -> Result<Option<Cluster>> {
        read_json(&self.cluster_file())
    }

    pub fn record(&self, cluster: &Cluster) -> Result<()> {
        write_json(&self.cluster_file(), cluster)
    }

    /// Makes the folder if need be and keeps others from changing the cluster for as long as the guard lives.
    pub fn lock(&self) -> Result<LockGuard> {
        let disk = RealDisk::create(&self.0)?;
        match disk.lock(Path::new("lock")) {
            Ok(guard) => Ok(guard),
            Err(DiskError::AlreadyLocked { .. }) => {
                Err(anyhow!("another command is changing the cluster in {}; try again", self.0.display()))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn cluster_file(&self) -> PathBuf {
        self.0.join("cluster.json")
    }
}

impl DaemonDir {
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The root of what the daemon stores.
    pub fn data(&self) -> PathBuf {
        self.0.join("data")
    }

    pub fn log(&self) -> PathBuf {
        self.0.join("log")
    }

    /// What the daemon said when it began to listen, if that very process still runs.
    pub fn running(&self) -> Result<Option<Ready>> {
        let ready = self.announced()?;
        Ok(ready.filter(|ready| super::process::start_of(ready.pid) == Some(ready.start_ticks)))
    }

    /// Returns the last announcement of the daemon. A daemon that ends in order withdraws it; one that is killed does not.
    pub fn announced(&self) -> Result<Option<Ready>> {
        read_json(&self.ready_file())
    }

    pub fn announce(&self, ready: &Ready) -> Result<()> {
        write_json(&self.ready_file(), ready)
    }

    pub fn forget_ready(&self) -> Result<()> {
        remove(&self.ready_file())
    }

    /// The process that was last started here, whether it lives or not.
    pub fn process(&self) -> Result<Option<ProcessRecord>> {
        read_json(&self.process_file())
    }

    pub fn record_process(&self, record: &ProcessRecord) -> Result<()> {
        write_json(&self.process_file(), record)
    }

    pub fn forget_process(&self) -> Result<()> {
        self.forget_ready()?;
        remove(&self.process_file())
    }

    /// The last thing that the daemon said, without the time and level of a log line, and where the rest is.
    pub fn last_words(&self) -> String {
        let log = fs::read(self.log()).unwrap_or_default();
        let text = String::from_utf8_lossy(&log[log.len().saturating_sub(LAST_WORDS_BYTES)..]).into_owned();
        let line = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
        let line = line.trim().trim_start_matches("error: ");
        format!("{line} (its log: {})", self.log().display())
    }

    fn ready_file(&self) -> PathBuf {
        self.0.join("ready.json")
    }

    fn process_file(&self) -> PathBuf {
        self.0.join("process.json")
    }
}

/// An error message of ours is a sentence; this holds several.
const LAST_WORDS_BYTES: usize = 4096;

/// The folder of a daemon that was started by hand.
pub fn folder_of(path: &Path) -> DaemonDir {
    DaemonDir(std::path::absolute(path).unwrap_or_else(|_| path.to_owned()))
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    match fs::read(path) {
        Ok(bytes) => {
            serde_json::from_slice(&bytes).map(Some).with_context(|| format!("{} is damaged", path.display()))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

/// Replaces a file atomically, even on a full disk: readers see the old or the new one.
pub fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<()> {
    let text = serde_json::to_string_pretty(value)? + "\n";
    if fs::read(path).is_ok_and(|bytes| bytes == text.as_bytes()) {
        return Ok(());
    }
    let (folder, name) = (path.parent().unwrap_or(Path::new("")), path.file_name().unwrap_or_default());
    RealDisk::open(folder)
        .and_then(|disk| disk::replace(&disk, Path::new(name), text.as_bytes(), None))
        .with_context(|| format!("cannot write {}", path.display()))
}

/// Removes a file, but keeps its room for the next file of that name.
fn remove(path: &Path) -> Result<()> {
    let (folder, name) = (path.parent().unwrap_or(Path::new("")), path.file_name().unwrap_or_default());
    match RealDisk::open(folder).and_then(|disk| disk::set_aside(&disk, Path::new(name))) {
        Ok(()) | Err(DiskError::NotFound { .. }) => Ok(()),
        Err(error) => Err(error).with_context(|| format!("cannot remove {}", path.display())),
    }
}
