//! The task that checks the catalog's own file, at each start and once a week (HEALING.md, "The catalog's own file"). Nothing is let
//! go before the check of the start has ended; puts and reads do not wait for it. What is checked: `catalog::Catalog::check`.

use crate::clock;
use crate::cluster::Cluster;
use crate::error::{CoordinatorError, Result};
use crate::records::Records;
use catalog::{Catalog, Checked, Condition, Progress};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use worker::{Step, Task, Worker};

/// Interval at which the task looks whether a check is due, and whether an operator paused the running one.
const TICK: Duration = Duration::from_millis(200);

/// Wait before a check that did not get to its end, for instance because an operator paused it, begins again.
const RETRY: Duration = Duration::from_secs(5);

/// Checks the catalog's file. See the module.
pub(crate) struct Checker {
    records: Records,
    cluster: Arc<Cluster>,
    every_ms: u64,
    /// When the next one is due, on the cluster's clock.
    due_ms: u64,
}

impl Checker {
    pub fn new(records: Records, cluster: Arc<Cluster>, every_ms: u64) -> Checker {
        let due_ms = cluster.clock.now_ms();
        Checker { records, cluster, every_ms, due_ms }
    }

    /// Runs one check, and ends it early if an operator pauses or stops the task.
    async fn check(&self, task: &Task) -> Result<Checked> {
        let (goes_on, seen) = (Arc::new(AtomicBool::new(true)), Arc::new(Mutex::new(Progress::default())));
        let (going, seeing) = (Arc::clone(&goes_on), Arc::clone(&seen));
        let pace = move |progress: &Progress| {
            *seeing.lock().unwrap_or_else(PoisonError::into_inner) = *progress;
            going.load(Ordering::Relaxed)
        };
        let mut checking = std::pin::pin!(self.records.run(move |catalog: &Catalog| catalog.check(&pace)));
        loop {
            match clock::within(TICK, &mut checking).await {
                Some(checked) => return checked,
                None => {
                    goes_on.store(task.is_on(), Ordering::Relaxed);
                    let Progress { pages, rows } = *seen.lock().unwrap_or_else(PoisonError::into_inner);
                    task.note(|report| {
                        report.detail = format!("checking: {pages} pages, {rows} rows so far")
                    });
                }
            }
        }
    }
}

impl Worker for Checker {
    type Error = CoordinatorError;

    fn name(&self) -> &'static str {
        "catalog-check"
    }

    fn pause(&self) -> Duration {
        // The first one begins at once.
        Duration::from_millis(1)
    }

    async fn step(&mut self, task: &Task) -> Result<Step> {
        let now_ms = self.cluster.clock.now_ms();
        // `renewer.rs` renews a damaged file; further findings would change nothing.
        let is_damaged = matches!(self.records.condition(), Condition::Damaged(_));
        if now_ms < self.due_ms || is_damaged {
            return Ok(Step::Wait(TICK));
        }
        let Checked { seen: Progress { pages, rows }, page_bytes, findings, is_complete } =
            self.check(task).await?;
        if !is_complete {
            return Ok(Step::Wait(RETRY));
        }
        self.due_ms = now_ms + self.every_ms;
        let took_ms = self.cluster.clock.now_ms().saturating_sub(now_ms);
        if findings == 0 {
            tracing::info!(
                pages,
                rows,
                page_bytes,
                took_ms,
                "the catalog's file was checked: it is as it was written"
            );
        }
        self.records.check_has_ended();
        task.note(|report| {
            report.done += 1;
            report.detail = format!("last: {pages} pages, {rows} rows in {took_ms} ms, {findings} findings");
        });
        Ok(Step::Wait(TICK))
    }
}
