//! Driving `ip` and `tc`: whole scripts at once, so that a testbed takes few processes to make.
//!
//! When this program is killed, a script that has begun goes on to its end. Each therefore holds the lock on testbeds as
//! well: its standard output, on which a script that succeeds says nothing, is the locked file.

use crate::error::{LabError, Result};
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::process::{Command, Output, Stdio};

/// Whether a testbed can be made here at all.
///
/// # Errors
/// [`LabError::NotRoot`], [`LabError::MissingTool`].
pub fn check() -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Err(LabError::NotRoot);
    }
    for tool in ["ip", "tc"] {
        let found = Command::new(tool).arg("-V").stdin(Stdio::null()).output();
        found.map_err(|error| cannot_start(tool, error))?;
    }
    Ok(())
}

/// Runs lines of `ip` or `tc`, in a namespace or outside all. The first that fails ends it.
pub fn run(lock: &File, tool: &'static str, namespace: Option<&str>, batch: &str) -> Result<()> {
    if batch.is_empty() {
        return Ok(());
    }
    let mut command = Command::new(tool);
    if let Some(namespace) = namespace {
        command.args(["-n", namespace]);
    }
    let lock = lock.try_clone().map_err(LabError::io("share the lock on testbeds"))?;
    command.args(["-batch", "-"]).stdin(Stdio::piped()).stdout(lock).stderr(Stdio::piped());
    let output = feed(command, batch).map_err(|error| cannot_start(tool, error))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let message = said.lines().filter(|line| !line.trim().is_empty()).collect::<Vec<_>>().join("; ");
    Err(LabError::Tool { tool, namespace: namespace.map(str::to_owned), message })
}

fn feed(mut command: Command, batch: &str) -> std::io::Result<Output> {
    let mut child = command.spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        match stdin.write_all(batch.as_bytes()) {
            // It gave up before the end and will say why.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
            other => other?,
        }
    }
    child.wait_with_output()
}

fn cannot_start(tool: &'static str, error: std::io::Error) -> LabError {
    match error.kind() {
        ErrorKind::NotFound => LabError::MissingTool(tool),
        _ => LabError::io(format!("start {tool}"))(error),
    }
}
