//! Whether a copy may go: one pure function of all that the decision rests on (HEALING.md, "Letting go").
//!
//! ```text
//!   nothing stands against it   a sound file, no broken history, its reason kept by two nodes, its grace is over, no plan names it, its
//!                               node's list was compared
//!   and one of
//!     word        its block is gone, and its row says that it was let go with the block or never counted
//!     replicated  besides it as many others as are wanted were seen by their nodes a moment ago
//!     coded       every stored member of its block's stripe was; if the block is virtual, each was also read back from its disk
//!                 since it was written, and they give the block
//! ```
//!
//! Copies that are candidates themselves, or flawed, vouch for nobody: only locations are looked at.

use crate::spread::{Sites, are_spread};
use model::{BlockCopy, BlockFacts, BlockId, NodeId, Reason};
use std::collections::BTreeSet;
use std::fmt;

/// What is known of the cluster when orders are decided.
#[derive(Clone, Debug, Default)]
pub struct Sight {
    /// Where each node stands.
    pub sites: Sites,
    /// Nodes that live, and whose lists were compared since they came.
    pub compared: BTreeSet<NodeId>,
    /// Copies that their nodes said are there, a moment ago.
    pub attested: BTreeSet<BlockCopy>,
    /// Copies that their nodes have read from their disks since they were written, and found whole.
    pub read_back: BTreeSet<BlockCopy>,
    /// The history may be broken, as the caller knows or the catalog does: nothing goes.
    pub is_halted: bool,
    /// All of the catalog's file was checked since its start, and is as it was written: the catalog knows it.
    pub is_sound: bool,
    /// What made the copies superfluous is on enough of the nodes that keep the catalog's records: a catalog that is lost
    /// comes back with it.
    pub is_kept: bool,
    /// By the cluster's clock.
    pub now_ms: u64,
    /// How long a candidate is kept.
    pub grace_ms: u64,
}

/// A copy that is to go.
#[derive(Clone, Copy, Debug)]
pub struct Case<'a> {
    /// Which one.
    pub copy: BlockCopy,
    /// Since when it is a candidate, and what made it one; `None`: it is none.
    pub candidate: Option<(u64, Reason)>,
    /// A plan is out that writes just this copy.
    pub is_planned: bool,
    /// Its block's row; `None`: there is none, which alone says nothing.
    pub block: Option<&'a BlockFacts>,
    /// The stored members of its block's stripe, itself among them if it is one; none if it is in no stripe.
    pub members: &'a [(BlockId, BlockFacts)],
    /// By the stripe's code these give its block, if that is virtual.
    pub is_given: bool,
}

/// Why a copy has to wait.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Wait {
    /// Nothing goes before all of the catalog's file was checked, or while it is damaged.
    NotSound,
    /// Nothing goes while the history may be broken.
    Halted,
    /// Its reason is not yet on enough of the nodes that keep the catalog's records.
    NotKept,
    /// It is no candidate: nothing that the catalog did made it superfluous.
    NoReason,
    /// Somebody with an older plan may still read it.
    Grace,
    /// A plan is out that writes it.
    Planned,
    /// It is counted on.
    CountedOn,
    /// Its node is away, or was not compared since it came.
    NotCompared,
    /// Its block's row is not there, and nothing says that the block was let go.
    NoWord,
    /// Too few others of its block were seen.
    Replicas,
    /// A member of its stripe was not seen.
    Members,
    /// A member of the stripe that stands for its block was not read back since it was written.
    ReadBack,
    /// The stripe does not give its block.
    Given,
}

/// The conditions, each of which a test takes away to see what is lost then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Conditions {
    pub sound: bool,
    pub not_halted: bool,
    pub kept: bool,
    pub reason: bool,
    pub grace: bool,
    pub not_planned: bool,
    pub not_counted_on: bool,
    pub compared: bool,
    pub word: bool,
    pub replicas: bool,
    pub members: bool,
    pub read_back: bool,
    pub given: bool,
}

