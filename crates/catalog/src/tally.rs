//! The counts of a survey, kept in memory and led along with the records of changes, so that to know them costs what has changed
//! and not what there is.
//!
//! Of each block, stripe and object it is known what it counts for now; when one of them changes, or a node comes or goes, that is
//! taken off, and what it counts for then is added. The margin of a stripe follows from which of its members live, that of a block
//! from its copies and its stripe, that of an object from its blocks, of which it is known how many have which margin.

use crate::Catalog;
use crate::backend::Scan;
use crate::error::Result;
use crate::error::damaged_row;
use crate::history::position;
use crate::record::{Record, follow};
use crate::rows::{CandidateRow, ObjectRow, PlannedRow, StripeRow};
use crate::survey::Survey;
use crate::table::{Key, Read, Row, typed};
use codes::Codebook;
use model::{BlockFacts, BlockId, Flaw, MemberState, NodeId, Position, StripeId, Unread};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Unreadable objects that are told by name.
const NAMED: usize = 16;

/// The tally follows changes of so many bytes at the latest, asked or not: what waits is a small part of the records that are at
/// hand, and is followed within milliseconds.
const FOLLOW_BYTES: u64 = 1 << 20;

/// Records that are followed at a time, in bytes.
const STEP_BYTES: usize = 4 << 20;

/// Whose rows count. Objects first: those that change let go of their blocks before these change.
const TABLES: [&str; 5] =
    [ObjectRow::TABLE, BlockFacts::TABLE, StripeRow::TABLE, CandidateRow::TABLE, PlannedRow::TABLE];

/// Further losses that something surely survives; `None`: it cannot be read now.
type Margin = Option<u32>;

/// The tally of a catalog, once somebody has asked for it.
#[derive(Debug, Default)]
pub(crate) struct Tallies {
    tally: Mutex<Option<Tally>>,
    /// Bytes of records that were made since it was last led along.
    behind: AtomicU64,
}

impl Tallies {
    pub fn survey(&self, catalog: &Catalog, living: &BTreeSet<NodeId>) -> Result<Survey> {
        let unread = catalog.unread();
        let mut slot = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        self.behind.store(0, Ordering::Relaxed);
        // What fails halfway is not used again.
        let led_along = match slot.take() {
            Some(mut tally) => tally.follow(catalog)?.then_some(tally),
            None => None,
        };
        let mut tally = match led_along {
            Some(tally) => tally,
            None => Tally::load(catalog, (living, &unread))?,
        };
        tally.live((living, &unread), &catalog.codes);
        Ok(slot.insert(tally).survey())
    }

    /// Changes have been made.
    pub fn made(&self, catalog: &Catalog, bytes: u64) {
        if self.behind.fetch_add(bytes, Ordering::Relaxed) + bytes < FOLLOW_BYTES {
            return;
        }
        // Whoever holds it leads it along, or has it led along by the next change.
        let Ok(mut slot) = self.tally.try_lock() else { return };
        self.behind.store(0, Ordering::Relaxed);
        let Some(mut tally) = slot.take() else { return };
        // What cannot be led along is counted anew when somebody asks, who is told why it cannot be.
        if tally.follow(catalog).is_ok_and(|has| has) {
            *slot = Some(tally);
        }
    }
}

/// Readable state: the living nodes, and the copies on them that are unreadable all the same.
#[derive(Debug)]
struct Present {
    living: BTreeSet<NodeId>,
    unread: Arc<Unread>,
}

/// What a block counts for.
#[derive(Debug)]
struct Block {
    id: BlockId,
    nodes: Box<[NodeId]>,
    stored_bytes: u64,
    wanted: u32,
    damaged: u32,
    missing: u32,
    stripe: Option<StripeId>,
    object: Option<Arc<str>>,
    margin: Margin,
}

impl Block {
    fn new(id: BlockId, row: &BlockFacts) -> Block {
        let flawed = |flaw| row.flawed.iter().filter(|flawed| flawed.flaw == flaw).count() as u32;
        Block {
            id,
            nodes: row.locations.iter().map(|location| location.node).collect(),
            stored_bytes: row.stored_bytes,
            wanted: row.wanted() as u32,
            damaged: flawed(Flaw::Damaged),
            missing: flawed(Flaw::Missing),
            stripe: row.stripe.map(|place| place.stripe),
            object: None,
            margin: None,
        }
    }

    fn copies(&self, present: &Present) -> u32 {
        let living = self.nodes.iter().filter(|node| present.living.contains(node)).count() as u32;
        living - self.unread(present)
    }

