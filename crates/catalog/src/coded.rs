//! Puts whose blocks are coded as they are written: each data block goes to one node, the parities of each k follow, and the
//! commit makes object and stripes at once. Replicas are never written.
//!
//! ```text
//!   begin ──▶ a row for each data block, replaced when it is planned anew ──▶ rows for all parities of a stripe, likewise ──▶ commit
//! ```
//!
//! Until then all of it are planned copies of a put, which are given up with it like any others. The rows of a put's parities are
//! those of blocks, whose index tells stripe and member.

use crate::Catalog;
use crate::error::{CatalogError, Result};
use crate::put_block::{CommittedBlock, FIRST_GENERATION, PlannedBlock, PutPlace, check_block};
use crate::rows::{GatherTerms, PutBlockKey, PutBlockRow, PutRow, StripeRow};
use crate::table::{Change, Key, Read};
use codes::Code;
use model::MAX_OBJECT_BLOCKS;
use model::{
    BlockCopy, BlockFacts, BlockId, Location, MemberState, NodeId, PutId, Stamp, StripeId, StripePlace, Sums,
};
use std::collections::{BTreeMap, BTreeSet};

/// What the policy of such puts is called: their blocks wait in no stripe.
pub const ON_WRITE: &str = "on-write";

impl GatherTerms {
    /// Whether blocks are coded as they are written, and wait in no stripe.
    pub fn is_on_write(&self) -> bool {
        self.policy == ON_WRITE
    }
}

/// A block of a put that is coded as it is written, as it was planned last.
#[derive(Clone, Debug)]
pub struct CodedBlock {
    /// Its id.
    pub block: BlockId,
    /// Which member of its stripe.
    pub member: u16,
    /// Its length.
    pub stored_bytes: u64,
    /// What its client computed.
    pub sums: Sums,
    /// Whether the object ends with it.
    pub last: bool,
    /// Who writes it.
    pub nodes: Vec<NodeId>,
}

/// The id of a stripe of a put, the same however often its parities are planned.
pub fn stripe_of_put(put: PutId, stripe: u64) -> StripeId {
    StripeId(put.0.wrapping_add(u128::from(stripe) + 1))
}

impl Catalog {
    /// The data blocks of a stripe of a put, of a code with k of them, as far as they are planned, in their order.
    pub fn coded_data(&self, put: PutId, k: usize, stripe: u64) -> Result<Vec<CodedBlock>> {
        let coded = |(key, row): (PutBlockKey, PutBlockRow)| {
            let place = PutPlace::of(row.index);
            let (of, member) = place.in_stripe(k as u64);
            let PutBlockRow { stored_bytes, sums, last, nodes, .. } = row;
            let block = CodedBlock { block: key.block, member, stored_bytes, sums, last, nodes };
            (of == stripe && !place.is_parity()).then_some(block)
        };
        let rows = self.view(|txn| txn.all::<PutBlockRow>(&Key::to_bytes(&put)))?;
        let mut data: Vec<CodedBlock> = rows.into_iter().filter_map(coded).collect();
        data.sort_by_key(|block| block.member);
        Ok(data)
    }

    /// Which members of which stripes of a put these blocks are, data or parities.
    pub fn coded_members(
        &self,
        put: PutId,
        k: usize,
        blocks: &BTreeSet<BlockId>,
    ) -> Result<BTreeMap<u64, Vec<usize>>> {
        let mut members: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for (key, row) in self.view(|txn| txn.all::<PutBlockRow>(&Key::to_bytes(&put)))? {
            if blocks.contains(&key.block) {
                let (stripe, member) = PutPlace::of(row.index).in_stripe(k as u64);
                members.entry(stripe).or_default().push(member.into());
            }
        }
        Ok(members)
    }

