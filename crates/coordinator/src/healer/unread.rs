//! Copies that cannot be read now, as their nodes say (HEALING.md, "States of a copy": *unread*). What is told of their blocks does not count on
//! them from then on; after their grace, that of a dead node, others are made, and sooner if their block survives no further loss without
//! them. Nothing is deleted for it, and it is over as soon as their node says so.

use super::queue::Standing;
use super::standing;
use crate::attempt::Attempts;
use crate::cluster::Unreadable;
use crate::error::Result;
use model::{BlockCopy, BlockId, NodeId, Placement, Unread};
use plan::decide::World;
use plan::grace::urgent_ms;
use std::collections::{BTreeMap, BTreeSet};

/// What nodes say is looked at this often.
const LOOK_MS: u64 = 500;

/// What lies in folders that cannot be read is looked up again this often: blocks come and go.
const ANEW_MS: u64 = 60_000;

/// Blocks that are looked up at a time.
const AT_ONCE: usize = 1_024;

/// Between two walks through all of them there is at least so many times what the last one took …
const REST: u64 = 10;

/// … but no longer than this: some have no margin.
const MAX_REST_MS: u64 = 60_000;

/// What a node cannot read, for who asks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct UnreadOf {
    pub node: NodeId,
    /// Copies that are counted on.
    pub copies: u64,
    /// Why, of one of them.
    pub why: String,
    /// Until others are made; those that survive no further loss are made sooner.
    pub grace_left_ms: u64,
}

/// See the module.
#[derive(Debug)]
pub(super) struct UnreadWatch {
    grace_ms: u64,
    told: Vec<Unreadable>,
    /// Since when each cannot be read, on the cluster's clock.
    since: BTreeMap<BlockCopy, u64>,
    /// Of each node that has some: how many, and since when the first.
    counts: BTreeMap<NodeId, (u64, u64)>,
    looks_ms: u64,
    anew_ms: u64,
    /// Where the walk through the blocks goes on.
    at: Option<BlockId>,
    began_ms: u64,
    rests_until_ms: u64,
}

impl UnreadWatch {
    /// With the grace of nodes.
    pub fn new(grace_ms: u64) -> UnreadWatch {
        UnreadWatch {
            grace_ms,
            told: Vec::new(),
            since: BTreeMap::new(),
            counts: BTreeMap::new(),
            looks_ms: 0,
            anew_ms: 0,
            at: None,
            began_ms: 0,
            rests_until_ms: 0,
        }
    }

    /// Takes what nodes say, and returns some blocks of which another copy is to be made now.
    pub async fn look(&mut self, attempts: &Attempts, view: &World) -> Result<Vec<(BlockId, Standing)>> {
        let now_ms = attempts.cluster.clock.now_ms();
        if now_ms >= self.looks_ms {
            self.looks_ms = now_ms + LOOK_MS;
            self.hear(attempts, view, now_ms).await?;
        }
        if self.since.is_empty() || now_ms < self.rests_until_ms {
            return Ok(Vec::new());
        }
        self.walk(attempts, &view.living(), now_ms).await
    }

    async fn hear(&mut self, attempts: &Attempts, view: &World, now_ms: u64) -> Result<()> {
        let mut told = attempts.cluster.health.unreadable();
        told.retain(|told| view.node(told.node).is_ok_and(|node| node.is_living));
        let is_old = !told.is_empty() && now_ms >= self.anew_ms;
        if told == self.told && !is_old {
            return Ok(());
        }
        self.anew_ms = now_ms + ANEW_MS;
        let asked = told.clone();
        let copies = attempts.records.run(move |catalog| counted(catalog, &asked)).await?;
        let before = std::mem::take(&mut self.since);
        self.since = copies.iter().map(|copy| (*copy, before.get(copy).copied().unwrap_or(now_ms))).collect();
        if before.keys().ne(self.since.keys()) {
            let (now, was) = (self.since.len(), before.len());
            tracing::warn!(now, was, "copies that cannot be read now, as their nodes say");
            let unread: Unread = copies.into_iter().collect();
            let set = move |catalog: &catalog::Catalog| {
                catalog.set_unread(unread);
                Ok(())
            };
            attempts.records.run(set).await?;
            attempts.cluster.something_changed();
        }
        self.counts.clear();
        for (copy, since_ms) in &self.since {
            let (copies, first_ms) = self.counts.entry(copy.node).or_insert((0, u64::MAX));
            (*copies, *first_ms) = (*copies + 1, (*first_ms).min(*since_ms));
        }
        self.told = told;
        Ok(())
    }

    /// Some blocks that are due, of those that are looked at next.
    async fn walk(
        &mut self,
        attempts: &Attempts,
        living: &BTreeSet<NodeId>,
        now_ms: u64,
    ) -> Result<Vec<(BlockId, Standing)>> {
        if self.at.is_none() {
            self.began_ms = now_ms;
        }
        let from = BlockCopy { block: self.at.unwrap_or(BlockId(0)), node: NodeId(0), generation: 0 };
        // A block has more than one copy at times.
        let mut waited: BTreeMap<BlockId, u64> = BTreeMap::new();
        self.at = None;
        for (copy, since_ms) in self.since.range(from..) {
            if waited.len() == AT_ONCE && !waited.contains_key(&copy.block) {
                self.at = Some(copy.block);
                break;
            }
            let for_ms = waited.entry(copy.block).or_default();
            *for_ms = now_ms.saturating_sub(*since_ms).max(*for_ms);
        }
        if self.at.is_none() {
            self.rests_until_ms =
                now_ms + (now_ms.saturating_sub(self.began_ms) * REST).clamp(LOOK_MS, MAX_REST_MS);
        }
        waited.retain(|_, for_ms| *for_ms >= urgent_ms(self.grace_ms));
        let blocks: Vec<BlockId> = waited.keys().copied().collect();
        let placements = attempts.records.run(move |catalog| catalog.placements(&blocks)).await?;
        let due = |placement: Placement| {
            let standing = standing(&attempts.planner, &placement, living).unwrap_or(Standing::HOPELESS);
            let for_ms = waited.get(&placement.block).copied().unwrap_or(0);
            let is_due = for_ms >= self.grace_ms || standing.margin == 0;
            (is_due && placement.facts.is_in_need(living)).then_some((placement.block, standing))
        };
        Ok(placements.into_iter().flatten().filter_map(due).collect())
    }

    /// By node, for who asks.
    pub fn by_node(&self, now_ms: u64) -> Vec<UnreadOf> {
        let of = |told: &Unreadable| {
            let &(copies, first_ms) = self.counts.get(&told.node)?;
            let grace_left_ms = first_ms.saturating_add(self.grace_ms).saturating_sub(now_ms);
            Some(UnreadOf { node: told.node, copies, why: told.why.clone(), grace_left_ms })
        };
        self.told.iter().filter_map(of).collect()
    }
}

/// Those of the copies, and of what lies in the folders, that are counted on.
fn counted(catalog: &catalog::Catalog, told: &[Unreadable]) -> catalog::Result<BTreeSet<BlockCopy>> {
    let mut counted = BTreeSet::new();
    for Unreadable { node, copies, folders, .. } in told {
        counted.extend(catalog.counted_and_known(copies)?.0);
        for folder in folders {
            counted.extend(catalog.held_in(*node, *folder)?);
        }
    }
    Ok(counted)
}
