//! Nodes that are gone for good, by an operator's word (HEALING.md, "The healer"): what they had is made again elsewhere, as far
//! as it can be; then nothing names them any more.
//!
//! ```text
//!   it is dead, and nothing is lost with it, or that is accepted ─▶ noted: its store is refused from now on
//!        ─▶ its blocks are made again, at once ─▶ what still names it is dropped, in batches ─▶ its number is free
//! ```
//! The note is durable, the rest is not: whoever starts again begins with the recovery, and finds what is left.

use crate::clock;
use crate::cluster::{Cluster, Life};
use crate::error::{CoordinatorError, Result};
use crate::jobs::{Jobs, Wish, check_dead};
use crate::records::Records;
use crate::settings::Settings;
use catalog::rows::{ForgottenRow, JobRow, NodeRow, RecoveryRow};
use catalog::{Loss, Pass};
use model::{NodeId, StoreId};
use plan::decide::DecideError;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast::error::RecvError;
use worker::{Step, Task, Worker};

/// So often it is looked whether a store is to be forgotten, or what is waited for has ended.
const TICK: Duration = Duration::from_millis(200);

/// Whoever asks for it is answered after this long in any case, and may ask again.
const PATIENCE: Duration = Duration::from_secs(5);

/// See the module.
#[derive(Debug)]
pub(crate) struct Forgetting {
    jobs: Arc<Jobs>,
    settings: Arc<Settings>,
    /// Stripes that a recovery repairs at once.
    parallel: u32,
}

impl Forgetting {
    pub fn new(jobs: Arc<Jobs>, settings: Arc<Settings>, parallel: usize) -> Forgetting {
        let parallel = u32::try_from(parallel).unwrap_or(u32::MAX);
        Forgetting { jobs, settings, parallel }
    }

    fn cluster(&self) -> &Cluster {
        &self.jobs.attempts.cluster
    }

    fn records(&self) -> &Records {
        &self.jobs.attempts.records
    }

    /// The node's store is gone for good. Begins to forget it, or says how far that is; waits a little for its end.
    ///
    /// # Errors
    /// [`CoordinatorError::StillLives`]; [`CoordinatorError::StillNeeded`] unless the loss is accepted.
    pub async fn forget(&self, node: NodeId, accepts_loss: bool) -> Result<ForgottenRow> {
        let known = self.records().run(move |catalog| catalog.node(node)).await?;
        let before = self.records().run(|catalog| catalog.forgotten()).await?;
        let store = match known {
            Some(row) if before.iter().any(|(store, _)| *store == row.store) => row.store,
            Some(row) => self.begin(node, &row, accepts_loss).await?,
            // Its number is free, if it ever was another's.
            None => {
                let of_it = before.into_iter().map(|(_, row)| row).filter(|row| row.node == node);
                let last = of_it.max_by_key(|row| row.since_ms);
                return last.ok_or_else(|| DecideError::NoSuchNode(node).into());
            }
        };
        self.until_over(store).await
    }

    async fn begin(&self, node: NodeId, row: &NodeRow, accepts_loss: bool) -> Result<StoreId> {
        if self.jobs.moves(node) {
            return Err(CoordinatorError::Conflict(format!(
                "{node}'s blocks are being moved away; take that order back first ('stripeline node recommission {}')",
                node.0
            )));
        }
        self.cluster().wait_for_news_of(node).await;
        // A process that this coordinator does not hear may live all the same.
        let life = self.cluster().life(node).ok_or(DecideError::NoSuchNode(node))?;
        let answers = async || !life.is_by_its_own_word() && self.cluster().answers(node, row).await;
        if life == Life::Living || answers().await {
            return Err(CoordinatorError::StillLives(node));
        }
        check_dead(self.cluster(), node)?;
        let (planner, living) = (Arc::clone(&self.jobs.attempts.planner), self.cluster().view().living());
        let look = move |catalog: &catalog::Catalog| {
            catalog.loss(node, &living, |code, usable| planner.codes.recoverable(code, usable))
        };
        let loss = self.records().run(look).await?;
        if loss.blocks > 0 && !accepts_loss {
            let Loss { blocks, objects, names } = loss;
            return Err(CoordinatorError::StillNeeded { node, blocks, objects, names });
        }
        let (store, start) = (row.store, row.incarnation);
        let now_ms = self.cluster().clock.now_ms();
        tracing::warn!(%node, %store, lost = loss.blocks, "an operator gives it up for good: its store is refused from now on");
        let begin =
            move |catalog: &catalog::Catalog| catalog.begin_forgetting(node, (store, start), &loss, now_ms);
        self.records().run(begin).await?;
        self.cluster().health.set_leaving(node, true);
        Ok(store)
    }

