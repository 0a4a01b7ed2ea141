//! The catalog's file: damaged while the coordinator is down.
//!
//! A damaged file is made again from what nodes keep, and nodes get each change a moment after the file. So nothing may be
//! under way when the coordinator ends, or a change would be in the damaged file alone, which nobody can be held to have. A
//! clean stop sees to that: it brings the nodes that keep records up to date before it ends. A kill does not, so it comes only
//! once no client works and what nodes keep has stayed the same for a second.

use super::folders::{all_live, start_all};
use super::lives::end;
use super::{DONE, NO_MARGIN, NOTHING, Outcome, last};
use crate::catalog::{View, vanished};
use crate::cluster::COMPARE_EVERY_MS;
use crate::command::Deadline;
use crate::damage;
use crate::disks;
use crate::plan::CatalogDamage;
use crate::violation::Kind;
use crate::work::get;
use crate::world::{World, object_name};
use anyhow::{Context, Result};
use rand::SeedableRng;
use rand::rngs::StdRng;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::PoisonError;
use std::time::Duration;

/// In the coordinator's folder of data.
const FILE: &str = "catalog.redb";

/// The coordinator says so in its log if it ends before nodes keep all of its changes.
const BEHIND: &str = "not everything is kept by other nodes";

/// The damage was left out: a change would have been in the file alone.
const NOT_KEPT: &str = "left out: nodes lack changes";

/// What nodes keep must be the same for this time before a kill …
const QUIET: Duration = Duration::from_secs(1);

/// … which must come within this time: work in the background goes on without clients.
const QUIET_PATIENCE: Duration = Duration::from_secs(6);

/// A wrong deletion comes within a comparison, the grace of deletions, and this time.
const WATCHED_MS: u64 = 1_000;

/// Other faults of this kind wait so long for the catalog to be as it should be. Whether it is at the end is looked at there.
const MENDED_PATIENCE: Duration = Duration::from_secs(15);

/// Safe mode that does not come back in this time is over: a check that has not begun yet does not say so.
const MENDED_FOR: Duration = Duration::from_secs(1);

/// Before something is hurt, safe mode may take so long to end.
const BELIEVED_PATIENCE: Duration = Duration::from_secs(4);

const POLL: Duration = Duration::from_millis(200);

pub(super) fn hurt(
    world: &World,
    damage: CatalogDamage,
    is_killed: bool,
    is_watched: bool,
    draw: u64,
) -> Outcome {
    let file = world.cluster.daemon(0).data().join(FILE);
    let mut before = Vec::new();
    if let CatalogDamage::Pages { by_ms, .. } = damage {
        before = at_a_stop(world, &file)?;
        last(by_ms);
    }
    let outcome = {
        // Clients go on while other faults come to their end. What takes these two the other way round is none of those that
        // happen beside this one (`Fault::hurts_history`).
        let _held = world.hold(None);
        let _silence = world.working.write().unwrap_or_else(PoisonError::into_inner);
        hurt_alone(world, &file, damage, &before, (is_killed, is_watched), draw)?
    };
    if outcome == DONE {
        world.count("safe mode after damage is over", mended(world)?);
    }
    Ok(outcome)
}

/// The file as it is at a clean stop of the coordinator, which starts again.
fn at_a_stop(world: &World, file: &Path) -> Result<Vec<u8>> {
    let _held = world.hold(Some(vec![0]));
    end(world, 0)?;
    // Another fault may have left no coordinator, and no file.
    let bytes = fs::read(file).unwrap_or_default();
    world.start(world.cluster.daemon(0), false)?;
    Ok(bytes)
}

/// Stops, damages and starts, while no client works and no other fault lasts.
fn hurt_alone(
    world: &World,
    file: &Path,
    damage: CatalogDamage,
    before: &[u8],
    (is_killed, is_watched): (bool, bool),
    draw: u64,
) -> Outcome {
    let coordinator = world.cluster.daemon(0);
    start_all(world)?;
    if !all_live(world)? {
        return Ok(NOTHING);
    }
    if !is_soon_believed(world)? {
        return Ok(NO_MARGIN);
    }
    let known = if is_watched { world.view()?.map(|view| (view, world.whole_copies())) } else { None };
    let log_bytes = coordinator.log().len();
    let is_kept = if is_killed && is_quiet(world)? {
        world.tell("nothing is under way: the coordinator is killed");
        world.cluster.kill(coordinator)?;
        is_kept(world, file)?
    } else {
        end(world, 0)?;
        !coordinator.log().get(log_bytes..).is_some_and(|said| said.contains(BEHIND))
    };
    if !is_kept {
        world.start(coordinator, false)?;
        return Ok(NOT_KEPT);
    }
    let done = write_damage(world, file, damage, before, draw)?;
    if !world.start(coordinator, false)? {
        let why = coordinator.log().lines().last().unwrap_or_default().to_owned();
        let what = format!("the coordinator does not start over a damaged file of the catalog: {why}");
        world.violated(Kind::NotEnded, what);
    }
    if let Some((view, whole)) = known.filter(|_| done) {
        watch(world, &view, &whole?)?;
    }
    Ok(if done { DONE } else { NOTHING })
}

