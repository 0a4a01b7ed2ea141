//! A running job, as its work sees it: it counts, tells, and heeds the operator.

use crate::error::{CoordinatorError, Result};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;
use wire::proto;
use worker::{Group, Task};

/// Events that wait for a slow receiver.
const MAX_AHEAD: usize = 64;

/// What a job tells, to whoever listens.
pub(crate) type Events = broadcast::Receiver<proto::JobEvent>;

/// Where it tells it.
pub(crate) type Sender = broadcast::Sender<proto::JobEvent>;

/// See the module.
#[derive(Debug)]
pub(crate) struct Job {
    pub id: u64,
    events: Sender,
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

/// What can be said of the time left.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Estimate {
    pub done_bytes: u64,
    pub total_bytes: u64,
    /// Unknown at first, and after a pause.
    pub bytes_per_s: Option<f64>,
}

impl Job {
    /// Job `id`, of which nothing is done yet.
    pub fn new(id: u64, events: Sender, task: Arc<Task>, unit: &'static str) -> Job {
        Job { id, events, task, unit, counts: Mutex::default() }
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// So many units are to be done.
    pub fn expect(&self, total: u64) {
        self.counts().total = total;
        self.report();
    }

    /// Does `work` whenever the task may go on, anew each time that a pause ended it.
    ///
    /// # Errors
    /// [`CoordinatorError::Paused`] if it is to stop; else as `work`.
    pub async fn unless_stopped<T, F>(&self, work: impl Fn() -> F) -> Result<T>
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
    pub fn add(&self, more: u64) {
        self.counts().total += more;
        self.report();
    }

    /// Reduces the total by `fewer` units that will be counted again when they are retried.
    pub fn take_off(&self, fewer: u64) {
        {
            let mut counts = self.counts();
            counts.total = counts.total.saturating_sub(fewer);
        }
        self.report();
    }

    /// One unit is over.
    pub fn count(&self, well: bool) {
        {
            let mut counts = self.counts();
            *(if well { &mut counts.done } else { &mut counts.failed }) += 1;
        }
        self.report();
    }

    /// A flow of the job gets on.
    pub fn slices(&self, done: u64, total: u64) {
        self.task.note(|report| report.detail = format!("{done} of {total} slices"));
    }

    /// Tells how it gets on, in bytes and time.
    pub fn tell(&self, message: String, estimate: Estimate) {
        self.counts().estimate = estimate;
        self.say(message);
    }

    fn report(&self) {
        let Counts { done, total, failed, .. } = *self.counts();
        self.task.note(|report| (report.done, report.total, report.errors) = (done, total, failed));
    }

    /// Tells how it gets on.
    pub fn say(&self, message: impl Into<String>) {
        self.emit(proto::JobEvent {
            state: "running".to_owned(),
            message: message.into(),
            ..Default::default()
        });
    }

    /// It is over; who listens hears how.
    pub fn end(&self, outcome: Result<String>) {
        let (state, message) = match outcome {
            Ok(message) => ("done", message),
            Err(error) => {
                tracing::warn!(id = self.id, %error, "job failed");
                ("failed", error.to_string())
            }
        };
        self.emit(proto::JobEvent { state: state.to_owned(), message, ..Default::default() });
    }

    /// Sends an event, with the counts filled in. Nobody needs to listen.
    pub fn emit(&self, event: proto::JobEvent) {
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

impl Estimate {
    /// Time left at the present rate.
    pub fn left(&self) -> Option<Duration> {
        let left = self.total_bytes.saturating_sub(self.done_bytes) as f64;
        self.bytes_per_s.and_then(|rate| Duration::try_from_secs_f64(left / rate).ok())
    }
}

impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mb = |bytes: f64| bytes / 1e6;
        write!(f, ": {:.1} of {:.1} MB", mb(self.done_bytes as f64), mb(self.total_bytes as f64))?;
        match (self.bytes_per_s, self.left()) {
            (Some(rate), Some(left)) => {
                write!(f, ", {:.1} MB/s, about {} s left", mb(rate), left.as_secs_f64().ceil())
            }
            _ => Ok(()),
        }
    }
}

/// Passes a job's events on until its end. A receiver that goes away does not end the job.
pub(crate) fn forward(
    group: &Group,
    mut events: Events,
) -> ReceiverStream<std::result::Result<proto::JobEvent, Status>> {
    let (sender, receiver) = mpsc::channel(MAX_AHEAD);
    group.spawn(async move {
        loop {
            match events.recv().await {
                Ok(event) => {
                    if sender.send(Ok(event)).await.is_err() {
                        return;
                    }
                }
                // It missed some; the counts in the next one are right again.
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return,
            }
        }
    });
    ReceiverStream::new(receiver)
}
