//! Intents: what the coordinator has ordered and nobody has ended yet, be it repairs or encodings.
//!
//! ```text
//!   begin (every copy that the flow may write is planned) ──▶ commit   copies become locations, what they replace candidates
//!                        ▲ │ mend (next attempt)          └─▶ abort    copies become candidates
//!                        └─┘
//! ```
//!
//! All but `begin` hold only for the current attempt.

use crate::Catalog;
use crate::blocks::{holders, is_readable, writers};
use crate::error::{CatalogError, Result};
use crate::put_block::FIRST_GENERATION;
use crate::rows::{IntentRow, NewStripe, Purpose};
use crate::safe_mode::safe_mode;
use crate::staged::{Fate, Staged, fate};
use crate::table::{Change, Read};
use crate::virtuals::stands_for_all;
use codes::Codebook;
use model::{
    BlockCopy, BlockFacts, BlockId, FlowId, Location, MemberState, NodeId, Reason, Stamp, StripeId,
    StripePlace, Unread,
};
use std::collections::BTreeSet;

/// An order that was noted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Intent {
    /// Its flow.
    pub flow: FlowId,
    /// Attempts are counted from 1.
    pub attempt: u32,
    /// What it makes.
    pub purpose: Purpose,
    /// What it may write, in the order in which it was asked for.
    pub copies: Vec<BlockCopy>,
    /// The change that noted these copies: their births.
    pub birth: Stamp,
}

impl Catalog {
    /// Notes an attempt of a flow that will write blocks to nodes, before anything of it is prepared. Each copy gets a new
    /// generation. What an earlier attempt of the flow left is given up.
    ///
    /// # Errors
    /// [`CatalogError::BeingRepaired`] if another flow writes a block that is to be repaired, [`CatalogError::Overtaken`] if
    /// a node has got a block of the stripe since it was chosen; [`CatalogError::SafeMode`] for an encoding while the history
    /// may be broken.
    pub fn begin(
        &self,
        flow: FlowId,
        attempt: u32,
        purpose: &Purpose,
        writes: &[(BlockId, NodeId)],
        now_ms: u64,
    ) -> Result<Intent> {
        self.change(|txn| {
            txn.give_up(flow, now_ms)?;
            check_history(txn, purpose)?;
            let mut copies = Vec::with_capacity(writes.len());
            for &(block, node) in writes {
                let row = txn.get::<BlockFacts>(&block)?;
                if let Purpose::Repair { .. } = purpose {
                    may_repair(txn, block, row.as_ref(), node)?;
                }
                // A parity is new.
                let mut generation = FIRST_GENERATION;
                if let Some(mut row) = row {
                    row.last_generation = txn.next_generation(row.last_generation)?;
                    generation = row.last_generation;
                    txn.set_block(block, &row)?;
                }
                let copy = BlockCopy { block, node, generation };
                txn.plan_copy(copy, now_ms)?;
                copies.push(copy);
            }
            let intent = Intent { flow, attempt, purpose: purpose.clone(), copies, birth: txn.stamp()? };
            txn.put(&flow, &intent.row())?;
            Ok(intent)
        })
    }

    /// Notes the next attempt, which goes on with what the last one has written.
    /// [`CatalogError::Overtaken`] if this attempt is not the current one.
    pub fn mend(&self, intent: &Intent) -> Result<Intent> {
        self.change(|txn| {
            txn.current(intent)?;
            let next = Intent { attempt: intent.attempt + 1, ..intent.clone() };
            txn.put(&next.flow, &next.row())?;
            Ok(next)
        })
    }

