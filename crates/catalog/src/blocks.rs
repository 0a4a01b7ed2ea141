//! Blocks and copies: the few operations that every change is made of.

use crate::Catalog;
use crate::backend::Scan;
use crate::error::damaged_row;
use crate::error::{CatalogError, Result};
use crate::rows::{
    CandidateRow, DeadKey, DeadRow, HeldKey, HeldRow, LackRow, ObjectRow, PlannedRow, StripeRow,
};
use crate::soundness::checksum::verified;
use crate::table::{Change, Key, Read, Row};
use model::{
    BlockCopy, BlockFacts, BlockId, Flaw, MemberState, NodeId, Placement, Reason, StripeId, StripePlacement,
    Sums, Unread,
};
use std::collections::{BTreeMap, BTreeSet};

/// Blocks of a node that are listed at a time.
const HELD_AT_ONCE: usize = 1_024;

/// Reason why a missing row that other rows name is damage.
pub(crate) const MISSING: &str = "other rows name it, and it is missing";

impl Catalog {
    /// Everything about a block.
    pub fn placement(&self, block: BlockId) -> Result<Placement> {
        let unread = self.unread();
        self.unless_damaged(self.view(|txn| placement(txn, block)).map(|placed| without(&unread, placed)))
    }

    /// Everything about these blocks, in their order; `None` for one that is gone.
    pub fn placements(&self, blocks: &[BlockId]) -> Result<Vec<Option<Placement>>> {
        let unread = self.unread();
        self.view(|txn| {
            let found = |&block: &BlockId| match placement(txn, block) {
                Err(CatalogError::NoSuchBlock(_)) => Ok(None),
                found => found.map(|placed| Some(without(&unread, placed))),
            };
            blocks.iter().map(found).collect()
        })
    }

    /// Everything about all blocks of an object, in order.
    pub fn object(&self, name: &str) -> Result<(ObjectRow, Vec<Placement>)> {
        let unread = self.unread();
        let found = self.view(|txn| {
            let object = object(txn, name)?;
            let placed = |&block: &BlockId| match placement(txn, block) {
                Err(CatalogError::NoSuchBlock(block)) => Err(missing_block(block)),
                placed => placed.map(|placed| without(&unread, placed)),
            };
            let blocks = object.blocks.iter().map(placed).collect::<Result<_>>()?;
            Ok((object, blocks))
        });
        self.unless_damaged(found)
    }

    /// In a file that is damaged, or that was not checked yet, a missing row is no proof that there is no such object or block.
    pub(crate) fn unless_damaged<T>(&self, found: Result<T>) -> Result<T> {
        match found {
            Err(CatalogError::NoSuchObject(name)) if !self.soundness.is_sound() => {
                Err(CatalogError::NotKnown(format!("an object {name:?}")))
            }
            Err(CatalogError::NoSuchBlock(block)) if !self.soundness.is_sound() => {
                Err(CatalogError::NotKnown(format!("a block {block}")))
            }
            found => found,
        }
    }

