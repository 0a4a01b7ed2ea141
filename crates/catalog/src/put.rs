//! Put: row pending → copies planned → staged on the nodes → one transaction that makes the version visible.

use crate::coded::{Coding, is_parity};
use crate::error::{CatalogError, Result};
use crate::gathering::Join;
use crate::name::check_name;
use crate::put_block::{CommittedBlock, FIRST_GENERATION, MIN_REPLICAS, PlannedBlock, check_block};
use crate::renewal::{CommittedPut, PutEnd, remember, repeated};
use crate::rows::{GatherTerms, MetaKey, MetaRow, ObjectRow, PutBlockKey, PutBlockRow, PutRow};
use crate::staged::{Fate, fate};
use crate::table::{Change, Read};
use crate::{Catalog, meta};
use model::{BlockCopy, BlockFacts, BlockId, Location, NodeId, Part, PutId, Stamp};
use std::collections::{BTreeMap, BTreeSet};

/// What a put begins with.
#[derive(Clone, Debug)]
pub struct NewPut {
    /// Its id.
    pub put: PutId,
    /// The object.
    pub name: String,
    /// Length of its blocks but the last.
    pub block_bytes: u64,
    /// Copies wanted of each.
    pub replicas: u32,
    /// It is given up then, unless its client says something.
    pub lease_until_ms: u64,
    /// Its blocks are gathered in stripes, and placed for that.
    pub gathers: Option<GatherTerms>,
}

impl Catalog {
    /// Notes a put and gives it the object's next version.
    pub fn begin_put(&self, new: &NewPut) -> Result<u64> {
        check_name(&new.name)?;
        self.change(|txn| {
            let mut row = meta(txn)?;
            let version = row.next_version;
            row.next_version += 1;
            txn.put::<MetaRow>(&MetaKey, &row)?;
            let NewPut { put, name, block_bytes, replicas, lease_until_ms, gathers } = new.clone();
            txn.put(&put, &PutRow { name, version, block_bytes, replicas, lease_until_ms, gathers })?;
            Ok(version)
        })
    }

    /// A pending put.
    pub fn pending_put(&self, put: PutId) -> Result<PutRow> {
        self.view(|txn| txn.get::<PutRow>(&put)?.ok_or(CatalogError::NoSuchPut))
    }

    /// Returns the put and the blocks that it has planned so far.
    pub fn planned_put(&self, put: PutId) -> Result<(PutRow, BTreeMap<BlockId, PlannedBlock>)> {
        self.view(|txn| {
            let row = txn.get::<PutRow>(&put)?.ok_or(CatalogError::NoSuchPut)?;
            let planned = txn.all::<PutBlockRow>(&put.to_bytes())?;
            let block = |(PutBlockKey { block, .. }, row): (PutBlockKey, PutBlockRow)| {
                let PutBlockRow { index, stored_bytes, sums, last, nodes, flow } = row;
                (block, PlannedBlock { block, index, stored_bytes, sums, last, nodes, flow })
            };
            Ok((row, planned.into_iter().map(block).collect()))
        })
    }

    /// Notes that copies of a block may appear, and extends the put's lease. Durable before the plan goes out. Returns the
    /// change that noted them: the copies' birth.
    pub fn plan_block(
        &self,
        put: PutId,
        planned: &PlannedBlock,
        now_ms: u64,
        lease_until_ms: u64,
    ) -> Result<Stamp> {
        self.plan_gathered(put, planned, None, now_ms, lease_until_ms)
    }

    /// The same for a block that joins a stripe with that. What the put planned before for this place of its object leaves its
    /// stripe.
    ///
    /// # Errors
    /// [`CatalogError::Overtaken`] if the stripe is not as it was when the block was placed.
    pub fn plan_gathered(
        &self,
        put: PutId,
        planned: &PlannedBlock,
        join: Option<&Join>,
        now_ms: u64,
        lease_until_ms: u64,
    ) -> Result<Stamp> {
        let planned = Joining { put, planned, join, lease_until_ms };
        self.plan_all_gathered(&[planned], now_ms)?.pop().unwrap_or(Err(CatalogError::NoSuchPut))
    }