    /// Notes one data block, or all parities of a stripe, and extends the put's lease. What was planned before for the same
    /// places is given up, and with a data block the parities of its stripe, which were made of another one. Returns the change that
    /// noted them: the copies' birth.
    ///
    /// # Errors
    /// [`CatalogError::Overtaken`] if the other data blocks of the stripe are not those that were `seen` when nodes were
    /// chosen.
    pub fn plan_coded(
        &self,
        put: PutId,
        k: usize,
        planned: &[PlannedBlock],
        seen: &BTreeSet<BlockId>,
        (now_ms, lease_until_ms): (u64, u64),
    ) -> Result<Stamp> {
        self.change(|txn| {
            let pending = txn.get::<PutRow>(&put)?.ok_or(CatalogError::NoSuchPut)?;
            let Some(first) = planned.first() else { return txn.stamp() };
            let (stripe, member) = PutPlace::of(first.index).in_stripe(k as u64);
            for block in planned {
                match PutPlace::of(block.index) {
                    PutPlace::Data(_) => check_block(&pending, block)?,
                    place => check_parity(place, stripe, k)?,
                }
            }
            let rows = txn.all::<PutBlockRow>(&Key::to_bytes(&put))?;
            let of_stripe = |row: &PutBlockRow| PutPlace::of(row.index).in_stripe(k as u64);
            let (replaced, others): (Vec<_>, Vec<_>) = rows
                .into_iter()
                .filter(|(_, row)| of_stripe(row).0 == stripe)
                .partition(|(_, row)| PutPlace::of(row.index).is_parity() || of_stripe(row).1 == member);
            if others.iter().map(|(key, _)| key.block).collect::<BTreeSet<_>>() != *seen {
                return Err(CatalogError::Overtaken("another block of the stripe was placed".to_owned()));
            }
            check_nodes(planned, &others)?;
            give_up(txn, &replaced, now_ms)?;
            txn.put(&put, &PutRow { lease_until_ms, ..pending })?;
            planned.iter().try_for_each(|block| txn.plan_put_block(put, block, now_ms))?;
            txn.stamp()
        })
    }
}

fn check_parity(place: PutPlace, of: u64, k: usize) -> Result<()> {
    let (stripe, member) = place.in_stripe(k as u64);
    let is_one = stripe == of && usize::from(member) >= k && stripe * (k as u64) < MAX_OBJECT_BLOCKS;
    let bad = || CatalogError::Invalid(format!("member {member} of stripe {stripe} is no parity of a put"));
    is_one.then_some(()).ok_or_else(bad)
}

/// No two blocks of a stripe are on one node, each is on one.
fn check_nodes(planned: &[PlannedBlock], others: &[(PutBlockKey, PutBlockRow)]) -> Result<()> {
    let all = planned.iter().map(|block| &block.nodes).chain(others.iter().map(|(_, row)| &row.nodes));
    let mut nodes = BTreeSet::new();
    for of_block in all {
        match of_block[..] {
            [node] if nodes.insert(node) => {}
            _ => {
                return Err(CatalogError::Bug(format!("blocks of a stripe were planned on {of_block:?}")));
            }
        }
    }
    Ok(())
}

fn give_up(txn: &Change, rows: &[(PutBlockKey, PutBlockRow)], now_ms: u64) -> Result<()> {
    for (key, row) in rows {
        for &node in &row.nodes {
            let copy = BlockCopy { block: key.block, node, generation: FIRST_GENERATION };
            txn.give_up_copy(copy, row.stored_bytes, now_ms)?;
        }
        txn.remove::<PutBlockRow>(key)?;
    }
    Ok(())
}

/// The stripes of a put that is being committed.
pub(crate) struct Coding {
    put: PutId,
    code: Code,
}

impl Coding {
    /// `None`: its blocks are not coded as they are written.
    pub fn of(put: PutId, pending: &PutRow) -> Result<Option<Coding>> {
        let Some(terms) = pending.gathers.as_ref().filter(|terms| terms.is_on_write()) else {
            return Ok(None);
        };
        let code = Code::parse(&terms.code);
        let code = code.map_err(|error| CatalogError::Invalid(format!("the put's code: {error}")))?;
        if code.virtuals() > 0 {
            return Err(CatalogError::Invalid(format!("{code} stores no data as they are written")));
        }
        Ok(Some(Coding { put, code }))
    }

    /// Where a data block of the object belongs; one without bytes is in no stripe.
    pub fn place(&self, index: usize, stored_bytes: u64) -> Option<StripePlace> {
        let (stripe, index) = PutPlace::Data(index as u64).in_stripe(self.code.k() as u64);
        let place = StripePlace { stripe: stripe_of_put(self.put, stripe), index, is_virtual: false };
        (stored_bytes > 0).then_some(place)
    }

