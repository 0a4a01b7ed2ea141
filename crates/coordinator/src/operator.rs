//! The cluster as a whole: status, tasks, throttles, links, who leaves, backup, recovering.

use crate::attempt::{Attempts, UsualTimes};
use crate::cluster::{Cluster, LinkTable, Report};
use crate::config::Config;
use crate::error::Result;
use crate::records::Records;
use crate::settings::Settings;
use catalog::rows::{Doubt, ForgottenRow, SafeModeRow, ThrottleRow};
use catalog::{Catalog, Choices, FoundBlock, Recovered, RecoveredAt, SafeMode};
use model::{BlockId, Contents, Location, NodeId, Stamp, StoreId, Switch, note};
use plan::decide::{DecideError, NodeFacts, Planner, World};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use wire::proto;
use worker::{Group, Tasks, UnknownTask};

/// Bytes of a piece of a backup.
const BACKUP_PIECE_BYTES: usize = 256 << 10;

/// A receiver of a backup that takes nothing for this long is gone: meanwhile the catalog cannot be closed.
const BACKUP_PATIENCE: Duration = Duration::from_secs(20);

/// Pieces of a backup that wait for a slow receiver.
const BACKUP_PIECES: usize = 4;

/// Names of tasks are words.
const MAX_TASK_NAME_BYTES: usize = 64;

/// The task by which quarantined and slow nodes get another chance.
const QUARANTINE: &str = "quarantine";

/// What operators ask for.
#[derive(Debug)]
pub(crate) struct Operator {
    records: Records,
    cluster: Arc<Cluster>,
    planner: Arc<Planner>,
    usual: Arc<UsualTimes>,
    settings: Arc<Settings>,
    tasks: Arc<Tasks>,
    group: Arc<Group>,
    /// Of recovered blocks outside stripes.
    replicas: u32,
    put_lease_ms: u64,
    wall_ms: fn() -> u64,
}

impl Operator {
    /// Adds the task that has no loop of its own.
    pub fn new(
        with: &Attempts,
        settings: Arc<Settings>,
        tasks: Arc<Tasks>,
        group: Arc<Group>,
        config: &Config,
    ) -> Operator {
        let task = tasks.add(QUARANTINE);
        task.note(|report| report.detail = "resume to use quarantined and slow nodes again".to_owned());
        let (cluster, planner) = (Arc::clone(&with.cluster), Arc::clone(&with.planner));
        let (records, usual) = (with.records.clone(), Arc::clone(&with.usual));
        let Config { replicas, put_lease_ms, wall_ms, .. } = *config;
        Operator { records, cluster, planner, usual, settings, tasks, group, replicas, put_lease_ms, wall_ms }
    }

