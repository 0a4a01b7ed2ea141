//! Full-node recovery (RP §3.3): every block that dead nodes held is made again elsewhere, several stripes at once, the
//! most endangered first. Decommissioning a living node is the same job: its blocks are copied from it, or rebuilt from their
//! stripes, so many that both end together (`plan/src/recovery/leaving.rs`).
//!
//! ```text
//!   blocks of the nodes ──by urgency──▶ queue ──a batch──▶ helpers and requestors assigned ──▶ pending
//!        ▲                                                                                        │ room at all its nodes
//!        └── once more, if blocks came meanwhile ◀── none left ◀── done, failed, or again ◀── running
//! ```
//!
//! What is done is told by the catalog alone, so after a restart only what is still lost is repaired.

mod automatic;
mod listing;
mod progress;
mod rehearse;

pub(crate) use automatic::{Recoverer, row_of, too_many_dead};
pub(super) use rehearse::rehearse;

use crate::assigning::{Assigner, Lost, Pending, Terms};
use crate::attempt::{Attempts, Outcome, RepairOptions, Wanted, scheme};
use crate::cluster::Cluster;
use crate::config::PARALLEL_WHILE_READING;
use crate::error::{CoordinatorError, Result};
use crate::job::Job;
use crate::leaving::{Leaving, UNKNOWN};
use crate::reads::Reads;
use crate::under_way::{BrokeOff, UnderWay};
use catalog::Condition;
use catalog::rows::RecoveryRow;
use listing::{Piece, Place, lost_on};
use model::{BlockId, NodeId};
use plan::decide::BATCH;
use progress::Progress;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// Blocks that wait to be assigned; while there are more, no further ones are listed. Some twenty megabytes.
const MAX_QUEUED: usize = 262_144;

/// Passes in a row without any progress after which a recovery ends. Passing faults are over by then; lasting ones are reported.
const MAX_IN_VAIN: u32 = 3;

/// Pause between two passes over the blocks. In the meantime puts that were planned before a node began to leave commit, and passing faults end.
const PASS_PAUSE: Duration = Duration::from_millis(500);

/// The job. `discard`: blocks are made, verified and made durable elsewhere, and then thrown away; the nodes may live.
pub(super) async fn run(
    with: &Arc<Attempts>,
    reads: &Reads,
    leaving: &Leaving,
    job: &Arc<Job>,
    row: &RecoveryRow,
    discard: bool,
) -> Result<String> {
    for &node in row.nodes.iter().filter(|_| !(row.moves || discard)) {
        check_dead(&with.cluster, node)?;
    }
    tracing::info!(nodes = whose(row), what = what(row), "begun");
    // How much is shared depends on how many run at once.
    with.usual.of(true).forget();
    let mut recovery = Recovery {
        with,
        reads,
        job,
        row,
        discard,
        listing: JoinSet::new(),
        at: None,
        fresh: 0,
        queue: BTreeSet::new(),
        assigner: Assigner::new(terms(row)?),
        running: UnderWay::default(),
        progress: Progress::default(),
        tried: BTreeSet::new(),
        repaired: 0,
        made: 0,
        failures: BTreeMap::new(),
    };
    let is_stopped = match recovery.until_nothing_moves().await {
        Err(CoordinatorError::ShuttingDown) => return Err(CoordinatorError::ShuttingDown),
        Err(error) => {
            if row.moves {
                leaving.is_stuck(&with.cluster, &row.nodes, &error.in_short(), 0);
            }
            return Err(error);
        }
        Ok(came_to_the_end) => !came_to_the_end,
    };
    if is_stopped || (row.moves && !recovery.failures.is_empty() && !job.task.may_go_on().await) {
        return stopped(with, row).await;
    }
    recovery.failures.values().for_each(|_| job.count(false));
    let (repaired, failures) = (recovery.repaired, std::mem::take(&mut recovery.failures));
    tracing::info!(nodes = whose(row), what = what(row), repaired, failed = failures.len(), "ended");
    match row.moves && !discard {
        true => leaving_or_left(with, leaving, row, repaired, failures).await,
        false => rebuilt(row, discard, repaired, failures),
    }
}

