//! Jobs: work that takes long, tells how it gets on, and ends. Archivals and node recoveries have a row in the catalog
//! and go on after a restart; a repair of one block is asked for again.

mod archive;
mod balance;
mod compact;
mod leaver;
mod recover;
mod regroup;
mod repair;

pub(crate) use archive::{AgedArchivals, Cost, archival_code, choose, too_dear};
pub(crate) use balance::{Balancer, NAME as BALANCE};
pub(crate) use compact::Compactor;
pub(crate) use leaver::Leaver;
pub(crate) use recover::{Recoverer, check_dead, row_of, too_many_dead};

use crate::attempt::{Attempts, RepairOptions};
use crate::clock;
use crate::config::MAX_JOBS;
use crate::error::{CoordinatorError, Result};
use crate::gathering::Gathering;
use crate::holders::Holders;
use crate::job::{Events, Job, Sender};
use crate::leaving::Leaving;
use crate::reads::Reads;
use catalog::rows::{EncodingRow, JobRow, RecoveryRow, RepairRow};
use model::{BlockId, NodeId, Switch};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{broadcast, watch};
use tokio::task::JoinSet;
use worker::{Group, Task, Tasks};

/// Longest time in which a stopped job ends: it abandons a flow at once, and a commit takes milliseconds.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// Events that a slow listener may lag behind before it misses some; a few kilobytes each.
const MAX_EVENTS: usize = 1024;

/// The jobs that run.
#[derive(Debug)]
pub(crate) struct Jobs {
    running: Mutex<BTreeMap<u64, Running>>,
    pub attempts: Arc<Attempts>,
    /// What users read; recoveries make way.
    pub reads: Arc<Reads>,
    gathering: Arc<Gathering>,
    holders: Arc<Holders>,
    /// Nodes that are ordered to hold nothing and have blocks that cannot be moved now.
    pub leaving: Arc<Leaving>,
    tasks: Arc<Tasks>,
    group: Arc<Group>,
}

#[derive(Debug)]
struct Running {
    wish: Wish,
    events: Sender,
    task: Arc<Task>,
    /// Closed when the job has ended.
    ended: watch::Sender<()>,
}

/// Earlier jobs that work on the same objects, stripes or nodes.
type Others = Vec<(String, watch::Receiver<()>)>;

/// What is to be done.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Wish {
    /// With a row: resumed after a restart.
    Lasting(JobRow),
    /// A recovery to measure, whose blocks are thrown away: nobody needs it after a restart.
    Measured(RecoveryRow),
    /// A recovery that is planned and prepared, and not run.
    Rehearsed(RecoveryRow),
    /// Repair of one block.
    Repair(BlockId, RepairOptions),
    /// Repair of the stripes of some blocks; of these members, or of what is lost.
    Stripes(Vec<BlockId>, Vec<u16>, RepairOptions),
}

impl Wish {
    /// Returns a wish to repair a block. A repair that only measures does not survive a restart.
    pub fn of_block(block: BlockId, options: RepairOptions) -> Wish {
        match options.discard {
            true => Wish::Repair(block, options),
            false => Wish::Lasting(JobRow::Repair(repair_row(vec![block], false, options))),
        }
    }

    /// Returns a wish to repair the lost members of stripes or, to measure, the given members.
    pub fn of_stripes(blocks: Vec<BlockId>, members: Vec<u16>, options: RepairOptions) -> Wish {
        match options.discard {
            true => Wish::Stripes(blocks, members, options),
            false => Wish::Lasting(JobRow::Repair(repair_row(blocks, true, options))),
        }
    }

    /// The name of the task of job `id`.
    fn task(&self, id: u64) -> String {
        let kind = match self {
            Wish::Lasting(JobRow::Archive { .. } | JobRow::Encode(_)) => "archive",
            Wish::Lasting(JobRow::Compact(_)) => "compact",
            Wish::Lasting(JobRow::RecoverNodes(row)) if row.moves => "decommission",
            Wish::Lasting(JobRow::RecoverNodes(_)) | Wish::Measured(_) => "recover",
            Wish::Rehearsed(_) => "dry-run",
            Wish::Lasting(JobRow::Repair(_)) | Wish::Repair(..) | Wish::Stripes(..) => "repair",
        };
        format!("{kind}-{id}")
    }
}

/// An archival that an earlier version of the program began.
fn of_before(name: &str, code: &str, slice_bytes: u32) -> EncodingRow {
    let (name, code) = (name.to_owned(), code.to_owned());
    EncodingRow { name, code, slice_bytes, short: true, ..EncodingRow::default() }
}

