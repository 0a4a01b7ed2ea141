//! A store of version 1 becomes one of version 2: its files get their generations as part of their names.
//!
//! ```text
//!   3f…9c        the data      ──▶  3f…9c.5
//!   3f…9c.meta   its sidecar   ──▶  3f…9c.5.meta     the generation is what the sidecar says
//! ```
//!
//! The identity is written last, so a power cut at any point leaves a store of version 1, some of whose files have their new
//! names already: the same steps, taken again, complete it. No file's contents are touched.

use super::names::{SIDECAR_SUFFIX, data_path, folder_path, sidecar_path};
use super::sidecar::Sidecar;
use super::{CopyId, Result, StoreError};
use disk::{Disk, SyncPoint};
use model::BlockId;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Gives every file of every block its generation, durably. Files whose generation nothing tells (data without a sidecar, a
/// sidecar that is damaged) keep their names: then they are strange ones, which are told and kept.
///
/// Errors: [`StoreError::UnknownVersion`] if a sidecar is of a version that is not known here; the disk's.
pub(super) fn name_generations(disk: &dyn Disk) -> Result<()> {
    for first_byte in 0..=u8::MAX {
        let folder = folder_path(first_byte);
        let names: BTreeSet<String> = disk.list(&folder)?.into_iter().map(|entry| entry.name).collect();
        for name in &names {
            let id = name.strip_suffix(SIDECAR_SUFFIX).unwrap_or(name);
            // Its data's turn comes before its sidecar's, and deals with both.
            let is_first = id == name || !names.contains(id);
            if let Some(block) = old_block(id).filter(|_| is_first)
                && let Some(copy) = which_copy(disk, &folder, block, &names)?
            {
                rename(disk, &folder.join(id), data_path(copy))?;
                rename(disk, &old_sidecar(&folder, block), sidecar_path(copy))?;
            }
        }
        disk.sync_folder(&folder, SyncPoint::Migrated)?;
    }
    Ok(())
}

fn old_block(name: &str) -> Option<BlockId> {
    name.parse::<BlockId>().ok().filter(|block| block.to_string() == name)
}

fn old_sidecar(folder: &Path, block: BlockId) -> PathBuf {
    folder.join(format!("{block}{SIDECAR_SUFFIX}"))
}

/// Which copy of the block lies here: its sidecar says it, or the new name that the sidecar has already.
fn which_copy(
    disk: &dyn Disk,
    folder: &Path,
    block: BlockId,
    names: &BTreeSet<String>,
) -> Result<Option<CopyId>> {
    if !names.contains(&format!("{block}{SIDECAR_SUFFIX}")) {
        return Ok(renamed_sidecar(block, names));
    }
    match Sidecar::load_of(disk.open(&old_sidecar(folder, block))?, block) {
        Ok(sidecar) => Ok(Some(CopyId { block, generation: sidecar.meta.generation })),
        Err(error @ StoreError::Corrupt { .. }) => {
            tracing::warn!(%error, "which copy of the block it is cannot be told: its files keep their names");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// A sidecar of the block that has its new name, and whose data have not.
fn renamed_sidecar(block: BlockId, names: &BTreeSet<String>) -> Option<CopyId> {
    let prefix = format!("{block}.");
    names.iter().find_map(|name| {
        let generation = name.strip_prefix(&prefix)?.strip_suffix(SIDECAR_SUFFIX)?.parse().ok()?;
        let copy = CopyId { block, generation };
        (!names.contains(&copy.to_string())).then_some(copy)
    })
}

/// Renames what is there, unless the new name is taken.
fn rename(disk: &dyn Disk, from: &Path, to: PathBuf) -> Result<()> {
    if disk.exists(from)? && !disk.exists(&to)? {
        disk.rename(from, &to)?;
    }
    Ok(())
}
