//! What operators want of nodes: it belongs to the coordinator. It is in the catalog before anybody obeys it, and each node is
//! told all of it when it registers and with every heartbeat; so a node that was away, or that a call did not reach, obeys
//! within a heartbeat.

use crate::error::Result;
use crate::records::Records;
use catalog::rows::{BudgetsRow, ThrottleRow};
use catalog::{Catalog, NodeSettings};
use model::{NodeId, Switch};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// See the module.
#[derive(Debug)]
pub(crate) struct Settings {
    records: Records,
    now: Mutex<Versioned>,
    /// Held by whoever changes them, from the catalog to memory.
    changing: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct Versioned {
    /// Rises with every change: what a node was told later wins.
    version: u64,
    wanted: NodeSettings,
}

/// What a node is told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct OfNode {
    pub version: u64,
    /// `None`: nobody has said anything.
    pub throttle: Option<ThrottleRow>,
    /// The same.
    pub budgets: Option<BudgetsRow>,
    /// Tasks that are not to go on.
    pub tasks: Vec<(String, Switch)>,
}

impl Settings {
    /// As the catalog has them.
    pub fn of(catalog: &Catalog) -> Result<impl FnOnce(Records) -> Settings + use<>> {
        let now = Mutex::new(Versioned { version: 1, wanted: catalog.node_settings()? });
        Ok(move |records| Settings { records, now, changing: tokio::sync::Mutex::default() })
    }

    fn now(&self) -> MutexGuard<'_, Versioned> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is wanted of a node.
    pub fn of_node(&self, node: NodeId) -> OfNode {
        let now = self.now();
        let own = now.wanted.tasks.iter().filter(|((of, _), _)| *of == node);
        let tasks = own.map(|((_, task), switch)| (task.clone(), *switch)).collect();
        let NodeSettings { throttle, budgets, .. } = now.wanted;
        OfNode { version: now.version, throttle, budgets, tasks }
    }

    /// The limits of every node, if anybody has said anything of them: of all that it carries, and of each kind of traffic.
    pub fn limits(&self) -> (Option<ThrottleRow>, Option<BudgetsRow>) {
        let now = self.now();
        (now.wanted.throttle, now.wanted.budgets)
    }

    /// Bytes per second that each node may carry for repairs, recoveries and moves, in each direction; `None` if nothing limits it.
    pub fn healing_bytes_per_s(&self) -> Option<u64> {
        let (throttle, budgets) = self.limits();
        let of_all = throttle.map_or([0; 2], |row| [row.egress_bytes_per_s, row.ingress_bytes_per_s]);
        let own = budgets.map_or(0, |row| row.healing_bytes_per_s);
        of_all.into_iter().chain([own]).filter(|rate| *rate > 0).min()
    }

    /// Sets the limit of every node, from now on.
    pub async fn set_throttle(&self, row: ThrottleRow) -> Result<()> {
        let _changing = self.changing.lock().await;
        self.records.run(move |catalog| catalog.set_throttle(&row)).await?;
        self.change(|wanted| wanted.throttle = Some(row));
        Ok(())
    }

    /// Changes how much of each kind of traffic every node may carry, from now on. Returns what holds then.
    pub async fn change_budgets(&self, change: impl FnOnce(&mut BudgetsRow)) -> Result<BudgetsRow> {
        let _changing = self.changing.lock().await;
        let mut row = self.now().wanted.budgets.unwrap_or_default();
        change(&mut row);
        self.records.run(move |catalog| catalog.set_budgets(&row)).await?;
        self.change(|wanted| wanted.budgets = Some(row));
        Ok(row)
    }

    /// Says what a node's task is to do, from now on. Returns the version of the settings.
    pub async fn set_switch(&self, node: NodeId, task: String, switch: Switch) -> Result<u64> {
        let _changing = self.changing.lock().await;
        let name = task.clone();
        self.records.run(move |catalog| catalog.set_node_switch(node, &name, switch)).await?;
        Ok(self.change(|wanted| {
            match switch {
                Switch::Go => wanted.tasks.remove(&(node, task)),
                Switch::Pause | Switch::Stop => wanted.tasks.insert((node, task), switch),
            };
        }))
    }

    /// Nothing is wanted of that node any more: the catalog knows it no longer.
    pub fn forget(&self, node: NodeId) {
        self.change(|wanted| wanted.tasks.retain(|(of, _), _| *of != node));
    }

    fn change(&self, change: impl FnOnce(&mut NodeSettings)) -> u64 {
        let mut now = self.now();
        change(&mut now.wanted);
        now.version += 1;
        now.version
    }
}
