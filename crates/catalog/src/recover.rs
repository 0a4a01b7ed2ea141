//! Recovering: what nodes have and the history knows nothing of, because its last changes are lost, or all of them.
//!
//! Of every name that has no version here the highest comes back of which all blocks are there. A block is there if a node
//! has it, or if the parities' sidecars say that it belongs to a stripe from which it can be decoded. Of a catalog that is
//! lost with all its records, what was deleted, but not yet removed by the nodes, comes back too: nothing on the nodes says
//! that it was deleted.
//!
//! What is left out is listed, and an operator settles it version by version: takes one in place of the version that its name
//! has, or drops one. What is dropped, or replaced, becomes candidates, and goes by the rules of `letting_go.rs`.
//!
//! Where a lost branch of the history is kept aside (`branch.rs`) it says what it committed: those versions come back with their
//! digests, in place of what was not touched since, and what it ended itself does not come back unasked.

use crate::branch::{Branch, Lost, Made};
use crate::error::{CatalogError, Result};
use crate::history::{position, remembers};
use crate::put::end_put;
use crate::put_block::FIRST_GENERATION;
use crate::rows::{CandidateRow, MetaKey, ObjectRow, PlannedRow, PutBlockRow, StripeRow};
use crate::safe_mode::unsettled;
use crate::table::{Change, Key, Read};
use crate::virtuals::replicas_suffice;
use crate::{Catalog, meta};
use model::note::{NotedMember, StripeNote};
use model::{
    BlockCopy, BlockFacts, BlockId, Contents, Location, MemberState, NodeId, Part, PutId, Reason, Stamp,
    StripeId, StripePlace,
};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// A copy that a node has, with its sidecar.
#[derive(Clone, Debug)]
pub struct FoundBlock {
    /// The block.
    pub block: BlockId,
    /// Where, and which writing of it.
    pub location: Location,
    /// What its sidecar says of it.
    pub facts: Contents,
    /// What its sidecar says of its stripe.
    pub stripe: Option<StripeNote>,
    /// The change that noted the copy.
    pub birth: Stamp,
}

/// What a recovery goes by.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// What nodes have.
    pub found: Vec<FoundBlock>,
    /// These were asked.
    pub asked: BTreeSet<NodeId>,
    /// Lost branches of the history, as far as they differ from it.
    pub branches: Vec<Branch>,
    /// Nobody asked for it: only what a branch committed is taken.
    pub is_unasked: bool,
}

/// What was taken into the catalog, and what was not.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Recovered {
    /// Objects that are whole.
    pub objects: u64,
    /// Their blocks, and those of their stripes.
    pub blocks: u64,
    /// Stripes with a block of an object.
    pub stripes: u64,
    /// Versions that are newer than what there is of their names, and lack blocks.
    pub incomplete: Vec<(String, u64)>,
    /// Versions that are whole, and newer than the one that their name has.
    pub newer: Vec<(String, u64)>,
    /// Versions that are not newer than the one that their name has: they hold nothing up, and stay until an operator drops them.
    pub older: Vec<(String, u64)>,
    /// Versions that stand, and that a lost branch of the history had removed.
    pub removed: Vec<(String, u64)>,
    /// Copies of the versions that an operator dropped.
    pub dropped_copies: u64,
    /// Versions that were left alone because nobody asked.
    pub others: u64,
}

/// When it is, in milliseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecoveredAt {
    /// By the cluster's clock.
    pub now_ms: u64,
    /// By the wall's, since 1970: when objects were made.
    pub created_ms: u64,
}

/// What an operator says of versions that are left out: names and versions.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Choices {
    /// These take the place of the versions that their names have.
    pub take: BTreeSet<(String, u64)>,
    /// Nobody wants these any more.
    pub drop: BTreeSet<(String, u64)>,
}