    /// Whether each stripe of these data blocks has parities among the rows.
    pub fn has_parities<'a>(
        &self,
        data: &[CommittedBlock],
        rows: impl Iterator<Item = &'a PutBlockRow>,
    ) -> bool {
        let stripes = data.iter().filter(|block| block.stored_bytes > 0).count().div_ceil(self.code.k());
        let k = self.code.k() as u64;
        let have: BTreeSet<u64> = rows.map(|row| PutPlace::of(row.index).in_stripe(k).0).collect();
        have.into_iter().eq(0..stripes as u64)
    }

    /// Makes the stripes of these data blocks, whose rows are written: every parity that was planned must be durable, and each
    /// stripe must have one.
    pub fn commit(
        &self,
        txn: &Change,
        planned: &[(PutBlockKey, PutBlockRow)],
        data: &[CommittedBlock],
        parities: &[CommittedBlock],
    ) -> Result<()> {
        let (k, n) = (self.code.k(), self.code.n());
        let parities: BTreeMap<BlockId, &CommittedBlock> = parities.iter().map(|p| (p.block, p)).collect();
        let mut made: BTreeMap<u64, BTreeMap<u16, &CommittedBlock>> = BTreeMap::new();
        for (key, row) in planned {
            let PutPlace::Parity { stripe, member } = PutPlace::of(row.index) else { continue };
            let wrong = |what| wrong(stripe, &format!("parity {} {what}", key.block));
            let there = parities.get(&key.block).copied().filter(|parity| parity.nodes == row.nodes);
            let there = there.ok_or_else(|| wrong("is not durable where it was planned"))?;
            if (there.stored_bytes, &there.sums) != (row.stored_bytes, &row.sums) {
                return Err(wrong("differs from what was planned"));
            }
            made.entry(stripe).or_default().insert(member, there);
        }
        let stored: Vec<&CommittedBlock> = data.iter().filter(|block| block.stored_bytes > 0).collect();
        for (number, data) in (0..).zip(stored.chunks(k)) {
            let parities = made.remove(&number).unwrap_or_default();
            if parities.is_empty() {
                return Err(wrong(number, "it has no parities"));
            }
            let stripe = stripe_of_put(self.put, number);
            let mut members = vec![MemberState::Zero; n];
            for (member, block) in (0..).zip(data) {
                members[member] = MemberState::Stored(block.block);
            }
            for (&index, parity) in &parities {
                let member = members.get_mut(usize::from(index));
                *member.ok_or_else(|| wrong(number, "it has too many members"))? =
                    MemberState::Stored(parity.block);
                let location = |&node: &NodeId| Location { node, generation: FIRST_GENERATION };
                let locations: Vec<Location> = parity.nodes.iter().map(location).collect();
                locations.iter().try_for_each(|l| txn.copy_arrived(l.copy_of(parity.block)))?;
                let row = BlockFacts::new(parity.stored_bytes, parity.sums, locations);
                let stripe = Some(StripePlace { stripe, index, is_virtual: false });
                txn.set_block(parity.block, &BlockFacts { stripe, ..row })?;
            }
            let block_bytes = data.iter().map(|block| block.stored_bytes).max().unwrap_or(0);
            let code = self.code.name().to_owned();
            txn.put(&stripe, &StripeRow { code, block_bytes, members })?;
        }
        match made.keys().next() {
            Some(&stripe) => Err(wrong(stripe, "it has parities and no data")),
            None => Ok(()),
        }
    }
}

/// Whether a planned block is a parity.
pub(crate) fn is_parity(row: &PutBlockRow) -> bool {
    PutPlace::of(row.index).is_parity()
}

fn wrong(stripe: u64, what: &str) -> CatalogError {
    CatalogError::Invalid(format!("stripe {stripe} of the put: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_one_number() {
        let parity = |stripe, member| PutPlace::Parity { stripe, member };
        for place in [PutPlace::Data(0), PutPlace::Data(65_535), parity(0, 0), parity(65_535, u16::MAX)] {
            assert_eq!(PutPlace::of(place.index()), place);
        }
        assert_eq!(PutPlace::Data(17).index(), 17);
        assert_eq!((PutPlace::Data(17).in_stripe(4), parity(3, 5).in_stripe(4)), ((4, 1), (3, 5)));
    }

    #[test]
    fn stripes_of_a_put_differ() {
        let put = PutId(u128::MAX);
        assert_eq!((stripe_of_put(put, 0), stripe_of_put(put, 7)), (StripeId(0), StripeId(7)));
    }
}
