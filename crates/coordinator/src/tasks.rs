//! Background tasks: what runs, how far it is, and the operator's hand on it, which a restart does not take off.

use crate::error::{CoordinatorError, Result};
use catalog::rows::Wish;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;
use wire::proto;

/// All tasks by name.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    tasks: Mutex<BTreeMap<String, Arc<Task>>>,
    /// What was wanted in an earlier life of the coordinator.
    earlier: BTreeMap<String, Wish>,
}

/// One task: a loop that lives as long as the coordinator, or a job that ends.
#[derive(Debug)]
pub(crate) struct Task {
    name: String,
    lasts: bool,
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
    /// None yet. Those that come are told what was wanted of them in an earlier life of the coordinator.
    pub fn after(earlier: BTreeMap<String, Wish>) -> Tasks {
        Tasks { tasks: Mutex::default(), earlier }
    }

    /// Adds a task that is there again after a restart; the same name again replaces it.
    pub fn add(&self, name: impl Into<String>) -> Arc<Task> {
        let name = name.into();
        let wish = self.earlier.get(&name).copied().unwrap_or_default();
        self.insert(Task { name, lasts: true, wish: watch::Sender::new(wish), report: Mutex::default() })
    }

    /// Adds one that a restart ends.
    pub fn add_passing(&self, name: impl Into<String>) -> Arc<Task> {
        let wish = watch::Sender::new(Wish::Go);
        self.insert(Task { name: name.into(), lasts: false, wish, report: Mutex::default() })
    }

    fn insert(&self, task: Task) -> Arc<Task> {
        let task = Arc::new(task);
        self.lock().insert(task.name.clone(), Arc::clone(&task));
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

    /// The one of that name.
    pub fn find(&self, name: &str) -> Result<Arc<Task>> {
        let tasks = self.lock();
        tasks.get(name).cloned().ok_or_else(|| {
            let known = tasks.keys().cloned().collect::<Vec<_>>().join(", ");
            CoordinatorError::NoSuchTask { name: name.to_owned(), known }
        })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Task>>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What `pause`, `resume` and `stop` want; `status` wants nothing.
pub(crate) fn wish_of(action: &str) -> Result<Option<Wish>> {
    match action {
        "pause" => Ok(Some(Wish::Pause)),
        "resume" => Ok(Some(Wish::Go)),
        "stop" => Ok(Some(Wish::Stop)),
        "status" => Ok(None),
        _ => Err(CoordinatorError::Invalid(format!(
            "a task can be told pause, resume, stop or status, not {action:?}"
        ))),
    }
}

impl Task {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it is there again after a restart.
    pub fn lasts(&self) -> bool {
        self.lasts
    }

    /// Does as the operator wants.
    pub fn obey(&self, wish: Wish) {
        self.wish.send_replace(wish);
    }

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

    /// Changes the report.
    pub fn note(&self, change: impl FnOnce(&mut Report)) {
        change(&mut self.report.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// What it is at.
    pub fn status(&self) -> proto::TaskStatus {
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
