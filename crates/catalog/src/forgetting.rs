//! Forgetting a store that is gone for good, by an operator's word (HEALING.md, "The healer").
//!
//! ```text
//!   begin: the store is refused from now on ─▶ locations ─▶ flawed copies ─▶ candidates ─▶ over: its number is free
//!                                                 ▲ a batch in each change                   │
//!                                                 └── plans that name it have not ended ◀────┘
//! ```
//! Only the beginning and what was counted is kept: whoever goes on after a restart begins with the locations again, and finds
//! what is left. A block without any copy stays listed: that its last store is gone is no proof that nobody has it.

use crate::Catalog;
use crate::backend::Scan;
use crate::blocks::stripe;
use crate::error::{CatalogError, Result};
use crate::rows::{
    CandidateRow, ForgottenRow, HeldKey, HeldRow, HoldersRow, LeavingRow, MetaKey, NodeRow, NodeTaskRow,
    OrderRow, PlannedRow,
};
use crate::table::{Change, Key, Read};
use model::{BlockCopy, BlockFacts, BlockId, Incarnation, MemberState, NodeId, StoreId};
use std::collections::BTreeSet;

/// Copies that are dropped in one change, so that puts do not wait long.
const BATCH: usize = 512;

/// Names of objects that are told.
const NAMES_TOLD: usize = 5;

/// What cannot be had without a node.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Loss {
    /// Blocks with a copy on it, of which no other copy lives, and that cannot be decoded from what lives.
    pub blocks: u64,
    /// Objects that cannot be read for it.
    pub objects: u64,
    /// The first of their names.
    pub names: Vec<String>,
}

/// How far forgetting has come in this process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Pass {
    /// Its locations go.
    Locations {
        /// A plan may yet write a copy there: another pass has to follow.
        is_early: bool,
    },
    /// Its flawed copies go, from this key of the blocks on.
    Flawed {
        /// See there.
        is_early: bool,
        /// The key.
        from: Vec<u8>,
    },
    /// Its candidates go, from this key of them on.
    Candidates {
        /// See there.
        is_early: bool,
        /// The key.
        from: Vec<u8>,
    },
    /// Plans that name it have not ended; then begins the next pass.
    Waits,
    /// Nothing names it any more.
    Over,
}

impl Catalog {
    /// What would be lost with the node, if those `living` are all that is left; it is none of them. `recoverable` as for
    /// [`Catalog::counts`].
    pub fn loss(
        &self,
        node: NodeId,
        living: &BTreeSet<NodeId>,
        recoverable: impl Fn(&str, &[bool]) -> Vec<bool>,
    ) -> Result<Loss> {
        self.view(|txn| {
            let (mut blocks, mut names) = (0, BTreeSet::new());
            txn.scan::<HeldRow>(&Key::to_bytes(&node), |key, _| {
                let Some(facts) = txn.get::<BlockFacts>(&key.block)? else { return Ok(Scan::Next) };
                let lost = lost_with(txn, key.block, &facts, living, &recoverable)?;
                blocks += u64::from(!lost.is_empty());
                names.extend(lost.into_iter().filter_map(|facts| Some(facts.part?.name)));
                Ok(Scan::Next)
            })?;
            let objects = names.len() as u64;
            Ok(Loss { blocks, objects, names: names.into_iter().take(NAMES_TOLD).collect() })
        })
    }

    /// Notes that the node's store is gone for good: from now on it is refused, and nothing is planned with it. `seen` is the
    /// start of the node that was found silent.
    ///
    /// # Errors
    /// [`CatalogError::Overtaken`] if another start was accepted since.
    pub fn begin_forgetting(
        &self,
        node: NodeId,
        seen: (StoreId, Incarnation),
        loss: &Loss,
        now_ms: u64,
    ) -> Result<()> {
        self.change(|txn| {
            let known = txn.get::<NodeRow>(&node)?.map(|row| (row.store, row.incarnation));
            if known != Some(seen) {
                return Err(CatalogError::Overtaken(format!("another start of {node} registered meanwhile")));
            }
            if txn.get::<ForgottenRow>(&seen.0)?.is_some() {
                return Ok(());
            }
            let Loss { blocks, objects, names } = loss.clone();
            let row = ForgottenRow {
                node,
                since_ms: now_ms,
                is_over: false,
                dropped: 0,
                candidates: 0,
                short: 0,
                lost: blocks,
                lost_objects: objects,
                lost_names: names,
            };
            txn.put(&seen.0, &row)?;
            txn.put(&node, &LeavingRow { since_ms: now_ms })?;
            // What it keeps of the catalog is nothing to wait for either.
            let mut holders = txn.get::<HoldersRow>(&MetaKey)?.unwrap_or_default();
            let before = holders.nodes.len();
            holders.nodes.retain(|holder| *holder != node);
            if holders.nodes.len() < before { txn.put(&MetaKey, &holders) } else { Ok(()) }
        })
    }

