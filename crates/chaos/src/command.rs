//! Running the program's commands, each within its bound, and reading what processes are.

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::Read;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Nothing that a client does takes half of this, whatever happens to the cluster meanwhile: all of it is bounded, and every
/// fault ends after seconds. A command that takes all of it hangs.
pub const PATIENCE: Duration = Duration::from_secs(90);

const POLL: Duration = Duration::from_millis(5);

/// What became of a command.
#[derive(Debug)]
pub struct Ran {
    /// How it ended; `None` if it did not and was killed, as asked or because it hung.
    pub status: Option<ExitStatus>,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: String,
}

impl Ran {
    /// Whether it ended well.
    pub fn is_ok(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }

    /// The JSON document that it answered with.
    pub fn json(&self) -> Option<serde_json::Value> {
        self.is_ok().then(|| serde_json::from_slice(&self.stdout).ok()).flatten()
    }
}

/// Runs a command for so long at most.
pub fn run(mut command: Command, patience: Duration) -> Result<Ran> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
    let stdout = child.stdout.take().map(collect_out);
    let stderr = child.stderr.take().map(collect_err);
    let status = ended(&mut child, patience)?;
    if status.is_none() {
        child.kill()?;
        child.wait()?;
    }
    let text = |pipe: Option<JoinHandle<Vec<u8>>>| pipe.and_then(|pipe| pipe.join().ok()).unwrap_or_default();
    let (stdout, stderr) = (text(stdout), text(stderr));
    Ok(Ran { status, stdout, stderr: String::from_utf8_lossy(&stderr).into_owned() })
}

/// A time that comes.
#[derive(Clone, Copy)]
pub struct Deadline(Instant);

impl Deadline {
    /// So long from now.
    pub fn after(time: Duration) -> Deadline {
        Deadline(Instant::now() + time)
    }

    /// Whether it has come.
    pub fn is_over(self) -> bool {
        self.left().is_zero()
    }

    /// The time until then.
    pub fn left(self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }
}

/// Waits for the end of a process, for so long.
pub fn ended(child: &mut Child, patience: Duration) -> Result<Option<ExitStatus>> {
    let deadline = Deadline::after(patience);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if deadline.is_over() {
            return Ok(None);
        }
        std::thread::sleep(POLL);
    }
}

fn collect_out(mut pipe: ChildStdout) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || read_all(&mut pipe))
}

fn collect_err(mut pipe: ChildStderr) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || read_all(&mut pipe))
}

fn read_all(pipe: &mut impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    // What came before an error is all that there is to tell.
    let _ = pipe.read_to_end(&mut bytes);
    bytes
}

/// Sends a signal to a child that was not waited for yet, so its number is its own.
pub fn signal(child: &Child, signal: Signal) {
    // It may have ended by itself: then nobody is there to obey.
    let _ = kill_process(Pid::from_child(child), signal);
}

/// Files that a process has open.
pub fn open_files(pid: u32) -> u64 {
    fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, |entries| entries.count() as u64)
}

/// Clock ticks after boot at which a process started, which tells it from a later one with its number; `None` if it is gone.
pub fn start_of(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Fields are counted from the end of the second, which may hold anything (proc(5)).
    let fields: Vec<&str> = stat[stat.rfind(')')? + 1..].split_whitespace().collect();
    (fields.first() != Some(&"Z")).then(|| fields.get(19)?.parse().ok()).flatten()
}
