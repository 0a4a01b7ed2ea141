//! Blocks together with their stripes: all that a decision about one needs.

use crate::block::{BlockFacts, MemberState};
use crate::id::{BlockId, StripeId};
use crate::node::NodeId;
use crate::note::{self, MemberFacts, StripeFacts};
use std::collections::BTreeSet;

/// A block with all that a plan about it needs.
#[derive(Clone, Debug)]
pub struct Placement {
    /// The block.
    pub block: BlockId,
    /// What is known of it.
    pub facts: BlockFacts,
    /// Its stripe, if it is in one.
    pub stripe: Option<StripePlacement>,
}

/// The stripe of a block.
#[derive(Clone, Debug)]
pub struct StripePlacement {
    /// The stripe.
    pub id: StripeId,
    /// Which of its members the block is.
    pub index: u16,
    /// The code's name.
    pub code: String,
    /// Logical length of its blocks.
    pub block_bytes: u64,
    /// n of them.
    pub members: Vec<MemberState<(BlockId, BlockFacts)>>,
    /// Nodes that hold one of its blocks, dead or alive, or are being written one.
    pub holders: BTreeSet<NodeId>,
}

impl Placement {
    /// The same with damaged copies among those that can be read, its stripe's too.
    pub fn in_the_last_resort(&self) -> Placement {
        let member = |(block, facts): &(BlockId, BlockFacts)| (*block, facts.in_the_last_resort());
        let stripe = self.stripe.as_ref().map(|stripe| StripePlacement {
            members: stripe.members.iter().map(|state| state.map(member)).collect(),
            ..stripe.clone()
        });
        Placement { block: self.block, facts: self.facts.in_the_last_resort(), stripe }
    }
}

impl StripePlacement {
    /// Its blocks, virtual ones too.
    pub fn blocks(&self) -> impl Iterator<Item = &(BlockId, BlockFacts)> {
        self.members.iter().filter_map(MemberState::block)
    }

    /// Its blocks that are stored.
    pub fn stored(&self) -> impl Iterator<Item = &(BlockId, BlockFacts)> {
        self.members.iter().filter_map(MemberState::stored)
    }

    /// Which members can be read from living nodes, or are known to be zero, be it since they store nothing. Virtual ones can be read if they
    /// have a copy yet.
    pub fn usable(&self, living: &BTreeSet<NodeId>) -> Vec<bool> {
        let is_usable = |member: &MemberState<(BlockId, BlockFacts)>| {
            member.block().is_none_or(|(_, facts)| facts.stored_bytes == 0 || facts.lives(living))
        };
        self.members.iter().map(is_usable).collect()
    }

    /// What the sidecar of member `index` says of its stripe. Generations are those that `remade` tells; for other
    /// members it is the newest that is known.
    pub fn note(&self, index: u16, remade: impl Fn(u16) -> Option<u64>) -> Vec<u8> {
        let facts = StripeFacts { stripe: self.id, code: &self.code, block_bytes: self.block_bytes };
        let members = self.members.iter().enumerate().map(|(member, state)| {
            state.map(|(block, facts)| {
                let facts = facts.as_member(*block);
                MemberFacts { generation: remade(member as u16).unwrap_or(facts.generation), ..facts }
            })
        });
        note::encode(facts, index, members)
    }
}

impl BlockFacts {
    /// As a member of a stripe in the stripe's note.
    pub fn as_member(&self, block: BlockId) -> MemberFacts<'_> {
        MemberFacts {
            block,
            generation: self.locations.iter().map(|l| l.generation).max().unwrap_or(self.last_generation),
            stored_bytes: self.stored_bytes,
            sums: self.sums,
            part: self.part.as_ref(),
        }
    }
}
