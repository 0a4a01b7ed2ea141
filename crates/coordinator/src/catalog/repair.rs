//! Repair: row(attempt, target) → staged, digest equal → one transaction, on condition that the attempt is current and
//! the block still referenced and missing.

use super::Catalog;
use super::rows::{BlockRow, Location, RepairRow, StripeRow, StripeState, Sums};
use super::table::{Change, Read};
use crate::error::{CoordinatorError, Result};
use model::{BlockId, FlowId, StripeId};
use std::collections::BTreeSet;

/// A repair that was noted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RepairTicket {
    pub block: BlockId,
    pub flow: FlowId,
    pub attempt: u32,
    /// The new copy.
    pub target: Location,
}

impl Catalog {
    /// Notes an attempt to rebuild or copy a block to `node`, before anything of it is prepared. The copy gets a new
    /// generation.
    ///
    /// # Errors
    /// [`CoordinatorError::Conflict`] if the block is being repaired, [`CoordinatorError::Overtaken`] if the node has got
    /// a block of the stripe since it was chosen.
    pub fn begin_repair(
        &self,
        block: BlockId,
        flow: FlowId,
        attempt: u32,
        node: u32,
        now_ms: u64,
    ) -> Result<RepairTicket> {
        self.change(|txn| {
            let mut row = txn.get::<BlockRow>(&block)?.ok_or(CoordinatorError::NoSuchBlock(block))?;
            if row.on(node).is_some() {
                return Err(CoordinatorError::Invalid(format!("node-{node} holds block {block} already")));
            }
            if txn.get::<RepairRow>(&block)?.is_some() {
                return Err(CoordinatorError::Conflict(format!("block {block} is being repaired already")));
            }
            if let Some(place) = row.stripe
                && holders(txn, place.stripe)?.contains(&node)
            {
                return Err(CoordinatorError::Overtaken(format!("node-{node} got a block of the stripe")));
            }
            row.last_generation += 1;
            let target = Location { node, generation: row.last_generation };
            txn.set_block(block, &row)?;
            txn.plan_copy(target.copy_of(block), now_ms)?;
            txn.put(&block, &RepairRow { flow, attempt, target })?;
            Ok(RepairTicket { block, flow, attempt, target })
        })
    }

    /// Notes the next attempt of a repair, which goes on with what the last one has written.
    /// [`CoordinatorError::Overtaken`] if this attempt is not the current one.
    pub fn mend_repair(&self, ticket: &RepairTicket) -> Result<RepairTicket> {
        self.change(|txn| {
            if !txn.ends_repair(ticket)? {
                return Err(CoordinatorError::Overtaken("another attempt took over".to_owned()));
            }
            let next = RepairTicket { attempt: ticket.attempt + 1, ..*ticket };
            let row = RepairRow { flow: next.flow, attempt: next.attempt, target: next.target };
            txn.put(&next.block, &row)?;
            Ok(next)
        })
    }

    /// The new copy takes the place of the one on `replaces` (of all copies, in a stripe). A copy that comes back later is
    /// garbage. `sums` fill in what the catalog did not know.
    /// [`CoordinatorError::Overtaken`], and the new copy is garbage, if the block is gone or a living node holds what
    /// was missing.
    pub fn commit_repair(
        &self,
        ticket: &RepairTicket,
        sums: &Sums,
        replaces: Option<u32>,
        living: &BTreeSet<u32>,
        now_ms: u64,
    ) -> Result<()> {
        self.change(|txn| {
            if !txn.ends_repair(ticket)? {
                return Ok(Err(CoordinatorError::Overtaken("another attempt took over".to_owned())));
            }
            let gone = || CoordinatorError::Overtaken(format!("block {} was deleted", ticket.block));
            let row = txn.get::<BlockRow>(&ticket.block)?;
            let fate = row.ok_or_else(gone).and_then(|row| replaced(row, ticket, replaces, living));
            match fate {
                Ok((mut row, replaced)) => {
                    row.sums.digest = row.sums.digest.or(sums.digest);
                    row.sums.fingerprint = row.sums.fingerprint.or(sums.fingerprint);
                    txn.copy_arrived(ticket.target.copy_of(ticket.block))?;
                    txn.set_block(ticket.block, &row)?;
                    replaced.into_iter().try_for_each(|l| txn.to_garbage(l.copy_of(ticket.block), now_ms))?;
                    Ok(Ok(()))
                }
                Err(error) => {
                    txn.to_garbage(ticket.target.copy_of(ticket.block), now_ms)?;
                    Ok(Err(error))
                }
            }
        })?
    }

    /// Gives a repair up; the copy, if it comes, is garbage.
    pub fn abort_repair(&self, ticket: &RepairTicket, now_ms: u64) -> Result<()> {
        self.change(|txn| {
            if txn.ends_repair(ticket)? {
                txn.to_garbage(ticket.target.copy_of(ticket.block), now_ms)?;
            }
            Ok(())
        })
    }

    /// After a restart nobody waits for the flows of before: what they write is garbage, and their jobs begin anew.
    pub fn give_up_flows(&self, now_ms: u64) -> Result<()> {
        self.change(|txn| {
            for (block, repair) in txn.all::<RepairRow>(&[])? {
                txn.to_garbage(repair.target.copy_of(block), now_ms)?;
                txn.remove::<RepairRow>(&block)?;
            }
            let encoding = |(_, row): &(StripeId, StripeRow)| row.state != StripeState::Encoded;
            for (stripe, _) in txn.all::<StripeRow>(&[])?.into_iter().filter(encoding) {
                txn.give_up_encoding(stripe, now_ms)?;
                txn.remove::<StripeRow>(&stripe)?;
            }
            Ok(())
        })
    }
}

/// Nodes that hold a block of the stripe, or that a repair is writing one to.
pub(super) fn holders(txn: &impl Read, stripe: StripeId) -> Result<BTreeSet<u32>> {
    let mut holders = BTreeSet::new();
    let members = txn.get::<StripeRow>(&stripe)?.map(|row| row.members).unwrap_or_default();
    for member in members.iter().flatten() {
        if let Some(row) = txn.get::<BlockRow>(&member.block)? {
            holders.extend(row.locations.iter().map(|l| l.node));
        }
        holders.extend(txn.get::<RepairRow>(&member.block)?.map(|repair| repair.target.node));
    }
    Ok(holders)
}

/// The block's row with the new copy, and the copies that it replaces.
fn replaced(
    mut row: BlockRow,
    ticket: &RepairTicket,
    replaces: Option<u32>,
    living: &BTreeSet<u32>,
) -> Result<(BlockRow, Vec<Location>)> {
    let goes = |l: &Location| row.stripe.is_some() || replaces == Some(l.node);
    let (gone, stay): (Vec<Location>, Vec<Location>) = row.locations.iter().partition(|l| goes(l));
    if let Some(back) = gone.iter().find(|l| living.contains(&l.node)) {
        let text = format!("node-{} is back with block {}", back.node, ticket.block);
        return Err(CoordinatorError::Overtaken(text));
    }
    row.locations = [stay, vec![ticket.target]].concat();
    Ok((row, gone))
}

impl Change {
    /// Removes the repair's row if it is this attempt's.
    fn ends_repair(&self, ticket: &RepairTicket) -> Result<bool> {
        match self.get::<RepairRow>(&ticket.block)? {
            Some(row) if (row.flow, row.attempt) == (ticket.flow, ticket.attempt) => {
                self.remove::<RepairRow>(&ticket.block)
            }
            _ => Ok(false),
        }
    }
}
