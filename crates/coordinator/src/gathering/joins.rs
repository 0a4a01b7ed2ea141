//! Blocks join open stripes, all that wait in one change of the catalog: a change takes a sync, and a stripe takes one block after the other.

use super::shape::{policy, resumed, row_of, size_class};
use super::{Book, Gathering, Key};
use crate::error::{CoordinatorError, Result};
use catalog::rows::{GatherTerms, GatheringRow};
use catalog::{Catalog, CatalogError, Join, Joining, PlannedBlock};
use model::{NodeId, PutId, Stamp, StripeId};
use plan::Draw;
use plan::decide::DecideError;
use plan::placement::OpenStripe;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// Blocks that are placed in one change at most, so that the first of them does not wait for ever more others; as in the catalog's own
/// transactions.
const MOST: usize = 256;

/// Times that a block is placed anew because its stripe has changed meanwhile or can take no more.
const MAX_TRIES: usize = 8;

/// A block of a put that is to be placed in a stripe.
pub(crate) struct WantedBlock {
    pub put: PutId,
    pub terms: GatherTerms,
    pub replicas: u32,
    /// The block; its nodes are chosen.
    pub planned: PlannedBlock,
    pub avoid: BTreeSet<NodeId>,
    pub lease_until_ms: u64,
}

/// The chosen place of a block.
pub(crate) struct PlacedBlock {
    pub nodes: Vec<NodeId>,
    /// The change of the catalog that noted it.
    pub birth: Stamp,
}

/// Blocks that wait to be placed. Their number is bounded by that of the requests in flight.
#[derive(Default, Debug)]
pub(super) struct Waiting(Mutex<Queue>);

#[derive(Default)]
struct Queue {
    blocks: Vec<Waiter>,
    /// Somebody places those that wait, and will take what comes meanwhile.
    is_led: bool,
}

struct Waiter {
    wanted: WantedBlock,
    answer: oneshot::Sender<Result<PlacedBlock>>,
    tries: usize,
    /// Why it was not placed before.
    last: Option<CoordinatorError>,
}

/// A block with nodes and a stripe, which the catalog is to note.
struct Proposal {
    key: Key,
    join: Join,
    planned: PlannedBlock,
}

/// The waiter of a proposal, and what is needed to undo the proposal if the catalog does not note it.
struct Proposed {
    key: Key,
    stripe: StripeId,
    is_new: bool,
    nodes: Vec<NodeId>,
    waiter: Waiter,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue").field("blocks", &self.blocks.len()).field("is_led", &self.is_led).finish()
    }
}

impl Waiting {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a block. Returns whether the caller is to see to it that it is placed.
    fn add(&self, waiter: Waiter) -> bool {
        let mut queue = self.queue();
        queue.blocks.push(waiter);
        !std::mem::replace(&mut queue.is_led, true)
    }

    /// Takes those that wait, the first ones first. If there are none, nobody leads any more.
    fn take(&self) -> Vec<Waiter> {
        let mut queue = self.queue();
        let count = queue.blocks.len().min(MOST);
        queue.is_led = count > 0;
        queue.blocks.drain(..count).collect()
    }
}

/// Guard of the task that places blocks. If that task panics, the guard ends the waits of all others.
struct Leads<'a>(&'a Waiting);

impl Drop for Leads<'_> {
    fn drop(&mut self) {
        let mut queue = self.0.queue();
        if std::mem::take(&mut queue.is_led) {
            queue.blocks.clear();
        }
    }
}

impl Gathering {
    /// Chooses nodes for a block of a put and notes it, together with the stripe that it joins.
    ///
    /// # Errors
    /// [`DecideError::Plan`] if the policy finds no place; errors of [`plan_gathered`](catalog::Catalog::plan_gathered).
    pub async fn place(self: &Arc<Self>, wanted: WantedBlock) -> Result<PlacedBlock> {
        let (answer, placed) = oneshot::channel();
        if self.waiting.add(Waiter { wanted, answer, tries: 0, last: None }) {
            let gathering = Arc::clone(self);
            // Apart from this request, which may be given up at any moment: others wait for it.
            tokio::spawn(async move { gathering.lead().await });
        }
        placed.await.unwrap_or_else(|_| Err(CoordinatorError::Bug("a block was never placed".to_owned())))
    }

