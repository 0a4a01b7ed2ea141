//! The healer: what lacks copies gets them, nobody asking (HEALING.md, "The healer"). No event leads to a repair: the catalog's
//! index says what lacks, so nothing is missed by a queue that was full, a restart, or damage that nobody remembers.
//!
//! ```text
//!   catalog's index ──a sweep when something changed──▶ queue, by margin and age ──room──▶ the one attempt ──▶ made
//!                                                         ▲          failed: later, or when nodes have changed │
//!                                                         └────────────────────────────────────────────────────┘
//! ```
//!
//! Where many blocks lack copies, as of a node whose disk was emptied, helpers are assigned to them in batches, as in the recovery
//! of whole nodes (`assigning.rs`), so that links share them evenly.
//!
//! Copies on nodes that are dead do not lack: the recovery of whole nodes (`jobs/recover.rs`) makes those, after a grace. But
//! what survives no further loss is made after a minute (`scout.rs`). What lacks nothing, and lies worse than the cluster allows, gets
//! a copy elsewhere (`spreading.rs`).

mod queue;
mod scout;
mod spreading;
mod unread;

use crate::assigning::{Assigner, Lost, Pending, Terms};
use crate::attempt::{Attempts, Outcome, RepairOptions, Wanted};
use crate::clock::within;
use crate::cluster::{Cluster, Scene};
use crate::config::{Config, PARALLEL_WHILE_READING};
use crate::error::{CoordinatorError, Result};
use crate::job::Job;
use crate::reads::Reads;
use crate::under_way::UnderWay;
use crate::unread::UnreadCopies;
use catalog::{CatalogError, Lack};
use model::{BlockId, NodeId, Placement};
use plan::Urgency;
use plan::decide::{BATCH, Planner, World};
use queue::{Queue, Standing, Why};
use scout::{Scout, is_still_last};
use spreading::Spreading;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::broadcast;
use unread::UnreadWalk;
use worker::{Step, Task, Worker};

/// The name of its task.
pub(crate) const NAME: &str = "healer";

/// So often it is looked whether anything lacks.
const LOOK: Duration = Duration::from_millis(100);

/// Between two sweeps there is at least so many times what the last one took, so that they cost a tenth of a core at most.
const REST: u64 = 10;

/// So few blocks are made without helpers being assigned to them: each chooses who is best as it begins, and expects the links
/// for itself.
const FEW: usize = 8;

/// Failing blocks that are told of by name.
const TOLD: usize = 16;

/// What nothing can be done about as long as nodes are as they are: why, how many blocks, one of them.
type Blocked = BTreeMap<&'static str, (u64, BlockId)>;

/// What a copy is made for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum For {
    Lack,
    Spread,
}

/// See the module.
pub(crate) struct Healer {
    attempts: Arc<Attempts>,
    reads: Arc<Reads>,
    job: Arc<Job>,
    healing: Arc<Healing>,
    queue: Queue,
    /// What the queue gave out, with who repairs it.
    assigner: Assigner,
    /// What it was given last was more than [`FEW`].
    among_many: bool,
    /// At most so many repairs run at once.
    parallel: usize,
    /// Of all blocks that it was to make.
    longest_bytes: u64,
    spreading: Spreading,
    running: UnderWay<(Pending, For), Result<Outcome>>,
    sweep: Option<Sweep>,
    scout: Scout,
    unread: UnreadWalk,
    blocked: Blocked,
    /// Failed work is tried again when this changes.
    scene: Scene,
    /// Changes of the catalog before the last sweep began.
    swept: Option<u64>,
    /// On the cluster's clock.
    rests_until_ms: u64,
}

struct Sweep {
    began_ms: u64,
    from: Option<BlockId>,
    blocked: Blocked,
}

/// What the healer has before it, for who asks.
#[derive(Debug, Default)]
pub(crate) struct Healing(Mutex<Told>);

/// See [`Healing`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Told {
    /// Blocks that wait for their repair, or are being repaired.
    pub open: u64,
    /// Of these, those whose turn it is: the others failed, and wait.
    pub due: u64,
    /// Why repairs failed or cannot be begun, of how many blocks, and one of them.
    pub reasons: Vec<(String, u64, BlockId)>,
}

impl For {
    fn text(self) -> &'static str {
        match self {
            For::Lack => "it lacks a copy",
            For::Spread => "copies of it or of its stripe share a rack or a host and it is to be elsewhere",
        }
    }
}