    /// A bounded piece of forgetting a store. Returns what comes next.
    pub fn forget_some(&self, store: StoreId, pass: &Pass) -> Result<Pass> {
        let Some(row) = self.view(|txn| txn.get::<ForgottenRow>(&store))?.filter(|row| !row.is_over) else {
            return Ok(Pass::Over);
        };
        match pass {
            Pass::Locations { is_early } => self.forget_locations(store, row.node, *is_early),
            Pass::Flawed { is_early, from } => self.forget_flawed(store, row.node, *is_early, from),
            Pass::Candidates { is_early, from } => self.forget_candidates(store, row.node, *is_early, from),
            Pass::Waits => Ok(Pass::Locations { is_early: self.view(|txn| is_planned(txn, row.node))? }),
            Pass::Over => Ok(Pass::Over),
        }
    }

    /// Stores that were given up, those among them that are over.
    pub fn forgotten(&self) -> Result<Vec<(StoreId, ForgottenRow)>> {
        self.view(|txn| txn.all::<ForgottenRow>(&[]))
    }

    /// A store was given up by mistake: it may register again, under the number that it had, which is returned. Nothing counts
    /// on its copies: they are compared like any others that come back.
    ///
    /// # Errors
    /// [`CatalogError::NotForgotten`]; [`CatalogError::BeingForgotten`] until that is over; [`CatalogError::NumberTaken`].
    pub fn readmit(&self, store: StoreId) -> Result<NodeId> {
        self.change(|txn| {
            let row = txn.get::<ForgottenRow>(&store)?.ok_or(CatalogError::NotForgotten(store))?;
            let node = row.node;
            if !row.is_over {
                return Err(CatalogError::BeingForgotten(node));
            }
            if txn.get::<NodeRow>(&node)?.is_some() {
                return Err(CatalogError::NumberTaken { node });
            }
            txn.remove::<ForgottenRow>(&store)?;
            Ok(node)
        })
    }

    /// Whether a store was given up.
    pub fn is_forgotten(&self, store: StoreId) -> Result<bool> {
        self.view(|txn| Ok(txn.get::<ForgottenRow>(&store)?.is_some()))
    }

    fn forget_locations(&self, store: StoreId, node: NodeId, is_early: bool) -> Result<Pass> {
        let held = self.view(|txn| {
            let mut held = Vec::new();
            txn.scan::<HeldRow>(&Key::to_bytes(&node), |key: HeldKey, _| {
                held.push(key.block);
                Ok(if held.len() < BATCH { Scan::Next } else { Scan::Stop })
            })?;
            Ok(held)
        })?;
        if held.is_empty() {
            return Ok(Pass::Flawed { is_early, from: Vec::new() });
        }
        self.change(|txn| {
            let short = |row: &BlockFacts| row.locations.len() < row.wanted();
            let (mut dropped, mut made_short) = (0, 0);
            for &block in &held {
                let Some(mut row) = txn.get::<BlockFacts>(&block)? else { continue };
                let before = row.locations.len();
                row.locations.retain(|location| location.node != node);
                dropped += (before - row.locations.len()) as u64;
                made_short += u64::from(short(&row));
                txn.set_block(block, &row)?;
            }
            txn.count_forgotten(store, |row| {
                row.dropped += dropped;
                row.short += made_short;
            })
        })?;
        Ok(Pass::Locations { is_early })
    }

    fn forget_flawed(&self, store: StoreId, node: NodeId, is_early: bool, from: &[u8]) -> Result<Pass> {
        let is_there = |_: &BlockId, row: &BlockFacts| row.flawed.iter().any(|f| f.location.node == node);
        let (found, next) = self.some_rows(from, BATCH, is_there)?;
        if !found.is_empty() {
            self.change(|txn| {
                let mut dropped = 0;
                for block in &found {
                    let Some(mut row) = txn.get::<BlockFacts>(block)? else { continue };
                    let before = row.flawed.len();
                    row.flawed.retain(|flawed| flawed.location.node != node);
                    dropped += (before - row.flawed.len()) as u64;
                    txn.set_block(*block, &row)?;
                }
                txn.count_forgotten(store, |row| row.dropped += dropped)
            })?;
        }
        Ok(match next {
            Some(from) => Pass::Flawed { is_early, from },
            None => Pass::Candidates { is_early, from: Vec::new() },
        })
    }