    /// Returns the number of copies on living nodes that cannot read them.
    fn unread(&self, present: &Present) -> u32 {
        let unread = present.unread.of(self.id).iter();
        unread.filter(|l| present.living.contains(&l.node) && self.nodes.contains(&l.node)).count() as u32
    }

    fn count(&self, sign: Sign, totals: &mut Survey, present: &Present) {
        let Survey { counts, health, held } = totals;
        for node in &self.nodes {
            sign.of_one(held, *node);
        }
        let (missing, damaged) = (u64::from(self.missing), u64::from(self.damaged));
        sign.of(&mut counts.blocks, 1);
        sign.of(&mut counts.lost_copies, missing);
        sign.of(&mut counts.damaged_copies, damaged);
        sign.of(&mut health.flawed, missing + damaged);
        sign.of(&mut health.missing, missing);
        let copies = self.copies(present);
        sign.of(&mut health.unread, self.unread(present).into());
        // Those of stripes are counted with these.
        let is_lost = u64::from(copies == 0 && self.stripe.is_none());
        sign.of(&mut counts.missing, is_lost);
        sign.of(&mut counts.unrecoverable, is_lost);
        let needs = u64::from(self.wanted.saturating_sub(copies));
        let are_noted = self.nodes.len() >= self.wanted as usize;
        sign.of(&mut health.short, u64::from(needs > 0));
        sign.of(&mut health.short_bytes, needs * self.stored_bytes);
        if self.stripe.is_none() {
            sign.of(&mut health.carried_bytes, needs * self.stored_bytes);
        }
        sign.of(&mut health.dead, u64::from(needs > 0 && are_noted));
    }
}

#[derive(Debug)]
struct Stripe {
    code: Arc<str>,
    members: Box<[MemberState<BlockId>]>,
    /// `None`: it is not counted yet.
    now: Option<Standing>,
}

/// How a stripe stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Standing {
    margin: Margin,
    /// Members that are kept and have no living copy; virtual blocks are missing nowhere, though what stands for them may be.
    missing: u64,
    /// Members that cannot be had.
    lost: u64,
    /// Bytes that nodes must receive to rebuild the missing members: k times their length.
    carried_bytes: u64,
}

impl Stripe {
    fn blocks(&self) -> impl Iterator<Item = BlockId> {
        self.members.iter().filter_map(MemberState::block).copied()
    }

    /// One whose code is not known cannot be read.
    fn standing(&self, blocks: &HashMap<BlockId, Block>, present: &Present, codes: &Codebook) -> Standing {
        // A member without a sound row counts as lost.
        let of = |state: &MemberState<BlockId>| state.block().map(|id| blocks.get(id));
        let is_there =
            |state| of(state).is_none_or(|block| block.is_some_and(|block| block.copies(present) > 0));
        let is_there: Vec<bool> = self.members.iter().map(is_there).collect();
        // An empty member is all zeros, so its content is known even if no node has it.
        let is_empty = |state| of(state).flatten().is_some_and(|block| block.stored_bytes == 0);
        let members = self.members.iter().zip(&is_there);
        let usable: Vec<bool> = members.map(|(state, is_there)| *is_there || is_empty(state)).collect();
        let states = self.members.iter().zip(&is_there);
        let missing = states.filter(|(state, is_there)| !state.is_virtual() && !**is_there).count() as u64;
        let lost = match missing {
            0 => 0,
            _ => codes.recoverable(&self.code, &usable).iter().filter(|had| !**had).count() as u64,
        };
        let margin = match codes.standing(&self.code, &usable) {
            // The loss of a node takes all members that it has.
            codes::Standing::Survives(losses) => {
                Some((losses as u32).saturating_sub(self.shared(blocks, present)))
            }
            codes::Standing::Lost | codes::Standing::Unknown => None,
        };
        let carried_bytes = match missing {
            0 => 0,
            _ => {
                let short = self.members.iter().zip(&is_there).filter(|(_, is_there)| !**is_there);
                let blocks = short.filter_map(|(state, _)| blocks.get(state.block()?));
                let bytes: u64 =
                    blocks.filter(|block| block.wanted > 0).map(|block| block.stored_bytes).sum();
                codes.get(&self.code).map_or(0, |code| bytes * code.k() as u64)
            }
        };
        Standing { margin, missing, lost, carried_bytes }
    }
}

impl Stripe {
    /// Returns the number of members that share a node with another member, not counting one for each node.
    fn shared(&self, blocks: &HashMap<BlockId, Block>, present: &Present) -> u32 {
        let members = self.members.iter().filter(|state| !state.is_virtual());
        let blocks = members.filter_map(|state| blocks.get(state.block()?));
        let lives = |node: &&NodeId| present.living.contains(node);
        let mut nodes: Vec<NodeId> =
            blocks.filter_map(|block| block.nodes.iter().find(lives)).copied().collect();
        let all = nodes.len();
        nodes.sort_unstable();
        nodes.dedup();
        (all - nodes.len()) as u32
    }
}

