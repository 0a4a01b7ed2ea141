//! Which node stands where in the pipeline that makes a stripe's blocks of replicas (RapidRAID §IV, §V).
//!
//! ```text
//!   rapidraid-4+2     position 0   1     2     3     4     5
//!   needs                     d0   d1   d2,d0 d3,d1  d2    d3       a block that its node does not hold is fetched
//!   stores                    c0   c1    c2    c3    c4    c5       a node of its own for each, on a host of its own
//! ```
//!
//! What is fetched comes on top of the sums that pass from position to position, so as little as possible is. That is a flow of
//! least cost, in which a unit is a position:
//!
//! ```text
//!   position ──blocks it lacks there──▶ host that holds some of them ──▶ rack ──limit──▶ sink
//!        └────all blocks it needs─────▶ any other host ─────────────────▶┘
//! ```
//!
//! Hosts that hold nothing are one vertex: as many of them as a rack lets in have a place there, since its limit is no more than
//! its hosts.

use crate::draw::Draw;
use crate::error::PlanError;
use crate::flow_graph::{EdgeId, FlowGraph, Vertex};
use crate::topology::{RackId, Topology};
use codes::Code;
use codes::rapidraid::Chain;
use model::NodeId;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

/// A stripe whose replicas become a codeword by a pipeline.
#[derive(Clone, Debug)]
pub struct PipelineRequest<'a> {
    /// The code, of which the data blocks are virtual.
    pub code: &'a Code,
    /// Racks and hosts.
    pub topology: &'a Topology,
    /// Nodes that may be used.
    pub alive: &'a [NodeId],
    /// Those of them that have no room for a block. Each position writes one, so they stand nowhere; what they hold can be fetched.
    pub full: &'a BTreeSet<NodeId>,
    /// Nodes that hold a replica, for each data block that the stripe has (a short stripe has fewer than k).
    pub replicas: &'a [Vec<NodeId>],
    /// Blocks of the stripe in a rack at most. Where racks are too few or too small, as few more as will do.
    pub rack_capacity: usize,
}

/// The node of each position 0 … n−1, n the blocks that are stored, all of distinct hosts: a layout of which as few blocks as
/// possible are [`fetched`], a random one if several are as good. A host is taken to stand in one rack.
///
/// # Errors
/// [`PlanError::NoPipeline`] for a code that stores the data; [`PlanError::UnknownNode`] for a node that is alive and has no rack;
/// [`PlanError::NoReplica`] for a data block that no node which is alive holds; [`PlanError::NotEnoughNodes`], which counts
/// hosts with room.
pub fn pipeline(request: &PipelineRequest<'_>, draw: &mut Draw) -> Result<Vec<NodeId>, PlanError> {
    let PipelineRequest { code, topology, replicas, .. } = *request;
    require_virtual(code)?;
    let alive: BTreeSet<NodeId> = request.alive.iter().copied().collect();
    if let Some(block) = replicas.iter().position(|nodes| !nodes.iter().any(|node| alive.contains(node))) {
        return Err(PlanError::NoReplica { block });
    }
    let mut nodes: Vec<NodeId> = alive.into_iter().collect();
    draw.shuffle(&mut nodes);
    let mut sites: Vec<Site> = Vec::new();
    let mut site_of_host = BTreeMap::new();
    for node in nodes {
        let rack = topology.rack_of(node)?;
        if request.full.contains(&node) {
            continue;
        }
        match site_of_host.entry(topology.host_of(node)) {
            Entry::Vacant(entry) => {
                entry.insert(sites.len());
                sites.push(Site { rack, nodes: vec![node] });
            }
            Entry::Occupied(entry) => {
                let site: &mut Site = &mut sites[*entry.get()];
                site.nodes.extend((site.rack == rack).then_some(node));
            }
        }
    }
    lay_out(code, replicas, &sites, request.rack_capacity, draw)
}

/// Transfers that a layout costs besides the chain itself: blocks that a position needs and its node does not hold.
pub fn fetched(code: &Code, replicas: &[Vec<NodeId>], nodes: &[NodeId]) -> usize {
    lacks(code, replicas, nodes).count()
}

/// What is fetched: positions, each with a block that it needs and its node does not hold.
pub(crate) fn lacks<'a>(
    code: &'a Code,
    replicas: &'a [Vec<NodeId>],
    nodes: &'a [NodeId],
) -> impl Iterator<Item = (usize, usize)> + 'a {
    nodes.iter().enumerate().flat_map(move |(position, node)| {
        let needed = needed(code, replicas.len(), position);
        needed.filter(move |&block| !replicas[block].contains(node)).map(move |block| (position, block))
    })
}