/// Whether what nodes keep of the catalog stays the same for a while, by the lengths of their files.
fn is_quiet(world: &World) -> Result<bool> {
    let deadline = Deadline::after(QUIET_PATIENCE);
    let (mut kept, mut quiet) = (world.kept_records()?, Deadline::after(QUIET));
    while !deadline.is_over() {
        std::thread::sleep(POLL);
        let now = world.kept_records()?;
        if now != kept {
            (kept, quiet) = (now, Deadline::after(QUIET));
        } else if quiet.is_over() {
            return Ok(!kept.is_empty());
        }
    }
    Ok(false)
}

/// Whether some node wrote what it keeps of the catalog after the catalog's file was written last. A coordinator that is killed between the
/// two has acknowledged a change that its own disk alone has. One that ends in order writes its file last, and says itself what nodes lack.
fn is_kept(world: &World, file: &Path) -> Result<bool> {
    let written = |path: &Path| fs::metadata(path).and_then(|of_file| of_file.modified()).ok();
    let kept = world.kept_records()?;
    Ok(kept.iter().filter_map(|(path, _)| written(path)).max() >= written(file))
}

/// Damages the file in place. False if there was nothing to damage.
fn write_damage(world: &World, file: &Path, damage: CatalogDamage, before: &[u8], draw: u64) -> Result<bool> {
    let mut bytes = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let mut random = StdRng::seed_from_u64(draw);
    let (what, places) = match damage {
        CatalogDamage::Bits { count } => ("bits at", damage::flip_bits(&mut bytes, count, &mut random)),
        CatalogDamage::RowBits { count } => {
            ("bits near keys at", damage::flip_near(&mut bytes, &keys(world)?, count, &mut random))
        }
        CatalogDamage::RowEverywhere => {
            ("a bit near each place of a key:", damage::flip_near_all(&mut bytes, &keys(world)?, &mut random))
        }
        CatalogDamage::Pages { count, .. } => {
            ("pages set back:", damage::put_back_pages(&mut bytes, before, count, &mut random))
        }
    };
    world.tell(format!("the catalog's file, {} bytes: {what} {places:?}", bytes.len()));
    File::options().write(true).open(file)?.write_all_at(&bytes, 0)?;
    Ok(!places.is_empty())
}

/// Ids of the blocks that lie on disks, as rows have them, and names of objects.
fn keys(world: &World) -> Result<Vec<Vec<u8>>> {
    let mut blocks = BTreeSet::new();
    for node in world.cluster.nodes() {
        blocks.extend(disks::find(&node.folder)?.files.into_iter().map(|file| file.block));
    }
    let names = (0..world.objects.len()).map(|object| object_name(object).into_bytes());
    Ok(blocks.iter().filter_map(|block| damage::of_hex(block)).chain(names).collect())
}

/// Every object is read, each answer judged; and of what was counted on before nothing may go that is still needed.
fn watch(world: &World, view: &View, whole: &BTreeSet<(String, u32)>) -> Result<()> {
    let grace_ms = COMPARE_EVERY_MS + world.plan.shape.garbage_grace_ms + WATCHED_MS;
    let until = Deadline::after(Duration::from_millis(grace_ms));
    for object in 0..world.objects.len() {
        let mut outcome = get(world, object, None)?;
        // Nodes come back to a coordinator that has started within a heartbeat or two.
        while outcome == "failed" && !until.is_over() {
            std::thread::sleep(POLL);
            outcome = get(world, object, None)?;
        }
        world.count("read after damage", outcome);
    }
    std::thread::sleep(until.left());
    // Looked at before the catalog is asked: what it says then is why they may be gone.
    let now = world.whole_copies()?;
    let after = world.view()?;
    let gone = vanished(view, whole, &now, after.as_ref());
    if let Some(first) = gone.first() {
        let what = format!(
            "copies of {} blocks that were counted on are gone after the catalog's file was damaged: {first}",
            gone.len()
        );
        world.violated(Kind::Unaccounted, what);
    }
    world.count("copies after damage", if gone.is_empty() { "all there" } else { "gone" });
    Ok(())
}

/// Whether the coordinator answers, and does not doubt its catalog, within a moment: one that has just started may need it.
pub(super) fn is_soon_believed(world: &World) -> Result<bool> {
    let deadline = Deadline::after(BELIEVED_PATIENCE);
    while !is_believed(world)? {
        if deadline.is_over() {
            return Ok(false);
        }
        std::thread::sleep(POLL);
    }
    Ok(true)
}

fn is_believed(world: &World) -> Result<bool> {
    let status = world.ask_json(&["cluster", "status"])?;
    Ok(status.is_some_and(|status| status["safe_mode"].as_str().is_none_or(str::is_empty)))
}

/// Waits until the coordinator does not doubt its catalog any more. How that went, for the tally.
fn mended(world: &World) -> Result<&'static str> {
    let deadline = Deadline::after(MENDED_PATIENCE);
    let mut since = None;
    while !deadline.is_over() {
        if !is_believed(world)? {
            since = None;
        } else if since.get_or_insert_with(|| Deadline::after(MENDED_FOR)).is_over() {
            return Ok("soon");
        }
        std::thread::sleep(POLL);
    }
    Ok("not soon")
}
