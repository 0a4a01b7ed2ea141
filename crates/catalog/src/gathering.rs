//! Stripes before they are encoded: blocks of any objects join one, each with its replicas, until it is sealed.
//!
//! ```text
//!   join ──▶ open ──full, waited too long, or asked for──▶ sealed ──commit of its encoding──▶ a stripe
//!              └────────────── its last block left ──────────┴──▶ none
//! ```
//!
//! A block leaves when its put is given up or its object goes. The row is written in the transaction that plans the block's copies,
//! so a crash leaves no block whose placement nobody knows the reason of. The stripe keeps its id when it is encoded.

use crate::Catalog;
use crate::error::{CatalogError, Result};
use crate::name::check_name;
use crate::rows::{BucketRow, GatheredRow, GatheringRow};
use crate::table::{Change, Read};
use model::{BlockId, StripeId};
use std::collections::BTreeMap;

/// A block that joins a stripe: what the stripe was when the block was placed, and what it is with it.
#[derive(Clone, Debug)]
pub struct Join {
    /// The stripe.
    pub stripe: StripeId,
    /// As it was; `None`: it begins with this block.
    pub before: Option<GatheringRow>,
    /// As it is now.
    pub after: GatheringRow,
}

/// What is gathered for stripes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Gathers {
    /// Stripes that take blocks.
    pub open: u64,
    /// Stripes that can be encoded, or will be once their puts have ended.
    pub sealed: u64,
    /// The blocks of both.
    pub blocks: u64,
}

impl Catalog {
    /// A stripe that is not encoded yet.
    pub fn gathering(&self, stripe: StripeId) -> Result<Option<GatheringRow>> {
        self.view(|txn| txn.get::<GatheringRow>(&stripe))
    }

    /// The stripe in which a block waits to be encoded.
    pub fn gathering_of(&self, block: BlockId) -> Result<Option<(StripeId, GatheringRow)>> {
        self.view(|txn| {
            let Some(GatheredRow { stripe }) = txn.get::<GatheredRow>(&block)? else { return Ok(None) };
            Ok(txn.get::<GatheringRow>(&stripe)?.map(|row| (stripe, row)))
        })
    }

    /// The stripes that take blocks.
    pub fn open_stripes(&self) -> Result<Vec<(StripeId, GatheringRow)>> {
        let all = self.view(|txn| txn.all::<GatheringRow>(&[]))?;
        Ok(all.into_iter().filter(|(_, row)| row.sealed_ms.is_none()).collect())
    }

    /// How much is gathered.
    pub fn gathers(&self) -> Result<Gathers> {
        self.view(|txn| gathers(txn))
    }

    /// A stripe takes no more blocks. Nothing happens if it is sealed, encoded or gone.
    pub fn seal(&self, stripe: StripeId, now_ms: u64) -> Result<()> {
        self.change(|txn| match txn.get::<GatheringRow>(&stripe)? {
            Some(row) if row.sealed_ms.is_none() => {
                txn.put(&stripe, &GatheringRow { sealed_ms: Some(now_ms), ..row })
            }
            _ => Ok(()),
        })
    }

    /// From now on the objects of a bucket are put like this; `None`: as the cluster does.
    pub fn set_bucket(&self, bucket: &str, row: Option<&BucketRow>) -> Result<()> {
        check_name(bucket)?;
        let key = bucket.to_owned();
        self.change(|txn| match row {
            Some(row) => txn.put(&key, row),
            None => txn.remove::<BucketRow>(&key).map(|_| ()),
        })
    }

    /// How the objects of a bucket are put, if an operator has said so.
    pub fn bucket(&self, bucket: &str) -> Result<Option<BucketRow>> {
        self.view(|txn| txn.get::<BucketRow>(&bucket.to_owned()))
    }

    /// All buckets of which an operator has said how their objects are put.
    pub fn buckets(&self) -> Result<BTreeMap<String, BucketRow>> {
        self.view(|txn| Ok(txn.all::<BucketRow>(&[])?.into_iter().collect()))
    }
}

pub(crate) fn gathers(txn: &impl Read) -> Result<Gathers> {
    let mut gathers = Gathers::default();
    txn.scan::<GatheringRow>(&[], |_, row| {
        *if row.sealed_ms.is_none() { &mut gathers.open } else { &mut gathers.sealed } += 1;
        gathers.blocks += row.blocks.len() as u64;
        Ok(crate::backend::Scan::Next)
    })?;
    Ok(gathers)
}

impl Change<'_> {
    /// Whether a block may join a stripe: the stripe is as it was when the block was placed.
    pub(crate) fn may_join(&self, join: &Join, block: BlockId) -> Result<()> {
        let Join { stripe, before, after } = join;
        if self.get::<GatheringRow>(stripe)? != *before {
            return Err(CatalogError::Overtaken(format!("stripe {stripe} has changed")));
        }
        if before.as_ref().is_some_and(|row| row.sealed_ms.is_some()) {
            return Err(CatalogError::Overtaken(format!("stripe {stripe} was sealed")));
        }
        if after.blocks.last().is_none_or(|last| last.block != block) {
            return Err(CatalogError::Bug(format!("block {block} joins a stripe without being its last")));
        }
        Ok(())
    }

    /// A block joins a stripe that it may join.
    pub(crate) fn join(&self, join: &Join, block: BlockId) -> Result<()> {
        self.put(&join.stripe, &join.after)?;
        self.put(&block, &GatheredRow { stripe: join.stripe })
    }

    /// A block is no part of a stripe to come any more, if it was of one.
    pub(crate) fn leave(&self, block: BlockId) -> Result<()> {
        let Some(GatheredRow { stripe }) = self.get::<GatheredRow>(&block)? else { return Ok(()) };
        self.remove::<GatheredRow>(&block)?;
        let Some(mut row) = self.get::<GatheringRow>(&stripe)? else { return Ok(()) };
        let Some(place) = row.blocks.iter().position(|gathered| gathered.block == block) else {
            return Ok(());
        };
        row.blocks.remove(place);
        // What was decided of this local group and those after it was decided of other blocks.
        let mut end = 0;
        let holds = |group: &&crate::rows::SettledRow| {
            end += group.kept.len();
            end <= place
        };
        let settled = row.settled.iter().take_while(holds).count();
        row.settled.truncate(settled);
        match row.blocks.is_empty() {
            true => self.remove::<GatheringRow>(&stripe).map(|_| ()),
            false => self.put(&stripe, &row),
        }
    }

    /// A stripe is encoded: nothing is gathered for it any more.
    pub(crate) fn gathered(&self, stripe: StripeId) -> Result<()> {
        let Some(row) = self.get::<GatheringRow>(&stripe)? else { return Ok(()) };
        for gathered in &row.blocks {
            self.remove::<GatheredRow>(&gathered.block)?;
        }
        self.remove::<GatheringRow>(&stripe).map(|_| ())
    }
}