/// An error for a code that stores the data.
fn require_virtual(code: &Code) -> Result<(), PlanError> {
    match code.virtuals() {
        0 => Err(PlanError::NoPipeline { code: code.name().to_owned() }),
        _ => Ok(()),
    }
}

/// An error for a code that no pipeline makes.
pub(crate) fn require_pipeline(code: &Code) -> Result<(), PlanError> {
    match code.pipeline() {
        None => Err(PlanError::NoPipeline { code: code.name().to_owned() }),
        Some(_) => Ok(()),
    }
}

/// How far along the pipeline the second replica of a block lies behind the first (m).
pub(crate) fn lag(code: &Code) -> usize {
    code.stored() - code.k()
}

/// The data blocks that a position needs, of a stripe that has so many. Of a code that no pipeline makes it needs none.
fn needed(code: &Code, blocks: usize, position: usize) -> impl Iterator<Item = usize> {
    let chain = code.pipeline().map(|chain| Chain::blocks_of(chain.k(), lag(code), position));
    chain.into_iter().flatten().filter(move |&block| block < blocks)
}

/// A host where a position may stand.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    /// Its rack.
    pub rack: RackId,
    /// Its nodes that have room, at least one; one that holds nothing of use is as good as another, and the first is taken.
    pub nodes: Vec<NodeId>,
}

/// A node for each position as [`pipeline`] gives them. Of layouts that are as good the order of `sites` decides, and `draw`.
///
/// # Errors
/// [`PlanError::NotEnoughNodes`].
pub(crate) fn lay_out(
    code: &Code,
    replicas: &[Vec<NodeId>],
    sites: &[Site],
    rack_capacity: usize,
    draw: &mut Draw,
) -> Result<Vec<NodeId>, PlanError> {
    let needed = code.stored();
    let too_few = || PlanError::NotEnoughNodes { code: code.name().to_owned(), needed, alive: sites.len() };
    let limit = limit(sites, needed, rack_capacity).ok_or_else(too_few)?;
    let mut layout = Layout::new(sites, limit, draw);
    let holders = Holders::of(replicas, sites);
    let mut positions: Vec<usize> = (0..needed).collect();
    draw.shuffle(&mut positions);
    let is_laid_out = positions.iter().all(|&position| layout.add(&holders, code, replicas.len(), position));
    if is_laid_out { layout.nodes(sites, needed).ok_or_else(too_few) } else { Err(too_few()) }
}

/// The smallest limit, no smaller than `capacity`, by which so many blocks fit into the racks; `None` if no limit lets them.
pub(crate) fn limit(sites: &[Site], blocks: usize, capacity: usize) -> Option<usize> {
    let hosts = hosts_by_rack(sites);
    let room = |limit: usize| hosts.values().map(|&hosts| hosts.min(limit)).sum::<usize>();
    (capacity..=blocks.max(capacity)).find(|&limit| room(limit) >= blocks)
}

fn hosts_by_rack(sites: &[Site]) -> BTreeMap<RackId, usize> {
    let mut hosts = BTreeMap::new();
    sites.iter().for_each(|site| *hosts.entry(site.rack).or_default() += 1);
    hosts
}

/// Who holds what, of the sites.
struct Holders<'a> {
    sites: &'a [Site],
    /// For each data block the sites that hold a replica, rising.
    of_block: Vec<BTreeSet<usize>>,
    replicas: &'a [Vec<NodeId>],
}

impl<'a> Holders<'a> {
    fn of(replicas: &'a [Vec<NodeId>], sites: &'a [Site]) -> Holders<'a> {
        let hold: BTreeSet<NodeId> = replicas.iter().flatten().copied().collect();
        let mut site_of = BTreeMap::new();
        for (index, site) in sites.iter().enumerate() {
            site_of.extend(site.nodes.iter().filter(|node| hold.contains(node)).map(|&node| (node, index)));
        }
        let of = |nodes: &Vec<NodeId>| nodes.iter().filter_map(|node| site_of.get(node).copied()).collect();
        Holders { sites, of_block: replicas.iter().map(of).collect(), replicas }
    }

    /// The sites that hold one of these blocks at least, each with its node that lacks the fewest, and how many that lacks.
    fn sites_with(&self, blocks: &[usize]) -> Vec<(usize, NodeId, usize)> {
        let some: BTreeSet<usize> = blocks.iter().flat_map(|&block| &self.of_block[block]).copied().collect();
        let lacks =
            |node: &NodeId| blocks.iter().filter(|&&block| !self.replicas[block].contains(node)).count();
        let best = |site: usize| {
            let node = self.sites[site].nodes.iter().min_by_key(|node| lacks(node))?;
            Some((site, *node, lacks(node)))
        };
        some.into_iter().filter_map(best).collect()
    }
}

