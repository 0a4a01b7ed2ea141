//! Placeholder.

use crate::draw::Draw;
use crate::error::PlanError;
use crate::topology::Topology;
use codes::Code;
use model::NodeId;
use std::collections::BTreeSet;

/// A stripe whose replicas become a codeword by a pipeline.
#[derive(Clone, Debug)]
pub struct PipelineRequest<'a> {
    /// The code.
    pub code: &'a Code,
    /// Racks.
    pub topology: &'a Topology,
    /// Nodes that may be used.
    pub alive: &'a [NodeId],
    /// Those without room.
    pub full: &'a BTreeSet<NodeId>,
    /// Replicas.
    pub replicas: &'a [Vec<NodeId>],
    /// In a rack.
    pub rack_capacity: usize,
}

/// The node of each position.
pub fn pipeline(request: &PipelineRequest<'_>, draw: &mut Draw) -> Result<Vec<NodeId>, PlanError> {
    let mut nodes: Vec<NodeId> =
        request.alive.iter().copied().filter(|n| !request.full.contains(n)).collect();
    let needed = request.code.stored();
    draw.shuffle(&mut nodes);
    if let Some(block) = request.replicas.iter().position(|r| r.iter().all(|n| !request.alive.contains(n))) {
        return Err(PlanError::NoReplica { block });
    }
    let mut hosts = BTreeSet::new();
    nodes.retain(|node| hosts.insert(request.topology.host_of(*node)));
    if nodes.len() < needed {
        return Err(PlanError::NotEnoughNodes {
            code: request.code.name().to_owned(),
            needed,
            alive: nodes.len(),
        });
    }
    nodes.truncate(needed);
    Ok(nodes)
}
