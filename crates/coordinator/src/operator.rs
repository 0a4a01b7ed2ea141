//! The cluster as a whole: status, tasks, throttles, links, who leaves, backup, recovering.

use crate::attempt::{Attempts, Healed, UsualTimes};
use crate::branches::{Branches, ITSELF};
use crate::cluster::{Cluster, Life, LinkTable, Report};
use crate::config::Config;
use crate::error::Result;
use crate::healer::{Healing, Told};
use crate::leaving::{Leaving, Ordered};
use crate::records::Records;
use crate::settings::{OfNode, Settings};
use crate::totals;
use crate::unread::{UnreadCopies, UnreadOf};
use catalog::rows::{BudgetsRow, Doubt, ForgottenRow, RecoveryRow, SafeModeRow, ThrottleRow};
use catalog::{Catalog, Condition, FoundBlock, Health, Recovered, SafeMode, Survey};
use model::{BlockCopy, BlockId, Budgets, Contents, Location, NodeId, Stamp, StoreId, Switch, note};
use plan::decide::{NodeFacts, Planner};
use std::collections::{BTreeMap, BTreeSet};
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

/// Who asks for the health waits so long for the check of the catalog's file that each start begins with: a million blocks take some
/// ten seconds.
const CHECK_PATIENCE: Duration = Duration::from_secs(8);

/// Names of tasks are words.
const MAX_TASK_NAME_BYTES: usize = 64;

/// The task by which quarantined and slow nodes get another chance.
const QUARANTINE: &str = "quarantine";

