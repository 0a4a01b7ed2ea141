//! Files of blocks on the disks of nodes: found, hidden, hurt, copied, by their names alone.
//!
//! A block's data are named by its id or by its id and generation, its sidecar has `.meta` appended; they lie in a folder of
//! the id's first byte, in a folder `blocks`. How many stores a node has does not matter here.

use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Digits of a block's id.
const ID_DIGITS: usize = 32;

const SIDECAR: &str = ".meta";

/// One file of a block.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct BlockFile {
    /// Where it is.
    pub path: PathBuf,
    /// The id of its block.
    pub block: String,
    /// Whether it is the sidecar, and not the data.
    pub is_sidecar: bool,
    /// Its length.
    pub bytes: u64,
    /// The name without the suffix of sidecars: both files of a copy have the same.
    pub copy: String,
}

/// What lies in a node's folder.
#[derive(Debug, Default)]
pub struct Found {
    /// Files of blocks.
    pub files: Vec<BlockFile>,
    /// Files in folders `tmp`.
    pub temporary: Vec<PathBuf>,
}

/// All files of blocks under a folder. What vanishes meanwhile is not found.
pub fn find(folder: &Path) -> Result<Found> {
    let mut found = Found::default();
    walk(folder, &mut |path| {
        let parent = |path: &Path| path.parent().and_then(|p| p.file_name()?.to_str()).map(str::to_owned);
        if parent(path).as_deref() == Some("tmp") {
            found.temporary.push(path.to_owned());
        } else if path.parent().and_then(parent).as_deref() == Some("blocks")
            && let Some(file) = block_file(path)
        {
            found.files.push(file);
        }
    })?;
    found.files.sort_unstable();
    Ok(found)
}

fn block_file(path: &Path) -> Option<BlockFile> {
    let name = path.file_name()?.to_str()?;
    let (copy, is_sidecar) = match name.strip_suffix(SIDECAR) {
        Some(copy) => (copy, true),
        None => (name, false),
    };
    let (block, generation) = copy.split_once('.').unwrap_or((copy, ""));
    let is_id = block.len() == ID_DIGITS && block.bytes().all(|b| b.is_ascii_hexdigit());
    if !is_id || !generation.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let bytes = fs::symlink_metadata(path).ok()?.len();
    Some(BlockFile {
        path: path.to_owned(),
        block: block.to_owned(),
        is_sidecar,
        bytes,
        copy: copy.to_owned(),
    })
}

fn walk(folder: &Path, visit: &mut impl FnMut(&Path)) -> Result<()> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error).with_context(|| format!("cannot list {}", folder.display())),
    };
    for entry in entries {
        let path = entry?.path();
        match fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_dir() => walk(&path, visit)?,
            Ok(_) => visit(&path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error).with_context(|| format!("cannot look at {}", path.display())),
        }
    }
    Ok(())
}

/// Files whose bytes were changed for good, by device and inode: whoever writes such a file anew makes it whole.
#[derive(Debug, Default)]
pub struct Hurt(Mutex<BTreeSet<(u64, u64)>>);

