//! What nodes have, against what the catalog places there: when a node registers, every hour by digests of its 256 folders,
//! after a read or a look (`looks.rs`) that found nothing, after a scrub. What it has and should not have, or the reverse, is
//! thus noticed though the node never restarts.
//!
//! ```text
//!   placed ─▶ digests ─▶ folders that differ ─▶ listed ─▶ neither strange nor lacking ─▶ over
//!                                                └▶ listed again ─▶ strange yet: surplus, needed or unknown
//!                                                                └▶ lacking yet: missing
//! ```
//! What is placed is read before the first list and again at the end, and what is strange is strange before the second one; so
//! what is being written or deleted meanwhile is neither. An error compares nothing.

use crate::cluster::{Cluster, Listed};
use crate::config::MIN_TICK_MS;
use crate::error::{CoordinatorError, Result};
use crate::garbage::Garbage;
use crate::records::Records;
use catalog::{Catalog, CatalogError, Reconciled};
use model::{BlockCopy, BlockId, Cause, Fault, Flaw, NodeId, Peer};
use plan::decide::World;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use wire::names::{folder_digest, folder_of};
use worker::{Group, Step, Task, Worker};

/// Copies that are compared in one transaction, so that puts do not wait long.
const RECONCILE_BATCH: usize = 1024;

/// Comparisons that wait. What does not fit is compared within the hour.
const MAX_WAITING: usize = 256;

/// A folder that was compared is not compared again on reports for this long: else a client's word would keep disks busy.
const AGAIN_AFTER_MS: u64 = 10_000;

/// Folders of which that is remembered.
const MAX_REMEMBERED: usize = 1_024;

/// So often it is looked whether a comparison waits.
const TICK: Duration = Duration::from_millis(100);

/// What is compared beyond the turn of each node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Asked {
    /// All that the node has.
    Node(NodeId),
    /// The folder of a block that somebody sought there in vain.
    Block(NodeId, BlockId),
}

