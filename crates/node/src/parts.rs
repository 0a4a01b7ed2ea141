//! What a node is made of, and what it says of itself in heartbeats and when it is asked.

use crate::ailment::Ailment;
use crate::clock::Last;
use crate::flows::{FlowStore, named};
use crate::store::Held;
use exec::Engine;
use model::{BlockId, Budgets, NodeId, Switch, Traffic};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use wire::proto;
use worker::Tasks;

/// See the module.
#[derive(Clone)]
pub struct Parts {
    /// The node's number.
    pub node: NodeId,
    /// Its blocks.
    pub flows: Arc<FlowStore>,
    /// Its flow executor.
    pub engine: Engine,
    /// What runs in the background.
    pub tasks: Arc<Tasks>,
    /// The version of the operators' settings that it obeys.
    pub settings: Arc<AtomicU64>,
    /// The host and port of the coordinator that it registers with.
    pub coordinator: Arc<str>,
    /// When that last answered well.
    pub(crate) answered: Arc<Last>,
    /// What is wrong with its disk.
    pub ailment: Arc<Ailment>,
}

impl Parts {
    /// Makes durable what the node has heard of the catalog.
    pub async fn note_heard(&self) {
        let store = self.flows.store.clone();
        match tokio::task::spawn_blocking(move || store.note_heard()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!("what was heard of the catalog cannot be noted: {error}"),
            Err(error) => tracing::warn!("what was heard of the catalog cannot be noted: {error}"),
        }
    }

    /// Does as operators want. What came with a heartbeat's answer may be older than an order that overtook it.
    pub fn obey(&self, wanted: &proto::NodeSettings, has_registered: bool) {
        let version = self.settings.load(Ordering::Relaxed);
        if wanted.version < version && !has_registered {
            return;
        }
        self.settings.store(wanted.version, Ordering::Relaxed);
        if let Some(throttle) = &wanted.throttle {
            self.engine.throttle().set(throttle.egress_bytes_per_s, throttle.ingress_bytes_per_s);
        }
        let budgets = wanted.budgets.map(Budgets::from).unwrap_or_default();
        self.engine.throttle().set_budgets(budgets);
        let switch = |wish: &proto::TaskWish| Some((wish.name.clone(), Switch::of(&wish.action).ok()??));
        let tasks: BTreeMap<String, Switch> = wanted.tasks.iter().filter_map(switch).collect();
        self.tasks.obey(&tasks);
    }

    /// An order came that is part of the settings of that version.
    pub fn was_told(&self, version: u64) {
        self.settings.fetch_max(version, Ordering::Relaxed);
    }

    /// How it is now.
    pub fn status(&self) -> proto::NodeStatus {
        let (usage, unread) = (self.flows.store.usage(), self.flows.suspects.unread());
        let (egress_bytes_per_s, ingress_bytes_per_s) = self.engine.throttle().rates();
        proto::NodeStatus {
            node: self.node.0,
            blocks: usage.blocks,
            stored_bytes: usage.stored_bytes,
            free_bytes: self.flows.store.free_bytes().ok(),
            archival_free_bytes: self.flows.store.free_bytes_for(Traffic::Archival).ok(),
            running_stages: self.engine.running_stages() as u32,
            throttle: Some(proto::Throttle { egress_bytes_per_s, ingress_bytes_per_s }),
            budgets: Some(self.engine.throttle().budgets().into()),
            tasks: self.tasks.statuses(),
            corrupt_blocks: self.flows.suspects.corrupt().into_iter().map(named).collect(),
            unread_blocks: unread.copies.into_iter().map(named).collect(),
            unread_folders: unread.folders,
            unread_why: unread.why,
            store: self.flows.store.identity().store.to_vec(),
            incarnation: self.flows.store.incarnation().0,
            half_blocks: usage.half_blocks,
            takes_no_writes: self.flows.store.refusal().unwrap_or_default(),
            scrub_rounds: self.flows.scrub_rounds.load(Ordering::Relaxed),
            cached_blocks: self.flows.cache.whole().into_iter().map(BlockId::to_vec).collect(),
            heard: Some(self.flows.store.heard().into()),
            held: self.flows.store.held().map(held),
            coordinator: self.coordinator.to_string(),
            answered_ms_ago: self.answered.ago().map(|ago| ago.as_millis() as u64),
        }
    }
}

/// What is held of the catalog, as a message.
pub fn held(held: Held) -> proto::HeldRecords {
    let Held { last, snapshot_bytes, record_bytes, .. } = held;
    proto::HeldRecords { last: Some(last.into()), snapshot_bytes, record_bytes }
}
