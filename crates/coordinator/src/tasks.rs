//! Background tasks: what runs, how far it is, and the operator's hand on it.

use crate::error::{CoordinatorError, Result};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;
use wire::proto;

/// What an operator wants of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wish {
    Go,
    Pause,
    Stop,
}

/// All tasks by name.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    tasks: Mutex<BTreeMap<String, Arc<Task>>>,
}

/// One task: a loop that lives as long as the coordinator, or a job that ends.
#[derive(Debug)]
pub(crate) struct Task {
    name: String,
    wish: watch::Sender<Wish>,
    report: Mutex<Report>,
}

/// How far a task is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Report {
    pub is_busy: bool,
    pub detail: String,
    pub done: u64,
    pub total: u64,
    pub errors: u64,
}

impl Tasks {
    /// Adds a task; the same name again replaces it.
    pub fn add(&self, name: impl Into<String>) -> Arc<Task> {
        let name = name.into();
        let task = Arc::new(Task {
            name: name.clone(),
            wish: watch::Sender::new(Wish::Go),
            report: Mutex::default(),
        });
        self.lock().insert(name, Arc::clone(&task));
        task
    }

    /// A job has ended.
    pub fn remove(&self, task: &Task) {
        self.lock().remove(&task.name);
    }

    /// All of them, by name.
    pub fn statuses(&self) -> Vec<proto::TaskStatus> {
        self.lock().values().map(|task| task.status()).collect()
    }

    /// Obeys `pause`, `resume`, `stop`, or `status`.
    pub fn control(&self, name: &str, action: &str) -> Result<proto::TaskStatus> {
        let found = self.lock().get(name).cloned();
        let Some(task) = found else {
            let known = self.lock().keys().cloned().collect::<Vec<_>>().join(", ");
            return Err(CoordinatorError::NoSuchTask { name: name.to_owned(), known });
        };
        let wish = match action {
            "pause" => Some(Wish::Pause),
            "resume" => Some(Wish::Go),
            "stop" => Some(Wish::Stop),
            "status" => None,
            _ => {
                return Err(CoordinatorError::Invalid(format!(
                    "a task can be told pause, resume, stop or status, not {action:?}"
                )));
            }
        };
        if let Some(wish) = wish {
            task.wish.send_replace(wish);
        }
        Ok(task.status())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Task>>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Task {
    /// Waits as long as the task is paused. `false`: it is to stop.
    pub async fn may_go_on(&self) -> bool {
        let mut wish = self.wish.subscribe();
        let settled = wish.wait_for(|wish| *wish != Wish::Pause).await.map(|wish| *wish);
        settled.is_ok_and(|wish| wish == Wish::Go)
    }

    /// Waits until the task is to pause or to stop.
    pub async fn held(&self) {
        let mut wish = self.wish.subscribe();
        if wish.wait_for(|wish| *wish != Wish::Go).await.is_err() {
            // Nobody is left to give orders.
            std::future::pending::<()>().await;
        }
    }

    /// Whether the next turn of a loop is to be taken.
    pub fn is_on(&self) -> bool {
        *self.wish.borrow() == Wish::Go
    }

    /// Pauses a task from within: it waits for the operator's word.
    pub fn pause(&self) {
        self.wish.send_replace(Wish::Pause);
    }

    /// Changes the report.
    pub fn note(&self, change: impl FnOnce(&mut Report)) {
        change(&mut self.report.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn status(&self) -> proto::TaskStatus {
        let report = self.report.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let state = match *self.wish.borrow() {
            Wish::Pause => "paused",
            Wish::Stop => "stopped",
            Wish::Go if report.is_busy => "running",
            Wish::Go => "idle",
        };
        proto::TaskStatus {
            name: self.name.clone(),
            state: state.to_owned(),
            detail: report.detail,
            done: report.done,
            total: report.total,
            errors: report.errors,
        }
    }
}
