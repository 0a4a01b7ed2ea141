//! The flow graph of one stripe (EAR §3.2), of its local group that is being filled (EAR §3.5).
//!
//! ```text
//!   block of the group ──1──▶ node ──1──┐
//!   blocks of the group that are        ├──▶ rack, of the group ──▶ rack ──c──▶ sink
//!   still free to lie anywhere ─────────┘       c of a group          ▲
//!   blocks of each later group ─────────────────c of a group──────────┘
//! ```
//!
//! A code without local groups is one group. The two conditions of a code with them, for each rack as a whole and for each
//! group in it, stand one behind the other on the way to the sink. Besides the paper's blocks those that have no replicas yet
//! flow too, parities included, as units that may lie on any node: what is placed first cannot take a rack that others need.
//! Blocks of groups that were filled before are no longer in it: they have their nodes, and less room is left for others.

use super::terms::Rules;
use crate::flow_graph::{EdgeId, FlowGraph, Reaching, Vertex};
use crate::topology::RackId;
use model::NodeId;
use std::collections::{BTreeMap, BTreeSet};

/// What a rack can still hold of a stripe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Room {
    pub rack: RackId,
    /// Blocks of any kind.
    pub blocks: usize,
    /// Blocks of any one local group.
    pub of_a_group: usize,
}

/// The graph, and the flow in it.
#[derive(Clone, Debug)]
pub(super) struct StripeGraph {
    graph: FlowGraph,
    sink: Vertex,
    racks: Vec<Rack>,
    /// Where the free units of the group begin.
    free: Vertex,
    /// Free units there are, and those of them that flow.
    free_units: usize,
    free_flow: usize,
    /// Whether the units of all later groups flow.
    is_later_content: bool,
    nodes: BTreeMap<NodeId, Vertex>,
    /// Nodes of blocks of earlier groups.
    taken: BTreeSet<NodeId>,
    /// The blocks of the group that have a node, in the order in which they came; none for one that found none.
    blocks: Vec<Vec<(NodeId, EdgeId)>>,
}

#[derive(Clone, Copy, Debug)]
struct Rack {
    id: RackId,
    /// Where blocks of the group enter.
    group: Vertex,
    /// From the free units to `group`, from there to the rack, from there to the sink.
    way: [EdgeId; 3],
}

/// Who would do as a node of the next block.
#[derive(Clone, Debug)]
pub(super) struct Accepted {
    reaching: Reaching,
}

impl StripeGraph {
    /// With all blocks of the group free. `rooms` are those of the racks where blocks may lie; free units prefer the first
    /// of them.
    pub fn new(rules: &Rules, group: usize, rooms: &[Room], taken: BTreeSet<NodeId>) -> StripeGraph {
        let mut graph = FlowGraph::default();
        let (sink, free) = (graph.vertex(), graph.vertex());
        let later: Vec<(Vertex, usize)> =
            (group + 1..rules.groups()).map(|later| (graph.vertex(), size(rules, later))).collect();
        let mut racks = Vec::with_capacity(rooms.len());
        for room in rooms {
            let (of_group, rack) = (graph.vertex(), graph.vertex());
            let way = [
                graph.edge(free, of_group, room.of_a_group),
                graph.edge(of_group, rack, room.of_a_group),
                graph.edge(rack, sink, room.blocks),
            ];
            for &(later, _) in &later {
                graph.edge(later, rack, room.of_a_group);
            }
            racks.push(Rack { id: room.rack, group: of_group, way });
        }
        let free_units = size(rules, group);
        let free_flow = (0..free_units).take_while(|_| graph.augment(free, sink)).count();
        let is_later_content =
            later.iter().all(|&(later, units)| (0..units).all(|_| graph.augment(later, sink)));
        let (nodes, blocks) = (BTreeMap::new(), Vec::new());
        StripeGraph {
            graph,
            sink,
            racks,
            free,
            free_units,
            free_flow,
            is_later_content,
            nodes,
            taken,
            blocks,
        }
    }

    /// Whether every block has a place: the flow is as large as the stripe.
    pub fn is_content(&self) -> bool {
        self.free_flow == self.free_units && self.is_later_content
    }

    /// The nodes on which the next block could lie: on one of them it must have a replica. The paper redraws until the
    /// maximum flow is that of all blocks so far; this is the same question, asked once of all nodes.
    pub fn accepted(&mut self) -> Accepted {
        let was_flowing = self.release();
        let accepted = Accepted { reaching: self.graph.reaching(self.sink) };
        self.give_back(was_flowing);
        accepted
    }

