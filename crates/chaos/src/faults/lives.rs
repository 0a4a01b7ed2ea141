//! Processes and their connections: killed, stopped, cut off, starved.

use super::{DONE, NOTHING, Outcome, STOPPED, last};
use crate::command::open_files;
use crate::world::World;
use anyhow::Result;
use rustix::process::{Pid, Resource, Rlimit, Signal, prlimit};

pub(super) fn kill(world: &World, nodes: &[u32], for_ms: u64) -> Outcome {
    let cluster = &world.cluster;
    nodes.iter().try_for_each(|node| cluster.kill(cluster.daemon(*node)))?;
    last(for_ms);
    for node in nodes {
        world.start(cluster.daemon(*node), false)?;
    }
    Ok(DONE)
}

pub(super) fn restart(world: &World, node: u32) -> Outcome {
    end(world, node)?;
    world.start(world.cluster.daemon(node), false)?;
    Ok(DONE)
}

/// Asks a daemon to end; one that does not is a violation.
pub(super) fn end(world: &World, node: u32) -> Result<()> {
    if !world.cluster.end(world.cluster.daemon(node))? {
        world.violated(crate::violation::Kind::Hang, format!("daemon {node} does not end when asked"));
    }
    Ok(())
}

pub(super) fn stop(world: &World, node: u32, for_ms: u64) -> Outcome {
    world.cluster.daemon(node).signal(Signal::STOP);
    last(for_ms);
    world.cluster.daemon(node).signal(Signal::CONT);
    Ok(DONE)
}

pub(super) fn cut_connections(world: &World, node: u32) -> Outcome {
    let Some(network) = &world.cluster.network else { return Ok(NOTHING) };
    network.cut_connections(world.cluster.daemon(node).leader())?;
    Ok(DONE)
}

pub(super) fn partition(world: &World, node: u32, for_ms: u64) -> Outcome {
    let Some(network) = &world.cluster.network else {
        stop(world, node, for_ms)?;
        return Ok(STOPPED);
    };
    let node = world.cluster.daemon(node).leader();
    network.set_reachable(node, false)?;
    last(for_ms);
    network.set_reachable(node, true)?;
    Ok(DONE)
}

pub(super) fn cut_pair(world: &World, [a, b]: [u32; 2], for_ms: u64) -> Outcome {
    let Some(network) = &world.cluster.network else {
        stop(world, a, for_ms)?;
        return Ok(STOPPED);
    };
    let [a, b] = [a, b].map(|node| world.cluster.daemon(node).leader());
    if a == b {
        return Ok(NOTHING);
    }
    network.set_pair_cut(a, b, true)?;
    last(for_ms);
    network.set_pair_cut(a, b, false)?;
    Ok(DONE)
}

/// Whatever a process has open stays so; it can open `free` files more. The limit is lifted again, if it still lives.
pub(super) fn few_descriptors(
    world: &World,
    node: u32,
    free: u64,
    for_ms: u64,
    restart_coordinator: bool,
) -> Outcome {
    let daemon = world.cluster.daemon(node);
    let pid = daemon.pid().and_then(|pid| Some((pid, Pid::from_raw(i32::try_from(pid).ok()?)?)));
    let Some((pid, handle)) = pid else { return Ok(NOTHING) };
    let limits = rustix::process::getrlimit(Resource::Nofile);
    let few = Rlimit { current: Some(open_files(pid) + free), ..limits };
    if prlimit(Some(handle), Resource::Nofile, few).is_err() {
        return Ok(NOTHING);
    }
    if restart_coordinator {
        restart(world, 0)?;
    }
    last(for_ms);
    if daemon.pid() == Some(pid) {
        let many = Rlimit { current: limits.maximum, ..limits };
        // It may have ended just now.
        let _ = prlimit(Some(handle), Resource::Nofile, many);
    }
    Ok(DONE)
}
