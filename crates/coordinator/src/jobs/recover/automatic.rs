//! Recovery that nobody asked for: of nodes that stay dead.

use crate::config::{MAX_PARALLEL_REPAIRS, MIN_TICK_MS};
use crate::error::{CoordinatorError, Result};
use crate::jobs::{self, Work};
use crate::shared::Shared;
use catalog::rows::{JobRow, RecoveryRow};
use model::NodeId;
use plan::decide::{World, assign_named};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wire::proto;

/// Dead nodes are looked for this often, and more often when the grace is shorter.
const TICK_MS: u64 = 1_000;

/// The job that a request for nodes asks for, checked as far as it can be before it starts.
pub(crate) fn row_of(shared: &Shared, request: &proto::RepairRequest) -> Result<RecoveryRow> {
    let invalid = |what: &str| Err(CoordinatorError::Invalid(what.to_owned()));
    if request.discard && request.decommission {
        return invalid("what is moved is not thrown away");
    }
    if request.dry_run && (request.discard || request.decommission) {
        return invalid("a dry run is one of a recovery, and throws nothing away");
    }
    if !request.helpers.is_empty() {
        return invalid("helpers are named for the repair of blocks; those of nodes are assigned");
    }
    let parallel = match request.parallel as usize {
        0 => shared.config.parallel,
        parallel if parallel <= MAX_PARALLEL_REPAIRS => parallel,
        _ => return Err(CoordinatorError::TooMany { what: "stripes", limit: MAX_PARALLEL_REPAIRS }),
    };
    let assign = assign_named(&request.assign)?;
    let view = shared.health.view();
    let mut nodes: Vec<NodeId> =
        [request.node].iter().chain(&request.more_nodes).copied().map(NodeId).collect();
    nodes.sort_unstable();
    nodes.dedup();
    for &node in &nodes {
        match request.decommission {
            true if !view.node(node)?.is_living => {
                return Err(CoordinatorError::Conflict(format!(
                    "{node} is dead: there is nothing to move; `stripeline repair node {}` rebuilds its blocks",
                    node.0
                )));
            }
            true => {}
            // To measure what a recovery takes nothing need be lost, as for a block.
            false if (request.discard || request.dry_run) && nodes.len() == 1 => _ = view.node(node)?,
            false => super::check_dead(shared, node)?,
        }
    }
    let asked = (request.requestor != 0).then_some(request.requestor);
    let mut requestors: Vec<NodeId> =
        asked.into_iter().chain(request.requestors.iter().copied()).map(NodeId).collect();
    requestors.sort_unstable();
    requestors.dedup();
    for &node in &requestors {
        if !view.node(node)?.takes_blocks() || nodes.contains(&node) {
            let text = format!("{node} cannot be a requestor: it is dead, quarantined or decommissioned");
            return Err(CoordinatorError::Conflict(text));
        }
    }
    Ok(RecoveryRow {
        nodes,
        moves: request.decommission,
        scheme: request.scheme.clone(),
        slice_bytes: request.slice_bytes,
        verify: !request.no_verify,
        parallel: u32::try_from(parallel).unwrap_or(u32::MAX),
        assign,
        requestors,
    })
}

/// Starts the recovery of nodes that have been dead for the grace, all of them in one job; one that fails is tried again a
/// grace later. Nodes that were dead before the coordinator started get their grace anew.
pub(crate) async fn recover_dead(shared: Arc<Shared>) {
    let task = shared.tasks.add("auto-recovery");
    let grace = Duration::from_millis(shared.config.recovery_grace_ms);
    let tick = Duration::from_millis(TICK_MS.min(shared.config.recovery_grace_ms).max(MIN_TICK_MS));
    let mut since: BTreeMap<NodeId, Instant> = BTreeMap::new();
    loop {
        tokio::time::sleep(tick).await;
        let dead = match dead_holders(&shared).await {
            Ok(dead) => dead,
            Err(error) => {
                task.note(|report| report.errors += 1);
                task.note(|report| report.detail = error.to_string());
                continue;
            }
        };
        since.retain(|node, _| dead.contains(node));
        dead.iter().for_each(|&node| _ = since.entry(node).or_insert_with(Instant::now));
        if !task.is_on() {
            continue;
        }
        let view = shared.health.view();
        if too_many_dead(&view) {
            let detail =
                "more than half of the nodes are dead: rather the network has failed; nothing is begun";
            task.note(|report| report.detail = detail.to_owned());
            continue;
        }
        task.note(|report| report.detail = waiting(&since, grace));
        let due: Vec<NodeId> =
            since.iter().filter(|(_, at)| at.elapsed() >= grace).map(|(&node, _)| node).collect();
        let [first, rest @ ..] = &due[..] else { continue };
        let now = Instant::now();
        due.iter().for_each(|&node| _ = since.insert(node, now));
        let request = proto::RepairRequest {
            node: first.0,
            more_nodes: rest.iter().map(|node| node.0).collect(),
            ..Default::default()
        };
        let started = match row_of(&shared, &request) {
            Ok(row) => jobs::start(&shared, Work::Lasting(JobRow::RecoverNodes(row))).await.map(|_| ()),
            Err(error) => Err(error),
        };
        task.note(|report| match started {
            Ok(()) => report.done += 1,
            Err(error) => {
                report.errors += 1;
                report.detail = error.to_string();
            }
        });
    }
}

/// Dead nodes of which the catalog says that they hold blocks. Nodes get time to register after a start.
async fn dead_holders(shared: &Arc<Shared>) -> Result<Vec<NodeId>> {
    if shared.started.elapsed() < Duration::from_millis(shared.config.dead_after_ms) {
        return Ok(Vec::new());
    }
    let view = shared.health.view();
    let dead: Vec<NodeId> = view.nodes.iter().filter(|(_, node)| !node.is_living).map(|(id, _)| id).collect();
    let holds = move |catalog: &catalog::Catalog| {
        let mut holders = Vec::new();
        for node in dead {
            if catalog.holds_any(node)? {
                holders.push(node);
            }
        }
        Ok(holders)
    };
    shared.catalog.run(holds).await
}

/// When so many are gone at once it is the network, or the coordinator's own link.
fn too_many_dead(view: &World) -> bool {
    let dead = view.nodes.iter().filter(|(_, node)| !node.is_living).count();
    dead * 2 > view.nodes.len()
}

fn waiting(since: &BTreeMap<NodeId, Instant>, grace: Duration) -> String {
    let node = |(node, at): (&NodeId, &Instant)| {
        format!("{node} is dead; its recovery begins in {} s", grace.saturating_sub(at.elapsed()).as_secs())
    };
    since.iter().map(node).collect::<Vec<_>>().join("; ")
}
