//! What nodes say they hold, against what the catalog says.

use crate::Catalog;
use crate::backend::Scan;
use crate::error::Result;
use crate::rows::{CandidateRow, HeldKey, HeldRow, PlannedRow};
use crate::table::{Key, Read};
use crate::virtuals::is_in_need;
use model::{BlockCopy, BlockFacts, Flaw, NodeId, Reason};
use std::collections::BTreeSet;

/// What came of a list of copies.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Reconciled {
    /// Copies of known blocks at another place than the catalog says, and flawed ones that their blocks do not need: they are candidates
    /// from now on.
    pub surplus: u64,
    /// Copies that no row names, of blocks that have no row: they stay as they are. A missing row is no proof that they were let go.
    pub unknown: Vec<BlockCopy>,
    /// Candidates, old and new, and flawed copies, whose blocks are in need of them.
    pub needed: Vec<BlockCopy>,
}

/// How the catalog knows a copy.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Known {
    /// It is counted on, or being written.
    Counted,
    /// It is not counted on.
    Spare,
    /// Its block is known, at other places.
    Stray,
    /// Nothing is known of it.
    Unknown,
    /// A row that may name it is damaged: it stays as it is.
    Unreadable,
}

impl Known {
    fn is_spare(self) -> bool {
        matches!(self, Known::Spare | Known::Stray)
    }
}

impl Catalog {
    /// Compares copies that a node has with the catalog. One that it does not know in any state is a candidate that its block
    /// may need, if that is known; else it is unknown, and stays until an operator names it.
    pub fn reconcile(
        &self,
        copies: &[BlockCopy],
        living: &BTreeSet<NodeId>,
        now_ms: u64,
    ) -> Result<Reconciled> {
        let (mut result, strays, flawed) = self.view(|txn| {
            let (mut result, mut strays, mut flawed) = (Reconciled::default(), Vec::new(), Vec::new());
            for copy in copies {
                let (row, known) = looked_up(txn, copy)?;
                let is_needed = match &row {
                    Some(row) if known.is_spare() => is_in_need(txn, &self.codes, row, living)?,
                    _ => false,
                };
                match known {
                    Known::Counted | Known::Unreadable => {}
                    Known::Unknown => result.unknown.push(*copy),
                    Known::Stray | Known::Spare => {
                        result.needed.extend(is_needed.then_some(*copy));
                        strays.extend((known == Known::Stray).then_some(*copy));
                        let is_flawed = |row: &BlockFacts| row.flaw_of(copy.location()).is_some();
                        let goes =
                            !is_needed && row.is_some_and(|row| is_flawed(&row) && !row.needs_flawed());
                        flawed.extend(goes.then_some(copy.block));
                    }
                }
            }
            Ok((result, strays, flawed))
        })?;
        result.surplus = (strays.len() + flawed.len()) as u64;
        // Nearly always there is none: then nothing is written.
        if result.surplus > 0 {
            self.change(|txn| {
                for &block in &flawed {
                    if let Some(mut row) = txn.get::<BlockFacts>(&block)? {
                        txn.let_flawed_go(block, &mut row, now_ms)?;
                        txn.set_block(block, &row)?;
                    }
                }
                for &copy in &strays {
                    // What became a location meanwhile is none.
                    let (row, known) = looked_up(txn, &copy)?;
                    if known == Known::Stray {
                        let stored_bytes = row.map_or(0, |row| row.stored_bytes);
                        txn.to_candidate(copy, Reason::Found, stored_bytes, now_ms)?;
                    }
                }
                Ok(())
            })?;
        }
        Ok(result)
    }

    /// Of these copies those that are neither counted on, nor being written, nor candidates.
    pub fn strangers(&self, copies: &[BlockCopy]) -> Result<Vec<BlockCopy>> {
        self.view(|txn| {
            let mut strangers = Vec::new();
            for copy in copies {
                let (_, known) = looked_up(txn, copy)?;
                let is_known = matches!(known, Known::Counted | Known::Unreadable);
                if !is_known && txn.get::<CandidateRow>(copy)?.is_none() {
                    strangers.push(*copy);
                }
            }
            Ok(strangers)
        })
    }

