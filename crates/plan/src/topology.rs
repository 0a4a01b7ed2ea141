//! Which node stands in which rack.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::by_node::ByNode;
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

/// All known nodes and their racks; a flat network is one rack.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Topology {
    racks: ByNode<RackId>,
}

impl Topology {
    /// Adds a node, or moves it to another rack.
    pub fn insert(&mut self, node: NodeId, rack: RackId) {
        self.racks.insert(node, rack);
    }

    /// Forgets a node.
    pub fn remove(&mut self, node: NodeId) {
        self.racks.remove(node);
    }

    /// The rack of a node.
    ///
    /// # Errors
    /// [`PlanError::UnknownNode`].
    pub fn rack_of(&self, node: NodeId) -> Result<RackId, PlanError> {
        self.racks.get(node).copied().ok_or(PlanError::UnknownNode { node })
    }

    /// All nodes, in rising order.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> {
        self.racks.iter().map(|(node, _)| node)
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
        Topology { racks: nodes.into_iter().collect() }
    }
}