/// A position that is laid out.
struct Laid {
    position: usize,
    /// Ways to nodes that hold something of use.
    ways: Vec<(NodeId, EdgeId)>,
}

/// The flow, as far as positions are in it.
struct Layout {
    graph: FlowGraph,
    sink: Vertex,
    racks: BTreeMap<RackId, Vertex>,
    /// All hosts that hold nothing of use to whoever goes there.
    any: Vertex,
    /// Ways from there, each for one position: as many to a rack as it lets in, in a random order.
    slots: Vec<(RackId, EdgeId)>,
    /// Hosts that hold something.
    hosts: BTreeMap<usize, Vertex>,
    laid: Vec<Laid>,
}

impl Layout {
    fn new(sites: &[Site], limit: usize, draw: &mut Draw) -> Layout {
        let mut graph = FlowGraph::default();
        let (sink, any) = (graph.vertex(), graph.vertex());
        let hosts = hosts_by_rack(sites);
        let mut slots: Vec<RackId> =
            hosts.iter().flat_map(|(&rack, &hosts)| std::iter::repeat_n(rack, hosts.min(limit))).collect();
        draw.shuffle(&mut slots);
        let mut racks = BTreeMap::new();
        for (&rack, &hosts) in &hosts {
            let vertex = graph.vertex();
            graph.edge(vertex, sink, hosts.min(limit));
            racks.insert(rack, vertex);
        }
        let slots = slots.into_iter().map(|rack| (rack, graph.edge(any, racks[&rack], 1))).collect();
        Layout { graph, sink, racks, any, slots, hosts: BTreeMap::new(), laid: Vec::new() }
    }

    /// Lets a position in; false if no host is left.
    fn add(&mut self, holders: &Holders<'_>, code: &Code, blocks: usize, position: usize) -> bool {
        let needed: Vec<usize> = needed(code, blocks, position).collect();
        let vertex = self.graph.vertex();
        let mut ways = Vec::new();
        for (site, node, lacks) in holders.sites_with(&needed) {
            let host = self.host(site, holders.sites[site].rack);
            ways.push((node, self.graph.priced_edge(vertex, host, 1, lacks as u16)));
        }
        self.graph.priced_edge(vertex, self.any, 1, needed.len() as u16);
        self.laid.push(Laid { position, ways });
        self.graph.augment_cheapest(vertex, self.sink)
    }

    /// The vertex of a host.
    fn host(&mut self, site: usize, rack: RackId) -> Vertex {
        let (graph, racks) = (&mut self.graph, &self.racks);
        *self.hosts.entry(site).or_insert_with(|| {
            let vertex = graph.vertex();
            graph.edge(vertex, racks[&rack], 1);
            vertex
        })
    }

    /// The node of each position; `None` if one has none.
    fn nodes(&self, sites: &[Site], positions: usize) -> Option<Vec<NodeId>> {
        let flows = |edge: &EdgeId| self.graph.flow(*edge) > 0;
        let mut nodes: Vec<Option<NodeId>> = vec![None; positions];
        for Laid { position, ways } in &self.laid {
            nodes[*position] = ways.iter().find(|(_, way)| flows(way)).map(|&(node, _)| node);
        }
        let taken: BTreeSet<NodeId> = nodes.iter().flatten().copied().collect();
        let mut used = self.slots.iter().filter(|(_, slot)| flows(slot)).map(|&(rack, _)| rack);
        let mut vacant: BTreeMap<RackId, Vec<NodeId>> = used.clone().map(|rack| (rack, Vec::new())).collect();
        for site in sites.iter().rev() {
            if let Some(nodes) = vacant.get_mut(&site.rack)
                && !site.nodes.iter().any(|node| taken.contains(node))
            {
                nodes.extend(site.nodes.first());
            }
        }
        for node in nodes.iter_mut().filter(|node| node.is_none()) {
            *node = Some(vacant.get_mut(&used.next()?)?.pop()?);
        }
        nodes.into_iter().collect()
    }
}
