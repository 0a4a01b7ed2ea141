//! The final names of blocks: where they lie, and in which order they come and go.

use super::error::reading;
use super::inventory::Usage;
use super::sidecar::Sidecar;
use super::temp::TempFile;
use super::{BlockMeta, Damage, Digest, Result, StoreError};
use disk::{Disk, DiskError, DiskFile, SyncPoint};
use model::BlockId;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

/// The folder of the folders of blocks.
pub(super) const BLOCKS: &str = "blocks";

const SIDECAR_SUFFIX: &str = ".meta";

/// Folders of blocks, one for each first byte of an id.
const FOLDERS: usize = 256;

/// The folder of the blocks whose ids begin with that byte.
pub(super) fn folder_path(first_byte: u8) -> PathBuf {
    Path::new(BLOCKS).join(format!("{first_byte:02x}"))
}

fn first_byte(block: BlockId) -> u8 {
    block.to_bytes()[0]
}

pub(super) fn data_path(block: BlockId) -> PathBuf {
    folder_path(first_byte(block)).join(block.to_string())
}

pub(super) fn sidecar_path(block: BlockId) -> PathBuf {
    folder_path(first_byte(block)).join(format!("{block}{SIDECAR_SUFFIX}"))
}

/// Guards the pairs of names: who changes a pair holds its folder's lock for writing, who opens one for reading.
#[derive(Debug)]
pub(super) struct Names {
    folders: Vec<RwLock<()>>,
    usage: Mutex<Usage>,
}

impl Names {
    /// Syncs every folder and counts what is there. Half a pair is no block, and it is kept: its other half may have been
    /// moved away by hand. A sidecar of an unknown version ends it ([`StoreError::UnknownVersion`]).
    pub(super) fn load(disk: &dyn Disk) -> Result<Self> {
        let mut usage = Usage::default();
        for first_byte in 0..=u8::MAX {
            let folder = folder_path(first_byte);
            for (block, pair) in pairs(disk, first_byte)? {
                match pair {
                    Pair { data: true, sidecar: true } => {
                        check_version(disk, block)?;
                        usage.blocks += 1;
                        usage.stored_bytes += disk.len(&data_path(block))?;
                    }
                    Pair { data, .. } => {
                        tracing::warn!(%block, data, "half a block: its data, or its sidecar, are not there");
                        usage.half_blocks += 1;
                    }
                }
            }
            // Names that an earlier process made may not be durable yet if it died without a power cut.
            disk.sync_folder(&folder, SyncPoint::BlockFolder)?;
        }
        let folders = std::iter::repeat_with(RwLock::default).take(FOLDERS).collect();
        Ok(Self { folders, usage: Mutex::new(usage) })
    }

    pub(super) fn usage(&self) -> MutexGuard<'_, Usage> {
        self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn folder(&self, block: BlockId) -> &RwLock<()> {
        &self.folders[usize::from(first_byte(block))]
    }

    /// Opens both files of a block; their lengths fit each other and the header holds.
    pub(super) fn open(&self, disk: &dyn Disk, block: BlockId) -> Result<(Sidecar, Box<dyn DiskFile>)> {
        let (sidecar, data) = {
            let _guard = self.folder(block).read().unwrap_or_else(PoisonError::into_inner);
            let data = disk.open(&data_path(block)).map_err(reading(block))?;
            (disk.open(&sidecar_path(block)).map_err(reading(block))?, data)
        };
        let sidecar = load_fitting(sidecar, block, data.len().map_err(reading(block))?)?;
        Ok((sidecar, data))
    }

    pub(super) fn contains(&self, disk: &dyn Disk, block: BlockId) -> Result<bool> {
        let _guard = self.folder(block).read().unwrap_or_else(PoisonError::into_inner);
        Ok(disk.exists(&data_path(block))? && disk.exists(&sidecar_path(block))?)
    }

    /// Gives a block its names, both files being durable under temporary ones (FLOW.md, "Order of writes"). A copy of
    /// an older or the same generation is replaced.
    pub(super) fn commit(
        &self,
        disk: &dyn Disk,
        meta: &BlockMeta,
        sidecar: TempFile,
        data: TempFile,
    ) -> Result<()> {
        let block = meta.block;
        {
            let _guard = self.folder(block).write().unwrap_or_else(PoisonError::into_inner);
            let kept = self.make_way(disk, meta)?;
            let named = sidecar.rename(&sidecar_path(block)).and_then(|()| data.rename(&data_path(block)));
            if let Err(error) = named {
                if !kept {
                    // The names were free before: half a pair is this writer's own.
                    let _ = self.remove_both(disk, block);
                }
                return Err(error);
            }
            let mut usage = self.usage();
            if !kept {
                usage.blocks += 1;
                usage.stored_bytes += meta.stored_bytes;
            }
        }
        Ok(disk.sync_folder(&folder_path(first_byte(block)), SyncPoint::BlockFolder)?)
    }

