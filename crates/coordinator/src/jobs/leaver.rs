//! Resumes orders for nodes to hold nothing: after restarts, and whenever blocks that a job could not move may be movable (`leaving.rs`).

use super::{Jobs, Wish};
use crate::error::{CoordinatorError, Result};
use crate::leaving::STOPPED;
use catalog::rows::{JobRow, OrderRow, RecoveryRow};
use model::{Assign, NodeId};
use std::sync::Arc;
use std::time::Duration;
use worker::{Step, Task, Worker};

/// Time between two checks whether an order can continue.
const TICK: Duration = Duration::from_secs(1);

/// The worker.
pub(crate) struct Leaver {
    jobs: Arc<Jobs>,
    /// Number of stripes that a recovery repairs at once, and how helpers are assigned.
    usual: (usize, Assign),
}

impl Leaver {
    pub fn new(jobs: Arc<Jobs>, usual: (usize, Assign)) -> Leaver {
        Leaver { jobs, usual }
    }

    /// Starts a job that moves the node's blocks, if any of them can be moved. Returns, as text for people, what the order waits for.
    async fn look(&self, node: NodeId, order: Option<OrderRow>) -> Result<Option<String>> {
        let (jobs, attempts) = (&self.jobs, &self.jobs.attempts);
        let cluster = &attempts.cluster;
        if !attempts.records.run(move |catalog| catalog.holds_any(node)).await? {
            jobs.leaving.over(&[node]);
            return Ok(None);
        }
        let OrderRow { how, is_stopped } = order.unwrap_or_else(|| self.usual_order(node));
        let told = |why: &str| Ok(Some(format!("{node}: blocks are left: {why}")));
        if is_stopped {
            return told(STOPPED);
        }
        if !cluster.view().node(node).is_ok_and(|node| node.is_living) {
            return told("it does not live; they are made again after its grace");
        }
        if !jobs.moves(node) && jobs.leaving.is_due(cluster, node) {
            let begun = jobs.start(Wish::Lasting(JobRow::RecoverNodes(how))).await;
            match begun {
                Ok(_) => {}
                Err(error @ CoordinatorError::TooMany { .. }) => return told(&error.to_string()),
                Err(error) => return Err(error),
            }
        }
        told(jobs.leaving.why(node).as_deref().unwrap_or("they are being moved"))
    }

    /// Returns the order for a node whose row, written by an earlier version, says only that it leaves.
    fn usual_order(&self, node: NodeId) -> OrderRow {
        let parallel = u32::try_from(self.usual.0).unwrap_or(u32::MAX);
        let (nodes, assign) = (vec![node], self.usual.1);
        let how =
            RecoveryRow { nodes, moves: true, verify: true, parallel, assign, ..RecoveryRow::default() };
        OrderRow { how, is_stopped: false }
    }
}

impl Worker for Leaver {
    type Error = CoordinatorError;

    fn name(&self) -> &'static str {
        "leaving"
    }

    fn pause(&self) -> Duration {
        TICK
    }

    async fn step(&mut self, task: &Task) -> Result<Step> {
        let attempts = &self.jobs.attempts;
        if attempts.cluster.has_just_started() {
            return Ok(Step::Wait(TICK));
        }
        let mut waits = Vec::new();
        for (node, order) in attempts.records.run(|catalog| catalog.leavers()).await? {
            waits.extend(self.look(node, order).await?);
        }
        task.note(|report| report.detail = waits.join("; "));
        Ok(Step::Wait(TICK))
    }
}
