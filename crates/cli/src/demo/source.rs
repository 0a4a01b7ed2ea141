//! The file that the demonstration stores: the user's, or one made of real files of this machine.

use crate::amount::Size;
use anyhow::{Context, Result, bail};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where programs keep files that anyone may read.
const ROOTS: [&str; 4] = ["/usr/lib", "/usr/share", "/usr/bin", "/usr/local"];

/// A file to store.
pub struct Source {
    pub path: PathBuf,
    pub bytes: u64,
    /// For the reader.
    pub description: String,
}

impl Source {
    pub fn given(path: &Path) -> Result<Source> {
        let metadata = fs::metadata(path).with_context(|| format!("cannot read {}", path.display()))?;
        if !metadata.is_file() || metadata.len() == 0 {
            bail!("{} is no file with something in it", path.display());
        }
        Ok(Source { path: path.to_owned(), bytes: metadata.len(), description: path.display().to_string() })
    }

    /// Packs files of this machine into `path`, one after another, until it has exactly `bytes`.
    pub fn packed(path: PathBuf, bytes: u64) -> Result<Source> {
        let mut output = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
        let mut left = bytes;
        let (mut files, mut first, mut last) = (0u64, None, PathBuf::new());
        while left > 0 {
            let before = left;
            for root in ROOTS {
                let more = walk(Path::new(root), &mut |file| {
                    let Ok(input) = File::open(file) else { return Ok(true) };
                    // The part of a file that could be read counts, even if the rest could not.
                    let copied = copy(&mut input.take(left), &mut output)?;
                    left -= copied;
                    files += u64::from(copied > 0);
                    first.get_or_insert_with(|| file.to_owned());
                    last = file.to_owned();
                    Ok(left > 0)
                })
                .with_context(|| format!("cannot write {}", path.display()))?;
                if !more {
                    break;
                }
            }
            if left == before {
                bail!("there are no files in {} to make a sample of; give --file", ROOTS.join(", "));
            }
        }
        output.flush()?;
        let first = first.unwrap_or_default();
        let description = format!(
            "{} of {files} files of this machine, {} to {}",
            Size(bytes),
            first.display(),
            last.display()
        );
        Ok(Source { path, bytes, description })
    }
}

/// Copies until either ends; only a failure to write is an error.
fn copy(input: &mut impl Read, output: &mut impl Write) -> io::Result<u64> {
    let mut buffer = vec![0; 1 << 20];
    let mut copied = 0;
    loop {
        let bytes = match input.read(&mut buffer) {
            Ok(0) | Err(_) => return Ok(copied),
            Ok(bytes) => bytes,
        };
        output.write_all(&buffer[..bytes])?;
        copied += bytes as u64;
    }
}

/// Visits regular files in the order of their names, without following links, until `visit` has enough.
fn walk(folder: &Path, visit: &mut impl FnMut(&Path) -> io::Result<bool>) -> io::Result<bool> {
    let Ok(entries) = fs::read_dir(folder) else { return Ok(true) };
    let mut entries: Vec<_> = entries.flatten().collect();
    entries.sort_by_key(|entry| entry.file_name());
    for entry in entries {
        let Ok(kind) = entry.file_type() else { continue };
        let more = match (kind.is_dir(), kind.is_file()) {
            (true, _) => walk(&entry.path(), visit)?,
            (_, true) => visit(&entry.path())?,
            _ => true,
        };
        if !more {
            return Ok(false);
        }
    }
    Ok(true)
}

/// SHA-256 by a program that is not ours.
pub fn sha256(path: &Path) -> Result<String> {
    let output = Command::new("sha256sum").arg("--").arg(path).output().context("cannot run sha256sum")?;
    let text = String::from_utf8_lossy(&output.stdout);
    // A name with odd characters is escaped, which a leading backslash announces.
    let digest = text.trim_start_matches('\\').split_whitespace().next().unwrap_or_default();
    if !output.status.success() || digest.len() != 64 {
        bail!("sha256sum could not read {}", path.display());
    }
    Ok(digest.to_owned())
}
