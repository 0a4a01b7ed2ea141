//! Nodes come, report, and say what they hold.

use crate::cluster::Cluster;
use crate::collector::Garbage;
use crate::damaged::Damaged;
use crate::error::{CoordinatorError, Result};
use crate::operator;
use crate::records::Records;
use crate::settings::{OfNode, Settings};
use catalog::rows::NodeRow;
use model::{BlockCopy, BlockId, ClusterId, Flaw, NodeId};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tonic::Streaming;
use wire::proto::register_message::Kind;
use wire::{PROTOCOL_VERSION, proto};
use worker::Group;

/// A node that says nothing for this long while it registers is gone.
const REGISTER_SILENCE: Duration = Duration::from_secs(30);

/// Length of addresses and rack names.
const MAX_ADDRESS_BYTES: usize = 256;

/// Copies that are compared in one transaction, so that puts do not wait long.
const RECONCILE_BATCH: usize = 1024;

/// What nodes tell of themselves.
#[derive(Debug)]
pub(crate) struct Membership {
    pub records: Records,
    pub cluster: Arc<Cluster>,
    pub garbage: Arc<Garbage>,
    pub damaged: Arc<Damaged>,
    pub settings: Arc<Settings>,
    pub group: Arc<Group>,
    pub heartbeat_ms: u32,
}

impl Membership {
    /// Hello, then the inventory; from the end of it the node lives.
    pub async fn register(
        self: &Arc<Self>,
        mut messages: Streaming<proto::RegisterMessage>,
    ) -> Result<proto::RegisterReply> {
        let Some(Kind::Hello(hello)) = next(&mut messages).await? else {
            return Err(invalid("a registration begins with a hello"));
        };
        let (row, cluster) = self.check_hello(&hello)?;
        let node = NodeId(hello.node);
        if hello.cluster.is_empty() {
            self.refuse_another_folder(node).await?;
        }
        let stored = row.clone();
        let cluster = self.records.run(move |c| c.register_node(node, &stored, cluster)).await?;
        // Committed before the inventory is complete, so the node cannot be blamed for lacking what came later.
        let placed = self.records.run(move |catalog| catalog.held_by(node)).await?;
        let Inventory { held, damaged } = inventory(&mut messages, node).await?;
        self.cluster.health.registered(node, row);
        tracing::info!(%node, blocks = held.len(), damaged = damaged.len(), "registered");
        let needed = self.compare(node, &held).await?;
        if !needed.is_empty() {
            let garbage = Arc::clone(&self.garbage);
            self.group.spawn(async move { garbage.take_back(needed).await });
        }
        let is_missing = |copy: &&BlockCopy| !damaged.contains(&copy.block);
        let missing: Vec<BlockCopy> = placed.difference(&held).filter(is_missing).copied().collect();
        if !missing.is_empty() {
            let members = Arc::clone(self);
            self.group.spawn(async move { members.look_for(node, missing).await });
        }
        let settings = Some(told(self.settings.of_node(node)));
        Ok(proto::RegisterReply { cluster: cluster.to_vec(), heartbeat_ms: self.heartbeat_ms, settings })
    }

    /// A heartbeat; newly damaged blocks are dealt with.
    pub async fn heartbeat(&self, request: proto::HeartbeatRequest) -> Result<proto::HeartbeatReply> {
        let status = request.status.ok_or_else(|| invalid("a heartbeat without a status"))?;
        let node = NodeId(status.node);
        let Some(damaged) = self.cluster.health.heartbeat(status) else {
            return Ok(proto::HeartbeatReply { register_again: true, settings: None });
        };
        for block in damaged {
            let block = BlockId::from_slice(&block)?;
            self.damaged.found(block, node).await;
        }
        let settings = Some(told(self.settings.of_node(node)));
        Ok(proto::HeartbeatReply { register_again: false, settings })
    }

    /// A node ends: nothing is planned with it any more, and its recovery need not be waited for.
    pub fn goodbye(&self, request: &proto::GoodbyeRequest) {
        let node = NodeId(request.node);
        if self.cluster.health.goodbye(node, &request.control_addr) {
            tracing::info!(%node, "it said goodbye: it does not live any more");
        }
    }

    /// A folder that never belonged to a cluster cannot hold what this node holds. Taken for it, it would cost every copy
    /// that the true one has.
    async fn refuse_another_folder(&self, node: NodeId) -> Result<()> {
        let copies = self.records.run(move |catalog| catalog.held_by(node)).await?.len();
        if copies == 0 {
            return Ok(());
        }
        Err(CoordinatorError::Conflict(format!(
            "{node} has {copies} copies here, and this folder is a new one: start it with the node's own folder; if that is \
             lost, run `stripeline repair node {node}` first; if it is another node, give it another number"
        )))
    }

