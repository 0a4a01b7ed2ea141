//! Makes copies on running nodes unreadable for a while, without changing them. No margin is needed.

use super::files::{Versions, drawn, from_future, to_future};
use super::{DONE, NO_COMPILER, NOTHING, Outcome, last};
use crate::catalog::Place;
use crate::disks::{self, BlockFile};
use crate::plan::{Files, Unread, Unreadable};
use crate::shim::{EACCES, EIO, Number, is_drawn, set};
use crate::world::World;
use anyhow::Result;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

pub(super) fn happens(world: &World, unread: &Unread, for_ms: u64, draw: u64) -> Outcome {
    let begun = match begin(world, unread, draw)? {
        Ok(begun) => begun,
        Err(outcome) => return Ok(outcome),
    };
    last(for_ms);
    end(world, begun)?;
    Ok(DONE)
}

/// The changes that `end` undoes.
pub(super) struct Begun {
    versions: Versions,
    /// Folders of steered processes, each with the number that sets how many files they cannot read.
    steered: Vec<(PathBuf, Number)>,
}

/// Makes copies unreadable; the inner error says why nothing was done.
pub(super) fn begin(
    world: &World,
    unread: &Unread,
    draw: u64,
) -> Result<std::result::Result<Begun, &'static str>> {
    let mut begun = Begun { versions: Versions::new(), steered: Vec::new() };
    if unread.why == Unreadable::Versions {
        for &node in &unread.nodes {
            begun.versions.extend(change_versions(world, node, unread.permille, draw)?);
        }
        return Ok(if begun.versions.is_empty() { Err(NOTHING) } else { Ok(begun) });
    }
    if !world.cluster.has_shim() {
        return Ok(Err(NO_COMPILER));
    }
    for &node in &unread.nodes {
        let folder = world.cluster.process_folder(world.cluster.daemon(node));
        let how_many = steer(&folder, unread, draw)?;
        begun.steered.push((folder, how_many));
    }
    Ok(Ok(begun))
}

pub(super) fn end(world: &World, begun: Begun) -> Result<()> {
    for (folder, how_many) in begun.steered {
        set(&folder, &[(how_many, 0)])?;
    }
    from_future(world, begun.versions)
}

/// Makes a process's files unreadable. Returns the number that ends it when set to 0.
fn steer(folder: &Path, unread: &Unread, draw: u64) -> Result<Number> {
    let error = match unread.why {
        Unreadable::Folders | Unreadable::Copies | Unreadable::Versions => EIO,
        Unreadable::FoldersRefused | Unreadable::CopiesRefused => EACCES,
    };
    let (draws, errno, how_many) = match unread.why {
        Unreadable::Folders | Unreadable::FoldersRefused => {
            (Number::FolderDraw, Number::FolderErrno, Number::FolderPermille)
        }
        _ => (Number::OpenDraw, Number::OpenErrno, Number::OpenPermille),
    };
    // The permille is set last, because the other numbers select the files and the error.
    let numbers = [(draws, draw.cast_signed()), (errno, error), (how_many, unread.permille.into())];
    set(folder, &numbers)?;
    Ok(how_many)
}

/// Returns the copies that cannot be read, by block and node. The result depends only on the arguments and on which files exist.
pub(super) fn places(world: &World, unread: &Unread, draw: u64, begun: &Begun) -> Result<BTreeSet<Place>> {
    let mut places = BTreeSet::new();
    for daemon in world.cluster.nodes() {
        let is_steered =
            begun.steered.iter().any(|(folder, _)| *folder == world.cluster.process_folder(daemon));
        for file in disks::find(&daemon.data())?.files {
            let is_unread = match unread.why {
                Unreadable::Versions => begun.versions.iter().any(|(path, _)| *path == file.path),
                Unreadable::Folders | Unreadable::FoldersRefused => {
                    is_steered && is_drawn(&file.block[..2], draw, unread.permille)
                }
                Unreadable::Copies | Unreadable::CopiesRefused => {
                    is_steered && is_drawn(&file.block, draw, unread.permille)
                }
            };
            if is_unread {
                places.insert((file.block, daemon.number));
            }
        }
    }
    Ok(places)
}

fn change_versions(world: &World, node: u32, permille: u32, draw: u64) -> Result<Versions> {
    let mut random = StdRng::seed_from_u64(draw ^ u64::from(node));
    let mut sidecars: Vec<BlockFile> = drawn(world, node, Files::Sidecars, draw)?;
    sidecars.retain(|_| random.random_ratio(permille.min(1000), 1000));
    to_future(sidecars.into_iter())
}
