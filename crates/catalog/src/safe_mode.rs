//! Safe mode: while the history may be broken, nothing is let go (HEALING.md, "Broken history").
//!
//! A catalog that was set back does not know it. A node that obeyed a later change, or another life of a coordinator, does,
//! and says so when it registers. And while too few of those that keep the records have answered, nobody can say.

use crate::Catalog;
use crate::error::Result;
use crate::history::remembers;
use crate::rows::{Doubt, DoubtRow, MetaKey, PutRow, SafeModeRow};
use crate::soundness::{Condition, Damage};
use crate::table::Read;
use model::{NodeId, PutId, Stamp};

/// Why nothing is let go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SafeMode {
    /// A node has heard of a change that is not known here.
    Heard(SafeModeRow),
    /// Nobody has, but it is not known that nobody could.
    Doubt(DoubtRow),
    /// The catalog's own file is damaged.
    Damaged(Damage),
}

impl Catalog {
    /// A node has heard of this change. Enters safe mode if nothing is known of it here. Whether it did, or was in it.
    pub fn hear(&self, node: NodeId, heard: Stamp, now_ms: u64) -> Result<bool> {
        if self.view(|txn| Ok(heard.term.number == 0 || remembers(txn, heard)?))? {
            return Ok(false);
        }
        self.change(|txn| {
            if txn.get::<SafeModeRow>(&MetaKey)?.is_none() {
                txn.put(&MetaKey, &SafeModeRow { since_ms: now_ms, node, heard })?;
            }
            Ok(true)
        })
    }

    /// Enters safe mode for this reason, or notes how it has changed.
    pub fn doubt(&self, why: Doubt, now_ms: u64) -> Result<()> {
        let is_so = |row: Option<DoubtRow>| row.is_some_and(|row| row.why == why);
        if is_so(self.view(|txn| txn.get::<DoubtRow>(&MetaKey))?) {
            return Ok(());
        }
        self.change(|txn| {
            let since_ms = txn.get::<DoubtRow>(&MetaKey)?.map_or(now_ms, |row| row.since_ms);
            txn.put(&MetaKey, &DoubtRow { since_ms, why })
        })
    }

    /// Enough of those that keep the records have answered, and nothing is missing here. Whether that ended a doubt.
    pub fn doubt_no_more(&self) -> Result<bool> {
        let is_of_holders = |row: &DoubtRow| matches!(row.why, Doubt::FewHolders { .. });
        // Nearly always there is none: then nothing is written.
        if !self.view(|txn| txn.get::<DoubtRow>(&MetaKey))?.as_ref().is_some_and(is_of_holders) {
            return Ok(false);
        }
        self.change(|txn| match txn.get::<DoubtRow>(&MetaKey)?.as_ref().is_some_and(is_of_holders) {
            true => txn.remove::<DoubtRow>(&MetaKey),
            false => Ok(false),
        })
    }

    /// What was lost of what that node had heard is settled: all nodes have said what they have, and no name is uncertain. Whether
    /// that was why nothing is let go. What is in doubt stays so.
    pub fn heard_is_settled(&self, why: &SafeModeRow) -> Result<bool> {
        self.change(|txn| match txn.get::<SafeModeRow>(&MetaKey)?.as_ref() == Some(why) {
            true => txn.remove::<SafeModeRow>(&MetaKey),
            false => Ok(false),
        })
    }

    /// Why nothing is let go; `None`: the history is whole as far as is known.
    pub fn safe_mode(&self) -> Result<Option<SafeMode>> {
        let found = self.view(|txn| safe_mode(txn));
        match self.condition() {
            Condition::Damaged(damage) => Ok(Some(SafeMode::Damaged(damage))),
            Condition::Unchecked | Condition::Sound => found,
        }
    }

    /// Whether it was not made anew: then it knows every node that has copies of its blocks.
    pub fn knows_its_nodes(&self) -> Result<bool> {
        let is_made = |row: DoubtRow| matches!(row.why, Doubt::Made | Doubt::Restored { .. });
        self.view(|txn| Ok(!txn.get::<DoubtRow>(&MetaKey)?.is_some_and(is_made)))
    }

    /// The history is taken as it is, and puts that may have been committed by a change that is lost are not waited for.
    pub fn end_safe_mode(&self, lease_until_ms: u64) -> Result<bool> {
        self.change(|txn| {
            for (put, row) in unsettled(txn)? {
                txn.put(&put, &PutRow { lease_until_ms, ..row })?;
            }
            let was_broken = txn.remove::<SafeModeRow>(&MetaKey)?;
            Ok(txn.remove::<DoubtRow>(&MetaKey)? || was_broken)
        })
    }
}

pub(crate) fn safe_mode(txn: &impl Read) -> Result<Option<SafeMode>> {
    if let Some(row) = txn.get_if_sound::<SafeModeRow>(&MetaKey)? {
        return Ok(Some(SafeMode::Heard(row)));
    }
    Ok(txn.get_if_sound::<DoubtRow>(&MetaKey)?.map(SafeMode::Doubt))
}

/// Puts that were pending in a catalog that came from those that keep its records.
pub(crate) fn unsettled(txn: &impl Read) -> Result<Vec<(PutId, PutRow)>> {
    let puts = txn.all::<PutRow>(&[])?;
    Ok(puts.into_iter().filter(|(_, row)| row.lease_until_ms == crate::incoming::UNSETTLED_MS).collect())
}
