//! What a placement must come to: the code of the stripes, and how its blocks may lie once they are encoded.

use super::spread::Spread;
use crate::error::PlanError;
use crate::topology::RackId;
use codes::{Code, Reach, ToleranceCount};
use std::collections::BTreeMap;
use std::ops::Range;

/// What is asked of a policy.
#[derive(Clone, Debug)]
pub struct Terms {
    /// The code of the stripes.
    pub code: Code,
    /// At most so many blocks of a stripe may lie in one rack after encoding (c; EAR §3.2).
    pub rack_capacity: usize,
    /// So many racks hold all blocks of a stripe after encoding (R′; EAR §3.4); `None` for any number.
    pub target_racks: Option<usize>,
    /// Replicas of each block before encoding, at least one.
    pub replicas: usize,
    /// How they lie.
    pub spread: Spread,
}

/// Terms that can be met given enough racks, and what follows from them for a stripe.
///
/// A stripe consists of groups of data blocks, each followed by parities of its own, and of global parities: an (n,k) code
/// is one group with n−k parities; a code of local groups has one parity a group (EAR §3.5). A code that stores no data block as
/// it is, and is made by a pipeline of its replicas, is one group of its stored blocks alone: only these lie in racks afterwards.
#[derive(Clone, Debug)]
pub struct Rules {
    /// As they were asked for.
    pub(super) terms: Terms,
    /// Blocks of one group and global parities in one rack at most.
    per_group: usize,
    rack_failures: usize,
    members: Members,
}

/// The blocks of a stripe, by what they are for.
#[derive(Clone, Debug)]
struct Members {
    /// Data blocks of each group that are stored: none if the data are virtual.
    groups: Vec<usize>,
    /// Members that are parities of each group; equally many for all.
    parities: Vec<Vec<usize>>,
    /// Members that are global parities.
    globals: Vec<usize>,
}

impl Members {
    /// A code is one group unless it has several local ones and recovers whatever they let it.
    fn of(code: &Code) -> Members {
        let (n, k, of) = (code.n(), code.k(), code.local_groups());
        let count = of.iter().flatten().max().map_or(0, |last| last + 1);
        if count < 2 || !is_best_of_its_groups(code) {
            let data = if code.virtuals() > 0 { 0 } else { k };
            return Members { groups: vec![data], parities: vec![(k..n).collect()], globals: Vec::new() };
        }
        let members = |group: usize, blocks: Range<usize>| blocks.filter(move |&b| of[b] == Some(group));
        Members {
            groups: (0..count).map(|group| members(group, 0..k).count()).collect(),
            parities: (0..count).map(|group| members(group, k..n).collect()).collect(),
            globals: (k..n).filter(|&block| of[block].is_none()).collect(),
        }
    }
}

impl Rules {
    /// Checks the terms as far as they do not depend on the cluster.
    ///
    /// c blocks of each of f racks are survived if the stripe loses no more than it can, and each local group with the g global
    /// parities no more than g+1: f is the largest number for which both hold (EAR §3.5). The stripe can lose n−k, which with
    /// two groups is g+2. With more groups it is g+2 too: two groups that lose g+3 with the global parities are lost, which
    /// the paper's two conditions do not say. A code whose local groups promise more than it keeps, or than was tried, is
    /// taken by its tolerance, without groups.
    ///
    /// # Errors
    /// [`PlanError::NoReplicas`], [`PlanError::NotSystematic`], [`PlanError::RackCapacity`], [`PlanError::NoTargetRacks`].
    pub fn new(terms: Terms) -> Result<Rules, PlanError> {
        let code = &terms.code;
        if terms.replicas == 0 {
            return Err(PlanError::NoReplicas);
        }
        if terms.target_racks == Some(0) {
            return Err(PlanError::NoTargetRacks);
        }
        if !code.is_systematic() && code.virtuals() == 0 {
            return Err(PlanError::NotSystematic { code: code.name().to_owned() });
        }
        let (n, k, c) = (code.n(), code.k(), terms.rack_capacity);
        let members = Members::of(code);
        // What a group and the global parities may lose, and what the stripe.
        let (of_a_group, most) = match &members {
            Members { globals, groups, .. } if groups.len() > 1 => {
                (globals.len() + 1, (globals.len() + 2).min(n - k))
            }
            _ => (code.tolerance(), code.tolerance()),
        };
        if c == 0 || c > most {
            return Err(PlanError::RackCapacity { code: code.name().to_owned(), capacity: c, most });
        }
        let rack_failures = (most / c).min(of_a_group);
        let per_group = (of_a_group / rack_failures).min(c);
        Ok(Rules { terms, per_group, rack_failures, members })
    }

