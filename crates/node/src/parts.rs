//! What a node is made of, and what it says of itself in heartbeats and when it is asked.

use crate::flows::{FlowStore, named};
use exec::Engine;
use model::{BlockId, NodeId};
use std::sync::Arc;
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
}

impl Parts {
    /// How it is now.
    pub fn status(&self) -> proto::NodeStatus {
        let usage = self.flows.store.usage();
        let (egress_bytes_per_s, ingress_bytes_per_s) = self.engine.throttle().rates();
        proto::NodeStatus {
            node: self.node.0,
            blocks: usage.blocks,
            stored_bytes: usage.stored_bytes,
            free_bytes: self.flows.store.free_bytes().unwrap_or(0),
            running_stages: self.engine.running_stages() as u32,
            throttle: Some(proto::Throttle { egress_bytes_per_s, ingress_bytes_per_s }),
            tasks: self.tasks.statuses(),
            corrupt_blocks: self.flows.suspects.corrupt().into_iter().map(named).collect(),
            store: self.flows.store.identity().store.to_vec(),
            incarnation: self.flows.store.incarnation().0,
            half_blocks: usage.half_blocks,
            cached_blocks: self.flows.cache.whole().into_iter().map(BlockId::to_vec).collect(),
        }
    }
}