    /// What was staged counts from now on; what was planned and is not staged is a candidate.
    ///
    /// A repaired copy takes the place of the one that the purpose names (of all copies, in a stripe), unless the block is
    /// gone or a living node holds what was missing: then it is a candidate. What it replaced is one too: should it come
    /// back while its block needs it, it is counted on again. Sums fill in what the catalog did not know. Returns what
    /// became of each staged block. What another start of its store staged is unconfirmed, what another store did is refused.
    ///
    /// A stripe is made whole or not at all: every data block must still be an object's, with the copy that was kept, and
    /// every copy, kept or new, on a node that is `living`. Stripes that take the place of others are made all or none: what these
    /// protect must be in the new ones, and nothing that was written may be in doubt, for the old parities are candidates then.
    ///
    /// # Errors
    /// [`CatalogError::Overtaken`] if this attempt is not the current one, or if the stripe's data have changed;
    /// [`CatalogError::SafeMode`] as for [`begin`](Self::begin).
    pub fn commit(
        &self,
        intent: &Intent,
        staged: &[Staged],
        living: &BTreeSet<NodeId>,
        now_ms: u64,
    ) -> Result<Vec<(BlockId, Fate)>> {
        let unread = self.unread();
        self.change(|txn| {
            txn.current(intent)?;
            check_history(txn, &intent.purpose)?;
            let mut fates = Vec::new();
            match &intent.purpose {
                Purpose::Repair { replaces } => {
                    for staged in staged {
                        let fate = txn.commit_repaired(staged, *replaces, (living, &unread), now_ms)?;
                        fates.push((staged.copy.block, fate));
                    }
                }
                Purpose::Encode(_) | Purpose::Recode(_) => {
                    for staged in staged {
                        match fate(txn, staged.copy.node, staged.by)? {
                            Fate::Refused(why) => return Err(CatalogError::Overtaken(why)),
                            fate => fates.push((staged.copy.block, fate)),
                        }
                    }
                    txn.commit_stripes(&self.codes, &intent.purpose, (staged, &fates), living, now_ms)?;
                }
            }
            txn.give_up(intent.flow, now_ms)?;
            Ok(fates)
        })
    }

    /// Gives an order up; what it wrote are candidates. No error if another attempt has taken over.
    pub fn abort(&self, intent: &Intent, now_ms: u64) -> Result<()> {
        self.change(|txn| match txn.current(intent) {
            Err(CatalogError::Overtaken(_)) => Ok(()),
            current => current.and_then(|()| txn.give_up(intent.flow, now_ms)),
        })
    }

    /// Whoever drove the flow is no more, whichever attempt it was at: what it writes are candidates. No error if nothing of it
    /// is noted.
    pub fn give_up_flow(&self, flow: FlowId, now_ms: u64) -> Result<()> {
        self.change(|txn| txn.give_up(flow, now_ms))
    }

    /// After a restart nobody waits for the flows of before: what they write are candidates, and their jobs begin anew.
    pub fn give_up_flows(&self, now_ms: u64) -> Result<()> {
        self.change(|txn| {
            txn.all::<IntentRow>(&[])?.into_iter().try_for_each(|(flow, _)| txn.give_up(flow, now_ms))
        })
    }
}

impl Intent {
    fn row(&self) -> IntentRow {
        let Intent { attempt, purpose, copies, birth, .. } = self.clone();
        IntentRow { attempt, purpose, copies, birth }
    }
}

/// Nothing is archived while the history may be broken.
fn check_history(txn: &impl Read, purpose: &Purpose) -> Result<()> {
    match purpose {
        Purpose::Encode(_) | Purpose::Recode(_) if safe_mode(txn)?.is_some() => Err(CatalogError::SafeMode),
        _ => Ok(()),
    }
}

fn overtaken(block: BlockId, what: &str) -> CatalogError {
    CatalogError::Overtaken(format!("block {block} {what} meanwhile"))
}

/// Whether a copy of the block may be made at the node.
fn may_repair(txn: &impl Read, block: BlockId, row: Option<&BlockFacts>, node: NodeId) -> Result<()> {
    let row = row.ok_or(CatalogError::NoSuchBlock(block))?;
    if row.on(node).is_some() {
        return Err(CatalogError::Invalid(format!("{node} holds block {block} already")));
    }
    if !writers(txn, block)?.is_empty() {
        return Err(CatalogError::BeingRepaired(block));
    }
    match row.stripe {
        Some(place) if holders(txn, place.stripe)?.contains(&node) => {
            Err(CatalogError::Overtaken(format!("{node} got a block of the stripe")))
        }
        _ => Ok(()),
    }
}

