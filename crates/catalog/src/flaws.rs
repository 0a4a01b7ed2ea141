//! Flaws: copies that a block still has noted, and that are not counted on. Nothing is deleted for a flaw; when another copy
//! has taken the place of a flawed one, that one is a candidate.

use crate::Catalog;
use crate::blocks::holders;
use crate::error::Result;
use crate::rows::CandidateRow;
use crate::table::{Change, Read};
use crate::virtuals::{is_given, is_in_need};
use model::{BlockCopy, BlockFacts, Flaw, Flawed, Location, NodeId, Reason};
use std::collections::BTreeSet;

impl Catalog {
    /// Notes what is wrong with copies that were counted on. Returns those that were. One that its block does not need is a candidate.
    pub fn note_flaws(&self, copies: &[BlockCopy], flaw: Flaw, now_ms: u64) -> Result<Vec<BlockCopy>> {
        self.change(|txn| {
            let mut noted = Vec::new();
            for &copy in copies {
                let Some(mut row) = txn.get_block(copy)? else { continue };
                let location = copy.location();
                if !row.locations.contains(&location) {
                    continue;
                }
                row.locations.retain(|l| *l != location);
                row.flawed.push(Flawed { location, flaw });
                // The block may have enough other copies, if this one was made while another could not be read.
                txn.let_flawed_go(copy.block, &mut row, now_ms)?;
                txn.set_block(copy.block, &row)?;
                noted.push(copy);
            }
            Ok(noted)
        })
    }

    /// Those of the copies that are counted on; and those that are known and are not, for they are flawed or candidates. Of the
    /// others nothing is known: they may be committed yet.
    pub fn counted_and_known(&self, copies: &[BlockCopy]) -> Result<(Vec<BlockCopy>, Vec<BlockCopy>)> {
        self.view(|txn| {
            let (mut counted, mut known) = (Vec::new(), Vec::new());
            for &copy in copies {
                let (row, location) = (txn.get::<BlockFacts>(&copy.block)?, copy.location());
                if row.as_ref().is_some_and(|row| row.locations.contains(&location)) {
                    counted.push(copy);
                } else if row.is_some_and(|row| row.flaw_of(location).is_some())
                    || txn.get::<CandidateRow>(&copy)?.is_some()
                {
                    known.push(copy);
                }
            }
            Ok((counted, known))
        })
    }

    /// A copy that its node has just read, and found whole, is counted on again if its block still needs it. In a
    /// stripe it takes the place of those on dead nodes; a node with another member of the stripe keeps it only if the stripe does not give the
    /// block without it. `digest` is what its sidecar says; `is_fenced`: its node obeys no
    /// earlier order to delete it. Whether it did.
    pub fn take_back(
        &self,
        copy: &BlockCopy,
        digest: &[u8],
        is_fenced: bool,
        living: &BTreeSet<NodeId>,
        now_ms: u64,
    ) -> Result<bool> {
        let unread = self.unread();
        self.change(|txn| {
            let Some(mut row) = txn.get_block(*copy)? else { return Ok(false) };
            let candidate = txn.get::<CandidateRow>(copy)?;
            // What was ordered may be gone at any moment.
            let is_known = match &candidate {
                Some(candidate) => is_fenced || !candidate.is_ordered,
                None => row.flaw_of(copy.location()).is_some(),
            };
            let is_the_block = row.sums.digest.is_none_or(|known| known == digest);
            let has_place = row.on(copy.node).is_none()
                && match row.stripe {
                    Some(place) if !place.is_virtual => {
                        let present = (living, &*unread);
                        !holders(txn, place.stripe)?.contains(&copy.node)
                            || !is_given(txn, &self.codes, place, present)?
                    }
                    _ => true,
                };
            if !(is_known && is_the_block && has_place && is_in_need(txn, &self.codes, &row, living)?) {
                return Ok(false);
            }
            txn.remove::<CandidateRow>(copy)?;
            row.flawed.retain(|flawed| flawed.location != copy.location());
            if row.stripe.is_some_and(|place| !place.is_virtual) {
                for old in std::mem::take(&mut row.locations) {
                    txn.to_candidate(old.copy_of(copy.block), Reason::Surplus, row.stored_bytes, now_ms)?;
                }
            }
            row.locations.push(copy.location());
            row.last_generation = row.last_generation.max(copy.generation);
            txn.let_flawed_go(copy.block, &mut row, now_ms)?;
            txn.set_block(copy.block, &row)?;
            Ok(true)
        })
    }

