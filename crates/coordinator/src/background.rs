//! Loops that run as long as the coordinator: the end of idle puts, repair of damaged blocks; garbage collection has a file
//! of its own.

use crate::attempt::RepairOptions;
use crate::config::MIN_TICK_MS;
use crate::error::{CoordinatorError, Result};
use crate::garbage;
use crate::jobs::{self, Work};
use crate::shared::{Shared, now_ms};
use model::BlockId;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// Idle puts are looked for this often, and more often when their lease is shorter.
const PUT_TICK_MS: u64 = 10_000;

/// Starts them all.
pub(crate) fn start(shared: &Arc<Shared>, damaged: mpsc::Receiver<BlockId>) {
    shared.spawn(garbage::collect(Arc::clone(shared)));
    shared.spawn(end_idle_puts(Arc::clone(shared)));
    shared.spawn(repair_damaged(Arc::clone(shared), damaged));
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