impl Change<'_> {
    /// [`CatalogError::Overtaken`] if the intent's attempt is not the current one.
    fn current(&self, intent: &Intent) -> Result<()> {
        match self.get::<IntentRow>(&intent.flow)? {
            Some(row) if row.attempt == intent.attempt => Ok(()),
            _ => Err(CatalogError::Overtaken("another attempt took over".to_owned())),
        }
    }

    /// Forgets an intent; copies that are still planned become candidates.
    fn give_up(&self, flow: FlowId, now_ms: u64) -> Result<()> {
        let copies = self.get::<IntentRow>(&flow)?.map(|row| row.copies).unwrap_or_default();
        for copy in copies {
            // Of a parity that is in no row yet nobody keeps the length.
            let stored_bytes = self.get_block(copy)?.map_or(0, |row| row.stored_bytes);
            self.give_up_copy(copy, stored_bytes, now_ms)?;
        }
        self.remove::<IntentRow>(&flow).map(|_| ())
    }

    fn commit_repaired(
        &self,
        staged: &Staged,
        replaces: Option<NodeId>,
        (living, unread): (&BTreeSet<NodeId>, &Unread),
        now_ms: u64,
    ) -> Result<Fate> {
        let copy = staged.copy;
        let Some(mut row) = self.get::<BlockFacts>(&copy.block)? else {
            return Ok(Fate::Refused(format!("block {} was deleted", copy.block)));
        };
        let fate = fate(self, copy.node, staged.by)?;
        if let Fate::Refused(_) = fate {
            return Ok(fate);
        }
        let goes = |l: &Location| row.stripe.is_some() || replaces == Some(l.node);
        let (gone, stay): (Vec<Location>, Vec<Location>) = row.locations.iter().partition(|l| goes(l));
        let is_read = |l: &&Location| is_readable(l.copy_of(copy.block), living, unread);
        if let Some(back) = gone.iter().find(is_read) {
            return Ok(Fate::Refused(format!("{} is back with block {}", back.node, copy.block)));
        }
        // One that was damaged or missing when the flow began was counted on again since.
        if stay.iter().any(|l| l.node == copy.node) {
            return Ok(Fate::Refused(format!(
                "another copy of block {} on {} is sound again",
                copy.block, copy.node
            )));
        }
        row.locations = [stay, vec![copy.location()]].concat();
        row.sums.digest = row.sums.digest.or(staged.sums.digest);
        row.sums.fingerprint = row.sums.fingerprint.or(staged.sums.fingerprint);
        self.copy_arrived(copy)?;
        for location in gone {
            self.to_candidate(location.copy_of(copy.block), Reason::Surplus, row.stored_bytes, now_ms)?;
        }
        self.let_flawed_go(copy.block, &mut row, now_ms)?;
        self.set_block(copy.block, &row)?;
        Ok(fate)
    }

    fn commit_stripes(
        &self,
        codes: &Codebook,
        purpose: &Purpose,
        (staged, fates): (&[Staged], &[(BlockId, Fate)]),
        living: &BTreeSet<NodeId>,
        now_ms: u64,
    ) -> Result<()> {
        let replaces = purpose.replaces();
        if let Some((block, _)) = fates.iter().find(|(_, fate)| *fate != Fate::Good && !replaces.is_empty()) {
            return Err(CatalogError::Overtaken(format!(
                "the node that wrote block {block} was started since"
            )));
        }
        for new in purpose.stripes() {
            self.commit_stripe(codes, (new, replaces), staged, living, now_ms)?;
        }
        for &stripe in replaces {
            if !self.drop_stripe_if_dead(stripe, now_ms)? {
                return Err(CatalogError::Overtaken(format!(
                    "stripe {stripe} has a block that is in no new one"
                )));
            }
        }
        Ok(())
    }

    fn commit_stripe(
        &self,
        codes: &Codebook,
        (new, replaces): (&NewStripe, &[StripeId]),
        staged: &[Staged],
        living: &BTreeSet<NodeId>,
        now_ms: u64,
    ) -> Result<()> {
        let keep = |copy: BlockCopy, is_new: bool, place: StripePlace| {
            self.keep_alone((copy, is_new), (place, replaces), now_ms)
        };
        for (index, member) in (0..).zip(&new.members) {
            let Some(&block) = member.block() else { continue };
            let place = StripePlace { stripe: new.stripe, index, is_virtual: member.is_virtual() };
            if member.is_virtual() {
                self.keep_none(block, (place, replaces), now_ms)?;
                continue;
            }
            let staged = staged.iter().find(|staged| staged.copy.block == block);
            let kept = new.kept.iter().find(|copy| copy.block == block);
            if let Some(copy) = staged.map(|staged| &staged.copy).or(kept)
                && !living.contains(&copy.node)
            {
                return Err(CatalogError::Overtaken(format!(
                    "{} died with a member of the stripe",
                    copy.node
                )));
            }
            match (staged, kept) {
                (Some(staged), _) if index < new.data => keep(staged.copy, true, place)?,
                (Some(&Staged { copy, stored_bytes, sums, .. }), _) => {
                    let row = BlockFacts::new(stored_bytes, sums, vec![copy.location()]);
                    self.copy_arrived(copy)?;
                    self.set_block(block, &BlockFacts { stripe: Some(place), ..row })?;
                }
                (None, Some(kept)) => keep(*kept, false, place)?,
                (None, None) => {
                    return Err(CatalogError::Bug(format!("member {index} of a new stripe is nowhere")));
                }
            }
        }
        if !stands_for_all(codes, &new.row()) {
            let what = format!("stripe {} does not give the blocks that it is to stand for", new.stripe);
            return Err(CatalogError::Bug(what));
        }
        self.gathered(new.stripe)?;
        // Blocks that were to become part of another one.
        new.members.iter().filter_map(MemberState::block).try_for_each(|&block| self.leave(block))?;
        self.put(&new.stripe, &new.row())
    }

    /// A data block becomes a virtual member of a stripe, which stands for it: all of its copies are candidates.
    fn keep_none(
        &self,
        block: BlockId,
        (place, replaces): (StripePlace, &[StripeId]),
        now_ms: u64,
    ) -> Result<()> {
        let mut row = self.joining(block, replaces)?;
        let flawed = std::mem::take(&mut row.flawed).into_iter().map(|flawed| flawed.location);
        for location in std::mem::take(&mut row.locations).into_iter().chain(flawed) {
            self.to_candidate(location.copy_of(block), Reason::Archived, row.stored_bytes, now_ms)?;
        }
        row.stripe = Some(place);
        self.set_block(block, &row)
    }

    /// A data block that is to become a member of a stripe, and is in none but those that go.
    fn joining(&self, block: BlockId, replaces: &[StripeId]) -> Result<BlockFacts> {
        let row = self.get::<BlockFacts>(&block)?.ok_or_else(|| overtaken(block, "was deleted"))?;
        match row.stripe {
            _ if row.dead => Err(overtaken(block, "was deleted")),
            Some(place) if !replaces.contains(&place.stripe) => Err(overtaken(block, "has moved")),
            _ => Ok(row),
        }
    }

    /// A data block becomes a member of a stripe, and leaves the one that it was in if that is one of those that go: all of its
    /// copies but this one, which may have just been written, are candidates.
    fn keep_alone(
        &self,
        (copy, is_new): (BlockCopy, bool),
        (place, replaces): (StripePlace, &[StripeId]),
        now_ms: u64,
    ) -> Result<()> {
        let mut row = self.joining(copy.block, replaces)?;
        if !(is_new || row.locations.contains(&copy.location())) {
            return Err(overtaken(copy.block, "has moved"));
        }
        let kept = copy.location();
        for surplus in row.locations.iter().filter(|&&l| l != kept) {
            self.to_candidate(surplus.copy_of(copy.block), Reason::Archived, row.stored_bytes, now_ms)?;
        }
        self.copy_arrived(copy)?;
        row.locations = vec![kept];
        row.stripe = Some(place);
        self.let_flawed_go(copy.block, &mut row, now_ms)?;
        self.set_block(copy.block, &row)
    }
}
