//! Virtual members: data blocks of codes that store no data as they are. A stripe's stored members stand for them, as far as
//! the code gives the ones from the others; their replicas of before are candidates, which come back if it does not.

use crate::Catalog;
use crate::blocks::{is_readable, perhaps_unreadable, referenced, stripe};
use crate::error::Result;
use crate::rows::StripeRow;
use crate::table::Read;
use codes::Codebook;
use model::note::{NotedMember, StripeNote};
use model::{BlockFacts, BlockId, Location, MemberState, NodeId, StripePlace, Unread};
use std::collections::BTreeSet;

impl Catalog {
    /// Whether a block needs a copy that it has not: it has fewer living ones than it is to have; or it is virtual, has none, and
    /// its stripe does not give it.
    pub fn is_in_need(&self, block: BlockId, living: &BTreeSet<NodeId>) -> Result<bool> {
        self.view(|txn| is_in_need(txn, &self.codes, &referenced(txn, block)?, living))
    }
}

/// See [`Catalog::is_in_need`].
pub(crate) fn is_in_need(
    txn: &impl Read,
    codes: &Codebook,
    facts: &BlockFacts,
    living: &BTreeSet<NodeId>,
) -> Result<bool> {
    let Some(place) = facts.stripe.filter(|place| place.is_virtual) else {
        return Ok(facts.is_in_need(living));
    };
    if facts.lives(living) {
        return Ok(false);
    }
    let row = stripe(txn, place.stripe)?;
    let lives = |state: &MemberState<BlockId>| match state.block() {
        Some(&block) => Ok(perhaps_unreadable(txn, block, row.block_bytes)?.lives(living)),
        None => Ok(true),
    };
    let usable = row.members.iter().map(lives).collect::<Result<Vec<bool>>>()?;
    // Nearly always all are there, which the stripe was checked for when it was made.
    let are_all_there = row.members.iter().zip(&usable).all(|(state, usable)| state.is_virtual() || *usable);
    Ok(!are_all_there && !gives(codes, &row, &usable, place.index))
}

/// Whether the copies of a stripe that live and can be read give its member at this place, which may be one of them.
pub(crate) fn is_given(
    txn: &impl Read,
    codes: &Codebook,
    place: StripePlace,
    (living, unread): (&BTreeSet<NodeId>, &Unread),
) -> Result<bool> {
    let row = stripe(txn, place.stripe)?;
    let is_had = |state: &MemberState<BlockId>| {
        let Some(&block) = state.block() else { return Ok(true) };
        let facts = perhaps_unreadable(txn, block, row.block_bytes)?;
        let is_read = |l: &Location| is_readable(l.copy_of(block), living, unread);
        Ok(facts.stored_bytes == 0 && !state.is_virtual() || facts.locations.iter().any(is_read))
    };
    let usable = row.members.iter().map(is_had).collect::<Result<Vec<bool>>>()?;
    Ok(gives(codes, &row, &usable, place.index))
}

/// Whether the stored members of a stripe, all of them, give the virtual ones by its code.
pub(crate) fn stands_for_all(codes: &Codebook, row: &StripeRow) -> bool {
    if !row.members.iter().any(MemberState::is_virtual) {
        return true;
    }
    let usable: Vec<bool> = row.members.iter().map(|state| !state.is_virtual()).collect();
    let had = codes.recoverable(&row.code, &usable);
    had.len() == row.members.len() && had.into_iter().all(|had| had)
}

/// Whether nothing is lost without a stripe that was found: it does not give all of its virtual blocks (its making was given up, or
/// too much of it is gone), and of each that it does give a replica is there.
pub(crate) fn replicas_suffice(
    stripe: &StripeNote,
    had: &[bool],
    is_there: impl Fn(BlockId) -> bool,
) -> bool {
    let virtuals = || stripe.members.iter().zip(had).filter(|(member, _)| member.is_virtual());
    let is_there =
        |member: &MemberState<NotedMember>| member.block().is_some_and(|noted| is_there(noted.block));
    virtuals().any(|(_, had)| !had) && virtuals().all(|(member, had)| !had || is_there(member))
}

fn gives(codes: &Codebook, row: &StripeRow, usable: &[bool], index: u16) -> bool {
    codes.recoverable(&row.code, usable).get(usize::from(index)).copied().unwrap_or(false)
}
