//! The cluster as placement sees it: one node of each host, so that no two blocks of a stripe fail together.

use super::{Result, World};
use crate::draw::Draw;
use crate::placement::Racks;
use crate::topology::{Host, RackId};
use model::NodeId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Hosts that blocks of a stripe can lie on, each by the node of it that would be given one.
#[derive(Clone, Debug)]
pub struct Ground {
    racks: Arc<Racks>,
    stand_ins: BTreeMap<Host, NodeId>,
}

impl World {
    /// Where blocks of so many bytes can be placed now. Of a host with several nodes one that has room stands for all, drawn anew
    /// each time.
    ///
    /// # Errors
    /// [`DecideError::Plan`](super::DecideError::Plan) for a node without a rack.
    pub fn ground(&self, avoid: &BTreeSet<NodeId>, bytes: u64, draw: &mut Draw) -> Result<Ground> {
        let has_room = |node: &NodeId| self.nodes.get(*node).is_some_and(|node| node.has_room(bytes));
        let usable = self.usable(avoid);
        let roomy: Vec<NodeId> = usable.iter().copied().filter(has_room).collect();
        let mut stand_ins = BTreeMap::new();
        for nodes in [self.topology.one_per_host(&roomy, draw), self.topology.one_per_host(&usable, draw)] {
            nodes
                .into_iter()
                .for_each(|node| _ = stand_ins.entry(self.topology.host_of(node)).or_insert(node));
        }
        let mut nodes: Vec<NodeId> = stand_ins.values().copied().collect();
        nodes.sort_unstable();
        let full: BTreeSet<NodeId> = nodes.iter().copied().filter(|node| !has_room(node)).collect();
        Ok(Ground { racks: Racks::new(&self.topology, &nodes, &full)?, stand_ins })
    }

    /// The rack of that name, if a node is known in it.
    pub fn rack_named(&self, name: &str) -> Option<RackId> {
        let place = self.rack_names.iter().position(|known| known == name)?;
        u32::try_from(place).ok().map(RackId)
    }

    /// The name of a rack.
    pub fn rack_name(&self, rack: RackId) -> &str {
        usize::try_from(rack.0).ok().and_then(|place| self.rack_names.get(place)).map_or("", String::as_str)
    }
}

impl Ground {
    /// Racks and the nodes that stand for their hosts.
    pub fn racks(&self) -> &Arc<Racks> {
        &self.racks
    }

    /// The node that stands for the host of this one; itself if none does, and then it is not among the racks' nodes.
    pub fn stand_in(&self, world: &World, node: NodeId) -> NodeId {
        self.stand_ins.get(&world.topology.host_of(node)).copied().unwrap_or(node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::NodeFacts;
    use crate::{ByNode, Topology};

    /// Two hosts of two nodes each and a node by itself, in two racks; node 2 is full.
    fn world() -> World {
        let (mut nodes, mut topology) = (ByNode::default(), Topology::default());
        let hosts =
            [Host::Shared(0), Host::Shared(0), Host::Shared(1), Host::Shared(1), Host::Own(NodeId(5))];
        for (number, host) in (1..).zip(hosts) {
            let rack = RackId(u32::from(number > 2));
            topology.insert_on(NodeId(number), rack, host);
            let free_bytes = Some(if number == 2 { 0 } else { 1 << 40 });
            nodes.insert(NodeId(number), NodeFacts { is_living: true, free_bytes, ..NodeFacts::default() });
        }
        let rack_names = Arc::new(vec!["a".to_owned(), "b".to_owned()]);
        World { nodes: Arc::new(nodes), topology: Arc::new(topology), rack_names, ..World::default() }
    }

    #[test]
    fn a_node_with_room_stands_for_its_host() {
        let world = world();
        for seed in 0..20 {
            let ground = world.ground(&BTreeSet::new(), 1_000, &mut Draw::seeded(seed)).unwrap();
            assert_eq!(
                (ground.racks().roomy(RackId(0)), ground.racks().nodes().count()),
                (&[NodeId(1)][..], 3)
            );
            assert_eq!(ground.stand_in(&world, NodeId(2)), NodeId(1));
            let of_the_other = [NodeId(3), NodeId(4)].map(|node| ground.stand_in(&world, node));
            assert!(of_the_other[0] == of_the_other[1] && of_the_other[0] != NodeId(5));
        }
        // Of a host that is full one node stands for what lies there, and is given nothing.
        let ground = world.ground(&[NodeId(1)].into(), 1_000, &mut Draw::seeded(1)).unwrap();
        assert_eq!((ground.racks().roomy(RackId(0)).len(), ground.racks().living(RackId(0))), (0, 1));
        assert_eq!(ground.stand_in(&world, NodeId(1)), NodeId(2));
    }

    #[test]
    fn racks_have_names() {
        let world = world();
        assert_eq!((world.rack_named("b"), world.rack_named("c")), (Some(RackId(1)), None));
        assert_eq!((world.rack_name(RackId(0)), world.rack_name(RackId(9))), ("a", ""));
    }
}
