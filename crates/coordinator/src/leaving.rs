//! Nodes that are to hold nothing, by an operator's order (HEALING.md, "Wishes"). The order is a row of the catalog until nothing is left there or
//! it is withdrawn; a job (`jobs/recover.rs`) moves what can be moved, and ends when nothing can be. The worker here begins another one when
//! nodes or room have come, and at growing intervals.

use crate::cluster::{Cluster, Scene};
use crate::error::{CoordinatorError, Result};
use crate::jobs::{Jobs, Wish};
use crate::records::Records;
use catalog::rows::{JobRow, OrderRow, RecoveryRow};
use model::{Assign, NodeId};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use worker::{Step, Task, Worker};

/// The name of its task.
pub(crate) const NAME: &str = "leaving";

/// So often it is looked whether something can go on.
const TICK: Duration = Duration::from_secs(1);

/// What an order waits for that an operator stopped.
const STOPPED: &str = "moving them was stopped; order it again, or take the node back";

/// What could not be moved is tried again after this long, twice as long each further time …
const AGAIN_MS: u64 = 5_000;

/// … up to this: a try costs a plan for each block that is left.
const AGAIN_AT_MOST_MS: u64 = 600_000;

/// Nodes of which something could not be moved.
#[derive(Debug, Default)]
pub(crate) struct Leaving(Mutex<BTreeMap<NodeId, Stuck>>);

/// An order for a node to hold nothing, as it stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Ordered {
    /// Copies there that are counted on, or may yet be written.
    pub left: u64,
    /// Why none of them moves; `None` if they do, or are about to.
    pub waits: Option<String>,
    /// An operator stopped it.
    is_stopped: bool,
}

impl Ordered {
    /// For people.
    pub fn text(&self) -> String {
        let left =
            if self.left == 1 { "1 block left".to_owned() } else { format!("{} blocks left", self.left) };
        match (&self.waits, self.is_stopped) {
            _ if self.left == 0 => "decommissioned".to_owned(),
            (None, _) => format!("leaving ({left}, being moved)"),
            (Some(why), true) => format!("leaving ({left}: {why})"),
            (Some(why), false) => format!("leaving ({left}: {why}); it goes on by itself"),
        }
    }
}

/// Why nothing of a node can be moved now.
#[derive(Clone, Debug)]
struct Stuck {
    why: String,
    /// Of the blocks that are left.
    longest_bytes: u64,
    /// As it was then.
    scene: Scene,
    tries: u32,
    /// On the cluster's clock.
    again_ms: u64,
}

impl Leaving {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<NodeId, Stuck>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nothing is left there, or something may be again.
    pub fn over(&self, nodes: &[NodeId]) {
        self.lock().retain(|node, _| !nodes.contains(node));
    }

    /// Nothing more of what these nodes hold can be moved now.
    pub fn is_stuck(&self, cluster: &Cluster, nodes: &[NodeId], why: &str, longest_bytes: u64) {
        let (now_ms, scene) =
            (cluster.clock.now_ms(), Scene::of((&cluster.view(), cluster.changes()), longest_bytes));
        let mut all = self.lock();
        for node in nodes {
            let before = all.get(node).filter(|stuck| stuck.scene == scene);
            let tries = before.map_or(0, |stuck| stuck.tries.saturating_add(1));
            let pause_ms = AGAIN_MS.saturating_mul(1 << tries.min(16)).min(AGAIN_AT_MOST_MS);
            let (why, scene, again_ms) = (why.to_owned(), scene.clone(), now_ms.saturating_add(pause_ms));
            all.insert(*node, Stuck { why, longest_bytes, scene, tries, again_ms });
        }
    }

    /// All orders, by node.
    pub async fn orders(&self, records: &Records) -> Result<BTreeMap<NodeId, Ordered>> {
        let read = |catalog: &catalog::Catalog| {
            let leavers = catalog.leavers()?.into_iter();
            leavers.map(|(node, order)| Ok((node, order, catalog.left_on(&[node])?))).collect()
        };
        let found: Vec<(NodeId, Option<OrderRow>, u64)> = records.run(read).await?;
        let ordered = |(node, order, left): (NodeId, Option<OrderRow>, u64)| {
            let is_stopped = order.is_some_and(|order| order.is_stopped);
            let waits = if is_stopped { Some(STOPPED.to_owned()) } else { self.why(node) };
            (node, Ordered { left, waits, is_stopped })
        };
        Ok(found.into_iter().map(ordered).collect())
    }

    /// Why nothing of the node can be moved; `None` if something can, as far as is known.
    pub fn why(&self, node: NodeId) -> Option<String> {
        self.lock().get(&node).map(|stuck| stuck.why.clone())
    }

    /// Whether a job is to try it.
    fn is_due(&self, cluster: &Cluster, node: NodeId) -> bool {
        let Some(stuck) = self.lock().get(&node).cloned() else { return true };
        let is_other = || Scene::of((&cluster.view(), cluster.changes()), stuck.longest_bytes) != stuck.scene;
        cluster.clock.now_ms() >= stuck.again_ms || is_other()
    }
}

/// The worker.
pub(crate) struct Leaver {
    jobs: Arc<Jobs>,
    /// Stripes that a recovery repairs at once, and how helpers are assigned.
    usual: (usize, Assign),
}

impl Leaver {
    pub fn new(jobs: Arc<Jobs>, usual: (usize, Assign)) -> Leaver {
        Leaver { jobs, usual }
    }

    /// Has moved what the node holds, if anything of it can be. What is waited for, for people.
    async fn look(&self, node: NodeId, order: Option<OrderRow>) -> Result<Option<String>> {
        let (jobs, attempts) = (&self.jobs, &self.jobs.attempts);
        let cluster = &attempts.cluster;
        let left = attempts.records.run(move |catalog| catalog.left_on(&[node])).await?;
        if left == 0 {
            jobs.leaving.over(&[node]);
            return Ok(None);
        }
        let OrderRow { how, is_stopped } = order.unwrap_or_else(|| self.usual_order(node));
        let told = |why: &str| Ok(Some(format!("{node}: {left} blocks left: {why}")));
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

    /// What a program of before noted says only that the node leaves.
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
        NAME
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
