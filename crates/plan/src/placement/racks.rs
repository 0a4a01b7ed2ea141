//! The nodes that live, by rack, as placement sees them at one moment.

use crate::by_node::ByNode;
use crate::draw::Draw;
use crate::error::PlanError;
use crate::topology::{RackId, Topology};
use model::NodeId;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Racks and their living nodes. It is made once for many placements, and made anew when a node comes, goes or fills up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Racks {
    /// Rising.
    ids: Vec<RackId>,
    /// Of each rack, in the same order.
    racks: Vec<Rack>,
    /// Of each living node, the place of its rack.
    rack_of: ByNode<usize>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Rack {
    /// Nodes that can take a block, rising.
    roomy: Vec<NodeId>,
    /// Nodes that live, with room or without.
    living: usize,
}

impl Racks {
    /// Of the nodes that live. Those that are `full` keep what they have and are given nothing.
    ///
    /// # Errors
    /// [`PlanError::UnknownNode`] for a living node without a rack.
    pub fn new(
        topology: &Topology,
        alive: &[NodeId],
        full: &BTreeSet<NodeId>,
    ) -> Result<Arc<Racks>, PlanError> {
        let mut all = Racks { ids: Vec::new(), racks: Vec::new(), rack_of: ByNode::default() };
        for (place, (id, nodes)) in topology.by_rack(alive)?.into_iter().enumerate() {
            let living = nodes.len();
            nodes.iter().for_each(|&node| all.rack_of.insert(node, place));
            let roomy = nodes.into_iter().filter(|node| !full.contains(node)).collect();
            all.ids.push(id);
            all.racks.push(Rack { roomy, living });
        }
        Ok(Arc::new(all))
    }

    /// Racks in which a node lives, rising.
    pub fn ids(&self) -> &[RackId] {
        &self.ids
    }

    /// The nodes of a rack that can take a block, rising.
    pub fn roomy(&self, rack: RackId) -> &[NodeId] {
        self.rack(rack).map_or(&[], |rack| &rack.roomy)
    }

    /// How many nodes of a rack live.
    pub fn living(&self, rack: RackId) -> usize {
        self.rack(rack).map_or(0, |rack| rack.living)
    }

    /// The rack of a node; `None` unless it lives.
    pub fn rack_of(&self, node: NodeId) -> Option<RackId> {
        self.rack_of.get(node).map(|&place| self.ids[place])
    }

    /// Nodes that live, rising.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> {
        self.rack_of.iter().map(|(node, _)| node)
    }

    /// Nodes that can take a block.
    pub fn roomy_nodes(&self) -> usize {
        self.racks.iter().map(|rack| rack.roomy.len()).sum()
    }

    /// A random rack with room, each as likely as another; `None` if there is none.
    pub(super) fn draw(&self, draw: &mut Draw) -> Option<RackId> {
        let all = || self.ids.iter().zip(&self.racks).filter(|(_, rack)| !rack.roomy.is_empty());
        all().nth(draw.below(all().count())).map(|(&id, _)| id)
    }

    fn rack(&self, rack: RackId) -> Option<&Rack> {
        self.ids.binary_search(&rack).ok().map(|place| &self.racks[place])
    }
}
