//! What the coordinator has ordered, as the catalog keeps it.

use super::StripeRow;
use crate::form;
use model::{BlockCopy, BlockId, MemberState, NodeId, Stamp, StripeId};
use serde::{Deserialize, Serialize};

/// An order of the coordinator under way: what its flow may write, and what that is for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct IntentRow {
    pub attempt: u32,
    pub purpose: Purpose,
    #[serde(with = "form")]
    pub copies: Vec<BlockCopy>,
    #[serde(with = "form")]
    pub birth: Stamp,
}

/// What an order makes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Purpose {
    /// Copies of blocks that lack one.
    Repair {
        /// The copy on this node goes; of a stripe's block all go.
        #[serde(with = "form")]
        replaces: Option<NodeId>,
    },
    /// A stripe.
    Encode(NewStripe),
}

/// A stripe to encode.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NewStripe {
    /// Its id.
    #[serde(with = "form")]
    pub stripe: StripeId,
    /// The code's name.
    pub code: String,
    /// Logical length of its blocks.
    pub block_bytes: u64,
    /// n members; parities are new ids.
    #[serde(with = "form")]
    pub members: Vec<MemberState<BlockId>>,
    /// How many of the members, from the first on, are data.
    pub data: u16,
    /// Which copies of data blocks stay; the flow writes the other members.
    #[serde(with = "form")]
    pub kept: Vec<BlockCopy>,
}

impl NewStripe {
    pub(crate) fn row(&self) -> StripeRow {
        let NewStripe { code, block_bytes, members, .. } = self.clone();
        StripeRow { code, block_bytes, members }
    }
}