    /// Whether a block with a replica on a node of a rack could lie there.
    pub fn takes(&self, accepted: &Accepted, node: NodeId, rack: RackId) -> bool {
        if self.taken.contains(&node) {
            return false;
        }
        // A node that is not in the graph yet would be one more way into its rack.
        let vertex = self.nodes.get(&node).copied().or_else(|| Some(self.rack(rack)?.group));
        vertex.is_some_and(|vertex| accepted.reaching.holds(vertex))
    }

    /// One of the free blocks gets replicas on these nodes, and must lie on one of them from now on. False if it cannot, and
    /// then it stays as free as it was.
    pub fn pin(&mut self, replicas: &[(NodeId, RackId)]) -> bool {
        let was_flowing = self.release();
        let block = self.graph.vertex();
        let mut edges = Vec::with_capacity(replicas.len());
        let place = |rack: RackId| self.racks.iter().position(|other| other.id == rack);
        let mut open: Vec<(usize, NodeId)> =
            replicas.iter().filter_map(|&(node, rack)| Some((place(rack)?, node))).collect();
        // What free units prefer is left to them where there is a choice: ways are tried in the order of their edges.
        open.sort_by_key(|&(place, _)| std::cmp::Reverse(place));
        for (place, node) in open.into_iter().filter(|(_, node)| !self.taken.contains(node)) {
            let Rack { group, .. } = self.racks[place];
            let graph = &mut self.graph;
            let vertex = *self.nodes.entry(node).or_insert_with(|| {
                let vertex = graph.vertex();
                graph.edge(vertex, group, 1);
                vertex
            });
            edges.push((node, graph.edge(block, vertex, 1)));
        }
        let is_pinned = self.graph.augment(block, self.sink);
        if is_pinned {
            self.free_units -= 1;
            self.free_flow -= usize::from(was_flowing);
        } else {
            self.give_back(was_flowing);
            edges.clear();
        }
        self.blocks.push(edges);
        is_pinned
    }

    /// For each block of the group that came, the node where it lies; `None` for one that could not be pinned.
    pub fn kept(&self) -> Vec<Option<NodeId>> {
        let node = |edges: &Vec<(NodeId, EdgeId)>| {
            edges.iter().find(|(_, edge)| self.graph.flow(*edge) > 0).map(|&(node, _)| node)
        };
        self.blocks.iter().map(node).collect()
    }

    /// The racks where the free units lie, a rack as often as it has some.
    pub fn free_racks(&self) -> Vec<RackId> {
        let units = |rack: &Rack| std::iter::repeat_n(rack.id, self.graph.flow(rack.way[0]));
        self.racks.iter().flat_map(units).collect()
    }

    /// Takes one free unit out of the flow, if all of them flow: of the last rack that has one. Whether it did; if some do not
    /// flow, one of these stands for the block.
    fn release(&mut self) -> bool {
        if self.free_flow < self.free_units {
            return false;
        }
        let last = self.racks.iter().rev().find(|rack| self.graph.flow(rack.way[0]) > 0);
        last.map(|rack| rack.way).inspect(|way| self.graph.take_back(way)).is_some()
    }

    fn give_back(&mut self, was_flowing: bool) {
        if was_flowing {
            let flows = self.graph.augment(self.free, self.sink);
            debug_assert!(flows, "what was taken out has its room");
        }
    }

    fn rack(&self, rack: RackId) -> Option<&Rack> {
        self.racks.iter().find(|other| other.id == rack)
    }
}

