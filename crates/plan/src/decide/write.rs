//! Plans of puts: a block goes from the client along a chain of replicas, or, coded as it is written, to one node.

use super::encode::chosen;
use super::{CLIENT, DecideError, Draft, Planned, Planner, Result, Tokens, World, plain, site};
use crate::draw::Draw;
use crate::placement::random::random;
use crate::topology::Host;
use codes::Code;
use flow::Member;
use flow::bound::{BlockWrite, FlowHeader};
use model::note::{self, MemberFacts, StripeFacts};
use model::{BlockId, FlowId, MemberState, NodeId, Part, Placement, Stamp, StripeId, Sums};
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
    /// The part of an object that it is; `None` for a parity.
    pub part: Option<Part>,
    /// The note of the stripe that it is made for, if it is one's.
    pub note: Vec<u8>,
    /// Who gets a copy, in the order of the chain.
    pub nodes: Vec<NodeId>,
    /// The change of the catalog that noted the copies.
    pub birth: Stamp,
}

/// Parities that a client has made of a stripe's data blocks, which are durable.
#[derive(Clone, Copy, Debug)]
pub struct ParitiesRequest<'a> {
    /// The code.
    pub code: &'a Code,
    /// The stripe.
    pub stripe: StripeId,
    /// Its data blocks in their order, of a short stripe fewer than k.
    pub data: &'a [Placement],
    /// The parities that are not all zero.
    pub parities: &'a [NewParity],
    /// The change of the catalog that noted them.
    pub birth: Stamp,
}

/// A parity to write.
#[derive(Clone, Copy, Debug)]
pub struct NewParity {
    /// Of this flow.
    pub flow: FlowId,
    /// Which member of the stripe.
    pub member: u16,
    /// Its id.
    pub block: BlockId,
    /// Its generation.
    pub generation: u64,
    /// Who gets it.
    pub node: NodeId,
    /// Its length.
    pub stored_bytes: u64,
    /// What must come out.
    pub sums: Sums,
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

/// Nodes for `more` blocks of a stripe, which has blocks on the nodes `placed` already: on other hosts, in the racks with the
/// fewest blocks of it, as archival chooses them.
///
/// # Errors
/// [`DecideError::NoRoom`]; [`DecideError::Plan`] if too few nodes live.
pub fn stripe_nodes(
    world: &World,
    code: &Code,
    (placed, more): (&[NodeId], usize),
    bytes: u64,
    avoid: &BTreeSet<NodeId>,
    draw: &mut Draw,
) -> Result<Vec<NodeId>> {
    let usable: BTreeSet<NodeId> = world.usable(avoid).into_iter().collect();
    let (there, gone): (Vec<NodeId>, Vec<NodeId>) = placed.iter().partition(|node| usable.contains(node));
    // What a node has that does not live now it may have again: its host is taken.
    let taken: BTreeSet<Host> = gone.iter().map(|&node| world.topology.host_of(node)).collect();
    let alive: Vec<NodeId> =
        usable.into_iter().filter(|&node| !taken.contains(&world.topology.host_of(node))).collect();
    let replicas: Vec<Vec<NodeId>> = there.into_iter().map(|node| vec![node]).collect();
    // However many a rack has of them, what is written stays where it is, and so its hosts are taken.
    Ok(chosen(world, (code, &alive), (&replicas, code.n()), (more, bytes), draw)?.parities)
}

impl Planner {
    /// A flow for each parity: client → node. Their sidecars tell the whole stripe, as those of an archival do.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn write_parities(
        &self,
        world: &World,
        request: &ParitiesRequest<'_>,
        tokens: Tokens<'_>,
    ) -> Result<Vec<Planned>> {
        let ParitiesRequest { code, stripe, data, parities, birth } = *request;
        let member = |index: usize| {
            let parity = parities.iter().find(|parity| usize::from(parity.member) == index);
            match (data.get(index), parity) {
                (Some(placement), _) => MemberState::Stored(placement.facts.as_member(placement.block)),
                (None, Some(&NewParity { block, generation, stored_bytes, sums, .. })) => {
                    MemberState::Stored(MemberFacts { block, generation, stored_bytes, sums, part: None })
                }
                (None, None) => MemberState::Zero,
            }
        };
        let members: Vec<MemberState<MemberFacts<'_>>> = (0..code.n()).map(member).collect();
        let block_bytes = data.iter().map(|placement| placement.facts.stored_bytes).max().unwrap_or(0);
        let facts = StripeFacts { stripe, code: code.name(), block_bytes };
        let plan = |parity: &NewParity| {
            let NewParity { flow, member, block, generation, node, stored_bytes, sums } = *parity;
            let note = note::encode(facts, member, members.iter().copied());
            let (part, nodes) = (None, vec![node]);
            let write =
                WriteRequest { flow, block, generation, stored_bytes, sums, part, note, nodes, birth };
            self.write(world, &write, tokens)
        };
        parities.iter().map(plan).collect()
    }

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
            part: request.part.clone(),
            note: request.note.clone(),
            birth: request.birth,
        };
        let writes: BTreeMap<_, _> = replicas.iter().map(|&(member, _)| (member, write(member))).collect();
        let header = FlowHeader::new(request.flow, code.field(), geometry);
        Draft { world, flow, header, sources: &[], writes, scheme: "chain-write", slices: None }
            .finish(tokens)
    }
}