    async fn until_over(&self, store: StoreId) -> Result<ForgottenRow> {
        let began = clock::Began::now();
        loop {
            let rows = self.records().run(|catalog| catalog.forgotten()).await?;
            let row = rows.into_iter().find(|(known, _)| *known == store).map(|(_, row)| row);
            match row {
                Some(row) if row.is_over || began.elapsed() >= PATIENCE => return Ok(row),
                Some(_) => clock::rest(TICK).await,
                None => return Err(CoordinatorError::ShuttingDown),
            }
        }
    }
}

/// The worker.
pub(crate) struct Forgetter {
    forgetting: Arc<Forgetting>,
    /// Stores whose blocks were made again, as far as they could be.
    recovered: BTreeSet<StoreId>,
    passes: BTreeMap<StoreId, Pass>,
}

impl Forgetter {
    pub fn new(forgetting: Arc<Forgetting>) -> Forgetter {
        Forgetter { forgetting, recovered: BTreeSet::new(), passes: BTreeMap::new() }
    }

    /// Makes the blocks of a node again, if it has any. Whether that was tried to its end.
    async fn recover(&mut self, store: StoreId, node: NodeId) -> Result<bool> {
        let Forgetting { jobs, parallel, .. } = &*self.forgetting;
        let (cluster, records) = (self.forgetting.cluster(), self.forgetting.records());
        if self.recovered.contains(&store) {
            return Ok(true);
        }
        if records.run(move |catalog| catalog.holds_any(node)).await? {
            if cluster.has_just_started() {
                return Ok(false);
            }
            let (nodes, parallel) = (vec![node], *parallel);
            let row = RecoveryRow { nodes, verify: true, parallel, ..RecoveryRow::default() };
            let mut events = match jobs.start(Wish::Lasting(JobRow::RecoverNodes(row))).await {
                Ok(events) => events,
                // Somebody is at it in another way, or too much is going on.
                Err(CoordinatorError::Conflict(_) | CoordinatorError::TooMany { .. }) => return Ok(false),
                Err(error) => return Err(error),
            };
            loop {
                match events.recv().await {
                    Ok(event) if event.state == "done" || event.state == "failed" => break,
                    Ok(_) | Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return Err(CoordinatorError::ShuttingDown),
                }
            }
        }
        self.recovered.insert(store);
        Ok(true)
    }

    /// A bounded piece of forgetting a store. What it waits for, if it does.
    async fn some_of(&mut self, store: StoreId, node: NodeId) -> Result<Option<&'static str>> {
        if !self.recover(store, node).await? {
            return Ok(Some("its blocks are being made again"));
        }
        let records = self.forgetting.records();
        let pass = self.passes.remove(&store).unwrap_or(Pass::Waits);
        let pass = records.run(move |catalog| catalog.forget_some(store, &pass)).await?;
        match pass {
            Pass::Over => {
                self.forgetting.settings.forget(node);
                self.forgetting.cluster().health.forget(node, store);
                self.forgetting.cluster().calls.forget(node, store);
                tracing::warn!(%node, %store, "nothing names it any more: its number is free");
                return Ok(None);
            }
            Pass::Waits => return Ok(Some("plans that may yet write there have not ended")),
            pass => self.passes.insert(store, pass),
        };
        Ok(None)
    }
}

impl Worker for Forgetter {
    type Error = CoordinatorError;

    fn name(&self) -> &'static str {
        "forget"
    }

    fn pause(&self) -> Duration {
        TICK
    }

    async fn step(&mut self, task: &Task) -> Result<Step> {
        let rows = self.forgetting.records().run(|catalog| catalog.forgotten()).await?;
        let (mut waits, mut moves) = (Vec::new(), false);
        for (store, row) in rows.into_iter().filter(|(_, row)| !row.is_over) {
            match self.some_of(store, row.node).await? {
                Some(why) => waits.push(format!("{}: {why}", row.node)),
                None => moves = true,
            }
        }
        task.note(|report| {
            report.done += u64::from(moves);
            report.detail = waits.join("; ");
        });
        Ok(if moves { Step::Again } else { Step::Wait(TICK) })
    }
}