impl Catalog {
    /// Takes from what nodes have the whole versions of which this history knows nothing, for names that have no other; says
    /// which it leaves out. What was born in this history is known, or was let go. `choices` are an operator's word on versions
    /// that were left out before. A version that a lost branch committed also takes the place of one that was not touched since the
    /// branch began. `recoverable` as for [`Catalog::counts`]; it returns an empty list for a code that it does not
    /// know.
    ///
    /// # Errors
    /// [`CatalogError::NoSuchVersion`] and [`CatalogError::Invalid`] for a choice that cannot be made; then nothing is changed.
    pub fn recover(
        &self,
        findings: &Findings,
        choices: &Choices,
        replicas: u32,
        recoverable: impl Fn(&str, &[bool]) -> Vec<bool>,
        when: RecoveredAt,
    ) -> Result<Recovered> {
        let lost = Lost::new(&findings.branches);
        self.change(|txn| {
            let pending = Pending::of(txn)?;
            let mut unknown = Vec::new();
            for block in &findings.found {
                if is_unknown(txn, block, &pending, &lost)? {
                    unknown.push(block.clone());
                }
            }
            let highest = highest_version(&unknown);
            let dropped_copies = drop_versions(txn, &mut unknown, choices, &pending, when.now_ms)?;
            let sight = Sight::new(unknown, &recoverable);
            check(txn, &sight, choices)?;
            let taken = Taken { choices, lost: &lost, is_unasked: findings.is_unasked };
            let mut recovered = sight.write(txn, &taken, replicas, when, &pending)?;
            let found = sight.versions().into_keys().collect();
            recovered.incomplete.extend(lost.waits_for(txn, &findings.asked, &found)?);
            recovered.removed = lost.removed(txn)?;
            let before = meta(txn)?;
            let mut row = before.clone();
            row.next_version = row.next_version.max(highest + 1);
            if row != before {
                txn.put(&MetaKey, &row)?;
            }
            Ok(Recovered { dropped_copies, ..recovered })
        })
    }

    /// Versions above those that their names have, of which a change that is lost may have been the commit: those of which nodes
    /// have anything and this history knows nothing, and those that are whole, of puts that earlier terms noted and that are not
    /// over, or were given up. If there are none, and all nodes have said what they have, no name is uncertain.
    pub fn uncertain_versions(
        &self,
        found: &[FoundBlock],
        recoverable: impl Fn(&str, &[bool]) -> Vec<bool>,
    ) -> Result<BTreeSet<(String, u64)>> {
        let lost = Lost::new(&[]);
        self.view(|txn| {
            let pending = Pending::of(txn)?;
            let term = position(txn)?.stamp.term.number;
            let (mut unknown, mut given_up) = (Vec::new(), Vec::new());
            for block in found {
                if is_unknown(txn, block, &pending, &lost)? {
                    unknown.push(block.clone());
                } else if block.birth.term.number < term && is_of_a_put(txn, block)? {
                    given_up.push(FoundBlock { stripe: None, ..block.clone() });
                }
            }
            let mut uncertain: BTreeSet<(String, u64)> = pending.puts.into_keys().collect();
            for (sight, counts_in_part) in
                [(Sight::new(unknown, &recoverable), true), (Sight::new(given_up, &recoverable), false)]
            {
                for ((name, version), blocks) in sight.versions() {
                    let name = name.to_owned();
                    let standing = txn.get::<ObjectRow>(&name)?.map_or(0, |row| row.version);
                    if version > standing && (counts_in_part || sight.whole(&blocks).is_some()) {
                        uncertain.insert((name, version));
                    }
                }
            }
            Ok(uncertain)
        })
    }
}

/// Whether it is a copy of no object, which a put under way may write, or one that was given up has written.
fn is_of_a_put(txn: &impl Read, block: &FoundBlock) -> Result<bool> {
    let is_given_up = |row: CandidateRow| row.reason == Reason::GivenUp;
    Ok(block.facts.part.is_some()
        && txn.get::<BlockFacts>(&block.block)?.is_none()
        && (txn.get::<PlannedRow>(&block.copy())?.is_some()
            || txn.get::<CandidateRow>(&block.copy())?.is_some_and(is_given_up)))
}

