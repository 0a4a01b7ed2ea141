//! What a lost branch of the history has that the history does not (HEALING.md, "Broken history: safe mode").
//!
//! ```text
//!   … ─ change ─ fork ─┬─ change ─ change             the branch: its coordinator stood still, or was cut off
//!                      └─ term ─ change ─ change ─ …  the history: another coordinator, which the nodes obeyed
//! ```
//!
//! Versions rise, and those of a term lie above those of all terms before. So a version that stands in the history and is of a
//! term before the fork was not touched since, and one that the branch put in its place is later: a recovery takes it.
//! What the branch removed is listed and stays: a branch deletes nothing.

use crate::Catalog;
use crate::backend::Scan;
use crate::error::Result;
use crate::history::{first_of, position};
use crate::rows::{ObjectRow, TermRow};
use crate::table::{Change, Read, Snapshot};
use model::{BlockCopy, BlockFacts, BlockId, Contents, NodeId, Stamp};
use std::collections::{BTreeMap, BTreeSet};

/// A lost branch, as far as it differs from the history.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Branch {
    /// Its last change.
    pub last: Stamp,
    /// The last change that both have; the default if they have none.
    pub fork: Stamp,
    /// Versions that stand there, and are not those that stand here.
    pub made: BTreeMap<String, Made>,
    /// Versions that stand here and were there when the branch began, and that it has removed.
    pub removed: BTreeSet<(String, u64)>,
    /// The last change of each of its terms.
    terms: BTreeMap<u64, Stamp>,
    /// What stands here and is below this was there when the branch began.
    common_below: u64,
}

/// A version of a branch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Made {
    /// It.
    pub row: ObjectRow,
    /// Its blocks, and where they were.
    pub blocks: BTreeMap<BlockId, BlockFacts>,
}

impl Made {
    /// Nodes that had something of it.
    pub(crate) fn nodes(&self) -> BTreeSet<NodeId> {
        self.blocks.values().flat_map(|facts| &facts.locations).map(|location| location.node).collect()
    }
}

impl Branch {
    /// Compares a branch with the history.
    pub fn of(branch: &Catalog, history: &Catalog) -> Result<Branch> {
        branch.view(|there| history.view(|here| compare(there, here)))
    }

    /// Whether a change was made there.
    pub fn remembers(&self, stamp: Stamp) -> bool {
        let last = self.terms.get(&stamp.term.number);
        last.is_some_and(|last| last.term == stamp.term && stamp.change <= last.change)
    }

    /// The version that stands there, if it is this one.
    pub(crate) fn version(&self, name: &str, version: u64) -> Option<&Made> {
        self.made.get(name).filter(|made| made.row.version == version)
    }

    /// Whether a version of it takes the place of the one that stands here.
    pub(crate) fn replaces(&self, version: u64, standing: u64) -> bool {
        standing < version && standing < self.common_below
    }

    /// Whether a change was made there after the fork.
    fn made_after_fork(&self, stamp: Stamp) -> bool {
        let Stamp { term, change } = self.fork;
        let is_before = if stamp.term == term { stamp.change <= change } else { stamp.term < term };
        self.remembers(stamp) && !is_before
    }
}

/// Branches, for a recovery.
pub(crate) struct Lost<'a> {
    branches: &'a [Branch],
    blocks: BTreeMap<BlockId, &'a BlockFacts>,
}

impl<'a> Lost<'a> {
    pub(crate) fn new(branches: &'a [Branch]) -> Lost<'a> {
        let made = branches.iter().flat_map(|branch| branch.made.values());
        let blocks = made.flat_map(|made| made.blocks.iter().map(|(block, facts)| (*block, facts))).collect();
        Lost { branches, blocks }
    }

    /// A version that a branch committed.
    pub(crate) fn made(&self, name: &str, version: u64) -> Option<&'a Made> {
        self.branches.iter().find_map(|branch| branch.version(name, version))
    }

