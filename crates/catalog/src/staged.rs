//! What is staged under a start of a store, against the start that its node has at the commit (HEALING.md, "Incarnations").
//!
//! | the node's row says | the copy |
//! |---|---|
//! | the same store and word | is good |
//! | the same store, another word; or nobody said under which it was staged | counts, and is unconfirmed: its node is compared now, since its list at the registration was made when nothing was placed there yet |
//! | another store | is refused: it lies on another disk |

use crate::error::Result;
use crate::rows::NodeRow;
use crate::table::Read;
use model::{BlockCopy, Incarnation, NodeId, StoreId, Sums};

/// A start of a store: the store, and the word of the start.
pub type StartOfStore = (StoreId, Incarnation);

/// A copy that is durable on its node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Staged {
    /// It.
    pub copy: BlockCopy,
    /// Its length.
    pub stored_bytes: u64,
    /// What its node computed.
    pub sums: Sums,
    /// Who said so; `None` if it did not say under which start.
    pub by: Option<StartOfStore>,
}

/// What became of a staged copy at the commit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It counts.
    Good,
    /// It counts, and its node is to be compared: it was started since.
    Unconfirmed,
    /// It does not count, for this reason.
    Refused(String),
}

/// What becomes of a copy that was staged by this start, as far as its node is concerned.
pub(crate) fn fate(txn: &impl Read, node: NodeId, by: Option<StartOfStore>) -> Result<Fate> {
    let row = txn.get::<NodeRow>(&node)?;
    Ok(match (row, by) {
        (Some(row), Some((store, _))) if row.store != store => {
            Fate::Refused(format!("it lies in store {store}, and {node} is store {} by now", row.store))
        }
        (Some(row), Some(by)) if by == (row.store, row.incarnation) => Fate::Good,
        _ => Fate::Unconfirmed,
    })
}
