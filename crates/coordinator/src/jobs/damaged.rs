//! Blocks that lost a damaged copy are repaired, one after another.

use super::{Jobs, Wish};
use crate::attempt::RepairOptions;
use crate::error::{CoordinatorError, Result};
use model::BlockId;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast::error::RecvError;
use worker::{Step, Task, Worker};

/// So often it is looked whether a block waits.
const LOOK: Duration = Duration::from_millis(100);

/// The worker.
pub(crate) struct DamagedRepairs(pub Arc<Jobs>);

impl DamagedRepairs {
    /// Runs the repair as a job and waits for its end.
    async fn repair(&self, block: BlockId) -> Result<()> {
        let options = RepairOptions { verify: true, ..RepairOptions::default() };
        let mut events = self.0.start(Wish::Repair(block, options)).await?;
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
        let Some(block) = self.0.attempts.damaged.next() else { return Ok(Step::Wait(LOOK)) };
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
