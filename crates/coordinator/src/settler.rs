//! The end of a safe mode that a node's word began (HEALING.md, "Broken history"): once every node has said what it has, and no
//! name is uncertain. Nobody need wait for an operator who has nothing to decide. What a doubt waits for ends it: `holders.rs`.

use crate::cluster::Cluster;
use crate::error::{CoordinatorError, Result};
use crate::operator::Operator;
use crate::records::Records;
use catalog::SafeMode;
use std::sync::Arc;
use std::time::Duration;
use worker::{Step, Task, Worker};

/// So often it is looked whether it is time.
const TICK: Duration = Duration::from_secs(1);

/// Every sidecar is read for it: so long after safe mode began, or this process, and after twice that each time, up to the bound
/// that the cluster has for comparisons.
const FIRST_PAUSE_MS: u64 = 60_000;

/// See the module.
pub(crate) struct Settler {
    operator: Arc<Operator>,
    records: Records,
    cluster: Arc<Cluster>,
    max_pause_ms: u64,
    pause_ms: u64,
    /// When it is tried next, on the cluster's clock; `None` as long as there is nothing to end.
    next_ms: Option<u64>,
}

impl Settler {
    /// Tries are `max_pause_ms` apart at most.
    pub fn new(
        operator: Arc<Operator>,
        records: Records,
        cluster: Arc<Cluster>,
        max_pause_ms: u64,
    ) -> Settler {
        let pause_ms = FIRST_PAUSE_MS.min(max_pause_ms);
        Settler { operator, records, cluster, max_pause_ms, pause_ms, next_ms: None }
    }

    fn is_due(&mut self) -> bool {
        let now_ms = self.cluster.clock.now_ms();
        let is_due = self.next_ms.is_some_and(|at_ms| now_ms >= at_ms);
        if is_due || self.next_ms.is_none() {
            self.next_ms = Some(now_ms + self.pause_ms);
            self.pause_ms = self.pause_ms.saturating_mul(2).min(self.max_pause_ms);
        }
        is_due
    }
}

impl Worker for Settler {
    type Error = CoordinatorError;

    fn name(&self) -> &'static str {
        "safe-mode"
    }

    fn pause(&self) -> Duration {
        TICK
    }

    async fn step(&mut self, task: &Task) -> Result<Step> {
        let Some(SafeMode::Heard(why)) = self.records.run(|catalog| catalog.safe_mode()).await? else {
            (self.next_ms, self.pause_ms) = (None, FIRST_PAUSE_MS.min(self.max_pause_ms));
            return Ok(Step::Wait(TICK));
        };
        if self.is_due() {
            let waits = self.operator.settle(why).await?;
            task.note(|report| {
                report.done += 1;
                report.detail =
                    waits.map_or("nothing is left to decide".to_owned(), |why| format!("it stays: {why}"));
            });
        }
        Ok(Step::Wait(TICK))
    }
}