    fn forget_candidates(&self, store: StoreId, node: NodeId, is_early: bool, from: &[u8]) -> Result<Pass> {
        let is_there = |copy: &BlockCopy, _: &CandidateRow| copy.node == node;
        let (found, next) = self.some_rows(from, BATCH, is_there)?;
        if !found.is_empty() {
            self.change(|txn| {
                let mut gone = 0;
                for copy in &found {
                    gone += u64::from(txn.remove::<CandidateRow>(copy)?);
                }
                txn.count_forgotten(store, |row| row.candidates += gone)
            })?;
        }
        match next {
            Some(from) => Ok(Pass::Candidates { is_early, from }),
            None if is_early => Ok(Pass::Waits),
            None => self.end_forgetting(store, node),
        }
    }

    fn end_forgetting(&self, store: StoreId, node: NodeId) -> Result<Pass> {
        self.change(|txn| {
            // Something was planned or committed there since the look at it.
            let mut is_held = false;
            txn.scan::<HeldRow>(&Key::to_bytes(&node), |_, _| {
                is_held = true;
                Ok(Scan::Stop)
            })?;
            if is_held || is_planned(txn, node)? {
                return Ok(Pass::Waits);
            }
            if txn.get::<NodeRow>(&node)?.is_some_and(|row| row.store == store) {
                txn.remove::<NodeRow>(&node)?;
                txn.remove::<LeavingRow>(&node)?;
                txn.remove::<OrderRow>(&node)?;
                for (key, _) in txn.all::<NodeTaskRow>(&Key::to_bytes(&node))? {
                    txn.remove::<NodeTaskRow>(&key)?;
                }
            }
            txn.count_forgotten(store, |row| row.is_over = true)?;
            Ok(Pass::Over)
        })
    }
}

impl Change<'_> {
    fn count_forgotten(&self, store: StoreId, count: impl FnOnce(&mut ForgottenRow)) -> Result<()> {
        let Some(mut row) = self.get::<ForgottenRow>(&store)? else { return Ok(()) };
        count(&mut row);
        self.put(&store, &row)
    }
}

/// The store that is being forgotten under this number, and has not ended.
pub(crate) fn is_being_forgotten(txn: &impl Read, node: NodeId) -> Result<bool> {
    let rows = txn.all::<ForgottenRow>(&[])?;
    Ok(rows.into_iter().any(|(_, row)| row.node == node && !row.is_over))
}

/// Whether a plan may yet write a copy to the node.
fn is_planned(txn: &impl Read, node: NodeId) -> Result<bool> {
    let mut is_planned = false;
    txn.scan::<PlannedRow>(&[], |copy, _| {
        is_planned |= copy.node == node;
        Ok(if is_planned { Scan::Stop } else { Scan::Next })
    })?;
    Ok(is_planned)
}

/// What cannot be had of the block and, if it is in a stripe, of what it helps to decode.
fn lost_with(
    txn: &impl Read,
    block: BlockId,
    facts: &BlockFacts,
    living: &BTreeSet<NodeId>,
    recoverable: &impl Fn(&str, &[bool]) -> Vec<bool>,
) -> Result<Vec<BlockFacts>> {
    if facts.lives(living) {
        return Ok(Vec::new());
    }
    let Some(place) = facts.stripe else { return Ok(vec![facts.clone()]) };
    let row = stripe(txn, place.stripe)?;
    let member =
        |id: &BlockId| if *id == block { Ok(facts.clone()) } else { crate::blocks::referenced(txn, *id) };
    let members = row
        .members
        .iter()
        .map(|state| state.try_map(member))
        .collect::<Result<Vec<MemberState<BlockFacts>>>>()?;
    let lives = |state: &MemberState<BlockFacts>| state.block().is_none_or(|facts| facts.lives(living));
    let had = recoverable(&row.code, &members.iter().map(lives).collect::<Vec<_>>());
    let is_had = |index: usize| had.get(index).copied().unwrap_or(false);
    if is_had(usize::from(place.index)) {
        return Ok(Vec::new());
    }
    let lost = members.iter().enumerate().filter(|(index, _)| !is_had(*index));
    Ok(lost.filter_map(|(_, state)| state.block()).filter(|facts| !facts.dead).cloned().collect())
}
