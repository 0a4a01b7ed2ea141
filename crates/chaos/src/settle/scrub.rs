//! Checks what a scrub finds at the end.

use super::{POLL, SAME_FOR};
use crate::command::Deadline;
use crate::disks;
use crate::status::nodes;
use crate::violation::Kind;
use crate::world::World;
use anyhow::Result;
use serde_json::{Value, json};
use std::time::Duration;

/// Scrubs until everything is sound or the time is up. `cluster status` must at least know of what is unsound then. Problems that it knows and
/// that no longer change are not waited for.
pub(super) fn settle(world: &World, quiet: Duration) -> Result<()> {
    let deadline = Deadline::after(quiet);
    let mut same: (Vec<Value>, Deadline) = (Vec::new(), Deadline::after(SAME_FOR));
    loop {
        let ran = world.ask(&["scrub"])?;
        if ran.is_ok() {
            return sound_is_not_hurt(world);
        }
        let lines = String::from_utf8_lossy(&ran.stdout).into_owned();
        let events = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let unsound = events.filter(|event| event["problem"].is_string());
        let unsound: Vec<Value> = unsound
            .map(|e| json!({"node": e["node"], "block": e["block"], "problem": e["problem"]}))
            .collect();
        if unsound != same.0 {
            same = (unsound.clone(), Deadline::after(SAME_FOR));
        }
        let status = world.ask_json(&["cluster", "status"])?.unwrap_or_default();
        let unknown: Vec<&Value> = unsound.iter().filter(|event| !is_known(&status, event)).collect();
        let in_vain = !unsound.is_empty() && unknown.is_empty() && same.1.is_over();
        if in_vain || deadline.is_over() {
            if unsound.is_empty() {
                world.violated(Kind::NotEnded, format!("scrub fails: {}", ran.stderr.trim()));
            }
            for event in unknown {
                world.violated(Kind::UntrueStatus, format!("unsound, and not in status: {event}"));
            }
            unsound.iter().for_each(|_| world.count("unsound at the end", "in status"));
            return Ok(());
        }
        std::thread::sleep(POLL);
    }
}

/// Whether status names a copy that scrub found unsound.
fn is_known(status: &Value, event: &Value) -> bool {
    let is_missing = event["problem"].as_str().is_some_and(|problem| problem.starts_with("missing"));
    if is_missing && status["lost_copies"].as_u64().unwrap_or(0) > 0 {
        return true;
    }
    let known = nodes(status).iter().filter(|node| node["node"] == event["node"]);
    let mut known = known.flat_map(|node| node["corrupt_blocks"].as_array().into_iter().flatten());
    // Status names copies as their files are named, by block and generation.
    let block = |copy: &Value| copy.as_str().and_then(|name| name.split('.').next()).map(str::to_owned);
    known.any(|copy| block(copy).is_some_and(|known| event["block"] == known))
}

/// Checks that scrub calls nothing sound that was damaged.
fn sound_is_not_hurt(world: &World) -> Result<()> {
    let Some(view) = world.view()? else { return Ok(()) };
    for node in world.cluster.nodes() {
        for file in disks::find(&node.data())?.files {
            let counted = view.places.contains(&(file.block.clone(), node.number));
            if counted && world.hurt.has(&file.path) {
                let what = format!("scrub says that {} is sound; it was hurt", file.path.display());
                world.violated(Kind::UntrueStatus, what);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_copy_is_in_status_by_the_name_of_its_file() {
        let status = json!({"nodes": [{"node": 2, "corrupt_blocks": ["07d3.1", "26.99"]}, {"node": 3}]});
        let event = |node: u32, block: &str| json!({"node": node, "block": block, "problem": "a checksum"});
        assert!(is_known(&status, &event(2, "07d3")) && is_known(&status, &event(2, "26")));
        assert!(!is_known(&status, &event(3, "07d3")) && !is_known(&status, &event(2, "07")));
    }
}
