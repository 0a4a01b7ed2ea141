//! Rebuild: a catalog from nothing but the nodes' sidecars.
//!
//! Of every object the highest version of which all blocks are there comes back. A block is there if a node has it, or if
//! the parities' sidecars say that it belongs to a stripe from which it can be decoded. What was deleted, but not yet
//! removed by the nodes, comes back too: nothing on the nodes says that it was deleted.

use crate::error::{CatalogError, Result};
use crate::rows::{MetaKey, ObjectRow, StripeRow};
use crate::table::{Change, Read};
use crate::{Catalog, meta};
use model::note::{NotedMember, StripeNote};
use model::{BlockFacts, BlockId, Contents, Location, MemberState, Part, StripeId, StripePlace};
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
}

/// What was restored.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rebuilt {
    /// Objects that are whole.
    pub objects: u64,
    /// Their blocks, and those of their stripes.
    pub blocks: u64,
    /// Stripes with a block of an object.
    pub stripes: u64,
    /// Versions that are newer than what was restored, and not whole.
    pub incomplete: u64,
}

impl Catalog {
    /// Fills a catalog without objects from what the nodes have. `recoverable` as for [`Catalog::counts`]; it returns
    /// an empty list for a code that it does not know.
    pub fn rebuild(
        &self,
        found: Vec<FoundBlock>,
        replicas: u32,
        recoverable: impl Fn(&str, &[bool]) -> Vec<bool>,
        now_ms: u64,
    ) -> Result<Rebuilt> {
        let sight = Sight::new(found, recoverable);
        self.change(|txn| {
            let objects = txn.count::<ObjectRow>()?;
            if objects > 0 {
                return Err(CatalogError::NotEmpty { objects });
            }
            let rebuilt = sight.write(txn, replicas, now_ms)?;
            let mut row = meta(txn)?;
            row.next_version = row.next_version.max(sight.highest_version() + 1);
            txn.put(&MetaKey, &row)?;
            Ok(rebuilt)
        })
    }
}

/// Everything that was found, sorted.
struct Sight {
    copies: BTreeMap<BlockId, Vec<Location>>,
    facts: BTreeMap<BlockId, Contents>,
    stripes: BTreeMap<StripeId, StripeNote>,
    places: BTreeMap<BlockId, StripePlace>,
    /// Blocks that are on a node or can be decoded.
    had: BTreeSet<BlockId>,
}

