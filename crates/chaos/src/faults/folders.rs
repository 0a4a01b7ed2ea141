//! Folders of daemons: cloned, set back, swapped, lost.

use super::lives::end;
use super::{DONE, NO_MARGIN, NOTHING, Outcome, last};
use crate::cluster::Daemon;
use crate::command::PATIENCE;
use crate::disks;
use crate::violation::Kind;
use crate::world::{World, locked};
use anyhow::Result;
use rustix::process::Signal;
use std::fs;
use std::path::Path;
use std::sync::PoisonError;
use std::time::Instant;

/// Copies that must be left of what a folder that is set back forgets.
const MARGIN: usize = 2;

/// Copies a daemon's folder as it is at one moment.
fn photograph(world: &World, daemon: &Daemon, to: &Path) -> Result<()> {
    daemon.signal(Signal::STOP);
    let copied = world.hurt.copy_tree(&daemon.data(), to);
    daemon.signal(Signal::CONT);
    copied
}

fn restore(world: &World, from: &Path, daemon: &Daemon) -> Result<()> {
    disks::empty(&daemon.data())?;
    world.hurt.copy_tree(from, &daemon.data())?;
    Ok(fs::remove_dir_all(from)?)
}

pub(super) fn set_back_node(world: &World, node: u32, by_ms: u64) -> Outcome {
    let (daemon, photo) = (world.cluster.daemon(node), world.scratch());
    {
        let _held = world.hold(Some(vec![node]));
        photograph(world, daemon, &photo)?;
    }
    last(by_ms);
    let _held = world.hold(Some(vec![node]));
    let _destroying = locked(&world.destroying);
    world.cluster.kill(daemon)?;
    let outcome = match may_forget(world, node, &photo)? {
        true => restore(world, &photo, daemon).map(|()| DONE)?,
        false => fs::remove_dir_all(&photo).map(|()| NO_MARGIN)?,
    };
    world.start(daemon, false)?;
    Ok(outcome)
}

/// Whether whatever is counted on at a node, and is not in a folder, can be had without it.
fn may_forget(world: &World, node: u32, folder: &Path) -> Result<bool> {
    let Some(view) = world.view()? else { return Ok(false) };
    let whole = world.whole_copies()?;
    let kept: Vec<String> = disks::find(folder)?.files.into_iter().map(|file| file.block).collect();
    let mut forgotten = view.places.iter().filter(|(block, at)| *at == node && !kept.contains(block));
    Ok(forgotten.all(|(block, _)| view.margin(block, |place| whole.contains(place)) >= MARGIN))
}

pub(super) fn set_back_coordinator(world: &World, by_ms: u64) -> Outcome {
    let (daemon, photo) = (world.cluster.daemon(0), world.scratch());
    {
        let _held = world.hold(Some(vec![0]));
        photograph(world, daemon, &photo)?;
    }
    last(by_ms);
    let _held = world.hold(Some(vec![0]));
    world.cluster.kill(daemon)?;
    restore(world, &photo, daemon)?;
    world.start(daemon, false)?;
    Ok(DONE)
}

/// What was acknowledged since is gone with the cluster, rightly: names stand for what they stood for.
pub(super) fn set_back_cluster(world: &World, by_ms: u64) -> Outcome {
    let photo = world.scratch();
    let cluster = &world.cluster;
    let names = {
        let _silence = world.working.write().unwrap_or_else(PoisonError::into_inner);
        let _held = world.hold(None);
        cluster.kill_all()?;
        for daemon in cluster.daemons() {
            world.hurt.copy_tree(&daemon.data(), &photo.join(daemon.number.to_string()))?;
        }
        start_all(world)?;
        world.names()
    };
    last(by_ms);
    let _silence = world.working.write().unwrap_or_else(PoisonError::into_inner);
    let _held = world.hold(None);
    cluster.kill_all()?;
    for daemon in cluster.daemons() {
        restore(world, &photo.join(daemon.number.to_string()), daemon)?;
    }
    world.set_back_names(names);
    start_all(world)?;
    Ok(DONE)
}

