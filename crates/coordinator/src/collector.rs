//! The collector: the only door through which a copy leaves a disk. Copies go when nothing rests on them any more, and come
//! back when their block needs them.
//!
//! ```text
//!   candidates whose grace is over ─▶ who must be there ─▶ asked ─▶ decided, noted as ordered ─▶ ordered ─▶ forgotten
//!                                               │                      └─ else wait, and are tried again
//!                                               └▶ not vouched for by a node that lives: it looks (`looks.rs`)
//! ```
//! What is decided on is `catalog::Sight`; the rule is one pure function there (`letting_go.rs`).

use crate::cluster::{Check, Cluster, Order, Seen};
use crate::config::tick;
use crate::error::{CoordinatorError, Result};
use crate::holders::Holders;
use crate::looks::Looks;
use crate::records::Records;
use catalog::{CatalogError, Orders, Sight, Site, Wait};
use model::{BlockCopy, NodeId};
use plan::decide::World;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use worker::{Step, Task, Worker};

/// Candidates are looked for this often, and more often when their grace is shorter.
const TICK_MS: u64 = 5_000;

/// Copies that a node is told to delete, or to look for, in one call: some milliseconds each.
const BATCH: usize = 256;

/// What waits is tried again after a pause, which doubles up to this, and at once when another node lives or dies: asking
/// costs a call to each node that holds one of the others.
const MAX_PATIENCE: Duration = Duration::from_secs(60);

/// Copies that wait and are remembered, so that they do not hold up what comes after them; with more, all are tried again.
const MAX_WAITING: usize = 1 << 20;

