//! Plans of puts: a block goes from the client along a chain of replicas.

use super::{CLIENT, DecideError, Draft, Planned, Planner, Result, Tokens, World, plain, site};
use crate::draw::Draw;
use crate::placement::random::random;
use flow::Member;
use flow::bound::{BlockWrite, FlowHeader};
use model::{BlockId, FlowId, NodeId, Part, Stamp, Sums};
use std::collections::{BTreeMap, BTreeSet};

/// A block to write.
#[derive(Clone, Debug)]
pub struct WriteRequest {
    /// The flow's id.
    pub flow: FlowId,
    /// The block's.
    pub block: BlockId,
    /// Generation of its copies.
    pub generation: u64,
    /// Its length.
    pub stored_bytes: u64,
    /// What must come out.
    pub sums: Sums,
    /// The part of an object that it is.
    pub part: Part,
    /// Who gets a copy, in the order of the chain.
    pub nodes: Vec<NodeId>,
    /// The change of the catalog that noted the copies.
    pub birth: Stamp,
}

/// Nodes for the replicas of a new block: as many as asked for, or all that can be used and have room if they are fewer, but
/// no fewer than `at_least`.
///
/// # Errors
/// [`DecideError::NotEnoughNodes`], [`DecideError::NoRoom`].
pub fn replica_nodes(
    world: &World,
    (replicas, at_least): (usize, usize),
    stored_bytes: u64,
    avoid: &BTreeSet<NodeId>,
    draw: &mut Draw,
) -> Result<Vec<NodeId>> {
    let needed = at_least.max(1);
    let usable = world.roomy(avoid, stored_bytes, needed)?;
    let hosts = world.topology.hosts(usable.iter().copied()).len();
    if hosts < needed {
        return Err(DecideError::NotEnoughNodes { alive: hosts, needed });
    }
    Ok(random(&world.topology, &usable, replicas.min(hosts), draw)?)
}

impl Planner {
    /// The chain client → replicas, a `rep-r` code. The client drives it.
    ///
    /// # Errors
    /// [`DecideError::NoSuchNode`]; [`DecideError::Code`] for too many replicas.
    pub fn write(&self, world: &World, request: &WriteRequest, tokens: Tokens<'_>) -> Result<Planned> {
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
            birth: request.birth,
        };
        let writes: BTreeMap<_, _> = replicas.iter().map(|&(member, _)| (member, write(member))).collect();
        let header = FlowHeader::new(request.flow, code.field(), geometry);
        Draft { world, flow, header, sources: &[], writes, scheme: "chain-write", slices: None }
            .finish(tokens)
    }
}
