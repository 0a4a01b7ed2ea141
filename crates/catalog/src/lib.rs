//! The catalog: what is stored where, and what is under way. One file on a [`Disk`], one transaction for each change
//! of state (FLOW.md, "Order of writes").
//!
//! ```text
//!   planned ──commit──▶ location of a block ──replaced, deleted──▶ candidate ──deleted on the node──▶ forgotten
//!      │                  │ ▲────────────── taken back ─────────────── │ ▲
//!      │                  └─▶ flawed ──found whole──▶ location         │ │
//!      │                        └─────────── another took its place ─────┤
//!      └────────────── given up ─────────────────────────────────────────┘
//! ```
//!
//! Every copy of a block, (block, node, generation), is in exactly one of these states from before the plan that
//! writes it is handed out until the node has deleted it. So a copy that the catalog does not know is of another history,
//! of which nothing is known here: it stays. A candidate goes only if its block is gone, or if others are there in its stead
//! (`letting_go.rs`). Nothing here reads a clock: the time comes in, in milliseconds of the cluster's clock
//! (`time.rs`); only when an object was made is told by the wall's.
//!
//! Absent: a clock, chance, sockets, and any word on how a copy gets to its node. Internal: the coordinator is its user.

pub mod aside;
mod audit;
pub mod backend;
mod backup;
mod blocks;
mod branch;
#[cfg(test)]
mod branch_tests;
mod candidates;
mod coded;
mod delete;
mod entry;
mod error;
mod flaws;
mod forgetting;
mod form;
#[cfg(test)]
mod format_tests;
mod gathering;
#[cfg(test)]
mod gathering_tests;
mod group;
mod history;
mod holders;
pub mod incarnation;
mod incoming;
mod intent;
mod inventory;
mod jobs;
mod lacks;
#[cfg(test)]
mod lacks_tests;
mod letting_go;
#[cfg(test)]
mod letting_go_tests;
mod name;
mod nodes;
mod put;
mod put_block;
mod record;
#[cfg(test)]
mod record_tests;
mod recover;
mod renewal;
mod room;
pub mod rows;
mod safe_mode;
mod settings;
mod settling;
mod soundness;
mod spread;
mod staged;
#[cfg(test)]
mod states_tests;
pub mod succession;
mod survey;
mod table;
mod tally;
#[cfg(test)]
mod tally_tests;
mod thinned;
mod time;
mod virtuals;
mod walk;

pub use backup::restore;
pub use branch::{Branch, Made};
pub use candidates::{Orders, Waiting, Witnesses};
pub use coded::{CodedBlock, ON_WRITE, stripe_of_put};
pub use error::{CatalogError, Result};
pub use forgetting::{Loss, Pass};
pub use gathering::{Gathers, Join};
pub use incoming::{Former, Incoming};
pub use intent::Intent;
pub use inventory::Reconciled;
pub use lacks::Lack;
pub use letting_go::{Sight, Wait};
pub use put::{Joining, NewPut};
pub use put_block::{CommittedBlock, FIRST_GENERATION, MIN_REPLICAS, PlannedBlock, PutPlace};
pub use record::Record;
pub use recover::{Choices, Findings, FoundBlock, Recovered, RecoveredAt};
pub use renewal::{CommittedPut, PutEnd};
pub use room::{LEAST_BYTES, RESERVE_BYTES, reserve};
pub use rows::{CandidateRow, NewStripe, Purpose, Recoding};
pub use safe_mode::SafeMode;
pub use settings::NodeSettings;
pub use settling::Settled;
pub use soundness::{
    Checked, Condition, Damage, Examined, FileKind, Progress, Salvaged, Touched, damaged_files, examine,
    first_damaged_page, restore_name, salvage,
};
pub use spread::{IllSpread, Site, Sites, is_misplaced, would_spread};
pub use staged::{Fate, Staged, StartOfStore};
pub use survey::{Counts, Health, Survey};
pub use thinned::{Deaths, StripeContents};

use backend::{Backend, Redb, Transaction};
use codes::Codebook;
use disk::Disk;
use group::Group;
use model::{ClusterId, Position, Unread};
use record::Tail;
use rows::{
    CATALOG_FORMAT, DamageRow, FIRST_FORMAT_WITH_LACKS, FIRST_FORMAT_WITH_RECORDS, FORMAT_WITHOUT_RECORDS,
    MarkRow, MetaKey, MetaRow,
};
use soundness::Soundness;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use table::{Change, Key, Read, Row, Snapshot};
use tally::Tallies;

