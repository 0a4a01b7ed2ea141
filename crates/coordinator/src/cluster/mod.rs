//! The nodes: who lives and where, what is known of the links, how they are reached, and what repairs they are receiving.

mod fleet;
mod health;
mod links;
mod load;

pub use fleet::{Fleet, Grpc};
pub(crate) use health::Report;
pub(crate) use links::LinkTable;
pub(crate) use load::Receiving;

use crate::error::Result;
use catalog::Catalog;
use health::Health;
use load::Load;
use model::NodeId;
use plan::decide::{NodeFacts, World};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// See the module.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub health: Health,
    pub fleet: Arc<dyn Fleet>,
    pub load: Load,
    started: Instant,
    dead_after: Duration,
}

impl Cluster {
    /// As the catalog knows it: all nodes are dead until they register.
    pub fn new(fleet: Arc<dyn Fleet>, dead_after_ms: u64, catalog: &Catalog) -> Result<Cluster> {
        let links = LinkTable::from(catalog.links()?).rates()?;
        let dead_after = Duration::from_millis(dead_after_ms);
        Ok(Cluster {
            health: Health::new(dead_after, catalog.nodes()?, &catalog.leaving()?, links),
            fleet,
            load: Load::default(),
            started: Instant::now(),
            dead_after,
        })
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

    /// How long a node has been dead, as far as this coordinator knows.
    pub fn dead_for(&self, node: NodeId) -> Duration {
        let silence = self.health.silence_of(node);
        silence.unwrap_or_else(|| self.started.elapsed()).saturating_sub(self.dead_after)
    }

    /// Nodes that live, or of which a coordinator that has just started cannot know yet: a block whose copies are there
    /// is not in need.
    pub fn perhaps_living(&self, view: &World) -> BTreeSet<NodeId> {
        let is_new = self.has_just_started();
        let may_live = |node: &NodeFacts| node.is_living || (is_new && !node.was_seen);
        view.nodes.iter().filter(|(_, node)| may_live(node)).map(|(id, _)| id).collect()
    }
}
