//! Counting: what there is, and what is missing.

use crate::Catalog;
use crate::backend::Scan;
use crate::blocks::referenced;
use crate::candidates::Waiting;
use crate::error::Result;
use crate::rows::{CandidateRow, ObjectRow, PlannedRow, StripeRow};
use crate::table::{Read, Row};
use model::{BlockFacts, BlockId, Flaw, MemberState, NodeId};
use std::collections::BTreeSet;

/// Counts over the whole catalog.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Present versions.
    pub objects: u64,
    /// Data blocks and parities.
    pub blocks: u64,
    /// Encoded stripes.
    pub stripes: u64,
    /// Copies that are to go.
    pub candidates: Waiting,
    /// Copies that their nodes have lost.
    pub lost_copies: u64,
    /// Copies that their nodes have found damaged.
    pub damaged_copies: u64,
    /// Copies that plans are to write, neither committed nor given up.
    pub in_flight: u64,
    /// Blocks without a living copy.
    pub missing: u64,
    /// Of these, blocks that cannot be decoded from what lives either.
    pub unrecoverable: u64,
}

impl Catalog {
    /// Counts everything. `recoverable` tells, from a code's name and which members of a stripe live (or are known to be
    /// zero), which members can be had.
    pub fn counts(
        &self,
        living: &BTreeSet<NodeId>,
        mut recoverable: impl FnMut(&str, &[bool]) -> Vec<bool>,
    ) -> Result<Counts> {
        self.view(|txn| {
            let mut counts = Counts {
                objects: txn.count::<ObjectRow>()?,
                in_flight: txn.count::<PlannedRow>()?,
                ..Counts::default()
            };
            txn.scan::<CandidateRow>(&[], |_, row| {
                counts.candidates.copies += 1;
                counts.candidates.bytes += row.stored_bytes;
                Ok(Scan::Next)
            })?;
            txn.scan::<BlockFacts>(&[], |_, row| {
                counts.blocks += 1;
                for flawed in &row.flawed {
                    match flawed.flaw {
                        Flaw::Missing => counts.lost_copies += 1,
                        Flaw::Damaged => counts.damaged_copies += 1,
                    }
                }
                if row.stripe.is_none() && !row.lives(living) {
                    counts.missing += 1;
                    counts.unrecoverable += 1;
                }
                Ok(Scan::Next)
            })?;
            txn.scan::<StripeRow>(&[], |_, stripe| {
                counts.stripes += 1;
                let is_usable = |state: &MemberState<BlockId>| match state.block() {
                    Some(&block) => Ok(referenced(txn, block)?.lives(living)),
                    None => Ok(true),
                };
                let usable = stripe.members.iter().map(is_usable).collect::<Result<Vec<bool>>>()?;
                // Virtual blocks are missing nowhere; what stands for them may be.
                let states = stripe.members.iter().zip(&usable);
                let missing = states.filter(|(state, usable)| !state.is_virtual() && !**usable).count();
                if missing > 0 {
                    counts.missing += missing as u64;
                    let lost = recoverable(&stripe.code, &usable).iter().filter(|had| !**had).count();
                    counts.unrecoverable += lost as u64;
                }
                Ok(Scan::Next)
            })?;
            Ok(counts)
        })
    }

    /// Names and rows of the objects whose names begin with `prefix`, from `after` (exclusive) on, at most `limit`.
    pub fn list_objects(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Vec<String>> {
        // The next string after `after` in byte order.
        let from = after.map_or_else(|| prefix.to_owned(), |name| format!("{name}\0"));
        self.view(|txn| {
            let mut names = Vec::new();
            txn.raw_scan(ObjectRow::TABLE, from.as_bytes(), &mut |key, _| {
                if names.len() == limit || !key.starts_with(prefix.as_bytes()) {
                    return Ok(Scan::Stop);
                }
                names.push(String::from_utf8_lossy(key).into_owned());
                Ok(Scan::Next)
            })?;
            Ok(names)
        })
    }
}
