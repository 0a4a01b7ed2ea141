//! Archival of a stripe of replicated blocks: which replica of each data block stays, where the parities go,
//! who encodes (EAR §2).

use std::collections::{BTreeMap, BTreeSet};

use crate::assign::assign;
use crate::draw::Draw;
use crate::error::PlanError;
use crate::placement::{Sealed, SealedBlock};
use crate::topology::{RackId, Topology};
use model::NodeId;

/// A stripe to archive.
#[derive(Clone, Debug)]
pub struct ArchiveRequest<'a> {
    /// Name of the code, for messages.
    pub code: &'a str,
    /// Racks.
    pub topology: &'a Topology,
    /// Nodes that may be used.
    pub alive: &'a [NodeId],
    /// Those of them that have no room for another block: what they hold can stay there.
    pub full: &'a BTreeSet<NodeId>,
    /// Nodes that hold a replica, for each data block that the stripe has (a short stripe has fewer than k).
    pub replicas: &'a [Vec<NodeId>],
    /// Parities to make, n−k.
    pub parities: usize,
    /// Blocks that the code outlives the loss of, whichever they are: no rack gets more if there are racks and room enough.
    pub tolerance: usize,
}

/// What happens to a data block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kept {
    /// The replica that is read for encoding. It need not be the one that stays: another may lie nearer to the encoder.
    pub read_from: NodeId,
    /// Where the block is afterwards: at the replica that stays, unless it is relocated. Where a pipeline encodes, none stays, and
    /// this is the one that is read.
    pub stored_at: NodeId,
    /// Whether no replica could stay without putting two blocks on a host, or too many in a rack, so that the block moves.
    pub is_relocated: bool,
}

/// The decision: all `stored_at` and `parities` are nodes of distinct hosts; all `parities`, where a pipeline encodes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Archival {
    /// The node that drives the encoding: a random live one, as in RR, or one of the core rack (EAR §3.1). By
    /// [`star`](flow::EncodeScheme::Star) it downloads, encodes and uploads; by other schemes no data pass it unless it has
    /// some. The first node of a pipeline that was placed for.
    pub archiver: NodeId,
    /// One for each data block.
    pub data: Vec<Kept>,
    /// One for each parity; for each block of the codeword, the nodes of the pipeline in its order, where one encodes.
    pub parities: Vec<NodeId>,
}

/// What was decided when a stripe was sealed.
impl From<Sealed> for Archival {
    fn from(sealed: Sealed) -> Archival {
        let kept = |SealedBlock { read_from, stored_at, is_relocated }: SealedBlock| Kept {
            read_from,
            stored_at,
            is_relocated,
        };
        Archival {
            archiver: sealed.encoder,
            data: sealed.data.into_iter().map(kept).collect(),
            parities: sealed.parities,
        }
    }
}

/// Keeps one replica of as many data blocks as possible where it is (maximum matching), with as few blocks in any rack as
/// that allows, and no more than the stripe outlives the loss of, if the racks are so many and have the room; moves the others
/// and puts the parities to nodes of unused hosts, in the racks that have the fewest blocks.
///
/// # Errors
/// [`PlanError::NotEnoughNodes`], [`PlanError::NoReplica`], [`PlanError::UnknownNode`].
pub fn archive(request: &ArchiveRequest<'_>, draw: &mut Draw) -> Result<Archival, PlanError> {
    let mut nodes: Vec<NodeId> = request.alive.iter().copied().collect::<BTreeSet<_>>().into_iter().collect();
    let needed = request.replicas.len() + request.parities;
    let alive = request.topology.hosts(nodes.iter().copied()).len();
    let too_few = || PlanError::NotEnoughNodes { code: request.code.to_owned(), needed, alive };
    let archiver = *draw.pick(&nodes).ok_or_else(too_few)?;
    if alive < needed {
        return Err(too_few());
    }
    // A random order, so that ties do not always fall on the same nodes.
    draw.shuffle(&mut nodes);
    let hosts = by_host(request.topology, &nodes);
    let choices = live_replicas(request, &hosts)?;
    let (matched, mut vacant) = matching(request, &hosts, &choices, needed)?;
    let mut data = Vec::new();
    for (block, (matched, choices)) in matched.iter().zip(&choices).enumerate() {
        let replica = |host: usize| hosts[host].iter().copied().find(|n| request.replicas[block].contains(n));
        let read_from = replica(matched.unwrap_or(choices[0])).ok_or(PlanError::NoReplica { block })?;
        let stored_at = match matched {
            Some(_) => read_from,
            None => vacant.take().ok_or_else(too_few)?,
        };
        data.push(Kept { read_from, stored_at, is_relocated: matched.is_none() });
    }
    let parities =
        (0..request.parities).map(|_| vacant.take().ok_or_else(too_few)).collect::<Result<_, _>>()?;
    Ok(Archival { archiver, data, parities })
}