/// Whether nothing is known of a copy, or only that its put was given up, which a lost branch committed.
fn is_unknown(txn: &impl Read, block: &FoundBlock, pending: &Pending, lost: &Lost) -> Result<bool> {
    let copy = block.copy();
    if txn.get::<BlockFacts>(&block.block)?.is_some() || !lost.agrees(block.block, &block.facts) {
        return Ok(false);
    }
    if let Some(row) = txn.get::<CandidateRow>(&copy)? {
        let is_given_up = row.reason == Reason::GivenUp && !row.is_ordered;
        return Ok(is_given_up && lost.counts_on(&copy));
    }
    let is_planned = txn.get::<PlannedRow>(&copy)?.is_some();
    Ok(pending.copies.contains(&copy) || !(is_planned || remembers(txn, block.birth)?))
}

/// The highest version of which anything was found.
fn highest_version(found: &[FoundBlock]) -> u64 {
    let noted = found.iter().flat_map(|block| block.noted_parts());
    let own = found.iter().filter_map(|block| block.facts.part.as_ref());
    own.chain(noted).map(|part| part.version).max().unwrap_or(0)
}

/// Makes candidates of what was found of the versions to be dropped, and takes it out of `found`. Parities go with the last
/// version that their stripe has. How many copies these are.
fn drop_versions(
    txn: &Change,
    found: &mut Vec<FoundBlock>,
    choices: &Choices,
    pending: &Pending,
    now_ms: u64,
) -> Result<u64> {
    let goes = |part: &Part| choices.drop.contains(&(part.name.clone(), part.version));
    let mut gone = BTreeSet::new();
    let (dropped, kept): (Vec<_>, Vec<_>) = std::mem::take(found).into_iter().partition(|block| {
        let parts: Vec<&Part> = block.facts.part.iter().chain(block.noted_parts()).collect();
        let is_dropped = match &block.facts.part {
            Some(part) => goes(part),
            None => !parts.is_empty() && parts.iter().all(|part| goes(part)),
        };
        if is_dropped {
            gone.extend(parts.into_iter().filter(|part| goes(part)).map(|p| (p.name.clone(), p.version)));
        }
        is_dropped
    });
    *found = kept;
    for (name, version) in &choices.drop {
        if !gone.contains(&(name.clone(), *version)) {
            return Err(CatalogError::NoSuchVersion { name: name.clone(), version: *version });
        }
        if let Some(&put) = pending.puts.get(&(name.clone(), *version)) {
            let planned = txn.all::<PutBlockRow>(&Key::to_bytes(&put))?;
            end_put(txn, put, &planned, now_ms)?;
        }
    }
    for block in &dropped {
        txn.to_candidate(block.copy(), Reason::Deleted, block.facts.stored_bytes, now_ms)?;
    }
    Ok(dropped.len() as u64)
}

/// An error for a version to be taken that cannot be: nothing was found of it, it is older than what stands, or lacks blocks.
fn check(txn: &impl Read, sight: &Sight, choices: &Choices) -> Result<()> {
    let versions = sight.versions();
    for (name, version) in &choices.take {
        let Some(blocks) = versions.get(&(name.as_str(), *version)) else {
            return Err(CatalogError::NoSuchVersion { name: name.clone(), version: *version });
        };
        let present = txn.get::<ObjectRow>(name)?.map_or(0, |row| row.version);
        if present > *version {
            return Err(CatalogError::Invalid(format!(
                "{name:?} has version {present}, which is newer than {version}: remove it first ('stripeline rm'), if the older \
                 one is wanted"
            )));
        }
        if sight.whole(blocks).is_none() {
            return Err(CatalogError::Invalid(format!(
                "version {version} of {name:?} lacks blocks on the nodes that live: start those that are away, or drop it"
            )));
        }
    }
    Ok(())
}

/// What decides about a version.
struct Taken<'a> {
    choices: &'a Choices,
    lost: &'a Lost<'a>,
    is_unasked: bool,
}

/// Puts that may have been committed by a change that is lost.
struct Pending {
    puts: BTreeMap<(String, u64), PutId>,
    copies: BTreeSet<BlockCopy>,
}

impl Pending {
    fn of(txn: &impl Read) -> Result<Pending> {
        let mut pending = Pending { puts: BTreeMap::new(), copies: BTreeSet::new() };
        for (put, row) in unsettled(txn)? {
            pending.puts.insert((row.name, row.version), put);
            for (key, row) in txn.all::<PutBlockRow>(&Key::to_bytes(&put))? {
                let copy =
                    |&node: &NodeId| BlockCopy { block: key.block, node, generation: FIRST_GENERATION };
                pending.copies.extend(row.nodes.iter().map(copy));
            }
        }
        Ok(pending)
    }

