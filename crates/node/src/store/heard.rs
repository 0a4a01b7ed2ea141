//! What the store has heard of the catalog: the last change, in the highest term. A coordinator whose catalog was set back
//! learns it from here (HEALING.md, "Terms, records, holders").

use super::{Identity, Result, Store, StoreError};
use model::Stamp;
use std::sync::PoisonError;

impl Store {
    /// The last change that was heard of, noted or not.
    pub fn heard(&self) -> Stamp {
        *self.folder.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody who speaks for the catalog names its last change. A new term is noted durably at once, changes within it by
    /// [`note_heard`](Self::note_heard).
    ///
    /// Errors: [`StoreError::OlderTerm`] if another life of a coordinator is obeyed already; the disk's.
    pub fn hear(&self, now: Stamp) -> Result<()> {
        let is_new_term = {
            let mut heard = self.folder.heard.lock().unwrap_or_else(PoisonError::into_inner);
            let (term, obeyed) = (now.term, heard.term);
            if term.number < obeyed.number || (term.number == obeyed.number && term.word != obeyed.word) {
                return Err(StoreError::OlderTerm { obeyed, term });
            }
            let is_new_term = term != obeyed;
            *heard = if is_new_term { now } else { (*heard).max(now) };
            is_new_term
        };
        if is_new_term { self.note_heard() } else { Ok(()) }
    }

    /// Somebody gives an order and names the last change that they know of. Only whom the node registered with is obeyed;
    /// within their term it counts as heard.
    ///
    /// Errors: [`StoreError::OlderTerm`]; [`StoreError::UnheardTerm`], for a node takes a new term only by registering.
    pub fn obey(&self, by: Stamp) -> Result<()> {
        let mut heard = self.folder.heard.lock().unwrap_or_else(PoisonError::into_inner);
        let (term, obeyed) = (by.term, heard.term);
        if term.number > obeyed.number || obeyed.number == 0 {
            return Err(StoreError::UnheardTerm { obeyed, term });
        }
        if term != obeyed {
            return Err(StoreError::OlderTerm { obeyed, term });
        }
        *heard = (*heard).max(by);
        Ok(())
    }

    /// Makes what was heard durable, unless it already is or the disk takes no writes.
    pub fn note_heard(&self) -> Result<()> {
        let heard = self.heard();
        self.folder.change(|identity| Identity { heard, ..identity.clone() })
    }
}