fn repair_row(blocks: Vec<BlockId>, stripes: bool, options: RepairOptions) -> RepairRow {
    let RepairOptions { scheme, slice_bytes, verify, requestor, helpers, patient, .. } = options;
    RepairRow { blocks, stripes, scheme, slice_bytes, verify, requestor, helpers, patient }
}

enum Added {
    New(Events, Job, Others),
    Joined(Events),
}

impl Jobs {
    /// None yet.
    pub fn new(
        attempts: Arc<Attempts>,
        reads: Arc<Reads>,
        gathering: Arc<Gathering>,
        (holders, leaving): (Arc<Holders>, Arc<Leaving>),
        tasks: Arc<Tasks>,
        group: Arc<Group>,
    ) -> Jobs {
        let running = Mutex::default();
        Jobs { running, attempts, reads, gathering, holders, leaving, tasks, group }
    }

    /// Starts a job, or joins a running one that does the same. The job waits for others that work on the same things in another way.
    pub async fn start(self: &Arc<Self>, wish: Wish) -> Result<Events> {
        if let Some(events) = joined(&self.lock(), &wish) {
            return Ok(events);
        }
        let row = match &wish {
            Wish::Lasting(row) => Some(row.clone()),
            Wish::Measured(_) | Wish::Rehearsed(_) | Wish::Repair(..) | Wish::Stripes(..) => None,
        };
        let id = self.attempts.records.run(move |catalog| catalog.begin_job(row.as_ref())).await?;
        let task = wish.task(id);
        let (events, job, others) = match self.add(id, &wish)? {
            Added::New(events, job, others) => (events, job, others),
            // Somebody else was faster.
            Added::Joined(events) => {
                self.attempts.records.run(move |catalog| catalog.end_job(id, &task)).await?;
                return Ok(events);
            }
        };
        self.run(job, wish, others);
        Ok(events)
    }

    /// Starts the jobs that an earlier life of the coordinator left, once the nodes have had time to register.
    pub async fn resume(self: Arc<Self>) {
        self.attempts.cluster.has_settled().await;
        let jobs = match self.attempts.records.run(|catalog| catalog.jobs()).await {
            Ok(jobs) => jobs,
            Err(error) => return tracing::warn!(%error, "unfinished jobs cannot be read"),
        };
        for (id, row) in jobs {
            let wish = Wish::Lasting(row);
            let task = wish.task(id);
            match self.add(id, &wish) {
                Ok(Added::New(_, job, others)) => self.run(job, wish, others),
                // It was asked for again meanwhile, and has another row: this one would begin it anew at every restart.
                Ok(Added::Joined(_)) => {
                    if let Err(error) =
                        self.attempts.records.run(move |catalog| catalog.end_job(id, &task)).await
                    {
                        tracing::warn!(id, %error, "a job that runs already cannot be forgotten");
                    }
                }
                Err(error) => tracing::warn!(id, %error, "an unfinished job cannot be resumed"),
            }
        }
    }

    fn run(self: &Arc<Self>, job: Job, wish: Wish, others: Others) {
        let jobs = Arc::clone(self);
        self.group.spawn(async move {
            let job = Arc::new(job);
            job.task.note(|report| report.is_busy = true);
            // Its end is told and noted, whatever it is: while it counts as running others keep out of its way.
            let outcome = worker::caught(jobs.in_turn(&job, &wish, others)).await;
            let outcome = outcome.unwrap_or_else(|mistake| Err(CoordinatorError::Bug(mistake)));
            if matches!(outcome, Err(CoordinatorError::ShuttingDown)) {
                return;
            }
            let (id, task) = (job.id, job.task.name().to_owned());
            if let Err(error) = jobs.attempts.records.run(move |catalog| catalog.end_job(id, &task)).await {
                tracing::warn!(id, %error, "the end of a job cannot be noted; it will run again after a restart");
            }
            jobs.lock().remove(&id);
            jobs.tasks.remove(&job.task);
            let outcome = match outcome {
                // What is called done is where changes are wanted before they are acknowledged.
                Ok(message) => jobs.holders.acknowledge().await.map(|()| message),
                Err(error) => Err(error),
            };
            job.end(outcome);
        });
    }

