//! Blocks that lack a copy though nobody remembers why: the catalog is walked through, and what it finds is repaired. So no
//! repair hangs on an event that was missed: a queue that was full, a restart, a store that was forgotten while there was no
//! room for what it had.

use crate::attempt::Attempts;
use crate::error::{CoordinatorError, Result};
use crate::forgetting::Forgetting;
use model::BlockId;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use worker::{Step, Task, Worker};

/// So often it is looked whether a walk is due.
const TICK: Duration = Duration::from_secs(1);

/// The next walk begins after this time, and after twice that each time, up to the bound that the cluster has for comparisons.
const FIRST_PAUSE_MS: u64 = 60_000;

/// See the module.
pub(crate) struct Lacks {
    attempts: Arc<Attempts>,
    forgetting: Arc<Forgetting>,
    max_pause_ms: u64,
    pause_ms: u64,
    /// When the next walk begins, on the cluster's clock.
    next_ms: u64,
    /// Where the present one is.
    walk: Option<Walk>,
    /// Stores that were forgotten before.
    forgotten: u64,
    /// Hosts that took blocks when the last walk began; before the first one it is not known what lacks.
    takers: usize,
}

#[derive(Default)]
struct Walk {
    from: Option<BlockId>,
    /// Found, and not yet handed on.
    found: VecDeque<BlockId>,
    is_at_end: bool,
    count: u64,
}

impl Lacks {
    /// Walks are `max_pause_ms` apart at most.
    pub fn new(attempts: Arc<Attempts>, forgetting: Arc<Forgetting>, max_pause_ms: u64) -> Lacks {
        let pause_ms = FIRST_PAUSE_MS.min(max_pause_ms);
        let next_ms = attempts.cluster.clock.now_ms() + pause_ms;
        let (walk, forgotten, takers) = (None, 0, usize::MAX);
        Lacks { attempts, forgetting, max_pause_ms, pause_ms, next_ms, walk, forgotten, takers }
    }

    /// A walk is due after a time, and at once when a store was forgotten, or when there are more nodes to put copies on.
    fn is_due(&mut self, takers: usize) -> bool {
        let forgotten = self.forgetting.ended();
        let has_changed = forgotten > self.forgotten || takers > self.takers;
        let is_due = has_changed || self.attempts.cluster.clock.now_ms() >= self.next_ms;
        if has_changed {
            self.pause_ms = FIRST_PAUSE_MS.min(self.max_pause_ms);
        }
        if is_due {
            (self.forgotten, self.takers) = (forgotten, takers);
        }
        is_due
    }

    fn end(&mut self) {
        self.next_ms = self.attempts.cluster.clock.now_ms() + self.pause_ms;
        self.pause_ms = self.pause_ms.saturating_mul(2).min(self.max_pause_ms);
    }
}

impl Worker for Lacks {
    type Error = CoordinatorError;

    fn name(&self) -> &'static str {
        "lacks"
    }

    fn pause(&self) -> Duration {
        TICK
    }

    async fn step(&mut self, task: &Task) -> Result<Step> {
        let view = self.attempts.cluster.view();
        let taking = view.nodes.iter().filter(|(_, node)| node.takes_blocks()).map(|(id, _)| id);
        let takers = view.topology.hosts(taking).len();
        let mut walk = match self.walk.take() {
            Some(walk) => walk,
            None if self.is_due(takers) => Walk::default(),
            None => return Ok(Step::Wait(TICK)),
        };
        while let Some(&block) = walk.found.front() {
            if !self.attempts.damaged.offer(block) {
                self.walk = Some(walk);
                return Ok(Step::Wait(TICK));
            }
            walk.found.pop_front();
        }
        if walk.is_at_end {
            self.end();
            task.note(|report| {
                report.detail = format!("{} blocks lacked a copy in the last walk", walk.count)
            });
            return Ok(Step::Wait(TICK));
        }
        let from = walk.from;
        let (found, next) = self.attempts.records.run(move |catalog| catalog.lacking(from, takers)).await?;
        walk.count += found.len() as u64;
        task.note(|report| report.done += found.len() as u64);
        walk.found.extend(found);
        (walk.from, walk.is_at_end) = (next, next.is_none());
        self.walk = Some(walk);
        Ok(Step::Again)
    }
}
