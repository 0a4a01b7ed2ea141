//! Files of one node: hidden, hurt, from the future, out of reach; a full disk.

use super::{DONE, NO_MARGIN, NOTHING, Outcome, last};
use crate::cluster::Daemon;
use crate::disks::{self, BlockFile};
use crate::plan::Files;
use crate::world::{World, locked};
use anyhow::Result;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Copies that must be left beside one that is hurt, so that what is under way at that moment has room to go wrong too.
const MARGIN: usize = 2;

/// Where the version of a sidecar stands, and one that no program reads.
const VERSION_AT: u64 = 8;
const FUTURE: [u8; 2] = [0xee, 0xee];

/// Folder beside a node's data that holds its blocks while they are hidden.
const TAKEN: &str = "taken";

impl Files {
    fn has(self, file: &BlockFile) -> bool {
        match self {
            Files::Pairs => true,
            Files::Data => !file.is_sidecar,
            Files::Sidecars => file.is_sidecar,
        }
    }
}

/// A node's files of blocks in an order that `draw` says.
pub(super) fn drawn(world: &World, node: u32, files: Files, draw: u64) -> Result<Vec<BlockFile>> {
    let mut found = disks::find(&world.cluster.daemon(node).data())?.files;
    found.retain(|file| files.has(file));
    found.shuffle(&mut StdRng::seed_from_u64(draw));
    Ok(found)
}

pub(super) fn hide(world: &World, node: u32, files: Files, permille: u32, for_ms: u64, draw: u64) -> Outcome {
    let daemon = world.cluster.daemon(node);
    let (data, hidden) = (daemon.data(), daemon.folder.join("hidden"));
    world.cluster.kill(daemon)?;
    let mut random = StdRng::seed_from_u64(draw);
    // Both files of a copy share their fate.
    let mut copies = BTreeSet::new();
    for file in disks::find(&data)?.files {
        if random.random_ratio(permille.min(1000), 1000) {
            copies.insert(file.copy);
        }
    }
    for file in disks::find(&data)?.files {
        if copies.contains(&file.copy) && files.has(&file) {
            world.hurt.move_file(&file.path, &hidden.join(file.path.strip_prefix(&data)?))?;
        }
    }
    world.start(daemon, false)?;
    last(for_ms);
    world.cluster.kill(daemon)?;
    world.hurt.move_back(&hidden, &data)?;
    world.start(daemon, false)?;
    Ok(if copies.is_empty() { NOTHING } else { DONE })
}

/// Flips a byte of some files, or cuts them.
pub(super) fn hurt(world: &World, node: u32, files: Files, count: usize, draw: u64, flip: bool) -> Outcome {
    let _destroying = locked(&world.destroying);
    let Some(view) = world.view()? else { return Ok(NO_MARGIN) };
    let mut whole = world.whole_copies()?;
    let mut random = StdRng::seed_from_u64(draw);
    let (mut found, mut hurt) = (false, 0);
    for file in drawn(world, node, files, draw)? {
        if hurt == count {
            break;
        }
        found = true;
        let place = (file.block.clone(), node);
        let is_counted = view.places.contains(&place);
        if is_counted && view.margin(&file.block, |place| whole.contains(place)) < MARGIN {
            continue;
        }
        let result = match flip {
            true => world.hurt.flip(&file.path, random.random()),
            false => world.hurt.truncate(&file.path, random.random()),
        };
        // The node may have deleted or replaced it meanwhile.
        if result.is_ok() {
            world.tell(format!("hurt {}", file.path.display()));
            whole.remove(&place);
            hurt += 1;
        }
    }
    Ok(match (hurt, found) {
        (0, false) => NOTHING,
        (0, true) => NO_MARGIN,
        _ => DONE,
    })
}

pub(super) fn future_version(world: &World, node: u32, count: usize, for_ms: u64, draw: u64) -> Outcome {
    let daemon = world.cluster.daemon(node);
    world.cluster.kill(daemon)?;
    let sidecars = drawn(world, node, Files::Sidecars, draw)?;
    let before = to_future(sidecars.into_iter().take(count))?;
    if before.is_empty() {
        world.start(daemon, false)?;
        return Ok(NOTHING);
    }
    // It should refuse, and say so.
    world.start(daemon, false)?;
    last(for_ms);
    world.cluster.kill(daemon)?;
    from_future(world, before)?;
    world.start(daemon, false)?;
    Ok(DONE)
}

