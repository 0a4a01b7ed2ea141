//! Jobs: work that takes long, tells how it gets on, and ends. Archivals and node recoveries have a row in the catalog
//! and go on after a restart; a repair of one block is asked for again.

mod archive;
mod damaged;
mod recover;
mod repair;

pub(crate) use archive::{archival_code, groups};
pub(crate) use damaged::{Damaged, DamagedRepairs, drop_damaged, learn};
pub(crate) use recover::{Recoverer, row_of};

use crate::attempt::RepairOptions;
use crate::config::MAX_JOBS;
use crate::error::{CoordinatorError, Result};
use crate::shared::Shared;
use catalog::rows::{JobRow, RecoveryRow};
use model::{BlockId, NodeId};
use recover::Estimate;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::broadcast;
use tokio::task::JoinSet;
use wire::proto;
use worker::Task;

/// Events that a slow listener may lag behind before it misses some; a few kilobytes each.
const MAX_EVENTS: usize = 1024;

/// The jobs that run.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    running: Mutex<BTreeMap<u64, Running>>,
}

#[derive(Debug)]
struct Running {
    wish: Wish,
    events: broadcast::Sender<proto::JobEvent>,
}

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
    /// The name of the task of job `id`.
    fn task(&self, id: u64) -> String {
        let kind = match self {
            Wish::Lasting(JobRow::Archive { .. }) => "archive",
            Wish::Lasting(JobRow::RecoverNodes(row)) if row.moves => "decommission",
            Wish::Lasting(JobRow::RecoverNodes(_)) | Wish::Measured(_) => "recover",
            Wish::Rehearsed(_) => "dry-run",
            Wish::Repair(..) | Wish::Stripes(..) => "repair",
        };
        format!("{kind}-{id}")
    }
}

/// A running job, as its work sees it.
#[derive(Debug)]
pub(crate) struct Job {
    id: u64,
    events: broadcast::Sender<proto::JobEvent>,
    pub task: Arc<Task>,
    unit: &'static str,
    counts: Mutex<Counts>,
}

#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct Counts {
    done: u64,
    total: u64,
    failed: u64,
    estimate: Estimate,
}

/// Starts a job, or joins the one that does the same already.
pub(crate) async fn start(shared: &Arc<Shared>, wish: Wish) -> Result<broadcast::Receiver<proto::JobEvent>> {
    if let Some(events) = shared.jobs.join(&wish)? {
        return Ok(events);
    }
    let row = match &wish {
        Wish::Lasting(row) => Some(row.clone()),
        Wish::Measured(_) | Wish::Rehearsed(_) | Wish::Repair(..) | Wish::Stripes(..) => None,
    };
    let id = shared.catalog.run(move |catalog| catalog.begin_job(row.as_ref())).await?;
    let task = wish.task(id);
    let (events, job) = match shared.jobs.add(shared, id, &wish)? {
        Added::New(events, job) => (events, job),
        // Somebody else was faster.
        Added::Joined(events) => {
            shared.catalog.run(move |catalog| catalog.end_job(id, &task)).await?;
            return Ok(events);
        }
    };
    run(shared, job, wish);
    Ok(events)
}

/// Starts the jobs that an earlier life of the coordinator left, once the nodes have had time to register.
pub(crate) async fn resume(shared: Arc<Shared>) {
    tokio::time::sleep(Duration::from_millis(shared.config.dead_after_ms)).await;
    let jobs = match shared.catalog.run(|catalog| catalog.jobs()).await {
        Ok(jobs) => jobs,
        Err(error) => return tracing::warn!(%error, "unfinished jobs cannot be read"),
    };
    for (id, row) in jobs {
        let wish = Wish::Lasting(row);
        let task = wish.task(id);
        match shared.jobs.add(&shared, id, &wish) {
            Ok(Added::New(_, job)) => run(&shared, job, wish),
            // It was asked for again meanwhile, and has another row: this one would begin it anew at every restart.
            Ok(Added::Joined(_)) => {
                if let Err(error) = shared.catalog.run(move |catalog| catalog.end_job(id, &task)).await {
                    tracing::warn!(id, %error, "a job that runs already cannot be forgotten");
                }
            }
            Err(error) => tracing::warn!(id, %error, "an unfinished job cannot be resumed"),
        }
    }
}

fn run(shared: &Arc<Shared>, job: Job, wish: Wish) {
    let context = Arc::clone(shared);
    shared.group.spawn(async move {
        let job = Arc::new(job);
        job.task.note(|report| report.is_busy = true);
        let outcome = match &wish {
            Wish::Lasting(JobRow::Archive { name, code, slice_bytes }) => {
                archive::run(&context, &job, name, code, *slice_bytes).await
            }
            Wish::Lasting(JobRow::RecoverNodes(row)) => recover::run(&context, &job, row, false).await,
            Wish::Measured(row) => recover::run(&context, &job, row, true).await,
            Wish::Rehearsed(row) => recover::rehearse(&context, &job, row).await,
            Wish::Repair(block, options) => repair::run(&context, &job, *block, options).await,
            Wish::Stripes(blocks, members, options) => {
                repair::run_stripes(&context, &job, blocks, members, options).await
            }
        };
        if matches!(outcome, Err(CoordinatorError::ShuttingDown)) {
            return;
        }
        let (id, task) = (job.id, job.task.name().to_owned());
        if let Err(error) = context.catalog.run(move |catalog| catalog.end_job(id, &task)).await {
            tracing::warn!(id, %error, "the end of a job cannot be noted; it will run again after a restart");
        }
        context.jobs.lock().remove(&id);
        context.tasks.remove(&job.task);
        match outcome {
            Ok(message) => {
                job.emit(proto::JobEvent { state: "done".to_owned(), message, ..Default::default() })
            }
            Err(error) => {
                tracing::warn!(id, %error, "job failed");
                let message = error.to_string();
                job.emit(proto::JobEvent { state: "failed".to_owned(), message, ..Default::default() });
            }
        }
    });
}

