//! What runs in the background, how far it is, and the operator's hand on it.

use model::Switch;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;
use wire::proto;

/// All tasks by name.
#[derive(Debug, Default)]
pub struct Tasks {
    tasks: Mutex<BTreeMap<String, Arc<Task>>>,
    /// What was wanted in an earlier life of the coordinator.
    earlier: BTreeMap<String, Switch>,
}

/// One task: a loop that lives as long as the coordinator, or a job that ends.
#[derive(Debug)]
pub struct Task {
    name: String,
    lasts: bool,
    switch: watch::Sender<Switch>,
    report: Mutex<Report>,
}

/// There is no task of that name.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("there is no task {name:?}; there are: {known}")]
pub struct UnknownTask {
    /// What was asked for.
    pub name: String,
    /// What there is.
    pub known: String,
}

/// How far a task is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// It is at work now.
    pub is_busy: bool,
    /// For people.
    pub detail: String,
    /// Units that are done.
    pub done: u64,
    /// Of so many; 0 if nobody knows.
    pub total: u64,
    /// Of these, or besides, so many failed.
    pub errors: u64,
}

impl Tasks {
    /// None yet. Those that come are told what was wanted of them in an earlier life of the coordinator.
    pub fn after(earlier: BTreeMap<String, Switch>) -> Tasks {
        Tasks { tasks: Mutex::default(), earlier }
    }

    /// Adds a task that is there again after a restart; the same name again replaces it.
    pub fn add(&self, name: impl Into<String>) -> Arc<Task> {
        let name = name.into();
        let switch = self.earlier.get(&name).copied().unwrap_or_default();
        self.insert(Task { name, lasts: true, switch: watch::Sender::new(switch), report: Mutex::default() })
    }

    /// Adds one that a restart ends.
    pub fn add_passing(&self, name: impl Into<String>) -> Arc<Task> {
        let switch = watch::Sender::new(Switch::Go);
        self.insert(Task { name: name.into(), lasts: false, switch, report: Mutex::default() })
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

    /// Each does as is wanted of it; those that are not named go on.
    pub fn obey(&self, wanted: &BTreeMap<String, Switch>) {
        for (name, task) in self.lock().iter() {
            task.obey(wanted.get(name).copied().unwrap_or_default());
        }
    }

    /// The one of that name.
    pub fn find(&self, name: &str) -> Result<Arc<Task>, UnknownTask> {
        let tasks = self.lock();
        tasks.get(name).cloned().ok_or_else(|| {
            let known = tasks.keys().cloned().collect::<Vec<_>>().join(", ");
            UnknownTask { name: name.to_owned(), known }
        })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Task>>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
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
    pub fn obey(&self, switch: Switch) {
        self.switch.send_if_modified(|now| std::mem::replace(now, switch) != switch);
    }

    /// Waits as long as the task is paused. `false`: it is to stop.
    pub async fn may_go_on(&self) -> bool {
        let mut switch = self.switch.subscribe();
        let settled = switch.wait_for(|switch| *switch != Switch::Pause).await.map(|switch| *switch);
        settled.is_ok_and(|switch| switch == Switch::Go)
    }

    /// Waits until the task is to pause or to stop.
    pub async fn held(&self) {
        let mut switch = self.switch.subscribe();
        if switch.wait_for(|switch| *switch != Switch::Go).await.is_err() {
            // Nobody is left to give orders.
            std::future::pending::<()>().await;
        }
    }

    /// Waits until the task may go on, however often it was stopped before.
    pub(crate) async fn until_on(&self) {
        let mut switch = self.switch.subscribe();
        if switch.wait_for(|switch| *switch != Switch::Stop).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Whether it may go on.
    pub fn is_on(&self) -> bool {
        *self.switch.borrow() == Switch::Go
    }

    /// Changes the report.
    pub fn note(&self, change: impl FnOnce(&mut Report)) {
        change(&mut self.report.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// What it is at.
    pub fn status(&self) -> proto::TaskStatus {
        let report = self.report.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let state = match *self.switch.borrow() {
            Switch::Pause => "paused",
            Switch::Stop => "stopped",
            Switch::Go if report.is_busy => "running",
            Switch::Go => "idle",
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