/// Candidates, told to go or called back.
#[derive(Debug)]
pub(crate) struct Garbage {
    records: Records,
    cluster: Arc<Cluster>,
    holders: Arc<Holders>,
    grace_ms: u64,
    /// Held by whoever has copies deleted, or takes one back: neither may happen between the other's look and deed.
    ordering: tokio::sync::Mutex<()>,
}

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

    /// For people: how many wait for what.
    fn text(&self) -> String {
        let why = |(why, count): (&Wait, &u64)| format!("{count} copies wait: {why}");
        self.why.iter().map(why).collect::<Vec<_>>().join("; ")
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
        let Turn { deleted, orders, doubtful, failure } = self.garbage.turn(&self.waiting.copies).await?;
        self.looks.not_vouched_for(doubtful);
        self.waiting.add(&orders.wait);
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

/// What a turn came to.
#[derive(Default)]
struct Turn {
    deleted: u64,
    orders: Orders,
    /// Others that these rest on, and whose nodes live and do not vouch for them.
    doubtful: Vec<BlockCopy>,
    /// The first node's that failed; the others' copies did not wait for it.
    failure: Option<CoordinatorError>,
}

impl Garbage {
    /// Deleted after `grace_ms` at the earliest.
    pub fn new(records: Records, cluster: Arc<Cluster>, holders: Arc<Holders>, grace_ms: u64) -> Garbage {
        Garbage { records, cluster, holders, grace_ms, ordering: tokio::sync::Mutex::default() }
    }

    async fn turn(&self, skip: &Arc<BTreeSet<BlockCopy>>) -> Result<Turn> {
        // Nothing is taken back between the look at what is there and the deletion.
        let _ordering = self.ordering.lock().await;
        let view = self.cluster.view();
        let (now_ms, living) = (self.cluster.clock.now_ms(), view.living());
        let (before_ms, compared) = (now_ms.saturating_sub(self.grace_ms), living.clone());
        let skip = Arc::clone(skip);
        let due = self.records.run(move |c| c.due_candidates(&living, before_ms, BATCH, &skip)).await?;
        if due.is_empty() {
            return Ok(Turn::default());
        }
        // Their reasons are changes up to this one.
        let reasons = self.records.run(|catalog| catalog.last_change()).await?;
        let asked = due.clone();
        let witnesses = self.records.run(move |catalog| catalog.witnesses(&asked)).await?;
        let (attested, doubtful) = self.seen(&view, witnesses).await;
        let stays = |node: &plan::decide::NodeFacts| !node.is_leaving;
        let mut hosts = BTreeMap::new();
        let mut site = |(id, node): (NodeId, &plan::decide::NodeFacts)| {
            let host = *hosts.entry(view.topology.host_of(id)).or_insert(id.0);
            (id, Site { rack: node.rack, host })
        };
        let sites = view.nodes.iter().filter(|(_, node)| stays(node)).map(&mut site).collect();
        let grace_ms = self.grace_ms;
        let is_halted = self.records.run(|catalog| catalog.safe_mode()).await?.is_some();
        let is_kept = self.holders.have_soon(reasons).await;
        let sight = Sight { sites, compared, attested, is_halted, is_kept, now_ms, grace_ms };
        let orders = self.records.run(move |catalog| catalog.order(&due, &sight)).await?;
        let cluster = self.records.run(|catalog| catalog.meta()).await?.cluster;
        let mut turn = Turn { orders, doubtful, ..Turn::default() };
        for (node, copies) in by_node(turn.orders.go.iter().copied()) {
            let order = Order { cluster, by: turn.orders.by };
            match self.cluster.fleet.delete(&view, node, order, &copies).await {
                Ok(refused) => {
                    if let Some((copy, why)) = refused.first() {
                        let why =
                            format!("{} copies are not deleted; block {}: {why}", refused.len(), copy.block);
                        turn.failure.get_or_insert(CoordinatorError::Node { node, why });
                    }
                    turn.deleted += self.answered(copies, refused).await?;
                }
                // They may be gone, or go yet: they stay ordered, and are ordered again.
                Err(error) => _ = turn.failure.get_or_insert(error),
            }
        }
        Ok(turn)
    }

    /// A node has said what became of an order. Returns how many copies are gone.
    async fn answered(&self, copies: Vec<BlockCopy>, refused: Vec<(BlockCopy, String)>) -> Result<u64> {
        let refused: BTreeSet<BlockCopy> = refused.into_iter().map(|(copy, _)| copy).collect();
        let (kept, gone): (Vec<_>, Vec<_>) = copies.into_iter().partition(|copy| refused.contains(copy));
        let count = gone.len() as u64;
        let note = move |catalog: &catalog::Catalog| {
            for copy in &gone {
                if let Some(row) = catalog.candidate(copy)? {
                    let (block, node, generation) = (copy.block, copy.node, copy.generation);
                    tracing::info!(%block, %node, generation, why = %row.reason, "a copy was let go");
                }
            }
            catalog.deleted(&gone)?;
            if kept.is_empty() { Ok(()) } else { catalog.refused(&kept) }
        };
        self.records.run(note).await?;
        Ok(count)
    }

    /// Those of the copies that their nodes say are there, and those that nodes which live were asked for and do not name. No
    /// answer is no proof, of either.
    async fn seen(&self, view: &World, copies: BTreeSet<BlockCopy>) -> (BTreeSet<BlockCopy>, Vec<BlockCopy>) {
        let (mut seen, mut doubtful, living) = (BTreeSet::new(), Vec::new(), view.living());
        for (node, copies) in by_node(copies) {
            for batch in copies.chunks(BATCH) {
                match self.cluster.fleet.check(view, node, batch, Check::default()).await {
                    Ok(there) => seen.extend(there.into_iter().map(|seen| seen.copy)),
                    Err(error) => {
                        tracing::debug!(%node, %error, "cannot say what it has");
                        break;
                    }
                }
                let is_doubtful = |copy: &&BlockCopy| living.contains(&node) && !seen.contains(copy);
                doubtful.extend(batch.iter().filter(is_doubtful).copied());
            }
        }
        (seen, doubtful)
    }

    /// Copies whose blocks need them are read by their nodes, and counted on again if they are whole.
    pub async fn take_back(&self, copies: Vec<BlockCopy>) {
        for copy in copies {
            let _ordering = self.ordering.lock().await;
            match self.back(copy).await {
                Ok(true) => {
                    tracing::info!(block = %copy.block, node = %copy.node, "a copy is counted on again")
                }
                Ok(false) => {}
                Err(error) => {
                    tracing::info!(block = %copy.block, node = %copy.node, %error, "not taken back")
                }
            }
        }
    }

    async fn back(&self, copy: BlockCopy) -> Result<bool> {
        let view = self.cluster.view();
        let living = self.cluster.perhaps_living(&view);
        let placement = self.records.run(move |catalog| catalog.placement(copy.block)).await;
        match placement {
            Err(CoordinatorError::Catalog(CatalogError::NoSuchBlock(_))) => return Ok(false),
            Ok(placement) if !placement.facts.is_in_need(&living) => return Ok(false),
            other => _ = other?,
        }
        // What was ordered may be on its way yet: its node is told first not to obey.
        let fence = move |catalog: &catalog::Catalog| {
            let is_ordered = catalog.candidate(&copy)?.is_some_and(|candidate| candidate.is_ordered);
            Ok(if is_ordered { Some(catalog.last_change()?) } else { None })
        };
        let check = Check { verify: true, fence: self.records.run(fence).await? };
        let found = self.cluster.fleet.check(&view, copy.node, &[copy], check).await?;
        let Some(Seen { digest, .. }) = found.into_iter().next() else {
            // It was never written, or is gone: nothing is left to wait for. Should it come back, it is found again.
            if self.cluster.fleet.is_absent(&view, copy.node, copy).await? {
                self.records.run(move |catalog| catalog.deleted(&[copy])).await?;
            }
            return Ok(false);
        };
        let (now_ms, is_fenced) = (self.cluster.clock.now_ms(), check.fence.is_some());
        self.records.run(move |c| c.take_back(&copy, &digest, is_fenced, &living, now_ms)).await
    }
}

fn by_node(copies: impl IntoIterator<Item = BlockCopy>) -> BTreeMap<NodeId, Vec<BlockCopy>> {
    let mut by_node: BTreeMap<NodeId, Vec<BlockCopy>> = BTreeMap::new();
    copies.into_iter().for_each(|copy| by_node.entry(copy.node).or_default().push(copy));
    by_node
}
