//! Recovery that nobody asked for: of nodes that stay dead.

use crate::attempt::Attempts;
use crate::cluster::{Cluster, Life};
use crate::config::{Config, MAX_PARALLEL_REPAIRS, tick};
use crate::error::{CoordinatorError, Result};
use crate::jobs::{Jobs, Wish};
use crate::records::Records;
use catalog::rows::{JobRow, RecoveryRow, ReturnsRow};
use model::{Assign, NodeId};
use plan::decide::{World, assign_named};
use plan::grace::{Graces, Returns, Why};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use wire::proto;
use worker::{Step, Task, Worker};

/// Dead nodes are looked for this often, and more often when the grace is shorter.
const TICK_MS: u64 = 250;

/// The job that a request for nodes asks for, checked as far as it can be before it starts. So many stripes at once, and assigned
/// so, if it says nothing of that.
pub(crate) fn row_of(
    cluster: &Cluster,
    (parallel, assign): (usize, Assign),
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
    let assign = if request.assign.is_empty() { assign } else { assign_named(&request.assign)? };
    let view = cluster.view();
    let mut nodes: Vec<NodeId> =
        [request.node].iter().chain(&request.more_nodes).copied().map(NodeId).collect();
    nodes.sort_unstable();
    nodes.dedup();
    for &node in &nodes {
        match request.decommission {
            true if !view.node(node)?.is_living => {
                let life = cluster.life(node).unwrap_or(Life::Unheard);
                return Err(CoordinatorError::Conflict(format!(
                    "{node} is {life}; there is nothing to move: `stripeline repair node {}` rebuilds its blocks",
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

/// Starts the recovery of nodes whose grace is over ([`plan::grace`]), all of them in one job; one that fails is tried again a
/// usual grace later. What survives no further loss is not waited for so long: the healer makes that.
pub(crate) struct Recoverer {
    jobs: Arc<Jobs>,
    usual_ms: u64,
    /// From the first look on.
    graces: Option<Graces>,
    /// As the catalog has them.
    returns: BTreeMap<NodeId, Returns>,
    /// Stripes that a recovery repairs at once, and how helpers are assigned.
    usual: (usize, Assign),
    /// When a node's recovery was last begun, on the cluster's clock.
    begun: BTreeMap<NodeId, u64>,
}

impl Recoverer {
    pub fn new(jobs: Arc<Jobs>, config: &Config) -> Recoverer {
        let (usual_ms, usual) = (config.recovery_grace_ms, (config.parallel, config.assign));
        let (returns, begun) = (BTreeMap::new(), BTreeMap::new());
        Recoverer { jobs, usual_ms, graces: None, returns, usual, begun }
    }

    /// How many milliseconds of its grace each of these dead nodes has left, and why so many.
    async fn left(&mut self, view: &World, holders: &[NodeId]) -> Result<Vec<(NodeId, u64, Why)>> {
        let Attempts { cluster, records, .. } = &*self.jobs.attempts;
        let now_ms = cluster.clock.now_ms();
        let dead = view.nodes.iter().filter(|(_, node)| !node.is_living).map(|(id, _)| id);
        let since_ms = |node| now_ms.saturating_sub(cluster.dead_for(node).as_millis() as u64);
        let dead: BTreeMap<NodeId, u64> = dead.map(|node| (node, since_ms(node))).collect();
        let graces = match &mut self.graces {
            Some(graces) => graces,
            none => {
                let returns = records.run(|catalog| catalog.returns()).await?;
                self.returns = returns.into_iter().map(|(node, row)| (node, of_row(row))).collect();
                none.insert(Graces::new(self.usual_ms, &self.returns))
            }
        };
        graces.look(now_ms, &view.topology, &dead);
        let returns = graces.returns();
        if returns != self.returns {
            let rows = returns.iter().map(|(&node, &returns)| (node, to_row(returns))).collect();
            records.run(move |catalog| catalog.note_returns(&rows)).await?;
            self.returns = returns;
        }
        self.begun.retain(|node, _| dead.contains_key(node));
        let left = |&node: &NodeId| {
            let (left_ms, why) = graces.left(now_ms, node)?;
            let again_ms = self.begun.get(&node).map_or(0, |at_ms| at_ms.saturating_add(self.usual_ms));
            Some((node, left_ms.max(again_ms.saturating_sub(now_ms)), why))
        };
        Ok(holders.iter().filter_map(left).collect())
    }
}

fn of_row(row: ReturnsRow) -> Returns {
    Returns { count: row.count, at_ms: row.at_ms }
}

fn to_row(returns: Returns) -> ReturnsRow {
    ReturnsRow { count: returns.count, at_ms: returns.at_ms }
}

/// What people are told of a dead node.
fn told(&(node, left_ms, why): &(NodeId, u64, Why), jobs: &Jobs) -> String {
    let how = match why {
        Why::Usual => String::new(),
        Why::Returns(returns) => format!(", and came back {returns} times lately"),
        Why::Together => ", and fell silent with its rack or a third of all hosts".to_owned(),
    };
    // The text names no silence: the rest of the grace implies it.
    let life = match jobs.attempts.cluster.life(node) {
        None | Some(Life::Dead(_) | Life::Unheard) => "dead".to_owned(),
        Some(life) => life.to_string(),
    };
    match jobs.recovers(node) {
        true => format!("{node} is {life}{how}; it is being recovered"),
        false => format!("{node} is {life}{how}; its recovery begins in {} s", left_ms / 1_000),
    }
}

impl Worker for Recoverer {
    type Error = CoordinatorError;

    fn name(&self) -> &'static str {
        "auto-recovery"
    }

    fn pause(&self) -> Duration {
        tick(TICK_MS, self.usual_ms)
    }

    async fn step(&mut self, task: &Task) -> Result<Step> {
        let wait = Ok(Step::Wait(self.pause()));
        let jobs = Arc::clone(&self.jobs);
        let Attempts { cluster, records, .. } = &*jobs.attempts;
        if cluster.has_just_started() {
            return wait;
        }
        let view = cluster.view();
        let left = self.left(&view, &dead_holders(&view, records).await?).await?;
        if too_many_dead(&view) {
            let detail =
                "more than half of the nodes are dead: rather the network has failed; nothing is begun";
            task.note(|report| report.detail = detail.to_owned());
            return wait;
        }
        let detail = left.iter().map(|of| told(of, &jobs)).collect::<Vec<_>>().join("; ");
        task.note(|report| report.detail = detail);
        let is_due = |(node, left_ms, _): &&(NodeId, u64, Why)| *left_ms == 0 && !jobs.recovers(*node);
        let mut due = left.iter().filter(is_due).map(|(node, ..)| *node);
        let Some(first) = due.next() else { return wait };
        let more: Vec<NodeId> = due.collect();
        let now_ms = cluster.clock.now_ms();
        self.begun.extend([first].iter().chain(&more).map(|&node| (node, now_ms)));
        let more_nodes = more.iter().map(|node| node.0).collect();
        let request = proto::RepairRequest { node: first.0, more_nodes, ..Default::default() };
        let row = row_of(cluster, self.usual, &request)?;
        jobs.start(Wish::Lasting(JobRow::RecoverNodes(row))).await?;
        task.note(|report| report.done += 1);
        wait
    }
}

/// Dead nodes of which the catalog says that they hold blocks.
pub(crate) async fn dead_holders(view: &World, records: &Records) -> Result<Vec<NodeId>> {
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
pub(crate) fn too_many_dead(view: &World) -> bool {
    let dead = view.nodes.iter().filter(|(_, node)| !node.is_living).count();
    dead * 2 > view.nodes.len()
}