/// The open catalog. Calls block.
#[derive(Debug)]
pub struct Catalog {
    backend: Box<dyn Backend>,
    /// Changes share transactions.
    group: Group,
    /// The latest records. Locked while a transaction becomes durable, so that who sees it finds them here.
    tail: Mutex<Tail>,
    /// How many changes this process has made.
    changes: AtomicU64,
    codes: Codebook,
    /// What there is, counted.
    tally: Tallies,
    /// Whether the file is as it was written.
    soundness: Soundness,
    /// What must be known though the rows that say it may be damaged.
    remembered: Mutex<Remembered>,
    /// Copies that their nodes cannot read now. They are kept in memory only.
    unread: Mutex<Arc<Unread>>,
}

/// Of the rows that a damaged catalog cannot do without, as they were read or written last.
#[derive(Debug, Default)]
struct Remembered {
    meta: Option<MetaRow>,
    position: Option<Position>,
}

impl Catalog {
    /// Returns the copies that cannot be read now.
    pub fn unread(&self) -> Arc<Unread> {
        Arc::clone(&self.unread.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the set of copies that cannot be read. Everything that the catalog reports leaves them out from now on.
    pub fn set_unread(&self, unread: Unread) {
        *self.unread.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(unread);
    }

    /// Opens the catalog on a disk, or makes an empty one of the cluster `new`. One of an older format is made one of this format.
    ///
    /// # Errors
    /// [`CatalogError::InUse`], [`CatalogError::Format`], [`CatalogError::Failed`]; [`CatalogError::DamagedRow`] and
    /// [`CatalogError::DamagedFile`] if what it cannot do without is damaged: `salvage` keeps the rest.
    pub fn open(disk: &Arc<dyn Disk>, new: ClusterId) -> Result<Catalog> {
        Catalog::over(Box::new(Redb::open(disk)?), new)
    }

    /// The same over any back end.
    pub fn over(backend: Box<dyn Backend>, new: ClusterId) -> Result<Catalog> {
        let is_new = is_empty(&*backend)?;
        let catalog = Catalog::of(backend, is_new);
        match is_new {
            true => catalog.change(|txn| {
                txn.put(&MetaKey, &MarkRow::OURS)?;
                txn.put(&MetaKey, &MetaRow::new(new))
            })?,
            false if catalog.is_noted_as_damaged()? => {}
            false => catalog.take_over()?,
        }
        match catalog.remember() {
            Err(error) if error.is_damage() && catalog.soundness.may_change().is_err() => {}
            remembered => remembered?,
        }
        Ok(catalog)
    }

    /// Whether it is what was saved of a damaged file.
    fn is_noted_as_damaged(&self) -> Result<bool> {
        let Some(DamageRow { findings, .. }) = self.view(|txn| txn.get::<DamageRow>(&MetaKey))? else {
            return Ok(false);
        };
        findings.into_iter().for_each(|finding| self.soundness.found(finding));
        Ok(true)
    }

    fn of(backend: Box<dyn Backend>, is_new: bool) -> Catalog {
        Catalog {
            backend,
            group: Group::default(),
            tail: Mutex::default(),
            changes: AtomicU64::new(0),
            codes: Codebook::default(),
            tally: Tallies::default(),
            soundness: Soundness::new(is_new),
            remembered: Mutex::default(),
            unread: Mutex::default(),
        }
    }

    /// Waits for running calls, closes the file and gives up its lock. Later calls fail.
    pub fn close(&self) {
        self.group.alone(self, || self.backend.close());
    }

    /// How many changes this process has made of it: whoever waits for one looks here.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// How its file stands.
    pub fn condition(&self) -> Condition {
        self.soundness.condition()
    }

    /// Whether the database went back to an older commit when the catalog was opened: what it forgot may have been acknowledged.
    pub fn was_rolled_back(&self) -> bool {
        self.backend.was_rolled_back()
    }

    fn change<T>(&self, change: impl Fn(&Change) -> Result<T>) -> Result<T> {
        let changed = self.group.run(self, |rows| {
            let txn = Change::new(rows);
            let result = change(&txn)?;
            let record = if txn.has_written() { Some(txn.count_itself()?) } else { None };
            Ok((result, record))
        });
        self.noting(changed)
    }

    /// Makes a transaction durable, in which these changes were made.
    fn make_durable(&self, txn: Box<dyn Transaction>, records: Vec<Record>) -> Result<()> {
        let mut tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        txn.commit()?;
        self.changes.fetch_add(records.len() as u64, Ordering::Release);
        let bytes: usize = records.iter().map(|record| record.bytes.len()).sum();
        if let Some(last) = records.last() {
            self.remembered().position = Some(last.at);
        }
        records.into_iter().for_each(|record| tail.push(record));
        drop(tail);
        self.tally.made(self, bytes as u64);
        Ok(())
    }

    fn view<T>(&self, view: impl FnOnce(&Snapshot) -> Result<T>) -> Result<T> {
        let (mut view, mut result) = (Some(view), None);
        let viewed = self.backend.view(&mut |txn| {
            if let Some(view) = view.take() {
                result = Some(view(&Snapshot::lenient(txn, &self.soundness))?);
            }
            Ok(())
        });
        self.noting(viewed)?;
        result.ok_or_else(|| CatalogError::Bug("a back end ran no view".to_owned()))
    }

    /// Damage that a call met is damage of the file.
    fn noting<T>(&self, result: Result<T>) -> Result<T> {
        if let Err(error) = &result {
            self.soundness.note(error);
        }
        result
    }

    /// The row about the catalog itself; what it said last, if it is damaged by now.
    pub fn meta(&self) -> Result<MetaRow> {
        match self.view(|txn| meta(txn)) {
            Ok(meta) => {
                self.remembered().meta = Some(meta.clone());
                Ok(meta)
            }
            Err(error) if error.is_damage() => self.remembered().meta.clone().ok_or(error),
            Err(error) => Err(error),
        }
    }

    /// How far it has come.
    pub fn position(&self) -> Result<Position> {
        if let Some(position) = self.remembered().position {
            return Ok(position);
        }
        self.view(|txn| history::position(txn))
    }

    /// Reads what a damaged catalog cannot do without.
    fn remember(&self) -> Result<()> {
        let (meta, position) = self.view(|txn| Ok((meta(txn), history::position_row(txn))))?;
        *self.remembered() = Remembered { meta: meta.clone().ok(), position: position.clone().ok() };
        meta.and(position).map(|_| ())
    }

    fn remembered(&self) -> MutexGuard<'_, Remembered> {
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a catalog of an older format one of this format, once and for all.
    fn take_over(&self) -> Result<()> {
        let Some(format) = self.format_of_before()? else { return Ok(()) };
        if !(FORMAT_WITHOUT_RECORDS..CATALOG_FORMAT).contains(&format) {
            return Err(CatalogError::Format { found: format, known: CATALOG_FORMAT });
        }
        self.protect_rows()?;
        self.change(renewed)
    }

    /// The format of a catalog that is of another one than this program's.
    fn format_of_before(&self) -> Result<Option<u32>> {
        let meta = self.view(|txn| meta_of_any(txn))?;
        Ok((meta.format != CATALOG_FORMAT).then_some(meta.format))
    }
}

impl MetaRow {
    fn new(cluster: ClusterId) -> MetaRow {
        MetaRow { format: CATALOG_FORMAT, cluster, unnamed: true, next_version: 1, next_job: 1 }
    }
}

/// Makes a catalog of an older version one of this version; refuses those that are not known.
fn renewed(txn: &Change) -> Result<()> {
    let meta = meta_of_any(txn)?;
    match meta.format {
        CATALOG_FORMAT => return Ok(()),
        FORMAT_WITHOUT_RECORDS => txn.begin_records()?,
        FIRST_FORMAT_WITH_RECORDS..CATALOG_FORMAT => {}
        found => return Err(CatalogError::Format { found, known: CATALOG_FORMAT }),
    }
    if meta.format < FIRST_FORMAT_WITH_LACKS {
        txn.index_blocks()?;
        txn.take_over_switches()?;
    }
    txn.settle_candidates()?;
    txn.put(&MetaKey, &MarkRow::OURS)?;
    txn.put(&MetaKey, &MetaRow { format: CATALOG_FORMAT, ..meta })
}

fn meta(txn: &impl Read) -> Result<MetaRow> {
    txn.get::<MetaRow>(&MetaKey)?.ok_or_else(missing_meta)
}

/// The same of a catalog of any format.
fn meta_of_any(txn: &impl Read) -> Result<MetaRow> {
    let ours = txn.get::<MetaRow>(&MetaKey);
    if let Ok(Some(meta)) = ours {
        return Ok(meta);
    }
    let key = MetaKey.to_bytes();
    let stored = txn.rows().get(MarkRow::TABLE, &key)?.ok_or_else(missing_meta)?;
    let mark = table::decode_of_before::<MarkRow>(&key, &stored)?;
    match mark.format {
        // Only a catalog of this format has the row that is missing.
        CATALOG_FORMAT => ours?.ok_or_else(missing_meta),
        _ => Ok(mark.meta()),
    }
}

fn missing_meta() -> CatalogError {
    error::damaged_row(MetaRow::TABLE, &MetaKey.to_bytes(), "it is missing")
}

/// Whether a file was just made: it has no row at all. A missing row is no proof of that.
fn is_empty(backend: &dyn Backend) -> Result<bool> {
    let mut is_empty = true;
    backend.view(&mut |rows| {
        for table in rows::TABLES {
            rows.scan(table, &[], &mut |_, _| {
                is_empty = false;
                Ok(backend::Scan::Stop)
            })?;
        }
        Ok(())
    })?;
    Ok(is_empty)
}