    /// Plans blocks of several puts in one change. A refused block does not affect the others, except that blocks which
    /// join its stripe after it are [`CatalogError::Overtaken`].
    pub fn plan_all_gathered(&self, all: &[Joining<'_>], now_ms: u64) -> Result<Vec<Result<Stamp>>> {
        self.change(|txn| {
            let mut stamps = Vec::new();
            for joining in all {
                stamps.push(match txn.may_plan(joining) {
                    Ok(row) => txn.plan(joining, row, now_ms).map(Ok)?,
                    Err(error) if error.is_damage() => return Err(error),
                    Err(error @ CatalogError::Failed(_)) => return Err(error),
                    Err(error) => Err(error),
                });
            }
            Ok(stamps)
        })
    }

    /// Makes the version visible, and the copies of its predecessor candidates. The parities of a put that is coded as it is
    /// written are among the blocks, wherever.
    ///
    /// A copy that another start of its store wrote counts and is unconfirmed; one that lies in another store than its node's
    /// is left out.
    ///
    /// A version that began before the present one is overwritten at once: both puts were under way together, and this
    /// one counts as the earlier. Of a put that was committed a lease ago or less, it answers what it answered then.
    pub fn commit_put(
        &self,
        put: PutId,
        blocks: &[CommittedBlock],
        object_bytes: u64,
        digest: [u8; 32],
        end: PutEnd,
    ) -> Result<CommittedPut> {
        self.change(|txn| match txn.get::<PutRow>(&put)? {
            Some(pending) => commit(txn, (put, &pending), blocks, object_bytes, Some(digest), end),
            None => repeated(txn, put, object_bytes, &digest),
        })
    }

    /// Gives a put up; what it wrote are candidates. No error if it is not pending.
    pub fn abort_put(&self, put: PutId, now_ms: u64) -> Result<()> {
        self.change(|txn| {
            let planned = txn.all::<PutBlockRow>(&put.to_bytes())?;
            end_put(txn, put, &planned, now_ms)
        })
    }

    /// Puts whose lease has ended.
    pub fn expired_puts(&self, now_ms: u64) -> Result<Vec<PutId>> {
        let puts = self.view(|txn| txn.all::<PutRow>(&[]))?;
        Ok(puts.into_iter().filter(|(_, row)| row.lease_until_ms < now_ms).map(|(put, _)| put).collect())
    }
}

/// A block of a put that is to be planned, together with the stripe that it joins.
#[derive(Clone, Copy, Debug)]
pub struct Joining<'a> {
    /// Its put.
    pub put: PutId,
    /// The block and its copies.
    pub planned: &'a PlannedBlock,
    /// The stripe, if it joins one.
    pub join: Option<&'a Join>,
    /// When the put's lease ends if nothing is heard of it.
    pub lease_until_ms: u64,
}

impl Change<'_> {
    /// Whether the block may be planned; writes nothing. Returns the row of its put.
    fn may_plan(&self, joining: &Joining<'_>) -> Result<PutRow> {
        let row = self.get::<PutRow>(&joining.put)?.ok_or(CatalogError::NoSuchPut)?;
        check_block(&row, joining.planned)?;
        joining.join.map_or(Ok(()), |join| self.may_join(join, joining.planned.block))?;
        Ok(row)
    }

    fn plan(&self, joining: &Joining<'_>, mut row: PutRow, now_ms: u64) -> Result<Stamp> {
        let &Joining { put, planned, join, lease_until_ms } = joining;
        row.lease_until_ms = lease_until_ms;
        self.put(&put, &row)?;
        if let Some(join) = join {
            self.join(join, planned.block)?;
        }
        if row.gathers.is_some() {
            let before = self.all::<PutBlockRow>(&put.to_bytes())?;
            let replaced = before.iter().filter(|(_, row)| row.index == planned.index);
            replaced.into_iter().try_for_each(|(key, _)| self.leave(key.block))?;
        }
        self.plan_put_block(put, planned, now_ms)?;
        self.stamp()
    }

    /// Notes that copies of a put's block may appear.
    pub(crate) fn plan_put_block(&self, put: PutId, planned: &PlannedBlock, now_ms: u64) -> Result<()> {
        let PlannedBlock { block, index, stored_bytes, sums, last, nodes, flow } = planned.clone();
        for &node in &nodes {
            self.plan_copy(BlockCopy { block, node, generation: FIRST_GENERATION }, now_ms)?;
        }
        let row = PutBlockRow { index, stored_bytes, sums, last, nodes, flow };
        self.put(&PutBlockKey { put, block }, &row)
    }
}

