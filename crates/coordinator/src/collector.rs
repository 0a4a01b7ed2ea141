//! The collector: has copies deleted that nothing rests on any more (`garbage.rs`), and comes again to those that wait.

use crate::cluster::Cluster;
use crate::config::tick;
use crate::error::{CoordinatorError, Result};
use crate::garbage::{Garbage, Turn};
use crate::looks::Looks;
use catalog::Wait;
use model::{BlockCopy, NodeId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use worker::{Step, Task, Worker};

/// Candidates are looked for this often, and more often when their grace is shorter.
const TICK_MS: u64 = 5_000;

/// What waits is tried again after a pause, which doubles up to this, and at once when another node lives or dies: asking
/// costs a call to each node that holds one of the others.
const MAX_PATIENCE: Duration = Duration::from_secs(60);

/// Copies that wait and are remembered, so that they do not hold up what comes after them; with more, all are tried again.
const MAX_WAITING: usize = 1 << 20;

/// The worker.
pub(crate) struct Collector {
    garbage: Arc<Garbage>,
    looks: Arc<Looks>,
    waiting: Waiting,
}

/// What was tried in vain.
#[derive(Default)]
struct Waiting {
    copies: Arc<BTreeSet<BlockCopy>>,
    why: BTreeMap<Wait, u64>,
    refused: usize,
    /// Since when, on the cluster's clock, and for how long.
    tried: Option<(u64, Duration)>,
    among: BTreeSet<NodeId>,
}

impl Waiting {
    /// Forgets all of it if it is to be tried again. `pause` is the first patience.
    fn look(&mut self, living: &BTreeSet<NodeId>, now_ms: u64, pause: Duration) {
        let patience = match self.tried {
            Some((since, patience)) if self.among == *living && self.copies.len() <= MAX_WAITING => {
                if Duration::from_millis(now_ms.saturating_sub(since)) < patience {
                    return;
                }
                patience.saturating_mul(2).min(MAX_PATIENCE)
            }
            _ => pause,
        };
        let tried = Some((now_ms, patience));
        *self = Waiting { tried, among: living.clone(), ..Waiting::default() };
    }

    fn add(&mut self, waiting: &[(BlockCopy, Wait)]) {
        for &(copy, why) in waiting {
            if Arc::make_mut(&mut self.copies).insert(copy) {
                *self.why.entry(why).or_default() += 1;
            }
        }
    }

    /// What its node does not delete holds up nothing else there.
    fn put_off(&mut self, refused: Vec<BlockCopy>) {
        let copies = Arc::make_mut(&mut self.copies);
        self.refused += refused.into_iter().filter(|copy| copies.insert(*copy)).count();
    }

    /// For people: how many wait for what.
    fn text(&self) -> String {
        let why = |(why, count): (&Wait, &u64)| format!("{count} copies wait: {why}");
        let refused = (self.refused > 0)
            .then(|| format!("{} copies wait: their nodes do not delete them", self.refused));
        self.why.iter().map(why).chain(refused).collect::<Vec<_>>().join("; ")
    }
}

impl Collector {
    pub fn new(garbage: Arc<Garbage>, looks: Arc<Looks>) -> Collector {
        Collector { garbage, looks, waiting: Waiting::default() }
    }
}

impl Worker for Collector {
    type Error = CoordinatorError;

    fn name(&self) -> &'static str {
        "gc"
    }

    fn pause(&self) -> Duration {
        tick(TICK_MS, self.garbage.grace_ms)
    }

    async fn step(&mut self, task: &Task) -> Result<Step> {
        let Cluster { clock, .. } = &*self.garbage.cluster;
        self.waiting.look(&self.garbage.cluster.view().living(), clock.now_ms(), self.pause());
        let Turn { deleted, orders, refused, doubtful, failure } =
            self.garbage.turn(&self.waiting.copies).await?;
        // Their nodes read them.
        self.looks.not_vouched_for(doubtful);
        self.waiting.add(&orders.wait);
        self.waiting.put_off(refused);
        let is_over = deleted == 0 && orders.wait.is_empty();
        self.garbage.take_back(orders.wait.into_iter().map(|(copy, _)| copy).collect()).await;
        task.note(|report| {
            report.done += deleted;
            report.errors += u64::from(failure.is_some());
            report.detail = failure.map_or_else(|| self.waiting.text(), |error| error.to_string());
        });
        Ok(if is_over { Step::Wait(self.pause()) } else { Step::Again })
    }
}
