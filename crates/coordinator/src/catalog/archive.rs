//! Archival: stripe row encoding(attempt) → parities staged → one transaction that makes the stripe, and the replicas
//! that it no longer needs garbage.

use super::Catalog;
use super::rows::{BlockCopy, BlockRow, Location, MemberRow, StripePlace, StripeRow, StripeState, Sums};
use super::table::{Change, Read};
use crate::error::{CoordinatorError, Result};
use model::{BlockId, FlowId, StripeId};

/// Generation of a parity that an encoding makes: its id is new.
pub(crate) const PARITY_GENERATION: u64 = 1;

/// A stripe to encode, as it is planned.
#[derive(Clone, Debug)]
pub(crate) struct NewStripe {
    pub stripe: StripeId,
    pub code: String,
    pub block_bytes: u64,
    /// n members; parities are new ids.
    pub members: Vec<Option<BlockId>>,
    /// Members that are written, with the nodes that write them: parities, and data blocks that move.
    pub writes: Vec<(BlockId, u32)>,
    pub flow: FlowId,
    pub attempt: u32,
}

/// A parity that is durable.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StagedParity {
    pub block: BlockId,
    pub node: u32,
    pub stored_bytes: u64,
    pub sums: Sums,
}

impl Catalog {
    /// Notes an attempt to encode a stripe, before anything of it is prepared. Returns the copies that it will write,
    /// in the order of `writes`. An earlier attempt's copies become garbage.
    pub fn begin_encoding(&self, new: &NewStripe, now_ms: u64) -> Result<Vec<BlockCopy>> {
        self.change(|txn| {
            txn.give_up_encoding(new.stripe, now_ms)?;
            let mut copies = Vec::new();
            for &(block, node) in &new.writes {
                let generation = match txn.get::<BlockRow>(&block)? {
                    Some(mut row) => {
                        row.last_generation += 1;
                        txn.set_block(block, &row)?;
                        row.last_generation
                    }
                    None => PARITY_GENERATION,
                };
                let copy = BlockCopy { block, node, generation };
                txn.plan_copy(copy, now_ms)?;
                copies.push(copy);
            }
            let state =
                StripeState::Encoding { flow: new.flow, attempt: new.attempt, copies: copies.clone() };
            txn.put(&new.stripe, &new.row(state))?;
            Ok(copies)
        })
    }

    /// Makes the stripe, on condition that the attempt is the current one and every data block is still an object's,
    /// with the copy that was kept. `kept` lists the data blocks in the order of the members.
    pub fn commit_encoding(
        &self,
        new: &NewStripe,
        kept: &[(BlockId, Location)],
        parities: &[StagedParity],
        now_ms: u64,
    ) -> Result<()> {
        self.change(|txn| {
            let copies = current(txn, new)?;
            let place = |block: BlockId| {
                let index = new.members.iter().position(|member| *member == Some(block));
                let index = index.and_then(|i| u16::try_from(i).ok());
                let missing = || CoordinatorError::Bug(format!("block {block} is no member of its stripe"));
                index.map(|index| StripePlace { stripe: new.stripe, index }).ok_or_else(missing)
            };
            for &(block, location) in kept {
                let Some(mut row) = txn.get::<BlockRow>(&block)? else {
                    return Err(CoordinatorError::Overtaken(format!("block {block} was deleted meanwhile")));
                };
                let copy = location.copy_of(block);
                if row.stripe.is_some() || !(row.locations.contains(&location) || copies.contains(&copy)) {
                    return Err(CoordinatorError::Overtaken(format!("block {block} has moved meanwhile")));
                }
                for &surplus in row.locations.iter().filter(|&&l| l != location) {
                    txn.to_garbage(surplus.copy_of(block), now_ms)?;
                }
                txn.copy_arrived(copy)?;
                row.locations = vec![location];
                row.stripe = Some(place(block)?);
                txn.set_block(block, &row)?;
            }
            for parity in parities {
                let location = Location { node: parity.node, generation: PARITY_GENERATION };
                let row = BlockRow::new(parity.stored_bytes, parity.sums, vec![location]);
                let row = BlockRow { stripe: Some(place(parity.block)?), ..row };
                txn.copy_arrived(location.copy_of(parity.block))?;
                txn.set_block(parity.block, &row)?;
            }
            txn.put(&new.stripe, &new.row(StripeState::Encoded))
        })
    }

    /// Gives an encoding up; what it wrote is garbage.
    pub fn abort_encoding(&self, stripe: StripeId, now_ms: u64) -> Result<()> {
        self.change(|txn| {
            if txn.give_up_encoding(stripe, now_ms)? {
                txn.remove::<StripeRow>(&stripe)?;
            }
            Ok(())
        })
    }
}

impl Change {
    /// Turns the copies of an encoding into garbage. Whether there was one.
    pub(super) fn give_up_encoding(&self, stripe: StripeId, now_ms: u64) -> Result<bool> {
        match self.get::<StripeRow>(&stripe)? {
            Some(StripeRow { state: StripeState::Encoding { copies, .. }, .. }) => {
                copies.into_iter().try_for_each(|copy| self.to_garbage(copy, now_ms))?;
                Ok(true)
            }
            Some(StripeRow { state: StripeState::Encoded, .. }) => {
                Err(CoordinatorError::Overtaken(format!("stripe {stripe} is encoded already")))
            }
            None => Ok(false),
        }
    }
}

/// The copies of the current attempt, if that is this one.
fn current(txn: &Change, new: &NewStripe) -> Result<Vec<BlockCopy>> {
    match txn.get::<StripeRow>(&new.stripe)?.map(|row| row.state) {
        Some(StripeState::Encoding { flow, attempt, copies })
            if (flow, attempt) == (new.flow, new.attempt) =>
        {
            Ok(copies)
        }
        _ => Err(CoordinatorError::Overtaken(format!("another attempt to encode stripe {}", new.stripe))),
    }
}

impl NewStripe {
    fn row(&self, state: StripeState) -> StripeRow {
        let members = self.members.iter().map(|member| member.map(|block| MemberRow { block })).collect();
        StripeRow { code: self.code.clone(), block_bytes: self.block_bytes, members, state }
    }
}