    /// Waits for the other jobs that work on the same things, then runs this one.
    async fn in_turn(&self, job: &Arc<Job>, wish: &Wish, others: Others) -> Result<String> {
        for (name, mut ended) in others {
            let waits = format!("waits until {name} has ended, which is at the same");
            job.task.note(|report| report.detail.clone_from(&waits));
            job.say(waits);
            loop {
                tokio::select! {
                    changed = ended.changed() => if changed.is_err() { break },
                    goes_on = job.task.may_go_on(), if !job.task.is_on() => {
                        if !goes_on {
                            return self.stopped_while_waiting(wish, &name).await;
                        }
                    }
                    // Obeys a pause or a stop while it waits.
                    () = job.task.held(), if job.task.is_on() => {}
                }
            }
        }
        if self.attempts.cluster.expects_for().is_some() {
            job.task.note(|report| {
                "waits for nodes that have not registered since the coordinator's start"
                    .clone_into(&mut report.detail)
            });
            self.attempts.cluster.has_heard_of_all().await;
        }
        self.carry_out(job, wish).await
    }

    /// Ends a job that was stopped before its turn. A stopped order for a node to leave stays stopped.
    async fn stopped_while_waiting(&self, wish: &Wish, name: &str) -> Result<String> {
        if let Wish::Lasting(JobRow::RecoverNodes(row)) = wish
            && row.moves
        {
            let nodes = row.nodes.clone();
            self.attempts.records.run(move |catalog| catalog.stop_leaving(&nodes)).await?;
        }
        Err(CoordinatorError::Conflict(format!("it was stopped while it waited for {name}")))
    }

    async fn carry_out(&self, job: &Arc<Job>, wish: &Wish) -> Result<String> {
        let with = &self.attempts;
        match wish {
            Wish::Lasting(JobRow::Archive { name, code, slice_bytes }) => {
                archive::run(with, &self.gathering, job, &of_before(name, code, *slice_bytes)).await
            }
            Wish::Lasting(JobRow::Encode(row)) => archive::run(with, &self.gathering, job, row).await,
            Wish::Lasting(JobRow::Compact(row)) => compact::run(with, job, row).await,
            Wish::Lasting(JobRow::RecoverNodes(row)) => {
                recover::run(with, &self.reads, &self.leaving, job, row, false).await
            }
            Wish::Measured(row) => recover::run(with, &self.reads, &self.leaving, job, row, true).await,
            Wish::Lasting(JobRow::Repair(row)) => repair::ordered(with, job, row).await,
            Wish::Rehearsed(row) => recover::rehearse(with, &self.reads, job, row).await,
            Wish::Repair(block, options) => repair::run(with, job, *block, options).await,
            Wish::Stripes(blocks, members, options) => {
                repair::run_stripes(with, job, blocks, members, options).await
            }
        }
    }

    /// Whether a job runs that moves blocks.
    fn move_blocks(&self) -> bool {
        self.lock().values().any(|running| !matches!(running.wish, Wish::Rehearsed(_)))
    }