    async fn lead(&self) {
        let leads = Leads(&self.waiting);
        let mut again = Vec::new();
        loop {
            let mut waiters = std::mem::take(&mut again);
            if waiters.is_empty() {
                waiters = self.waiting.take();
            }
            if waiters.is_empty() {
                break;
            }
            again = self.place_all(waiters).await;
        }
        std::mem::forget(leads);
    }

    /// Places blocks one after the other and notes them in one change. Returns those that are to be placed anew.
    async fn place_all(&self, waiters: Vec<Waiter>) -> Vec<Waiter> {
        let mut book = match self.book().await {
            Ok(book) => book,
            Err(error) => {
                refuse_all(waiters, &error);
                return Vec::new();
            }
        };
        // Stripes as they are with the blocks of this change.
        let mut rows = BTreeMap::new();
        let (mut proposals, mut proposed, mut again) = (Vec::new(), Vec::new(), Vec::new());
        for mut waiter in waiters {
            match self.propose(&mut book, &mut rows, &mut waiter).await {
                Ok(Some(proposal)) => {
                    proposed.push(Proposed::of(&proposal, waiter));
                    proposals.push(proposal);
                }
                Ok(None) => again.push(waiter),
                Err(error) => waiter.answer(Err(error)),
            }
        }
        again.extend(self.note(&mut book, proposals, proposed).await);
        if let Err(error) = self.bound(&mut book).await {
            tracing::warn!(%error, "too many stripes are open, and none could be sealed; the next block tries again");
        }
        again
    }

