//! Blocks and copies: the few operations that every change is made of.

use super::Catalog;
use super::rows::{
    BlockCopy, BlockRow, GarbageRow, HeldKey, HeldRow, Location, ObjectRow, PartRow, PlannedRow, StripeRow,
    Sums,
};
use super::table::{Change, Read, Scan, malformed};
use crate::error::{CoordinatorError, Result};
use model::note::{self, MemberFacts, StripeFacts};
use model::{BlockId, StoredCopy, StripeId};
use std::collections::BTreeSet;

/// A block with all that a plan about it needs, from one snapshot.
#[derive(Clone, Debug)]
pub(crate) struct Placement {
    pub block: BlockId,
    pub row: BlockRow,
    pub stripe: Option<StripePlacement>,
}

/// The stripe of a block.
#[derive(Clone, Debug)]
pub(crate) struct StripePlacement {
    pub id: StripeId,
    pub index: u16,
    pub row: StripeRow,
    /// As in `row.members`.
    pub members: Vec<Option<(BlockId, BlockRow)>>,
    /// Nodes that hold one of its blocks, dead or alive, or are being written one.
    pub holders: BTreeSet<u32>,
}

impl Catalog {
    /// Everything about a block.
    pub fn placement(&self, block: BlockId) -> Result<Placement> {
        self.view(|txn| placement(txn, block))
    }

    /// Everything about all blocks of an object, in order.
    pub fn object(&self, name: &str) -> Result<(ObjectRow, Vec<Placement>)> {
        self.view(|txn| {
            let object = object(txn, name)?;
            let blocks = object.blocks.iter().map(|&block| placement(txn, block)).collect::<Result<_>>()?;
            Ok((object, blocks))
        })
    }

    /// Block `index` of an object.
    pub fn object_block(&self, name: &str, index: u64) -> Result<BlockId> {
        let object = self.view(|txn| object(txn, name))?;
        let found = usize::try_from(index).ok().and_then(|i| object.blocks.get(i));
        found.copied().ok_or_else(|| {
            let count = object.blocks.len();
            CoordinatorError::Invalid(format!(
                "object {name:?} has {count} blocks; there is no block {index}"
            ))
        })
    }

    /// Blocks of which the catalog says that the node holds them.
    pub fn blocks_on(&self, node: u32) -> Result<Vec<BlockId>> {
        self.view(|txn| {
            let held = txn.all::<HeldRow>(&node.to_be_bytes())?;
            Ok(held.into_iter().map(|(key, _)| key.block).collect())
        })
    }

    /// Whether it says so of any block.
    pub fn holds_any(&self, node: u32) -> Result<bool> {
        self.view(|txn| {
            let prefix = node.to_be_bytes();
            let mut found = false;
            txn.scan::<HeldRow>(&prefix, |_, _| {
                found = true;
                Ok(Scan::Stop)
            })?;
            Ok(found)
        })
    }
}

pub(super) fn object(txn: &impl Read, name: &str) -> Result<ObjectRow> {
    txn.get::<ObjectRow>(&name.to_owned())?.ok_or_else(|| CoordinatorError::NoSuchObject(name.to_owned()))
}

/// A block that something in the catalog refers to.
pub(super) fn referenced(txn: &impl Read, block: BlockId) -> Result<BlockRow> {
    txn.get::<BlockRow>(&block)?
        .ok_or_else(|| malformed("blocks", &block.to_bytes(), "referred to, but missing"))
}

fn placement(txn: &impl Read, block: BlockId) -> Result<Placement> {
    let row = txn.get::<BlockRow>(&block)?.ok_or(CoordinatorError::NoSuchBlock(block))?;
    let stripe = match row.stripe {
        None => None,
        Some(place) => {
            let stripe = txn
                .get::<StripeRow>(&place.stripe)?
                .ok_or_else(|| malformed("stripes", &place.stripe.to_bytes(), "referred to, but missing"))?;
            let member = |member: &super::rows::MemberRow| Ok((member.block, referenced(txn, member.block)?));
            let members =
                stripe.members.iter().map(|m| m.as_ref().map(member).transpose()).collect::<Result<_>>()?;
            let holders = super::repair::holders(txn, place.stripe)?;
            Some(StripePlacement { id: place.stripe, index: place.index, row: stripe, members, holders })
        }
    };
    Ok(Placement { block, row, stripe })
}

impl Change {
    /// Writes a block's row and keeps the index by node.
    pub(super) fn set_block(&self, block: BlockId, row: &BlockRow) -> Result<()> {
        self.forget_held(block)?;
        for location in &row.locations {
            let key = HeldKey { node: location.node, block };
            self.put(&key, &HeldRow { generation: location.generation })?;
        }
        self.put(&block, row)
    }

