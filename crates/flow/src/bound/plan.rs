//! The whole of a bound flow, as the coordinator makes it and its driver has it.

use super::{EdgeEnd, Ends, FlowHeader, NodeStages, frame_slices, invalid, lane_rate, narrow};
use crate::extent::edge_extents;
use crate::graph::{Edge, Flow, Input, Member, Output, Site, Stage, StageId};
use crate::prove::Proved;
use crate::validate;
use core::ops::{Deref, Range};
use core::time::Duration;
use gf::Fingerprint;
use model::hdfs::Permit;
use model::{BlockId, Cause, Fault, Part, Peer, Stamp, StoredCopy, Sums, Token};
use std::collections::{BTreeMap, BTreeSet};

/// What binds a flow to the world. Every member that a [`Local`](Input::Local) input names needs a block, every
/// [`Write`](Output::Write) a [`BlockWrite`].
#[derive(Clone, PartialEq, Debug)]
pub struct Binding {
    /// Header of the plan.
    pub header: FlowHeader,
    /// Who stands at the sites.
    pub participants: Vec<Participant>,
    /// What `Local` inputs read.
    pub blocks: BTreeMap<Member, BlockRead>,
    /// What `Write` outputs write.
    pub writes: BTreeMap<Member, BlockWrite>,
    /// The scheme's name, for people.
    pub scheme: String,
    /// The wanted slices of each symbol.
    pub slices: Range<u64>,
}

/// Who stands at a site, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Participant {
    /// The site.
    pub site: Site,
    /// Who.
    pub peer: Peer,
    /// Host and port of control calls; empty for a client.
    pub control_addr: String,
    /// Host and port of slices; empty for a client, to whom nobody can connect.
    pub data_addr: String,
    /// For prices between racks.
    pub rack: u32,
}

/// A block that a stage reads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlockRead {
    /// The copy.
    pub copy: StoredCopy,
    /// BLAKE3 of the block, where it is known: the sidecar must say the same, or the copy is not what it passes for.
    pub digest: Option<[u8; 32]>,
    /// The block's fingerprint, if it is known. It identifies the sound chunks of a damaged copy.
    pub fingerprint: Option<Fingerprint>,
    /// Of a block of HDFS, where block tokens are used: what the helper beside its DataNode is shown.
    pub permit: Option<Permit>,
}

impl From<StoredCopy> for BlockRead {
    fn from(copy: StoredCopy) -> BlockRead {
        BlockRead { copy, digest: None, fingerprint: None, permit: None }
    }
}

/// A block that a stage writes, with everything that its sidecar records.
#[derive(Clone, PartialEq, Debug)]
pub struct BlockWrite {
    /// Which block of the stripe.
    pub member: Member,
    /// Its id.
    pub block: BlockId,
    /// The generation of the new copy.
    pub generation: u64,
    /// Its length.
    pub stored_bytes: u64,
    /// What must come out, where that is known beforehand.
    pub sums: Sums,
    /// The part of an object that it is.
    pub part: Option<Part>,
    /// The note of its stripe ([`model::note`]); empty for a block of none.
    pub note: Vec<u8>,
    /// The change of the catalog that noted the copy.
    pub birth: Stamp,
}

/// An edge, bound.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BoundEdge {
    /// The secret of its two ends.
    pub token: Token,
    /// Of each row, the bytes of the symbol that can be other than zero.
    pub extents: Vec<u64>,
}

/// A whole bound flow. Whoever plans has it with the proof; a driver, to whom it comes in a message, without.
#[derive(Clone, PartialEq, Debug)]
pub struct FlowPlan<F = Proved> {
    /// The graph.
    pub flow: F,
    /// What binds it.
    pub binding: Binding,
    /// Its edges, by lane.
    pub edges: Vec<Vec<BoundEdge>>,
    /// Payload bytes that links will carry, by sender and receiver; known only to whoever planned.
    pub predicted: Vec<((Site, Site), u64)>,
    /// How long all slices should take, as flows like it took, if that is known. A driver that falls far behind asks who
    /// holds the flow up, and ends it with a fault that says so.
    pub expected: Option<Duration>,
    /// Of several lanes: bytes of each symbol that links, as they are known, carry a second of all lanes together; 0:
    /// nobody knows. Each lane begins with its share of that.
    pub symbol_bytes_per_s: u64,
}

