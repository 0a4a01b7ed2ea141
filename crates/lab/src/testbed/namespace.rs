//! Network namespaces: being in one, and what runs in some.

use crate::error::{LabError, Result};
use cli::processor::process_stat;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Where `ip netns` keeps a name for each namespace.
const NAMES: &str = "/run/netns";

/// How long a process may take to end when asked, and then when killed.
const END_PATIENCE: Duration = Duration::from_secs(3);

const POLL: Duration = Duration::from_millis(10);

/// Runs `work` in a thread of its own inside the namespace `name`.
///
/// Sockets that it opens stay there, whoever uses them later; threads and processes that it starts are there too.
pub fn inside<T: Send>(name: &str, work: impl FnOnce() -> T + Send) -> Result<T> {
    let file = File::open(path(name)).map_err(LabError::io(format!("enter the namespace {name}")))?;
    let in_thread = || {
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
            .map_err(|errno| LabError::io(format!("enter the namespace {name}"))(errno.into()))?;
        Ok(work())
    };
    std::thread::scope(|scope| match scope.spawn(in_thread).join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

/// Names of the namespaces that exist and begin with `prefix`.
pub fn existing(prefix: &str) -> Result<BTreeSet<String>> {
    let entries = match fs::read_dir(NAMES) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(BTreeSet::new()),
        other => other.map_err(LabError::io(format!("read {NAMES}")))?,
    };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    Ok(names.filter(|name| name.starts_with(prefix)).collect())
}

/// Ends every process in these namespaces, threads of others that visit one excepted; how many there were.
///
/// # Errors
/// [`LabError::Daemon`] when one survives its killing.
pub fn end_processes(names: &BTreeSet<String>) -> Result<usize> {
    let places: BTreeSet<(u64, u64)> = names.iter().filter_map(|name| place(&path(name))).collect();
    let mut found = BTreeSet::new();
    for signal in [Signal::TERM, Signal::KILL] {
        let running = processes_in(&places)?;
        if running.is_empty() {
            return Ok(found.len());
        }
        found.extend(running.iter().map(|(pid, _)| *pid));
        for (_, handle) in &running {
            // It may have ended by itself meanwhile.
            let _ = pidfd_send_signal(handle, signal);
        }
        let deadline = Instant::now() + END_PATIENCE;
        while !processes_in(&places)?.is_empty() && Instant::now() < deadline {
            std::thread::sleep(POLL);
        }
    }
    match processes_in(&places)?.first() {
        Some((pid, _)) => Err(LabError::Daemon {
            who: format!("process {pid}"),
            message: "does not end, not even when killed".to_owned(),
        }),
        None => Ok(found.len()),
    }
}

/// Each with a handle that stays its own when its number is used again.
fn processes_in(places: &BTreeSet<(u64, u64)>) -> Result<Vec<(u32, OwnedFd)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").map_err(LabError::io("read /proc"))? {
        let Some(pid) = entry.ok().and_then(|e| e.file_name().to_str()?.parse::<u32>().ok()) else {
            continue;
        };
        let is_there =
            || place(Path::new(&format!("/proc/{pid}/ns/net"))).is_some_and(|p| places.contains(&p));
        if !is_there() {
            continue;
        }
        let handle = Pid::from_raw(pid as i32).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        // Asked again: the handle is to whatever has the number now.
        if let Some(handle) = handle
            && is_there()
            && process_stat(pid).is_some_and(|stat| !stat.dead)
        {
            found.push((pid, handle));
        }
    }
    Ok(found)
}

/// Two names for one namespace lead to the same device and inode.
fn place(path: &Path) -> Option<(u64, u64)> {
    fs::metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()))
}

fn path(name: &str) -> PathBuf {
    Path::new(NAMES).join(name)
}
