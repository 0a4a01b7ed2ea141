//! What nodes say they hold, against what the catalog says.

use super::garbage::is_known;
use super::rows::{BlockCopy, BlockRow, HeldRow, Location};
use super::table::Read;
use super::{Catalog, meta};
use crate::error::Result;
use std::collections::BTreeSet;

/// What came of a list of copies.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Reconciled {
    /// Copies of known blocks at another place than the catalog says.
    pub stale: u64,
    /// Copies of blocks that the catalog does not know.
    pub unknown: u64,
    /// Whether they were kept (else they are garbage now).
    pub kept: bool,
}

impl Catalog {
    /// Compares copies that a node has with the catalog. Every copy is known before it exists (see the module above), so
    /// one that is not known is a leftover, and becomes garbage. Not so in a catalog that was restored or rebuilt: there it
    /// is kept, and a copy of a known block becomes a location.
    pub fn reconcile(&self, copies: &[BlockCopy], now_ms: u64) -> Result<Reconciled> {
        // Nearly always all are known: then nothing is written.
        let all_known =
            self.view(|txn| copies.iter().try_fold(true, |known, copy| Ok(known && is_known(txn, copy)?)))?;
        if all_known {
            return Ok(Reconciled::default());
        }
        self.change(|txn| {
            let keep = meta(txn)?.keep_unknown;
            let mut result = Reconciled { kept: keep, ..Reconciled::default() };
            for copy in copies {
                if is_known(txn, copy)? {
                    continue;
                }
                let row = txn.get::<BlockRow>(&copy.block)?;
                *(if row.is_some() { &mut result.stale } else { &mut result.unknown }) += 1;
                match row {
                    Some(mut row) if keep && row.on(copy.node).is_none() => {
                        row.locations.push(Location { node: copy.node, generation: copy.generation });
                        row.last_generation = row.last_generation.max(copy.generation);
                        txn.set_block(copy.block, &row)?;
                    }
                    _ if keep => {}
                    _ => txn.to_garbage(*copy, now_ms)?,
                }
            }
            Ok(result)
        })
    }

    /// Copies that the catalog places on the node.
    pub fn held_by(&self, node: u32) -> Result<BTreeSet<BlockCopy>> {
        self.view(|txn| {
            let held = txn.all::<HeldRow>(&node.to_be_bytes())?;
            let copy = |(key, row): (super::rows::HeldKey, HeldRow)| BlockCopy {
                block: key.block,
                node,
                generation: row.generation,
            };
            Ok(held.into_iter().map(copy).collect())
        })
    }

    /// Copies that a node, asked after they were committed, does not have: they are no locations any more.
    pub fn forget_missing(&self, copies: &[BlockCopy]) -> Result<u64> {
        self.change(|txn| {
            let mut forgotten = 0;
            for copy in copies {
                let Some(mut row) = txn.get::<BlockRow>(&copy.block)? else { continue };
                let lost = Location { node: copy.node, generation: copy.generation };
                if row.locations.contains(&lost) {
                    row.locations.retain(|l| *l != lost);
                    txn.set_block(copy.block, &row)?;
                    forgotten += 1;
                }
            }
            Ok(forgotten)
        })
    }

    /// From now on unknown blocks are garbage again.
    pub fn collect_unknown(&self) -> Result<()> {
        self.change(|txn| {
            let mut row = meta(txn)?;
            row.keep_unknown = false;
            txn.put(&super::rows::MetaKey, &row)
        })
    }
}
