//! Garbage collection: copies go when nothing rests on them any more, and come back when their block needs them.

use crate::cluster::Cluster;
use crate::config::tick;
use crate::error::{CoordinatorError, Result};
use crate::records::Records;
use catalog::{CatalogError, Due};
use model::{BlockCopy, NodeId};
use plan::decide::World;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use worker::{Step, Task, Worker};

/// Garbage is looked for this often, and more often when its grace is shorter.
const GARBAGE_TICK_MS: u64 = 5_000;

/// Copies that a node is told to delete, or to look for, in one call: some milliseconds each.
const BATCH: usize = 256;

/// Copies that wait to be deleted, and those that are called back.
#[derive(Debug)]
pub(crate) struct Garbage {
    records: Records,
    cluster: Arc<Cluster>,
    grace_ms: u64,
    /// Held by whoever has copies deleted, or takes one back: neither may happen between the other's look and deed.
    ordering: tokio::sync::Mutex<()>,
}

/// The worker: in each step, what has been garbage for longer than the grace goes if its nodes say that others are there.
pub(crate) struct Collector {
    garbage: Arc<Garbage>,
    /// What was tried in vain is not read again before another node lives or dies.
    tried: BTreeSet<BlockCopy>,
    tried_among: BTreeSet<NodeId>,
}

impl Collector {
    pub fn new(garbage: Arc<Garbage>) -> Collector {
        Collector { garbage, tried: BTreeSet::new(), tried_among: BTreeSet::new() }
    }
}

impl Worker for Collector {
    type Error = CoordinatorError;

    fn name(&self) -> &'static str {
        "gc"
    }

    fn pause(&self) -> Duration {
        tick(GARBAGE_TICK_MS, self.garbage.grace_ms)
    }

    async fn step(&mut self, task: &Task) -> Result<Step> {
        let Turn { deleted, waiting, failure } = self.garbage.turn().await?;
        let living = self.garbage.cluster.view().living();
        if living != self.tried_among {
            (self.tried, self.tried_among) = (BTreeSet::new(), living);
        }
        let fresh = waiting.iter().filter(|copy| self.tried.insert(**copy)).copied().collect();
        self.garbage.take_back(fresh).await;
        task.note(|report| {
            report.done += deleted;
            report.errors += u64::from(failure.is_some());
            let why = match waiting.len() {
                0 => String::new(),
                count => format!("{count} copies wait: others in their stead were not seen"),
            };
            report.detail = failure.map_or(why, |error| error.to_string());
        });
        Ok(Step::Wait(self.pause()))
    }
}

/// What a turn came to.
struct Turn {
    deleted: u64,
    waiting: Vec<BlockCopy>,
    /// The first node's that failed; the others' garbage did not wait for it.
    failure: Option<CoordinatorError>,
}

impl Garbage {
    /// Deleted after `grace_ms` at the earliest.
    pub fn new(records: Records, cluster: Arc<Cluster>, grace_ms: u64) -> Garbage {
        Garbage { records, cluster, grace_ms, ordering: tokio::sync::Mutex::default() }
    }

    async fn turn(&self) -> Result<Turn> {
        // Nothing is taken back between the look at what is there and the deletion.
        let _ordering = self.ordering.lock().await;
        let view = self.cluster.view();
        let before_ms = self.cluster.clock.now_ms().saturating_sub(self.grace_ms);
        let living = view.living();
        let due: Vec<BlockCopy> = self
            .records
            .run(move |c| Ok(c.due_garbage(&living, before_ms, BATCH)?.into_values().flatten().collect()))
            .await?;
        let asked = due.clone();
        let witnesses = self.records.run(move |catalog| catalog.witnesses(&asked)).await?;
        let seen = self.seen(&view, witnesses).await;
        let Due { go, wait } = self.records.run(move |catalog| catalog.may_go(&due, &seen)).await?;
        let cluster = self.records.run(|catalog| catalog.meta()).await?.cluster;
        let mut turn = Turn { deleted: 0, waiting: wait, failure: None };
        for (node, mut copies) in by_node(go) {
            match self.cluster.fleet.delete(&view, node, cluster, &copies).await {
                Ok(refused) => {
                    if let Some((copy, why)) = refused.first() {
                        let why =
                            format!("{} copies are not deleted; block {}: {why}", refused.len(), copy.block);
                        turn.failure.get_or_insert(CoordinatorError::Node { node, why });
                    }
                    copies.retain(|copy| refused.iter().all(|(refused, _)| refused != copy));
                    for copy in &copies {
                        let BlockCopy { block, generation, .. } = copy;
                        tracing::info!(%block, %node, generation, "let go: others were seen, or its block is gone");
                    }
                    turn.deleted += copies.len() as u64;
                    self.records.run(move |catalog| catalog.garbage_deleted(&copies)).await?;
                }
                Err(error) => _ = turn.failure.get_or_insert(error),
            }
        }
        Ok(turn)
    }

    /// Those of the copies that their nodes say are there. No answer is no proof.
    async fn seen(&self, view: &World, copies: BTreeSet<BlockCopy>) -> BTreeSet<BlockCopy> {
        let mut seen = BTreeSet::new();
        for (node, copies) in by_node(copies) {
            for batch in copies.chunks(BATCH) {
                match self.cluster.fleet.check(view, node, batch, false).await {
                    Ok(there) => seen.extend(there.into_iter().map(|(copy, _)| copy)),
                    Err(error) => {
                        tracing::debug!(%node, %error, "cannot say what it has");
                        break;
                    }
                }
            }
        }
        seen
    }

    /// Garbage whose blocks need it is read by its nodes, and counted on again if it is whole.
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
        let found = self.cluster.fleet.check(&view, copy.node, &[copy], true).await?;
        let Some((_, digest)) = found.into_iter().next() else { return Ok(false) };
        let now_ms = self.cluster.clock.now_ms();
        self.records.run(move |catalog| catalog.take_back(&copy, &digest, &living, now_ms)).await
    }
}

fn by_node(copies: impl IntoIterator<Item = BlockCopy>) -> BTreeMap<NodeId, Vec<BlockCopy>> {
    let mut by_node: BTreeMap<NodeId, Vec<BlockCopy>> = BTreeMap::new();
    copies.into_iter().for_each(|copy| by_node.entry(copy.node).or_default().push(copy));
    by_node
}