    /// The put of this version, if it was pending, is over: what was found of it is counted on, the rest is given up.
    fn end(&self, txn: &Change, version: (&str, u64), sight: &Sight, now_ms: u64) -> Result<()> {
        let Some(&put) = self.puts.get(&(version.0.to_owned(), version.1)) else { return Ok(()) };
        for (&block, copies) in &sight.copies {
            let of_it = copies.iter().map(|l| l.copy_of(block)).filter(|copy| self.copies.contains(copy));
            of_it.into_iter().try_for_each(|copy| txn.copy_arrived(copy))?;
        }
        let planned = txn.all::<PutBlockRow>(&Key::to_bytes(&put))?;
        end_put(txn, put, &planned, now_ms)
    }
}

impl FoundBlock {
    fn copy(&self) -> BlockCopy {
        self.location.copy_of(self.block)
    }

    /// What its sidecar says of the data of its stripe.
    fn noted_parts(&self) -> impl Iterator<Item = &Part> {
        let members = self.stripe.iter().flat_map(StripeNote::stored);
        members.filter_map(|member| member.contents.part.as_ref())
    }
}

/// Everything that was found, sorted.
struct Sight {
    copies: BTreeMap<BlockId, Vec<Location>>,
    facts: BTreeMap<BlockId, Contents>,
    /// When a copy of each was noted.
    births: BTreeMap<BlockId, Stamp>,
    stripes: BTreeMap<StripeId, StripeNote>,
    places: BTreeMap<BlockId, StripePlace>,
    /// Blocks that are on a node or can be decoded.
    had: BTreeSet<BlockId>,
    /// Members of stripes that these do not give.
    not_given: BTreeSet<BlockId>,
}

impl Sight {
    fn new(found: Vec<FoundBlock>, recoverable: &impl Fn(&str, &[bool]) -> Vec<bool>) -> Sight {
        let mut sight = Sight {
            copies: BTreeMap::new(),
            facts: BTreeMap::new(),
            births: BTreeMap::new(),
            stripes: BTreeMap::new(),
            places: BTreeMap::new(),
            had: BTreeSet::new(),
            not_given: BTreeSet::new(),
        };
        let mut stripes: BTreeMap<StripeId, Vec<(StripeNote, Stamp)>> = BTreeMap::new();
        for block in found {
            sight.had.insert(block.block);
            let copies = sight.copies.entry(block.block).or_default();
            // An older copy may lie beside a newer one: that one counts.
            match copies.iter_mut().find(|known| known.node == block.location.node) {
                Some(known) => known.generation = known.generation.max(block.location.generation),
                None => copies.push(block.location),
            }
            sight.births.insert(block.block, block.birth);
            sight.facts.insert(block.block, block.facts);
            if let Some(stripe) = block.stripe {
                stripes.entry(stripe.stripe).or_default().push((stripe, block.birth));
            }
        }
        // Parities of an attempt that was given up name other parities: the attempt of which most is there counts.
        let there = |s: &StripeNote| s.stored().filter(|member| sight.had.contains(&member.block)).count();
        let best = |(id, versions): (StripeId, Vec<(StripeNote, Stamp)>)| {
            let newest = versions.iter().map(|(_, birth)| *birth).max()?;
            let counted = versions.into_iter().map(|(note, _)| (there(&note), note));
            let (there, note) = counted.max_by_key(|(there, _)| *there)?;
            // Of those of which all is there the newest: blocks of others may have become its members.
            let whole = (there == note.stored().count()).then_some(newest);
            Some(((Reverse(whole), Reverse(there), id), note))
        };
        let mut best: Vec<_> = stripes.into_iter().filter_map(best).collect();
        best.sort_by_key(|(rank, _)| *rank);
        for ((_, _, id), note) in best {
            // A block is in one stripe only; another one that names it was given up, or has gone with it.
            if note.blocks().all(|member| !sight.places.contains_key(&member.block)) {
                sight.add_stripe(id, note, recoverable);
            }
        }
        sight
    }

