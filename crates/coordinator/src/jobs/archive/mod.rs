//! Archival of one object or of many: stripes in which their blocks wait are encoded, and blocks that wait in none become stripes,
//! k at a time; then the surplus replicas go.

mod aged;
mod choose;
mod cost;

pub(crate) use aged::AgedArchivals;
pub(crate) use choose::choose;
pub(crate) use cost::{Cost, times, too_dear};

use super::in_parallel;
use crate::attempt::{Attempts, Encoded, Outcome, RepairOptions, ToEncode, Wanted};
use crate::clock::{self, Began};
use crate::cluster::Cluster;
use crate::config::{GARBAGE_GRACE_MS, PARALLEL_ENCODINGS};
use crate::error::{CoordinatorError, Result};
use crate::gathering::Gathering;
use crate::job::Job;
use catalog::rows::EncodingRow;
use codes::Code;
use plan::decide::{DecideError, Planner};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// An encoding for which there is no room is tried again so often …
const ROOM_TICK: Duration = Duration::from_secs(1);

/// … until none has ended well for this long: the replicas of the last one go after a minute's grace ([`GARBAGE_GRACE_MS`]), once its members were
/// seen.
const ROOM_PATIENCE: Duration = Duration::from_millis(3 * GARBAGE_GRACE_MS);

/// The job.
pub(super) async fn run(
    with: &Arc<Attempts>,
    gathering: &Gathering,
    job: &Arc<Job>,
    row: &EncodingRow,
) -> Result<String> {
    let chosen = choose(with, row).await?;
    if row.short {
        for &stripe in &chosen.open {
            gathering.seal(stripe).await?;
        }
    }
    let left = chosen.left(row);
    let work = chosen.work(row.short);
    let what = row.title();
    if work.is_empty() {
        return match left.is_empty() {
            true => Ok(format!("nothing to do: of {what} all is archived that has any bytes")),
            false => Err(CoordinatorError::Conflict(format!(
                "nothing of {what} was archived: {}",
                left.join("; ")
            ))),
        };
    }
    let count = work.len();
    job.say(format!("{count} stripes to encode"));
    let options = RepairOptions {
        slice_bytes: row.slice_bytes,
        scheme: row.scheme.clone(),
        ..RepairOptions::default()
    };
    let tally = encode_all(with, job, work, &options, row.parallel).await;
    let total = &tally.total;
    let gone = count - total.changes as usize - tally.failed as usize;
    let gone = (gone > 0 && tally.whole).then(|| format!("{gone} were encoded already, or are gone"));
    let text = (total.stripes > 0).then(|| total.text());
    let told =
        std::iter::once(format!("{} stripes encoded", total.stripes)).chain(text).chain(gone).chain(left);
    let told = told.collect::<Vec<_>>().join("; ");
    tally.end(&format!("the archival of {what}"), told)
}

/// What came of encodings.
pub(super) struct Tally {
    /// The first error.
    failure: Option<CoordinatorError>,
    failed: u64,
    /// So many were asked for.
    all: usize,
    pub total: Encoded,
    /// Nobody stopped it.
    whole: bool,
}

impl Tally {
    /// How the job `what` ends. `told`: what was done.
    pub fn end(self, what: &str, told: String) -> Result<String> {
        let Tally { failed, all, .. } = self;
        match self.failure {
            Some(first) => {
                Err(CoordinatorError::Encodings { failed, all, first: Box::new(first), others: told })
            }
            None if self.whole => Ok(told),
            None => Err(CoordinatorError::Conflict(format!("{what} was stopped: {told}"))),
        }
    }
}