    /// Everything that an operator wants to know at once.
    pub async fn status(&self) -> Result<proto::ClusterStatus> {
        let view = self.cluster.view();
        let living = view.living();
        let planner = Arc::clone(&self.planner);
        let (meta, counts, broken, forgotten, gathers) = self
            .records
            .run(move |catalog| {
                let recoverable = |code: &str, usable: &[bool]| planner.codes.recoverable(code, usable);
                let counts = catalog.counts(&living, recoverable)?;
                Ok((
                    catalog.meta()?,
                    counts,
                    catalog.safe_mode()?,
                    being_forgotten(catalog)?,
                    catalog.gathers()?,
                ))
            })
            .await?;
        let mut reports = self.cluster.health.reports();
        let node = |(id, node): (NodeId, &NodeFacts)| {
            let Report { rack, host, last_seen, status, is_set_back, ailment } = reports.remove(&id)?;
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
                wishes: self
                    .settings
                    .of_node(id)
                    .tasks
                    .iter()
                    .map(|(name, switch)| wish(name, *switch))
                    .collect(),
                set_back: is_set_back,
                host,
                ailment,
                forgotten: forgotten.contains(&id),
            })
        };
        let quarantined = view.nodes.iter().filter(|(_, node)| node.is_quarantined);
        Ok(proto::ClusterStatus {
            cluster: meta.cluster.to_vec(),
            nodes: view.nodes.iter().filter_map(node).collect(),
            objects: counts.objects,
            blocks: counts.blocks,
            stripes: counts.stripes,
            open_stripes: gathers.open,
            sealed_stripes: gathers.sealed,
            waiting_blocks: gathers.blocks,
            garbage: counts.candidates.copies,
            garbage_bytes: counts.candidates.bytes,
            lost_copies: counts.lost_copies,
            damaged_copies: counts.damaged_copies,
            in_flight: counts.in_flight,
            missing_blocks: counts.missing,
            unrecoverable_blocks: counts.unrecoverable,
            tasks: self.tasks.statuses(),
            quarantined: quarantined.map(|(id, _)| format!("node-{id}")).collect(),
            throttle: self.settings.throttle().map(|row| throttle(&row, 0)),
            safe_mode: broken.map_or(String::new(), |why| why_broken(&why)),
            unknown_copies: self.cluster.health.unknown_copies(),
        })
    }

    /// The history is taken as it is: what became superfluous may go again.
    pub async fn end_safe_mode(&self) -> Result<()> {
        let lease_until_ms = self.cluster.clock.now_ms() + self.put_lease_ms;
        if self.records.run(move |catalog| catalog.end_safe_mode(lease_until_ms)).await? {
            tracing::warn!("an operator takes the catalog's history as it is: copies are let go again");
        }
        Ok(())
    }

    /// A command for a task, here or on a node.
    pub async fn control_task(&self, control: proto::TaskControl) -> Result<proto::TaskStatus> {
        if control.node != 0 {
            return self.control_node_task(control).await;
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

    /// A command for a task of a node. It is noted first: a node that is away obeys when it is back.
    async fn control_node_task(&self, control: proto::TaskControl) -> Result<proto::TaskStatus> {
        let (view, node) = (self.cluster.view(), NodeId(control.node));
        let is_living = view.node(node)?.is_living;
        let order = proto::TaskControl { node: 0, ..control.clone() };
        let Some(switch) = Switch::of(&control.action)? else {
            return self.cluster.fleet.control_task(&view, node, order).await;
        };
        self.check_node_task(&control.name)?;
        let version = self.settings.set_switch(node, control.name.clone(), switch).await?;
        tracing::info!(%node, task = control.name, action = control.action, "an operator's order to a node");
        if is_living {
            let order = proto::TaskControl { version, ..order };
            match self.cluster.fleet.control_task(&view, node, order).await {
                Ok(status) => return Ok(status),
                Err(error) => tracing::info!(%node, %error, "it is told with its next heartbeat"),
            }
        }
        let state = match switch {
            Switch::Go => "to go on",
            Switch::Pause => "paused",
            Switch::Stop => "stopped",
        };
        let (state, detail) = (state.to_owned(), format!("{node} is away, and obeys when it is back"));
        Ok(proto::TaskStatus { name: control.name, state, detail, ..Default::default() })
    }

    /// An error if no node that ever reported has such a task.
    fn check_node_task(&self, name: &str) -> Result<()> {
        let reports = self.cluster.health.reports();
        let tasks = reports.values().flat_map(|report| &report.status.tasks);
        let known: BTreeSet<&str> = tasks.map(|task| task.name.as_str()).collect();
        if name.len() > MAX_TASK_NAME_BYTES || (!known.is_empty() && !known.contains(name)) {
            let known = known.into_iter().collect::<Vec<_>>().join(", ");
            return Err(UnknownTask { name: name.to_owned(), known }.into());
        }
        Ok(())
    }

    /// The same limits on every node, until others are set. Those that do not answer now are told when they do.
    pub async fn throttle(&self, wanted: proto::Throttle) -> Result<()> {
        let row = ThrottleRow {
            egress_bytes_per_s: wanted.egress_bytes_per_s,
            ingress_bytes_per_s: wanted.ingress_bytes_per_s,
        };
        let version = self.settings.set_throttle(row).await?;
        tracing::info!(?row, "an operator's limit of all nodes");
        let (view, mut calls) = (self.cluster.view(), JoinSet::new());
        for node in view.living() {
            let (fleet, view) = (Arc::clone(&self.cluster.fleet), view.clone());
            calls.spawn(async move {
                if let Err(error) = fleet.throttle(&view, node, throttle(&row, version)).await {
                    tracing::info!(%node, %error, "it is told with its next heartbeat");
                }
            });
        }
        while calls.join_next().await.is_some() {}
        self.usual.forget();
        Ok(())
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

    /// Takes from the sidecars of all living nodes what the catalog's history knows nothing of, and does with versions that were
    /// left out what is asked for. If every node was asked and nothing is left to decide, the history is whole again.
    pub async fn recover(&self, request: proto::RecoverRequest) -> Result<proto::RecoverReply> {
        let named = |list: Vec<proto::ObjectVersion>| list.into_iter().map(|v| (v.name, v.version)).collect();
        let choices = Choices { take: named(request.take), drop: named(request.drop) };
        let view = self.cluster.view();
        if view.living().is_empty() {
            return Err(DecideError::NotEnoughNodes { alive: 0, needed: 1 }.into());
        }
        let away: Vec<u32> = self.away(&view).await?.into_iter().map(|node| node.0).collect();
        let found = self.found(&view).await?;
        let (planner, replicas) = (Arc::clone(&self.planner), self.replicas);
        let at = RecoveredAt { now_ms: self.cluster.clock.now_ms(), created_ms: (self.wall_ms)() };
        let recovered = self
            .records
            .run(move |catalog| {
                let recoverable = |code: &str, usable: &[bool]| planner.codes.recoverable(code, usable);
                catalog.recover(&found, &choices, replicas, recoverable, at)
            })
            .await?;
        let Recovered { objects, blocks, stripes, incomplete, newer, older, dropped_copies } = recovered;
        tracing::info!(
            objects,
            stripes,
            incomplete = incomplete.len(),
            newer = newer.len(),
            dropped_copies,
            "recovered"
        );
        // A catalog that was made anew knows of no nodes but those that came: only people know whether these are all.
        let knows_all = self.records.run(|catalog| catalog.knows_its_nodes()).await?;
        let is_settled = away.is_empty() && incomplete.is_empty() && newer.is_empty();
        if knows_all && is_settled && self.none_keeps_another_history(&view).await? {
            self.end_safe_mode().await?;
        }
        let broken = self.records.run(|catalog| catalog.safe_mode()).await?;
        let version = |(name, version)| proto::ObjectVersion { name, version };
        Ok(proto::RecoverReply {
            objects,
            blocks,
            stripes,
            incomplete: incomplete.into_iter().map(version).collect(),
            newer: newer.into_iter().map(version).collect(),
            older: older.into_iter().map(version).collect(),
            dropped_copies,
            away,
            safe_mode: broken.map_or(String::new(), |why| why_broken(&why)),
        })
    }

    /// Nodes that do not live, and were not given up.
    async fn away(&self, view: &World) -> Result<Vec<NodeId>> {
        let gone = self.records.run(being_forgotten).await?;
        let is_away = |node: &NodeId| !gone.contains(node) && !view.node(*node).is_ok_and(|n| n.is_living);
        Ok(view.nodes.iter().map(|(node, _)| node).filter(is_away).collect())
    }

    /// What living nodes have, by their sidecars.
    async fn found(&self, view: &World) -> Result<Vec<FoundBlock>> {
        let mut found = Vec::new();
        for node in view.living() {
            let listed = self.cluster.fleet.list(view, node, true).await?;
            let total = listed.len();
            found.extend(listed.into_iter().filter_map(|stored| found_block(node, stored)));
            tracing::info!(%node, blocks = total, "sidecars read");
        }
        Ok(found)
    }

    /// Ends safe mode that a node's word began, if every node has said what it has and no name is uncertain. Else what is waited
    /// for.
    pub async fn settle(&self, why: SafeModeRow) -> Result<Option<String>> {
        let view = self.cluster.view();
        let away = self.away(&view).await?;
        if let Some(node) = away.first() {
            return Ok(Some(format!("{} nodes are away, {node} among them", away.len())));
        }
        if !self.none_keeps_another_history(&view).await? {
            return Ok(Some("a node keeps records of changes that are not known here".to_owned()));
        }
        let found = self.found(&view).await?;
        let planner = Arc::clone(&self.planner);
        let uncertain = move |catalog: &Catalog| {
            catalog.uncertain_versions(&found, |code, usable| planner.codes.recoverable(code, usable))
        };
        let uncertain = self.records.run(uncertain).await?;
        if let Some((name, version)) = uncertain.first() {
            return Ok(Some(format!(
                "{} versions may have been stored by changes that are lost, {name:?} version {version} among them: 'stripeline \
                 catalog recover' takes or lists them, 'stripeline catalog end-safe-mode' gives up what is left",
                uncertain.len()
            )));
        }
        // Who came meanwhile was not asked.
        let nodes = |view: &World| view.nodes.iter().map(|(node, _)| node).collect::<BTreeSet<_>>();
        let knows_all = self.records.run(|catalog| catalog.knows_its_nodes()).await?;
        if !knows_all || nodes(&self.cluster.view()) != nodes(&view) {
            return Ok(Some("not every node was asked".to_owned()));
        }
        if self.records.run(move |catalog| catalog.heard_is_settled(&why)).await? {
            tracing::warn!(
                "all nodes have said what they have, and no name is uncertain: copies are let go again"
            );
        }
        Ok(None)
    }

    /// Whether no living node keeps records of changes that are not known here: what nodes have of copies says nothing of what was
    /// deleted by those. A node that does not say keeps some, as far as is known.
    async fn none_keeps_another_history(&self, view: &World) -> Result<bool> {
        for node in view.living() {
            let answer = self.cluster.fleet.ask(node, &view.node(node)?.control_addr).await;
            let Some(answer) = answer else { return Ok(false) };
            if let Some(held) = answer.held
                && !self.records.run(move |catalog| catalog.remembers(held.stamp)).await?
            {
                tracing::warn!(%node, held = %held.stamp, "it keeps records of changes that are not known here");
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// A node takes no more blocks, or takes them again.
    pub async fn set_leaving(&self, node: NodeId, leaves: bool) -> Result<()> {
        self.cluster.view().node(node)?;
        let now_ms = self.cluster.clock.now_ms();
        self.records.run(move |catalog| catalog.set_leaving(node, leaves, now_ms)).await?;
        self.cluster.health.set_leaving(node, leaves);
        Ok(())
    }

    /// How far forgetting a store is, for whoever asked for it.
    pub fn forgotten(&self, row: ForgottenRow) -> proto::ForgetNodeReply {
        let task = self.tasks.statuses().into_iter().find(|task| task.name == "forget");
        let state = task.map_or_else(String::new, |task| task.detail);
        proto::ForgetNodeReply {
            over: row.is_over,
            dropped: row.dropped,
            candidates: row.candidates,
            short_blocks: row.short,
            lost_blocks: row.lost,
            lost_objects: row.lost_objects,
            lost_names: row.lost_names,
            state,
        }
    }

    /// A store that was given up by mistake may register again. Returns its number.
    pub async fn readmit(&self, store: &[u8]) -> Result<NodeId> {
        let store = StoreId::from_slice(store)?;
        let node = self.records.run(move |catalog| catalog.readmit(store)).await?;
        tracing::warn!(%node, %store, "an operator lets a store register again that was given up");
        Ok(node)
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

/// A limit, as a node is told.
pub(crate) fn throttle(row: &ThrottleRow, version: u64) -> proto::Throttle {
    let ThrottleRow { egress_bytes_per_s, ingress_bytes_per_s } = *row;
    proto::Throttle { egress_bytes_per_s, ingress_bytes_per_s, version }
}

/// What is wanted of a node's task, as it is told.
pub(crate) fn wish(name: &str, switch: Switch) -> proto::TaskWish {
    proto::TaskWish { name: name.to_owned(), action: switch.action().to_owned() }
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
        birth: stored.birth.map(Stamp::from).unwrap_or_default(),
    })
}

/// Nodes whose stores were given up, and that something still names.
fn being_forgotten(catalog: &Catalog) -> catalog::Result<BTreeSet<NodeId>> {
    let rows = catalog.forgotten()?.into_iter().filter(|(_, row)| !row.is_over);
    Ok(rows.map(|(_, row)| row.node).collect())
}

/// For people: why nothing is let go.
fn why_broken(why: &SafeMode) -> String {
    match why {
        SafeMode::Heard(SafeModeRow { node, heard, .. }) => format!(
            "{node} has heard of change {heard}, which this catalog does not know: it was set back, or is another one; this ends \
             once all nodes have said what they have, if no name is uncertain then, or with 'stripeline catalog recover'"
        ),
        SafeMode::Doubt(row) => match row.why {
            Doubt::FewHolders { answered, wanted } => format!(
                "of the nodes that keep the catalog's records {answered} have answered; it is over once {wanted} say that \
                 nothing is missing here"
            ),
            Doubt::Made => "no node kept the catalog: it is made of what nodes have".to_owned(),
        },
    }
}