/// Reports that an operator stopped the job, and stops the orders for nodes to leave, so that they do not resume automatically.
async fn stopped(with: &Attempts, row: &RecoveryRow) -> Result<String> {
    if row.moves {
        let nodes = row.nodes.clone();
        with.records.run(move |catalog| catalog.stop_leaving(&nodes)).await?;
    }
    let text = format!("the {} of {} was stopped", what(row), whose(row));
    Err(CoordinatorError::Conflict(text))
}

type Failures = BTreeMap<Lost, CoordinatorError>;

fn rebuilt(row: &RecoveryRow, discard: bool, repaired: u64, failures: Failures) -> Result<String> {
    match failures.values().next() {
        None if discard => {
            Ok(format!("{repaired} blocks of {} rebuilt, verified and thrown away", whose(row)))
        }
        None => Ok(format!("{repaired} blocks of {} rebuilt", whose(row))),
        Some(first) => {
            let (failed, total) = (failures.len(), repaired + failures.len() as u64);
            let whose = whose(row);
            let text =
                format!("{failed} of {total} blocks of {whose} could not be rebuilt; the first: {first}");
            Err(CoordinatorError::Conflict(text))
        }
    }
}

/// Reports that the nodes hold nothing now. Otherwise reports what prevents it, and notes that for the worker that resumes the order.
async fn leaving_or_left(
    with: &Attempts,
    leaving: &Leaving,
    row: &RecoveryRow,
    moved: u64,
    failures: Failures,
) -> Result<String> {
    let nodes = row.nodes.clone();
    let left = with.records.run(move |catalog| catalog.left_on(&nodes)).await?;
    let is_known = with.records.condition() == Condition::Sound;
    if left == 0 && is_known {
        leaving.over(&row.nodes);
        return Ok(format!("{moved} blocks of {} moved; it holds nothing now", whose(row)));
    }
    let longest_bytes = failures.keys().map(|lost| lost.bytes).max().unwrap_or(0);
    let why = match failures.values().next() {
        Some(first) => first.in_short(),
        None if !is_known => UNKNOWN.to_owned(),
        None => BUSY.to_owned(),
    };
    leaving.is_stuck(&with.cluster, &row.nodes, &why, longest_bytes);
    Err(CoordinatorError::Leaving { nodes: whose(row), left, why })
}

/// Reason given when blocks are left though no move failed.
const BUSY: &str = "they are being written, or others came meanwhile";

/// A node whose blocks are all made again must not be one that only nobody has heard of yet.
pub(crate) fn check_dead(cluster: &Cluster, node: NodeId) -> Result<()> {
    let view = cluster.view();
    let state = view.node(node)?;
    if state.is_living {
        return Err(CoordinatorError::Conflict(format!(
            "{node} is alive; stop it first (`stripeline node stop`), then repair it, \
             or move its blocks away (`stripeline node decommission`)"
        )));
    }
    if !state.was_seen && cluster.has_just_started() {
        return Err(CoordinatorError::Conflict(format!(
            "the coordinator has just started and does not know yet whether {node} is alive; \
             try again in {} s",
            cluster.dead_after().as_millis().div_ceil(1_000)
        )));
    }
    Ok(())
}

fn what(row: &RecoveryRow) -> &'static str {
    if row.moves { "decommissioning" } else { "recovery" }
}

fn whose(row: &RecoveryRow) -> String {
    row.nodes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// How its blocks are assigned.
fn terms(row: &RecoveryRow) -> Result<Terms> {
    let requestors = row.requestors.iter().copied().collect();
    Ok(Terms { assign: row.assign, scheme: scheme(&row.scheme)?, requestors, moves: row.moves })
}

struct Recovery<'a> {
    with: &'a Arc<Attempts>,
    reads: &'a Reads,
    job: &'a Arc<Job>,
    row: &'a RecoveryRow,
    discard: bool,
    /// The piece of the nodes' blocks that is being listed.
    listing: JoinSet<Result<Piece>>,
    /// Where the next one begins.
    at: Option<Place>,
    /// Copies that this pass has listed and no earlier one tried.
    fresh: u64,
    /// Not yet assigned, the most urgent first.
    queue: BTreeSet<Lost>,
    assigner: Assigner,
    running: UnderWay<Pending, Result<Outcome>>,
    progress: Progress,
    /// Copies that were tried and are still there, as far as is known.
    tried: BTreeSet<(Option<NodeId>, BlockId)>,
    repaired: u64,
    /// Number of those for which a copy was made.
    made: u64,
    /// Latest failures that have not been retried.
    failures: Failures,
}