    /// The copy on `node`, which is dead, is not counted on any more if enough others live without it.
    pub fn drop_surplus(&self, copy: &BlockCopy, living: &BTreeSet<NodeId>, now_ms: u64) -> Result<bool> {
        self.change(|txn| {
            let Some(mut row) = txn.get_block(*copy)? else { return Ok(false) };
            let location: Location = copy.location();
            let others: BTreeSet<NodeId> = living.iter().copied().filter(|node| *node != copy.node).collect();
            if !row.locations.contains(&location) || living.contains(&copy.node) || row.is_in_need(&others) {
                return Ok(false);
            }
            row.locations.retain(|l| *l != location);
            txn.set_block(copy.block, &row)?;
            txn.to_candidate(*copy, Reason::Surplus, row.stored_bytes, now_ms)?;
            Ok(true)
        })
    }
}

impl Change<'_> {
    /// Once a block has as many copies as it is to have, its flawed ones are candidates.
    pub(crate) fn let_flawed_go(
        &self,
        block: model::BlockId,
        row: &mut BlockFacts,
        now_ms: u64,
    ) -> Result<()> {
        if row.needs_flawed() {
            return Ok(());
        }
        for flawed in std::mem::take(&mut row.flawed) {
            let copy = flawed.location.copy_of(block);
            self.to_candidate(copy, Reason::Surplus, row.stored_bytes, now_ms)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Memory;
    use crate::rows::StripeRow;
    use model::{BlockId, ClusterId, MemberState, StripeId, StripePlace, Sums};

    /// Member i of an rs-2+1 stripe is on node i + 1. Another member's damaged copy, sound after all, lies on node 2, which has member 1.
    #[test]
    fn a_sound_copy_beside_another_member_counts_where_the_stripe_does_not_give_its_block() {
        const STRIPE: StripeId = StripeId(1);
        let catalog = Catalog::over(Box::new(Memory::default()), ClusterId(1)).unwrap();
        catalog.begin_term(77, 0).unwrap();
        let at = |node| Location { node: NodeId(node), generation: 1 };
        let put_stripe = |txn: &Change<'_>| {
            for index in 0..3 {
                let stripe = Some(StripePlace { stripe: STRIPE, index, is_virtual: false });
                let mut row = BlockFacts::new(10, Sums::default(), vec![at(u32::from(index) + 1)]);
                if index == 0 {
                    row.locations.clear();
                    row.flawed.push(Flawed { location: at(2), flaw: Flaw::Damaged });
                }
                txn.set_block(BlockId(u128::from(index)), &BlockFacts { stripe, replicas: 1, ..row })?;
            }
            let members = (0..3).map(|index| MemberState::Stored(BlockId(index))).collect();
            txn.put(&STRIPE, &StripeRow { code: "rs-2+1".to_owned(), block_bytes: 10, members })
        };
        catalog.change(put_stripe).unwrap();
        let copy = BlockCopy { block: BlockId(0), node: NodeId(2), generation: 1 };
        let take_back = |living: &[u32]| {
            let living = living.iter().copied().map(NodeId).collect();
            catalog.take_back(&copy, &[], false, &living, 0).unwrap()
        };
        let survives = || {
            let survey = catalog.survey(&[1, 2, 3].map(NodeId).into()).unwrap();
            (survey.health.stripes.into_iter().collect::<Vec<_>>(), survey.health.broken_stripes)
        };
        assert_eq!(survives(), (vec![(0, 1)], 0));
        assert!(!take_back(&[1, 2, 3]), "the stripe gives it");
        assert!(take_back(&[1, 2]), "node 3 is dead");
        // All members are there, and the loss of node 2 is the loss of two.
        assert_eq!(survives(), (vec![(0, 1)], 0));
    }
}
