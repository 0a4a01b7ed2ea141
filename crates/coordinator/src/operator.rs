//! The cluster as a whole: status, tasks, throttles, links, who leaves, backup, rebuild.

use crate::attempt::{Attempts, UsualTimes};
use crate::cluster::{Cluster, LinkTable, Report};
use crate::error::Result;
use crate::records::{Records, now_ms};
use catalog::FoundBlock;
use model::{BlockId, Contents, Location, NodeId, Switch, note};
use plan::decide::{DecideError, NodeFacts, Planner};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use wire::proto;
use worker::{Group, Tasks};

/// Bytes of a piece of a backup.
const BACKUP_PIECE_BYTES: usize = 256 << 10;

/// A receiver of a backup that takes nothing for this long is gone: meanwhile the catalog cannot be closed.
const BACKUP_PATIENCE: Duration = Duration::from_secs(20);

/// Pieces of a backup that wait for a slow receiver.
const BACKUP_PIECES: usize = 4;

/// The task by which quarantined and slow nodes get another chance.
const QUARANTINE: &str = "quarantine";

/// What operators ask for.
#[derive(Debug)]
pub(crate) struct Operator {
    records: Records,
    cluster: Arc<Cluster>,
    planner: Arc<Planner>,
    usual: Arc<UsualTimes>,
    tasks: Arc<Tasks>,
    group: Arc<Group>,
    /// Of blocks that a rebuilt catalog finds outside stripes.
    replicas: u32,
}

impl Operator {
    /// Adds the task that has no loop of its own.
    pub fn new(with: &Attempts, tasks: Arc<Tasks>, group: Arc<Group>, replicas: u32) -> Operator {
        let task = tasks.add(QUARANTINE);
        task.note(|report| report.detail = "resume to use quarantined and slow nodes again".to_owned());
        let (cluster, planner) = (Arc::clone(&with.cluster), Arc::clone(&with.planner));
        let (records, usual) = (with.records.clone(), Arc::clone(&with.usual));
        Operator { records, cluster, planner, usual, tasks, group, replicas }
    }

    /// Everything that an operator wants to know at once.
    pub async fn status(&self) -> Result<proto::ClusterStatus> {
        let view = self.cluster.view();
        let living = view.living();
        let planner = Arc::clone(&self.planner);
        let (meta, counts) = self
            .records
            .run(move |catalog| {
                let recoverable = |code: &str, usable: &[bool]| planner.codes.recoverable(code, usable);
                Ok((catalog.meta()?, catalog.counts(&living, recoverable)?))
            })
            .await?;
        let mut reports = self.cluster.health.reports();
        let node = |(id, node): (NodeId, &NodeFacts)| {
            let Report { rack, last_seen, status, is_set_back } = reports.remove(&id)?;
            Some(proto::NodeInfo {
                node: id.0,
                rack,
                living: node.is_living,
                last_seen_ms_ago: last_seen.map_or(u64::MAX, |seen| seen.elapsed().as_millis() as u64),
                control_addr: node.control_addr.clone(),
                data_addr: node.data_addr.clone(),
                status: Some(status),
                leaving: node.is_leaving,
                slow: node.is_slow,
                set_back: is_set_back,
            })
        };
        let quarantined = view.nodes.iter().filter(|(_, node)| node.is_quarantined);
        Ok(proto::ClusterStatus {
            cluster: meta.cluster.to_vec(),
            nodes: view.nodes.iter().filter_map(node).collect(),
            objects: counts.objects,
            blocks: counts.blocks,
            stripes: counts.stripes,
            garbage: counts.garbage,
            in_flight: counts.in_flight,
            missing_blocks: counts.missing,
            unrecoverable_blocks: counts.unrecoverable,
            tasks: self.tasks.statuses(),
            quarantined: quarantined.map(|(id, _)| format!("node-{id}")).collect(),
        })
    }

    /// A command for a task, here or on a node.
    pub async fn control_task(&self, control: proto::TaskControl) -> Result<proto::TaskStatus> {
        if control.node != 0 {
            let view = self.cluster.view();
            let node = NodeId(control.node);
            return self
                .cluster
                .fleet
                .control_task(&view, node, proto::TaskControl { node: 0, ..control })
                .await;
        }
        let task = self.tasks.find(&control.name)?;
        if let Some(switch) = Switch::of(&control.action)? {
            // Noted first: what an operator was told to be paused stays so.
            if task.lasts() {
                let name = control.name.clone();
                self.records.run(move |catalog| catalog.set_switch(&name, switch)).await?;
            }
            task.obey(switch);
        }
        if control.name == QUARANTINE && control.action == "resume" {
            self.cluster.health.forgive();
        }
        Ok(task.status())
    }

