//! The final names of copies: where they lie, and how they come and go.

use super::error::reading;
use super::sidecar::Sidecar;
use super::tally::{Tally, Totals};
use super::temp::TempFile;
use super::{Damage, Result, StoreError, unless_refused};
use disk::{Disk, DiskError, DiskFile, SyncPoint};
use model::{BlockId, Stamp};
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock, RwLockWriteGuard};

/// The folder of the folders of blocks.
pub(super) const BLOCKS: &str = "blocks";

pub(super) const SIDECAR_SUFFIX: &str = ".meta";

/// Folders of blocks, one for each first byte of an id.
const FOLDERS: usize = 256;

/// A copy in this store. Its text is the name of its data file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CopyId {
    /// The block.
    pub block: BlockId,
    /// Which writing of it.
    pub generation: u64,
}

impl fmt::Display for CopyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.block, self.generation)
    }
}

impl CopyId {
    /// From such a text, and from no other that means the same.
    fn parse(name: &str) -> Option<CopyId> {
        let (block, generation) = name.split_once('.')?;
        let copy = CopyId { block: block.parse().ok()?, generation: generation.parse().ok()? };
        (copy.to_string() == name).then_some(copy)
    }
}

/// Whether this is the name of a copy's data file.
pub(super) fn is_copy(name: &str) -> bool {
    CopyId::parse(name).is_some()
}

