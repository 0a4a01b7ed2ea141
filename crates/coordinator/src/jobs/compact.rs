//! Compaction: blocks of objects that are gone keep their room as long as others of their stripes live. Stripes that keep much
//! become fewer and smaller ones.

use super::archive::{encode_all, times};
use super::regroup;
use super::{Jobs, Wish};
use crate::attempt::{Attempts, RepairOptions, ToEncode};
use crate::config::COMPACT_EVERY_MS;
use crate::error::{CoordinatorError, Result};
use crate::job::Job;
use catalog::Deaths;
use catalog::rows::{CompactionRow, JobRow};
use model::StripeId;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use worker::{Step, Task, Worker};

/// What is to be made smaller, and what is not.
#[derive(Default)]
struct Chosen {
    work: Vec<ToEncode>,
    /// Stripes that lack live blocks: these are made again first.
    short: usize,
    /// Stripes that would save too little.
    kept: usize,
}

impl Chosen {
    /// What stays as it is, and why, for people.
    fn left(&self) -> Vec<String> {
        let short = (self.short > 0).then(|| lacking(self.short));
        let kept = (self.kept > 0).then(|| format!("{} stripes keep too little to be worth it", self.kept));
        short.into_iter().chain(kept).collect()
    }
}

/// Stripes that are left until they are whole, for people.
pub(super) fn lacking(stripes: usize) -> String {
    format!("{stripes} stripes lack blocks that must be made again first")
}

/// Looks through the stripes in which something is dead.
async fn choose(with: &Attempts) -> Result<Chosen> {
    let deaths = with.records.run(|catalog| catalog.deaths()).await?;
    let living = with.cluster.view().living();
    let (mut chosen, mut olds, count) = (Chosen::default(), Vec::new(), deaths.len());
    for stripe in deaths.into_keys() {
        let Some(old) = regroup::old(&with.records, stripe).await? else { continue };
        match old.has_all(&living) {
            _ if old.is_virtual() => {}
            true => olds.push(old),
            false => chosen.short += 1,
        }
    }
    let regroups = regroup::compacted(olds, &with.planner.codes)?;
    let replaced: usize = regroups.iter().map(|regroup| regroup.replaces.len()).sum();
    chosen.kept = count.saturating_sub(replaced + chosen.short);
    chosen.work = regroups.into_iter().map(ToEncode::Coded).collect();
    Ok(chosen)
}

/// The job.
pub(super) async fn run(with: &Arc<Attempts>, job: &Arc<Job>, row: &CompactionRow) -> Result<String> {
    let mut chosen = choose(with).await?;
    let (work, left) = (std::mem::take(&mut chosen.work), chosen.left());
    if work.is_empty() {
        let nothing = std::iter::once("nothing to do".to_owned());
        return Ok(nothing.chain(left).collect::<Vec<_>>().join("; "));
    }
    job.say(format!("{} stripes to make of others", work.len()));
    let options = RepairOptions {
        slice_bytes: row.slice_bytes,
        scheme: row.scheme.clone(),
        ..RepairOptions::default()
    };
    let tally = encode_all(with, job, work, &options, row.parallel).await;
    let total = &tally.total;
    let mut text = format!("{} stripes became {}", total.replaced, total.stripes);
    if total.stripes > 0 {
        text += &format!(
            ": {} what lives instead of {}; {} blocks moved",
            times(total.stored_bytes, total.data_bytes),
            times(total.before_bytes, total.data_bytes),
            total.relocated,
        );
    }
    let told = std::iter::once(text).chain(left).collect::<Vec<_>>().join("; ");
    tally.end("the compaction", told)
}

/// The worker: begins a compaction when there is something to gain.
pub(crate) struct Compactor {
    jobs: Arc<Jobs>,
    /// What was dead when there was nothing to gain: as long as no more dies nobody looks again.
    settled: Option<BTreeMap<StripeId, Deaths>>,
}

impl Compactor {
    pub fn new(jobs: Arc<Jobs>) -> Compactor {
        Compactor { jobs, settled: None }
    }
}

impl Worker for Compactor {
    type Error = CoordinatorError;

    fn name(&self) -> &'static str {
        "compaction"
    }

    fn pause(&self) -> Duration {
        Duration::from_millis(COMPACT_EVERY_MS)
    }

    async fn step(&mut self, task: &Task) -> Result<Step> {
        let attempts = &self.jobs.attempts;
        let deaths = attempts.records.run(|catalog| catalog.deaths()).await?;
        let bytes: u64 = deaths.values().map(|deaths| deaths.stored_bytes).sum();
        task.note(|report| {
            report.detail = format!("{} stripes keep {bytes} bytes of deleted objects", deaths.len());
        });
        if self.settled.as_ref() == Some(&deaths) || self.jobs.is_compacting() {
            return Ok(Step::Wait(self.pause()));
        }
        let chosen = choose(attempts).await?;
        if !chosen.work.is_empty() {
            self.jobs.start(Wish::Lasting(JobRow::Compact(CompactionRow::default()))).await?;
            task.note(|report| report.done += 1);
        }
        self.settled = (chosen.work.is_empty() && chosen.short == 0).then_some(deaths);
        Ok(Step::Wait(self.pause()))
    }
}
