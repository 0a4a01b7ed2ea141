//! What there is, what lacks, and how far all is from being lost: what `cluster status` and `health` tell of the catalog.

use crate::Catalog;
use crate::candidates::Waiting;
use crate::error::Result;
use model::NodeId;
use std::collections::{BTreeMap, BTreeSet};

/// Counts over the whole catalog, with the nodes that live.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Survey {
    /// What there is, and what is missing.
    pub counts: Counts,
    /// How far everything is from being lost.
    pub health: Health,
    /// Number of copies that count, by node, including dead nodes.
    pub held: BTreeMap<NodeId, u64>,
}

/// What there is, and what is missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Present versions.
    pub objects: u64,
    /// Bytes of all of them.
    pub object_bytes: u64,
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

/// Objects and stripes by the losses, of nodes say, that they surely survive; and what is short of copies.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Health {
    /// Objects that can be read, by their margin: that of the worst of their blocks. Of no blocks nothing can be lost: such an
    /// object has the highest number there is.
    pub objects: BTreeMap<u64, u64>,
    /// Encoded stripes all of which can be had, by their margin.
    pub stripes: BTreeMap<u64, u64>,
    /// Objects that cannot be read now.
    pub unreadable: u64,
    /// The first of them, by name.
    pub unreadable_names: Vec<String>,
    /// Encoded stripes some of which cannot be had now.
    pub broken_stripes: u64,
    /// Blocks that have fewer living copies than they are to have.
    pub short: u64,
    /// Bytes of the copies that these have not.
    pub short_bytes: u64,
    /// Bytes that nodes receive, all together, so that these copies are made: one for each of a replica, k for each of a member.
    pub carried_bytes: u64,
    /// Of these, blocks whose copies are all noted, on nodes some of which do not live.
    pub dead: u64,
    /// Copies that their nodes have lost or found damaged, and that no others have replaced.
    pub flawed: u64,
    /// The same of the missing ones among them.
    pub missing: u64,
    /// Number of copies that count on living nodes that cannot read them now.
    pub unread: u64,
}

impl Catalog {
    /// As it is now. The first time all of the catalog is read; then what has changed since is, and what lies on nodes that lived
    /// then and do not now, or the other way round, is looked at.
    pub fn survey(&self, living: &BTreeSet<NodeId>) -> Result<Survey> {
        self.tally.survey(self, living)
    }
}
