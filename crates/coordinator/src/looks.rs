//! Reports make the node that they name look, and do nothing else: whether a copy is damaged only its own node says, having
//! read it.
//!
//! ```text
//!   a client's report ─┐
//!   a flow's fault ────┴─▶ suspicion of an edge ─▶ on two edges ─┐
//!                     ├──▶ "X's copy is corrupt" ────────────────┤
//!   the collector ────┼──▶ "X does not vouch for its copy" ──────┴─▶ X reads the copy ─▶ damaged: dealt with; whole: nothing
//!                     │                                                              ▼ not read
//!                     └──▶ "X has no such copy" ───────────────────▶ its folder is compared (`comparison.rs`)
//! ```
//! What X does not answer, or cannot read, is neither damaged nor gone; two complete lists without it are what makes it missing.

use crate::cluster::{Cluster, Looked, Word};
use crate::comparison::Comparison;
use crate::damaged::Damaged;
use crate::error::{CoordinatorError, Result};
use crate::records::Records;
use catalog::CatalogError;
use model::{BlockCopy, BlockId, Cause, Fault, NodeId, Peer};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use worker::{Step, Task, Worker};

/// Copies that wait to be looked at. What does not fit is read by the next scrub, or asked for again by the collector.
const MAX_WAITING: usize = 256;

/// A copy that was found whole is not read again for this long, whoever suspects it: else a client's word would keep disks
/// busy.
const WHOLE_FOR_MS: u64 = 60_000;

/// Any other is looked at once in this time. Its node may want for descriptors, which passes within seconds, and what waits for
/// the copy should not wait much longer; a look at a block of 256 MiB keeps a slow disk busy for nearly as long.
const AGAIN_AFTER_MS: u64 = 10_000;

/// Copies of which that is remembered; with more, no further ones are looked at before it is over for some.
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
    /// Until when, on the cluster's clock, those that were looked at are not looked at again.
    looked: BTreeMap<Meant, u64>,
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

    /// Living nodes were asked for copies that the catalog places there, and do not say that they have them: whatever rests on
    /// these waits until they are read, or made again.
    pub fn not_vouched_for(&self, copies: impl IntoIterator<Item = BlockCopy>) {
        copies.into_iter().for_each(|copy| self.add((copy.block, copy.node)));
    }

    fn add(&self, meant: Meant) {
        let now_ms = self.cluster.clock.now_ms();
        let mut waiting = self.waiting();
        waiting.looked.retain(|_, until_ms| now_ms < *until_ms);
        let is_known = waiting.looked.contains_key(&meant) || waiting.queue.contains(&meant);
        let has_room = waiting.queue.len() < MAX_WAITING && waiting.looked.len() < MAX_REMEMBERED;
        if !is_known && has_room {
            waiting.queue.push_back(meant);
        }
    }

    /// The next one, which is not asked for again in the meantime.
    fn next(&self) -> Option<Meant> {
        let again_ms = self.cluster.clock.now_ms() + AGAIN_AFTER_MS;
        let mut waiting = self.waiting();
        let meant = waiting.queue.pop_front()?;
        waiting.looked.insert(meant, again_ms);
        Some(meant)
    }

    /// Has the node read its copy. `None` if it is to have none, or does not live.
    async fn look(&self, (block, node): Meant) -> Result<Option<Looked>> {
        let facts = match self.records.run(move |catalog| catalog.placement(block)).await {
            Err(CoordinatorError::Catalog(CatalogError::NoSuchBlock(_))) => return Ok(None),
            placement => placement?.facts,
        };
        let Some(location) = facts.on(node) else { return Ok(None) };
        let view = self.cluster.view();
        if !view.node(node)?.is_living {
            return Ok(None);
        }
        let copy = location.copy_of(block);
        let looked = self.cluster.fleet.look(&view, node, copy, facts.sums.digest).await?;
        match looked {
            Looked::Whole => {
                let until_ms = self.cluster.clock.now_ms() + WHOLE_FOR_MS;
                self.waiting().looked.insert((block, node), until_ms);
            }
            Looked::Damaged => {
                self.cluster.health.agrees(node);
                self.damaged.found(vec![copy]).await;
            }
            Looked::Unread => self.comparison.seek(node, block),
        }
        Ok(Some(looked))
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
        let Some((block, node)) = self.0.next() else { return Ok(Step::Wait(TICK)) };
        match self.0.look((block, node)).await {
            Ok(looked) => task.note(|report| {
                report.done += 1;
                let found = match looked {
                    Some(Looked::Whole) => "whole",
                    Some(Looked::Damaged) => "damaged",
                    Some(Looked::Unread) => "not read",
                    None => "not to be there now",
                };
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
