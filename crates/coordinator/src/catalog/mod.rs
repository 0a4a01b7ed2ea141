//! The catalog: what is stored where, and what is under way. One file on a [`Disk`], one transaction for each change
//! of state (FLOW.md, "Order of writes").
//!
//! ```text
//!   planned ──commit──▶ location of a block ──replaced, deleted──▶ garbage ──deleted on the node──▶ forgotten
//!      │                     ▲────────────── taken back ────────────── │ ▲
//!      └────────────── given up ─────────────────────────────────────────┘
//! ```
//!
//! Every copy of a block, (block, node, generation), is in exactly one of these states from before the plan that
//! writes it is handed out until the node has deleted it. So a copy that the catalog does not know is of another history,
//! of which nothing is known here: it stays. Garbage goes only if its block is gone, or if others are there in its stead
//! (`garbage.rs`). Nothing here reads a clock: the time comes in as milliseconds since 1970.

mod archive;
mod audit;
mod backup;
mod blocks;
mod delete;
#[cfg(test)]
mod format_tests;
mod garbage;
mod inventory;
mod jobs;
mod nodes;
mod put;
mod rebuild;
mod repair;
pub(crate) mod rows;
#[cfg(test)]
mod states_tests;
mod status;
mod table;

pub(crate) use archive::{NewStripe, PARITY_GENERATION, StagedParity};
pub use backup::restore;
pub(crate) use blocks::{Placement, StripePlacement};
pub(crate) use garbage::Due;
pub(crate) use put::{CommittedBlock, FIRST_GENERATION, MIN_REPLICAS, NewPut, PlannedBlock};
pub(crate) use rebuild::{Facts, FoundBlock, FoundStripe};
pub(crate) use repair::RepairTicket;

use crate::error::{CoordinatorError, Result};
use disk::Disk;
use model::ClusterId;
use redb::{Database, DatabaseError};
use rows::{CATALOG_FORMAT, MetaKey, MetaRow, TABLES};
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use table::{Change, Read, Snapshot};

/// File of the catalog on its disk.
pub(crate) const CATALOG_FILE: &str = "catalog.redb";

/// The open catalog. Calls block; see [`Catalog::run`].
#[derive(Debug)]
pub(crate) struct Catalog {
    /// `None` once closed, so that the lock goes at a known moment and not with the last stray handle.
    database: RwLock<Option<Database>>,
}

impl Catalog {
    /// Opens the catalog, or makes an empty one of a new cluster.
    pub fn open(disk: &Arc<dyn Disk>) -> Result<Catalog> {
        let catalog = Catalog { database: RwLock::new(Some(open_database(disk)?)) };
        catalog.change(|txn| {
            for table in TABLES {
                txn.create(table)?;
            }
            match txn.get::<MetaRow>(&MetaKey)? {
                None => txn.put(&MetaKey, &MetaRow::new(ClusterId(rand::random()))),
                Some(meta) if meta.format == CATALOG_FORMAT => Ok(()),
                Some(meta) => {
                    Err(CoordinatorError::CatalogFormat { found: meta.format, known: CATALOG_FORMAT })
                }
            }
        })?;
        Ok(catalog)
    }

    /// Waits for running calls, closes the file and gives up its lock. Later calls fail.
    pub fn close(&self) {
        self.database.write().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Runs blocking `call` where it does not stall the runtime.
    pub async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        call: impl FnOnce(&Catalog) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let catalog = Arc::clone(self);
        let joined = tokio::task::spawn_blocking(move || call(&catalog)).await;
        joined.map_err(|_| CoordinatorError::ShuttingDown)?
    }

    fn change<T>(&self, change: impl FnOnce(&Change) -> Result<T>) -> Result<T> {
        let database = self.database.read().unwrap_or_else(PoisonError::into_inner);
        let txn = Change::begin(database.as_ref().ok_or(CoordinatorError::ShuttingDown)?)?;
        let result = change(&txn)?;
        txn.commit()?;
        Ok(result)
    }

    fn view<T>(&self, view: impl FnOnce(&Snapshot) -> Result<T>) -> Result<T> {
        let database = self.database.read().unwrap_or_else(PoisonError::into_inner);
        view(&Snapshot::begin(database.as_ref().ok_or(CoordinatorError::ShuttingDown)?)?)
    }

    /// The row about the catalog itself.
    pub fn meta(&self) -> Result<MetaRow> {
        self.view(meta)
    }
}

impl MetaRow {
    fn new(cluster: ClusterId) -> MetaRow {
        MetaRow {
            format: CATALOG_FORMAT,
            cluster,
            unnamed: true,
            reserved: false,
            next_version: 1,
            next_job: 1,
        }
    }
}

fn meta(txn: &impl Read) -> Result<MetaRow> {
    txn.get::<MetaRow>(&MetaKey)?.ok_or_else(|| table::malformed("meta", b"catalog", "the row is missing"))
}

fn open_database(disk: &Arc<dyn Disk>) -> Result<Database> {
    disk::open_database(disk, Path::new(CATALOG_FILE)).map_err(|error| match error {
        DatabaseError::DatabaseAlreadyOpen => CoordinatorError::CatalogInUse,
        other => table::failed(other),
    })
}