impl Binding {
    /// Stored length of a member that is read, brought by the client, or written.
    fn stored_bytes(&self, member: Member) -> u64 {
        let read = self.blocks.get(&member).map(|b| b.copy.stored_bytes);
        read.or_else(|| self.writes.get(&member).map(|w| w.stored_bytes)).unwrap_or(0)
    }

    /// A member of which a stage reads or writes a block that is not named.
    fn unnamed(&self, stage: &Stage) -> Option<Member> {
        let read = |input: &Input| match input {
            Input::Local { member, .. } => Some(*member).filter(|member| !self.blocks.contains_key(member)),
            _ => None,
        };
        let written = |output: &Output| match output {
            Output::Write { member } => Some(*member).filter(|member| !self.writes.contains_key(member)),
            _ => None,
        };
        stage.inputs.iter().find_map(read).or_else(|| stage.outputs.iter().find_map(written))
    }
}

/// Binds a flow. Each edge gets a token, which the caller draws.
///
/// # Errors
/// A fault that names the member for which no block is named.
pub fn bind(flow: Proved, mut binding: Binding, mut token: impl FnMut() -> Token) -> Result<FlowPlan, Fault> {
    if let Some(member) = flow.stages().find_map(|(_, stage)| binding.unnamed(stage)) {
        return Err(Fault::new(Cause::Bug, format!("the plan names no block for member {}", member.0)));
    }
    let stored = |member| binding.stored_bytes(member);
    let mut bound = |extents| BoundEdge { token: token(), extents };
    let lanes = flow.lanes.iter().map(|lane| edge_extents(flow.geometry, lane, stored));
    let edges: Vec<Vec<BoundEdge>> =
        lanes.map(|extents| extents.into_iter().map(&mut bound).collect()).collect();
    binding.header.frame_slices = frame_slices::of(&flow, &binding.header, &edges, stored);
    Ok(FlowPlan { flow, binding, edges, predicted: Vec::new(), expected: None, symbol_bytes_per_s: 0 })
}

impl<F: Deref<Target = Flow>> FlowPlan<F> {
    /// What is written, by the sites that write it.
    pub fn writes(&self) -> impl Iterator<Item = (Site, &BlockWrite)> {
        self.flow.stages().flat_map(|(_, stage)| {
            let write = |output: &Output| match output {
                Output::Write { member } => Some((stage.site, self.binding.writes.get(member)?)),
                _ => None,
            };
            stage.outputs.iter().filter_map(write)
        })
    }
}

impl FlowPlan<Flow> {
    /// Checks a plan that arrived, as far as its driver relies on it. What a stage is made of is checked by the node that
    /// runs it.
    ///
    /// # Errors
    /// A fault that says what is wrong.
    pub fn arrived(self) -> Result<FlowPlan<Flow>, Fault> {
        let (flow, binding) = (&self.flow, &self.binding);
        let lanes = flow.lanes.len();
        if lanes > validate::MAX_LANES || flow.shares.contains(&0) {
            return Err(invalid("more lanes than a flow may have, or one without a share"));
        }
        if flow.shares.len() != lanes {
            return Err(invalid("there is not a share for each lane"));
        }
        if binding.slices.start > binding.slices.end || binding.slices.end > flow.geometry.slices() {
            return Err(invalid("slices beyond the block's"));
        }
        let sites: BTreeSet<Site> = binding.participants.iter().map(|p| p.site).collect();
        if sites.len() != binding.participants.len() {
            return Err(invalid("two participants at one site"));
        }
        if flow.stages().any(|(_, stage)| !sites.contains(&stage.site)) {
            return Err(invalid("a stage stands at no participant"));
        }
        for lane in &flow.lanes {
            let there = |stage: StageId| usize::from(stage.0) < lane.stages.len();
            if lane.edges.iter().any(|edge| !there(edge.from) || !there(edge.to)) {
                return Err(invalid("an edge ends at no stage"));
            }
        }
        Ok(self)
    }