    /// The same limits on every living node. All are tried; the first failure is reported.
    pub async fn throttle(&self, throttle: proto::Throttle) -> Result<()> {
        let view = self.cluster.view();
        let mut outcome = Ok(());
        for node in view.living() {
            let set = self.cluster.fleet.throttle(&view, node, throttle).await;
            outcome = outcome.and(set);
        }
        self.usual.forget();
        outcome
    }

    /// A backup of the catalog, in pieces.
    pub fn backup(&self) -> mpsc::Receiver<std::result::Result<proto::CatalogChunk, tonic::Status>> {
        let (pieces, receiver) = mpsc::channel(BACKUP_PIECES);
        let records = self.records.clone();
        self.group.spawn(async move {
            let end = pieces.clone();
            let runtime = tokio::runtime::Handle::current();
            let send = move |bytes| {
                let sent =
                    tokio::time::timeout(BACKUP_PATIENCE, pieces.send(Ok(proto::CatalogChunk { bytes })));
                matches!(runtime.block_on(sent), Ok(Ok(())))
            };
            if let Err(error) = records.run(move |c| c.backup(BACKUP_PIECE_BYTES, send)).await {
                let _ = end.send(Err(error.into())).await;
            }
        });
        receiver
    }

    /// Restores a catalog without objects from the sidecars of all living nodes.
    pub async fn rebuild(&self) -> Result<proto::RebuildReply> {
        let view = self.cluster.view();
        let living = view.living();
        if living.is_empty() {
            return Err(DecideError::NotEnoughNodes { alive: 0, needed: 1 }.into());
        }
        let mut found = Vec::new();
        for node in living {
            let listed = self.cluster.fleet.list(&view, node, true).await?;
            let total = listed.len();
            found.extend(listed.into_iter().filter_map(|stored| found_block(node, stored)));
            tracing::info!(%node, blocks = total, "sidecars read");
        }
        let (planner, replicas) = (Arc::clone(&self.planner), self.replicas);
        let rebuilt = self
            .records
            .run(move |catalog| {
                let recoverable = |code: &str, usable: &[bool]| planner.codes.recoverable(code, usable);
                catalog.rebuild(found, replicas, recoverable, now_ms())
            })
            .await?;
        Ok(proto::RebuildReply {
            objects: rebuilt.objects,
            blocks: rebuilt.blocks,
            stripes: rebuilt.stripes,
            incomplete: rebuilt.incomplete,
        })
    }

    /// A node takes no more blocks, or takes them again.
    pub async fn set_leaving(&self, node: NodeId, leaves: bool) -> Result<()> {
        self.cluster.view().node(node)?;
        let now_ms = now_ms();
        self.records.run(move |catalog| catalog.set_leaving(node, leaves, now_ms)).await?;
        self.cluster.health.set_leaving(node, leaves);
        Ok(())
    }

    /// Replaces the table of links; it holds from the next plan on, and after a restart.
    pub async fn set_links(&self, json: &str) -> Result<String> {
        let table = LinkTable::parse(json)?;
        let (rates, json) = (table.rates()?, table.to_json()?);
        let row = table.into();
        self.records.run(move |catalog| catalog.set_links(&row)).await?;
        self.cluster.health.set_links(rates);
        self.usual.forget();
        tracing::info!("the table of links was replaced");
        Ok(json)
    }

    /// The table of links as it is.
    pub async fn links(&self) -> Result<String> {
        LinkTable::from(self.records.run(|catalog| catalog.links()).await?).to_json()
    }
}

/// A block whose sidecar makes sense; others are left out, as if they were lost.
fn found_block(node: NodeId, stored: proto::StoredBlock) -> Option<FoundBlock> {
    if stored.damaged || !stored.unjudged.is_empty() {
        return None;
    }
    let stripe = match stored.stripe.as_slice() {
        [] => None,
        note => Some(note::decode(note).ok()?),
    };
    Some(FoundBlock {
        block: BlockId::from_slice(&stored.block).ok()?,
        location: Location { node, generation: stored.generation },
        facts: Contents {
            stored_bytes: stored.stored_bytes,
            sums: wire::codec::block::sums(&stored.digest, &stored.fingerprint)?,
            part: stored.object.map(Into::into),
        },
        stripe,
    })
}
