//! The programs of this project, which start each other.

use crate::output::Output;
use anyhow::{Context, Result};
use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The file of a program: beside the one that runs, else the first on PATH.
///
/// # Errors
/// Says how to build it.
pub fn find(name: &str) -> Result<PathBuf> {
    let own = env::current_exe().context("cannot find this program's own file")?;
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = own.parent().map(Path::to_owned).into_iter().chain(env::split_paths(&path));
    folders.map(|folder| folder.join(name)).find(|file| file.is_file()).with_context(|| {
        format!(
            "this needs the program {name}, which is neither beside {} nor on PATH; 'make build' builds it",
            own.display()
        )
    })
}

/// Goes on as `stripeline-lab`, which keeps terminal, signals and exit code.
pub(crate) fn become_lab(command: &str, out: Output, arguments: &[OsString]) -> Result<()> {
    let program = find("stripeline-lab")?;
    let json = out.json.then_some("--json");
    let failed = Command::new(&program).arg(command).args(json).args(arguments).exec();
    Err(failed).with_context(|| format!("cannot start {}", program.display()))
}
