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
pub mod rows;
mod safe_mode;
mod settings;
mod settling;
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
pub use incoming::Incoming;
pub use intent::Intent;
pub use inventory::Reconciled;
pub use lacks::Lack;
pub use letting_go::{Sight, Wait};
pub use put::NewPut;
pub use put_block::{
    CommittedBlock, FIRST_GENERATION, MAX_OBJECT_BLOCKS, MIN_REPLICAS, PlannedBlock, PutPlace,
};
pub use record::Record;
pub use recover::{Choices, Findings, FoundBlock, Recovered, RecoveredAt};
pub use renewal::{CommittedPut, PutEnd};
pub use rows::{CandidateRow, NewStripe, Purpose, Recoding};
pub use safe_mode::SafeMode;
pub use settings::NodeSettings;
pub use settling::Settled;
pub use spread::{IllSpread, Site, Sites, is_misplaced, would_spread};
pub use staged::{Fate, Staged, StartOfStore};
pub use survey::{Counts, Health, Survey};
pub use thinned::{Deaths, StripeContents};

use backend::{Backend, Redb, Transaction};
use codes::Codebook;
use disk::Disk;
use group::Group;
use model::ClusterId;
use record::Tail;
use rows::{CATALOG_FORMAT, FIRST_FORMAT_WITH_RECORDS, FORMAT_WITHOUT_RECORDS, MetaKey, MetaRow};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use table::{Change, Read, Snapshot};
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
}

impl Catalog {
    /// Opens the catalog on a disk, or makes an empty one of the cluster `new`.
    ///
    /// # Errors
    /// [`CatalogError::InUse`], [`CatalogError::Format`], [`CatalogError::Malformed`], [`CatalogError::Failed`].
    pub fn open(disk: &Arc<dyn Disk>, new: ClusterId) -> Result<Catalog> {
        Catalog::over(Box::new(Redb::open(disk)?), new)
    }

    /// The same over any back end.
    pub fn over(backend: Box<dyn Backend>, new: ClusterId) -> Result<Catalog> {
        let catalog = Catalog::of(backend);
        catalog.change(|txn| match txn.get::<MetaRow>(&MetaKey)? {
            None => txn.put(&MetaKey, &MetaRow::new(new)),
            Some(_) => renewed(txn),
        })?;
        Ok(catalog)
    }

    fn of(backend: Box<dyn Backend>) -> Catalog {
        Catalog {
            backend,
            group: Group::default(),
            tail: Mutex::default(),
            changes: AtomicU64::new(0),
            codes: Codebook::default(),
            tally: Tallies::default(),
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

    fn change<T>(&self, change: impl Fn(&Change) -> Result<T>) -> Result<T> {
        self.group.run(self, |rows| {
            let txn = Change::new(rows);
            let result = change(&txn)?;
            let record = if txn.has_written() { Some(txn.count_itself()?) } else { None };
            Ok((result, record))
        })
    }

    /// Makes a transaction durable, in which these changes were made.
    fn make_durable(&self, txn: Box<dyn Transaction>, records: Vec<Record>) -> Result<()> {
        let mut tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        txn.commit()?;
        self.changes.fetch_add(records.len() as u64, Ordering::Release);
        let bytes: usize = records.iter().map(|record| record.bytes.len()).sum();
        records.into_iter().for_each(|record| tail.push(record));
        drop(tail);
        self.tally.made(self, bytes as u64);
        Ok(())
    }

    fn view<T>(&self, view: impl FnOnce(&Snapshot) -> Result<T>) -> Result<T> {
        let (mut view, mut result) = (Some(view), None);
        self.backend.view(&mut |txn| {
            if let Some(view) = view.take() {
                result = Some(view(&Snapshot(txn))?);
            }
            Ok(())
        })?;
        result.ok_or_else(|| CatalogError::Bug("a back end ran no view".to_owned()))
    }

    /// The row about the catalog itself.
    pub fn meta(&self) -> Result<MetaRow> {
        self.view(|txn| meta(txn))
    }
}

impl MetaRow {
    fn new(cluster: ClusterId) -> MetaRow {
        MetaRow { format: CATALOG_FORMAT, cluster, unnamed: true, next_version: 1, next_job: 1 }
    }
}

/// Makes a catalog of an older version one of this version; refuses those that are not known.
fn renewed(txn: &Change) -> Result<()> {
    let meta = meta(txn)?;
    match meta.format {
        CATALOG_FORMAT => return Ok(()),
        FORMAT_WITHOUT_RECORDS => txn.begin_records()?,
        FIRST_FORMAT_WITH_RECORDS..CATALOG_FORMAT => {}
        found => return Err(CatalogError::Format { found, known: CATALOG_FORMAT }),
    }
    txn.index_blocks()?;
    txn.take_over_switches()?;
    txn.put(&MetaKey, &MetaRow { format: CATALOG_FORMAT, ..meta })
}

fn meta(txn: &impl Read) -> Result<MetaRow> {
    txn.get::<MetaRow>(&MetaKey)?.ok_or_else(|| table::malformed("meta", b"catalog", "the row is missing"))
}