impl Conditions {
    pub(crate) const ALL: Conditions = Conditions {
        sound: true,
        not_halted: true,
        kept: true,
        reason: true,
        grace: true,
        not_planned: true,
        not_counted_on: true,
        compared: true,
        word: true,
        replicas: true,
        members: true,
        read_back: true,
        given: true,
    };
}

/// Whether the copy may be deleted now.
///
/// # Errors
/// What it waits for.
pub fn may_go(case: &Case<'_>, sight: &Sight) -> Result<(), Wait> {
    decide(case, sight, Conditions::ALL)
}

pub(crate) fn decide(case: &Case<'_>, sight: &Sight, on: Conditions) -> Result<(), Wait> {
    let copy = case.copy;
    let unless = |applies: bool, holds: bool, wait: Wait| if applies && !holds { Err(wait) } else { Ok(()) };
    unless(on.sound, sight.is_sound, Wait::NotSound)?;
    unless(on.not_halted, !sight.is_halted, Wait::Halted)?;
    unless(on.kept, sight.is_kept, Wait::NotKept)?;
    unless(on.reason, case.candidate.is_some(), Wait::NoReason)?;
    let (since_ms, reason) = case.candidate.map_or((0, None), |(since_ms, reason)| (since_ms, Some(reason)));
    let waited_ms = sight.now_ms.saturating_sub(since_ms);
    unless(on.grace, waited_ms >= sight.grace_ms, Wait::Grace)?;
    unless(on.not_planned, !case.is_planned, Wait::Planned)?;
    unless(on.compared, sight.compared.contains(&copy.node), Wait::NotCompared)?;
    let Some(block) = case.block else {
        return unless(on.word, reason.is_some_and(Reason::is_word), Wait::NoWord);
    };
    unless(on.not_counted_on, !block.locations.contains(&copy.location()), Wait::CountedOn)?;
    let Some(place) = block.stripe else {
        return unless(on.replicas, has_replicas(copy, block, sight), Wait::Replicas);
    };
    unless(on.members, has_members(case, &sight.attested), Wait::Members)?;
    if place.is_virtual {
        unless(on.read_back, has_members(case, &sight.read_back), Wait::ReadBack)?;
        unless(on.given, case.is_given, Wait::Given)?;
    }
    Ok(())
}

/// Whether as many others as are wanted, or as there are nodes for, were seen, and lie as they are to: hosts that are fewer than
/// copies make none of these superfluous.
fn has_replicas(copy: BlockCopy, block: &BlockFacts, sight: &Sight) -> bool {
    let others = block.locations.iter().map(|l| l.copy_of(copy.block)).filter(|other| *other != copy);
    let seen: Vec<NodeId> =
        others.filter(|other| sight.attested.contains(other)).map(|other| other.node).collect();
    seen.len() >= block.wanted().min(sight.sites.len()) && are_spread(&seen, block.wanted(), &sight.sites)
}

fn has_members(case: &Case<'_>, seen: &BTreeSet<BlockCopy>) -> bool {
    let is_seen = |(block, facts): &(BlockId, BlockFacts)| {
        let mut copies = facts.locations.iter().map(|l| l.copy_of(*block));
        copies.any(|copy| copy != case.copy && seen.contains(&copy))
    };
    !case.members.is_empty() && case.members.iter().all(is_seen)
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Wait::NotSound => {
                "the catalog's file is not checked since the start, or is damaged: nothing is deleted"
            }
            Wait::NoWord => "the rows of their blocks are missing, and no row says that these were let go",
            Wait::Halted => "the catalog's history may be broken: nothing is deleted",
            Wait::NotKept => {
                "what made them superfluous is not yet on two nodes that keep the catalog's records"
            }
            Wait::NoReason => "nothing made them superfluous",
            Wait::Grace => "somebody may still read them",
            Wait::Planned => "a plan is out that writes them",
            Wait::CountedOn => "they are counted on",
            Wait::NotCompared => "their nodes are away",
            Wait::Replicas => "too few others of their blocks were seen",
            Wait::Members => "a member of their stripes was not seen",
            Wait::ReadBack => {
                "a member of the stripes that stand for their blocks was not read back since it was written"
            }
            Wait::Given => "their stripes do not give their blocks",
        })
    }
}