impl Sight {
    fn new(found: Vec<FoundBlock>, recoverable: impl Fn(&str, &[bool]) -> Vec<bool>) -> Sight {
        let mut sight = Sight {
            copies: BTreeMap::new(),
            facts: BTreeMap::new(),
            stripes: BTreeMap::new(),
            places: BTreeMap::new(),
            had: BTreeSet::new(),
        };
        let mut stripes: BTreeMap<StripeId, Vec<StripeNote>> = BTreeMap::new();
        for block in found {
            sight.had.insert(block.block);
            let copies = sight.copies.entry(block.block).or_default();
            // An older copy may lie beside a newer one: that one counts.
            match copies.iter_mut().find(|known| known.node == block.location.node) {
                Some(known) => known.generation = known.generation.max(block.location.generation),
                None => copies.push(block.location),
            }
            sight.facts.insert(block.block, block.facts);
            if let Some(stripe) = block.stripe {
                stripes.entry(stripe.stripe).or_default().push(stripe);
            }
        }
        // Parities of an attempt that was given up name other parities: the attempt of which most is there counts.
        let there = |s: &StripeNote| s.stored().filter(|member| sight.had.contains(&member.block)).count();
        let best = |(id, versions): (StripeId, Vec<StripeNote>)| {
            versions.into_iter().map(|note| (there(&note), id, note)).max_by_key(|(there, ..)| *there)
        };
        let mut best: Vec<_> = stripes.into_iter().filter_map(best).collect();
        best.sort_by_key(|(there, id, _)| (std::cmp::Reverse(*there), *id));
        for (_, id, note) in best {
            // A block is in one stripe only; another one that names it was given up.
            if note.stored().all(|member| !sight.places.contains_key(&member.block)) {
                sight.add_stripe(id, note, &recoverable);
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
        let there = |member: &MemberState<NotedMember>| {
            member.stored().is_none_or(|noted| self.copies.contains_key(&noted.block))
        };
        let usable: Vec<bool> = stripe.members.iter().map(there).collect();
        let had = recoverable(&stripe.code, &usable);
        if had.len() != stripe.members.len() {
            return;
        }
        for (index, (member, had)) in stripe.members.iter().zip(had).enumerate() {
            let MemberState::Stored(NotedMember { block, contents, .. }) = member else { continue };
            if had {
                self.had.insert(*block);
            }
            self.facts.entry(*block).or_insert_with(|| contents.clone());
            self.places.insert(*block, StripePlace { stripe: id, index: index as u16 });
        }
        self.stripes.insert(id, stripe);
    }

    fn highest_version(&self) -> u64 {
        self.facts.values().filter_map(|f| f.part.as_ref()).map(|part| part.version).max().unwrap_or(0)
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

    fn write(&self, txn: &Change, replicas: u32, now_ms: u64) -> Result<Rebuilt> {
        let mut rebuilt = Rebuilt::default();
        let mut live: BTreeSet<BlockId> = BTreeSet::new();
        let mut done: BTreeSet<&str> = BTreeSet::new();
        for ((name, version), blocks) in self.versions().into_iter().rev() {
            if done.contains(name) {
                continue;
            }
            let Some(blocks) = self.whole(&blocks) else {
                rebuilt.incomplete += 1;
                continue;
            };
            let stored = |block: &BlockId| self.facts.get(block).map_or(0, |f| f.stored_bytes);
            let object = ObjectRow {
                version,
                object_bytes: blocks.iter().map(stored).sum(),
                digest: None,
                block_bytes: blocks.first().map_or(1, stored).max(1),
                blocks: blocks.clone(),
                created_ms: now_ms,
            };
            txn.put(&name.to_owned(), &object)?;
            done.insert(name);
            live.extend(blocks);
            rebuilt.objects += 1;
        }
        rebuilt.stripes = self.write_stripes(txn, &live)?;
        rebuilt.blocks = self.write_blocks(txn, &live, replicas)?;
        Ok(rebuilt)
    }

    /// Stripes of which some data block is live.
    fn write_stripes(&self, txn: &Change, live: &BTreeSet<BlockId>) -> Result<u64> {
        let mut count = 0;
        for (id, stripe) in &self.stripes {
            if stripe.stored().any(|member| live.contains(&member.block)) {
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

    /// Blocks that are live, and all members of their stripes.
    fn write_blocks(&self, txn: &Change, live: &BTreeSet<BlockId>, replicas: u32) -> Result<u64> {
        let mut count = 0;
        for (&block, facts) in &self.facts {
            let stripe = self.places.get(&block).copied();
            let beside = stripe.and_then(|place| self.stripes.get(&place.stripe));
            let needed = beside.is_some_and(|s| s.stored().any(|member| live.contains(&member.block)));
            if !live.contains(&block) && !needed {
                continue;
            }
            let copies = self.copies.get(&block).map_or(&[][..], Vec::as_slice);
            let last_generation = copies.iter().map(|l| l.generation).max().unwrap_or(1);
            // Of a member of a stripe only the last rewriting counts; replicas are all the same.
            let counts = |l: &&Location| stripe.is_none() || l.generation == last_generation;
            let row = BlockFacts {
                stored_bytes: facts.stored_bytes,
                sums: facts.sums,
                last_generation,
                locations: copies.iter().filter(counts).copied().collect(),
                flawed: Vec::new(),
                replicas,
                part: facts.part.clone(),
                stripe,
                dead: facts.part.is_some() && !live.contains(&block),
            };
            txn.set_block(block, &row)?;
            count += 1;
        }
        Ok(count)
    }
}
