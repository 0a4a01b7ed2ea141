//! Nodes that are to hold nothing, by an operator's order (HEALING.md, "Wishes"). The order is a row of the catalog until nothing is left there or
//! it is withdrawn; a job (`jobs/recover.rs`) moves what can be moved, and ends when nothing can be. What that waits for is known
//! here, and a worker (`jobs/leaver.rs`) begins another one when nodes or room have come, and at growing intervals.

use crate::cluster::{Cluster, Scene};
use crate::error::Result;
use crate::records::Records;
use catalog::Condition;
use catalog::rows::OrderRow;
use model::NodeId;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What an order waits for that an operator stopped.
pub(crate) const STOPPED: &str = "moving them was stopped; order it again, or take the node back";

/// Reason while the catalog cannot prove that a node is empty.
pub(crate) const UNKNOWN: &str = "the catalog's file is damaged, or has not been checked since the start";

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
    /// Copies there that are counted on, or may yet be written, as far as is known.
    pub left: u64,
    /// The catalog's file is sound. Otherwise rows may be missing, and no count proves that nothing is left.
    is_known: bool,
    /// Why none of them moves; `None` if they do, or are about to.
    pub waits: Option<String>,
    /// An operator stopped it.
    is_stopped: bool,
}

impl Ordered {
    /// Returns whether nothing is left there.
    pub fn is_over(&self) -> bool {
        self.left == 0 && self.is_known
    }

    /// For people.
    pub fn text(&self) -> String {
        let left =
            if self.left == 1 { "1 block left".to_owned() } else { format!("{} blocks left", self.left) };
        match (&self.waits, self.is_stopped) {
            _ if self.is_over() => "decommissioned".to_owned(),
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

    /// All orders, by node; so many copies are counted on there.
    pub async fn orders(
        &self,
        records: &Records,
        held: &BTreeMap<NodeId, u64>,
    ) -> Result<BTreeMap<NodeId, Ordered>> {
        let read = |catalog: &catalog::Catalog| {
            let leavers = catalog.leavers()?;
            let planned = if leavers.is_empty() { BTreeMap::new() } else { catalog.planned_on()? };
            Ok((leavers, planned))
        };
        let is_known = records.condition() == Condition::Sound;
        let (leavers, planned) = records.run(read).await?;
        let ordered = |(node, order): (NodeId, Option<OrderRow>)| {
            let left = [held, &planned].into_iter().filter_map(|copies| copies.get(&node)).sum();
            let is_stopped = order.is_some_and(|order| order.is_stopped);
            let waits = match is_stopped {
                true => Some(STOPPED.to_owned()),
                false if !is_known => Some(UNKNOWN.to_owned()),
                false => self.why(node),
            };
            (node, Ordered { left, is_known, waits, is_stopped })
        };
        Ok(leavers.into_iter().map(ordered).collect())
    }

    /// Why nothing of the node can be moved; `None` if something can, as far as is known.
    pub fn why(&self, node: NodeId) -> Option<String> {
        self.lock().get(&node).map(|stuck| stuck.why.clone())
    }

    /// Whether a job is to try it.
    pub fn is_due(&self, cluster: &Cluster, node: NodeId) -> bool {
        let Some(stuck) = self.lock().get(&node).cloned() else { return true };
        let is_other = || Scene::of((&cluster.view(), cluster.changes()), stuck.longest_bytes) != stuck.scene;
        cluster.clock.now_ms() >= stuck.again_ms || is_other()
    }
}
