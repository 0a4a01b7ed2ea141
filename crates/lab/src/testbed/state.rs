//! What is recorded about testbeds, so that any later command finds what an earlier one made, finished or not.

use super::shape::Limits;
use super::spec::Spec;
use crate::error::{LabError, Result};
use serde::{Deserialize, Serialize};
use std::fs::{self, File, TryLockError};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Where records are, unless the environment says otherwise. Namespaces do not survive a boot, nor does this folder.
const DEFAULT_DIR: &str = "/run/stripeline-lab";
const DIR_ENV: &str = "STRIPELINE_LAB_DIR";

const FORMAT: u32 = 1;

/// A testbed is made or removed within this time; whoever finds the lock held waits for so long.
const LOCK_PATIENCE: Duration = Duration::from_secs(10);

const POLL: Duration = Duration::from_millis(20);

/// One testbed, as it is meant to be.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct State {
    format: u32,
    pub spec: Spec,
    /// Limits as they were last set.
    pub limits: Limits,
    /// False from before the first namespace is made until the last link is limited.
    pub complete: bool,
}

impl State {
    pub fn new(spec: &Spec) -> State {
        State { format: FORMAT, spec: spec.clone(), limits: Limits::of(spec), complete: false }
    }
}

/// The folder of records.
#[derive(Clone, Debug)]
pub struct Records(PathBuf);

impl Records {
    /// `$STRIPELINE_LAB_DIR`, or `/run/stripeline-lab`.
    pub fn locate() -> Records {
        let dir = std::env::var_os(DIR_ENV).filter(|dir| !dir.is_empty());
        Records(dir.map_or_else(|| PathBuf::from(DEFAULT_DIR), PathBuf::from))
    }

    /// Keeps others from changing testbeds for as long as the file stays open.
    pub fn lock(&self) -> Result<File> {
        fs::create_dir_all(&self.0).map_err(LabError::io(format!("make {}", self.0.display())))?;
        let path = self.0.join("lock");
        let file = File::options().create(true).truncate(false).write(true).open(&path);
        let file = file.map_err(LabError::io(format!("open {}", path.display())))?;
        let deadline = Instant::now() + LOCK_PATIENCE;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) if Instant::now() < deadline => std::thread::sleep(POLL),
                Err(TryLockError::WouldBlock) => return Err(LabError::Locked),
                Err(TryLockError::Error(e)) => {
                    return Err(LabError::io(format!("lock {}", path.display()))(e));
                }
            }
        }
    }

    /// The record of a testbed, if there is one.
    pub fn read(&self, name: &str) -> Result<Option<State>> {
        let path = self.path(name);
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            other => other.map_err(LabError::io(format!("read {}", path.display())))?,
        };
        let bad = |reason: String| LabError::BadState { path: path.clone(), reason };
        let state: State = serde_json::from_str(&text).map_err(|error| bad(error.to_string()))?;
        if state.format != FORMAT {
            return Err(bad(format!("format {}, this program knows {FORMAT}", state.format)));
        }
        // What is done with a record must not depend on whether somebody else wrote it.
        state.spec.check()?;
        if state.spec.name != name || state.limits.ports.len() != state.spec.hosts {
            return Err(bad("it contradicts itself".to_owned()));
        }
        Ok(Some(state))
    }

    /// Whole or not at all: a command may be killed at any time.
    pub fn write(&self, state: &State) -> Result<()> {
        let path = self.path(&state.spec.name);
        let wrong = |e: std::io::Error| LabError::io(format!("write {}", path.display()))(e);
        let text = serde_json::to_string_pretty(state).map_err(|e| wrong(e.into()))?;
        let mut file = tempfile::NamedTempFile::new_in(&self.0).map_err(wrong)?;
        file.write_all(text.as_bytes()).map_err(wrong)?;
        file.persist(&path).map_err(|e| wrong(e.error))?;
        Ok(())
    }

    /// Forgets a testbed.
    pub fn remove(&self, name: &str) -> Result<()> {
        match fs::remove_file(self.path(name)) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            other => other.map_err(LabError::io(format!("remove the record of '{name}'"))),
        }
    }

    /// Names of all recorded testbeds.
    pub fn names(&self) -> Result<Vec<String>> {
        let entries = match fs::read_dir(&self.0) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.map_err(LabError::io(format!("read {}", self.0.display())))?,
        };
        let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
        let records = paths.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
        let mut names: Vec<String> = records
            .filter_map(|path: PathBuf| Some(Path::new(&path).file_stem()?.to_str()?.to_owned()))
            .collect();
        names.sort();
        Ok(names)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(format!("{name}.json"))
    }
}