    /// Sees to it that new files can take a block's names. The same bytes need nothing: any mix of the two pairs is
    /// whole and right, and the block is never absent. Other bytes are first removed durably, or a power cut could
    /// leave the data of one copy beside the sidecar of the other. Returns whether the names are still there.
    fn make_way(&self, disk: &dyn Disk, meta: &BlockMeta) -> Result<bool> {
        let block = meta.block;
        match self.stored(disk, block) {
            Ok((generation, _)) if generation > meta.generation => {
                Err(StoreError::Stale { block, generation: meta.generation, stored: generation })
            }
            Ok((_, digest)) if digest == meta.digest => Ok(true),
            Ok(_) | Err(StoreError::NotFound { .. } | StoreError::Corrupt { .. }) => {
                if self.remove_both(disk, block)? {
                    disk.sync_folder(&folder_path(first_byte(block)), SyncPoint::BlockReplaced)?;
                }
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Generation and digest of the stored copy; the folder's lock is held.
    fn stored(&self, disk: &dyn Disk, block: BlockId) -> Result<(u64, Digest)> {
        let found = disk.len(&data_path(block)).map_err(reading(block))?;
        let meta = load_fitting(disk.open(&sidecar_path(block)).map_err(reading(block))?, block, found)?.meta;
        Ok((meta.generation, meta.digest))
    }

    /// Removes whichever names are there; true if any was. The folder's lock is held.
    fn remove_both(&self, disk: &dyn Disk, block: BlockId) -> Result<bool> {
        let data_bytes = match disk.len(&data_path(block)) {
            Ok(bytes) => Some(bytes),
            Err(DiskError::NotFound { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        let had_data = remove_if_there(disk, &data_path(block))?;
        let had_sidecar = remove_if_there(disk, &sidecar_path(block))?;
        let mut usage = self.usage();
        if let (true, true, Some(bytes)) = (had_data, had_sidecar, data_bytes) {
            usage.blocks = usage.blocks.saturating_sub(1);
            usage.stored_bytes = usage.stored_bytes.saturating_sub(bytes);
        } else if had_data || had_sidecar {
            usage.half_blocks = usage.half_blocks.saturating_sub(1);
        }
        Ok(had_data || had_sidecar)
    }

    /// Removes exactly that copy; false if it is not here. Whatever keeps this from knowing which copy is here is an
    /// error, and nothing goes.
    pub(super) fn delete(&self, disk: &dyn Disk, block: BlockId, generation: u64) -> Result<bool> {
        let _guard = self.folder(block).write().unwrap_or_else(PoisonError::into_inner);
        let data = disk.exists(&data_path(block))?;
        let sidecar = match disk.open(&sidecar_path(block)) {
            Ok(file) => file,
            Err(DiskError::NotFound { .. }) if data => return Err(StoreError::Half { block }),
            Err(DiskError::NotFound { .. }) => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        // A sidecar without data says of which copy a deletion was interrupted.
        if Sidecar::load(sidecar, block)?.meta.generation != generation {
            return Ok(false);
        }
        self.remove_both(disk, block)?;
        disk.sync_folder(&folder_path(first_byte(block)), SyncPoint::BlockDeleted)?;
        Ok(true)
    }
}

/// The sidecar of a block of whose data so many bytes were `found`.
fn load_fitting(file: Box<dyn DiskFile>, block: BlockId, found: u64) -> Result<Sidecar> {
    let sidecar = Sidecar::load(file, block)?;
    match sidecar.meta.stored_bytes {
        stored if stored == found => Ok(sidecar),
        stored => Err(StoreError::Corrupt { block, damage: Damage::Length { stored, found } }),
    }
}

/// A sidecar that cannot be read at all is damage, which is found when the block is listed.
fn check_version(disk: &dyn Disk, block: BlockId) -> Result<()> {
    let sidecar = disk.open(&sidecar_path(block)).map_err(reading(block));
    match sidecar.and_then(|file| super::sidecar::probe(file.as_ref(), block)) {
        Err(StoreError::Corrupt { .. }) => Ok(()),
        other => other,
    }
}

/// Removes a file; false if there was none.
pub(super) fn remove_if_there(disk: &dyn Disk, path: &Path) -> Result<bool> {
    match disk.remove(path) {
        Ok(()) => Ok(true),
        Err(DiskError::NotFound { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Which names of a block there are.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Pair {
    pub(super) data: bool,
    pub(super) sidecar: bool,
}

/// The blocks of a folder, whole or half, in the order of their ids. Names that are no block's are left alone.
pub(super) fn pairs(disk: &dyn Disk, first_byte: u8) -> Result<BTreeMap<BlockId, Pair>> {
    let mut pairs: BTreeMap<BlockId, Pair> = BTreeMap::new();
    for entry in disk.list(&folder_path(first_byte))? {
        let (id, is_sidecar) = match entry.name.strip_suffix(SIDECAR_SUFFIX) {
            Some(id) => (id, true),
            None => (entry.name.as_str(), false),
        };
        match id.parse::<BlockId>() {
            Ok(block) if block.to_bytes()[0] == first_byte && block.to_string() == id => {
                let pair = pairs.entry(block).or_default();
                *if is_sidecar { &mut pair.sidecar } else { &mut pair.data } = true;
            }
            _ => {
                tracing::warn!(name = entry.name, first_byte, "a file that is no block lies among the blocks")
            }
        }
    }
    Ok(pairs)
}
