//! Safe mode: while the history may be broken, nothing is let go (HEALING.md, "Broken history").
//!
//! A catalog that was set back does not know it. A node that obeyed a later change, or another life of a coordinator, does,
//! and says so when it registers.

use crate::Catalog;
use crate::error::Result;
use crate::history::remembers;
use crate::rows::{MetaKey, SafeModeRow};
use crate::table::Read;
use model::{NodeId, Stamp};

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

    /// Why nothing is let go; `None`: the history is whole as far as is known.
    pub fn safe_mode(&self) -> Result<Option<SafeModeRow>> {
        self.view(|txn| txn.get::<SafeModeRow>(&MetaKey))
    }

    /// The history is taken as it is.
    pub fn end_safe_mode(&self) -> Result<bool> {
        self.change(|txn| txn.remove::<SafeModeRow>(&MetaKey))
    }
}