impl Healing {
    /// As of now.
    pub fn told(&self) -> Told {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Told> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Healer {
    /// Its task is the one given.
    pub fn new(
        attempts: Arc<Attempts>,
        reads: Arc<Reads>,
        (healing, unread): (Arc<Healing>, Arc<UnreadCopies>),
        config: &Config,
        task: &Arc<Task>,
    ) -> Healer {
        let terms = Terms { assign: config.assign, scheme: None, requestors: BTreeSet::new(), moves: false };
        // Nobody listens: it tells by its task.
        let (events, _) = broadcast::channel(1);
        Healer {
            attempts,
            reads,
            job: Arc::new(Job::new(0, events, Arc::clone(task), "blocks")),
            healing,
            queue: Queue::default(),
            assigner: Assigner::new(terms),
            among_many: false,
            parallel: config.parallel,
            longest_bytes: 0,
            spreading: Spreading::default(),
            running: UnderWay::default(),
            sweep: None,
            scout: Scout::new(config.recovery_grace_ms),
            unread: UnreadWalk::new(unread),
            blocked: Blocked::new(),
            scene: Scene::default(),
            swept: None,
            rests_until_ms: 0,
        }
    }

    /// Goes on through the index, a piece at a time. Whether it is under way.
    async fn sweep(&mut self, view: &World) -> Result<bool> {
        let records = &self.attempts.records;
        let (changes, now_ms) = (records.changes(), self.attempts.cluster.clock.now_ms());
        let sweep = match &mut self.sweep {
            Some(sweep) => sweep,
            None if self.swept == Some(changes) || now_ms < self.rests_until_ms => return Ok(false),
            none => {
                self.swept = Some(changes);
                self.queue.begin_sweep();
                none.insert(Sweep { began_ms: now_ms, from: None, blocked: Blocked::new() })
            }
        };
        let from = sweep.from;
        let piece = records.run(move |catalog| {
            let (lacks, next) = catalog.lacks(from)?;
            let blocks: Vec<BlockId> = lacks.iter().map(|&Lack { block, .. }| block).collect();
            Ok((catalog.placements(&blocks)?, next))
        });
        let (placements, next) = piece.await?;
        let living = view.living();
        // A block that is gone by now is `None`.
        for placement in placements.into_iter().flatten() {
            match hindrance(&placement, &self.scene.takers) {
                Some(why) => sweep.blocked.entry(why).or_insert((0, placement.block)).0 += 1,
                None => {
                    let standing =
                        standing(&self.attempts.planner, &placement, &living).unwrap_or(Standing::HOPELESS);
                    self.queue.found(placement.block, Why::Lacks, standing, now_ms);
                }
            }
        }
        sweep.from = next;
        if next.is_some() {
            return Ok(true);
        }
        self.queue.end_sweep();
        let now_ms = self.attempts.cluster.clock.now_ms();
        self.rests_until_ms = now_ms + now_ms.saturating_sub(sweep.began_ms) * REST;
        self.blocked = std::mem::take(&mut sweep.blocked);
        self.sweep = None;
        self.tell();
        Ok(false)
    }

    async fn begin_some(&mut self, view: &World) -> Result<()> {
        let at_once = if self.reads.degraded_lately() { PARALLEL_WHILE_READING } else { self.parallel };
        while self.running.len() < at_once {
            if let Some(pending) = self.next_lack(view).await? {
                self.begin(pending, For::Lack);
                continue;
            }
            let now_ms = self.attempts.cluster.clock.now_ms();
            let few = self.running.len() < FEW;
            let Some(block) = few.then(|| self.spreading.queue.next(now_ms)).flatten() else { break };
            self.begin(Pending::free(lost(block, Standing::default(), 0)), For::Spread);
        }
        Ok(())
    }

    /// The next block that lacks a copy and may be made now.
    async fn next_lack(&mut self, view: &World) -> Result<Option<Pending>> {
        let most_urgent = self.queue.margin().map(urgency);
        let (overtaken, distrusted) = (self.assigner.overtaken(most_urgent), self.assigner.distrusted(view));
        overtaken.iter().chain(&distrusted).for_each(|lost| self.queue.interrupted(lost.block));
        if self.assigner.is_empty() {
            let now_ms = self.attempts.cluster.clock.now_ms();
            let blocks: Vec<BlockId> = std::iter::from_fn(|| self.queue.next(now_ms)).take(BATCH).collect();
            if blocks.is_empty() {
                return Ok(None);
            }
            if let Err(error) = self.take(&blocks).await {
                blocks.into_iter().for_each(|block| self.queue.interrupted(block));
                return Err(error);
            }
        }
        Ok(self.assigner.next(&self.attempts.cluster))
    }

    /// Assigns helpers to these blocks, if they are many.
    async fn take(&mut self, blocks: &[BlockId]) -> Result<()> {
        let standing = |block: &BlockId| self.queue.standing(*block).unwrap_or_default();
        let is_last = |block: &BlockId| self.queue.why(*block) == Some(Why::Last);
        let are_many = blocks.len() > FEW;
        if are_many && !self.among_many {
            // How much is shared depends on how many run at once.
            self.attempts.usual.of(true).forget();
        }
        // The last pieces of a batch still share links with those that run.
        self.among_many = are_many || (self.among_many && self.running.len() > FEW);
        let known = blocks.to_vec();
        let placements = self.attempts.records.run(move |catalog| catalog.placements(&known)).await?;
        let bytes = || placements.iter().map(|p| p.as_ref().map_or(0, |p| p.facts.stored_bytes));
        self.longest_bytes = bytes().max().unwrap_or(0).max(self.longest_bytes);
        let all: Vec<(Lost, bool)> = blocks
            .iter()
            .zip(bytes())
            .map(|(block, bytes)| (lost(*block, standing(block), bytes), is_last(block)))
            .collect();
        // What rests on dead nodes is looked at once more as it begins.
        let (assigned, free): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|(_, is_last)| are_many && !is_last);
        let batch: Vec<Lost> = assigned.into_iter().map(|(lost, _)| lost).collect();
        let mut free: Vec<Lost> = free.into_iter().map(|(lost, _)| lost).collect();
        if !batch.is_empty() {
            match self.assigner.take(&self.attempts, &self.reads, batch.clone()).await {
                // Nobody may take any, say: each repair tells.
                Err(CoordinatorError::Decide(_)) => free.extend(batch),
                taken => taken?,
            }
        }
        // Nothing fails any more: whatever is taken is in one place.
        free.into_iter().rev().for_each(|lost| self.assigner.again(Pending::free(lost)));
        Ok(())
    }

    fn begin(&mut self, pending: Pending, why: For) {
        self.assigner.begin(&pending);
        let (attempts, job, block) = (Arc::clone(&self.attempts), Arc::clone(&self.job), pending.lost.block);
        let is_last = why == For::Lack && self.queue.why(block) == Some(Why::Last);
        let among_many = self.among_many;
        let options = pending.options(RepairOptions { verify: true, among_many, ..RepairOptions::default() });
        self.running.begin((pending, why), async move {
            match why {
                For::Spread => spreading::spread(&attempts, &job, block).await,
                For::Lack if is_last && !is_still_last(&attempts, block).await => Ok(Outcome::default()),
                For::Lack => attempts.carry(&job, Wanted::Block(block), &options).await,
            }
        });
    }

    /// Goes on looking for what survives no further loss. Whether it is under way.
    async fn scout(&mut self, view: &World) -> Result<bool> {
        let found = self.scout.look(&self.attempts, view).await?;
        let now_ms = self.attempts.cluster.clock.now_ms();
        let is_under_way = found.is_some();
        for (block, standing) in found.into_iter().flatten() {
            self.queue.found(block, Why::Last, standing, now_ms);
        }
        Ok(is_under_way)
    }

    /// Queues blocks whose unread copies are overdue.
    async fn queue_unread(&mut self, view: &World) -> Result<()> {
        let due = self.unread.look(&self.attempts, view).await?;
        let now_ms = self.attempts.cluster.clock.now_ms();
        for (block, standing) in due {
            self.queue.found(block, Why::Unread, standing, now_ms);
        }
        Ok(())
    }

    fn settle(&mut self, pending: Pending, why: For, outcome: Result<Outcome>) {
        let block = pending.lost.block;
        self.assigner.end(&pending);
        let now_ms = self.attempts.cluster.clock.now_ms();
        let task = &self.job.task;
        let queue = if why == For::Lack { &mut self.queue } else { &mut self.spreading.queue };
        match outcome {
            Ok(outcome)
                if outcome.made.is_empty() && queue.why(block) == Some(Why::Lacks) && why == For::Lack =>
            {
                // It lacks nothing any more, which the next sweep shows; or it is tried again.
                queue.failed(block, String::new(), false, now_ms);
            }
            Err(CoordinatorError::Catalog(CatalogError::NoSuchBlock(_))) if why == For::Spread => {
                self.spreading.done(block);
            }
            Ok(outcome) => match why {
                For::Lack => {
                    task.note(|report| report.done += outcome.made.len() as u64);
                    queue.done(block);
                }
                For::Spread => self.spreading.done(block),
            },
            Err(CoordinatorError::Paused | CoordinatorError::ShuttingDown) => queue.interrupted(block),
            // A job, or an order that was noted earlier, makes this block.
            Err(error) if error.is_held() => queue.failed(block, String::new(), false, now_ms),
            Err(error) => {
                if self.assigner.retried(pending, &error).is_none() {
                    return;
                }
                tracing::warn!(%block, %error, "{}, and none could be made", why.text());
                task.note(|report| report.errors += 1);
                queue.failed(block, error.to_string(), error.lasts(), now_ms);
            }
        }
    }

    fn tell(&self) {
        let blocked = self.blocked.iter().chain(&self.spreading.blocked);
        let blocked = blocked.map(|(why, &(count, block))| ((*why).to_owned(), count, block));
        let failing = self.queue.failing().chain(self.spreading.queue.failing());
        let failing = failing.map(|(block, why)| (why.to_owned(), 1, block));
        let reasons: Vec<(String, u64, BlockId)> = blocked.chain(failing.take(TOLD)).collect();
        let of_both = |count: fn(&Queue) -> usize| (count(&self.queue) + count(&self.spreading.queue)) as u64;
        let (open, due) = (of_both(Queue::len), of_both(Queue::due));
        let (lacking, misplaced) = (self.queue.len() as u64, self.spreading.queue.len());
        let first = reasons.first().map(|(why, count, block)| match count {
            1 => format!("block {block}: {why}"),
            _ => format!("{count} blocks, {block} for one: {why}"),
        });
        let waiting = [
            (lacking > 0).then(|| format!("{lacking} blocks wait for copies that they lack, or get them")),
            (misplaced > 0).then(|| format!("{misplaced} lack none and are to lie elsewhere")),
            first,
        ];
        let detail = waiting.into_iter().flatten().collect::<Vec<String>>().join("; ");
        // What only moves was not lost: it does not count.
        self.job.task.note(|report| (report.total, report.detail) = (report.done + lacking, detail));
        *self.healing.lock() = Told { open, due, reasons };
    }
}

/// A margin as an urgency.
fn urgency(margin: usize) -> Urgency {
    Urgency::of(margin, 0)
}

fn lost(block: BlockId, standing: Standing, bytes: u64) -> Lost {
    Lost { urgency: urgency(standing.margin), node: None, block, bytes }
}

/// Nothing is begun before nodes had time to register after a start.
fn is_settled(cluster: &Cluster, view: &World) -> bool {
    !cluster.has_just_started() || view.nodes.iter().all(|(_, node)| node.is_living)
}

/// The losses that a block surely survives with those that live, and what is left of its stripe or replicas; `None` if it cannot be
/// had now.
fn standing(planner: &Planner, placement: &Placement, living: &BTreeSet<NodeId>) -> Option<Standing> {
    let Some(stripe) = &placement.stripe else {
        let survivors = placement.facts.locations.iter().filter(|l| living.contains(&l.node)).count();
        return Some(Standing { margin: survivors.checked_sub(1)?, survivors });
    };
    let usable = stripe.usable(living);
    match planner.codes.standing(&stripe.code, &usable) {
        codes::Standing::Survives(margin) => {
            let survivors = usable.into_iter().filter(|&usable| usable).count();
            Some(Standing { margin, survivors })
        }
        codes::Standing::Lost | codes::Standing::Unknown => None,
    }
}

/// Why nothing can be done for a block that lacks copies, as long as nodes are as they are.
fn hindrance(placement: &Placement, takers: &BTreeSet<NodeId>) -> Option<&'static str> {
    let row = &placement.facts;
    if placement.stripe.is_some() {
        return None;
    }
    if row.locations.is_empty() && row.flawed.is_empty() {
        return Some("no copy of it is known, and it is in no stripe");
    }
    let has_copy = |node: &NodeId| row.on(*node).is_some();
    takers
        .iter()
        .all(has_copy)
        .then_some("every node that takes blocks has a copy: more are wanted than there are nodes")
}