impl Standing {
    fn count(&self, sign: Sign, totals: &mut Survey) {
        let Survey { counts, health, .. } = totals;
        sign.of(&mut counts.stripes, 1);
        sign.of(&mut counts.missing, self.missing);
        sign.of(&mut counts.unrecoverable, self.lost);
        sign.of(&mut health.carried_bytes, self.carried_bytes);
        match self.margin {
            Some(margin) => sign.of_one(&mut health.stripes, margin.into()),
            None => sign.of(&mut health.broken_stripes, 1),
        }
    }
}

#[derive(Debug, Default)]
struct Object {
    bytes: u64,
    blocks: Box<[BlockId]>,
    /// How many of its blocks have which margin, by margin.
    margins: Vec<(Margin, u32)>,
}

impl Object {
    /// That of the worst of its blocks.
    fn margin(&self) -> Option<u64> {
        match self.margins.first() {
            Some((margin, _)) => margin.map(u64::from),
            None => Some(u64::MAX),
        }
    }

    fn block_has(&mut self, margin: Margin) {
        match self.margins.binary_search_by_key(&margin, |(margin, _)| *margin) {
            Ok(at) => self.margins[at].1 += 1,
            Err(at) => self.margins.insert(at, (margin, 1)),
        }
    }

    fn block_had(&mut self, margin: Margin) {
        if let Ok(at) = self.margins.binary_search_by_key(&margin, |(margin, _)| *margin) {
            self.margins[at].1 -= 1;
            if self.margins[at].1 == 0 {
                self.margins.remove(at);
            }
        }
    }
}

/// See the module.
#[derive(Debug)]
struct Tally {
    position: Position,
    present: Present,
    blocks: HashMap<BlockId, Block>,
    stripes: HashMap<StripeId, Stripe>,
    objects: HashMap<Arc<str>, Object>,
    /// Bytes of each, by its key.
    candidates: HashMap<Box<[u8]>, u64>,
    planned: HashSet<Box<[u8]>>,
    /// Names of codes.
    codes: BTreeSet<Arc<str>>,
    unreadable: BTreeSet<Arc<str>>,
    totals: Survey,
    stale: Stale,
}

/// What is to be looked at anew.
#[derive(Debug, Default)]
struct Stale {
    blocks: HashSet<BlockId>,
    stripes: HashSet<StripeId>,
    /// Objects whose blocks may be others.
    objects: HashSet<Arc<str>>,
}

#[derive(Clone, Copy)]
enum Sign {
    Plus,
    Minus,
}

impl Sign {
    fn of(self, total: &mut u64, by: u64) {
        *total = match self {
            Sign::Plus => total.saturating_add(by),
            Sign::Minus => total.saturating_sub(by),
        };
    }

    fn of_one<K: Ord + Copy>(self, totals: &mut BTreeMap<K, u64>, key: K) {
        let total = totals.entry(key).or_default();
        self.of(total, 1);
        if *total == 0 {
            totals.remove(&key);
        }
    }
}

impl Tally {
    /// Of the whole catalog, as it was at some time since this was called.
    fn load(catalog: &Catalog, (living, unread): (&BTreeSet<NodeId>, &Arc<Unread>)) -> Result<Tally> {
        catalog.view(|txn| {
            let mut tally = Tally {
                position: position(txn)?,
                present: Present { living: living.clone(), unread: Arc::clone(unread) },
                blocks: HashMap::new(),
                stripes: HashMap::new(),
                objects: HashMap::new(),
                candidates: HashMap::new(),
                planned: HashSet::new(),
                codes: BTreeSet::new(),
                unreadable: BTreeSet::new(),
                totals: Survey::default(),
                stale: Stale::default(),
            };
            for table in TABLES {
                txn.raw_scan(table, &[], &mut |key, value| match tally.set(table, key, Some(value)) {
                    // What passes its check is counted; what rests on the rest cannot be read.
                    Err(error) => txn.skip(error).map(|()| Scan::Next),
                    Ok(()) => Ok(Scan::Next),
                })?;
            }
            tally.settle(&catalog.codes);
            Ok(tally)
        })
    }

    /// Takes over what has changed; `false` if that is no longer known.
    fn follow(&mut self, catalog: &Catalog) -> Result<bool> {
        loop {
            let Some(records) = catalog.records_after(&self.position, STEP_BYTES)? else { return Ok(false) };
            if records.is_empty() {
                return Ok(true);
            }
            self.take(&records, &catalog.codes)?;
        }
    }

