//! Nodes that an operator ordered to hold nothing (HEALING.md, "Wishes"). The order is a row of the catalog until nothing is left on the node or
//! the order is withdrawn. A job (`jobs/recover.rs`) moves what it can and ends when nothing more can be moved. This module keeps what the rest
//! waits for. A worker (`jobs/leaver.rs`) starts another job when nodes or room appear, and at growing intervals.

use crate::cluster::{Cluster, Scene};
use crate::error::Result;
use crate::records::Records;
use catalog::Condition;
use catalog::rows::OrderRow;
use model::NodeId;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Reason for an order that an operator stopped.
pub(crate) const STOPPED: &str = "moving them was stopped; order it again, or take the node back";

/// Reason while the catalog cannot prove that a node is empty.
pub(crate) const UNKNOWN: &str = "the catalog's file is damaged, or has not been checked since the start";

/// First pause before another try; each further pause is twice as long …
const AGAIN_MS: u64 = 5_000;

/// … up to this one, because a try costs one plan per remaining block.
const AGAIN_AT_MOST_MS: u64 = 600_000;

/// Nodes with blocks that could not be moved.
#[derive(Debug, Default)]
pub(crate) struct Leaving(Mutex<BTreeMap<NodeId, Stuck>>);

/// State of an order for a node to hold nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Ordered {
    /// Number of copies on the node that count or may still be written, as far as is known.
    pub left: u64,
    /// Whether the catalog's file is sound. Otherwise rows may be missing, and no count proves that nothing is left.
    is_known: bool,
    /// Why no block moves; `None` if blocks are moving or are about to.
    pub waits: Option<String>,
    /// Whether an operator stopped the order.
    is_stopped: bool,
}

impl Ordered {
    /// Whether nothing is left on the node.
    pub fn is_over(&self) -> bool {
        self.left == 0 && self.is_known
    }

    /// Returns the state as text for people.
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

/// Why no block of a node can be moved now.
#[derive(Clone, Debug)]
struct Stuck {
    why: String,
    /// Length of the longest remaining block.
    longest_bytes: u64,
    /// The cluster at the time of the last try.
    scene: Scene,
    tries: u32,
    /// Time of the next try, on the cluster's clock.
    again_ms: u64,
}

impl Leaving {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<NodeId, Stuck>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets these nodes: nothing is left on them, or blocks may be movable again.
    pub fn over(&self, nodes: &[NodeId]) {
        self.lock().retain(|node, _| !nodes.contains(node));
    }

    /// Notes that no more blocks of these nodes can be moved now.
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

    /// Returns all orders by node. `held` is the number of copies that count on each node.
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

    /// Returns why no block of the node can be moved; `None` if some can, as far as is known.
    pub fn why(&self, node: NodeId) -> Option<String> {
        self.lock().get(&node).map(|stuck| stuck.why.clone())
    }

    /// Whether a job should try again.
    pub fn is_due(&self, cluster: &Cluster, node: NodeId) -> bool {
        let Some(stuck) = self.lock().get(&node).cloned() else { return true };
        let is_other = || Scene::of((&cluster.view(), cluster.changes()), stuck.longest_bytes) != stuck.scene;
        cluster.clock.now_ms() >= stuck.again_ms || is_other()
    }
}