    /// Returns those of these copies that no row names. A row that fails its check is there, and its copies are not unknown.
    pub fn unknown_of(&self, copies: &[BlockCopy]) -> Result<Vec<BlockCopy>> {
        self.view(|txn| {
            let mut unknown = Vec::new();
            for copy in copies {
                match is_unknown(txn, copy) {
                    Err(error) => txn.skip(error)?,
                    Ok(is_unknown) => unknown.extend(is_unknown.then_some(*copy)),
                }
            }
            Ok(unknown)
        })
    }

    /// Copies that the node may have without being counted on: candidates, and those that are being written.
    pub fn perhaps_on(&self, node: NodeId) -> Result<BTreeSet<BlockCopy>> {
        self.view(|txn| {
            let mut copies = BTreeSet::new();
            let mut add = |copy: BlockCopy| {
                if copy.node == node {
                    copies.insert(copy);
                }
                Ok(Scan::Next)
            };
            txn.scan::<CandidateRow>(&[], |copy, _| add(copy))?;
            txn.scan::<PlannedRow>(&[], |copy, _| add(copy))?;
            Ok(copies)
        })
    }

    /// Copies that were placed on the node, that it lacks, and that nothing has replaced yet.
    pub fn missing_on(&self, node: NodeId) -> Result<BTreeSet<BlockCopy>> {
        self.view(|txn| {
            let mut missing = BTreeSet::new();
            txn.scan::<BlockFacts>(&[], |block, row| {
                let flawed = row.flawed.iter().filter(|flawed| flawed.flaw == Flaw::Missing);
                let own = flawed.filter(|flawed| flawed.location.node == node);
                missing.extend(own.map(|flawed| flawed.location.copy_of(block)));
                Ok(Scan::Next)
            })?;
            Ok(missing)
        })
    }

    /// Copies of blocks whose ids begin with that byte that the catalog places on the node.
    pub fn held_in(&self, node: NodeId, first_byte: u8) -> Result<BTreeSet<BlockCopy>> {
        let mut prefix = Key::to_bytes(&node);
        prefix.push(first_byte);
        self.held(node, &prefix)
    }

    /// Copies that the catalog places on the node.
    pub fn held_by(&self, node: NodeId) -> Result<BTreeSet<BlockCopy>> {
        self.held(node, &Key::to_bytes(&node))
    }

    fn held(&self, node: NodeId, prefix: &[u8]) -> Result<BTreeSet<BlockCopy>> {
        self.view(|txn| {
            let held = txn.all::<HeldRow>(prefix)?;
            let copy = |(key, row): (HeldKey, HeldRow)| BlockCopy {
                block: key.block,
                node,
                generation: row.generation,
            };
            Ok(held.into_iter().map(copy).collect())
        })
    }
}

/// Whether no row names the copy, and its block has none.
pub(crate) fn is_unknown(txn: &impl Read, copy: &BlockCopy) -> Result<bool> {
    Ok(looked_up(txn, copy)?.1 == Known::Unknown)
}

/// The row of the copy's block, and how the copy is known.
fn looked_up(txn: &impl Read, copy: &BlockCopy) -> Result<(Option<BlockFacts>, Known)> {
    let looked_up = txn.get::<BlockFacts>(&copy.block).and_then(|row| {
        let known = known(txn, copy, row.as_ref())?;
        Ok((row, known))
    });
    match looked_up {
        Err(error) if error.is_damage() => txn.skip(error).map(|()| (None, Known::Unreadable)),
        looked_up => looked_up,
    }
}

fn known(txn: &impl Read, copy: &BlockCopy, row: Option<&BlockFacts>) -> Result<Known> {
    let location = copy.location();
    if row.is_some_and(|row| row.locations.contains(&location)) || txn.get::<PlannedRow>(copy)?.is_some() {
        return Ok(Known::Counted);
    }
    let is_spare = row.is_some_and(|row| row.flaw_of(location).is_some());
    Ok(match row {
        _ if is_spare || txn.get::<CandidateRow>(copy)?.is_some() => Known::Spare,
        Some(_) => Known::Stray,
        None => Known::Unknown,
    })
}
