//! Stripes that have been open for too long are sealed as short as they are: their blocks are not to wait for ever.

use super::Gathering;
use crate::config::tick;
use crate::error::CoordinatorError;
use std::sync::Arc;
use std::time::Duration;
use worker::{Step, Task, Worker};

/// So often is looked, and more often when stripes are open for a shorter time.
const TICK_MS: u64 = 30_000;

/// The worker.
pub(crate) struct Sealer {
    gathering: Arc<Gathering>,
    open_for_ms: u64,
}

impl Sealer {
    pub fn new(gathering: Arc<Gathering>, open_for_ms: u64) -> Sealer {
        Sealer { gathering, open_for_ms }
    }
}

impl Worker for Sealer {
    type Error = CoordinatorError;

    fn name(&self) -> &'static str {
        "seal"
    }

    fn pause(&self) -> Duration {
        tick(TICK_MS, self.open_for_ms)
    }

    async fn step(&mut self, task: &Task) -> Result<Step, CoordinatorError> {
        let now_ms = self.gathering.cluster.clock.now_ms();
        let sealed = self.gathering.seal_older(now_ms.saturating_sub(self.open_for_ms)).await?;
        task.note(|report| {
            report.done += sealed;
            report.detail = format!("{} stripes sealed short since the start", report.done);
        });
        Ok(Step::Wait(self.pause()))
    }
}