    /// Names and rows of the objects whose names begin with `prefix`, from `after` (exclusive) on, at most `limit`.
    pub fn list_objects(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Vec<String>> {
        // The next string after `after` in byte order.
        let from = after.map_or_else(|| prefix.to_owned(), |name| format!("{name}\0"));
        self.view(|txn| {
            let mut names = Vec::new();
            txn.raw_scan(ObjectRow::TABLE, from.as_bytes(), &mut |key, value| {
                // A name that is damaged is nobody's.
                if let Err(error) = verified(ObjectRow::TABLE, key, value) {
                    return txn.skip(error).map(|()| Scan::Next);
                }
                if names.len() == limit || !key.starts_with(prefix.as_bytes()) {
                    return Ok(Scan::Stop);
                }
                names.push(String::from_utf8_lossy(key).into_owned());
                Ok(Scan::Next)
            })?;
            Ok(names)
        })
    }

    /// Block `index` of an object.
    pub fn object_block(&self, name: &str, index: u64) -> Result<BlockId> {
        let object = self.unless_damaged(self.view(|txn| object(txn, name)))?;
        let found = usize::try_from(index).ok().and_then(|i| object.blocks.get(i));
        found.copied().ok_or_else(|| {
            let count = object.blocks.len();
            CatalogError::Invalid(format!("object {name:?} has {count} blocks; there is no block {index}"))
        })
    }

    /// Blocks of which the catalog says that the node holds them.
    pub fn blocks_on(&self, node: NodeId) -> Result<Vec<BlockId>> {
        self.view(|txn| {
            let held = txn.all::<HeldRow>(&Key::to_bytes(&node))?;
            Ok(held.into_iter().map(|(key, _)| key.block).collect())
        })
    }

    /// Some of these, by id, from a block on or from the first; and where to go on, `None` at the end.
    pub fn blocks_on_from(
        &self,
        node: NodeId,
        from: Option<BlockId>,
    ) -> Result<(Vec<BlockId>, Option<BlockId>)> {
        let from = HeldKey { node, block: from.unwrap_or(BlockId(0)) };
        self.view(|txn| {
            let (mut blocks, mut next) = (Vec::new(), None);
            txn.scan_from::<HeldRow>(&Key::to_bytes(&from), |key, _| {
                if key.node != node {
                    return Ok(Scan::Stop);
                }
                if blocks.len() == HELD_AT_ONCE {
                    next = Some(key.block);
                    return Ok(Scan::Stop);
                }
                blocks.push(key.block);
                Ok(Scan::Next)
            })?;
            Ok((blocks, next))
        })
    }

    /// Bytes of the blocks that are placed on each node: what it will have once all that is superfluous is gone.
    pub fn placed_bytes(&self) -> Result<BTreeMap<NodeId, u64>> {
        let mut placed = BTreeMap::new();
        self.view(|txn| {
            txn.scan::<BlockFacts>(&[], |_, row| {
                row.locations.iter().for_each(|l| *placed.entry(l.node).or_default() += row.stored_bytes);
                Ok(Scan::Next)
            })
        })?;
        Ok(placed)
    }

    /// Whether it says so of any block.
    pub fn holds_any(&self, node: NodeId) -> Result<bool> {
        self.view(|txn| {
            let prefix = Key::to_bytes(&node);
            let mut found = false;
            txn.scan::<HeldRow>(&prefix, |_, _| {
                found = true;
                Ok(Scan::Stop)
            })?;
            Ok(found)
        })
    }
}

/// Returns the placement of a block and its stripe without copies that cannot be read now.
fn without(unread: &Unread, mut placed: Placement) -> Placement {
    if unread.is_empty() {
        return placed;
    }
    unread.set_aside(placed.block, &mut placed.facts);
    for member in placed.stripe.iter_mut().flat_map(|stripe| &mut stripe.members) {
        if let MemberState::Stored((block, facts)) | MemberState::Virtual((block, facts)) = member {
            unread.set_aside(*block, facts);
        }
    }
    placed
}

pub(crate) fn object(txn: &impl Read, name: &str) -> Result<ObjectRow> {
    txn.get::<ObjectRow>(&name.to_owned())?.ok_or_else(|| CatalogError::NoSuchObject(name.to_owned()))
}

/// A block that something in the catalog refers to.
pub(crate) fn referenced(txn: &impl Read, block: BlockId) -> Result<BlockFacts> {
    txn.get::<BlockFacts>(&block)?.ok_or_else(|| missing_block(block))
}

fn missing_block(block: BlockId) -> CatalogError {
    damaged_row(BlockFacts::TABLE, &block.to_bytes(), MISSING)
}

/// A member of a stripe whose other members are asked for. One whose row is damaged lies nowhere, and may be as long as any: the others
/// can be read, and decoded without it.
pub(crate) fn perhaps_unreadable(txn: &impl Read, block: BlockId, block_bytes: u64) -> Result<BlockFacts> {
    match referenced(txn, block) {
        Err(error) if error.is_damage() => {
            txn.skip(error)?;
            Ok(BlockFacts::new(block_bytes, Sums::default(), Vec::new()))
        }
        found => found,
    }
}

/// Whether a copy is on a living node that can read it.
pub(crate) fn is_readable(copy: BlockCopy, living: &BTreeSet<NodeId>, unread: &Unread) -> bool {
    living.contains(&copy.node) && !unread.contains(copy)
}

/// A stripe that a block refers to.
pub(crate) fn stripe(txn: &impl Read, stripe: StripeId) -> Result<StripeRow> {
    txn.get::<StripeRow>(&stripe)?.ok_or_else(|| damaged_row(StripeRow::TABLE, &stripe.to_bytes(), MISSING))
}

pub(crate) fn placement(txn: &impl Read, block: BlockId) -> Result<Placement> {
    let facts = txn.get::<BlockFacts>(&block)?.ok_or(CatalogError::NoSuchBlock(block))?;
    let Some(place) = facts.stripe else { return Ok(Placement { block, facts, stripe: None }) };
    let row = stripe(txn, place.stripe)?;
    let member = |&id: &BlockId| {
        Ok((id, if id == block { facts.clone() } else { perhaps_unreadable(txn, id, row.block_bytes)? }))
    };
    let members = row.members.iter().map(|state| state.try_map(member)).collect::<Result<_>>()?;
    let holders = holders(txn, place.stripe)?;
    let StripeRow { code, block_bytes, .. } = row;
    let stripe =
        StripePlacement { id: place.stripe, index: place.index, code, block_bytes, members, holders };
    Ok(Placement { block, facts, stripe: Some(stripe) })
}

/// Nodes that flows under way may write the block to.
pub(crate) fn writers(txn: &impl Read, block: BlockId) -> Result<Vec<NodeId>> {
    Ok(txn.all::<PlannedRow>(&Key::to_bytes(&block))?.into_iter().map(|(copy, _)| copy.node).collect())
}

/// Nodes that hold a block of the stripe, or that a flow may write one to.
pub(crate) fn holders(txn: &impl Read, stripe: StripeId) -> Result<BTreeSet<NodeId>> {
    let mut holders = BTreeSet::new();
    let Some(row) = txn.get::<StripeRow>(&stripe)? else { return Ok(holders) };
    for block in row.blocks() {
        let facts = perhaps_unreadable(txn, block, row.block_bytes)?;
        holders.extend(facts.locations.iter().map(|l| l.node));
        holders.extend(writers(txn, block)?);
    }
    Ok(holders)
}

/// Where a block is listed that no object names any more.
pub(crate) fn dead_key(block: BlockId, row: &BlockFacts) -> Option<DeadKey> {
    let place = row.stripe.filter(|_| row.dead)?;
    Some(DeadKey { stripe: place.stripe, block })
}

impl Change<'_> {
    /// The indexes of what is dead and of what lacks copies, of a catalog that had none.
    pub(crate) fn index_blocks(&self) -> Result<()> {
        self.all::<BlockFacts>(&[])?.iter().try_for_each(|(block, row)| self.index(*block, row))
    }

