//! Which node stands in which rack, and which of them share a host.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::by_node::ByNode;
use crate::draw::Draw;
use crate::error::PlanError;
use model::NodeId;

/// A rack: nodes that share a switch, or a site of a geo-distributed system (RP §4.2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RackId(pub u32);

impl fmt::Display for RackId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rack-{}", self.0)
    }
}

/// A host: nodes on one machine, each with a disk of its own. They fail together, so no two of them hold blocks of one stripe
/// or replicas of one block.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Host {
    /// Of this node alone.
    Own(NodeId),
    /// Of all nodes that name it.
    Shared(u32),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Site {
    rack: RackId,
    host: Host,
}

/// All known nodes, their racks and hosts; a flat network is one rack.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Topology {
    sites: ByNode<Site>,
}

impl Topology {
    /// Adds a node on a host of its own, or moves it to another rack.
    pub fn insert(&mut self, node: NodeId, rack: RackId) {
        self.insert_on(node, rack, Host::Own(node));
    }

    /// Adds a node, or moves it.
    pub fn insert_on(&mut self, node: NodeId, rack: RackId, host: Host) {
        self.sites.insert(node, Site { rack, host });
    }

    /// Forgets a node.
    pub fn remove(&mut self, node: NodeId) {
        self.sites.remove(node);
    }

    /// The rack of a node.
    ///
    /// # Errors
    /// [`PlanError::UnknownNode`].
    pub fn rack_of(&self, node: NodeId) -> Result<RackId, PlanError> {
        self.sites.get(node).map(|site| site.rack).ok_or(PlanError::UnknownNode { node })
    }

    /// The host of a node; one that is not known is on its own.
    pub fn host_of(&self, node: NodeId) -> Host {
        self.sites.get(node).map_or(Host::Own(node), |site| site.host)
    }

    /// The hosts of these nodes.
    pub fn hosts(&self, nodes: impl IntoIterator<Item = NodeId>) -> BTreeSet<Host> {
        nodes.into_iter().map(|node| self.host_of(node)).collect()
    }

    /// One of the nodes of each host, drawn, in rising order: those that may hold blocks that must not fail together.
    pub fn one_per_host(&self, nodes: &[NodeId], draw: &mut Draw) -> Vec<NodeId> {
        let mut by_host: BTreeMap<Host, Vec<NodeId>> = BTreeMap::new();
        for &node in nodes {
            by_host.entry(self.host_of(node)).or_default().push(node);
        }
        // A host with one node costs no draw, so that clusters of such draw as they always did.
        let one = |of_host: &Vec<NodeId>| match of_host.as_slice() {
            [only] => Some(*only),
            several => draw.pick(several).copied(),
        };
        let mut drawn: Vec<NodeId> = by_host.values().filter_map(one).collect();
        drawn.sort_unstable();
        drawn
    }

    /// All nodes, in rising order.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> {
        self.sites.iter().map(|(node, _)| node)
    }

    /// `nodes` by their racks; a node that is listed twice counts once.
    ///
    /// # Errors
    /// [`PlanError::UnknownNode`].
    pub fn by_rack(&self, nodes: &[NodeId]) -> Result<BTreeMap<RackId, BTreeSet<NodeId>>, PlanError> {
        let mut racks: BTreeMap<RackId, BTreeSet<NodeId>> = BTreeMap::new();
        for &node in nodes {
            racks.entry(self.rack_of(node)?).or_default().insert(node);
        }
        Ok(racks)
    }
}

impl FromIterator<(NodeId, RackId)> for Topology {
    fn from_iter<I: IntoIterator<Item = (NodeId, RackId)>>(nodes: I) -> Self {
        let mut topology = Topology::default();
        nodes.into_iter().for_each(|(node, rack)| topology.insert(node, rack));
        topology
    }
}
