//! Processes that were started here: told from strangers with the same number, and ended.

use super::home::DaemonDir;
use crate::processor::process_stat;
use anyhow::{Context, Result};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long daemons may take to end: they close files and wait for nobody.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// How long the kernel may take to end a killed process that waits for its disk.
const KILL_PATIENCE: Duration = Duration::from_secs(5);

const POLL: Duration = Duration::from_millis(20);

/// A process, beyond doubt: its number is reused, but not with the same start in the same boot.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ProcessRecord {
    pub pid: u32,
    /// Start after boot, in ticks.
    pub start_ticks: u64,
    pub boot_id: String,
    /// The coordinator that a node was told to use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coordinator: Option<String>,
}

impl ProcessRecord {
    pub fn is_running(&self) -> bool {
        start_of(self.pid) == Some(self.start_ticks) && boot_id() == self.boot_id
    }

    /// Sends a signal to this process and to no other that has its number by now.
    fn signal(&self, signal: Signal) -> Result<()> {
        let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) else { return Ok(()) };
        // The handle is to whatever has the number now; if that is ours, it stays ours.
        let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { return Ok(()) };
        if !self.is_running() {
            return Ok(());
        }
        match pidfd_send_signal(handle, signal) {
            Err(rustix::io::Errno::SRCH) | Ok(()) => Ok(()),
            Err(error) => Err(error).with_context(|| format!("cannot end process {}", self.pid)),
        }
    }
}

/// Held while a daemon is started and recorded.
static STARTING: Mutex<()> = Mutex::new(());

/// Keeps this process from starting daemons from now on: whoever tries waits for ever. It is for the time between the
/// last look at what runs and the end of the process.
pub fn no_more_daemons() {
    std::mem::forget(STARTING.lock().unwrap_or_else(PoisonError::into_inner));
}

/// Starts this program again as a daemon, with its log in `dir`, and records it there.
pub fn spawn(dir: &DaemonDir, arguments: &[String], coordinator: Option<String>) -> Result<Child> {
    fs::create_dir_all(dir.path()).with_context(|| format!("cannot make {}", dir.path().display()))?;
    // The announcement of the previous process stays until this one replaces it, so that clients wait at that address.
    let _starting = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let log = File::options().create(true).append(true).open(dir.log());
    let log = log.with_context(|| format!("cannot write {}", dir.log().display()))?;
    let child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        // Not in the terminal's foreground group: Ctrl-C is for the command, not for the daemons.
        .process_group(0)
        .spawn()
        .context("cannot start a daemon")?;
    let pid = child.id();
    // The child cannot vanish from /proc before it was waited for.
    let start_ticks = process_stat(pid).map(|stat| stat.start_ticks).unwrap_or_default();
    dir.record_process(&ProcessRecord { pid, start_ticks, boot_id: boot_id(), coordinator })?;
    Ok(child)
}

/// Ends processes: asks, waits, and kills those that do not listen. It does not ask if `kill` is set.
pub fn stop(records: &[ProcessRecord], kill: bool) -> Result<()> {
    let mut steps = vec![(Signal::TERM, STOP_PATIENCE), (Signal::KILL, KILL_PATIENCE)];
    if kill {
        steps.remove(0);
    }
    for (signal, patience) in steps {
        for record in records {
            record.signal(signal)?;
        }
        let deadline = Instant::now() + patience;
        while records.iter().any(ProcessRecord::is_running) {
            if Instant::now() > deadline {
                break;
            }
            std::thread::sleep(POLL);
        }
    }
    match records.iter().find(|record| record.is_running()) {
        Some(record) => anyhow::bail!("process {} does not end, not even when killed", record.pid),
        None => Ok(()),
    }
}

/// When a process started, in ticks after boot; `None` if it does not run (any more).
pub fn start_of(pid: u32) -> Option<u64> {
    process_stat(pid).filter(|stat| !stat.dead).map(|stat| stat.start_ticks)
}

/// Number and start of this process.
pub fn own_start() -> (u32, u64) {
    let pid = std::process::id();
    (pid, start_of(pid).unwrap_or_default())
}

/// Processor time that a process has used, in user and kernel mode; 0 if it is gone.
pub fn cpu_seconds(pid: u32) -> f64 {
    process_stat(pid).map_or(0.0, |stat| stat.cpu_seconds)
}

/// Distinguishes boots: ticks begin anew with each.
fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(pid: u32) -> ProcessRecord {
        ProcessRecord {
            pid,
            start_ticks: process_stat(pid).unwrap().start_ticks,
            boot_id: boot_id(),
            coordinator: None,
        }
    }

    #[test]
    fn only_the_recorded_process_is_ended() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let ours = record(child.id());
        let stranger = ProcessRecord { start_ticks: ours.start_ticks + 1, ..ours.clone() };
        let of_another_boot = ProcessRecord { boot_id: "other".to_owned(), ..ours.clone() };
        stop(&[stranger, of_another_boot], true).unwrap();
        assert!(ours.is_running());
        stop(std::slice::from_ref(&ours), false).unwrap();
        assert!(!ours.is_running());
        child.wait().unwrap();
    }
}