    /// Writes a block's row and keeps the indexes: by node, of what is dead, of what lacks copies. A row with two locations on one node is
    /// refused with [`CatalogError::Bug`]: the index has room for one, and the check of the file would call that damage.
    pub(crate) fn set_block(&self, block: BlockId, row: &BlockFacts) -> Result<()> {
        let nodes: BTreeSet<NodeId> = row.locations.iter().map(|location| location.node).collect();
        if nodes.len() < row.locations.len() {
            return Err(CatalogError::Bug(format!("block {block} was to count two copies on one node")));
        }
        debug_assert!(row.flawed.iter().all(|flawed| flawed.flaw != Flaw::Unread), "no row says that");
        self.forget_indexed(block)?;
        self.index(block, row)?;
        for location in &row.locations {
            let key = HeldKey { node: location.node, block };
            self.put(&key, &HeldRow { generation: location.generation })?;
        }
        self.put(&block, row)
    }

    fn index(&self, block: BlockId, row: &BlockFacts) -> Result<()> {
        if let Some(key) = dead_key(block, row) {
            self.put(&key, &DeadRow { stored_bytes: row.stored_bytes })?;
        }
        match row.lacks() {
            0 => Ok(()),
            copies => self.put(&block, &LackRow { copies: u32::try_from(copies).unwrap_or(u32::MAX) }),
        }
    }

