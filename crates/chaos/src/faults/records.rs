//! What nodes keep of the catalog, and who they are: damaged while they are down.

use super::catalog::is_soon_believed;
use super::{DONE, NO_MARGIN, NOTHING, Outcome, last};
use crate::cluster::{Daemon, Started, records_of};
use crate::damage;
use crate::disks;
use crate::plan::RecordsDamage;
use crate::violation::Kind;
use crate::world::World;
use anyhow::Result;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rustix::process::Signal;
use std::fs;
use std::path::PathBuf;

/// Afterwards the coordinator has found out, and sent what is missing: a node that was down for so short a time that nobody
/// missed it says at once what it has. What else hurts the catalog or its records waits for that.
const FED_MS: u64 = 2_000;

/// In a node's folder of data.
const IDENTITY: &str = "identity";

/// A refusal names one of these: what cannot be used.
const REFUSALS: [&str; 2] = ["identity", "version"];

/// At most `count` nodes at a time. Three nodes keep records, and two of them suffice to make the catalog of; where more than
/// one is hurt, the catalog's own file is not hurt meanwhile (`Fault::hurts_history`).
pub(super) fn hurt(
    world: &World,
    nodes: &[u32],
    count: usize,
    damage: RecordsDamage,
    for_ms: u64,
    draw: u64,
) -> Outcome {
    // From a catalog that is in doubt nothing that is lost here could be sent again.
    if !is_soon_believed(world)? {
        return Ok(NO_MARGIN);
    }
    let keeps = |node: &&u32| records_of(world.cluster.daemon(**node)).is_ok_and(|files| !files.is_empty());
    let nodes: Vec<u32> = nodes.iter().filter(keeps).take(count).copied().collect();
    let daemons = || nodes.iter().map(|node| world.cluster.daemon(*node));
    let mut before: Vec<PathBuf> = Vec::new();
    if let RecordsDamage::Back { by_ms } = damage {
        for daemon in daemons() {
            let _held = world.hold(Some(vec![daemon.number]));
            before.push(photograph(world, daemon)?);
        }
        last(by_ms);
    }
    let held = world.hold(Some(nodes.clone()));
    daemons().try_for_each(|daemon| world.cluster.kill(daemon))?;
    let mut is_done = false;
    for (at, daemon) in daemons().enumerate() {
        is_done |= match before.get(at) {
            Some(photo) => set_back(world, daemon, photo)?,
            None => hurt_one(world, daemon, damage == RecordsDamage::Bit, draw ^ u64::from(daemon.number))?,
        };
    }
    last(for_ms);
    for daemon in daemons() {
        world.start(daemon, false)?;
    }
    drop(held);
    last(FED_MS);
    Ok(if is_done { DONE } else { NOTHING })
}

/// Copies a node's records as they are at one moment.
fn photograph(world: &World, daemon: &Daemon) -> Result<PathBuf> {
    let (records, photo) = (daemon.records(), world.scratch());
    daemon.signal(Signal::STOP);
    let copied = if records.is_dir() { world.hurt.copy_tree(&records, &photo) } else { Ok(()) };
    daemon.signal(Signal::CONT);
    copied.map(|()| photo)
}

/// A node's records become what they were. False if there were none.
fn set_back(world: &World, daemon: &Daemon, photo: &PathBuf) -> Result<bool> {
    if !photo.is_dir() {
        return Ok(false);
    }
    let records = daemon.records();
    if records.is_dir() {
        disks::empty(&records)?;
    }
    world.hurt.copy_tree(photo, &records)?;
    fs::remove_dir_all(photo)?;
    world.tell(format!("{} is what it was", records.display()));
    Ok(true)
}

