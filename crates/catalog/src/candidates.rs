//! Candidates: copies that are not counted on any more. They go only on the coordinator's word, when everything that
//! `letting_go.rs` asks for holds, decided in one transaction for each order; until then a block in need takes them back.

use crate::Catalog;
use crate::backend::Scan;
use crate::blocks::{referenced, stripe};
use crate::error::Result;
use crate::inventory::is_unknown;
use crate::letting_go::{Case, Sight, Wait, may_go};
use crate::rows::{CandidateRow, PlannedRow};
use crate::safe_mode::safe_mode;
use crate::table::Read;
use crate::virtuals::stands_for_all;
use model::{BlockCopy, BlockFacts, BlockId, NodeId, Reason, Stamp, StripeId, StripePlace};
use std::collections::{BTreeMap, BTreeSet};

/// What was decided about candidates.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Orders {
    /// These go; they are noted as ordered.
    pub go: Vec<BlockCopy>,
    /// These wait, and what for.
    pub wait: Vec<(BlockCopy, Wait)>,
    /// The change that decided it.
    pub by: Stamp,
}

/// Candidates in numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Waiting {
    /// Copies.
    pub copies: u64,
    /// The room they take up, as far as their lengths are known.
    pub bytes: u64,
}

/// Copies that others rest on once candidates are gone.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Witnesses {
    /// Their nodes must say that they are there.
    pub seen: BTreeSet<BlockCopy>,
    /// … and of these, which stand for virtual blocks, must have read them since they were written; with the digests of their
    /// blocks.
    pub read: BTreeMap<BlockCopy, Option<[u8; 32]>>,
}

impl Catalog {
    /// An operator names copies that no row names: those that are still so are candidates from now on. Returns these.
    pub fn let_unknown_go(&self, copies: &[BlockCopy], now_ms: u64) -> Result<Vec<BlockCopy>> {
        self.change(|txn| {
            let mut gone = Vec::new();
            for &copy in copies {
                if is_unknown(txn, &copy)? {
                    txn.to_candidate(copy, Reason::Operator, 0, now_ms)?;
                    gone.push(copy);
                }
            }
            Ok(gone)
        })
    }

    /// Candidates on these nodes whose grace is over, at most `limit` for each node, those left out that `skip` names: what
    /// waits does not hold up what comes after it.
    pub fn due_candidates(
        &self,
        nodes: &BTreeSet<NodeId>,
        before_ms: u64,
        limit: usize,
        skip: &BTreeSet<BlockCopy>,
    ) -> Result<Vec<BlockCopy>> {
        self.view(|txn| {
            let (mut due, mut by_node) = (Vec::new(), BTreeMap::<NodeId, usize>::new());
            txn.scan::<CandidateRow>(&[], |copy, row| {
                if row.since_ms <= before_ms && nodes.contains(&copy.node) && !skip.contains(&copy) {
                    let count = by_node.entry(copy.node).or_default();
                    if *count < limit {
                        *count += 1;
                        due.push(copy);
                    }
                }
                Ok(Scan::Next)
            })?;
            Ok(due)
        })
    }

    /// Copies that their own nodes must have seen, or read, before any of these may be deleted.
    pub fn witnesses(&self, copies: &[BlockCopy]) -> Result<Witnesses> {
        self.view(|txn| {
            let mut witnesses = Witnesses::default();
            for copy in copies {
                let Some(row) = txn.get::<BlockFacts>(&copy.block)? else { continue };
                let is_virtual = row.is_virtual();
                let others = match members(txn, &row)? {
                    members if members.is_empty() => vec![(copy.block, row)],
                    members => members,
                };
                for (block, row) in others {
                    let copies = row.locations.iter().map(|location| location.copy_of(block));
                    for other in copies.filter(|other| other != copy) {
                        witnesses.seen.insert(other);
                        if is_virtual {
                            witnesses.read.insert(other, row.sums.digest);
                        }
                    }
                }
            }
            Ok(witnesses)
        })
    }

    /// Decides about each of these copies, and notes those that go as ordered: from then on nothing counts on them, until
    /// their node has answered. Nothing goes in safe mode, from the change on that begins it, and nothing from a file that was not
    /// checked.
    pub fn order(&self, copies: &[BlockCopy], sight: &Sight) -> Result<Orders> {
        self.change(|txn| {
            let is_halted = sight.is_halted || safe_mode(txn)?.is_some();
            let is_sound = self.soundness.is_sound();
            let sight = &Sight { is_halted, is_sound, ..sight.clone() };
            let mut orders = Orders { by: txn.stamp()?, ..Orders::default() };
            let mut given: BTreeMap<StripeId, bool> = BTreeMap::new();
            for &copy in copies {
                // Taken back, or deleted, meanwhile.
                let Some(row) = txn.get::<CandidateRow>(&copy)? else { continue };
                let block = txn.get::<BlockFacts>(&copy.block)?;
                let members =
                    block.as_ref().map(|block| members(txn, block)).transpose()?.unwrap_or_default();
                let place = block.as_ref().and_then(|block| block.stripe);
                let is_given = self.is_given(txn, place, &mut given)?;
                let case = Case {
                    copy,
                    candidate: Some((row.since_ms, row.reason)),
                    is_planned: txn.get::<PlannedRow>(&copy)?.is_some(),
                    block: block.as_ref(),
                    members: &members,
                    is_given,
                };
                match may_go(&case, sight) {
                    Ok(()) => {
                        txn.put(&copy, &CandidateRow { is_ordered: true, ..row })?;
                        orders.go.push(copy);
                    }
                    Err(wait) => orders.wait.push((copy, wait)),
                }
            }
            Ok(orders)
        })
    }

    /// Whether a block's stripe gives it if it is virtual; of stripes that were looked at before as it was then.
    fn is_given(
        &self,
        txn: &impl Read,
        place: Option<StripePlace>,
        known: &mut BTreeMap<StripeId, bool>,
    ) -> Result<bool> {
        let Some(place) = place.filter(|place| place.is_virtual) else { return Ok(true) };
        if let Some(known) = known.get(&place.stripe) {
            return Ok(*known);
        }
        let is_given = stands_for_all(&self.codes, &stripe(txn, place.stripe)?);
        known.insert(place.stripe, is_given);
        Ok(is_given)
    }

    /// The nodes have deleted these copies.
    pub fn deleted(&self, copies: &[BlockCopy]) -> Result<()> {
        self.change(|txn| copies.iter().try_for_each(|copy| txn.remove::<CandidateRow>(copy).map(|_| ())))
    }

    /// The nodes have refused to delete these copies, and do not go back to the order.
    pub fn refused(&self, copies: &[BlockCopy]) -> Result<()> {
        self.change(|txn| {
            for copy in copies {
                if let Some(row) = txn.get::<CandidateRow>(copy)? {
                    txn.put(copy, &CandidateRow { is_ordered: false, ..row })?;
                }
            }
            Ok(())
        })
    }

    /// Why a copy is a candidate, if it is one.
    pub fn candidate(&self, copy: &BlockCopy) -> Result<Option<CandidateRow>> {
        self.view(|txn| txn.get::<CandidateRow>(copy))
    }
}

/// The stored members of a block's stripe.
fn members(txn: &impl Read, row: &BlockFacts) -> Result<Vec<(BlockId, BlockFacts)>> {
    let Some(place) = row.stripe else { return Ok(Vec::new()) };
    let row = stripe(txn, place.stripe)?;
    row.stored().map(|block| Ok((block, referenced(txn, block)?))).collect()
}