    /// A block of such a version.
    pub(crate) fn block(&self, block: BlockId) -> Option<&'a BlockFacts> {
        self.blocks.get(&block).copied()
    }

    /// Whether a copy is one that a put wrote, and that a branch counts on.
    pub(crate) fn counts_on(&self, copy: &BlockCopy) -> bool {
        let is_put = copy.generation == crate::FIRST_GENERATION;
        is_put && self.block(copy.block).is_some_and(|facts| facts.locations.contains(&copy.location()))
    }

    /// Whether a copy has what a branch knows of its block, if any does.
    pub(crate) fn agrees(&self, block: BlockId, found: &Contents) -> bool {
        self.block(block).is_none_or(|facts| {
            let digest = &facts.sums.digest;
            facts.stored_bytes == found.stored_bytes && (digest.is_none() || *digest == found.sums.digest)
        })
    }

    /// Whether a version of a branch takes the place of the one that stands.
    pub(crate) fn replaces(&self, name: &str, version: u64, standing: u64) -> bool {
        let is_its = |branch: &&Branch| branch.version(name, version).is_some();
        self.branches.iter().filter(is_its).any(|branch| branch.replaces(version, standing))
    }

    /// Whether a branch noted the copies of a version that it has not committed, or has removed again.
    pub(crate) fn has_ended<'b>(&self, births: impl Iterator<Item = &'b Stamp> + Clone) -> bool {
        self.branches.iter().any(|branch| births.clone().any(|birth| branch.made_after_fork(*birth)))
    }

    /// Versions of branches of which nothing was `found`, and nodes may have something that were not `asked`. To those that stand, and
    /// of which only the branch knows the digest, it is added.
    pub(crate) fn waits_for(
        &self,
        txn: &Change,
        asked: &BTreeSet<NodeId>,
        found: &BTreeSet<(&str, u64)>,
    ) -> Result<Vec<(String, u64)>> {
        let mut waits = Vec::new();
        for (name, made) in self.branches.iter().flat_map(|branch| &branch.made) {
            let (standing, version) = (txn.get::<ObjectRow>(name)?, made.row.version);
            let is_later = standing.as_ref().is_none_or(|row| row.version < version);
            let is_away = made.nodes().iter().any(|node| !asked.contains(node));
            if is_later && is_away && !found.contains(&(name.as_str(), version)) {
                waits.push((name.clone(), version));
            }
            let is_same = |row: &ObjectRow| row.version == version && row.blocks == made.row.blocks;
            if let Some(row) = standing.filter(|row| is_same(row) && row.digest.is_none()) {
                txn.put(name, &ObjectRow { digest: made.row.digest, ..row })?;
            }
        }
        Ok(waits)
    }

    /// What stands, and was removed by a branch.
    pub(crate) fn removed(&self, txn: &impl Read) -> Result<Vec<(String, u64)>> {
        let mut removed = Vec::new();
        for (name, version) in self.branches.iter().flat_map(|branch| &branch.removed) {
            if txn.get::<ObjectRow>(name)?.is_some_and(|row| row.version == *version) {
                removed.push((name.clone(), *version));
            }
        }
        Ok(removed)
    }
}

fn compare(there: &Snapshot, here: &Snapshot) -> Result<Branch> {
    let (terms, ours) = (terms(there)?, terms(here)?);
    let fork = fork(&terms, &ours);
    let mut branch = Branch {
        last: position(there)?.stamp,
        fork,
        common_below: common_below(fork, &ours),
        terms,
        ..Branch::default()
    };
    there.scan::<ObjectRow>(&[], |name, row| {
        let standing = here.get::<ObjectRow>(&name)?;
        let is_same = |ours: &ObjectRow| ours.version == row.version && ours.blocks == row.blocks;
        // Of one that was settled by what nodes have the branch may know the digest.
        if !standing.is_some_and(|ours| is_same(&ours) && (ours.digest.is_some() || row.digest.is_none())) {
            let mut blocks = BTreeMap::new();
            for &block in &row.blocks {
                blocks.extend(there.get::<BlockFacts>(&block)?.map(|facts| (block, facts)));
            }
            branch.made.insert(name, Made { row, blocks });
        }
        Ok(Scan::Next)
    })?;
    here.scan::<ObjectRow>(&[], |name, row| {
        if row.version < branch.common_below && there.get::<ObjectRow>(&name)?.is_none() {
            branch.removed.insert((name, row.version));
        }
        Ok(Scan::Next)
    })?;
    Ok(branch)
}

/// The last change of each term.
fn terms(txn: &Snapshot) -> Result<BTreeMap<u64, Stamp>> {
    let rows = txn.all::<TermRow>(&[])?.into_iter();
    let ended = |(number, row): (u64, TermRow)| {
        let term = model::Term { number, word: row.word };
        (number, Stamp { term, change: row.changes })
    };
    let now = position(txn)?.stamp;
    Ok(rows.map(ended).chain([(now.term.number, now)]).collect())
}

/// The last change that two histories have in common: of the last term that both have, the end that comes first.
fn fork(one: &BTreeMap<u64, Stamp>, other: &BTreeMap<u64, Stamp>) -> Stamp {
    let common = one.values().rev().find_map(|last| {
        let same = other.get(&last.term.number).filter(|same| same.term == last.term)?;
        Some(*last.min(same))
    });
    common.unwrap_or_default()
}

/// Versions that the history gave out after the fork are this one or later. Of the term of the fork all were there at the fork only
/// if the history has no more of it.
fn common_below(fork: Stamp, history: &BTreeMap<u64, Stamp>) -> u64 {
    match history.get(&fork.term.number) {
        Some(last) if fork.term.number > 0 && *last == fork => first_of(fork.term.number + 1),
        Some(_) if fork.term.number > 0 => first_of(fork.term.number),
        _ => 0,
    }
}
