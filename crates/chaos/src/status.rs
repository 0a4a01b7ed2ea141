//! What `cluster status` and `tasks list` answer.

use crate::world::World;
use anyhow::Result;
use serde_json::Value;

/// The nodes that status tells of.
pub fn nodes(status: &Value) -> &[Value] {
    status["nodes"].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Jobs that have not ended, in words. Tasks with a number in their name are jobs; others are workers, which never end.
pub fn running_jobs(world: &World) -> Result<Vec<String>> {
    let tasks = world.ask_json(&["tasks", "list"])?.unwrap_or_default();
    let name = |task: &Value| task["name"].as_str().unwrap_or_default().to_owned();
    let is_job = |task: &&Value| name(task).ends_with(|last: char| last.is_ascii_digit());
    let tasks = tasks.as_array().into_iter().flatten().filter(is_job);
    let running = tasks.filter(|task| task["state"] == "running");
    Ok(running.map(|task| format!("{} still runs: {}", name(task), task["detail"])).collect())
}
