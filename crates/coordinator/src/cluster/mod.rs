//! The nodes: who lives and where, what is known of the links, how they are reached, and what repairs they are receiving.

mod calls;
mod connection;
mod expected;
mod fleet;
mod health;
mod lenders;
mod life;
mod links;
mod load;
mod scene;
mod sites;
mod told;

pub use connection::{Call, Over};
pub(crate) use fleet::reference;
pub use fleet::{Check, Fleet, Grpc, Held, Listed, Looked, Order, Seen};
pub(crate) use health::{Report, Word};
pub(crate) use lenders::{placement, row_of};
pub(crate) use life::Life;
pub(crate) use links::LinkTable;
pub(crate) use load::Receiving;
pub(crate) use scene::Scene;
pub(crate) use sites::sites;
pub(crate) use told::{Told, Unreadable};

use crate::clock::Clock;
use crate::error::Result;
use calls::Calls;
use catalog::Catalog;
use catalog::rows::{HeardRow, NodeRow};
use health::{Due, Health};
use lenders::Lenders;
use load::Load;
use model::NodeId;
use plan::decide::{NodeFacts, World};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Whoever waits for news of a node looks this often.
const NEWS_TICK: Duration = Duration::from_millis(20);

/// See the module.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub health: Health,
    /// Helpers that are no nodes of the cluster.
    pub lenders: Lenders,
    pub fleet: Arc<dyn Fleet>,
    pub calls: Calls,
    pub load: Load,
    pub clock: Arc<Clock>,
    /// When nodes were heard last before this coordinator started, on the cluster's clock.
    heard_before: BTreeMap<NodeId, u64>,
    started: Instant,
    started_ms: u64,
    dead_after: Duration,
    /// Whether nodes that have not registered since the start are waited for.
    expects_nodes: bool,
    /// Number of times that a copy became usable or unusable while the nodes stayed the same.
    changes: AtomicU64,
}

impl Cluster {
    /// As the catalog knows it: all nodes are dead until they register.
    pub fn new(
        fleet: Arc<dyn Fleet>,
        dead_after_ms: u64,
        expects_nodes: bool,
        clock: Clock,
        catalog: &Catalog,
    ) -> Result<Cluster> {
        let links = LinkTable::from(catalog.links()?).rates()?;
        let dead_after = Duration::from_millis(dead_after_ms);
        let heard = catalog.clock()?.unwrap_or_default().heard;
        Ok(Cluster {
            health: Health::new(dead_after, catalog.nodes()?, &catalog.leaving()?, links),
            lenders: Lenders::new(dead_after),
            calls: Calls::new(Arc::clone(&fleet), dead_after),
            fleet,
            load: Load::default(),
            heard_before: heard.into_iter().map(|row| (row.node, row.at_ms)).collect(),
            started: Instant::now(),
            started_ms: clock.now_ms(),
            clock: Arc::new(clock),
            dead_after,
            expects_nodes,
            changes: AtomicU64::new(0),
        })
    }

    /// Records that a copy is counted on again, or no longer, so that failed work is tried again.
    pub fn something_changed(&self) {
        self.changes.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of such changes.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    /// The world that decisions see.
    pub fn view(&self) -> World {
        self.health.view()
    }

    /// How long nodes are silent before they are dead; after a start they have so long to register.
    pub fn dead_after(&self) -> Duration {
        self.dead_after
    }

    /// Whether nodes that were not heard of may only not have registered yet.
    pub fn has_just_started(&self) -> bool {
        self.started.elapsed() < self.dead_after
    }

    /// Ends when they had it.
    pub async fn has_settled(&self) {
        tokio::time::sleep(self.dead_after).await;
    }

    /// How long a node has been dead, as far as is known. Time for which no coordinator ran does not count.
    pub fn dead_for(&self, node: NodeId) -> Duration {
        if let Some(dead) = self.health.dead_for(node) {
            return dead;
        }
        let heard_ms = self.heard_before.get(&node).copied().unwrap_or(self.started_ms);
        let silence = Duration::from_millis(self.clock.now_ms().saturating_sub(heard_ms));
        silence.saturating_sub(self.dead_after)
    }

    /// When each node was heard last, on the cluster's clock: by this coordinator, or by one before it.
    pub fn heard(&self) -> Vec<HeardRow> {
        let now_ms = self.clock.now_ms();
        let mut heard = self.heard_before.clone();
        for (node, silence) in self.health.silences() {
            heard.insert(node, now_ms.saturating_sub(silence.as_millis() as u64));
        }
        let view = self.view();
        // A store that was forgotten is nobody's.
        heard.retain(|node, _| view.node(*node).is_ok());
        heard.into_iter().map(|(node, at_ms)| HeardRow { node, at_ms }).collect()
    }

    /// Calls a node that counts as living.
    pub async fn call(&self, due: Due) {
        if self.calls.answers(&due).await {
            self.health.answered(due.node, due.row.incarnation);
        }
    }

    /// Calls a lender that counts as living.
    pub async fn call_lender(&self, due: Due) {
        if self.calls.answers(&due).await {
            self.lenders.answered(due.node, due.row.incarnation);
        }
    }

    /// Whoever lives as far as is known may have died a moment ago, and after a start nobody is known. Returns when the node
    /// has answered a call again or is dead, and in any case within a bounded time.
    pub async fn wait_for_news_of(&self, node: NodeId) {
        let (asked, heard) = (Instant::now(), self.health.heard(node));
        let is_unknown = || {
            let view = self.view();
            let Ok(state) = view.node(node) else { return false };
            match state.is_living {
                true => self.health.heard(node) == heard,
                false => !state.was_seen && self.has_just_started(),
            }
        };
        let call = async {
            if let Some(due) = self.health.due_now(node) {
                self.call(due).await;
            }
            std::future::pending().await
        };
        let known = async {
            while is_unknown() && asked.elapsed() < 2 * self.dead_after {
                tokio::time::sleep(NEWS_TICK).await;
            }
        };
        tokio::select! {
            () = known => {}
            () = call => {}
        }
    }

    /// Whether the process of a node that was accepted last answers where it was.
    pub async fn answers(&self, node: NodeId, known: &NodeRow) -> bool {
        let status = self.fleet.who_answers(node, &known.control_addr).await;
        status.is_some_and(|status| {
            status.store == known.store.to_bytes() && status.incarnation == known.incarnation.0
        })
    }

    /// Nodes that live, or of which a coordinator that has just started cannot know yet: a block whose copies are there
    /// is not in need.
    pub fn perhaps_living(&self, view: &World) -> BTreeSet<NodeId> {
        let is_new = self.has_just_started();
        let may_live = |node: &NodeFacts| node.is_living || (is_new && !node.was_seen);
        view.nodes.iter().filter(|(_, node)| may_live(node)).map(|(id, _)| id).collect()
    }
}