impl Worker for Healer {
    type Error = CoordinatorError;

    fn name(&self) -> &'static str {
        NAME
    }

    fn pause(&self) -> Duration {
        LOOK
    }

    async fn step(&mut self, _: &Task) -> Result<Step> {
        let view = self.attempts.cluster.view();
        if !is_settled(&self.attempts.cluster, &view) {
            return Ok(Step::Wait(LOOK));
        }
        self.queue_unread(&view).await?;
        let scene = Scene::of((&view, self.attempts.cluster.changes()), self.longest_bytes);
        if scene != self.scene {
            self.queue.all_may_go();
            (self.scene, self.swept) = (scene, None);
            self.scout.begin_anew();
        }
        let is_sweeping = self.scout(&view).await?
            | self.sweep(&view).await?
            | self.spreading.sweep(&self.attempts, &view, &self.scene.takers).await?;
        self.begin_some(&view).await?;
        if self.running.len() == 0 && !is_sweeping {
            return Ok(Step::Wait(LOOK));
        }
        let mut patience = if is_sweeping { Duration::ZERO } else { LOOK };
        while let Some(((pending, why), outcome)) = within(patience, self.running.next()).await.flatten() {
            let outcome = outcome.unwrap_or_else(|broke_off| Err(broke_off.into()));
            self.settle(pending, why, outcome);
            patience = Duration::ZERO;
        }
        self.tell();
        Ok(Step::Again)
    }
}
