//! Stripes before they are encoded: which open stripe each new block joins, and so where its replicas go (EAR §3). An open stripe
//! for each core rack takes blocks of any objects, is sealed once it has all it needs or has waited too long, and can be encoded
//! then.
//!
//! The catalog knows the stripes; kept here is which of them are open, and the flow of each as far as it was calculated.
//!
//! ```text
//!   a block ──▶ waits ──all that wait──▶ each placed after the one before ──one change of the catalog──▶ answered
//!                 ▲                                                             └─ overtaken: its stripe is read again
//!                 └─────────────────────────────────────────────────────────────────────┘
//! ```

mod joins;
mod shape;
mod worker;

pub(crate) use joins::{PlacedBlock, WantedBlock};
pub(crate) use shape::{layout, policy};
pub(crate) use worker::Sealer;

use crate::cluster::Cluster;
use crate::error::Result;
use crate::records::Records;
use catalog::rows::{GatherTerms, GatheringRow};
use joins::Waiting;
use model::StripeId;
use plan::Draw;
use plan::decide::{DecideError, Planner};
use plan::placement::OpenStripe;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::sync::{Mutex, MutexGuard};

/// Stripes that are open at once; the one that is open for longest is sealed when there are more. A cluster has one for each
/// rack, length of blocks and setting, and the catalog's rows of all are read at a start.
pub(crate) const MAX_OPEN_STRIPES: usize = 4_096;

/// The part.
#[derive(Debug)]
pub(crate) struct Gathering {
    records: Records,
    cluster: Arc<Cluster>,
    planner: Arc<Planner>,
    book: Mutex<Option<Book>>,
    waiting: Waiting,
}

/// What is open.
#[derive(Debug, Default)]
struct Book {
    open: BTreeMap<Key, StripeId>,
    /// As far as they were used since the start.
    stripes: BTreeMap<StripeId, OpenStripe>,
}

/// A block joins the stripe that has the same.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Key {
    terms: GatherTerms,
    replicas: u32,
    size_class: u8,
    core: Option<String>,
}

impl Key {
    fn of(row: &GatheringRow) -> Key {
        let GatheringRow { terms, replicas, size_class, core, .. } = row.clone();
        Key { terms, replicas, size_class, core }
    }
}

impl Gathering {
    pub fn new(records: Records, cluster: Arc<Cluster>, planner: Arc<Planner>) -> Gathering {
        Gathering { records, cluster, planner, book: Mutex::default(), waiting: Waiting::default() }
    }

    /// Whether blocks can be placed like that, with so many replicas, on the nodes that live: an error says what is needed.
    pub fn check(&self, terms: &GatherTerms, replicas: u32) -> Result<()> {
        let (policy, mut draw) = (policy(&self.planner, terms, replicas)?, Draw::seeded(rand::random()));
        let ground = self.cluster.view().ground(&BTreeSet::new(), 0, &mut draw)?;
        let opened = policy
            .core(ground.racks(), &mut draw)
            .and_then(|core| policy.open(core, ground.racks(), &mut draw))
            .and_then(|mut stripe| policy.place(&mut stripe, ground.racks(), &mut draw));
        opened.map(|_| ()).map_err(|error| DecideError::from(error).into())
    }

    /// A stripe takes no more blocks.
    pub async fn seal(&self, stripe: StripeId) -> Result<()> {
        let mut book = self.book().await?;
        self.seal_in(&mut book, stripe).await
    }

    /// Seals the stripes whose first block came before. How many they were.
    pub async fn seal_older(&self, before_ms: u64) -> Result<u64> {
        let mut book = self.book().await?;
        let open: Vec<StripeId> = book.open.values().copied().collect();
        let mut sealed = 0;
        for stripe in open {
            let row = self.records.run(move |catalog| catalog.gathering(stripe)).await?;
            if row.is_some_and(|row| row.sealed_ms.is_none() && row.since_ms < before_ms) {
                self.seal_in(&mut book, stripe).await?;
                sealed += 1;
            }
        }
        Ok(sealed)
    }

    async fn seal_in(&self, book: &mut Book, stripe: StripeId) -> Result<()> {
        let now_ms = self.cluster.clock.now_ms();
        self.records.run(move |catalog| catalog.seal(stripe, now_ms)).await?;
        book.forget(stripe);
        Ok(())
    }

    /// Seals what is open for longest while too much is.
    async fn bound(&self, book: &mut Book) -> Result<()> {
        if book.open.len() <= MAX_OPEN_STRIPES {
            return Ok(());
        }
        let open = self.records.run(|catalog| catalog.open_stripes()).await?;
        match open.into_iter().min_by_key(|(_, row)| row.since_ms) {
            Some((oldest, _)) => self.seal_in(book, oldest).await,
            None => Ok(()),
        }
    }

    /// The book, read when it is first asked for.
    async fn book(&self) -> Result<tokio::sync::MappedMutexGuard<'_, Book>> {
        let mut book = self.book.lock().await;
        if book.is_none() {
            let open = self.records.run(|catalog| catalog.open_stripes()).await?;
            let open = open.into_iter().map(|(stripe, row)| (Key::of(&row), stripe)).collect();
            *book = Some(Book { open, stripes: BTreeMap::new() });
        }
        Ok(MutexGuard::map(book, |book| book.get_or_insert_default()))
    }
}