/// What operators ask for.
#[derive(Debug)]
pub(crate) struct Operator {
    pub records: Records,
    pub cluster: Arc<Cluster>,
    pub planner: Arc<Planner>,
    pub branches: Branches,
    pub healing: Arc<Healing>,
    /// Nodes that are ordered to hold nothing and have blocks that cannot be moved now.
    pub leaving: Arc<Leaving>,
    pub unread: Arc<UnreadCopies>,
    /// One at a time: the first reads the whole catalog, and who comes meanwhile waits for that without a thread.
    surveys: tokio::sync::Mutex<()>,
    usual: Arc<UsualTimes>,
    healed: Arc<Healed>,
    settings: Arc<Settings>,
    tasks: Arc<Tasks>,
    group: Arc<Group>,
    /// Of recovered blocks outside stripes.
    pub replicas: u32,
    put_lease_ms: u64,
    pub wall_ms: fn() -> u64,
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
        let branches = Branches::new(Arc::clone(&config.disk), records.clone());
        Operator {
            records,
            cluster,
            planner,
            branches,
            healing: Arc::default(),
            leaving: Arc::default(),
            unread: Arc::new(UnreadCopies::new(config.recovery_grace_ms)),
            surveys: tokio::sync::Mutex::default(),
            usual,
            healed: Arc::clone(&with.healed),
            settings,
            tasks,
            group,
            replicas,
            put_lease_ms,
            wall_ms,
        }
    }

    /// Everything that an operator wants to know at once.
    pub async fn status(&self) -> Result<proto::ClusterStatus> {
        let view = self.cluster.view();
        // Copies on expected nodes are neither missing nor known to be there.
        let Survey { counts, health, held } = self.survey(self.cluster.perhaps_living(&view)).await?;
        let facts = |c: &Catalog| Ok((c.meta()?, c.safe_mode()?, being_forgotten(c)?, c.gathers()?));
        let (meta, broken, forgotten, gathers) = self.records.run(facts).await?;
        let safe_mode = self.why_safe(broken.as_ref()).await?;
        let mut reports = self.cluster.health.reports();
        let orders = self.leaving.orders(&self.records, &held).await?;
        let unread = self.unread.by_node(self.cluster.clock.now_ms());
        let node = |(id, node): (NodeId, &NodeFacts)| {
            let Report { rack, host, last_seen, status, is_set_back, ailment } = reports.remove(&id)?;
            let (state, state_text) = self.state(id, orders.get(&id), forgotten.contains(&id));
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
                wishes: wishes(&self.settings.of_node(id).tasks),
                set_back: is_set_back,
                host,
                ailment,
                forgotten: forgotten.contains(&id),
                state,
                state_text,
                blocks_left: orders.get(&id).map_or(0, |order| order.left),
                unread_copies: unread.iter().filter(|of| of.node == id).map(|of| of.copies).sum(),
                nearly_full: node.is_living && node.is_nearly_full(),
            })
        };
        let (stored_bytes, free_bytes, nearly_full) = totals::room_of(&view);
        let (rates, budgets) = self.settings.limits();
        Ok(proto::ClusterStatus {
            cluster: meta.cluster.to_vec(),
            lenders: self.cluster.lenders.all().into_iter().map(lender).collect(),
            objects_by_margin: by_margin(&health.objects),
            stripes_by_margin: by_margin(&health.stripes),
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
            quarantined: totals::quarantined(&view),
            throttle: rates.map(limit),
            budgets: budgets.map(|row| Budgets::from(row).into()),
            safe_mode,
            unknown_copies: self.cluster.health.unknown_copies(),
            object_bytes: counts.object_bytes,
            stored_bytes,
            free_bytes,
            nearly_full,
        })
    }

    /// How far everything is from being lost, and why what lacks copies gets none now.
    pub async fn health(&self) -> Result<proto::HealthReply> {
        self.records.wait_for_check(CHECK_PATIENCE).await;
        self.cluster.has_heard_of_all().await;
        let Survey { health, held, .. } = self.survey(self.cluster.view().living()).await?;
        let broken = self.records.run(|catalog| catalog.safe_mode()).await?;
        let safe_mode = self.why_safe(broken.as_ref()).await?;
        let Told { reasons, .. } = self.healing.told();
        let by_node = self.unread.by_node(self.cluster.clock.now_ms());
        let stuck = self.stuck(&held).await?;
        let hindrance = |(why, blocks, block): (String, u64, BlockId)| proto::Hindrance {
            why,
            blocks,
            block: block.to_vec(),
        };
        let limit = self.settings.healing_bytes_per_s();
        let healed_bytes_per_s = self.healed.bytes_per_s(self.cluster.clock.now_ms());
        let Health {
            unreadable,
            broken_stripes,
            short,
            short_bytes,
            carried_bytes,
            dead,
            flawed,
            missing,
            unread,
            unreadable_names,
            objects,
            stripes,
        } = health;
        Ok(proto::HealthReply {
            objects: by_margin(&objects),
            stripes: by_margin(&stripes),
            unreadable_objects: unreadable,
            unreadable_names,
            broken_stripes,
            short_blocks: short,
            waiting_for_nodes: dead,
            missing_copies: missing,
            damaged_copies: flawed - missing,
            hindrances: reasons.into_iter().map(hindrance).collect(),
            safe_mode,
            short_bytes,
            healed_bytes_per_s,
            unread_copies: unread,
            unread: by_node.into_iter().map(unread_message).collect(),
            stuck,
            at_unix_ms: (self.wall_ms)(),
            unchecked: self.records.condition() == Condition::Unchecked,
            healing_limit_bytes_per_s: limit,
            limited_left_ms: limit.filter(|_| short > dead).and_then(|limit| {
                let nodes = self.cluster.view().living().len() as u64;
                carried_bytes.saturating_mul(1_000).checked_div(limit.saturating_mul(nodes))
            }),
        })
    }

    /// Returns a node's state for programs and for people. All commands take it from here.
    fn state(&self, node: NodeId, order: Option<&Ordered>, is_forgotten: bool) -> (String, String) {
        let life = self.cluster.life(node).unwrap_or(Life::Unheard);
        match order {
            _ if is_forgotten => ("forgotten".to_owned(), "being forgotten".to_owned()),
            Some(order) if order.is_over() => ("decommissioned".to_owned(), order.text()),
            Some(order) if life == Life::Living => ("leaving".to_owned(), order.text()),
            _ => (life.name().to_owned(), life.in_list()),
        }
    }

    /// Returns the orders for nodes to hold nothing that cannot proceed now.
    async fn stuck(&self, held: &BTreeMap<NodeId, u64>) -> Result<Vec<proto::StuckOrder>> {
        let orders = self.leaving.orders(&self.records, held).await?.into_iter();
        let stuck = orders.filter_map(|(node, order)| {
            let (is_over, Ordered { left, waits, .. }) = (order.is_over(), order);
            Some(proto::StuckOrder { node: node.0, blocks_left: left, why: waits.filter(|_| !is_over)? })
        });
        Ok(stuck.collect())
    }

    /// As it is now with these nodes living.
    async fn survey(&self, living: BTreeSet<NodeId>) -> Result<Survey> {
        let _turn = self.surveys.lock().await;
        self.records.run(move |catalog| catalog.survey(&living)).await
    }

    /// For people: why nothing is let go; empty if something is.
    pub async fn why_safe(&self, broken: Option<&SafeMode>) -> Result<String> {
        let Some(broken) = broken else { return Ok(String::new()) };
        let waits = match broken {
            SafeMode::Damaged(_) => self.records.renewal_waits(),
            SafeMode::Heard(_) | SafeMode::Doubt(_) => String::new(),
        };
        let whys = [why_broken(broken), waits, self.branches.text().await.unwrap_or_default()];
        Ok(whys.into_iter().filter(|why| !why.is_empty()).collect::<Vec<_>>().join("; "))
    }

    /// The history is taken as it is: what became superfluous may go again.
    pub async fn end_safe_mode(&self) -> Result<()> {
        let lease_until_ms = self.cluster.clock.now_ms() + self.put_lease_ms;
        if self.records.run(move |catalog| catalog.end_safe_mode(lease_until_ms)).await? {
            tracing::warn!("an operator takes the catalog's history as it is: copies are let go again");
        }
        // Last: a start in between enters safe mode again, and comes to the same.
        self.branches.settle().await?;
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
        self.settings.set_throttle(row).await?;
        tracing::info!(?row, "an operator's limit of all nodes");
        self.tell_nodes().await;
        Ok(())
    }

    /// The same of the limits of each kind of traffic, where others are wanted. Returns what holds then.
    pub async fn budgets(&self, wanted: proto::BudgetChange) -> Result<proto::Budgets> {
        let change = |row: &mut BudgetsRow| {
            let set = |budget: &mut u64, wanted: Option<u64>| *budget = wanted.unwrap_or(*budget);
            set(&mut row.client_bytes_per_s, wanted.client_bytes_per_s);
            set(&mut row.healing_bytes_per_s, wanted.healing_bytes_per_s);
            set(&mut row.archival_bytes_per_s, wanted.archival_bytes_per_s);
        };
        let row = self.settings.change_budgets(change).await?;
        tracing::info!(?row, "an operator's budgets on all nodes");
        self.tell_nodes().await;
        Ok(Budgets::from(row).into())
    }

    /// Tells all living nodes what is wanted of them. How long repairs usually take will be another now.
    async fn tell_nodes(&self) {
        let (view, mut calls) = (self.cluster.view(), JoinSet::new());
        for node in view.living() {
            let (fleet, view) = (Arc::clone(&self.cluster.fleet), view.clone());
            let wanted = told(self.settings.of_node(node));
            calls.spawn(async move {
                if let Err(error) = fleet.tell(&view, node, wanted).await {
                    tracing::info!(%node, %error, "it is told with its next heartbeat");
                }
            });
        }
        while calls.join_next().await.is_some() {}
        self.usual.forget();
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

    /// Makes nodes take no more blocks, and notes how their blocks are to be moved.
    pub async fn leave(&self, how: &RecoveryRow) -> Result<()> {
        let (now_ms, order) = (self.cluster.clock.now_ms(), how.clone());
        self.records.run(move |catalog| catalog.order_to_leave(&order, now_ms)).await?;
        how.nodes.iter().for_each(|node| self.cluster.health.set_leaving(*node, true));
        Ok(())
    }

    /// Lets a node hold blocks again.
    pub async fn stays(&self, node: NodeId) -> Result<()> {
        self.cluster.view().node(node)?;
        self.records.run(move |catalog| catalog.end_leaving(node)).await?;
        self.cluster.health.set_leaving(node, false);
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
        let rows = table.into();
        self.records.run(move |catalog| catalog.set_links(&rows)).await?;
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

/// What operators want of a node, as it is told.
pub(crate) fn told(wanted: OfNode) -> proto::NodeSettings {
    let OfNode { version, throttle, budgets, tasks } = wanted;
    let throttle = throttle.map(limit);
    let budgets = budgets.map(|row| Budgets::from(row).into());
    proto::NodeSettings { throttle, tasks: wishes(&tasks), version, budgets }
}

/// A limit, as a node is told.
fn limit(row: ThrottleRow) -> proto::Throttle {
    let ThrottleRow { egress_bytes_per_s, ingress_bytes_per_s } = row;
    proto::Throttle { egress_bytes_per_s, ingress_bytes_per_s }
}

/// What is wanted of a node's tasks, as it is told.
fn wishes(tasks: &[(String, Switch)]) -> Vec<proto::TaskWish> {
    let wish = |(name, switch): &(String, Switch)| {
        let (name, action) = (name.clone(), switch.action().to_owned());
        proto::TaskWish { name, action }
    };
    tasks.iter().map(wish).collect()
}

/// A block whose sidecar makes sense; of others the name.
pub(crate) fn found_block(
    node: NodeId,
    stored: proto::StoredBlock,
) -> Result<std::result::Result<FoundBlock, BlockCopy>> {
    let block = BlockId::from_slice(&stored.block)?;
    let copy = BlockCopy { block, node, generation: stored.generation };
    Ok(legible(copy, stored).ok_or(copy))
}

fn legible(copy: BlockCopy, stored: proto::StoredBlock) -> Option<FoundBlock> {
    if stored.damaged || !stored.unjudged.is_empty() {
        return None;
    }
    let stripe = match stored.stripe.as_slice() {
        [] => None,
        note => Some(note::decode(note).ok()?),
    };
    let BlockCopy { block, node, generation } = copy;
    Some(FoundBlock {
        block,
        location: Location { node, generation },
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
pub(crate) fn being_forgotten(catalog: &Catalog) -> catalog::Result<BTreeSet<NodeId>> {
    let rows = catalog.forgotten()?.into_iter().filter(|(_, row)| !row.is_over);
    Ok(rows.map(|(_, row)| row.node).collect())
}

/// For people: why nothing is let go.
fn why_broken(why: &SafeMode) -> String {
    match why {
        SafeMode::Heard(SafeModeRow { node: ITSELF, heard, .. }) => {
            format!("the coordinator's own folder had changes up to {heard} that this catalog does not know")
        }
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
            Doubt::Restored { at } => format!(
                "the catalog is that of a backup, with changes up to {at}, and no node that keeps later ones answered when it was started: \
                 start it from the backup again once one does; or 'stripeline catalog recover' takes what nodes have, and 'stripeline \
                 catalog end-safe-mode' the rest as it is"
            ),
        },
        SafeMode::Damaged(damage) => format!(
            "the catalog's file is damaged ({damage}): nothing is changed or deleted until it is made anew from what nodes keep of it"
        ),
    }
}

fn unread_message(of: UnreadOf) -> proto::UnreadCopies {
    let UnreadOf { node, copies, why, grace_left_ms } = of;
    proto::UnreadCopies { node: node.0, copies, why, grace_left_ms }
}

fn lender((datanode, facts, report): (StoreId, NodeFacts, Report)) -> proto::LenderInfo {
    proto::LenderInfo {
        datanode: datanode.to_vec(),
        rack: report.rack,
        living: facts.is_living,
        last_seen_ms_ago: report.last_seen.map_or(u64::MAX, |seen| seen.elapsed().as_millis() as u64),
        control_addr: facts.control_addr,
        running_stages: facts.running_stages,
    }
}

fn by_margin(counts: &BTreeMap<u64, u64>) -> Vec<proto::MarginCount> {
    counts.iter().map(|(&losses, &count)| proto::MarginCount { losses, count }).collect()
}

/// What a recovery of the catalog found, as a message.
pub(crate) fn recover_reply(recovered: Recovered, away: Vec<u32>, safe_mode: String) -> proto::RecoverReply {
    let Recovered { objects, blocks, stripes, incomplete, newer, older, removed, dropped_copies, .. } =
        recovered;
    let version = |(name, version)| proto::ObjectVersion { name, version };
    let versions = |list: Vec<(String, u64)>| list.into_iter().map(version).collect();
    proto::RecoverReply {
        objects,
        blocks,
        stripes,
        incomplete: versions(incomplete),
        newer: versions(newer),
        older: versions(older),
        removed: versions(removed),
        dropped_copies,
        away,
        safe_mode,
    }
}