/// The version of a pending put becomes visible. Its digest may be unknown.
pub(crate) fn commit(
    txn: &Change,
    (put, pending): (PutId, &PutRow),
    blocks: &[CommittedBlock],
    object_bytes: u64,
    digest: Option<[u8; 32]>,
    end: PutEnd,
) -> Result<CommittedPut> {
    let PutEnd { now_ms, created_ms, .. } = end;
    let planned = txn.all::<PutBlockRow>(&put.to_bytes())?;
    let coding = Coding::of(put, pending)?;
    let (mut there, unconfirmed) = there(txn, blocks)?;
    let parities = match &coding {
        Some(_) => {
            let known: BTreeSet<BlockId> =
                planned.iter().filter(|(_, row)| is_parity(row)).map(|(key, _)| key.block).collect();
            let (parities, data) = there.into_iter().partition(|block| known.contains(&block.block));
            there = data;
            parities
        }
        None => Vec::new(),
    };
    let blocks = &there[..];
    let object = ObjectRow {
        version: pending.version,
        object_bytes,
        digest,
        block_bytes: pending.block_bytes,
        blocks: blocks.iter().map(|b| b.block).collect(),
        created_ms,
    };
    let mut offset = 0;
    let plans: BTreeMap<BlockId, &PutBlockRow> = planned.iter().map(|(key, row)| (key.block, row)).collect();
    for (index, block) in blocks.iter().enumerate() {
        let plan = plans.get(&block.block).copied();
        let mut row = committed_row(pending, plan, block, index, blocks.len(), offset)?;
        row.stripe = coding.as_ref().and_then(|coding| coding.place(index, block.stored_bytes));
        offset += block.stored_bytes;
        txn.set_block(block.block, &row)?;
        row.locations.iter().try_for_each(|l| txn.copy_arrived(l.copy_of(block.block)))?;
    }
    if blocks.is_empty() || offset != object_bytes {
        return Err(invalid(format!(
            "the blocks hold {offset} bytes, the object is said to have {object_bytes}"
        )));
    }
    if let Some(coding) = &coding {
        coding.commit(txn, &planned, blocks, &parities)?;
    }
    // What was planned and is not used now: blocks written again elsewhere, replicas that failed.
    end_put(txn, put, &planned, now_ms)?;
    let committed = remember(txn, put, &pending.name, &object, end)?;
    let committed = CommittedPut { unconfirmed, ..committed };
    match txn.get::<ObjectRow>(&pending.name)? {
        Some(newer) if newer.version > object.version => {
            object.blocks.iter().try_for_each(|&b| txn.retire_block(b, now_ms))?;
        }
        older => {
            for block in older.iter().flat_map(|old| &old.blocks) {
                txn.retire_block(*block, now_ms)?;
            }
            txn.put(&pending.name, &object)?;
        }
    }
    Ok(committed)
}

/// These blocks, but for copies that lie in another store than their node's; and nodes that were started since they wrote.
fn there(txn: &Change, blocks: &[CommittedBlock]) -> Result<(Vec<CommittedBlock>, BTreeSet<NodeId>)> {
    let (mut there, mut unconfirmed) = (blocks.to_vec(), BTreeSet::new());
    for block in &mut there {
        for node in std::mem::take(&mut block.nodes) {
            match fate(txn, node, block.by.get(&node).copied())? {
                Fate::Good => block.nodes.push(node),
                Fate::Unconfirmed => {
                    unconfirmed.insert(node);
                    block.nodes.push(node);
                }
                Fate::Refused(_) => {}
            }
        }
    }
    Ok((there, unconfirmed))
}

/// Removes the rows of a put; copies that are still planned become candidates.
pub(crate) fn end_put(
    txn: &Change,
    put: PutId,
    planned: &[(PutBlockKey, PutBlockRow)],
    now_ms: u64,
) -> Result<()> {
    for (key, row) in planned {
        for &node in &row.nodes {
            let copy = BlockCopy { block: key.block, node, generation: FIRST_GENERATION };
            txn.give_up_copy(copy, row.stored_bytes, now_ms)?;
        }
        if txn.get::<BlockFacts>(&key.block)?.is_none() {
            txn.leave(key.block)?;
        }
        txn.remove::<PutBlockRow>(key)?;
    }
    txn.remove::<PutRow>(&put)?;
    Ok(())
}

/// The row of block `index` of `count`, if it is what was planned.
fn committed_row(
    pending: &PutRow,
    plan: Option<&PutBlockRow>,
    block: &CommittedBlock,
    index: usize,
    count: usize,
    offset: u64,
) -> Result<BlockFacts> {
    let wrong = |what: &str| invalid(format!("block {index} of the put, {}: {what}", block.block));
    let plan = plan.ok_or_else(|| wrong("this put planned no such block"))?;
    if plan.index != index as u64 {
        return Err(wrong("it was planned at another place of the object"));
    }
    if plan.last != (index + 1 == count) {
        return Err(wrong("only the last block of an object may be, and must be, planned as last"));
    }
    if plan.stored_bytes != block.stored_bytes || plan.sums != block.sums {
        return Err(wrong("length, digest or fingerprint differ from what was planned"));
    }
    let nodes: BTreeSet<NodeId> = block.nodes.iter().copied().collect();
    if nodes.len() != block.nodes.len() || !nodes.iter().all(|node| plan.nodes.contains(node)) {
        return Err(wrong("it was not planned on these nodes"));
    }
    if nodes.len() < plan.nodes.len().min(MIN_REPLICAS) {
        return Err(wrong("it is durable on too few nodes"));
    }
    let locations = nodes.iter().map(|&node| Location { node, generation: FIRST_GENERATION }).collect();
    let part = Part { name: pending.name.clone(), version: pending.version, offset, last: plan.last };
    let row = BlockFacts::new(block.stored_bytes, block.sums, locations);
    Ok(BlockFacts { part: Some(part), replicas: pending.replicas, ..row })
}

fn invalid(what: String) -> CatalogError {
    CatalogError::Invalid(what)
}
