//! Damaged copies: they go if their blocks can be had without them, and the blocks are repaired one after another.

use super::Wish;
use crate::attempt::RepairOptions;
use crate::error::{CoordinatorError, Result};
use crate::shared::{Shared, now_ms};
use catalog::CatalogError;
use model::{BlockFacts, BlockId, Cause, Fault, NodeId, Peer};
use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::broadcast::error::RecvError;
use worker::{Step, Task, Worker};

/// So often it is looked whether a block waits.
const LOOK: Duration = Duration::from_millis(100);

/// Damaged blocks that wait for their repair; what does not fit is found again by the next scrub.
const MAX_DAMAGED: usize = 1024;

/// Blocks that lost a damaged copy and wait for their repair.
#[derive(Debug, Default)]
pub(crate) struct Damaged(Mutex<VecDeque<BlockId>>);

impl Damaged {
    /// Whether there was room for it.
    fn add(&self, block: BlockId) -> bool {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let has_room = waiting.len() < MAX_DAMAGED;
        if has_room && !waiting.contains(&block) {
            waiting.push_back(block);
        }
        has_room
    }

    fn next(&self) -> Option<BlockId> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

/// Learns from a fault: suspects an edge, drops a damaged copy.
pub(crate) async fn learn(shared: &Shared, fault: &Fault) {
    for node in shared.health.suspect(fault) {
        tracing::warn!(%node, "quarantined: suspected on two edges");
    }
    if let (Cause::CorruptBlock, Some((Peer::Node(node), same)), Some(block)) =
        (fault.cause, fault.suspect, fault.block)
        && same == node.into()
        && let Err(error) = drop_damaged(shared, block, node).await
    {
        tracing::warn!(%block, %node, %error, "a damaged copy could not be dropped");
    }
}

/// A node's copy of a block is damaged: it goes, and is repaired, if the block can be had without it.
pub(crate) async fn drop_damaged(shared: &Shared, block: BlockId, node: NodeId) -> Result<()> {
    let placement = match shared.catalog.run(move |catalog| catalog.placement(block)).await {
        Err(CoordinatorError::Catalog(CatalogError::NoSuchBlock(_))) => return Ok(()),
        placement => placement?,
    };
    let living: BTreeSet<NodeId> = shared.health.view().living().into_iter().filter(|&n| n != node).collect();
    let rebuildable = placement.stripe.as_ref().is_some_and(|stripe| {
        let index = usize::from(stripe.index);
        let mut usable = stripe.usable(&living);
        if let Some(own) = usable.get_mut(index) {
            *own = false;
        }
        shared.planner.codes.recoverable(&stripe.code, &usable).get(index) == Some(&true)
    });
    let now_ms = now_ms();
    let dropped = shared
        .catalog
        .run(move |catalog| {
            let is_safe = |row: &BlockFacts| rebuildable || row.lives(&living);
            catalog.drop_damaged(block, node, is_safe, now_ms)
        })
        .await?;
    if dropped {
        tracing::warn!(%block, %node, "damaged copy dropped");
        if !shared.damaged.add(block) {
            tracing::warn!(%block, "too many damaged blocks wait for repair; repair this one by hand");
        }
    }
    Ok(())
}

/// The worker.
pub(crate) struct DamagedRepairs(pub Arc<Shared>);

impl DamagedRepairs {
    /// Runs the repair as a job and waits for its end.
    async fn repair(&self, block: BlockId) -> Result<()> {
        let options = RepairOptions { verify: true, ..RepairOptions::default() };
        let mut events = super::start(&self.0, Wish::Repair(block, options)).await?;
        loop {
            match events.recv().await {
                Ok(event) if event.state == "failed" => {
                    return Err(CoordinatorError::Conflict(event.message));
                }
                Ok(event) if event.state == "done" => return Ok(()),
                Ok(_) | Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return Err(CoordinatorError::ShuttingDown),
            }
        }
    }
}

impl Worker for DamagedRepairs {
    type Error = CoordinatorError;

    fn name(&self) -> &'static str {
        "repair-damaged"
    }

    fn pause(&self) -> Duration {
        LOOK
    }

    async fn step(&mut self, task: &Task) -> Result<Step> {
        let Some(block) = self.0.damaged.next() else { return Ok(Step::Wait(LOOK)) };
        task.note(|report| {
            report.total += 1;
            report.detail = format!("block {block}");
        });
        match self.repair(block).await {
            Ok(()) => task.note(|report| report.done += 1),
            // The others do not wait for it.
            Err(error) => task.note(|report| {
                report.errors += 1;
                report.detail = format!("block {block}: {error}");
            }),
        }
        Ok(Step::Again)
    }
}
