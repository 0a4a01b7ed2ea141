//! Loops that run as long as the coordinator: garbage collection, the end of idle puts, repair of damaged blocks.

use crate::catalog::rows::BlockCopy;
use crate::error::{CoordinatorError, Result};
use crate::jobs::{self, RepairOptions, Work};
use crate::shared::{Shared, now_ms};
use model::BlockId;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use wire::proto;

/// Garbage is looked for this often, and more often when its grace is shorter.
const GARBAGE_TICK_MS: u64 = 5_000;

/// Idle puts are looked for this often, and more often when their lease is shorter.
const PUT_TICK_MS: u64 = 10_000;

/// How soon the operator sees that unknown blocks are kept.
const ORPHAN_TICK_MS: u64 = 500;

/// No loop turns faster.
const MIN_TICK_MS: u64 = 20;

/// Copies that a node is told to delete in one call: some milliseconds each.
const DELETE_BATCH: usize = 256;

/// Starts them all.
pub(crate) fn start(shared: &Arc<Shared>, damaged: mpsc::Receiver<BlockId>) {
    shared.spawn(collect_garbage(Arc::clone(shared)));
    shared.spawn(end_idle_puts(Arc::clone(shared)));
    shared.spawn(repair_damaged(Arc::clone(shared), damaged));
    shared.spawn(watch_orphans(Arc::clone(shared)));
    shared.spawn(jobs::resume(Arc::clone(shared)));
    shared.spawn(jobs::recover_dead(Arc::clone(shared)));
    shared.spawn(notice_own_pauses(Arc::clone(shared)));
}

/// A coordinator that was stopped, or whose machine was, hears no heartbeats meanwhile; its nodes are not dead for that.
async fn notice_own_pauses(shared: Arc<Shared>) {
    loop {
        tokio::time::sleep(shared.health.look_every()).await;
        shared.health.look();
    }
}

async fn collect_garbage(shared: Arc<Shared>) {
    let task = shared.tasks.add("gc");
    let tick = Duration::from_millis(GARBAGE_TICK_MS.min(shared.config.garbage_grace_ms).max(MIN_TICK_MS));
    loop {
        tokio::time::sleep(tick).await;
        if !task.is_on() {
            continue;
        }
        task.note(|report| report.is_busy = true);
        let outcome = delete_due(&shared).await;
        task.note(|report| {
            report.is_busy = false;
            match outcome {
                Ok(deleted) => report.done += deleted,
                Err(error) => {
                    report.errors += 1;
                    report.detail = error.to_string();
                }
            }
        });
    }
}

/// Has the nodes delete what has been garbage for longer than the grace. How many copies went.
async fn delete_due(shared: &Arc<Shared>) -> Result<u64> {
    let view = shared.health.view();
    let before_ms = now_ms().saturating_sub(shared.config.garbage_grace_ms);
    let living = view.living();
    let due = shared.catalog.run(move |c| c.due_garbage(&living, before_ms, DELETE_BATCH)).await?;
    let cluster = shared.catalog.run(|catalog| catalog.meta()).await?.cluster;
    let mut deleted = 0;
    let mut failure = None;
    for (node, copies) in due {
        let reference = |copy: &BlockCopy| proto::BlockRef {
            block: copy.block.to_vec(),
            generation: copy.generation,
            stored_bytes: 0,
        };
        match shared.nodes.delete(&view, node, cluster, copies.iter().map(reference).collect()).await {
            Ok(_) => {
                deleted += copies.len() as u64;
                shared.catalog.run(move |catalog| catalog.garbage_deleted(&copies)).await?;
            }
            // The other nodes' garbage does not wait for this one.
            Err(error) => failure = Some(error),
        }
    }
    match failure {
        Some(error) if deleted == 0 => Err(error),
        _ => Ok(deleted),
    }
}

async fn end_idle_puts(shared: Arc<Shared>) {
    let task = shared.tasks.add("put-reaper");
    let tick = Duration::from_millis(PUT_TICK_MS.min(shared.config.put_lease_ms).max(MIN_TICK_MS));
    loop {
        tokio::time::sleep(tick).await;
        if !task.is_on() {
            continue;
        }
        let now = now_ms();
        let ended = shared
            .catalog
            .run(move |catalog| {
                let expired = catalog.expired_puts(now)?;
                expired.iter().try_for_each(|&put| catalog.abort_put(put, now))?;
                Ok(expired.len() as u64)
            })
            .await;
        task.note(|report| match ended {
            Ok(ended) => report.done += ended,
            Err(error) => {
                report.errors += 1;
                report.detail = error.to_string();
            }
        });
    }
}

async fn repair_damaged(shared: Arc<Shared>, mut damaged: mpsc::Receiver<BlockId>) {
    let task = shared.tasks.add("repair-damaged");
    while let Some(block) = damaged.recv().await {
        while !task.may_go_on().await {
            tokio::time::sleep(Duration::from_millis(MIN_TICK_MS)).await;
        }
        task.note(|report| {
            report.is_busy = true;
            report.total += 1;
            report.detail = format!("block {block}");
        });
        let outcome = repair_one(&shared, block).await;
        task.note(|report| {
            report.is_busy = false;
            match outcome {
                Ok(()) => report.done += 1,
                Err(error) => {
                    report.errors += 1;
                    report.detail = format!("block {block}: {error}");
                }
            }
        });
    }
}

/// Runs the repair as a job and waits for its end: damaged blocks are repaired one after another.
async fn repair_one(shared: &Arc<Shared>, block: BlockId) -> Result<()> {
    let options = RepairOptions { verify: true, ..RepairOptions::default() };
    let mut events = jobs::start(shared, Work::Repair(block, options)).await?;
    loop {
        match events.recv().await {
            Ok(event) if event.state == "failed" => return Err(CoordinatorError::Conflict(event.message)),
            Ok(event) if event.state == "done" => return Ok(()),
            Ok(_) | Err(tokio::sync::broadcast::error::RecvError::Lagged(_)) => {}
            Err(tokio::sync::broadcast::error::RecvError::Closed) => {
                return Err(CoordinatorError::ShuttingDown);
            }
        }
    }
}

/// In a catalog that was restored or rebuilt, blocks that it does not know are kept until the operator resumes the task.
async fn watch_orphans(shared: Arc<Shared>) {
    let task = Arc::clone(&shared.orphans);
    loop {
        tokio::time::sleep(Duration::from_millis(ORPHAN_TICK_MS)).await;
        if !matches!(shared.catalog.run(|catalog| catalog.meta()).await, Ok(meta) if meta.keep_unknown) {
            continue;
        }
        task.note(|report| {
            report.detail =
                "the catalog was restored or rebuilt: unknown blocks are kept; resume to collect them"
                    .to_owned();
        });
        task.pause();
        if task.may_go_on().await {
            let outcome = shared.catalog.run(|catalog| catalog.collect_unknown()).await;
            task.note(|report| report.detail = outcome.err().map_or_else(String::new, |e| e.to_string()));
        }
    }
}