    /// Only what the rows are after all of these changes counts.
    fn take(&mut self, records: &[Record], codes: &Codebook) -> Result<()> {
        let mut changed: HashMap<(&str, &[u8]), Option<&[u8]>> = HashMap::new();
        for record in records {
            let (position, entries) = follow(&self.position, &record.bytes)?;
            self.position = position;
            let of_ours = entries.into_iter().filter(|entry| TABLES.contains(&entry.table));
            changed.extend(of_ours.map(|entry| ((entry.table, entry.key), entry.value)));
        }
        for table in TABLES {
            for ((_, key), value) in changed.iter().filter(|((of, _), _)| *of == table) {
                self.set(table, key, *value)?;
            }
        }
        self.settle(codes);
        Ok(())
    }

    /// Recounts the blocks that are affected by a change of the living nodes or of the unreadable copies.
    fn live(&mut self, (living, unread): (&BTreeSet<NodeId>, &Arc<Unread>), codes: &Codebook) {
        if self.present.living == *living && Arc::ptr_eq(&self.present.unread, unread) {
            return;
        }
        let others: BTreeSet<NodeId> = self.present.living.symmetric_difference(living).copied().collect();
        let present = Present { living: living.clone(), unread: Arc::clone(unread) };
        let before = std::mem::replace(&mut self.present, present);
        let mut changed: HashSet<BlockId> = before.unread.unlike(unread).collect();
        if !others.is_empty() {
            let on_them = |block: &Block| block.nodes.iter().any(|node| others.contains(node));
            changed.extend(self.blocks.values().filter(|block| on_them(block)).map(|block| block.id));
        }
        for id in changed {
            let Some(block) = self.blocks.get(&id) else { continue };
            block.count(Sign::Minus, &mut self.totals, &before);
            block.count(Sign::Plus, &mut self.totals, &self.present);
            self.stale.blocks.insert(id);
            self.stale.stripes.extend(block.stripe);
        }
        self.settle(codes)
    }

    fn survey(&self) -> Survey {
        let mut survey = self.totals.clone();
        survey.counts.candidates.copies = self.candidates.len() as u64;
        survey.counts.in_flight = self.planned.len() as u64;
        let named = self.unreadable.iter().take(NAMED);
        survey.health.unreadable_names = named.map(|name| name.to_string()).collect();
        survey
    }

    /// A row is so now, or there is none. What follows for others is found when all have been set.
    fn set(&mut self, table: &str, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        match (table, value) {
            (ObjectRow::TABLE, Some(value)) => {
                let (name, row) = typed::<ObjectRow>(key, value)?;
                self.forget_object(&name);
                let name: Arc<str> = name.into();
                self.stale.objects.insert(Arc::clone(&name));
                self.objects.insert(
                    name,
                    Object { bytes: row.object_bytes, blocks: row.blocks.into(), margins: Vec::new() },
                );
            }
            (ObjectRow::TABLE, None) => self.forget_object(&key_of::<ObjectRow>(key)?),
            (BlockFacts::TABLE, value) => {
                let row = value.map(|value| Ok(typed::<BlockFacts>(key, value)?.1)).transpose()?;
                self.set_block(key_of::<BlockFacts>(key)?, row.as_ref());
            }
            (StripeRow::TABLE, value) => {
                let row = value.map(|value| Ok(typed::<StripeRow>(key, value)?.1)).transpose()?;
                self.set_stripe(key_of::<StripeRow>(key)?, row);
            }
            (CandidateRow::TABLE, value) => {
                let row = value.map(|value| Ok(typed::<CandidateRow>(key, value)?.1)).transpose()?;
                let before = match &row {
                    Some(row) => self.candidates.insert(key.into(), row.stored_bytes),
                    None => self.candidates.remove(key),
                };
                let bytes = &mut self.totals.counts.candidates.bytes;
                Sign::Minus.of(bytes, before.unwrap_or(0));
                Sign::Plus.of(bytes, row.map_or(0, |row| row.stored_bytes));
            }
            (PlannedRow::TABLE, Some(_)) => _ = self.planned.insert(key.into()),
            (PlannedRow::TABLE, None) => _ = self.planned.remove(key),
            _ => {}
        }
        Ok(())
    }

    fn forget_object(&mut self, name: &str) {
        let Some((name, object)) = self.objects.remove_entry(name) else { return };
        for id in &object.blocks {
            if let Some(block) = self.blocks.get_mut(id)
                && block.object.as_ref() == Some(&name)
            {
                block.object = None;
            }
        }
        self.count_object(Sign::Minus, (&name, object.bytes), object.margin());
    }

