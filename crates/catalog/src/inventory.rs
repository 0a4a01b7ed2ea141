//! What nodes say they hold, against what the catalog says.

use crate::Catalog;
use crate::blocks::holders;
use crate::error::Result;
use crate::garbage::is_known;
use crate::rows::{GarbageRow, HeldKey, HeldRow};
use crate::table::{Key, Read};
use model::{BlockCopy, BlockFacts, NodeId};
use std::collections::BTreeSet;

/// What came of a list of copies.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Reconciled {
    /// Copies of known blocks at another place than the catalog says: they are garbage from now on.
    pub surplus: u64,
    /// Copies of blocks that the catalog does not know. They stay as they are.
    pub unknown: u64,
    /// Garbage, old and new, whose blocks are in need of it.
    pub needed: Vec<BlockCopy>,
}

impl Catalog {
    /// Compares copies that a node has with the catalog. One that it does not know in any state is of another history: if
    /// its block is not known either, nothing is done about it, ever; else it is garbage that its block may need.
    pub fn reconcile(
        &self,
        copies: &[BlockCopy],
        living: &BTreeSet<NodeId>,
        now_ms: u64,
    ) -> Result<Reconciled> {
        let (mut result, surplus) = self.view(|txn| {
            let (mut result, mut surplus) = (Reconciled::default(), Vec::new());
            for copy in copies {
                let is_garbage = txn.get::<GarbageRow>(copy)?.is_some();
                if !is_garbage && is_known(txn, copy)? {
                    continue;
                }
                match txn.get::<BlockFacts>(&copy.block)? {
                    None if is_garbage => {}
                    None => result.unknown += 1,
                    Some(row) => {
                        if !is_garbage {
                            surplus.push(*copy);
                        }
                        if row.is_in_need(living) {
                            result.needed.push(*copy);
                        }
                    }
                }
            }
            Ok((result, surplus))
        })?;
        result.surplus = surplus.len() as u64;
        // Nearly always there is none: then nothing is written.
        if !surplus.is_empty() {
            self.change(|txn| {
                for &copy in &surplus {
                    // What became a location meanwhile is none.
                    if !is_known(txn, &copy)? {
                        txn.to_garbage(copy, now_ms)?;
                    }
                }
                Ok(())
            })?;
        }
        Ok(result)
    }

    /// A copy that its node has just read, and found whole, becomes a location again if its block still needs it. In a
    /// stripe it takes the place of those on dead nodes. `digest` is what its sidecar says. Whether it did.
    pub fn take_back(
        &self,
        copy: &BlockCopy,
        digest: &[u8],
        living: &BTreeSet<NodeId>,
        now_ms: u64,
    ) -> Result<bool> {
        self.change(|txn| {
            let Some(mut row) = txn.get::<BlockFacts>(&copy.block)? else { return Ok(false) };
            let is_the_block = row.sums.digest.is_none_or(|known| known == digest);
            let has_place = row.on(copy.node).is_none()
                && match row.stripe {
                    Some(place) => !holders(txn, place.stripe)?.contains(&copy.node),
                    None => true,
                };
            if !(is_the_block && has_place && row.is_in_need(living) && txn.remove::<GarbageRow>(copy)?) {
                return Ok(false);
            }
            if row.stripe.is_some() {
                for old in std::mem::take(&mut row.locations) {
                    txn.to_garbage(old.copy_of(copy.block), now_ms)?;
                }
            }
            row.locations.push(copy.location());
            row.last_generation = row.last_generation.max(copy.generation);
            txn.set_block(copy.block, &row)?;
            Ok(true)
        })
    }

    /// Copies that the catalog places on the node.
    pub fn held_by(&self, node: NodeId) -> Result<BTreeSet<BlockCopy>> {
        self.view(|txn| {
            let held = txn.all::<HeldRow>(&Key::to_bytes(&node))?;
            let copy = |(key, row): (HeldKey, HeldRow)| BlockCopy {
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
                let Some(mut row) = txn.get::<BlockFacts>(&copy.block)? else { continue };
                let lost = copy.location();
                if row.locations.contains(&lost) {
                    row.locations.retain(|l| *l != lost);
                    txn.set_block(copy.block, &row)?;
                    forgotten += 1;
                }
            }
            Ok(forgotten)
        })
    }
}
