//! Names of files and objects: which files a tree has, which names a line each gives, and which objects can be files.

use super::Refused;
use anyhow::{Context as _, Result, bail};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::path::{Component, Path, PathBuf};

/// Length of a part of a path on the file systems that there are (`NAME_MAX`).
const MOST_PART_BYTES: usize = 255;

/// A name and its file.
pub struct Found {
    /// The path below the folder, parts joined by slashes.
    pub name: String,
    pub path: PathBuf,
    pub bytes: u64,
}

/// Lists the files below a folder, by name. What is no file, or cannot be an object's name, is refused; links are not followed.
pub fn files_below(folder: &Path) -> Result<(Vec<Found>, Vec<Refused>)> {
    let metadata = fs::metadata(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    if !metadata.is_dir() {
        bail!("{} is no folder; put it without --recursive", folder.display());
    }
    let (mut found, mut refused, mut folders) = (Vec::new(), Vec::new(), vec![folder.to_path_buf()]);
    while let Some(at) = folders.pop() {
        let entries = match fs::read_dir(&at) {
            Ok(entries) => entries,
            Err(error) if at == folder => {
                return Err(error).with_context(|| format!("cannot read {}", folder.display()));
            }
            Err(error) => {
                refused.push(Refused::new(at.display().to_string(), error));
                continue;
            }
        };
        for entry in entries {
            match entry {
                Ok(entry) if entry.file_type().is_ok_and(|kind| kind.is_dir()) => folders.push(entry.path()),
                Ok(entry) => match file(folder, &entry.path()) {
                    Ok(file) => found.push(file),
                    Err(why) => refused.push(why),
                },
                Err(error) => refused.push(Refused::new(at.display().to_string(), error)),
            }
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok((found, refused))
}

/// The files with these names below a folder.
pub fn files_named(folder: &Path, names: &[String]) -> (Vec<Found>, Vec<Refused>) {
    let (mut found, mut refused) = (Vec::new(), Vec::new());
    for name in names {
        let looked = match path_of(name) {
            Ok(path) => file(folder, &folder.join(path)),
            Err(why) => Err(Refused::new(name, why)),
        };
        match looked {
            Ok(file) => found.push(file),
            Err(why) => refused.push(why),
        }
    }
    (found, refused)
}

fn file(folder: &Path, path: &Path) -> std::result::Result<Found, Refused> {
    let refused = |why: &dyn std::fmt::Display| Refused::new(path.display().to_string(), why);
    let metadata = fs::symlink_metadata(path).map_err(|error| refused(&error))?;
    if metadata.is_symlink() {
        return Err(refused(&"a symbolic link: it is not followed"));
    }
    if !metadata.is_file() {
        return Err(refused(&"no regular file"));
    }
    let below = path.strip_prefix(folder).map_err(|error| refused(&error))?;
    let part = |part: Component<'_>| part.as_os_str().to_str().map(str::to_owned);
    let parts: Option<Vec<String>> = below.components().map(part).collect();
    let parts = parts.ok_or_else(|| refused(&"its path is no UTF-8, as names of objects are"))?;
    Ok(Found { name: parts.join("/"), path: path.to_path_buf(), bytes: metadata.len() })
}

/// The path below a folder that a name stands for, or why a file system cannot hold it.
pub fn path_of(name: &str) -> std::result::Result<PathBuf, String> {
    let mut path = PathBuf::new();
    for part in name.split('/') {
        match part {
            "" => return Err("a part of its path is empty: no file can have this name".to_owned()),
            "." | ".." => return Err(format!("a part of its path is {part:?}: no file can have this name")),
            part if part.len() > MOST_PART_BYTES => {
                return Err(format!(
                    "a part of its path has {} bytes, and files have {MOST_PART_BYTES} at most",
                    part.len()
                ));
            }
            part if part.contains('\0') => return Err("no file can have a zero byte in its name".to_owned()),
            part => path.push(part),
        }
    }
    Ok(path)
}

/// Names, one a line, of a file or of standard input; each once.
pub fn listed_in(file: &Path) -> Result<Vec<String>> {
    let input: Box<dyn BufRead> = match file == Path::new("-") {
        true => Box::new(BufReader::new(io::stdin())),
        false => {
            let opened = File::open(file).with_context(|| format!("cannot read {}", file.display()))?;
            Box::new(BufReader::new(opened))
        }
    };
    let (mut names, mut seen) = (Vec::new(), BTreeSet::new());
    for line in input.lines() {
        let line = line.with_context(|| format!("cannot read names from {}", file.display()))?;
        let name = line.strip_prefix("./").unwrap_or(&line);
        if !name.is_empty() && seen.insert(name.to_owned()) {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_no_file_can_have_are_refused() {
        assert_eq!(path_of("a/b c/d").unwrap(), Path::new("a/b c/d"));
        let long = "x".repeat(MOST_PART_BYTES + 1);
        for bad in ["", "/a", "a//b", "a/", "../a", "a/./b", "a/..", &long, "a\0b"] {
            assert!(path_of(bad).is_err(), "{bad:?}");
        }
    }
}
