//! Reports make the node that they name look, and do nothing else: whether a copy is damaged only its own node says, having
//! read it.
//!
//! ```text
//!   a client's report ─┐
//!   a flow's fault ────┴─▶ suspicion of an edge ─▶ on two edges ─┐
//!                     ├──▶ "X's copy is corrupt" ────────────────┴─▶ X reads the copy ─▶ damaged: dealt with; whole: nothing
//!                     └──▶ "X has no such copy" ───▶ its folder is compared (`comparison.rs`)
//! ```

use crate::cluster::{Cluster, Word};
use crate::comparison::Comparison;
use crate::damaged::Damaged;
use crate::error::{CoordinatorError, Result};
use crate::records::Records;
use catalog::CatalogError;
use model::{BlockId, Cause, Fault, NodeId, Peer};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use worker::{Step, Task, Worker};

/// Copies that wait to be looked at. What does not fit is read by the next scrub.
const MAX_WAITING: usize = 256;

/// A copy that was found whole is not read again for this long, whoever suspects it: else a client's word would keep disks
/// busy.
const AGAIN_AFTER_MS: u64 = 60_000;

/// Copies of which that is remembered.
const MAX_REMEMBERED: usize = 1_024;

/// So often it is looked whether a copy waits.
const TICK: Duration = Duration::from_millis(100);

/// A block, and the node whose copy of it is meant.
type Meant = (BlockId, NodeId);

/// Who is to look at what.
#[derive(Debug)]
pub(crate) struct Looks {
    records: Records,
    cluster: Arc<Cluster>,
    damaged: Arc<Damaged>,
    comparison: Arc<Comparison>,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    queue: VecDeque<Meant>,
    /// When they were found whole, on the cluster's clock.
    whole: BTreeMap<Meant, u64>,
}

impl Looks {
    /// Nobody is suspected.
    pub fn new(
        records: Records,
        cluster: Arc<Cluster>,
        damaged: Arc<Damaged>,
        comparison: Arc<Comparison>,
    ) -> Looks {
        Looks { records, cluster, damaged, comparison, waiting: Mutex::default() }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Learns from a fault whom to ask.
    pub fn learn(&self, fault: &Fault, word: Word) {
        self.comparison.learn(fault);
        let suspicious = self.cluster.health.suspect(fault, word);
        let Some(block) = fault.block else { return };
        for node in suspicious {
            self.add((block, node));
        }
        if let (Cause::CorruptBlock, Some((Peer::Node(node), same))) = (fault.cause, fault.suspect)
            && same == node.into()
        {
            self.add((block, node));
        }
    }

    fn add(&self, meant: Meant) {
        let now_ms = self.cluster.clock.now_ms();
        let mut waiting = self.waiting();
        waiting.whole.retain(|_, at_ms| now_ms.saturating_sub(*at_ms) < AGAIN_AFTER_MS);
        let is_known = waiting.whole.contains_key(&meant) || waiting.queue.contains(&meant);
        if !is_known && waiting.queue.len() < MAX_WAITING {
            waiting.queue.push_back(meant);
        }
    }

    /// Has the node read its copy, if it is to have one. Whether it found it damaged.
    async fn look(&self, (block, node): Meant) -> Result<bool> {
        let facts = match self.records.run(move |catalog| catalog.placement(block)).await {
            Err(CoordinatorError::Catalog(CatalogError::NoSuchBlock(_))) => return Ok(false),
            placement => placement?.facts,
        };
        let Some(location) = facts.on(node) else { return Ok(false) };
        let view = self.cluster.view();
        if !view.node(node)?.is_living {
            return Ok(false);
        }
        let (copy, digest) = (location.copy_of(block), facts.sums.digest);
        if !self.cluster.fleet.is_damaged(&view, node, copy, digest).await? {
            let mut waiting = self.waiting();
            if waiting.whole.len() < MAX_REMEMBERED {
                waiting.whole.insert((block, node), self.cluster.clock.now_ms());
            }
            return Ok(false);
        }
        self.cluster.health.agrees(node);
        self.damaged.found(copy).await;
        Ok(true)
    }
}

/// The worker: one copy after another.
pub(crate) struct Looker(pub Arc<Looks>);

impl Worker for Looker {
    type Error = CoordinatorError;

    fn name(&self) -> &'static str {
        "looks"
    }

    fn pause(&self) -> Duration {
        TICK
    }

    async fn step(&mut self, task: &Task) -> Result<Step> {
        let next = self.0.waiting().queue.pop_front();
        let Some((block, node)) = next else { return Ok(Step::Wait(TICK)) };
        match self.0.look((block, node)).await {
            Ok(is_damaged) => task.note(|report| {
                report.done += 1;
                let found = if is_damaged { "damaged" } else { "not damaged" };
                report.detail = format!("last: block {block} of {node}, {found}");
            }),
            // The others do not wait for it; if it is damaged, a scrub or a read tells.
            Err(error) => {
                tracing::info!(%block, %node, %error, "it could not look at a suspected copy");
                task.note(|report| report.errors += 1);
            }
        }
        Ok(Step::Again)
    }
}
