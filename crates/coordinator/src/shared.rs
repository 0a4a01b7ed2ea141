//! What all parts of a running coordinator share.

use crate::audit::Audit;
use crate::config::Config;
use crate::error::Result;
use crate::health::Health;
use crate::jobs::{Damaged, Jobs};
use crate::links::LinkTable;
use crate::load::Load;
use crate::nodes::Nodes;
use crate::reads::Reads;
use crate::records::Records;
use catalog::Catalog;
use plan::decide::{Planner, Usual};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use worker::{Group, Tasks};

/// The state of a coordinator.
#[derive(Debug)]
pub(crate) struct Shared {
    pub config: Config,
    pub started: Instant,
    pub catalog: Records,
    pub health: Health,
    pub nodes: Nodes,
    pub planner: Planner,
    pub tasks: Tasks,
    pub jobs: Jobs,
    /// What users read; recoveries make way.
    pub reads: Reads,
    /// Held by whoever has copies deleted, or takes one back: neither may happen between the other's look and deed.
    pub ordering: tokio::sync::Mutex<()>,
    pub audit: Audit,
    /// How long repairs of single blocks take.
    usual: Mutex<Usual>,
    /// … and those of recoveries.
    usual_among_many: Mutex<Usual>,
    pub damaged: Damaged,
    /// Repairs that each node is receiving.
    pub load: Load,
    pub group: Group,
}

impl Shared {
    /// With an open catalog.
    pub fn new(config: Config, catalog: Catalog) -> Result<Arc<Shared>> {
        let tasks = Tasks::after(catalog.switches()?);
        let links = LinkTable::from(catalog.links()?).rates()?;
        Ok(Arc::new(Shared {
            started: Instant::now(),
            health: Health::new(
                Duration::from_millis(config.dead_after_ms),
                catalog.nodes()?,
                &catalog.leaving()?,
                links,
            ),
            reads: Reads::default(),
            nodes: Nodes::default(),
            planner: Planner::new(config.slice_bytes),
            ordering: tokio::sync::Mutex::default(),
            audit: Audit::new(catalog.audit_end()?, tasks.add(Audit::task())),
            usual: Mutex::new(Usual::alone()),
            usual_among_many: Mutex::new(Usual::among_many()),
            tasks,
            jobs: Jobs::default(),
            catalog: Records::of(catalog),
            config,
            damaged: Damaged::default(),
            load: Load::default(),
            group: Group::default(),
        }))
    }

    /// What repairs took so far says nothing of the next ones.
    pub fn forget_usual(&self) {
        [false, true].iter().for_each(|&among_many| self.usual(among_many).forget());
    }

    /// What repairs usually take; those of a recovery share links with each other and are remembered apart.
    pub fn usual(&self, among_many: bool) -> MutexGuard<'_, Usual> {
        let usual = if among_many { &self.usual_among_many } else { &self.usual };
        usual.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
