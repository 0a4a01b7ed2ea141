//! Puts that were pending in a catalog that was brought from those that keep its records: they may have been committed by a
//! change that is lost. What their nodes have decides: a version that is whole counts as committed, one that is not cannot
//! have been. One whose name was deleted since is over, whatever nodes have.

use crate::Catalog;
use crate::coded::{Coding, is_parity};
use crate::error::Result;
use crate::history::{term_of_version, waited_since};
use crate::put::{commit, end_put};
use crate::put_block::{CommittedBlock, FIRST_GENERATION, MIN_REPLICAS};
use crate::renewal::PutEnd;
use crate::rows::{PutBlockKey, PutBlockRow, PutRow};
use crate::safe_mode::unsettled;
use crate::table::{Change, Key, Read};
use model::{BlockCopy, NodeId, PutId};
use std::collections::{BTreeMap, BTreeSet};

/// What became of a put.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Settled {
    /// It is whole, and counts as committed.
    Committed,
    /// It lacks blocks, and its lease ends like any other.
    Pending,
    /// Nodes that may have blocks of it have not answered.
    Waits,
}

impl Catalog {
    /// The puts to be settled, with the copies that they planned.
    pub fn unsettled_puts(&self) -> Result<Vec<(PutId, Vec<BlockCopy>)>> {
        self.view(|txn| {
            let copies = |(put, _): (PutId, PutRow)| {
                let planned = txn.all::<PutBlockRow>(&Key::to_bytes(&put))?;
                let of_block = |(key, row): &(PutBlockKey, PutBlockRow)| {
                    let block = key.block;
                    let copy = |&node: &NodeId| BlockCopy { block, node, generation: FIRST_GENERATION };
                    row.nodes.iter().map(copy).collect::<Vec<_>>()
                };
                Ok((put, planned.iter().flat_map(of_block).collect()))
            };
            unsettled(txn)?.into_iter().map(copies).collect()
        })
    }

    /// Settles one, as far as can be said by what nodes have: `seen` of those that `answered`.
    ///
    /// `is_complete`: this catalog has all that its holders keep. If every life since the put began told of changes only once holders had
    /// them, the put was then not committed. Committing it now would bring back an object that was deleted meanwhile.
    pub fn settle_put(
        &self,
        put: PutId,
        (seen, answered): (&BTreeSet<BlockCopy>, &BTreeSet<NodeId>),
        is_complete: bool,
        lease_until_ms: u64,
        end: PutEnd,
    ) -> Result<Settled> {
        self.change(|txn| {
            let Some(pending) = txn.get::<PutRow>(&put)? else { return Ok(Settled::Pending) };
            if pending.lease_until_ms != crate::incoming::UNSETTLED_MS {
                return Ok(Settled::Pending);
            }
            if is_complete && waited_since(txn, term_of_version(pending.version))? {
                txn.put(&put, &PutRow { lease_until_ms, ..pending })?;
                return Ok(Settled::Pending);
            }
            let planned = txn.all::<PutBlockRow>(&Key::to_bytes(&put))?;
            let coding = Coding::of(put, &pending)?;
            if let Some(mut blocks) = whole(&planned, seen)
                && let Some(parities) = parities(coding.as_ref(), &planned, &blocks, seen)
            {
                let object_bytes = blocks.iter().map(|block| block.stored_bytes).sum();
                blocks.extend(parities);
                commit(txn, (put, &pending), &blocks, object_bytes, None, end)?;
                return Ok(Settled::Committed);
            }
            if !planned.iter().flat_map(|(_, row)| &row.nodes).all(|node| answered.contains(node)) {
                return Ok(Settled::Waits);
            }
            txn.put(&put, &PutRow { lease_until_ms, ..pending })?;
            Ok(Settled::Pending)
        })
    }
}

impl Change<'_> {
    /// Gives up what was not settled of this name. Whether there was any.
    pub(crate) fn end_unsettled(&self, name: &str, now_ms: u64) -> Result<bool> {
        let mut had_any = false;
        for (put, _) in unsettled(self)?.into_iter().filter(|(_, row)| row.name == name) {
            let planned = self.all::<PutBlockRow>(&Key::to_bytes(&put))?;
            end_put(self, put, &planned, now_ms)?;
            had_any = true;
        }
        Ok(had_any)
    }
}

/// A planned block, if it is on as many nodes as a commit asks for. It was seen under the starts that are accepted.
fn durable((key, row): &(PutBlockKey, PutBlockRow), seen: &BTreeSet<BlockCopy>) -> Option<CommittedBlock> {
    let block = key.block;
    let is_seen =
        |node: &NodeId| seen.contains(&BlockCopy { block, node: *node, generation: FIRST_GENERATION });
    let nodes: Vec<NodeId> = row.nodes.iter().copied().filter(is_seen).collect();
    let is_durable = nodes.len() >= row.nodes.len().min(MIN_REPLICAS);
    let PutBlockRow { stored_bytes, sums, .. } = *row;
    is_durable.then_some(CommittedBlock { block, stored_bytes, sums, nodes, by: BTreeMap::new() })
}

/// The blocks of the version in order, if each is durable.
fn whole(planned: &[(PutBlockKey, PutBlockRow)], seen: &BTreeSet<BlockCopy>) -> Option<Vec<CommittedBlock>> {
    let mut blocks = Vec::new();
    loop {
        let index = blocks.len() as u64;
        let of_index = planned.iter().filter(|(_, row)| row.index == index);
        let (block, is_last) = of_index.filter_map(|row| Some((durable(row, seen)?, row.1.last))).next()?;
        blocks.push(block);
        if is_last {
            return Some(blocks);
        }
    }
}

/// The parities of the version, none if it is not coded as it is written; `None` if one of them is not durable or a stripe has
/// none yet: then nobody has asked for its commit.
fn parities(
    coding: Option<&Coding>,
    planned: &[(PutBlockKey, PutBlockRow)],
    data: &[CommittedBlock],
    seen: &BTreeSet<BlockCopy>,
) -> Option<Vec<CommittedBlock>> {
    let Some(coding) = coding else { return Some(Vec::new()) };
    let rows = planned.iter().filter(|(_, row)| is_parity(row));
    coding.has_parities(data, rows.clone().map(|(_, row)| row)).then_some(())?;
    rows.map(|row| durable(row, seen)).collect()
}
