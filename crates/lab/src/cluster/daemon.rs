//! One daemon on a host: started, watched, ended.

use crate::error::{LabError, Result};
use crate::testbed::Host;
use cli::processor::process_stat;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long daemons may take to end when asked.
const END_PATIENCE: Duration = Duration::from_secs(5);

const POLL: Duration = Duration::from_millis(10);

/// A process that is ours to end. Dropping it kills it.
pub struct Daemon {
    pub host: Host,
    who: String,
    child: Child,
    log: PathBuf,
}

impl Daemon {
    /// Starts `binary` on a host, with its folder and log below `folder`.
    pub fn start(
        who: &str,
        host: &Host,
        binary: &Path,
        folder: &Path,
        arguments: &[String],
    ) -> Result<Daemon> {
        let dir = folder.join(who);
        fs::create_dir_all(&dir).map_err(LabError::io(format!("make {}", dir.display())))?;
        let log = dir.join("log");
        let wrong = |e: std::io::Error| LabError::io(format!("write {}", log.display()))(e);
        let out = File::options().create(true).append(true).open(&log).map_err(wrong)?;
        let mut command = Command::new(binary);
        command.args(arguments).arg("--dir").arg(&dir).stdin(Stdio::null());
        // Not in the terminal's foreground group: Ctrl-C is for the experiment, which then ends its daemons.
        command.stdout(out.try_clone().map_err(wrong)?).stderr(out).process_group(0);
        let child = host.inside(|| command.spawn())?;
        let child = child.map_err(LabError::io(format!("start {} as {who}", binary.display())))?;
        Ok(Daemon { host: host.clone(), who: who.to_owned(), child, log })
    }

    /// Fails with its last words if it has ended.
    pub fn check(&mut self) -> Result<()> {
        match self.child.try_wait() {
            Ok(Some(_)) => {
                let log = fs::read_to_string(&self.log).unwrap_or_default();
                let last = log.lines().rev().find(|line| !line.trim().is_empty());
                let message = last.unwrap_or("it ended without a word").to_owned();
                Err(LabError::Daemon { who: self.who.clone(), message })
            }
            _ => Ok(()),
        }
    }

    /// Sends a signal to the process.
    pub fn signal(&self, signal: Signal) {
        // Not waited for yet, so that the number is still its own.
        if let Some(pid) = Pid::from_raw(self.child.id() as i32) {
            let _ = kill_process(pid, signal);
        }
    }

    pub fn cpu_seconds(&self) -> f64 {
        process_stat(self.child.id()).map_or(0.0, |stat| stat.cpu_seconds)
    }
}

/// Asks all to end and waits a while for them. Those that do not listen are killed when they are dropped.
pub fn end(daemons: &mut [Daemon]) {
    for daemon in daemons.iter() {
        daemon.signal(Signal::TERM);
    }
    let deadline = Instant::now() + END_PATIENCE;
    while daemons.iter_mut().any(|d| matches!(d.child.try_wait(), Ok(None))) && Instant::now() < deadline {
        std::thread::sleep(POLL);
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // Either fails only if it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