impl Hurt {
    fn key(path: &Path) -> Option<(u64, u64)> {
        fs::symlink_metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()))
    }

    fn add(&self, path: &Path) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(Hurt::key(path));
    }

    /// Whether this file is one of them.
    pub fn has(&self, path: &Path) -> bool {
        let hurt = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Hurt::key(path).is_some_and(|key| hurt.contains(&key))
    }

    /// Changes a byte of a file in place; `draw` says which.
    pub fn flip(&self, path: &Path, draw: u64) -> Result<()> {
        let file = File::options().read(true).write(true).open(path)?;
        let bytes = file.metadata()?.len().max(1);
        let (at, mut byte) = (draw % bytes, [0]);
        file.read_exact_at(&mut byte, at)?;
        byte[0] ^= 1 << (draw >> 32 & 7);
        self.add(path);
        Ok(file.write_all_at(&byte, at)?)
    }

    /// Cuts a file; `draw` says where.
    pub fn truncate(&self, path: &Path, draw: u64) -> Result<()> {
        let file = File::options().write(true).open(path)?;
        let bytes = file.metadata()?.len().max(1);
        self.add(path);
        Ok(file.set_len(draw % bytes)?)
    }

    /// Moves a file, over to another disk too.
    pub fn move_file(&self, from: &Path, to: &Path) -> Result<()> {
        if let Some(folder) = to.parent() {
            fs::create_dir_all(folder)?;
        }
        match fs::rename(from, to) {
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
                self.copy_file(from, to)?;
                Ok(fs::remove_file(from)?)
            }
            other => other.with_context(|| format!("cannot move {}", from.display())),
        }
    }

    fn copy_file(&self, from: &Path, to: &Path) -> Result<()> {
        fs::copy(from, to).with_context(|| format!("cannot copy {}", from.display()))?;
        if self.has(from) {
            self.add(to);
        }
        Ok(())
    }

    /// Moves all files under a folder to the same places under another, but for those whose names are taken by now.
    pub fn move_back(&self, from: &Path, to: &Path) -> Result<()> {
        let mut files = Vec::new();
        walk(from, &mut |path| files.push(path.to_owned()))?;
        for file in files {
            let target = to.join(file.strip_prefix(from)?);
            if target.exists() {
                fs::remove_file(&file)?;
            } else {
                self.move_file(&file, &target)?;
            }
        }
        if from.exists() {
            fs::remove_dir_all(from)?;
        }
        Ok(())
    }

    /// Copies all files under a folder to the same places under another. What vanishes meanwhile is not copied.
    pub fn copy_tree(&self, from: &Path, to: &Path) -> Result<()> {
        fs::create_dir_all(to)?;
        for entry in fs::read_dir(from)? {
            let (path, target) = match entry {
                Ok(entry) => (entry.path(), to.join(entry.file_name())),
                Err(error) => return Err(error.into()),
            };
            if path.is_dir() {
                self.copy_tree(&path, &target)?;
            } else if let Err(error) = self.copy_file(&path, &target)
                && path.exists()
            {
                return Err(error);
            }
        }
        Ok(())
    }
}

/// Removes what is in a folder, not the folder: it may be where a disk is mounted.
pub fn empty(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) }
            .with_context(|| format!("cannot remove {}", path.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn files_of_blocks_are_known_by_either_shape_of_name() {
        let folder = tempfile::tempdir().unwrap();
        let id = "00112233445566778899aabbccddeeff";
        let blocks = folder.path().join("data/blocks/00");
        fs::create_dir_all(&blocks).unwrap();
        fs::create_dir_all(folder.path().join("data/tmp")).unwrap();
        let names = [id.to_owned(), format!("{id}.meta"), format!("{id}.1f"), format!("{id}.1f.meta")];
        for name in names.iter().map(String::as_str).chain(["folder", "x.meta"]) {
            fs::write(blocks.join(name), b"123").unwrap();
        }
        fs::write(folder.path().join("data/tmp/7"), b"").unwrap();
        let found = find(folder.path()).unwrap();
        assert_eq!(found.temporary.len(), 1);
        assert_eq!(found.files.iter().filter(|file| file.is_sidecar).count(), 2);
        assert_eq!(found.files.len(), 4);
        assert!(found.files.iter().all(|file| file.block == id && file.bytes == 3));
    }

    #[test]
    fn a_hurt_file_stays_so_where_it_is_moved_and_not_when_written_anew() {
        let folder = tempfile::tempdir().unwrap();
        let (a, b, copy) = (folder.path().join("a"), folder.path().join("x/b"), folder.path().join("y"));
        fs::write(&a, [7; 100]).unwrap();
        let hurt = Hurt::default();
        hurt.flip(&a, 12).unwrap();
        assert!(hurt.has(&a) && fs::read(&a).unwrap() != [7; 100]);
        hurt.move_file(&a, &b).unwrap();
        hurt.copy_tree(&folder.path().join("x"), &copy).unwrap();
        assert!(hurt.has(&b) && hurt.has(&copy.join("b")));
        fs::write(&a, [7; 100]).unwrap();
        fs::rename(&a, &b).unwrap();
        assert!(!hurt.has(&b));
    }
}
