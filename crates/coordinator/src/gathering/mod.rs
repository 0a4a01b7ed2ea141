//! Stripes before they are encoded: which open stripe each new block joins, and so where its replicas go (EAR §3). An open stripe
//! for each core rack takes blocks of any objects, is sealed once it has all it needs or has waited too long, and can be encoded
//! then.
//!
//! The catalog knows the stripes; kept here is which of them are open, and the flow of each as far as it was calculated.

mod shape;
mod worker;

pub(crate) use shape::{layout, policy};
pub(crate) use worker::Sealer;

use crate::cluster::Cluster;
use crate::error::{CoordinatorError, Result};
use crate::records::Records;
use catalog::rows::{GatherTerms, GatheringRow, PutRow};
use catalog::{CatalogError, Join, PlannedBlock};
use model::{NodeId, PutId, Stamp, StripeId};
use plan::Draw;
use plan::decide::{DecideError, Planner};
use plan::placement::OpenStripe;
use shape::{resumed, row_of, size_class};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::sync::{Mutex, MutexGuard};

/// Stripes that are open at once; the one that is open for longest is sealed when there are more. A cluster has one for each
/// rack, length of blocks and setting, and the catalog's rows of all are read at a start.
pub(crate) const MAX_OPEN_STRIPES: usize = 4_096;

/// Times that a block is placed anew because its stripe has changed meanwhile or can take no more.
const MAX_TRIES: usize = 8;

/// The part.
#[derive(Debug)]
pub(crate) struct Gathering {
    records: Records,
    cluster: Arc<Cluster>,
    planner: Arc<Planner>,
    book: Mutex<Option<Book>>,
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

/// Where a block goes.
pub(crate) struct PlacedBlock {
    pub nodes: Vec<NodeId>,
    /// The change of the catalog that noted it.
    pub birth: Stamp,
}

impl Gathering {
    pub fn new(records: Records, cluster: Arc<Cluster>, planner: Arc<Planner>) -> Gathering {
        Gathering { records, cluster, planner, book: Mutex::default() }
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

    /// Chooses nodes for a block of a put and notes it, as `planned` but for the nodes, together with the stripe that it joins.
    ///
    /// # Errors
    /// What the policy lacks, as [`DecideError::Plan`]; those of [`plan_gathered`](catalog::Catalog::plan_gathered).
    pub async fn place(
        &self,
        (put, pending): (PutId, &PutRow),
        terms: &GatherTerms,
        planned: &PlannedBlock,
        avoid: &BTreeSet<NodeId>,
        lease_until_ms: u64,
    ) -> Result<PlacedBlock> {
        let policy = policy(&self.planner, terms, pending.replicas)?;
        let mut book = self.book().await?;
        let mut last = None;
        for _ in 0..MAX_TRIES {
            let (view, mut draw) = (self.cluster.view(), Draw::seeded(rand::random()));
            let ground = view.ground(avoid, planned.stored_bytes, &mut draw)?;
            let core = policy.core(ground.racks(), &mut draw).map_err(DecideError::from)?;
            let key = Key {
                terms: terms.clone(),
                replicas: pending.replicas,
                size_class: size_class(planned.stored_bytes),
                core: core.map(|rack| view.rack_name(rack).to_owned()),
            };
            let known = self.known(&mut book, &key).await?;
            let id = known.as_ref().map_or_else(|| StripeId(rand::random()), |(id, _)| *id);
            let before = known.map(|(_, row)| row);
            let mut stripe = match &before {
                Some(row) => resumed(&*policy, row, book.stripes.remove(&id), &view, &ground),
                None => policy.open(core, ground.racks(), &mut draw).map_err(DecideError::from)?,
            };
            let placed = match policy.place(&mut stripe, ground.racks(), &mut draw) {
                Ok(placed) => placed,
                Err(error) if before.is_some() => {
                    // Nodes died or filled up since it was opened.
                    tracing::info!(stripe = %id, %error, "sealed: it can take no more blocks");
                    self.seal_in(&mut book, id).await?;
                    last = Some(DecideError::from(error).into());
                    continue;
                }
                Err(error) => return Err(DecideError::from(error).into()),
            };
            let planned = PlannedBlock { nodes: placed.nodes.clone(), ..planned.clone() };
            let now_ms = self.cluster.clock.now_ms();
            let after = row_of(&stripe, &key, before.as_ref(), planned.block, now_ms, &view);
            let is_full = after.sealed_ms.is_some();
            let join = Join { stripe: id, before, after };
            let noted = move |c: &catalog::Catalog| {
                c.plan_gathered(put, &planned, Some(&join), now_ms, lease_until_ms)
            };
            match self.records.run(noted).await {
                Ok(birth) => {
                    book.keep(key, id, stripe, is_full);
                    self.bound(&mut book).await?;
                    return Ok(PlacedBlock { nodes: placed.nodes, birth });
                }
                Err(error @ CoordinatorError::Catalog(CatalogError::Overtaken(_))) => last = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(last.unwrap_or_else(|| CoordinatorError::Bug("a block was never placed".to_owned())))
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

    /// The open stripe of that key as the catalog has it.
    async fn known(&self, book: &mut Book, key: &Key) -> Result<Option<(StripeId, GatheringRow)>> {
        let Some(&stripe) = book.open.get(key) else { return Ok(None) };
        let row = self.records.run(move |catalog| catalog.gathering(stripe)).await?;
        match row.filter(|row| row.sealed_ms.is_none()) {
            Some(row) => Ok(Some((stripe, row))),
            // Its last block left, or it was sealed.
            None => {
                book.forget(stripe);
                Ok(None)
            }
        }
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

impl Book {
    fn keep(&mut self, key: Key, stripe: StripeId, open: OpenStripe, is_full: bool) {
        match is_full {
            true => self.forget(stripe),
            false => {
                self.open.insert(key, stripe);
                self.stripes.insert(stripe, open);
            }
        }
    }

    fn forget(&mut self, stripe: StripeId) {
        self.stripes.remove(&stripe);
        self.open.retain(|_, open| *open != stripe);
    }
}
