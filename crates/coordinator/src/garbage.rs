//! Copies that nothing rests on any more, told to go, and those that their blocks need, called back: the only door through which
//! a copy leaves a disk. `collector.rs` comes to it again and again.
//!
//! ```text
//!   candidates whose grace is over ─▶ who must be there ─▶ asked ─▶ decided, noted as ordered ─▶ ordered ─▶ forgotten
//!                                               │                      └─ else wait, and are tried again
//!                                               └▶ not vouched for by a node that lives: doubtful
//! ```
//! What is decided on is `catalog::Sight`; the rule is one pure function there (`letting_go.rs`).

use crate::cluster::{Check, Cluster, Looked, Order, Seen, sites};
use crate::error::{CoordinatorError, Result};
use crate::holders::Holders;
use crate::records::Records;
use catalog::{CatalogError, Orders, Sight};
use model::{BlockCopy, NodeId};
use plan::decide::World;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::task::JoinSet;

/// Copies that a node is told to delete, or to look for, in one call: some milliseconds each.
const BATCH: usize = 256;

/// So long are copies read back in a turn, each node's one after another: a disk reads some thirty blocks in that time. The
/// candidates that wait for the rest come again.
const READ_FOR_MS: u64 = 10_000;

/// Copies that are remembered as read back, 40 bytes each; with more, all are read once more.
const MAX_READ: usize = 1 << 16;

/// Candidates, told to go or called back.
#[derive(Debug)]
pub(crate) struct Garbage {
    records: Records,
    pub cluster: Arc<Cluster>,
    holders: Arc<Holders>,
    pub grace_ms: u64,
    /// Copies that stand for virtual blocks, and were read back since they were written.
    read: Mutex<BTreeSet<BlockCopy>>,
    /// Held by whoever has copies deleted, or takes one back: neither may happen between the other's look and deed.
    ordering: tokio::sync::Mutex<()>,
}

/// What a turn came to.
#[derive(Default)]
pub(crate) struct Turn {
    pub deleted: u64,
    pub orders: Orders,
    /// What nodes did not delete when they were told to.
    pub refused: Vec<BlockCopy>,
    /// Others that these rest on, and whose nodes live and do not vouch for them.
    pub doubtful: Vec<BlockCopy>,
    /// The first node's that failed; the others' copies did not wait for it.
    pub failure: Option<CoordinatorError>,
}

impl Garbage {
    /// Deleted after `grace_ms` at the earliest.
    pub fn new(records: Records, cluster: Arc<Cluster>, holders: Arc<Holders>, grace_ms: u64) -> Garbage {
        Garbage {
            records,
            cluster,
            holders,
            grace_ms,
            read: Mutex::default(),
            ordering: tokio::sync::Mutex::default(),
        }
    }

    /// Orders what may go now, those left out that are to be skipped.
    pub async fn turn(&self, skip: &Arc<BTreeSet<BlockCopy>>) -> Result<Turn> {
        let view = self.cluster.view();
        let (living, before_ms) = (view.living(), self.cluster.clock.now_ms().saturating_sub(self.grace_ms));
        let skip = Arc::clone(skip);
        let due = self.records.run(move |c| c.due_candidates(&living, before_ms, BATCH, &skip)).await?;
        if due.is_empty() {
            return Ok(Turn::default());
        }
        let asked = due.clone();
        let witnesses = self.records.run(move |catalog| catalog.witnesses(&asked)).await?;
        let mut doubtful = self.read_back(&view, witnesses.read).await;
        // Nothing is taken back between the look at what is there and the deletion.
        let _ordering = self.ordering.lock().await;
        let view = self.cluster.view();
        let (now_ms, compared) = (self.cluster.clock.now_ms(), view.living());
        // Their reasons are changes up to this one.
        let reasons = self.records.run(|catalog| catalog.last_change()).await?;
        let asked = due.clone();
        let witnesses = self.records.run(move |catalog| catalog.witnesses(&asked)).await?;
        let (attested, unseen) = self.seen(&view, witnesses.seen).await;
        doubtful.extend(unseen);
        let read_back = witnesses.read.into_keys().filter(|copy| self.was_read(copy)).collect();
        let sites = sites(&view);
        let grace_ms = self.grace_ms;
        let is_kept = self.holders.have_soon(reasons).await;
        let sight =
            Sight { sites, compared, attested, read_back, is_kept, now_ms, grace_ms, ..Sight::default() };
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
                    turn.refused.extend(refused.iter().map(|(copy, _)| *copy));
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
            let mut reasons: BTreeMap<String, u64> = BTreeMap::new();
            for copy in &gone {
                if let Some(row) = catalog.candidate(copy)? {
                    let (block, node, generation) = (copy.block, copy.node, copy.generation);
                    tracing::debug!(%block, %node, generation, why = %row.reason, "a copy was let go");
                    *reasons.entry(row.reason.to_string()).or_default() += 1;
                }
            }
            if let Some(first) = gone.first() {
                tracing::info!(node = %first.node, copies = gone.len(), first = %first.block, ?reasons, "copies were let go");
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

    /// Has what stands for virtual blocks read by its nodes, all at once, one copy after another each, for a bounded time: what is
    /// not read then waits for the next turn. Returns copies that are not whole.
    async fn read_back(&self, view: &World, copies: BTreeMap<BlockCopy, Option<[u8; 32]>>) -> Vec<BlockCopy> {
        let unread = copies.keys().copied().filter(|copy| !self.was_read(copy));
        let until_ms = self.cluster.clock.now_ms() + READ_FOR_MS;
        let mut reading = JoinSet::new();
        for (node, unread) in by_node(unread) {
            let (cluster, view) = (Arc::clone(&self.cluster), view.clone());
            let unread: Vec<_> = unread.into_iter().map(|copy| (copy, copies[&copy])).collect();
            reading.spawn(async move {
                let mut looked = Vec::new();
                for (copy, digest) in unread {
                    if cluster.clock.now_ms() >= until_ms {
                        break;
                    }
                    match cluster.fleet.look(&view, node, copy, digest).await {
                        Ok(found) => looked.push((copy, found)),
                        Err(error) => {
                            tracing::debug!(%node, %error, "cannot read back what it wrote");
                            break;
                        }
                    }
                }
                looked
            });
        }
        let mut doubtful = Vec::new();
        while let Some(looked) = reading.join_next().await {
            // Of one that broke off nothing was read.
            for (copy, found) in looked.unwrap_or_default() {
                match found {
                    Looked::Whole => self.note_read(copy),
                    Looked::Damaged | Looked::Unread => doubtful.push(copy),
                }
            }
        }
        doubtful
    }

    fn was_read(&self, copy: &BlockCopy) -> bool {
        self.read.lock().unwrap_or_else(PoisonError::into_inner).contains(copy)
    }

    fn note_read(&self, copy: BlockCopy) {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if read.len() >= MAX_READ {
            read.clear();
        }
        read.insert(copy);
    }

    /// Copies whose blocks need them are read by their nodes, and counted on again if they are whole.
    pub async fn take_back(&self, copies: Vec<BlockCopy>) {
        for copy in copies {
            let _ordering = self.ordering.lock().await;
            match self.back(copy).await {
                Ok(true) => {
                    self.cluster.something_changed();
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
            other => _ = other?,
        }
        let needed_by = living.clone();
        if !self.records.run(move |catalog| catalog.is_in_need(copy.block, &needed_by)).await? {
            return Ok(false);
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