    /// As they were asked for.
    pub fn terms(&self) -> &Terms {
        &self.terms
    }

    /// Blocks of a stripe that a rack holds at most.
    pub fn per_rack(&self) -> usize {
        self.terms.rack_capacity
    }

    /// Blocks of one local group and global parities together that a rack holds at most; as many as blocks of the
    /// stripe if the code has no such groups.
    pub fn per_group(&self) -> usize {
        self.per_group
    }

    /// So many whole racks may fail.
    pub fn rack_failures(&self) -> usize {
        self.rack_failures
    }

    /// Local groups; 1 for a code that has none.
    pub fn groups(&self) -> usize {
        self.members.groups.len()
    }

    /// Whether the code stores no data block, so that no replica stays.
    pub(super) fn keeps_no_replica(&self) -> bool {
        self.terms.code.virtuals() > 0
    }

    /// Data blocks of a stripe.
    pub(super) fn k(&self) -> usize {
        self.terms.code.k()
    }

    /// The group of the data block at this place of its stripe.
    pub(super) fn group_of(&self, position: usize) -> usize {
        (0..self.members.groups.len()).find(|&group| self.data_of(group).contains(&position)).unwrap_or(0)
    }

    /// The data blocks of a group, by their places in the stripe; of a pipeline none, since none stays.
    pub(super) fn data_of(&self, group: usize) -> Range<usize> {
        let before: usize = self.members.groups[..group].iter().sum();
        before..before + self.members.groups[group]
    }

    /// The members that are a group's own parities.
    pub(super) fn parities_of(&self, group: usize) -> &[usize] {
        &self.members.parities[group]
    }

    /// The members that are global parities.
    pub(super) fn globals(&self) -> &[usize] {
        &self.members.globals
    }
}

impl Rules {
    /// Whether blocks of a stripe, each with its rack, lie as the rules want it. Nodes are not looked at.
    pub fn are_obeyed(&self, members: impl IntoIterator<Item = (usize, RackId)>, targets: &[RackId]) -> bool {
        let mut racks: BTreeMap<RackId, (usize, Vec<usize>)> = BTreeMap::new();
        for (member, rack) in members {
            let (blocks, of_groups) = racks.entry(rack).or_insert_with(|| (0, vec![0; self.groups()]));
            *blocks += 1;
            let group = self.group_of_member(member);
            let counted =
                of_groups.iter_mut().enumerate().filter(|&(of, _)| group.is_none_or(|group| group == of));
            counted.for_each(|(_, blocks)| *blocks += 1);
        }
        racks.iter().all(|(rack, (blocks, of_groups))| {
            targets.contains(rack)
                && *blocks <= self.per_rack()
                && of_groups.iter().all(|&blocks| blocks <= self.per_group)
        })
    }

    /// The group of a block of the stripe; `None` for a global parity.
    fn group_of_member(&self, member: usize) -> Option<usize> {
        match member < self.k() {
            true => Some(self.group_of(member)),
            false => self.members.parities.iter().position(|parities| parities.contains(&member)),
        }
    }
}

/// Whether a code of local groups recovers whatever they let it, as far as trying told.
fn is_best_of_its_groups(code: &Code) -> bool {
    let all = |ToleranceCount { patterns, recoverable }| patterns == recoverable;
    matches!(code.reach(), Some(Reach::Tried(count)) if all(count))
}