enum Added {
    New(broadcast::Receiver<proto::JobEvent>, Job),
    Joined(broadcast::Receiver<proto::JobEvent>),
}

impl Jobs {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn join(&self, wish: &Wish) -> Result<Option<broadcast::Receiver<proto::JobEvent>>> {
        joined(&self.lock(), wish)
    }

    /// An error while a job moves the node's blocks away.
    pub fn none_moves(&self, node: NodeId) -> Result<()> {
        let moves = |running: &Running| matches!(&running.wish, Wish::Lasting(JobRow::RecoverNodes(row)) if row.moves && row.nodes.contains(&node));
        match self.lock().iter().find(|(_, running)| moves(running)) {
            None => Ok(()),
            Some((id, _)) => Err(CoordinatorError::Conflict(format!(
                "{node}'s blocks are being moved away; stop that first (`stripeline tasks stop decommission-{id}`)"
            ))),
        }
    }

    fn add(&self, shared: &Shared, id: u64, wish: &Wish) -> Result<Added> {
        let mut running = self.lock();
        if let Some(events) = joined(&running, wish)? {
            return Ok(Added::Joined(events));
        }
        if running.len() >= MAX_JOBS {
            return Err(CoordinatorError::TooMany { what: "jobs", limit: MAX_JOBS });
        }
        let (events, receiver) = broadcast::channel(MAX_EVENTS);
        let unit = if matches!(wish, Wish::Lasting(JobRow::Archive { .. })) { "stripes" } else { "blocks" };
        running.insert(id, Running { wish: wish.clone(), events: events.clone() });
        let task = match wish {
            Wish::Lasting(_) => shared.tasks.add(wish.task(id)),
            _ => shared.tasks.add_passing(wish.task(id)),
        };
        Ok(Added::New(receiver, Job { id, events, task, unit, counts: Mutex::default() }))
    }
}

/// The events of a running job that does what `wish` would. The same object or node with other parameters is an error.
fn joined(
    running: &BTreeMap<u64, Running>,
    wish: &Wish,
) -> Result<Option<broadcast::Receiver<proto::JobEvent>>> {
    for (id, other) in running {
        let same = match (&other.wish, wish) {
            (
                Wish::Lasting(JobRow::Archive { name: a, .. }),
                Wish::Lasting(JobRow::Archive { name: b, .. }),
            ) => a == b,
            (Wish::Lasting(JobRow::RecoverNodes(a)), Wish::Lasting(JobRow::RecoverNodes(b))) => {
                a.nodes.iter().any(|node| b.nodes.contains(node))
            }
            _ => false,
        };
        if same && other.wish == *wish {
            return Ok(Some(other.events.subscribe()));
        }
        if same {
            return Err(CoordinatorError::Conflict(format!(
                "job {id} is at that already, with other parameters; wait for it, or stop its task"
            )));
        }
    }
    Ok(None)
}

impl Job {
    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// So many units are to be done.
    fn expect(&self, total: u64) {
        self.counts().total = total;
        self.report();
    }

    /// Does `work` whenever the task may go on, anew each time that a pause ended it.
    ///
    /// # Errors
    /// [`CoordinatorError::Paused`] if it is to stop; else as `work`.
    async fn unless_stopped<T, F>(&self, work: impl Fn() -> F) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        while self.task.may_go_on().await {
            match work().await {
                Err(CoordinatorError::Paused) => {}
                ended => return ended,
            }
        }
        Err(CoordinatorError::Paused)
    }

    /// So many more units are to be done.
    pub(crate) fn add(&self, more: u64) {
        self.counts().total += more;
        self.report();
    }

    /// One unit is over.
    fn count(&self, well: bool) {
        {
            let mut counts = self.counts();
            *(if well { &mut counts.done } else { &mut counts.failed }) += 1;
        }
        self.report();
    }

    /// A flow of the job gets on.
    pub(crate) fn slices(&self, done: u64, total: u64) {
        self.task.note(|report| report.detail = format!("{done} of {total} slices"));
    }

    /// Tells how it gets on, in bytes and time.
    fn tell(&self, message: String, estimate: Estimate) {
        self.counts().estimate = estimate;
        self.say(message);
    }

    fn report(&self) {
        let Counts { done, total, failed, .. } = *self.counts();
        self.task.note(|report| (report.done, report.total, report.errors) = (done, total, failed));
    }

    /// Tells how it gets on.
    pub(crate) fn say(&self, message: impl Into<String>) {
        self.emit(proto::JobEvent {
            state: "running".to_owned(),
            message: message.into(),
            ..Default::default()
        });
    }

    /// Sends an event, with the counts filled in. Nobody needs to listen.
    pub(crate) fn emit(&self, event: proto::JobEvent) {
        let Counts { done, total, failed, estimate } = *self.counts();
        let unit = self.unit.to_owned();
        let Estimate { done_bytes, total_bytes, .. } = estimate;
        let left_ms = estimate.left().map(|left| left.as_millis() as u64);
        let event = proto::JobEvent {
            job: self.id,
            done,
            total,
            failed,
            unit,
            done_bytes,
            total_bytes,
            left_ms,
            ..event
        };
        let _ = self.events.send(event);
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