    /// Whether an archival runs.
    fn is_archiving(&self) -> bool {
        let archives = |running: &Running| matches!(&running.wish, Wish::Lasting(JobRow::Encode(_)));
        self.lock().values().any(archives)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a job makes the blocks of this node anew.
    fn recovers(&self, node: NodeId) -> bool {
        let recovers = |running: &Running| matches!(&running.wish, Wish::Lasting(JobRow::RecoverNodes(row)) if row.nodes.contains(&node));
        self.lock().values().any(recovers)
    }

    /// Whether a job moves the node's blocks away.
    pub fn moves(&self, node: NodeId) -> bool {
        self.lock().values().any(|running| running.moves(node))
    }

    /// Whether a compaction is running.
    fn is_compacting(&self) -> bool {
        let compacts = |running: &Running| matches!(&running.wish, Wish::Lasting(JobRow::Compact(_)));
        self.lock().values().any(compacts)
    }

    /// Stops the job that moves the node's blocks away, and forgets what it waits for.
    ///
    /// # Errors
    /// [`CoordinatorError::Conflict`] if the job does not end in time.
    pub async fn stop_moving(&self, node: NodeId) -> Result<()> {
        let moving = self.lock().values().find(|running| running.moves(node)).map(|running| {
            running.task.obey(Switch::Stop);
            (running.task.name().to_owned(), running.ended.subscribe())
        });
        if let Some((name, mut ended)) = moving {
            let is_over = async { while ended.changed().await.is_ok() {} };
            clock::within(STOP_PATIENCE, is_over).await.ok_or_else(|| {
                CoordinatorError::Conflict(format!(
                    "{node}'s blocks are being moved away, and {name} has not ended since it was told to: try again"
                ))
            })?;
        }
        self.leaving.over(&[node]);
        Ok(())
    }

    fn add(&self, id: u64, wish: &Wish) -> Result<Added> {
        let mut running = self.lock();
        if let Some(events) = joined(&running, wish) {
            return Ok(Added::Joined(events));
        }
        if running.len() >= MAX_JOBS {
            return Err(CoordinatorError::TooMany { what: "jobs", limit: MAX_JOBS });
        }
        let (events, receiver) = broadcast::channel(MAX_EVENTS);
        let unit = match wish {
            Wish::Lasting(JobRow::Archive { .. } | JobRow::Encode(_) | JobRow::Compact(_)) => "stripes",
            _ => "blocks",
        };
        let others = running.iter().filter(|(_, other)| are_at_the_same(&other.wish, wish));
        let others = others.map(|(id, other)| (other.wish.task(*id), other.ended.subscribe())).collect();
        let task = match wish {
            Wish::Lasting(_) => self.tasks.add(wish.task(id)),
            _ => self.tasks.add_passing(wish.task(id)),
        };
        let (ended, own) = (watch::Sender::new(()), Arc::clone(&task));
        running.insert(id, Running { wish: wish.clone(), events: events.clone(), task: own, ended });
        Ok(Added::New(receiver, Job::new(id, events, task, unit), others))
    }
}

impl Running {
    fn moves(&self, node: NodeId) -> bool {
        matches!(&self.wish, Wish::Lasting(JobRow::RecoverNodes(row)) if row.moves && row.nodes.contains(&node))
    }
}

/// Returns the events of a running job that does the same as `wish`.
fn joined(running: &BTreeMap<u64, Running>, wish: &Wish) -> Option<Events> {
    let same = |other: &&Running| are_at_the_same(&other.wish, wish) && other.wish == *wish;
    running.values().find(same).map(|other| other.events.subscribe())
}

/// Whether two jobs work on the same objects, stripes or nodes, so that one waits for the other.
fn are_at_the_same(a: &Wish, b: &Wish) -> bool {
    match (a, b) {
        (Wish::Lasting(JobRow::Encode(a)), Wish::Lasting(JobRow::Encode(b))) => overlap(a, b),
        // Both a code change and a compaction replace stripes.
        (Wish::Lasting(JobRow::Compact(_)), Wish::Lasting(JobRow::Encode(row)))
        | (Wish::Lasting(JobRow::Encode(row)), Wish::Lasting(JobRow::Compact(_))) => row.change,
        (Wish::Lasting(JobRow::Compact(_)), Wish::Lasting(JobRow::Compact(_))) => true,
        (Wish::Lasting(JobRow::RecoverNodes(a)), Wish::Lasting(JobRow::RecoverNodes(b))) => {
            a.nodes.iter().any(|node| b.nodes.contains(node))
        }
        (Wish::Lasting(JobRow::Repair(a)), Wish::Lasting(JobRow::Repair(b))) => a == b,
        _ => false,
    }
}

/// Whether both rows may name the same object.
fn overlap(a: &EncodingRow, b: &EncodingRow) -> bool {
    match (a.is_prefix, b.is_prefix) {
        (false, false) => a.name == b.name,
        (true, false) => b.name.starts_with(&a.name),
        (false, true) => a.name.starts_with(&b.name),
        (true, true) => a.name.starts_with(&b.name) || b.name.starts_with(&a.name),
    }
}

/// Does `work` for each item, at most `limit` at once, with a look at the operator's wish before each. Whether it came to
/// the end.
async fn in_parallel<T, F>(
    task: &Task,
    items: Vec<T>,
    limit: usize,
    work: impl Fn(T) -> F,
    mut each: impl FnMut(F::Output),
) -> bool
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let mut items = items.into_iter();
    let mut running = JoinSet::new();
    let mut goes_on = true;
    loop {
        while goes_on && running.len() < limit.max(1) {
            goes_on = task.may_go_on().await;
            match items.next() {
                Some(item) if goes_on => {
                    running.spawn(work(item));
                }
                _ => break,
            }
        }
        match running.join_next().await {
            Some(Ok(output)) => each(output),
            Some(Err(_)) => goes_on = false,
            None => return goes_on && items.next().is_none(),
        }
    }
}