    /// Removes a block; its copies become garbage.
    pub(super) fn drop_block(&self, block: BlockId, row: &BlockRow, now_ms: u64) -> Result<()> {
        self.forget_held(block)?;
        self.remove::<BlockRow>(&block)?;
        row.locations.iter().try_for_each(|l| self.to_garbage(l.copy_of(block), now_ms))
    }

    fn forget_held(&self, block: BlockId) -> Result<()> {
        if let Some(old) = self.get::<BlockRow>(&block)? {
            for location in old.locations {
                self.remove::<HeldRow>(&HeldKey { node: location.node, block })?;
            }
        }
        Ok(())
    }

    /// Notes, before the plan goes out, that a copy may appear.
    pub(super) fn plan_copy(&self, copy: BlockCopy, now_ms: u64) -> Result<()> {
        self.put(&copy, &PlannedRow { since_ms: now_ms })
    }

    /// A planned copy became a location.
    pub(super) fn copy_arrived(&self, copy: BlockCopy) -> Result<()> {
        self.remove::<PlannedRow>(&copy).map(|_| ())
    }

    /// The copy has to go, if it is or ever comes there.
    pub(super) fn to_garbage(&self, copy: BlockCopy, now_ms: u64) -> Result<()> {
        self.remove::<PlannedRow>(&copy)?;
        self.put(&copy, &GarbageRow { since_ms: now_ms })
    }
}

impl Location {
    /// As a copy of `block`.
    pub fn copy_of(self, block: BlockId) -> BlockCopy {
        BlockCopy { block, node: self.node, generation: self.generation }
    }
}

impl BlockRow {
    /// A block that a put or an encoding has just made.
    pub(super) fn new(stored_bytes: u64, sums: Sums, locations: Vec<Location>) -> BlockRow {
        let last_generation = locations.iter().map(|l| l.generation).max().unwrap_or(0);
        BlockRow {
            stored_bytes,
            sums,
            last_generation,
            replicas: u32::try_from(locations.len()).unwrap_or(u32::MAX),
            locations,
            part: None,
            stripe: None,
            dead: false,
        }
    }

    /// The copy on a node.
    pub fn on(&self, node: u32) -> Option<Location> {
        self.locations.iter().copied().find(|l| l.node == node)
    }

    /// Whether a living node holds a copy.
    pub fn lives(&self, living: &BTreeSet<u32>) -> bool {
        self.locations.iter().any(|l| living.contains(&l.node))
    }

    /// Whether it has fewer living copies than it is to have: outside a stripe those that its put asked for.
    pub fn is_in_need(&self, living: &BTreeSet<u32>) -> bool {
        let wanted = if self.stripe.is_some() { 1 } else { self.replicas as usize };
        self.locations.iter().filter(|l| living.contains(&l.node)).count() < wanted
    }

    /// The copy at `location`.
    pub fn copy_at(&self, block: BlockId, location: Location) -> StoredCopy {
        StoredCopy { block, generation: location.generation, stored_bytes: self.stored_bytes }
    }
}

impl StripePlacement {
    /// Which members can be read from living nodes, or are known to be zero.
    pub fn usable(&self, living: &BTreeSet<u32>) -> Vec<bool> {
        self.members.iter().map(|m| m.as_ref().is_none_or(|(_, row)| row.lives(living))).collect()
    }

    /// What the sidecar of member `index` says of its stripe.
    /// Generations are those that `remade` tells, of other members the newest that is known. It is encoded.
    pub fn info(&self, index: u16, remade: impl Fn(u16) -> Option<u64>) -> Vec<u8> {
        let facts = StripeFacts { stripe: self.id, code: &self.row.code, block_bytes: self.row.block_bytes };
        let members = self.members.iter().enumerate().map(|(member, stored)| {
            let (block, row) = stored.as_ref()?;
            let facts = row.facts(*block);
            Some(MemberFacts { generation: remade(member as u16).unwrap_or(facts.generation), ..facts })
        });
        note::encode(facts, index, members)
    }
}

impl BlockRow {
    /// As a member of a stripe in a sidecar.
    pub fn facts(&self, block: BlockId) -> MemberFacts<'_> {
        MemberFacts {
            block,
            generation: self.locations.iter().map(|l| l.generation).max().unwrap_or(self.last_generation),
            stored_bytes: self.stored_bytes,
            digest: self.sums.digest.as_ref().map_or(&[], |digest| digest),
            fingerprint: self.sums.fingerprint.as_ref().map_or(&[], |fingerprint| fingerprint.as_bytes()),
            object: self.part.as_ref().map(PartRow::facts),
        }
    }
}