    fn check_hello(&self, hello: &proto::NodeHello) -> Result<(NodeRow, Option<ClusterId>)> {
        if hello.protocol != PROTOCOL_VERSION {
            return Err(CoordinatorError::Conflict(format!(
                "node-{} speaks protocol {}, this coordinator {PROTOCOL_VERSION}; run the same version on both",
                hello.node, hello.protocol
            )));
        }
        if hello.node == 0 {
            return Err(invalid("node numbers begin at 1; 0 is the client"));
        }
        for address in [&hello.control_addr, &hello.data_addr] {
            if address.is_empty() || address.len() > MAX_ADDRESS_BYTES {
                return Err(invalid("a node needs a control and a data address, host:port"));
            }
        }
        if hello.rack.len() > MAX_ADDRESS_BYTES {
            return Err(invalid("the rack's name is too long"));
        }
        if let Some(other) = self.cluster.health.holder_of(&hello.data_addr, NodeId(hello.node)) {
            return Err(CoordinatorError::Conflict(format!(
                "{other} lives at {} already; give node-{} another address",
                hello.data_addr, hello.node
            )));
        }
        let cluster = match hello.cluster.as_slice() {
            [] => None,
            bytes => Some(ClusterId::from_slice(bytes)?),
        };
        let row = NodeRow {
            control_addr: hello.control_addr.clone(),
            data_addr: hello.data_addr.clone(),
            rack: hello.rack.clone(),
        };
        Ok((row, cluster))
    }

    /// What the node has and the catalog does not place there. Returns the copies that their blocks need.
    async fn compare(&self, node: NodeId, held: &BTreeSet<BlockCopy>) -> Result<Vec<BlockCopy>> {
        let copies: Vec<BlockCopy> = held.iter().copied().collect();
        let mut needed = Vec::new();
        for batch in copies.chunks(RECONCILE_BATCH).map(<[BlockCopy]>::to_vec) {
            let now_ms = self.cluster.clock.now_ms();
            let living = self.cluster.perhaps_living(&self.cluster.view());
            let result = self.records.run(move |catalog| catalog.reconcile(&batch, &living, now_ms)).await?;
            if result.surplus + result.unknown > 0 {
                let (surplus, unknown) = (result.surplus, result.unknown);
                tracing::warn!(
                    %node,
                    surplus,
                    unknown,
                    "copies that the catalog does not know; unknown ones are kept"
                );
            }
            needed.extend(result.needed);
        }
        Ok(needed)
    }

    /// Copies that the catalog places on the node and that were not in its inventory. The inventory may be older than a
    /// commit, so the node is asked again; every one of these was committed, hence durable, before.
    async fn look_for(&self, node: NodeId, missing: Vec<BlockCopy>) {
        let view = self.cluster.view();
        let outcome = async {
            let (mut held, mut damaged) = (BTreeSet::new(), BTreeSet::new());
            for listed in self.cluster.fleet.list(&view, node, false).await? {
                let block = BlockId::from_slice(&listed.block)?;
                match listed.damaged {
                    true => _ = damaged.insert(block),
                    false => _ = held.insert(BlockCopy { block, node, generation: listed.generation }),
                }
            }
            let is_gone = |copy: &BlockCopy| !held.contains(copy) && !damaged.contains(&copy.block);
            let missing: Vec<BlockCopy> = missing.into_iter().filter(is_gone).collect();
            self.records.run(move |catalog| catalog.note_flaws(&missing, Flaw::Missing)).await
        };
        match outcome.await {
            Ok(lost) if lost.is_empty() => {}
            Ok(lost) => {
                tracing::warn!(%node, lost = lost.len(), "copies that this node should have are missing");
                lost.iter().for_each(|copy| self.damaged.repair(copy.block));
            }
            Err(error) => tracing::warn!(%node, %error, "the node could not be asked for missing copies"),
        }
    }
}

/// What a node says it has.
struct Inventory {
    held: BTreeSet<BlockCopy>,
    /// Blocks of which it cannot say which copies they are: they are there, and its heartbeats tell of them.
    damaged: BTreeSet<BlockId>,
}

/// All of it, to the word that it is complete: an inventory that breaks off is none.
async fn inventory(messages: &mut Streaming<proto::RegisterMessage>, node: NodeId) -> Result<Inventory> {
    let mut inventory = Inventory { held: BTreeSet::new(), damaged: BTreeSet::new() };
    loop {
        let Some(Kind::Blocks(part)) = next(messages).await? else {
            return Err(invalid("the node's inventory broke off: it cannot list its blocks"));
        };
        for reference in part.blocks {
            let block = BlockId::from_slice(&reference.block)?;
            inventory.held.insert(BlockCopy { block, node, generation: reference.generation });
        }
        for block in part.damaged {
            inventory.damaged.insert(BlockId::from_slice(&block)?);
        }
        if part.complete {
            return Ok(inventory);
        }
    }
}

/// What operators want of a node, as it is told.
fn told(wanted: OfNode) -> proto::NodeSettings {
    let OfNode { version, throttle, tasks } = wanted;
    let throttle = throttle.map(|row| operator::throttle(&row, version));
    let tasks = tasks.iter().map(|(name, switch)| operator::wish(name, *switch)).collect();
    proto::NodeSettings { throttle, tasks, version }
}

async fn next(messages: &mut Streaming<proto::RegisterMessage>) -> Result<Option<Kind>> {
    let lost = |why: &str| invalid(&format!("the registration broke off: {why}"));
    match tokio::time::timeout(REGISTER_SILENCE, messages.message()).await {
        Ok(Ok(None)) => Ok(None),
        Ok(Ok(Some(message))) => match message.kind {
            Some(kind) => Ok(Some(kind)),
            None => Err(invalid("a registration message of no kind")),
        },
        Ok(Err(status)) => Err(lost(status.message())),
        Err(_) => Err(lost("the node is silent")),
    }
}

fn invalid(what: &str) -> CoordinatorError {
    CoordinatorError::Invalid(what.to_owned())
}
