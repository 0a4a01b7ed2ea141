//! Recovery that nobody asked for: of nodes that stay dead.

use crate::attempt::Attempts;
use crate::cluster::Cluster;
use crate::config::{MAX_PARALLEL_REPAIRS, tick};
use crate::error::{CoordinatorError, Result};
use crate::jobs::{Jobs, Wish};
use crate::records::Records;
use catalog::rows::{JobRow, RecoveryRow};
use model::NodeId;
use plan::decide::{World, assign_named};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wire::proto;
use worker::{Step, Task, Worker};

/// Dead nodes are looked for this often, and more often when the grace is shorter.
const TICK_MS: u64 = 1_000;

/// The job that a request for nodes asks for, checked as far as it can be before it starts. `parallel` stripes at once
/// if it says nothing of that.
pub(crate) fn row_of(
    cluster: &Cluster,
    parallel: usize,
    request: &proto::RepairRequest,
) -> Result<RecoveryRow> {
    let invalid = |what: &str| Err(CoordinatorError::Invalid(what.to_owned()));
    if request.dry_run && (request.discard || request.decommission) {
        return invalid("a dry run is one of a recovery, and throws nothing away");
    }
    if !request.helpers.is_empty() {
        return invalid("helpers are named for the repair of blocks; those of nodes are assigned");
    }
    let parallel = match request.parallel as usize {
        0 => parallel,
        parallel if parallel <= MAX_PARALLEL_REPAIRS => parallel,
        _ => return Err(CoordinatorError::TooMany { what: "stripes", limit: MAX_PARALLEL_REPAIRS }),
    };
    let assign = assign_named(&request.assign)?;
    let view = cluster.view();
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
            false => super::check_dead(cluster, node)?,
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
pub(crate) struct Recoverer {
    jobs: Arc<Jobs>,
    grace_ms: u64,
    /// Stripes that a recovery repairs at once.
    parallel: usize,
    /// When a node's recovery was last begun.
    begun: BTreeMap<NodeId, Instant>,
}

impl Recoverer {
    pub fn new(jobs: Arc<Jobs>, grace_ms: u64, parallel: usize) -> Recoverer {
        Recoverer { jobs, grace_ms, parallel, begun: BTreeMap::new() }
    }

    /// How much of its grace a dead node has left.
    fn left(&self, node: NodeId) -> Duration {
        let dead = self.jobs.attempts.cluster.dead_for(node);
        let since = self.begun.get(&node).map_or(dead, |at| at.elapsed().min(dead));
        Duration::from_millis(self.grace_ms).saturating_sub(since)
    }
}

impl Worker for Recoverer {
    type Error = CoordinatorError;

    fn name(&self) -> &'static str {
        "auto-recovery"
    }

    fn pause(&self) -> Duration {
        tick(TICK_MS, self.grace_ms)
    }

    async fn step(&mut self, task: &Task) -> Result<Step> {
        let wait = Ok(Step::Wait(self.pause()));
        let Attempts { cluster, records, .. } = &*self.jobs.attempts;
        let dead = dead_holders(cluster, records).await?;
        self.begun.retain(|node, _| dead.contains(node));
        let view = cluster.view();
        if too_many_dead(&view) {
            let detail =
                "more than half of the nodes are dead: rather the network has failed; nothing is begun";
            task.note(|report| report.detail = detail.to_owned());
            return wait;
        }
        let left = dead.iter().map(|&node| (node, self.left(node)));
        let (due, waiting): (Vec<_>, Vec<_>) = left.partition(|(_, left)| left.is_zero());
        let waits = |(node, left): &(NodeId, Duration)| {
            format!("{node} is dead; its recovery begins in {} s", left.as_secs())
        };
        let detail = due.iter().chain(&waiting).map(waits).collect::<Vec<_>>().join("; ");
        task.note(|report| report.detail = detail);
        let [(first, _), rest @ ..] = &due[..] else { return wait };
        let now = Instant::now();
        self.begun.extend(due.iter().map(|(node, _)| (*node, now)));
        let more_nodes = rest.iter().map(|(node, _)| node.0).collect();
        let request = proto::RepairRequest { node: first.0, more_nodes, ..Default::default() };
        let row = row_of(cluster, self.parallel, &request)?;
        self.jobs.start(Wish::Lasting(JobRow::RecoverNodes(row))).await?;
        task.note(|report| report.done += 1);
        wait
    }
}

/// Dead nodes of which the catalog says that they hold blocks. Nodes get time to register after a start.
async fn dead_holders(cluster: &Cluster, records: &Records) -> Result<Vec<NodeId>> {
    if cluster.has_just_started() {
        return Ok(Vec::new());
    }
    let view = cluster.view();
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
    records.run(holds).await
}

/// When so many are gone at once it is the network, or the coordinator's own link.
fn too_many_dead(view: &World) -> bool {
    let dead = view.nodes.iter().filter(|(_, node)| !node.is_living).count();
    dead * 2 > view.nodes.len()
}
