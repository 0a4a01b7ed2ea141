//! Workers that run as long as the coordinator. Those with more to them have files of their own.

use crate::config::tick;
use crate::error::{CoordinatorError, Result};
use crate::garbage::Collector;
use crate::jobs::{self, DamagedRepairs, Recoverer};
use crate::shared::{Shared, now_ms};
use std::sync::Arc;
use std::time::Duration;
use worker::{Step, Task, Worker};

/// Idle puts are looked for this often, and more often when their lease is shorter.
const PUT_TICK_MS: u64 = 10_000;

/// Starts them all.
pub(crate) fn start(shared: &Arc<Shared>) {
    begin(shared, Collector::new(shared));
    begin(shared, PutReaper(Arc::clone(shared)));
    begin(shared, DamagedRepairs(Arc::clone(shared)));
    begin(shared, Recoverer::new(shared));
    shared.group.spawn(jobs::resume(Arc::clone(shared)));
    shared.group.spawn(notice_own_pauses(Arc::clone(shared)));
}

fn begin(shared: &Shared, worker: impl Worker + 'static) {
    let task = shared.tasks.add(worker.name());
    shared.group.spawn(worker::run(worker, task));
}

/// A coordinator that was stopped, or whose machine was, hears no heartbeats meanwhile; its nodes are not dead for that.
async fn notice_own_pauses(shared: Arc<Shared>) {
    loop {
        tokio::time::sleep(shared.health.look_every()).await;
        shared.health.look();
    }
}

/// Gives up puts whose lease has ended.
struct PutReaper(Arc<Shared>);

impl Worker for PutReaper {
    type Error = CoordinatorError;

    fn name(&self) -> &'static str {
        "put-reaper"
    }

    fn pause(&self) -> Duration {
        tick(PUT_TICK_MS, self.0.config.put_lease_ms)
    }

    async fn step(&mut self, task: &Task) -> Result<Step> {
        let now = now_ms();
        let end = move |catalog: &catalog::Catalog| {
            let expired = catalog.expired_puts(now)?;
            expired.iter().try_for_each(|&put| catalog.abort_put(put, now))?;
            Ok(expired.len() as u64)
        };
        let ended = self.0.catalog.run(end).await?;
        task.note(|report| report.done += ended);
        Ok(Step::Wait(self.pause()))
    }
}