/// The nodes of each host, in the order in which hosts come up in `nodes`.
fn by_host(topology: &Topology, nodes: &[NodeId]) -> Vec<Vec<NodeId>> {
    let mut numbers = BTreeMap::new();
    let mut hosts: Vec<Vec<NodeId>> = Vec::new();
    for &node in nodes {
        let number = *numbers.entry(topology.host_of(node)).or_insert(hosts.len());
        match hosts.get_mut(number) {
            Some(host) => host.push(node),
            None => hosts.push(vec![node]),
        }
    }
    hosts
}

/// For each block, the indexes in `hosts` of its replicas.
fn live_replicas(request: &ArchiveRequest<'_>, hosts: &[Vec<NodeId>]) -> Result<Vec<Vec<usize>>, PlanError> {
    let live = |(block, replicas): (usize, &Vec<NodeId>)| {
        let holds = |&host: &usize| hosts[host].iter().any(|node| replicas.contains(node));
        let live: Vec<usize> = (0..hosts.len()).filter(holds).collect();
        if live.is_empty() { Err(PlanError::NoReplica { block }) } else { Ok(live) }
    };
    request.replicas.iter().enumerate().map(live).collect()
}

/// A maximum matching that bounds the blocks per rack as tightly as it can: no less than an even spread of
/// the whole stripe, and no more than a stripe outlives the loss of where the others have room; and what is vacant then.
fn matching(
    request: &ArchiveRequest<'_>,
    hosts: &[Vec<NodeId>],
    choices: &[Vec<usize>],
    blocks: usize,
) -> Result<(Vec<Option<usize>>, Vacant), PlanError> {
    let topology = request.topology;
    let racks: Vec<RackId> = topology.by_rack(&hosts.concat())?.into_keys().collect();
    let rack = hosts
        .iter()
        .flat_map(|host| host.first())
        .map(|&node| Ok(racks.binary_search(&topology.rack_of(node)?).unwrap_or(0)))
        .collect::<Result<Vec<usize>, PlanError>>()?;
    let size = |matching: &[Option<usize>]| matching.iter().flatten().count();
    let hosts_in = |index: usize| rack.iter().filter(|&&of| of == index).count();
    let room = |limit: usize| (0..racks.len()).map(|index| hosts_in(index).min(limit)).sum::<usize>();
    let even = (1..blocks).find(|&limit| room(limit) >= blocks).unwrap_or(blocks);
    let within = |limit: usize| {
        let widest = assign(choices, &rack, limit);
        let mut tighter = (even..limit).map(|capacity| assign(choices, &rack, capacity));
        let matched = tighter.find(|tighter| size(tighter) == size(&widest)).unwrap_or(widest);
        let vacant = Vacant::new(request, hosts, matched.iter().flatten().copied())?;
        Ok((matched, vacant))
    };
    let limit = request.tolerance.max(even);
    let (matched, vacant) = within(limit)?;
    if vacant.room(limit) >= blocks { Ok((matched, vacant)) } else { within(blocks) }
}

/// Nodes of hosts without a block of the stripe, one of each, and how many blocks each rack has.
struct Vacant {
    nodes: Vec<(NodeId, RackId)>,
    blocks: BTreeMap<RackId, usize>,
}

impl Vacant {
    fn new(
        request: &ArchiveRequest<'_>,
        hosts: &[Vec<NodeId>],
        used: impl Iterator<Item = usize>,
    ) -> Result<Self, PlanError> {
        let used: BTreeSet<usize> = used.collect();
        let mut vacant = Vacant { nodes: Vec::new(), blocks: BTreeMap::new() };
        for (index, host) in hosts.iter().enumerate() {
            let Some(&first) = host.first() else { continue };
            let rack = request.topology.rack_of(first)?;
            if used.contains(&index) {
                *vacant.blocks.entry(rack).or_default() += 1;
            } else if let Some(&node) = host.iter().find(|node| !request.full.contains(node)) {
                vacant.nodes.push((node, rack));
            }
        }
        Ok(vacant)
    }

    /// Blocks of the stripe that all racks have in the end, at most so many each.
    fn room(&self, limit: usize) -> usize {
        let mut racks = self.blocks.clone();
        for &(_, rack) in &self.nodes {
            *racks.entry(rack).or_default() += 1;
        }
        racks.values().map(|&blocks| blocks.min(limit)).sum()
    }

    /// The next vacant node of a rack with the fewest blocks.
    fn take(&mut self) -> Option<NodeId> {
        let blocks = |&(_, rack): &(NodeId, RackId)| self.blocks.get(&rack).copied().unwrap_or(0);
        let next = (0..self.nodes.len()).min_by_key(|&i| blocks(&self.nodes[i]))?;
        let (node, rack) = self.nodes.remove(next);
        *self.blocks.entry(rack).or_default() += 1;
        Some(node)
    }
}
