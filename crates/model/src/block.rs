//! What is known of a block.

use crate::id::{BlockId, StripeId};
use crate::node::NodeId;
use gf::Fingerprint;
use std::collections::BTreeSet;
use std::fmt;

/// Maximum number of blocks of an object: 4 TiB in blocks of 64 MiB. A catalog's row and a message hold the list.
pub const MAX_OBJECT_BLOCKS: u64 = 65_536;

/// Where a copy of a block is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Location {
    /// The node.
    pub node: NodeId,
    /// Which writing of the block it is.
    pub generation: u64,
}

/// A copy of a block, wherever it is on its way from the plan that writes it to its deletion.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BlockCopy {
    /// The block.
    pub block: BlockId,
    /// The node that has it, or that a plan tells to write it.
    pub node: NodeId,
    /// Which writing of the block it is.
    pub generation: u64,
}

impl Location {
    /// As a copy of `block`.
    pub fn copy_of(self, block: BlockId) -> BlockCopy {
        BlockCopy { block, node: self.node, generation: self.generation }
    }
}

impl BlockCopy {
    /// Where it is.
    pub fn location(self) -> Location {
        Location { node: self.node, generation: self.generation }
    }
}

/// Why a copy does not count, though its block still has it noted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Flaw {
    /// Its node, asked twice for all that it has, did not name it.
    Missing,
    /// Its node read it twice, and a checksum failed. What is sound of it can still be read.
    Damaged,
    /// Its node cannot read it now ([`Unread`](crate::Unread)). No row stores this; it holds as long as the node reports it.
    Unread,
}

/// A copy that is neither a source nor redundancy, until it is found whole again or another one has taken its place.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Flawed {
    /// Which one.
    pub location: Location,
    /// What is wrong with it.
    pub flaw: Flaw,
}

/// What made a copy superfluous.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Reason {
    /// Its object was deleted or overwritten, or its stripe dropped.
    Deleted,
    /// A put or an order ended without it, and its block never was.
    GivenUp,
    /// Another copy has taken its place.
    Surplus,
    /// Its block was archived, and another copy kept.
    Archived,
    /// It came from somewhere, and its block is placed elsewhere.
    Found,
    /// A catalog of before took it for one that was let go and came back.
    LetGo,
    /// An order that was to write it ended without it.
    Unfinished,
    /// An operator named it: no row did.
    Operator,
}

impl Reason {
    /// Whether it alone says that the copy may go: whoever noted it knew that no block rests on the copy. For every other one the row of
    /// the copy's block must say what takes its place.
    pub fn is_word(self) -> bool {
        match self {
            Reason::Deleted | Reason::GivenUp | Reason::Operator => true,
            Reason::Surplus | Reason::Archived | Reason::Found | Reason::LetGo | Reason::Unfinished => false,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::Deleted => "its object was deleted or overwritten",
            Reason::GivenUp => "what was to write it was given up",
            Reason::Surplus => "another copy has taken its place",
            Reason::Archived => "its block was archived",
            Reason::Found => "its block is placed elsewhere",
            Reason::LetGo => "it was let go before, and came back",
            Reason::Unfinished => "an order that was to write it ended without it",
            Reason::Operator => "an operator named it",
        })
    }
}

/// A copy of a block as a node stores it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoredCopy {
    /// The block.
    pub block: BlockId,
    /// Its generation; another generation is not this block.
    pub generation: u64,
    /// Without the zeros at its end.
    pub stored_bytes: u64,
}

/// Digest and fingerprint of a block, as far as they are known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sums {
    /// BLAKE3.
    pub digest: Option<[u8; 32]>,
    /// That of its symbols, folded into one.
    pub fingerprint: Option<Fingerprint>,
}

impl Sums {
    /// Whether a block with `other` may be the one with these: what both know is equal.
    pub fn agrees(&self, other: &Sums) -> bool {
        let digests = self.digest.zip(other.digest).is_none_or(|(a, b)| a == b);
        digests && self.fingerprint.zip(other.fingerprint).is_none_or(|(a, b)| a == b)
    }
}

/// A part of an object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part {
    /// The object's name.
    pub name: String,
    /// The object's version.
    pub version: u64,
    /// Where in the object it begins.
    pub offset: u64,
    /// Whether the object ends with it.
    pub last: bool,
}

/// What is known of a block's contents.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Contents {
    /// Without the zeros at its end.
    pub stored_bytes: u64,
    /// As far as they are known.
    pub sums: Sums,
    /// `None` for a parity.
    pub part: Option<Part>,
}

/// A member of a stripe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemberState<T> {
    /// A block that nodes store.
    Stored(T),
    /// A data block of a code that stores no data as they are: made of the stored members, kept nowhere.
    Virtual(T),
    /// A short stripe has no such block: it is all zero, and stored nowhere.
    Zero,
}

impl<T> MemberState<T> {
    /// The block, if nodes store it.
    pub fn stored(&self) -> Option<&T> {
        match self {
            MemberState::Stored(block) => Some(block),
            MemberState::Virtual(_) | MemberState::Zero => None,
        }
    }

    /// The block, virtual or stored, if there is one.
    pub fn block(&self) -> Option<&T> {
        match self {
            MemberState::Stored(block) | MemberState::Virtual(block) => Some(block),
            MemberState::Zero => None,
        }
    }

    /// Whether it is a block that is kept nowhere.
    pub fn is_virtual(&self) -> bool {
        matches!(self, MemberState::Virtual(_))
    }

    /// The same state of something else.
    pub fn map<'a, U>(&'a self, change: impl FnOnce(&'a T) -> U) -> MemberState<U> {
        match self {
            MemberState::Stored(block) => MemberState::Stored(change(block)),
            MemberState::Virtual(block) => MemberState::Virtual(change(block)),
            MemberState::Zero => MemberState::Zero,
        }
    }