    /// The row of a copy's block.
    pub(crate) fn get_block(&self, copy: BlockCopy) -> Result<Option<BlockFacts>> {
        self.get::<BlockFacts>(&copy.block)
    }

    /// Removes a block; its copies, flawed ones too, become candidates.
    pub(crate) fn drop_block(&self, block: BlockId, row: &BlockFacts, now_ms: u64) -> Result<()> {
        self.forget_indexed(block)?;
        self.remove::<BlockFacts>(&block)?;
        let flawed = row.flawed.iter().map(|flawed| &flawed.location);
        let mut copies = row.locations.iter().chain(flawed).map(|l| l.copy_of(block));
        copies.try_for_each(|copy| self.to_candidate(copy, Reason::Deleted, row.stored_bytes, now_ms))?;
        self.candidates_are_gone(block)
    }

    /// Candidates of a block that is removed go by this change's word: no row says any more what took their place.
    fn candidates_are_gone(&self, block: BlockId) -> Result<()> {
        for (copy, row) in self.all::<CandidateRow>(&Key::to_bytes(&block))? {
            if !row.reason.is_word() {
                self.put(&copy, &CandidateRow { reason: Reason::Deleted, ..row })?;
            }
        }
        Ok(())
    }

    fn forget_indexed(&self, block: BlockId) -> Result<()> {
        if let Some(old) = self.get::<BlockFacts>(&block)? {
            if let Some(key) = dead_key(block, &old) {
                self.remove::<DeadRow>(&key)?;
            }
            if old.lacks() > 0 {
                self.remove::<LackRow>(&block)?;
            }
            for location in old.locations {
                self.remove::<HeldRow>(&HeldKey { node: location.node, block })?;
            }
        }
        Ok(())
    }

    /// Notes, before the plan goes out, that a copy may appear.
    pub(crate) fn plan_copy(&self, copy: BlockCopy, now_ms: u64) -> Result<()> {
        self.put(&copy, &PlannedRow { since_ms: now_ms })
    }

    /// A planned copy became a location.
    pub(crate) fn copy_arrived(&self, copy: BlockCopy) -> Result<()> {
        self.remove::<PlannedRow>(&copy).map(|_| ())
    }

    /// The copy is superfluous, if it is or ever comes there.
    pub(crate) fn to_candidate(
        &self,
        copy: BlockCopy,
        reason: Reason,
        stored_bytes: u64,
        now_ms: u64,
    ) -> Result<()> {
        self.remove::<PlannedRow>(&copy)?;
        self.put(&copy, &CandidateRow { since_ms: now_ms, reason, stored_bytes, is_ordered: false })
    }

    /// A copy that is still planned will count no more. If its block is there, that one's row says whether it goes.
    pub(crate) fn give_up_copy(&self, copy: BlockCopy, stored_bytes: u64, now_ms: u64) -> Result<()> {
        if self.get::<PlannedRow>(&copy)?.is_none() {
            return Ok(());
        }
        let reason = match self.get_block(copy)? {
            Some(_) => Reason::Unfinished,
            None => Reason::GivenUp,
        };
        self.to_candidate(copy, reason, stored_bytes, now_ms)
    }
}