/// Makes stripes, so many at once; 0: the usual number.
pub(super) async fn encode_all(
    with: &Arc<Attempts>,
    job: &Arc<Job>,
    work: Vec<ToEncode>,
    options: &RepairOptions,
    parallel: u32,
) -> Tally {
    let all = work.len();
    job.expect(all as u64);
    let steps = Arc::new(Steps::new());
    let encode = |item: ToEncode| {
        let (with, job, options) = (Arc::clone(with), Arc::clone(job), options.clone());
        let steps = Arc::clone(&steps);
        async move { job.unless_stopped(|| steps.take(&with, &job, &item, &options)).await }
    };
    let (mut failure, mut failed, mut total) = (None, 0, Encoded::default());
    let each = |outcome: Result<Outcome>| {
        if matches!(outcome, Err(CoordinatorError::Paused)) {
            return;
        }
        job.count(outcome.is_ok());
        match outcome {
            Ok(outcome) => total.add(&outcome.encoded.unwrap_or_default()),
            Err(error) => {
                job.say(format!("a stripe could not be encoded: {error}"));
                failed += 1;
                failure.get_or_insert(error);
            }
        }
    };
    let at_once = if parallel == 0 { PARALLEL_ENCODINGS } else { parallel as usize };
    let whole = in_parallel(&job.task, work, at_once, encode, each).await;
    Tally { failure, failed, all, total, whole }
}

/// Encodings that wait for room which others make.
struct Steps {
    /// When the last one ended well, if any has.
    last: Mutex<Option<Began>>,
}

impl Steps {
    fn new() -> Steps {
        Steps { last: Mutex::default() }
    }

    /// Encodes a stripe. While there is no room for its parities, it waits until the replicas of others have gone, as long as any go.
    async fn take(
        &self,
        with: &Attempts,
        job: &Job,
        item: &ToEncode,
        options: &RepairOptions,
    ) -> Result<Outcome> {
        loop {
            match with.carry_when_free(job, Wanted::Coded(item), options).await {
                Err(CoordinatorError::Decide(DecideError::NoRoom { .. })) if self.may_wait() => {
                    job.task.note(|report| {
                        "waits for room: superfluous replicas go first".clone_into(&mut report.detail)
                    });
                    clock::rest(ROOM_TICK).await;
                }
                ended => {
                    if ended.is_ok() {
                        *self.last() = Some(Began::now());
                    }
                    return ended;
                }
            }
        }
    }

    /// Whether the replicas of an encoding are about to go.
    fn may_wait(&self) -> bool {
        self.last().is_some_and(|last| last.elapsed() < ROOM_PATIENCE)
    }

    fn last(&self) -> MutexGuard<'_, Option<Began>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What an archival is called.
pub(super) trait Title {
    /// The object's name, or what names begin with, as messages have it.
    fn title(&self) -> String;
}

impl Title for EncodingRow {
    fn title(&self) -> String {
        match self.is_prefix {
            true => format!("{:?}…", self.name),
            false => format!("{:?}", self.name),
        }
    }
}

impl Encoded {
    /// What the archival of some stripes came to, for people.
    fn text(&self) -> String {
        let Encoded { data_bytes, stored_bytes, before_bytes, .. } = *self;
        let violating = match self.violating {
            0 => String::new(),
            stripes => {
                format!("; {stripes} stripes lie otherwise than their policy wants: too few nodes live")
            }
        };
        let downloads = match self.has_encoder {
            true => format!("{} blocks read from other racks, ", self.downloads),
            false => String::new(),
        };
        format!(
            "{} the data instead of {}; {downloads}{} relocated, {:.2} blocks between racks for each of data{violating}",
            times(stored_bytes, data_bytes),
            times(before_bytes, data_bytes),
            self.relocated,
            self.cross_rack_bytes as f64 / self.data_bytes.max(1) as f64,
        )
    }
}

/// The code of that name, if objects can be archived with it on the nodes that live.
pub(crate) fn archival_code(planner: &Planner, cluster: &Cluster, name: &str) -> Result<Code> {
    let code = planner.codes.get(name).map_err(DecideError::from)?;
    let keeps_data = code.is_systematic() && code.n() > code.k() && !code.name().starts_with("rep-");
    if !keeps_data && code.virtuals() == 0 {
        return Err(CoordinatorError::Invalid(format!(
            "{code} is no code for archival: its first k blocks must be the data, and parities must follow; or it must store none of the data blocks as they are"
        )));
    }
    let view = cluster.view();
    let alive = view.topology.hosts(view.usable(&BTreeSet::new())).len();
    if alive < code.stored() {
        let (code, needed) = (code.to_string(), code.stored());
        return Err(CoordinatorError::CodeTooWide { code, needed, alive });
    }
    Ok(code)
}
