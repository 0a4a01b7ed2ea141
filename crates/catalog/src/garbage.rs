//! Garbage: copies that are not counted on any more. They go only on the coordinator's word, after a grace, and on proof that
//! is fetched when the order is given: the block is gone from the catalog, or others that stand in for the copy were
//! seen by their nodes a moment ago (HEALING.md, "Letting go").

use crate::backend::Scan;
use crate::blocks::{referenced, stripe};
use crate::error::Result;
use crate::rows::{GarbageRow, PlannedRow};
use crate::table::Read;
use crate::{Catalog, MIN_REPLICAS};
use model::{BlockCopy, BlockFacts, BlockId, NodeId};
use std::collections::{BTreeMap, BTreeSet};

impl Catalog {
    /// Copies that have been garbage since `before_ms` or earlier, at most `limit` for each of `nodes`.
    pub fn due_garbage(
        &self,
        nodes: &BTreeSet<NodeId>,
        before_ms: u64,
        limit: usize,
    ) -> Result<BTreeMap<NodeId, Vec<BlockCopy>>> {
        self.view(|txn| {
            let mut due: BTreeMap<NodeId, Vec<BlockCopy>> = BTreeMap::new();
            txn.scan::<GarbageRow>(&[], |copy, row| {
                if row.since_ms <= before_ms && nodes.contains(&copy.node) {
                    let list = due.entry(copy.node).or_default();
                    if list.len() < limit {
                        list.push(copy);
                    }
                }
                Ok(Scan::Next)
            })?;
            Ok(due)
        })
    }

    /// Copies that must be seen, each by its own node, before any of these may be deleted.
    pub fn witnesses(&self, copies: &[BlockCopy]) -> Result<BTreeSet<BlockCopy>> {
        self.view(|txn| {
            let mut witnesses = BTreeSet::new();
            for copy in copies {
                for (block, row) in stand_ins(txn, copy)? {
                    witnesses.extend(row.locations.iter().map(|l| l.copy_of(block)));
                }
            }
            Ok(witnesses)
        })
    }

    /// Of these copies those that may be deleted now, the nodes having `seen` just these witnesses.
    pub fn may_go(&self, copies: &[BlockCopy], seen: &BTreeSet<BlockCopy>) -> Result<Due> {
        self.view(|txn| {
            let mut due = Due::default();
            for &copy in copies {
                if txn.get::<GarbageRow>(&copy)?.is_none() {
                    // Taken back, or deleted, meanwhile.
                    continue;
                }
                let mut is_replaced = true;
                for (block, row) in stand_ins(txn, &copy)? {
                    let others =
                        row.locations.iter().map(|l| l.copy_of(block)).filter(|other| *other != copy);
                    is_replaced &= others.filter(|other| seen.contains(other)).count() >= least_left(&row);
                }
                (if is_replaced { &mut due.go } else { &mut due.wait }).push(copy);
            }
            Ok(due)
        })
    }

    /// The nodes have deleted these copies.
    pub fn garbage_deleted(&self, copies: &[BlockCopy]) -> Result<()> {
        self.change(|txn| copies.iter().try_for_each(|copy| txn.remove::<GarbageRow>(copy).map(|_| ())))
    }

    /// A node says that its copy of a block is damaged. The copy becomes garbage if the block can be had without it;
    /// `is_safe` decides from the block's row without that copy. Whether it did.
    pub fn drop_damaged(
        &self,
        block: BlockId,
        node: NodeId,
        is_safe: impl Fn(&BlockFacts) -> bool,
        now_ms: u64,
    ) -> Result<bool> {
        self.change(|txn| {
            let Some(mut row) = txn.get::<BlockFacts>(&block)? else { return Ok(false) };
            let Some(damaged) = row.on(node) else { return Ok(false) };
            row.locations.retain(|l| *l != damaged);
            if !is_safe(&row) {
                return Ok(false);
            }
            txn.set_block(block, &row)?;
            txn.to_garbage(damaged.copy_of(block), now_ms)?;
            Ok(true)
        })
    }
}

/// What became of due garbage.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Due {
    /// It may be deleted.
    pub go: Vec<BlockCopy>,
    /// What it gave way to was not seen.
    pub wait: Vec<BlockCopy>,
}

/// The blocks that must be there without this copy: none if its block is gone, all members of the stripe if it is in one.
fn stand_ins(txn: &impl Read, copy: &BlockCopy) -> Result<Vec<(BlockId, BlockFacts)>> {
    let Some(row) = txn.get::<BlockFacts>(&copy.block)? else { return Ok(Vec::new()) };
    let Some(place) = row.stripe else { return Ok(vec![(copy.block, row)]) };
    let row = stripe(txn, place.stripe)?;
    row.stored().map(|block| Ok((block, referenced(txn, block)?))).collect()
}

/// Copies of a block that must be there before another one goes.
fn least_left(row: &BlockFacts) -> usize {
    if row.stripe.is_some() { 1 } else { MIN_REPLICAS.min(row.replicas as usize) }
}

/// Whether the copy is one that the catalog knows, in whatever state.
pub(crate) fn is_known(txn: &impl Read, copy: &BlockCopy) -> Result<bool> {
    let located = txn
        .get::<BlockFacts>(&copy.block)?
        .is_some_and(|row| row.on(copy.node).is_some_and(|location| location.generation == copy.generation));
    Ok(located || txn.get::<PlannedRow>(copy)?.is_some() || txn.get::<GarbageRow>(copy)?.is_some())
}
