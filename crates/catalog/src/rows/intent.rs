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
    /// Stripes of blocks that are in others, which go.
    Recode(Recoding),
}

/// Stripes that take the place of others: all data of these that belong to objects are members of the new ones.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Recoding {
    /// The new ones.
    pub stripes: Vec<NewStripe>,
    /// The old ones.
    #[serde(with = "form")]
    pub replaces: Vec<StripeId>,
}

impl Purpose {
    /// The stripes that it makes.
    pub fn stripes(&self) -> &[NewStripe] {
        match self {
            Purpose::Repair { .. } => &[],
            Purpose::Encode(new) => std::slice::from_ref(new),
            Purpose::Recode(Recoding { stripes, .. }) => stripes,
        }
    }

    /// The stripe of which the block becomes a member.
    pub fn stripe_of(&self, block: BlockId) -> Option<&NewStripe> {
        let has = |new: &&NewStripe| new.members.iter().any(|member| member.block() == Some(&block));
        self.stripes().iter().find(has)
    }

    /// The stripes that go with it.
    pub(crate) fn replaces(&self) -> &[StripeId] {
        match self {
            Purpose::Recode(Recoding { replaces, .. }) => replaces,
            Purpose::Repair { .. } | Purpose::Encode(_) => &[],
        }
    }
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