    fn set_block(&mut self, id: BlockId, row: Option<&BlockFacts>) {
        let before = self.blocks.remove(&id);
        if let Some(before) = &before {
            before.count(Sign::Minus, &mut self.totals, &self.present);
            self.stale.stripes.extend(before.stripe);
        }
        let Some(row) = row else { return };
        let (object, margin) = before.map_or((None, None), |before| (before.object, before.margin));
        let block = Block { object, margin, ..Block::new(id, row) };
        block.count(Sign::Plus, &mut self.totals, &self.present);
        self.stale.blocks.insert(id);
        self.stale.stripes.extend(block.stripe);
        self.blocks.insert(id, block);
    }

    fn set_stripe(&mut self, id: StripeId, row: Option<StripeRow>) {
        if let Some(Stripe { now: Some(standing), .. }) = self.stripes.remove(&id) {
            standing.count(Sign::Minus, &mut self.totals);
        }
        let Some(row) = row else { return };
        let code = match self.codes.get(row.code.as_str()) {
            Some(code) => Arc::clone(code),
            None => row.code.into(),
        };
        self.codes.insert(Arc::clone(&code));
        self.stripes.insert(id, Stripe { code, members: row.members.into(), now: None });
        self.stale.stripes.insert(id);
    }

    /// What is stale is looked at anew: stripes, then blocks, then the objects that were set.
    fn settle(&mut self, codes: &Codebook) {
        let Stale { mut blocks, stripes, objects } = std::mem::take(&mut self.stale);
        for id in stripes {
            let Some(stripe) = self.stripes.get_mut(&id) else { continue };
            let standing = stripe.standing(&self.blocks, &self.present, codes);
            let before = stripe.now.replace(standing);
            if let Some(before) = before {
                before.count(Sign::Minus, &mut self.totals);
            }
            standing.count(Sign::Plus, &mut self.totals);
            if before.is_none_or(|before| before.margin != standing.margin) {
                blocks.extend(stripe.blocks());
            }
        }
        for id in blocks {
            self.settle_block(&id);
        }
        let mut object_margins: Vec<Margin> = Vec::new();
        for name in objects {
            // It may have been set, and then have gone.
            let Some(object) = self.objects.get_mut(&name) else { continue };
            for id in &object.blocks {
                // Without the row of a block nobody can read it.
                let block = self.blocks.get_mut(id);
                object_margins.push(block.as_ref().and_then(|block| block.margin));
                if let Some(block) = block {
                    block.object = Some(Arc::clone(&name));
                }
            }
            object_margins.drain(..).for_each(|margin| object.block_has(margin));
            let (bytes, margin) = (object.bytes, object.margin());
            self.count_object(Sign::Plus, (&name, bytes), margin);
        }
    }

    /// A block that can be read as it is can be read though the rest of its stripe cannot.
    fn settle_block(&mut self, id: &BlockId) {
        let Some(block) = self.blocks.get_mut(id) else { return };
        let of_stripe = block.stripe.and_then(|stripe| self.stripes.get(&stripe)?.now?.margin);
        let margin = of_stripe.max(block.copies(&self.present).checked_sub(1));
        let before = std::mem::replace(&mut block.margin, margin);
        let Some(name) = block.object.clone().filter(|_| margin != before) else { return };
        let Some(object) = self.objects.get_mut(&name) else { return };
        let of_before = object.margin();
        object.block_had(before);
        object.block_has(margin);
        let (bytes, of_now) = (object.bytes, object.margin());
        if of_before != of_now {
            self.count_object(Sign::Minus, (&name, bytes), of_before);
            self.count_object(Sign::Plus, (&name, bytes), of_now);
        }
    }

    fn count_object(&mut self, sign: Sign, (name, bytes): (&Arc<str>, u64), margin: Option<u64>) {
        let Survey { counts, health, .. } = &mut self.totals;
        sign.of(&mut counts.objects, 1);
        sign.of(&mut counts.object_bytes, bytes);
        match (margin, sign) {
            (Some(margin), _) => return sign.of_one(&mut health.objects, margin),
            (None, Sign::Plus) => _ = self.unreadable.insert(Arc::clone(name)),
            (None, Sign::Minus) => _ = self.unreadable.remove(name),
        }
        sign.of(&mut health.unreadable, 1);
    }
}

fn key_of<R: Row>(key: &[u8]) -> Result<R::Key> {
    R::Key::from_bytes(key).ok_or_else(|| damaged_row(R::TABLE, key, "the key is none"))
}

#[cfg(test)]
mod tests;
