//! Reads the answers of `cluster status` and `tasks list`.

use crate::world::World;
use anyhow::Result;
use serde_json::Value;
use std::collections::BTreeMap;

/// Returns the nodes in a status.
pub fn nodes(status: &Value) -> &[Value] {
    status["nodes"].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Describes the jobs that have not ended. A task whose name ends in a number is a job; others are workers, which never end.
pub fn running_jobs(world: &World) -> Result<Vec<String>> {
    let tasks = world.ask_json(&["tasks", "list"])?.unwrap_or_default();
    let name = |task: &Value| task["name"].as_str().unwrap_or_default().to_owned();
    let is_job = |task: &&Value| name(task).ends_with(|last: char| last.is_ascii_digit());
    let tasks = tasks.as_array().into_iter().flatten().filter(is_job);
    let running = tasks.filter(|task| task["state"] == "running");
    Ok(running.map(|task| format!("{} still runs: {}", name(task), task["detail"])).collect())
}

/// Returns the number of folders at which each node's probe has looked since the node started.
pub fn probes(world: &World) -> Result<BTreeMap<u32, u64>> {
    let tasks = world.ask_json(&["tasks", "list"])?.unwrap_or_default();
    let probes = tasks.as_array().into_iter().flatten().filter(|task| task["name"] == "probe");
    Ok(probes.filter_map(|task| Some((task["node"].as_u64()? as u32, task["done"].as_u64()?))).collect())
}
