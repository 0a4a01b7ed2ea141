//! The task that renews a damaged catalog from what nodes keep of it, without an operator (HEALING.md, "The catalog's own file").
//!
//! ```text
//!   damaged ─▶ nodes asked ─▶ one keeps all up to the last change ─▶ fetched beside the file, checked ─▶ takes its place
//!                 ▲   └─ none does: reads go on, what is waited for is told                               │
//!                 └─────────────────────────────────── the coordinator begins anew over it ◀──────────────┘
//! ```
//! No acknowledged change is dropped: what a node keeps is taken only if it ends with this catalog's last change, or with the last one
//! that anybody can have been told of ([`stands_in`]), and only if no node that answers has heard of a later one.

use crate::cluster::Cluster;
use crate::error::{CoordinatorError, Result};
use crate::records::Records;
use crate::succession::receive;
use catalog::succession::{Answer, stands_in};
use catalog::{Catalog, Condition, Incoming};
use disk::Disk;
use model::{NodeId, Position};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use worker::{Step, Task, Worker};

/// Interval at which the task looks whether the file is damaged and, if so, whether a node keeps all changes by now. Holders get
/// changes within about 100 ms.
const TICK: Duration = Duration::from_millis(500);

/// Renews a damaged catalog. See the module.
pub(crate) struct Renewer {
    records: Records,
    cluster: Arc<Cluster>,
    disk: Arc<dyn Disk>,
    /// Tells the coordinator to begin anew over the renewed file: its memory still has what it read of the damaged one.
    renewed: mpsc::Sender<()>,
    is_told: bool,
}

impl Renewer {
    pub fn new(
        records: Records,
        cluster: Arc<Cluster>,
        disk: Arc<dyn Disk>,
        renewed: mpsc::Sender<()>,
    ) -> Renewer {
        Renewer { records, cluster, disk, renewed, is_told: false }
    }

    /// Asks all nodes what they keep and have heard. Nodes that do not answer are left out.
    async fn ask(&self) -> BTreeMap<NodeId, Answer> {
        let mut asking = JoinSet::new();
        for (node, facts) in self.cluster.view().nodes.iter() {
            let (fleet, addr) = (Arc::clone(&self.cluster.fleet), facts.control_addr.clone());
            asking.spawn(async move { (node, fleet.ask(node, &addr).await) });
        }
        let mut answers = BTreeMap::new();
        while let Some(Ok((node, answer))) = asking.join_next().await {
            answers.extend(answer.map(|answer| (node, answer)));
        }
        answers
    }

    /// Renews the file if a node keeps all changes. Else returns what is waited for.
    async fn renew(&self) -> Result<Option<String>> {
        let own = self.records.run(|catalog| catalog.position()).await?;
        let answers = self.ask().await;
        let later = answers.iter().find(|(_, answer)| answer.heard > own.stamp);
        if let Some((node, answer)) = later {
            return Ok(Some(format!(
                "{node} has heard of change {}, which is later than the last one of the damaged file, {}: waiting for a node that keeps it",
                answer.heard, own.stamp
            )));
        }
        let asked = answers.clone();
        let stands = move |catalog: &Catalog| {
            let remembers = |stamp| catalog.remembers(stamp).unwrap_or(false);
            let waited = |number| catalog.waited_since(number).unwrap_or(false);
            Ok(stands_in(&own, &catalog.holders()?, &asked, remembers, waited))
        };
        let Some((node, wanted)) = self.records.run(stands).await? else {
            return Ok(Some(waits(&own, &answers)));
        };
        let addr = self.cluster.view().node(node)?.control_addr.clone();
        let mut parts = self.cluster.fleet.held(node, &addr).await?;
        let disk = Arc::clone(&self.disk);
        let kept = self
            .records
            .decide(move |catalog: &Catalog| {
                let mut incoming = Incoming::begin(&disk)?;
                receive(&mut incoming, &mut parts, node)?;
                Ok(catalog.renew(incoming, &wanted)?)
            })
            .await?;
        tracing::warn!(
            %node, at = %wanted.stamp, before = %own.stamp, kept_aside = kept,
            "the catalog's file was damaged, and is made anew from what this node keeps: no change that anybody was told of is lost"
        );
        let _ = self.renewed.send(()).await;
        Ok(None)
    }
}

/// Says what is waited for while no node that answers keeps all changes.
fn waits(own: &Position, answers: &BTreeMap<NodeId, Answer>) -> String {
    let held = |(node, answer): (&NodeId, &Answer)| Some(format!("{node} up to {}", answer.held?.stamp));
    let held: Vec<String> = answers.iter().filter_map(held).collect();
    let who = match held.as_slice() {
        [] => "none that answers keeps any".to_owned(),
        held => format!("those that answer keep them {}", held.join(", ")),
    };
    format!(
        "waiting for a node that keeps all changes up to {}: {who}. If no such node comes back, move the coordinator's folder away and start \
         with an empty one: what nodes keep is taken, and later changes are given up",
        own.stamp
    )
}

impl Worker for Renewer {
    type Error = CoordinatorError;

    fn name(&self) -> &'static str {
        "catalog-renew"
    }

    fn pause(&self) -> Duration {
        TICK
    }

    async fn step(&mut self, task: &Task) -> Result<Step> {
        let Condition::Damaged(damage) = self.records.condition() else { return Ok(Step::Wait(TICK)) };
        if !std::mem::replace(&mut self.is_told, true) {
            for finding in &damage.findings {
                tracing::error!(finding, "the catalog's file is damaged");
            }
        }
        let waits = match self.renew().await {
            Ok(waits) => waits,
            Err(error) => Some(format!("it could not be made anew, and this is tried again: {error}")),
        };
        self.records.say_renewal_waits(waits.clone().unwrap_or_default());
        task.note(|report| {
            report.done += u64::from(waits.is_none());
            report.detail = waits.unwrap_or_else(|| "the file was made anew".to_owned());
        });
        Ok(Step::Wait(TICK))
    }
}