/// Blocks of a group, its own parities included.
fn size(rules: &Rules, group: usize) -> usize {
    rules.data_of(group).len() + rules.parities_of(group).len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::Draw;
    use crate::placement::spread::Spread;
    use crate::placement::terms::Terms;
    use codes::Code;

    /// Nodes of each rack: node 10·r+i is in rack r.
    fn rack_of(node: NodeId) -> RackId {
        RackId(node.0 / 10)
    }

    /// Whether all blocks have a place, by trying every choice of replicas for those that have some. What is free then fits if no
    /// set of groups has more units than all racks together can hold of it.
    fn fits(
        rules: &Rules,
        group: usize,
        rooms: &mut [(Room, usize)],
        used: &mut Vec<NodeId>,
        blocks: &[Vec<NodeId>],
        free: usize,
    ) -> bool {
        let Some((first, rest)) = blocks.split_first() else {
            let units: Vec<usize> = (group..rules.groups())
                .map(|other| if other == group { free } else { size(rules, other) })
                .collect();
            return (0..1_usize << units.len()).all(|set| {
                let chosen = || (0..units.len()).filter(move |index| set >> index & 1 == 1);
                let of_group =
                    |room: &Room, inside: usize, index| room.of_a_group - if index == 0 { inside } else { 0 };
                let held = rooms.iter().map(|(room, inside)| {
                    let groups: usize = chosen().map(|index| of_group(room, *inside, index)).sum();
                    groups.min(room.blocks - inside)
                });
                held.sum::<usize>() >= chosen().map(|index| units[index]).sum()
            });
        };
        for &node in first {
            let Some(at) = rooms.iter().position(|(room, _)| room.rack == rack_of(node)) else { continue };
            let (room, inside) = rooms[at];
            if used.contains(&node) || inside >= room.blocks.min(room.of_a_group) {
                continue;
            }
            used.push(node);
            rooms[at].1 += 1;
            let does = fits(rules, group, rooms, used, rest, free);
            rooms[at].1 -= 1;
            used.pop();
            if does {
                return true;
            }
        }
        false
    }

    fn rules(code: &str) -> Rules {
        let (code, spread) = (Code::parse(code).unwrap(), Spread::TwoRacks);
        Rules::new(Terms { code, rack_capacity: 1, target_racks: None, replicas: 3, spread }).unwrap()
    }

    #[test]
    fn a_graph_that_grows_accepts_what_trying_every_choice_accepts_and_what_one_made_anew_accepts() {
        let all = ["rs-3+2", "rs-4+1", "lrc-4+2+1", "lrc-6+3+1"].map(rules);
        let mut draw = Draw::seeded(6);
        let (mut accepted_some, mut refused_some) = (0, 0);
        for _ in 0..4_000 {
            let rules = &all[draw.below(all.len())];
            let group = draw.below(rules.groups());
            let rooms: Vec<Room> = (0..3 + draw.below(3) as u32)
                .map(|rack| {
                    let blocks = draw.below(4);
                    Room { rack: RackId(rack), blocks, of_a_group: draw.below(blocks + 1) }
                })
                .collect();
            let taken = BTreeSet::from([NodeId(draw.below(60) as u32)]);
            let mut grown = StripeGraph::new(rules, group, &rooms, taken.clone());
            let mut pinned: Vec<Vec<NodeId>> = Vec::new();
            let slow = |pinned: &[Vec<NodeId>]| {
                let mut rooms: Vec<(Room, usize)> = rooms.iter().map(|&room| (room, 0)).collect();
                let free = size(rules, group) - pinned.len();
                fits(rules, group, &mut rooms, &mut taken.iter().copied().collect(), pinned, free)
            };
            assert_eq!(grown.is_content(), slow(&[]));
            if !grown.is_content() {
                continue;
            }
            for _ in 0..8 {
                if pinned.len() == rules.data_of(group).len() {
                    break;
                }
                // Few nodes of each rack, one rack that is none of the stripe's, and twice the same node now and then.
                let node = |draw: &mut Draw| NodeId(10 * draw.below(6) as u32 + draw.below(2) as u32);
                let replicas: Vec<(NodeId, RackId)> = (0..1 + draw.below(2))
                    .map(|_| node(&mut draw))
                    .map(|node| (node, rack_of(node)))
                    .collect();
                let accepted = grown.accepted();
                let is_accepted = replicas.iter().any(|&(node, rack)| grown.takes(&accepted, node, rack));
                let with = [pinned.clone(), vec![replicas.iter().map(|&(node, _)| node).collect()]].concat();
                assert_eq!(is_accepted, slow(&with), "{rooms:?} {with:?}");
                let mut anew = StripeGraph::new(rules, group, &rooms, taken.clone());
                let in_racks =
                    |nodes: &Vec<NodeId>| nodes.iter().map(|&node| (node, rack_of(node))).collect::<Vec<_>>();
                assert!(pinned.iter().all(|nodes| anew.pin(&in_racks(nodes))));
                assert_eq!(anew.pin(&replicas), is_accepted);
                if !is_accepted {
                    refused_some += 1;
                    // It changes nothing but that one more block came in vain.
                    let mut vain = grown.clone();
                    assert!(!vain.pin(&replicas) && vain.is_content() && vain.kept().last() == Some(&None));
                    continue;
                }
                assert!(grown.pin(&replicas) && grown.is_content());
                pinned = with;
                accepted_some += 1;
                let kept: Vec<NodeId> = grown.kept().into_iter().flatten().collect();
                assert_eq!(kept.iter().collect::<BTreeSet<_>>().len(), pinned.len());
                assert!(kept.iter().zip(&pinned).all(|(node, replicas)| replicas.contains(node)));
                assert_eq!(grown.free_racks().len(), size(rules, group) - pinned.len());
            }
        }
        assert!(
            accepted_some > 1_500 && refused_some > 1_000,
            "{accepted_some} accepted, {refused_some} refused"
        );
    }
}
