//! Delete: one transaction that removes the name and lets the blocks die.

use crate::Catalog;
use crate::blocks::{object, referenced};
use crate::error::{CatalogError, Result};
use crate::rows::{ObjectRow, StripeRow};
use crate::table::{Change, Read};
use model::{BlockFacts, BlockId, StripeId};

impl Catalog {
    /// Removes an object. Puts of that name that may have been committed in an earlier life of the catalog are over with it, for what
    /// they would bring back is older than this deletion; the name stood for them, too.
    ///
    /// # Errors
    /// [`CatalogError::NoSuchObject`] if nothing of that name was or may have been there.
    pub fn delete(&self, name: &str, now_ms: u64) -> Result<()> {
        let deleted = self.change(|txn| {
            let had_unsettled = txn.end_unsettled(name, now_ms)?;
            let row = match object(txn, name) {
                Err(CatalogError::NoSuchObject(_)) if had_unsettled => return Ok(()),
                row => row?,
            };
            txn.remove::<ObjectRow>(&name.to_owned())?;
            row.blocks.iter().try_for_each(|&block| txn.retire_block(block, now_ms))
        });
        self.unless_damaged(deleted)
    }
}

impl Change<'_> {
    /// A block that no object names any more. Outside a stripe its copies are candidates, and it leaves the
    /// stripe that it was to become part of. In a stripe it keeps its bytes, which
    /// other members are decoded with, until the last data block of the stripe dies; then the whole stripe goes.
    pub(super) fn retire_block(&self, block: BlockId, now_ms: u64) -> Result<()> {
        let mut row = referenced(self, block)?;
        let Some(place) = row.stripe else {
            self.leave(block)?;
            return self.drop_block(block, &row, now_ms);
        };
        row.dead = true;
        self.set_block(block, &row)?;
        self.drop_stripe_if_dead(place.stripe, now_ms).map(|_| ())
    }

    /// A stripe goes, with all that is in it, unless a block of an object is. Whether it is gone.
    pub(super) fn drop_stripe_if_dead(&self, stripe: StripeId, now_ms: u64) -> Result<bool> {
        let Some(row) = self.get::<StripeRow>(&stripe)? else { return Ok(true) };
        let mut members = row
            .blocks()
            .map(|block| Ok((block, referenced(self, block)?)))
            .collect::<Result<Vec<(BlockId, BlockFacts)>>>()?;
        // The others have become members of another one.
        members.retain(|(_, row)| row.stripe.is_some_and(|place| place.stripe == stripe));
        if members.iter().any(|(_, row)| row.part.is_some() && !row.dead) {
            return Ok(false);
        }
        self.remove::<StripeRow>(&stripe)?;
        members.iter().try_for_each(|(block, row)| self.drop_block(*block, row, now_ms))?;
        Ok(true)
    }
}
