//! Archival by age: of buckets that say so, what was put long enough ago is archived unasked, by the job that an operator would
//! order.

use super::choose;
use crate::error::CoordinatorError;
use crate::jobs::{Jobs, Wish};
use catalog::rows::{BucketRow, EncodingRow, JobRow};
use std::sync::Arc;
use std::time::Duration;
use worker::{Step, Task, Worker};

/// The worker.
pub(crate) struct AgedArchivals {
    jobs: Arc<Jobs>,
    wall_ms: fn() -> u64,
    every_ms: u64,
}

impl AgedArchivals {
    pub fn new(jobs: Arc<Jobs>, wall_ms: fn() -> u64, every_ms: u64) -> AgedArchivals {
        AgedArchivals { jobs, wall_ms, every_ms }
    }

    /// Begins the archival of what is old enough in a bucket; whether there is any.
    async fn begin(&self, name: &str, bucket: &BucketRow) -> Result<bool, CoordinatorError> {
        let row = EncodingRow {
            name: format!("{name}/"),
            is_prefix: true,
            before_unix_ms: (self.wall_ms)().saturating_sub(bucket.archive_after_ms).max(1),
            code: bucket.terms.code.clone(),
            ..EncodingRow::default()
        };
        if choose(&self.jobs.attempts, &row).await?.work(false).is_empty() {
            return Ok(false);
        }
        self.jobs.start(Wish::Lasting(JobRow::Encode(row))).await?;
        Ok(true)
    }
}

impl Worker for AgedArchivals {
    type Error = CoordinatorError;

    fn name(&self) -> &'static str {
        "archive-aged"
    }

    fn pause(&self) -> Duration {
        Duration::from_millis(self.every_ms)
    }

    async fn step(&mut self, task: &Task) -> Result<Step, CoordinatorError> {
        let buckets = self.jobs.attempts.records.run(|catalog| catalog.buckets()).await?;
        let aging = buckets.into_iter().filter(|(_, bucket)| bucket.archive_after_ms > 0);
        let (mut begun, mut failure) = (None, None);
        for (name, bucket) in aging {
            // One at a time, whoever began it: also what an earlier life of the coordinator left.
            if self.jobs.is_archiving() {
                break;
            }
            match self.begin(&name, &bucket).await {
                Ok(true) => begun = Some(name),
                Ok(false) => {}
                // The others need not wait for what this one lacks.
                Err(error) => _ = failure.get_or_insert(error),
            }
        }
        task.note(|report| {
            report.done += u64::from(begun.is_some());
            if let Some(name) = begun {
                report.detail = format!("{name}/… began to be archived");
            }
        });
        match failure {
            Some(error) => Err(error),
            None => Ok(Step::Wait(self.pause())),
        }
    }
}