/// What came of a comparison.
#[derive(Debug, Default)]
pub(crate) struct Compared {
    /// Folders that differed.
    pub folders: usize,
    /// Copies that are missing from now on.
    pub missing: Vec<BlockCopy>,
    /// Copies that the catalog did not expect.
    pub strange: usize,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Comparison {
    records: Records,
    cluster: Arc<Cluster>,
    garbage: Arc<Garbage>,
    group: Arc<Group>,
    every_ms: u64,
    waiting: Mutex<Waiting>,
    /// Held by whoever compares: what one finds, another need not find too.
    comparing: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Waiting {
    queue: VecDeque<Asked>,
    /// When folders were compared on somebody's report, on the cluster's clock.
    compared: BTreeMap<(NodeId, u8), u64>,
    /// Rounds of scrubs that nodes have told of.
    scrubbed: BTreeMap<NodeId, u64>,
}

impl Waiting {
    fn add(&mut self, asked: Asked) {
        if self.queue.len() < MAX_WAITING && !self.queue.contains(&asked) {
            self.queue.push_back(asked);
        }
    }
}

impl Comparison {
    /// Each node has its turn every `every_ms`.
    pub fn new(
        records: Records,
        cluster: Arc<Cluster>,
        garbage: Arc<Garbage>,
        group: Arc<Group>,
        every_ms: u64,
    ) -> Comparison {
        let (waiting, comparing) = (Mutex::default(), tokio::sync::Mutex::default());
        Comparison { records, cluster, garbage, group, every_ms, waiting, comparing }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Learns from a fault which copy was sought in vain.
    pub fn learn(&self, fault: &Fault) {
        let (Some(block), Some((Peer::Node(node), same))) = (fault.block, fault.suspect) else { return };
        if fault.cause == Cause::NotFound && same == node.into() {
            self.seek(node, block);
        }
    }

    /// Takes copies that their nodes no longer call damaged. A copy counts again if it can be read, is whole, and is needed.
    pub fn perhaps_back(&self, copies: Vec<BlockCopy>) {
        if !copies.is_empty() {
            let garbage = Arc::clone(&self.garbage);
            self.group.spawn(async move { garbage.take_back(copies).await });
        }
    }

    /// A copy of the block is not found on the node, somebody says. Its folder is compared soon.
    pub fn seek(&self, node: NodeId, block: BlockId) {
        let now_ms = self.cluster.clock.now_ms();
        let mut waiting = self.waiting();
        waiting.compared.retain(|_, at_ms| now_ms.saturating_sub(*at_ms) < AGAIN_AFTER_MS);
        if !waiting.compared.contains_key(&(node, folder_of(block))) {
            waiting.add(Asked::Block(node, block));
        }
    }

    /// These nodes were started since they wrote what was just committed. Nothing was placed there yet when they registered, so
    /// their lists then do not show whether it outlived the start. If the coordinator ends first, they register anew.
    pub fn confirm(&self, nodes: &BTreeSet<NodeId>) {
        self.again(nodes);
    }

    /// Compares these nodes soon: what is known of their copies has changed.
    pub fn again(&self, nodes: &BTreeSet<NodeId>) {
        let mut waiting = self.waiting();
        nodes.iter().for_each(|&node| waiting.add(Asked::Node(node)));
    }

    /// A node says how many rounds of its scrub have ended. It has read all that it has; what it lacks only a comparison tells.
    pub fn scrubbed(&self, node: NodeId, rounds: u64) {
        let mut waiting = self.waiting();
        let before = waiting.scrubbed.insert(node, rounds).unwrap_or(0);
        if rounds > before {
            waiting.add(Asked::Node(node));
        }
    }

    /// A node has registered with its inventory; `placed` is what the catalog placed there before.
    pub async fn registered(
        self: &Arc<Self>,
        node: NodeId,
        held: Listed,
        placed: &BTreeSet<BlockCopy>,
    ) -> Result<()> {
        let missing: BTreeSet<BlockCopy> = placed.difference(&held.whole).copied().collect();
        self.reconcile(node, held, 0..=u8::MAX).await?;
        if !missing.is_empty() {
            let comparison = Arc::clone(self);
            self.group.spawn(async move { comparison.look_for(node, missing).await });
        }
        Ok(())
    }

    /// Copies that the catalog places on the node and that were not in its inventory. The inventory may be older than a
    /// commit, so the node is asked again; every one of these was committed, hence durable, before.
    async fn look_for(&self, node: NodeId, mut missing: BTreeSet<BlockCopy>) {
        let view = self.cluster.view();
        let outcome = async {
            let held = self.cluster.fleet.list_folders(&view, node, &folders_of(&missing)).await?;
            missing.retain(|copy| !held.whole.contains(copy));
            self.note_missing(node, missing).await
        };
        if let Err(error) = outcome.await {
            tracing::warn!(%node, %error, "the node could not be asked for missing copies");
        }
    }

    /// Compares all of a node that lives, or a folder of it.
    pub async fn compare(self: &Arc<Self>, node: NodeId, folder: Option<u8>) -> Result<Compared> {
        let _comparing = self.comparing.lock().await;
        let view = self.cluster.view();
        if !view.node(node)?.is_living {
            return Err(CoordinatorError::Node { node, why: "it does not live".to_owned() });
        }
        // Before the node is asked: it cannot be blamed for lacking what came later.
        let placed = match folder {
            Some(folder) => self.records.run(move |c| c.held_in(node, folder)).await?,
            None => self.records.run(move |c| c.held_by(node)).await?,
        };
        let folders = match folder {
            Some(folder) => BTreeSet::from([folder]),
            None => self.differing(&view, node, &placed).await?,
        };
        let (mut strange, mut lacking) = (Listed::default(), BTreeSet::new());
        if !folders.is_empty() {
            let held = self.cluster.fleet.list_folders(&view, node, &folders).await?;
            let in_them = placed.iter().filter(|copy| folders.contains(&folder_of(copy.block)));
            lacking.extend(in_them.filter(|copy| !held.whole.contains(copy)).copied());
            strange.whole.extend(self.strangers(held.whole.difference(&placed)).await?);
            strange.halves.extend(self.strangers(held.halves.difference(&placed)).await?);
        }
        let doubtful = folders_of(strange.whole.iter().chain(&strange.halves).chain(&lacking));
        if !doubtful.is_empty() {
            let held = self.cluster.fleet.list_folders(&view, node, &doubtful).await?;
            strange.whole.retain(|copy| held.whole.contains(copy));
            strange.halves.retain(|copy| held.halves.contains(copy));
            lacking.retain(|copy| !held.whole.contains(copy));
        }
        let found = strange.whole.len() + strange.halves.len();
        // In folders that do not differ nothing is strange.
        let compared = folder.map_or(0..=u8::MAX, |folder| folder..=folder);
        self.reconcile(node, strange, compared).await?;
        let missing = self.note_missing(node, lacking).await?;
        Ok(Compared { folders: folders.len(), missing, strange: found })
    }

    /// Folders in which the node has something else than it is to have, or what only may be there is not.
    async fn differing(
        &self,
        view: &World,
        node: NodeId,
        placed: &BTreeSet<BlockCopy>,
    ) -> Result<BTreeSet<u8>> {
        let mut expected = self.records.run(move |catalog| catalog.perhaps_on(node)).await?;
        expected.extend(placed);
        let digests = self.cluster.fleet.digest_folders(view, node).await?;
        // In the order of their ids.
        let mut by_folder: BTreeMap<u8, Vec<(BlockId, u64)>> = BTreeMap::new();
        for copy in expected {
            by_folder.entry(folder_of(copy.block)).or_default().push((copy.block, copy.generation));
        }
        let differs = |(folder, digest)| {
            let expected = folder_digest(by_folder.get(&folder).into_iter().flatten().copied(), []);
            (expected != digest).then_some(folder)
        };
        Ok((0..=u8::MAX).zip(digests).filter_map(differs).collect())
    }

    async fn strangers(&self, copies: impl Iterator<Item = &BlockCopy>) -> Result<Vec<BlockCopy>> {
        let (copies, mut strangers): (Vec<BlockCopy>, _) = (copies.copied().collect(), Vec::new());
        for batch in copies.chunks(RECONCILE_BATCH).map(<[BlockCopy]>::to_vec) {
            strangers.extend(self.records.run(move |catalog| catalog.strangers(&batch)).await?);
        }
        Ok(strangers)
    }

    /// What the node has in these folders, or what of it is strange.
    async fn reconcile(
        self: &Arc<Self>,
        node: NodeId,
        held: Listed,
        folders: impl Iterator<Item = u8>,
    ) -> Result<()> {
        let (mut needed, mut unknown) = (Vec::new(), Vec::new());
        for (copies, are_whole) in [(held.whole, true), (held.halves, false)] {
            let copies: Vec<BlockCopy> = copies.into_iter().collect();
            for batch in copies.chunks(RECONCILE_BATCH).map(<[BlockCopy]>::to_vec) {
                let result = self.reconcile_batch(node, batch).await?;
                unknown.extend(result.unknown);
                // Half a copy serves no need, and is not swept for lacking its other half: it goes as a whole one would,
                // when what its block rests on was seen.
                needed.extend(result.needed.into_iter().filter(|_| are_whole));
            }
        }
        let mut counts: BTreeMap<u8, u64> = folders.map(|folder| (folder, 0)).collect();
        for copy in unknown {
            *counts.entry(folder_of(copy.block)).or_default() += 1;
        }
        self.cluster.health.found_unknown(node, &counts);
        self.perhaps_back(needed);
        Ok(())
    }

    async fn reconcile_batch(&self, node: NodeId, copies: Vec<BlockCopy>) -> Result<Reconciled> {
        let now_ms = self.cluster.clock.now_ms();
        let living = self.cluster.perhaps_living(&self.cluster.view());
        let result = self.records.run(move |catalog| catalog.reconcile(&copies, &living, now_ms)).await?;
        let (surplus, unknown) = (result.surplus, result.unknown.len());
        if surplus > 0 || unknown > 0 {
            tracing::warn!(%node, surplus, unknown, "copies that the catalog does not know; unknown ones are kept");
        }
        Ok(result)
    }

    /// Two complete lists lacked these copies; returns those that were counted on until now. Their blocks lack them then.
    async fn note_missing(&self, node: NodeId, missing: BTreeSet<BlockCopy>) -> Result<Vec<BlockCopy>> {
        let missing: Vec<BlockCopy> = missing.into_iter().collect();
        if missing.is_empty() {
            return Ok(missing);
        }
        let now_ms = self.cluster.clock.now_ms();
        let note = move |catalog: &Catalog| catalog.note_flaws(&missing, Flaw::Missing, now_ms);
        let lost = self.records.run(note).await?;
        if !lost.is_empty() {
            tracing::warn!(%node, lost = lost.len(), "copies that this node should have are missing");
        }
        Ok(lost)
    }

    /// For an operator: compares a node now. Returns what it lacks, found now or earlier, and how many of its copies are unknown.
    pub async fn report(self: &Arc<Self>, node: NodeId) -> Result<(BTreeSet<BlockCopy>, u64)> {
        let found = self.compare(node, None).await?.missing;
        let mut missing = self.records.run(move |catalog| catalog.missing_on(node)).await?;
        // Others may have been made in the meantime.
        missing.extend(found);
        Ok((missing, self.cluster.health.unknown_copies_of(node)))
    }

    /// Does what was asked for next. `None` if nothing was.
    async fn next(self: &Arc<Self>) -> Option<(NodeId, Result<Compared>)> {
        let asked = self.waiting().queue.pop_front()?;
        let (node, block) = match asked {
            Asked::Node(node) => return Some((node, self.compare(node, None).await)),
            Asked::Block(node, block) => (node, block),
        };
        let facts = match self.records.run(move |catalog| catalog.placement(block)).await {
            // Deleted since.
            Err(CoordinatorError::Catalog(CatalogError::NoSuchBlock(_))) => {
                return Some((node, Ok(Compared::default())));
            }
            Err(error) => return Some((node, Err(error))),
            Ok(placement) => placement.facts,
        };
        if facts.on(node).is_none() {
            return Some((node, Ok(Compared::default())));
        }
        let folder = folder_of(block);
        let compared = self.compare(node, Some(folder)).await;
        let mut waiting = self.waiting();
        if compared.is_ok() && waiting.compared.len() < MAX_REMEMBERED {
            waiting.compared.insert((node, folder), self.cluster.clock.now_ms());
        }
        Some((node, compared))
    }
}

fn folders_of<'a>(copies: impl IntoIterator<Item = &'a BlockCopy>) -> BTreeSet<u8> {
    copies.into_iter().map(|copy| folder_of(copy.block)).collect()
}

/// The worker: what was asked for, and each living node in turn, one after another.
pub(crate) struct Comparer {
    comparison: Arc<Comparison>,
    /// Whose turn was last, and when it was, on the cluster's clock.
    last: (Option<NodeId>, u64),
}

impl Comparer {
    pub fn new(comparison: Arc<Comparison>) -> Comparer {
        let now_ms = comparison.cluster.clock.now_ms();
        Comparer { comparison, last: (None, now_ms) }
    }

    /// Turns are spread evenly: at each moment as many nodes were compared lately as will be soon. As long as nobody's has
    /// come, the time to wait.
    fn turn(&mut self) -> std::result::Result<NodeId, Duration> {
        let Cluster { clock, .. } = &*self.comparison.cluster;
        let living = self.comparison.cluster.view().living();
        let (last, at_ms) = self.last;
        let pause_ms = (self.comparison.every_ms / living.len().max(1) as u64).max(MIN_TICK_MS);
        let now_ms = clock.now_ms();
        let left_ms = pause_ms.saturating_sub(now_ms.saturating_sub(at_ms));
        if left_ms > 0 {
            return Err(TICK.min(Duration::from_millis(left_ms)));
        }
        let after = last.map_or(Bound::Unbounded, Bound::Excluded);
        let next = living.range((after, Bound::Unbounded)).next().or(living.first());
        let next = next.copied().ok_or(TICK)?;
        self.last = (Some(next), now_ms);
        Ok(next)
    }
}

impl Worker for Comparer {
    type Error = CoordinatorError;

    fn name(&self) -> &'static str {
        "compare"
    }

    fn pause(&self) -> Duration {
        TICK
    }

    async fn step(&mut self, task: &Task) -> Result<Step> {
        let (node, compared) = match self.comparison.next().await {
            Some(asked) => asked,
            None => match self.turn() {
                Ok(node) => (node, self.comparison.compare(node, None).await),
                Err(wait) => return Ok(Step::Wait(wait)),
            },
        };
        match compared {
            Ok(Compared { folders, missing, strange }) => task.note(|report| {
                report.done += 1;
                let missing = missing.len();
                report.detail = format!(
                    "last: {node}, {folders} folders differ, {strange} copies strange, {missing} missing"
                );
            }),
            // The others do not wait for it; it has its turn again.
            Err(error) => {
                tracing::info!(%node, %error, "it could not be compared with the catalog");
                task.note(|report| {
                    report.errors += 1;
                    report.detail = error.to_string();
                });
            }
        }
        Ok(Step::Again)
    }
}