/// Flips a bit of one of a node's files, or cuts it. False if it has none by now.
fn hurt_one(world: &World, daemon: &Daemon, is_flip: bool, draw: u64) -> Result<bool> {
    let (files, mut random) = (records_of(daemon)?, StdRng::seed_from_u64(draw));
    let Some((file, _)) = files.choose(&mut random) else { return Ok(false) };
    let mut bytes = fs::read(file)?;
    let is_done = match is_flip {
        true => !damage::flip_bits(&mut bytes, 1, &mut random).is_empty(),
        false => damage::cut_tail(&mut bytes, &mut random).is_some(),
    };
    fs::write(file, bytes)?;
    world.tell(format!("hurt {}", file.display()));
    Ok(is_done)
}

/// The store of a damaged identity must not start, and say why; with the whole one it does.
pub(super) fn hurt_identity(world: &World, node: u32, for_ms: u64, draw: u64) -> Outcome {
    let (daemon, mut random) = (world.cluster.daemon(node), StdRng::seed_from_u64(draw));
    world.cluster.kill(daemon)?;
    let path = daemon.data().join(IDENTITY);
    let Ok(whole) = fs::read(&path) else {
        // It was killed before it had ever one.
        world.start(daemon, false)?;
        return Ok(NOTHING);
    };
    let mut bytes = whole.clone();
    let places = damage::flip_bits(&mut bytes, 1, &mut random);
    fs::write(&path, &bytes)?;
    world.tell(format!("hurt {}: a bit at {places:?}", path.display()));
    let started = world.cluster.start(daemon, false)?;
    world.tell(format!(
        "node-{node} with a damaged identity: {started:?}, exit code {:?}",
        daemon.exit_code()
    ));
    if let Err((kind, what)) = judge(&started, daemon.exit_code(), daemon.is_alone()) {
        world.violated(kind, format!("node-{node}, its identity damaged at {places:?}: {what}"));
    }
    last(for_ms);
    world.cluster.kill(daemon)?;
    fs::write(&path, &whole)?;
    world.start(daemon, false)?;
    Ok(DONE)
}

/// Whether a start with a damaged identity ended as it must. A process of several stores goes on for the others.
fn judge(started: &Started, exit_code: Option<i32>, is_alone: bool) -> Result<(), (Kind, String)> {
    match started {
        Started::Silent => Err((Kind::Hang, "it neither listens nor ends".to_owned())),
        Started::Ready => Err((Kind::UntrueStatus, "it starts as if nothing was wrong".to_owned())),
        Started::Ended(why) if why.contains("panicked") => Err((Kind::Panic, why.clone())),
        Started::Ended(why) if !REFUSALS.iter().any(|word| why.contains(word)) => {
            Err((Kind::UntrueStatus, format!("it does not say what is wrong: {why}")))
        }
        Started::Ended(_) if is_alone && exit_code.is_none_or(|code| code == 0) => {
            Err((Kind::UntrueStatus, format!("it refuses, and ends with {exit_code:?}")))
        }
        Started::Ended(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_refusal_that_says_why_is_right() {
        let kind = |started, code, is_alone| judge(&started, code, is_alone).err().map(|(kind, _)| kind);
        let ended = |why: &str| Started::Ended(why.to_owned());
        let refused =
            || ended("error: the block store's identity file is unusable: its checksum does not hold");
        assert_eq!(kind(refused(), Some(1), true), None);
        assert_eq!(kind(ended("error: the block store is of version 3"), Some(1), true), None);
        assert_eq!(kind(refused(), None, false), None, "a process of two stores goes on");
        assert_eq!(kind(refused(), Some(0), true), Some(Kind::UntrueStatus));
        assert_eq!(kind(refused(), None, true), Some(Kind::UntrueStatus), "killed by a signal");
        assert_eq!(kind(ended("it said nothing"), Some(1), true), Some(Kind::UntrueStatus));
        assert_eq!(kind(Started::Ready, None, true), Some(Kind::UntrueStatus));
        assert_eq!(kind(Started::Silent, None, true), Some(Kind::Hang));
        assert_eq!(kind(ended("thread 'main' panicked: identity"), Some(101), true), Some(Kind::Panic));
    }
}