/// Sidecars and their former versions.
pub(super) type Versions = Vec<(PathBuf, [u8; 2])>;

/// Gives sidecars an unknown version. Leaves out those that are gone or truncated.
pub(super) fn to_future(sidecars: impl Iterator<Item = BlockFile>) -> Result<Versions> {
    let mut before = Vec::new();
    for file in sidecars {
        let mut version = [0; 2];
        let Ok(sidecar) = File::options().read(true).write(true).open(&file.path) else { continue };
        if sidecar.read_exact_at(&mut version, VERSION_AT).is_ok() {
            sidecar.write_all_at(&FUTURE, VERSION_AT)?;
            before.push((file.path, version));
        }
    }
    Ok(before)
}

/// Restores the former versions, except in sidecars that were rewritten.
pub(super) fn from_future(world: &World, before: Versions) -> Result<()> {
    for (path, version) in before {
        match File::options().read(true).write(true).open(&path) {
            Ok(sidecar) => {
                let mut now = [0; 2];
                // Written anew meanwhile: then it has its own.
                if sidecar.read_exact_at(&mut now, VERSION_AT).is_ok() && now == FUTURE {
                    sidecar.write_all_at(&version, VERSION_AT)?;
                }
            }
            Err(error) => world.tell(format!("a sidecar from the future is gone: {error}")),
        }
    }
    Ok(())
}

/// Moves all block files of a running node elsewhere.
pub(super) fn take_blocks(world: &World, daemon: &Daemon) -> Result<()> {
    let (data, taken) = (daemon.data(), daemon.folder.join(TAKEN));
    for file in disks::find(&data)?.files {
        let to = taken.join(file.path.strip_prefix(&data)?);
        let moved = world.hurt.move_file(&file.path, &to);
        // A file may be gone because the node deleted it.
        if file.path.exists() {
            moved?;
        }
    }
    Ok(())
}

/// Moves the block files back.
pub(super) fn give_blocks_back(world: &World, daemon: &Daemon) -> Result<()> {
    world.hurt.move_back(&daemon.folder.join(TAKEN), &daemon.data())
}

/// The folders `blocks` of a node, one for each store.
fn block_folders(data: &Path) -> Vec<PathBuf> {
    let mut candidates = vec![data.to_owned()];
    let entries = fs::read_dir(data).into_iter().flatten().flatten();
    candidates.extend(entries.map(|entry| entry.path()).filter(|path| path.is_dir()));
    candidates.into_iter().map(|path| path.join("blocks")).filter(|path| path.is_dir()).collect()
}

pub(super) fn folder_away(world: &World, node: u32, for_ms: u64) -> Outcome {
    let folders = block_folders(&world.cluster.daemon(node).data());
    for folder in &folders {
        fs::rename(folder, folder.with_extension("away"))?;
    }
    last(for_ms);
    for folder in &folders {
        let away = folder.with_extension("away");
        match folder.exists() {
            true => world.hurt.move_back(&away, folder)?,
            false => fs::rename(&away, folder)?,
        }
    }
    Ok(if folders.is_empty() { NOTHING } else { DONE })
}

pub(super) fn full_disk(world: &World, node: u32, left_bytes: u64, for_ms: u64) -> Outcome {
    if !world.cluster.has_small_disk(node) {
        return Ok(NOTHING);
    }
    let data = world.cluster.daemon(node).data();
    let path = data.join("filler");
    let stat = rustix::fs::statvfs(&data)?;
    let free = stat.f_bavail * stat.f_frsize;
    let mut file = File::create(&path)?;
    let zeros = vec![0; free.saturating_sub(left_bytes) as usize];
    // The node writes too: it may be full before.
    let _ = file.write_all(&zeros);
    last(for_ms);
    fs::remove_file(&path)?;
    Ok(DONE)
}

/// Data of all blocks are removed.
pub(super) fn vandalize(world: &World) -> Outcome {
    for node in world.cluster.nodes() {
        for file in disks::find(&node.data())?.files.iter().filter(|file| !file.is_sidecar) {
            fs::remove_file(&file.path)?;
        }
    }
    Ok(DONE)
}
