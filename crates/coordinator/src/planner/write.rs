//! Plans of puts: a block goes from the client along a chain of replicas.

use super::{CLIENT, Draft, Planned, Planner, plain, site};
use crate::error::{CoordinatorError, Result};
use crate::health::View;
use flow::Member;
use flow::bound::{BlockWrite, FlowHeader};
use model::{BlockId, FlowId, NodeId, Part, Sums};
use plan::placement::random::random;
use std::collections::{BTreeMap, BTreeSet};

/// A block to write.
#[derive(Clone, Debug)]
pub(crate) struct WriteRequest {
    pub block: BlockId,
    pub generation: u64,
    pub stored_bytes: u64,
    pub sums: Sums,
    pub part: Part,
    pub nodes: Vec<NodeId>,
}

impl Planner {
    /// Nodes for the replicas of a new block: as many as asked for, or all that can be used if they are fewer, but no
    /// fewer than `at_least`.
    pub fn replica_nodes(
        &self,
        view: &View,
        replicas: usize,
        at_least: usize,
        avoid: &BTreeSet<NodeId>,
    ) -> Result<Vec<NodeId>> {
        let usable = view.usable(avoid);
        if usable.len() < at_least.max(1) {
            return Err(CoordinatorError::NotEnoughNodes { alive: usable.len(), needed: at_least.max(1) });
        }
        Ok(random(&view.topology, &usable, replicas.min(usable.len()), &mut self.draw())?)
    }

    /// The chain client → replicas, a `rep-r` code. The client drives it.
    pub fn write(&self, view: &View, request: &WriteRequest) -> Result<Planned> {
        let code = self.codes.get(&format!("rep-{}", request.nodes.len()))?;
        let geometry = plain(request.stored_bytes, self.default_slice_bytes);
        let replicas: Vec<_> =
            request.nodes.iter().enumerate().map(|(i, &node)| (Member(i as u16), site(node))).collect();
        let flow = flow::write::chain(&code, geometry, CLIENT, &replicas)?;
        let write = |member: Member| BlockWrite {
            member,
            block: request.block,
            generation: request.generation,
            stored_bytes: request.stored_bytes,
            sums: request.sums,
            part: Some(request.part.clone()),
            note: Vec::new(),
        };
        let writes: BTreeMap<_, _> = replicas.iter().map(|&(member, _)| (member, write(member))).collect();
        let header = FlowHeader::new(FlowId(rand::random()), code.field(), geometry);
        Draft { view, flow, header, sources: &[], writes, scheme: "chain-write", slices: None }.finish()
    }
}
