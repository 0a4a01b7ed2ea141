//! Damaged copies: they go if their blocks can be had without them, and the blocks are repaired one after another.

use crate::cluster::Cluster;
use crate::error::{CoordinatorError, Result};
use crate::records::Records;
use catalog::{Catalog, CatalogError};
use model::{BlockFacts, BlockId, NodeId};
use plan::decide::Planner;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// Damaged blocks that wait for their repair; what does not fit is found again by the next scrub.
const MAX_DAMAGED: usize = 1024;

/// What is done about damaged copies.
#[derive(Debug)]
pub(crate) struct Damaged {
    records: Records,
    cluster: Arc<Cluster>,
    planner: Arc<Planner>,
    /// Blocks that lost a damaged copy and wait for their repair.
    waiting: Mutex<VecDeque<BlockId>>,
}

impl Damaged {
    /// Nothing is damaged as far as is known.
    pub fn new(records: Records, cluster: Arc<Cluster>, planner: Arc<Planner>) -> Damaged {
        Damaged { records, cluster, planner, waiting: Mutex::default() }
    }

    /// Whether there was room for it.
    fn add(&self, block: BlockId) -> bool {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let has_room = waiting.len() < MAX_DAMAGED;
        if has_room && !waiting.contains(&block) {
            waiting.push_back(block);
        }
        has_room
    }

    /// The next block to repair.
    pub fn next(&self) -> Option<BlockId> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    /// A node's copy of a block is damaged, as the node itself found: it goes, and is repaired, if the block can be had without it.
    pub async fn drop_copy(&self, block: BlockId, node: NodeId) {
        match self.try_drop(block, node).await {
            Ok(false) => {}
            Ok(true) => {
                tracing::warn!(%block, %node, "damaged copy dropped");
                if !self.add(block) {
                    tracing::warn!(%block, "too many damaged blocks wait for repair; repair this one by hand");
                }
            }
            Err(error) => tracing::warn!(%block, %node, %error, "a damaged copy could not be dropped"),
        }
    }

    async fn try_drop(&self, block: BlockId, node: NodeId) -> Result<bool> {
        let placement = match self.records.run(move |catalog| catalog.placement(block)).await {
            Err(CoordinatorError::Catalog(CatalogError::NoSuchBlock(_))) => return Ok(false),
            placement => placement?,
        };
        let mut living = self.cluster.view().living();
        living.remove(&node);
        let rebuildable = placement.stripe.as_ref().is_some_and(|stripe| {
            let index = usize::from(stripe.index);
            let mut usable = stripe.usable(&living);
            if let Some(own) = usable.get_mut(index) {
                *own = false;
            }
            self.planner.codes.recoverable(&stripe.code, &usable).get(index) == Some(&true)
        });
        let now_ms = self.cluster.clock.now_ms();
        let drop = move |catalog: &Catalog| {
            let is_safe = |row: &BlockFacts| rebuildable || row.lives(&living);
            catalog.drop_damaged(block, node, is_safe, now_ms)
        };
        self.records.run(drop).await
    }
}
