//! Stripes that keep what nobody needs: blocks of objects that are gone, which the others are decoded with, and parities for them.

use crate::Catalog;
use crate::backend::Scan;
use crate::blocks::{placement, referenced};
use crate::error::Result;
use crate::rows::{DeadRow, StripeRow};
use crate::table::Read;
use model::{BlockFacts, BlockId, Placement, StripeId};
use std::collections::BTreeMap;

/// What of a stripe is dead.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Deaths {
    /// Blocks of objects that are gone.
    pub blocks: u64,
    /// Their bytes.
    pub stored_bytes: u64,
}

/// What a stripe holds.
#[derive(Clone, Debug)]
pub struct StripeContents {
    /// Its code's name.
    pub code: String,
    /// Its blocks that belong to objects, in their order.
    pub live: Vec<Placement>,
    /// What all of its members take up, dead ones and parities included.
    pub stored_bytes: u64,
}

impl Catalog {
    /// The stripes in which something is dead.
    pub fn deaths(&self) -> Result<BTreeMap<StripeId, Deaths>> {
        self.view(|txn| {
            let mut deaths: BTreeMap<StripeId, Deaths> = BTreeMap::new();
            txn.scan::<DeadRow>(&[], |key, row| {
                let of_it = deaths.entry(key.stripe).or_default();
                of_it.blocks += 1;
                of_it.stored_bytes += row.stored_bytes;
                Ok(Scan::Next)
            })?;
            Ok(deaths)
        })
    }

    /// What a stripe holds; `None` if it is gone.
    pub fn stripe_contents(&self, stripe: StripeId) -> Result<Option<StripeContents>> {
        self.view(|txn| {
            let Some(row) = txn.get::<StripeRow>(&stripe)? else { return Ok(None) };
            let members: Vec<(BlockId, BlockFacts)> =
                row.blocks().map(|block| Ok((block, referenced(txn, block)?))).collect::<Result<_>>()?;
            let stored = members.iter().filter(|(_, facts)| !facts.is_virtual());
            let stored_bytes = stored.map(|(_, facts)| facts.stored_bytes).sum();
            let is_live = |(_, facts): &&(BlockId, BlockFacts)| facts.part.is_some() && !facts.dead;
            let live = members.iter().filter(is_live).map(|(block, _)| placement(txn, *block));
            Ok(Some(StripeContents { live: live.collect::<Result<_>>()?, code: row.code, stored_bytes }))
        })
    }
}