    /// Who stands at a site: the client, if nobody does.
    pub fn peer(&self, site: Site) -> Peer {
        let standing = self.binding.participants.iter().find(|p| p.site == site);
        standing.map_or(Peer::Client, |participant| participant.peer)
    }

    /// The block that whoever stands there brings to the flow, if any.
    pub fn brought_by(&self, peer: Peer) -> Option<BlockId> {
        let own = self.flow.stages().filter(|(_, stage)| self.peer(stage.site) == peer);
        let mut inputs = own.flat_map(|(_, stage)| &stage.inputs);
        inputs.find_map(|input| match input {
            Input::Local { member, .. } => self.binding.blocks.get(member).map(|read| read.copy.block),
            _ => None,
        })
    }

    /// The sites at the ends of an edge.
    pub fn sites_of(&self, lane: u32, edge: &Edge) -> Option<(Site, Site)> {
        let lane = self.flow.lanes.get(lane as usize)?;
        let site = |stage: StageId| lane.stages.get(usize::from(stage.0)).map(|stage| stage.site);
        Some((site(edge.from)?, site(edge.to)?))
    }

    /// Every edge, with its lane and its index there.
    pub fn all_edges(&self) -> impl Iterator<Item = (u32, u32, &Edge)> {
        let edges = |(lane, edges)| (0..).zip(edges).map(move |(index, edge)| (lane, index, edge));
        (0..).zip(self.flow.lanes.iter().map(|lane| &lane.edges)).flat_map(edges)
    }

    /// Who runs stages, and the ends of edges where they stand.
    ///
    /// # Errors
    /// An address that is none.
    pub fn standing(&self) -> Result<impl Iterator<Item = (&Participant, Ends)>, Fault> {
        let mut ends = self.ends()?;
        let sites = self.flow.sites();
        let running = self.binding.participants.iter().filter(move |p| sites.binary_search(&p.site).is_ok());
        Ok(running.map(move |participant| (participant, ends.remove(&participant.site).unwrap_or_default())))
    }

    /// The ends of all edges, by the sites at which they are.
    fn ends(&self) -> Result<BTreeMap<Site, Ends>, Fault> {
        let standing: BTreeMap<Site, &Participant> =
            self.binding.participants.iter().map(|p| (p.site, p)).collect();
        let mut ends: BTreeMap<Site, Ends> = BTreeMap::new();
        for ((lane, index, edge), bound) in self.all_edges().zip(self.edges.iter().flatten()) {
            let sites = self.sites_of(lane, edge);
            let both = sites.and_then(|(from, to)| Some((*standing.get(&from)?, *standing.get(&to)?)));
            let Some((from, to)) = both else { continue };
            // The sender connects, unless it is a node and the receiver a client, which nobody can connect to.
            let receiver_dials = to.data_addr.is_empty();
            for (here, other, sends) in [(from, to, true), (to, from, false)] {
                let invalid_addr = |_| invalid("data address of a neighbour");
                let dials = sends != receiver_dials;
                let end = EdgeEnd {
                    lane: narrow(lane)?,
                    edge: narrow(index)?,
                    rows: edge.rows,
                    extents: bound.extents.clone(),
                    token: bound.token,
                    dial: dials.then(|| other.data_addr.parse()).transpose().map_err(invalid_addr)?,
                    peer: other.peer,
                    bytes_per_s: if sends { lane_rate::of_edge(self, lane, edge) } else { 0 },
                };
                ends.entry(here.site).or_default().insert((lane, index, sends), end);
            }
        }
        Ok(ends)
    }

    /// What the site runs whose `ends` of edges these are.
    ///
    /// # Errors
    /// A fault that says what is wrong with it.
    pub fn part(&self, site: Site, ends: Ends) -> Result<NodeStages, Fault> {
        let stages = self.flow.stages().filter(|(_, stage)| stage.site == site);
        let stages = stages.map(|(key, stage)| (key, stage.clone())).collect();
        let Binding { header, blocks, writes, .. } = &self.binding;
        NodeStages::new(header.clone(), stages, ends, blocks, writes)
    }
}
