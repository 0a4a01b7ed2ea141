//! Garbage: copies that have to go. They go only on the coordinator's word, after a grace.

use super::Catalog;
use super::rows::{BlockCopy, BlockRow, GarbageRow, PlannedRow};
use super::table::{Read, Scan};
use crate::error::Result;
use model::BlockId;
use std::collections::{BTreeMap, BTreeSet};

impl Catalog {
    /// Copies that have been garbage since `before_ms` or earlier, at most `limit` for each of `nodes`.
    pub fn due_garbage(
        &self,
        nodes: &BTreeSet<u32>,
        before_ms: u64,
        limit: usize,
    ) -> Result<BTreeMap<u32, Vec<BlockCopy>>> {
        self.view(|txn| {
            let mut due: BTreeMap<u32, Vec<BlockCopy>> = BTreeMap::new();
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

    /// The nodes have deleted these copies.
    pub fn garbage_deleted(&self, copies: &[BlockCopy]) -> Result<()> {
        self.change(|txn| copies.iter().try_for_each(|copy| txn.remove::<GarbageRow>(copy).map(|_| ())))
    }

    /// A node says that its copy of a block is damaged. The copy becomes garbage if the block can be had without it;
    /// `is_safe` decides from the block's row without that copy. Whether it did.
    pub fn drop_damaged(
        &self,
        block: BlockId,
        node: u32,
        is_safe: impl FnOnce(&BlockRow) -> bool,
        now_ms: u64,
    ) -> Result<bool> {
        self.change(|txn| {
            let Some(mut row) = txn.get::<BlockRow>(&block)? else { return Ok(false) };
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

/// Whether the copy is one that the catalog knows, in whatever state.
pub(super) fn is_known(txn: &impl Read, copy: &BlockCopy) -> Result<bool> {
    let located = txn
        .get::<BlockRow>(&copy.block)?
        .is_some_and(|row| row.on(copy.node).is_some_and(|location| location.generation == copy.generation));
    Ok(located || txn.get::<PlannedRow>(copy)?.is_some() || txn.get::<GarbageRow>(copy)?.is_some())
}