    /// Places a block in the open stripe of its kind, or in a new one. `None`: that stripe can take no more, and was sealed.
    async fn propose(
        &self,
        book: &mut Book,
        rows: &mut BTreeMap<StripeId, GatheringRow>,
        waiter: &mut Waiter,
    ) -> Result<Option<Proposal>> {
        waiter.tries += 1;
        if let Some(last) = waiter.last.take().filter(|_| waiter.tries > MAX_TRIES) {
            return Err(last);
        }
        let WantedBlock { terms, replicas, planned, avoid, .. } = &waiter.wanted;
        let policy = policy(&self.planner, terms, *replicas)?;
        let (view, mut draw) = (self.cluster.view(), Draw::seeded(rand::random()));
        let ground = view.ground(avoid, planned.stored_bytes, &mut draw)?;
        let core = policy.core(ground.racks(), &mut draw).map_err(DecideError::from)?;
        let key = Key {
            terms: terms.clone(),
            replicas: *replicas,
            size_class: size_class(planned.stored_bytes),
            core: core.map(|rack| view.rack_name(rack).to_owned()),
        };
        let known = self.known(book, rows, &key).await?;
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
                self.seal_in(book, id).await?;
                waiter.last = Some(DecideError::from(error).into());
                return Ok(None);
            }
            Err(error) => return Err(DecideError::from(error).into()),
        };
        let planned = PlannedBlock { nodes: placed.nodes, ..planned.clone() };
        let now_ms = self.cluster.clock.now_ms();
        let after = row_of(&stripe, &key, before.as_ref(), planned.block, now_ms, &view);
        rows.insert(id, after.clone());
        book.keep(key.clone(), id, stripe, after.sealed_ms.is_some());
        Ok(Some(Proposal { key, join: Join { stripe: id, before, after }, planned }))
    }

    /// Notes what was proposed. Returns what is to be placed anew: its stripe has changed meanwhile.
    async fn note(&self, book: &mut Book, proposals: Vec<Proposal>, proposed: Vec<Proposed>) -> Vec<Waiter> {
        if proposals.is_empty() {
            return Vec::new();
        }
        let of = |proposed: &Proposed| (proposed.waiter.wanted.put, proposed.waiter.wanted.lease_until_ms);
        let puts: Vec<(PutId, u64)> = proposed.iter().map(of).collect();
        let now_ms = self.cluster.clock.now_ms();
        let noted = move |catalog: &Catalog| {
            let mut all = Vec::with_capacity(proposals.len());
            for (Proposal { planned, join, .. }, &(put, lease_until_ms)) in proposals.iter().zip(&puts) {
                all.push(Joining { put, planned, join: Some(join), lease_until_ms });
            }
            catalog.plan_all_gathered(&all, now_ms)
        };
        let stamps = match self.records.run(noted).await {
            Ok(stamps) => stamps,
            Err(error) => {
                proposed.iter().for_each(|proposed| book.undo(proposed));
                refuse_all(proposed.into_iter().map(|proposed| proposed.waiter), &error);
                return Vec::new();
            }
        };
        let mut again = Vec::new();
        for (stamp, proposed) in stamps.into_iter().zip(proposed) {
            if stamp.is_err() {
                book.undo(&proposed);
            }
            let Proposed { nodes, mut waiter, .. } = proposed;
            match stamp {
                Ok(birth) => waiter.answer(Ok(PlacedBlock { nodes, birth })),
                Err(error @ CatalogError::Overtaken(_)) => {
                    waiter.last = Some(error.into());
                    again.push(waiter);
                }
                Err(error) => waiter.answer(Err(error.into())),
            }
        }
        again
    }

    /// The open stripe of that key, as the blocks before it in this change leave it, or as the catalog has it.
    async fn known(
        &self,
        book: &mut Book,
        rows: &BTreeMap<StripeId, GatheringRow>,
        key: &Key,
    ) -> Result<Option<(StripeId, GatheringRow)>> {
        let Some(&stripe) = book.open.get(key) else { return Ok(None) };
        if let Some(row) = rows.get(&stripe) {
            return Ok(Some((stripe, row.clone())));
        }
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
}

impl Waiter {
    /// Sends the result. The caller may have gone; then nobody receives it.
    fn answer(self, placed: Result<PlacedBlock>) {
        let _ = self.answer.send(placed);
    }
}

impl Proposed {
    fn of(proposal: &Proposal, waiter: Waiter) -> Proposed {
        let Proposal { key, join, planned } = proposal;
        Proposed {
            key: key.clone(),
            stripe: join.stripe,
            is_new: join.before.is_none(),
            nodes: planned.nodes.clone(),
            waiter,
        }
    }
}

fn refuse_all(waiters: impl IntoIterator<Item = Waiter>, error: &CoordinatorError) {
    for waiter in waiters {
        waiter.answer(Err(match error {
            CoordinatorError::Catalog(error) => error.clone().into(),
            error => CoordinatorError::Bug(error.to_string()),
        }));
    }
}

impl Book {
    /// Stores a stripe after a block was placed in it, or forgets it if it is full.
    fn keep(&mut self, key: Key, stripe: StripeId, open: OpenStripe, is_full: bool) {
        match is_full {
            true => self.forget(stripe),
            false => {
                self.open.insert(key, stripe);
                self.stripes.insert(stripe, open);
            }
        }
    }

    /// Forgets a proposal that the catalog did not note. Its stripe is read from the catalog the next time.
    fn undo(&mut self, proposed: &Proposed) {
        self.stripes.remove(&proposed.stripe);
        match proposed.is_new {
            true => self.forget(proposed.stripe),
            false => _ = self.open.entry(proposed.key.clone()).or_insert(proposed.stripe),
        }
    }

    pub(super) fn forget(&mut self, stripe: StripeId) {
        self.stripes.remove(&stripe);
        self.open.retain(|_, open| *open != stripe);
    }
}