/// Returns [`StoreError::AlreadyFormatted`] if block folders contain files.
pub(super) fn must_be_empty(disk: &dyn Disk) -> Result<()> {
    for first_byte in 0..=u8::MAX {
        match disk.list(&folder_path(first_byte)) {
            Ok(entries) if entries.is_empty() => {}
            Ok(_) => return Err(StoreError::AlreadyFormatted),
            Err(DiskError::NotFound { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// The folder of the blocks whose ids begin with that byte.
pub(super) fn folder_path(first_byte: u8) -> PathBuf {
    Path::new(BLOCKS).join(format!("{first_byte:02x}"))
}

pub(super) fn first_byte(block: BlockId) -> u8 {
    block.to_bytes()[0]
}

pub(super) fn data_path(copy: CopyId) -> PathBuf {
    folder_path(first_byte(copy.block)).join(copy.to_string())
}

pub(super) fn sidecar_path(copy: CopyId) -> PathBuf {
    folder_path(first_byte(copy.block)).join(format!("{copy}{SIDECAR_SUFFIX}"))
}

/// Guards the pairs of names: who changes a pair holds its folder's lock for writing, who opens one for reading.
#[derive(Debug)]
pub(super) struct Names {
    folders: Vec<RwLock<()>>,
    totals: Totals,
}

impl Names {
    /// Syncs every folder and counts what is there, by names and lengths: no file is opened. Half a pair is no copy, and it
    /// is kept: its other half may have been moved away by hand. Says whether all was synced: a disk that takes no writes may
    /// refuse it.
    pub(super) fn load(disk: &dyn Disk) -> Result<(Self, bool)> {
        let (totals, mut synced) = (Totals::default(), true);
        for first_byte in 0..=u8::MAX {
            let found = found(disk, first_byte)?;
            for (copy, pair) in found.pairs.iter().filter(|(_, pair)| !pair.is_whole()) {
                tracing::warn!(%copy, pair.data, "half a copy: its data, or its sidecar, are not there");
            }
            totals.count(first_byte, Tally::with_lengths(disk, &found)?);
            for name in found.strange {
                tracing::warn!(name, first_byte, "a file that is no block lies among the blocks");
            }
            // Names that an earlier process made may not be durable yet if it died without a power cut.
            synced &= unless_refused(disk.sync_folder(&folder_path(first_byte), SyncPoint::BlockFolder))?;
        }
        let folders = std::iter::repeat_with(RwLock::default).take(FOLDERS).collect();
        Ok((Self { folders, totals }, synced))
    }

    /// What is there, as it was counted.
    pub(super) fn totals(&self) -> &Totals {
        &self.totals
    }

    /// Lists a folder. What came or went there by other hands than this process's is counted from now on, as are files whose length
    /// turned out to be another one.
    pub(super) fn list(&self, disk: &dyn Disk, first_byte: u8) -> Result<Found> {
        let listed = found(disk, first_byte)?;
        if !self.totals.is_doubtful(first_byte) && self.totals.are_of(first_byte, &listed) {
            return Ok(listed);
        }
        // Perhaps it was written or deleted to meanwhile: what counts is read while nobody does.
        let counted = {
            let _guard = self.to_change(first_byte);
            found(disk, first_byte).and_then(|found| {
                let is_new = !self.totals.are_of(first_byte, &found);
                self.totals.count(first_byte, Tally::with_lengths(disk, &found)?);
                Ok(is_new)
            })
        };
        match counted {
            Ok(true) => {
                tracing::warn!(first_byte, "files of blocks came or went in this folder by other hands")
            }
            Ok(false) => {}
            // What was counted stays, until the next list.
            Err(error) => {
                tracing::warn!(first_byte, %error, "the folder's blocks could not be counted again")
            }
        }
        Ok(listed)
    }

    fn to_change(&self, first_byte: u8) -> RwLockWriteGuard<'_, ()> {
        self.folders[usize::from(first_byte)].write().unwrap_or_else(PoisonError::into_inner)
    }

    fn folder(&self, block: BlockId) -> &RwLock<()> {
        &self.folders[usize::from(first_byte(block))]
    }

    /// Opens both files of a copy; their lengths fit each other and the header holds.
    pub(super) fn open(&self, disk: &dyn Disk, copy: CopyId) -> Result<(Sidecar, Box<dyn DiskFile>)> {
        let block = copy.block;
        let (sidecar, data) = {
            let _guard = self.folder(block).read().unwrap_or_else(PoisonError::into_inner);
            let data = disk.open(&data_path(copy)).map_err(reading(block))?;
            (disk.open(&sidecar_path(copy)).map_err(reading(block))?, data)
        };
        let sidecar = Sidecar::load(sidecar, copy)?;
        let (stored, found) = (sidecar.meta.stored_bytes, data.len().map_err(reading(block))?);
        match stored == found {
            true => Ok((sidecar, data)),
            false => {
                self.totals.doubt(copy);
                Err(StoreError::Corrupt { block, damage: Damage::Length { stored, found } })
            }
        }
    }

    pub(super) fn is_absent(&self, disk: &dyn Disk, copy: CopyId) -> Result<bool> {
        let _guard = self.folder(copy.block).read().unwrap_or_else(PoisonError::into_inner);
        // By the folder's list: one that is away has no names, and says nothing.
        Ok(!found(disk, first_byte(copy.block))?.pairs.contains_key(&copy))
    }

    pub(super) fn birth_of_half(&self, disk: &dyn Disk, copy: CopyId) -> Result<Option<Stamp>> {
        let _guard = self.folder(copy.block).read().unwrap_or_else(PoisonError::into_inner);
        match pair(disk, copy)? {
            Pair { data: false, sidecar: true } => {
                let sidecar = disk.open(&sidecar_path(copy)).map_err(reading(copy.block))?;
                Ok(Some(Sidecar::load(sidecar, copy)?.meta.birth))
            }
            _ => Ok(None),
        }
    }

    pub(super) fn contains(&self, disk: &dyn Disk, copy: CopyId) -> Result<bool> {
        let _guard = self.folder(copy.block).read().unwrap_or_else(PoisonError::into_inner);
        Ok(pair(disk, copy)?.is_whole())
    }

    /// Gives a copy its names, both files being durable under temporary ones (FLOW.md, "Order of writes"). Names that are
    /// taken stay whose they are.
    pub(super) fn commit(
        &self,
        disk: &dyn Disk,
        copy: CopyId,
        stored_bytes: u64,
        sidecar: TempFile,
        data: TempFile,
    ) -> Result<()> {
        let CopyId { block, generation } = copy;
        {
            let _guard = self.to_change(first_byte(block));
            match pair(disk, copy)? {
                Pair { data: false, sidecar: false } => {}
                Pair { data: true, sidecar: true } => return Err(StoreError::Exists { block, generation }),
                Pair { .. } => return Err(StoreError::Half { block, generation }),
            }
            sidecar.rename(&sidecar_path(copy))?;
            if let Err(error) = data.rename(&data_path(copy)) {
                // The names were free before: this half is the writer's own.
                let _ = disk.remove(&sidecar_path(copy));
                return Err(error);
            }
            self.totals.came(copy, stored_bytes);
        }
        self.sync(disk, copy, SyncPoint::BlockFolder)
    }

    /// Makes the names in a copy's folder durable.
    pub(super) fn sync(&self, disk: &dyn Disk, copy: CopyId, point: SyncPoint) -> Result<()> {
        Ok(disk.sync_folder(&folder_path(first_byte(copy.block)), point)?)
    }

    /// Removes exactly that copy, or the half of it that is here, by its names: a damaged file does not keep it, and no other copy
    /// of the block is touched. Durable on return, even if there was nothing: an earlier removal may not have been synced.
    pub(super) fn delete(&self, disk: &dyn Disk, copy: CopyId) -> Result<bool> {
        let _guard = self.to_change(first_byte(copy.block));
        let before = pair(disk, copy)?;
        let bytes = if before.data { disk.len(&data_path(copy))? } else { 0 };
        if before.is_whole() && !is_as_long_as_written(disk, copy, bytes) {
            // Its length when it was counted is unknown.
            self.totals.doubt(copy);
        }
        remove_if_there(disk, &data_path(copy))?;
        if before.is_whole() {
            // The sidecar may refuse to go.
            self.totals.halved(copy, bytes);
        }
        remove_if_there(disk, &sidecar_path(copy))?;
        let was_there = before.data || before.sidecar;
        if was_there {
            self.totals.half_went(copy);
        }
        self.sync(disk, copy, SyncPoint::BlockDeleted)?;
        Ok(was_there)
    }
}

/// Whether the sidecar says that the copy was written with so many bytes; false if it cannot be read.
fn is_as_long_as_written(disk: &dyn Disk, copy: CopyId, bytes: u64) -> bool {
    let sidecar = disk.open(&sidecar_path(copy)).map_err(reading(copy.block));
    sidecar.and_then(|file| Sidecar::load(file, copy)).is_ok_and(|sidecar| sidecar.meta.stored_bytes == bytes)
}

/// Removes a file; false if there was none.
pub(super) fn remove_if_there(disk: &dyn Disk, path: &Path) -> Result<bool> {
    match disk.remove(path) {
        Ok(()) => Ok(true),
        Err(DiskError::NotFound { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Which names of a copy there are.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Pair {
    pub(super) data: bool,
    pub(super) sidecar: bool,
}

impl Pair {
    pub(super) fn is_whole(self) -> bool {
        self.data && self.sidecar
    }
}

fn pair(disk: &dyn Disk, copy: CopyId) -> Result<Pair> {
    Ok(Pair { data: disk.exists(&data_path(copy))?, sidecar: disk.exists(&sidecar_path(copy))? })
}

/// What a folder holds, by its names.
#[derive(Default, Debug)]
pub(super) struct Found {
    /// Copies, whole or half.
    pub(super) pairs: BTreeMap<CopyId, Pair>,
    /// Names that no copy in this folder has.
    pub(super) strange: Vec<String>,
}

/// Lists the folder of that first byte.
pub(super) fn found(disk: &dyn Disk, first: u8) -> Result<Found> {
    let mut found = Found::default();
    for entry in disk.list(&folder_path(first))? {
        let (name, is_sidecar) = match entry.name.strip_suffix(SIDECAR_SUFFIX) {
            Some(name) => (name, true),
            None => (entry.name.as_str(), false),
        };
        match CopyId::parse(name).filter(|copy| !entry.is_folder && first_byte(copy.block) == first) {
            Some(copy) => {
                let pair = found.pairs.entry(copy).or_default();
                *if is_sidecar { &mut pair.sidecar } else { &mut pair.data } = true;
            }
            None => found.strange.push(entry.name),
        }
    }
    found.strange.sort_unstable();
    Ok(found)
}