impl Recovery<'_> {
    /// Repeats passes over all blocks of the nodes until nothing more can be moved or re-created. Returns false if the job was stopped first.
    async fn until_nothing_moves(&mut self) -> Result<bool> {
        let mut in_vain = 0;
        loop {
            let before = self.made;
            (self.fresh, self.at) = (0, Some(Place::default()));
            if !self.all().await? {
                return Ok(false);
            }
            let lasts = self.failures.values().all(CoordinatorError::lasts);
            in_vain = if self.made > before { 0 } else { in_vain + 1 };
            let is_over = match self.failures.is_empty() {
                true => self.fresh == 0,
                false => in_vain >= MAX_IN_VAIN || (in_vain > 0 && lasts),
            };
            // Discarded blocks are still missing afterwards, so another pass would repeat them.
            if self.discard || is_over {
                return Ok(true);
            }
            tokio::time::sleep(PASS_PAUSE).await;
            self.try_again();
        }
    }

    /// Lets failed blocks be listed and tried once more.
    fn try_again(&mut self) {
        for lost in std::mem::take(&mut self.failures).into_keys() {
            self.tried.remove(&(lost.node, lost.block));
            self.job.take_off(1);
        }
    }

    /// Has the next piece listed, if there is room for it.
    fn list(&mut self) {
        if self.listing.is_empty()
            && self.queue.len() < MAX_QUEUED
            && let Some(at) = self.at.take()
        {
            let (with, nodes) = (Arc::clone(self.with), self.row.nodes.clone());
            self.listing.spawn(async move { listing::piece(&with, nodes, at).await });
        }
    }

    /// Takes a piece of what is to be replaced.
    fn listed(&mut self, Piece { lost, next }: Piece) -> Result<()> {
        let is_fresh = |lost: &Lost| !self.tried.contains(&(lost.node, lost.block));
        let fresh: Vec<Lost> = lost.into_iter().filter(is_fresh).collect();
        self.progress.expect(fresh.iter().map(|lost| lost.bytes).sum(), self.now_ms());
        self.job.add(fresh.len() as u64);
        self.fresh += fresh.len() as u64;
        self.queue.extend(fresh);
        self.at = next;
        if self.at.is_none() && self.fresh > 0 {
            self.job.say(format!("{} blocks of {} to make again", self.fresh, whose(self.row)));
        }
        let first = self.queue.first().map(|first| first.urgency);
        self.queue.extend(self.assigner.overtaken(first));
        Ok(())
    }

    /// Works until nothing is left. Whether it came to that, and was not stopped. What was begun ends before an error is told: broken
    /// off, its blocks would be noted as being made until the coordinator starts again.
    async fn all(&mut self) -> Result<bool> {
        match self.work().await {
            Err(CoordinatorError::ShuttingDown) => Err(CoordinatorError::ShuttingDown),
            Err(error) => {
                self.drain().await?;
                Err(error)
            }
            worked => worked,
        }
    }

    async fn work(&mut self) -> Result<bool> {
        loop {
            if self.job.task.is_on() {
                while let Some(next) = self.next().await? {
                    self.start(next);
                }
                self.list();
                if self.running.len() == 0 && self.listing.is_empty() {
                    return Ok(true);
                }
            } else {
                self.progress.interrupt();
                self.report("paused");
            }
            tokio::select! {
                Some(piece) = self.listing.join_next() => match piece {
                    Ok(piece) => self.listed(piece?)?,
                    Err(error) => return Err(BrokeOff::from(error).into()),
                },
                Some((pending, outcome)) = self.running.next() => self.settle(pending, outcome)?,
                goes_on = self.job.task.may_go_on(), if !self.job.task.is_on() => {
                    if !goes_on {
                        self.drain().await?;
                        return Ok(false);
                    }
                }
            }
        }
    }

    /// Waits for what was told to stop.
    async fn drain(&mut self) -> Result<()> {
        while let Some((pending, outcome)) = self.running.next().await {
            self.settle(pending, outcome)?;
        }
        Ok(())
    }

    /// The next block that may begin now: fewer than allowed run, and its nodes have room.
    async fn next(&mut self) -> Result<Option<Pending>> {
        let allowed = match self.reads.degraded_lately() {
            true => PARALLEL_WHILE_READING.min(self.row.parallel as usize),
            false => self.row.parallel as usize,
        };
        if self.running.len() >= allowed.max(1) {
            return Ok(None);
        }
        self.queue.extend(self.assigner.distrusted(&self.with.cluster.view()));
        if self.assigner.is_empty() && !self.queue.is_empty() {
            let batch: Vec<Lost> = std::iter::from_fn(|| self.queue.pop_first()).take(BATCH).collect();
            match self.assigner.take(self.with, self.reads, batch.clone()).await {
                // Nobody has room for the longest, say: each repair tells, and the others go on.
                Err(CoordinatorError::Decide(_)) if self.row.requestors.is_empty() => {
                    batch.into_iter().rev().for_each(|lost| self.assigner.again(Pending::free(lost)));
                }
                taken => taken?,
            }
        }
        Ok(self.assigner.next(&self.with.cluster))
    }

    fn start(&mut self, pending: Pending) {
        self.assigner.begin(&pending);
        let options = pending.options(RepairOptions {
            scheme: self.row.scheme.clone(),
            slice_bytes: self.row.slice_bytes,
            verify: self.row.verify,
            discard: self.discard,
            replaces: pending.lost.node,
            moves: self.row.moves,
            among_many: true,
            ..RepairOptions::default()
        });
        let (with, job) = (Arc::clone(self.with), Arc::clone(self.job));
        let block = pending.lost.block;
        let repair = async move { with.carry_when_free(&job, Wanted::Block(block), &options).await };
        self.running.begin(pending, repair);
    }

    fn settle(
        &mut self,
        pending: Pending,
        outcome: std::result::Result<Result<Outcome>, BrokeOff>,
    ) -> Result<()> {
        let block = pending.lost.block;
        self.assigner.end(&pending);
        match outcome.unwrap_or_else(|broke_off| Err(broke_off.into())) {
            Err(CoordinatorError::ShuttingDown) => return Err(CoordinatorError::ShuttingDown),
            Err(CoordinatorError::Paused) => self.assigner.again(pending),
            Ok(outcome) => {
                if outcome.made.is_empty() {
                    self.tried.insert((pending.lost.node, block));
                }
                self.repaired += 1;
                self.made += outcome.made.len() as u64;
                self.progress.done(pending.lost.bytes, self.now_ms());
                self.job.count(true);
                self.report("");
            }
            Err(error) => {
                let Some(pending) = self.assigner.retried(pending, &error) else { return Ok(()) };
                tracing::warn!(%block, %error, "not rebuilt");
                self.tried.insert((pending.lost.node, block));
                self.progress.given_up(pending.lost.bytes);
                self.job.say(format!("block {block} could not be rebuilt: {error}"));
                self.failures.insert(pending.lost, error);
            }
        }
        Ok(())
    }

    fn now_ms(&self) -> u64 {
        self.with.cluster.clock.now_ms()
    }

    fn report(&self, state: &str) {
        let estimate = self.progress.estimate(self.now_ms());
        let yields = if self.reads.degraded_lately() { ", making way for reads" } else { "" };
        let state = if state.is_empty() { String::new() } else { format!("{state}: ") };
        let text = format!("{state}{} of {}{estimate}{yields}", what(self.row), whose(self.row));
        self.job.task.note(|report| report.detail.clone_from(&text));
        self.job.tell(text, estimate);
    }
}