pub(super) fn start_all(world: &World) -> Result<()> {
    for daemon in world.cluster.daemons() {
        if !daemon.runs() {
            world.start(daemon, false)?;
        }
    }
    Ok(())
}

pub(super) fn clone(world: &World, node: u32, for_ms: u64) -> Outcome {
    let (daemon, clone) = (world.cluster.daemon(node), world.cluster.beside(node));
    photograph(world, daemon, &clone.data())?;
    world.start(&clone, false)?;
    last(for_ms);
    world.cluster.kill(&clone)?;
    end_of_beside(world, &clone);
    let _destroying = locked(&world.destroying);
    if !may_forget(world, node, &daemon.data())? {
        // What was written to the clone alone goes to the node, as far as it is needed.
        world.cluster.kill(daemon)?;
        world.hurt.move_back(&clone.data().join("blocks"), &daemon.data().join("blocks"))?;
        world.start(daemon, false)?;
    }
    fs::remove_dir_all(&clone.folder)?;
    Ok(DONE)
}

/// The log of a further process goes with its folder.
fn end_of_beside(world: &World, daemon: &Daemon) {
    if let Some(line) = daemon.log().lines().find(|line| line.contains("panicked")) {
        world.violated(Kind::Panic, format!("{}: {line}", daemon.folder.display()));
    }
}

pub(super) fn swap(world: &World, nodes: [u32; 2], for_ms: u64) -> Outcome {
    let cluster = &world.cluster;
    let daemons = nodes.map(|node| cluster.daemon(node));
    if nodes.iter().any(|node| cluster.has_small_disk(*node)) {
        return Ok(NOTHING);
    }
    let exchange = || {
        let between = daemons[0].folder.join("between");
        fs::rename(daemons[0].data(), &between)?;
        fs::rename(daemons[1].data(), daemons[0].data())?;
        fs::rename(&between, daemons[1].data())
    };
    for wait_ms in [for_ms, 0] {
        daemons.iter().try_for_each(|daemon| cluster.kill(daemon))?;
        exchange()?;
        for daemon in daemons {
            world.start(daemon, false)?;
        }
        last(wait_ms);
    }
    Ok(DONE)
}

pub(super) fn second_coordinator(world: &World, nodes: &[u32], by_ms: u64, for_ms: u64) -> Outcome {
    let second = world.cluster.beside(0);
    {
        let _held = world.hold(Some(vec![0]));
        photograph(world, world.cluster.daemon(0), &second.data())?;
    }
    last(by_ms);
    let _held = world.hold(Some([&[0], nodes].concat()));
    let runs = world.start(&second, true)?;
    if runs {
        for &node in nodes {
            end(world, node)?;
            world.start(world.cluster.daemon(node), true)?;
        }
        last(for_ms);
    }
    world.cluster.kill(&second)?;
    end_of_beside(world, &second);
    fs::remove_dir_all(&second.folder)?;
    for &node in nodes {
        end(world, node)?;
        world.start(world.cluster.daemon(node), false)?;
    }
    Ok(DONE)
}

/// The coordinator's disk is lost, once, while everything else is right: nodes keep its catalog.
pub(super) fn lose_catalog(world: &World) -> Outcome {
    start_all(world)?;
    if !all_live(world)? {
        return Ok(NOTHING);
    }
    let coordinator = world.cluster.daemon(0);
    world.cluster.kill(coordinator)?;
    disks::empty(&coordinator.data())?;
    world.start(coordinator, false)?;
    if !all_live(world)? {
        world.violated(Kind::NotEnded, "nodes do not come back to a coordinator that lost its catalog");
    }
    Ok(DONE)
}

/// Waits until every node lives. False if that does not come.
pub fn all_live(world: &World) -> Result<bool> {
    let deadline = Instant::now() + PATIENCE / 3;
    while Instant::now() < deadline {
        let status = world.ask_json(&["cluster", "status"])?.unwrap_or_default();
        let nodes = status["nodes"].as_array().map(Vec::as_slice).unwrap_or_default();
        let living = nodes.iter().filter(|node| node["living"] == true).count();
        if living == world.plan.shape.nodes as usize {
            return Ok(true);
        }
        last(100);
    }
    Ok(false)
}
