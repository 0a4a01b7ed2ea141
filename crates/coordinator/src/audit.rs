//! The record of repairs: what each flow was to move and what it moved. Kept in the catalog, the last
//! [`MAX_AUDITED`]; a flow that moved other bytes than were predicted is a warning and counts as an error of the task
//! `audit`.

use crate::error::{CoordinatorError, Result};
use crate::records::Records;
use catalog::rows::{AuditRow, Difference};
use flow::FlowPlan;
use model::{BlockId, Fault, NodeId};
use plan::decide::{Planned, RepairPlan, World};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use wire::proto;
use worker::{Task, Tasks};

/// Repairs that are remembered: a few megabytes, and the recovery of a node of thousands of blocks fits.
pub(crate) const MAX_AUDITED: u64 = 10_000;

/// Repairs that are told at once, and links of each that are told to differ: an answer stays within a message.
const MAX_TOLD: u32 = 1_000;
const MAX_DIFFERENCES: usize = 64;

/// The task whose errors are the repairs that moved other bytes than predicted.
const TASK: &str = "audit";

/// Writes it.
#[derive(Debug)]
pub(crate) struct Audit {
    next: AtomicU64,
    records: Records,
    task: Arc<Task>,
    wall_ms: fn() -> u64,
}

impl Audit {
    /// Goes on with entry `next`.
    pub fn new(next: u64, records: Records, tasks: &Tasks, wall_ms: fn() -> u64) -> Audit {
        let task = tasks.add(TASK);
        task.note(|report| report.detail = "repairs whose links carried what was predicted".to_owned());
        Audit { next: AtomicU64::new(next), records, task, wall_ms }
    }

    /// Notes how the flow of a repair ended.
    pub async fn note(
        &self,
        view: &World,
        plan: &RepairPlan,
        blocks: &[BlockId],
        result: std::result::Result<&proto::DriveResult, &Fault>,
    ) -> Result<()> {
        let Planned { plan: FlowPlan { flow, binding, .. }, cost } = &plan.planned;
        let writers: Vec<NodeId> = written_at(&plan.planned.plan);
        let (links, times) = match result {
            Ok(result) => (&result.links[..], (result.verified_us, result.durable_us)),
            Err(_) => (&[][..], (0, 0)),
        };
        let differing = match result {
            Ok(result) if result.kept_slices == 0 => differences(cost, links),
            // Of a flow that broke nothing is known; one that mends it carries what happened to be missing.
            _ => Vec::new(),
        };
        let driver = writers.first().copied().unwrap_or(NodeId(0));
        let entry = AuditRow {
            at_unix_ms: (self.wall_ms)(),
            blocks: blocks.to_vec(),
            flow: binding.header.flow,
            attempt: binding.header.attempt,
            scheme: plan.scheme.clone(),
            why: plan.why.clone(),
            driver,
            helpers: flow
                .sites()
                .into_iter()
                .map(|site| NodeId(site.0))
                .filter(|node| !writers.contains(node))
                .collect(),
            predicted_bytes: cost.network_bytes(),
            moved_bytes: links.iter().map(|link| link.bytes).sum(),
            cross_rack_bytes: cost
                .cross_rack_bytes(|site| view.node(NodeId(site.0)).ok().map(|node| node.rack)),
            timeslots: cost.timeslots,
            predicted_s: plan.price.and_then(|price| price.seconds()),
            verified_us: times.0,
            durable_us: times.1,
            kept_slices: result.map_or(0, |result| result.kept_slices),
            differing,
            fault: result.err().map(ToString::to_string),
        };
        self.task.note(|report| {
            report.done += 1;
            report.total = report.done;
            report.errors += u64::from(!entry.differing.is_empty());
        });
        if !entry.differing.is_empty() {
            tracing::warn!(flow = %entry.flow, scheme = entry.scheme, links = ?entry.differing, "moved other bytes than predicted");
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.records.run(move |catalog| catalog.add_audit(number, &entry, MAX_AUDITED)).await
    }

    /// The last repairs, the latest last, as JSON.
    pub async fn last(&self, count: u32) -> Result<Vec<String>> {
        let count = if count == 0 { MAX_TOLD } else { count.min(MAX_TOLD) };
        let from = self.next.load(Ordering::Relaxed).saturating_sub(u64::from(count));
        let rows = self.records.run(move |catalog| catalog.audit(from)).await?;
        let json = |row| serde_json::to_string(row).map_err(|e| CoordinatorError::Bug(e.to_string()));
        rows.iter().map(json).collect()
    }
}

/// The nodes that write, the driver first.
fn written_at(plan: &FlowPlan) -> Vec<NodeId> {
    let mut nodes: Vec<NodeId> = Vec::new();
    for node in plan.writes().map(|(site, _)| NodeId(site.0)) {
        if !nodes.contains(&node) {
            nodes.push(node);
        }
    }
    nodes
}

fn differences(cost: &flow::Cost, links: &[proto::LinkBytes]) -> Vec<Difference> {
    let mut moved: BTreeMap<(u32, u32), (u64, u64)> = BTreeMap::new();
    for (&(from, to), &bytes) in &cost.links {
        moved.entry((from.0, to.0)).or_default().0 += bytes;
    }
    for link in links {
        moved.entry((link.from, link.to)).or_default().1 += link.bytes;
    }
    let differing = moved.into_iter().filter(|(_, (predicted, moved))| predicted != moved);
    let difference =
        |((from, to), (predicted_bytes, moved_bytes))| Difference { from, to, predicted_bytes, moved_bytes };
    differing.take(MAX_DIFFERENCES).map(difference).collect()
}