    fn add_stripe(
        &mut self,
        id: StripeId,
        stripe: StripeNote,
        recoverable: &impl Fn(&str, &[bool]) -> Vec<bool>,
    ) {
        let there = |member: &MemberState<NotedMember>| match member {
            MemberState::Stored(noted) => self.copies.contains_key(&noted.block),
            MemberState::Virtual(_) => false,
            MemberState::Zero => true,
        };
        let usable: Vec<bool> = stripe.members.iter().map(there).collect();
        let had = recoverable(&stripe.code, &usable);
        let is_there = |block| self.copies.contains_key(&block);
        if had.len() != stripe.members.len() || replicas_suffice(&stripe, &had, is_there) {
            return;
        }
        for (index, (member, had)) in stripe.members.iter().zip(had).enumerate() {
            let Some(NotedMember { block, contents, .. }) = member.block() else { continue };
            match had {
                true => _ = self.had.insert(*block),
                false => _ = self.not_given.insert(*block),
            }
            self.facts.entry(*block).or_insert_with(|| contents.clone());
            let place = StripePlace { stripe: id, index: index as u16, is_virtual: member.is_virtual() };
            self.places.insert(*block, place);
        }
        self.stripes.insert(id, stripe);
    }

    /// Blocks of each version of each object.
    fn versions(&self) -> BTreeMap<(&str, u64), Vec<BlockId>> {
        let mut versions: BTreeMap<(&str, u64), Vec<BlockId>> = BTreeMap::new();
        for (&block, facts) in &self.facts {
            if let Some(part) = &facts.part {
                versions.entry((part.name.as_str(), part.version)).or_default().push(block);
            }
        }
        versions
    }

    /// The blocks of a version in order, if they are all there.
    fn whole(&self, blocks: &[BlockId]) -> Option<Vec<BlockId>> {
        let mut at: BTreeMap<u64, BlockId> = BTreeMap::new();
        let rank =
            |block: &BlockId| (self.places.contains_key(block), self.copies.get(block).map_or(0, Vec::len));
        for &block in blocks.iter().filter(|block| self.had.contains(block)) {
            let offset = self.part(&block)?.offset;
            // A block that was written again elsewhere: the same bytes twice.
            let best = at.entry(offset).or_insert(block);
            if rank(best) < rank(&block) {
                *best = block;
            }
        }
        let (mut offset, mut list) = (0, Vec::new());
        loop {
            let block = *at.get(&offset)?;
            list.push(block);
            if self.part(&block)?.last {
                return Some(list);
            }
            let stored_bytes = self.facts.get(&block)?.stored_bytes;
            if stored_bytes == 0 {
                return None;
            }
            offset = offset.checked_add(stored_bytes)?;
        }
    }

    fn part(&self, block: &BlockId) -> Option<&Part> {
        self.facts.get(block)?.part.as_ref()
    }

    fn write(
        &self,
        txn: &Change,
        taken: &Taken,
        replicas: u32,
        when: RecoveredAt,
        pending: &Pending,
    ) -> Result<Recovered> {
        let Taken { choices, lost, is_unasked } = *taken;
        let mut recovered = Recovered::default();
        let mut live: BTreeSet<BlockId> = BTreeSet::new();
        for ((name, version), blocks) in self.versions().into_iter().rev() {
            let key = (name.to_owned(), version);
            let present = txn.get::<ObjectRow>(&key.0)?;
            let standing = present.as_ref().map_or(0, |row| row.version);
            let (is_taken, made) = (choices.take.contains(&key), lost.made(name, version));
            let is_over = made.is_none()
                && !is_taken
                && lost.has_ended(blocks.iter().filter_map(|block| self.births.get(block)));
            if version <= standing || is_over {
                recovered.older.push(key);
                continue;
            }
            if made.is_none() && is_unasked {
                recovered.others += 1;
                continue;
            }
            let Some(blocks) = self.whole_of(&blocks, made) else {
                recovered.incomplete.push(key);
                continue;
            };
            if standing > 0 && !is_taken && !lost.replaces(name, version, standing) {
                recovered.newer.push(key);
                continue;
            }
            for block in present.iter().flat_map(|row| &row.blocks) {
                txn.retire_block(*block, when.now_ms)?;
            }
            let row = made.map_or_else(|| self.object(version, &blocks, when.created_ms), |m| m.row.clone());
            txn.put(&key.0, &row)?;
            pending.end(txn, (name, version), self, when.now_ms)?;
            live.extend(blocks);
            recovered.objects += 1;
        }
        recovered.stripes = self.write_stripes(txn, &live)?;
        recovered.blocks = self.write_blocks(txn, &live, replicas, lost)?;
        Ok(recovered)
    }

