//! What all parts of a running coordinator share.

use crate::audit::Audit;
use crate::config::Config;
use crate::error::{CoordinatorError, Result};
use crate::health::Health;
use crate::jobs::Jobs;
use crate::links::LinkTable;
use crate::nodes::Nodes;
use crate::pace::Pace;
use crate::reads::Reads;
use crate::records::Records;
use crate::tasks::Tasks;
use catalog::{Catalog, CatalogError};
use model::{BlockId, Cause, Fault, NodeId, Peer};
use plan::decide::Planner;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Damaged blocks that wait for their repair; what does not fit is found again by the next scrub.
pub(crate) const MAX_DAMAGED: usize = 1024;

/// The state of a coordinator.
#[derive(Debug)]
pub(crate) struct Shared {
    pub config: Config,
    pub started: Instant,
    pub catalog: Records,
    pub health: Health,
    pub nodes: Nodes,
    pub planner: Planner,
    pub tasks: Tasks,
    pub jobs: Jobs,
    /// What users read; recoveries make way.
    pub reads: Reads,
    /// Held by whoever has copies deleted, or takes one back: neither may happen between the other's look and deed.
    pub ordering: tokio::sync::Mutex<()>,
    pub audit: Audit,
    /// How long repairs of single blocks took lately.
    pub pace: Pace,
    /// … and those of recoveries.
    pub pace_among_many: Pace,
    damaged: mpsc::Sender<BlockId>,
    /// Repairs that each node is receiving.
    receiving: Mutex<BTreeMap<NodeId, u64>>,
    background: Mutex<JoinSet<()>>,
}

impl Shared {
    /// With an open catalog; the receiver yields blocks that lost a damaged copy.
    pub fn new(config: Config, catalog: Catalog) -> Result<(Arc<Shared>, mpsc::Receiver<BlockId>)> {
        let (damaged, damaged_blocks) = mpsc::channel(MAX_DAMAGED);
        let tasks = Tasks::after(catalog.wishes()?);
        let links = LinkTable::from(catalog.links()?).rates()?;
        let shared = Arc::new(Shared {
            started: Instant::now(),
            health: Health::new(
                Duration::from_millis(config.dead_after_ms),
                catalog.nodes()?,
                &catalog.leaving()?,
                links,
            ),
            reads: Reads::default(),
            nodes: Nodes::default(),
            planner: Planner::new(config.slice_bytes),
            ordering: tokio::sync::Mutex::default(),
            audit: Audit::new(catalog.audit_end()?, tasks.add(Audit::task())),
            pace: Pace::alone(),
            pace_among_many: Pace::among_many(),
            tasks,
            jobs: Jobs::default(),
            catalog: Records::of(catalog),
            config,
            damaged,
            receiving: Mutex::default(),
            background: Mutex::default(),
        });
        Ok((shared, damaged_blocks))
    }

    /// Runs something until it ends or the coordinator shuts down.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut background = self.background.lock().unwrap_or_else(PoisonError::into_inner);
        while background.try_join_next().is_some() {}
        background.spawn(work);
    }

    /// Ends all that was spawned, at its next pause.
    pub fn abort_background(&self) {
        self.background.lock().unwrap_or_else(PoisonError::into_inner).abort_all();
    }

    /// Waits for the end of all that was spawned and closes the catalog.
    pub async fn shut_down(&self) {
        let mut background =
            std::mem::take(&mut *self.background.lock().unwrap_or_else(PoisonError::into_inner));
        background.shutdown().await;
        self.catalog.close().await;
    }

    /// Counts a repair towards the load of the node that receives it, as long as the guard lives.
    pub fn receive(self: &Arc<Self>, node: NodeId) -> Receiving {
        *self.receiving().entry(node).or_default() += 1;
        Receiving { shared: Arc::clone(self), node }
    }

    /// Repairs that a node is receiving.
    pub fn received_by(&self, node: NodeId) -> u64 {
        self.receiving().get(&node).copied().unwrap_or(0)
    }

    fn receiving(&self) -> MutexGuard<'_, BTreeMap<NodeId, u64>> {
        self.receiving.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What repairs took so far says nothing of the next ones.
    pub fn forget_pace(&self) {
        self.pace.forget();
        self.pace_among_many.forget();
    }

    /// Learns from a fault: suspects an edge, drops a damaged copy.
    pub async fn learn(&self, fault: &Fault) {
        for node in self.health.suspect(fault) {
            tracing::warn!(%node, "quarantined: suspected on two edges");
        }
        if let (Cause::CorruptBlock, Some((Peer::Node(node), same)), Some(block)) =
            (fault.cause, fault.suspect, fault.block)
            && same == node.into()
            && let Err(error) = self.damaged(block, node).await
        {
            tracing::warn!(%block, %node, %error, "a damaged copy could not be dropped");
        }
    }

    /// A node's copy of a block is damaged: it goes, and is repaired, if the block can be had without it.
    pub async fn damaged(&self, block: BlockId, node: NodeId) -> Result<()> {
        let placement = match self.catalog.run(move |catalog| catalog.placement(block)).await {
            Err(CoordinatorError::Catalog(CatalogError::NoSuchBlock(_))) => return Ok(()),
            placement => placement?,
        };
        let living: BTreeSet<NodeId> =
            self.health.view().living().into_iter().filter(|&n| n != node).collect();
        let rebuildable = placement.stripe.as_ref().is_some_and(|stripe| {
            let index = usize::from(stripe.index);
            let mut usable = stripe.usable(&living);
            if let Some(own) = usable.get_mut(index) {
                *own = false;
            }
            self.planner.codes.recoverable(&stripe.code, &usable).get(index) == Some(&true)
        });
        let now_ms = now_ms();
        let dropped = self
            .catalog
            .run(move |catalog| {
                let is_safe = |row: &model::BlockFacts| rebuildable || row.lives(&living);
                catalog.drop_damaged(block, node, is_safe, now_ms)
            })
            .await?;
        if dropped {
            tracing::warn!(%block, %node, "damaged copy dropped");
            if self.damaged.try_send(block).is_err() {
                tracing::warn!(%block, "too many damaged blocks wait for repair; repair this one by hand");
            }
        }
        Ok(())
    }
}

/// See [`Shared::receive`].
#[derive(Debug)]
pub(crate) struct Receiving {
    shared: Arc<Shared>,
    node: NodeId,
}

impl Drop for Receiving {
    fn drop(&mut self) {
        if let Some(count) = self.shared.receiving().get_mut(&self.node) {
            *count = count.saturating_sub(1);
        }
    }
}

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