    /// The same state of something else, unless that fails.
    ///
    /// # Errors
    /// As `change`.
    pub fn try_map<'a, U, E>(
        &'a self,
        change: impl FnOnce(&'a T) -> Result<U, E>,
    ) -> Result<MemberState<U>, E> {
        Ok(match self {
            MemberState::Stored(block) => MemberState::Stored(change(block)?),
            MemberState::Virtual(block) => MemberState::Virtual(change(block)?),
            MemberState::Zero => MemberState::Zero,
        })
    }
}

impl<T> From<Option<T>> for MemberState<T> {
    fn from(block: Option<T>) -> MemberState<T> {
        block.map_or(MemberState::Zero, MemberState::Stored)
    }
}

/// Where a block stands in a stripe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StripePlace {
    /// The stripe.
    pub stripe: StripeId,
    /// Which of its n members the block is.
    pub index: u16,
    /// It is kept nowhere: the stripe's stored members stand for it.
    pub is_virtual: bool,
}

/// All that is known of a block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlockFacts {
    /// Without the zeros at its end.
    pub stored_bytes: u64,
    /// Unknown only for parities that were lost together with the catalog.
    pub sums: Sums,
    /// The highest generation that was ever given to a copy. Two copies of a block share one only if the same put wrote
    /// them, so (block, node, generation) is written at most once and a late deletion cannot hit a later copy.
    pub last_generation: u64,
    /// Its copies that are counted on.
    pub locations: Vec<Location>,
    /// Those that are not, and that no other one has replaced yet.
    pub flawed: Vec<Flawed>,
    /// Copies wanted while the block is in no stripe.
    pub replicas: u32,
    /// `None` for a parity.
    pub part: Option<Part>,
    /// The encoded stripe that it belongs to.
    pub stripe: Option<StripePlace>,
    /// Its object is gone; the bytes stay as long as its stripe needs them.
    pub dead: bool,
}

impl BlockFacts {
    /// A block that a put or an encoding has just made.
    pub fn new(stored_bytes: u64, sums: Sums, locations: Vec<Location>) -> BlockFacts {
        let last_generation = locations.iter().map(|l| l.generation).max().unwrap_or(0);
        let replicas = u32::try_from(locations.len()).unwrap_or(u32::MAX);
        let (flawed, part, stripe, dead) = (Vec::new(), None, None, false);
        BlockFacts { stored_bytes, sums, last_generation, locations, flawed, replicas, part, stripe, dead }
    }

    /// Returns the copy on a node, if it counts or would count if it were readable.
    pub fn on(&self, node: NodeId) -> Option<Location> {
        self.there().find(|l| l.node == node)
    }

    /// Returns the copies that count or would count if they were readable.
    pub fn there(&self) -> impl Iterator<Item = Location> {
        let unread = self.flawed.iter().filter(|flawed| flawed.flaw == Flaw::Unread);
        self.locations.iter().copied().chain(unread.map(|flawed| flawed.location))
    }

    /// Whether a living node holds a copy.
    pub fn lives(&self, living: &BTreeSet<NodeId>) -> bool {
        self.locations.iter().any(|l| living.contains(&l.node))
    }

    /// Whether it is kept nowhere, and its stripe stands for it.
    pub fn is_virtual(&self) -> bool {
        self.stripe.is_some_and(|place| place.is_virtual)
    }

    /// Copies that it is to have: outside a stripe those that its put asked for.
    pub fn wanted(&self) -> usize {
        match self.stripe {
            Some(place) if place.is_virtual => 0,
            Some(_) => 1,
            None => self.replicas as usize,
        }
    }

    /// Whether its flawed copies must stay noted, because it has fewer other copies than it should. A virtual member needs no copies, but its
    /// flawed copies are not surplus for that reason.
    pub fn needs_flawed(&self) -> bool {
        self.locations.len() < self.wanted().max(1)
    }

    /// Copies that it lacks, whoever lives: it is noted to have so many fewer than it is to have.
    pub fn lacks(&self) -> usize {
        self.wanted().saturating_sub(self.locations.len())
    }

    /// Copies that it is to have and has not, on living nodes.
    pub fn needs(&self, living: &BTreeSet<NodeId>) -> usize {
        let there = self.locations.iter().filter(|l| living.contains(&l.node)).count();
        self.wanted().saturating_sub(there)
    }

    /// Whether it has fewer living copies than it is to have.
    pub fn is_in_need(&self, living: &BTreeSet<NodeId>) -> bool {
        self.needs(living) > 0
    }

    /// Returns the nodes with a flawed copy of the block; what went wrong there may go wrong again.
    pub fn flawed_on(&self) -> impl Iterator<Item = NodeId> {
        self.flawed.iter().map(|flawed| flawed.location.node)
    }

    /// What is wrong with that copy, if it is known to be flawed.
    pub fn flaw_of(&self, location: Location) -> Option<Flaw> {
        self.flawed.iter().find(|flawed| flawed.location == location).map(|flawed| flawed.flaw)
    }

    /// Returns the facts with damaged and unread copies counted as readable: their sound parts are better than nothing.
    pub fn in_the_last_resort(&self) -> BlockFacts {
        let perhaps = self.flawed.iter().filter(|flawed| flawed.flaw != Flaw::Missing);
        let locations = self.locations.iter().copied().chain(perhaps.map(|flawed| flawed.location));
        BlockFacts { locations: locations.collect(), ..self.clone() }
    }

    /// The copy at `location`, as its node stores it.
    pub fn copy_at(&self, block: BlockId, location: Location) -> StoredCopy {
        StoredCopy { block, generation: location.generation, stored_bytes: self.stored_bytes }
    }
}