    /// The same of a version that a branch committed: of its blocks, and no others.
    fn whole_of(&self, blocks: &[BlockId], made: Option<&Made>) -> Option<Vec<BlockId>> {
        let Some(made) = made else { return self.whole(blocks) };
        let own: Vec<BlockId> = blocks.iter().copied().filter(|b| made.blocks.contains_key(b)).collect();
        self.whole(&own).filter(|whole| *whole == made.row.blocks)
    }

    fn object(&self, version: u64, blocks: &[BlockId], created_ms: u64) -> ObjectRow {
        let stored = |block: &BlockId| self.facts.get(block).map_or(0, |f| f.stored_bytes);
        ObjectRow {
            version,
            object_bytes: blocks.iter().map(stored).sum(),
            digest: None,
            block_bytes: blocks.first().map_or(1, stored).max(1),
            blocks: blocks.to_vec(),
            created_ms,
        }
    }

    /// Stripes of which some data block is live.
    fn write_stripes(&self, txn: &Change, live: &BTreeSet<BlockId>) -> Result<u64> {
        let mut count = 0;
        for (id, stripe) in &self.stripes {
            if stripe.blocks().any(|member| live.contains(&member.block)) && self.is_new(txn, stripe)? {
                let row = StripeRow {
                    code: stripe.code.clone(),
                    block_bytes: stripe.block_bytes,
                    members: stripe.members.iter().map(|state| state.map(|member| member.block)).collect(),
                };
                txn.put(id, &row)?;
                count += 1;
            }
        }
        Ok(count)
    }

    /// Whether nothing is known here of the stripe and its members: what is known is as it is.
    fn is_new(&self, txn: &Change, stripe: &StripeNote) -> Result<bool> {
        for member in stripe.blocks() {
            if txn.get::<BlockFacts>(&member.block)?.is_some() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Blocks that are live, and all members of their stripes.
    fn write_blocks(
        &self,
        txn: &Change,
        live: &BTreeSet<BlockId>,
        replicas: u32,
        lost: &Lost,
    ) -> Result<u64> {
        let mut count = 0;
        for (&block, facts) in &self.facts {
            let stripe = self.places.get(&block).copied();
            let beside = stripe.and_then(|place| self.stripes.get(&place.stripe));
            let needed = beside.is_some_and(|s| s.blocks().any(|member| live.contains(&member.block)));
            if !live.contains(&block) && !needed {
                continue;
            }
            let copies = self.copies.get(&block).map_or(&[][..], Vec::as_slice);
            let last_generation = copies.iter().map(|l| l.generation).max().unwrap_or(1);
            // Of a member of a stripe only the last rewriting counts; replicas are all the same. A virtual one that its stripe
            // gives has none: those that are found are let go when the stripe is whole.
            let is_given = stripe.is_some_and(|place| place.is_virtual) && !self.not_given.contains(&block);
            let counts = |l: &&Location| stripe.is_none() || (!is_given && l.generation == last_generation);
            let row = BlockFacts {
                stored_bytes: facts.stored_bytes,
                sums: facts.sums,
                last_generation,
                locations: copies.iter().filter(counts).copied().collect(),
                flawed: Vec::new(),
                replicas: lost.block(block).map_or(replicas, |facts| facts.replicas),
                part: facts.part.clone(),
                stripe,
                dead: facts.part.is_some() && !live.contains(&block),
            };
            // Of a put that was given up.
            for location in &row.locations {
                txn.remove::<CandidateRow>(&location.copy_of(block))?;
            }
            txn.set_block(block, &row)?;
            count += 1;
        }
        Ok(count)
    }
}
