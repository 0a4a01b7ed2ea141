//! Workers that run as long as the coordinator, and have no file of their own.

use crate::cluster::Cluster;
use crate::config::tick;
use crate::error::{CoordinatorError, Result};
use crate::records::{Records, now_ms};
use std::sync::Arc;
use std::time::Duration;
use worker::{Step, Task, Worker};

/// Idle puts are looked for this often, and more often when their lease is shorter.
const PUT_TICK_MS: u64 = 10_000;

/// A coordinator that was stopped, or whose machine was, hears no heartbeats meanwhile; its nodes are not dead for that.
pub(crate) async fn notice_own_pauses(cluster: Arc<Cluster>) {
    loop {
        tokio::time::sleep(cluster.health.look_every()).await;
        cluster.health.look();
    }
}

/// Gives up puts whose lease has ended.
pub(crate) struct PutReaper {
    pub records: Records,
    pub lease_ms: u64,
}

impl Worker for PutReaper {
    type Error = CoordinatorError;

    fn name(&self) -> &'static str {
        "put-reaper"
    }

    fn pause(&self) -> Duration {
        tick(PUT_TICK_MS, self.lease_ms)
    }

    async fn step(&mut self, task: &Task) -> Result<Step> {
        let now = now_ms();
        let end = move |catalog: &catalog::Catalog| {
            let expired = catalog.expired_puts(now)?;
            expired.iter().try_for_each(|&put| catalog.abort_put(put, now))?;
            Ok(expired.len() as u64)
        };
        let ended = self.records.run(end).await?;
        task.note(|report| report.done += ended);
        Ok(Step::Wait(self.pause()))
    }
}
