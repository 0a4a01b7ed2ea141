//! Members of stripes that lie worse than the cluster allows.

use model::{
    BlockFacts, BlockId, Location, MemberState, NodeId, Placement, StripeId, StripePlace, StripePlacement,
    Sums,
};
use plan::decide::{NodeFacts, Planner, Relocation, Takers, World, requestor};
use plan::{ByNode, Draw, Host, RackId, Topology};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const BYTES: u64 = 4_096;

/// Nodes 1 …, each in this rack and on this host.
fn world(places: &[(u32, u32)]) -> World {
    let (mut nodes, mut topology) = (ByNode::default(), Topology::default());
    for (node, &(rack, host)) in (1..).map(NodeId).zip(places) {
        let free_bytes = Some(1 << 40);
        nodes.insert(node, NodeFacts { is_living: true, rack, free_bytes, ..NodeFacts::default() });
        topology.insert_on(node, RackId(rack), Host::Shared(host));
    }
    World { nodes: Arc::new(nodes), topology: Arc::new(topology), ..World::default() }
}

/// Member i of an rs-K+M stripe is on the i-th of these nodes.
fn stripe(code: &str, on: &[NodeId]) -> StripePlacement {
    let member = |(index, &node): (u16, &NodeId)| {
        let facts = BlockFacts {
            stripe: Some(StripePlace { stripe: StripeId(1), index, is_virtual: false }),
            replicas: 1,
            ..BlockFacts::new(BYTES, Sums::default(), vec![Location { node, generation: 1 }])
        };
        MemberState::Stored((BlockId(u128::from(index) + 1), facts))
    };
    StripePlacement {
        id: StripeId(1),
        index: 0,
        code: code.to_owned(),
        block_bytes: BYTES,
        members: (0..).zip(on).map(member).collect(),
        holders: on.iter().copied().collect(),
    }
}

fn planner() -> Planner {
    Planner::new(32 << 10)
}

fn found(world: &World, code: &str, on: &[NodeId]) -> Option<Relocation> {
    planner().relocation(world, &stripe(code, on), |_| 0)
}

/// Moves until nothing is to move; how often.
fn settled(world: &World, code: &str, on: &mut [NodeId]) -> usize {
    let mut moves = 0;
    while let Some(Relocation { block, from, to }) = found(world, code, on) {
        assert!(moves < 4 * on.len(), "it does not end");
        let member = block.0 as usize - 1;
        assert_eq!(on[member], from);
        assert!(!on.contains(&to));
        on[member] = to;
        moves += 1;
    }
    moves
}

fn counts<T: Ord>(on: &[NodeId], of: impl Fn(NodeId) -> T) -> BTreeMap<T, usize> {
    let mut counts = BTreeMap::new();
    on.iter().for_each(|&node| *counts.entry(of(node)).or_default() += 1);
    counts
}

#[test]
fn a_rack_whose_loss_is_not_survived_gives_what_others_can_take() {
    // Racks 0, 1 and 2 of four nodes each.
    let places: Vec<(u32, u32)> = (0..12).map(|node| (node / 4, node)).collect();
    let world = world(&places);
    let nodes = |on: &[u32]| on.iter().copied().map(NodeId).collect::<Vec<NodeId>>();
    // 3, 1, 1 with two parities.
    let mut on = nodes(&[1, 2, 3, 5, 9]);
    let first = found(&world, "rs-3+2", &on).unwrap();
    assert_eq!((first.from, [NodeId(6), NodeId(10)].contains(&first.to)), (NodeId(1), true), "{first:?}");
    assert_eq!(settled(&world, "rs-3+2", &mut on), 1);
    // 2, 2, 1 is the best that can be: with one parity no rack's loss is survived, and nothing moves to and fro.
    assert_eq!(found(&world, "rs-4+1", &nodes(&[1, 2, 5, 6, 9])), None);
    // What lacks a copy, or lies on a node that is dead or leaves, is made first.
    let mut away = world.clone();
    Arc::make_mut(&mut away.nodes).insert(NodeId(9), NodeFacts { rack: 2, ..NodeFacts::default() });
    assert_eq!(found(&away, "rs-3+2", &nodes(&[1, 2, 3, 5, 9])), None);
    assert_eq!(found(&world, "no-such-code", &nodes(&[1, 2, 3, 5, 9])), None);
}

#[test]
fn members_end_on_hosts_of_their_own_in_racks_that_may_be_lost_where_that_can_be() {
    let mut draw = Draw::seeded(17);
    let mut moved = 0;
    for _ in 0..2_000 {
        let (nodes, hosts, racks) = (8 + draw.below(12), 4 + draw.below(12), 1 + draw.below(5));
        let (k, m) = (2 + draw.below(4), 1 + draw.below(3));
        // A host is in one rack.
        let rack_of: Vec<u32> = (0..hosts).map(|_| draw.below(racks) as u32).collect();
        let host = |_| draw.below(hosts);
        let places: Vec<(u32, u32)> = (0..nodes).map(host).map(|host| (rack_of[host], host as u32)).collect();
        let world = world(&places);
        let first = draw.below(nodes);
        let n = (k + m).min(nodes - 1);
        let mut on: Vec<NodeId> =
            (0..n).map(|member| NodeId(((first + member) % nodes) as u32 + 1)).collect();
        moved += settled(&world, &format!("rs-{}+{m}", n - m), &mut on);
        assert_eq!(on.iter().collect::<BTreeSet<_>>().len(), n);
        let place = |node: NodeId| places[node.0 as usize - 1];
        let (racks, hosts) = (counts(&on, |node| place(node).0), counts(&on, |node| place(node).1));
        let free = || places.iter().filter(|(_, host)| !hosts.contains_key(host));
        let share = hosts.values().any(|&count| count > 1);
        assert!(!share || free().count() == 0, "{places:?} {on:?}");
        let fewest = free().map(|(rack, _)| racks.get(rack).copied().unwrap_or(0)).min();
        let most = *racks.values().max().unwrap();
        let could = !share && fewest.is_some_and(|fewest| fewest + 1 < most);
        assert!(most <= m || !could, "{places:?} {on:?}");
    }
    assert!(moved > 2_000, "{moved}");
}

/// Nodes 4 and 7 share a host. What node 7 holds goes to node 4 where no other host is free, unless node 7 keeps it.
#[test]
fn a_copy_that_goes_leaves_its_host_to_the_one_that_is_made() {
    let places: Vec<(u32, u32)> = [1, 2, 3, 4, 5, 6, 4].into_iter().map(|host| (host % 2, host)).collect();
    let on = [7, 1, 5, 6, 3].map(NodeId);
    let stripe = stripe("rs-3+2", &on);
    let (block, facts) = stripe.members[0].stored().cloned().unwrap();
    let placement = Placement { block, facts, stripe: Some(stripe) };
    let chosen = |set: &dyn Fn(NodeId, &mut NodeFacts)| {
        let mut world = world(&places);
        let mut nodes = (*world.nodes).clone();
        for node in (1..=7).map(NodeId) {
            let mut facts = nodes.get(node).unwrap().clone();
            set(node, &mut facts);
            nodes.insert(node, facts);
        }
        world.nodes = Arc::new(nodes);
        let one = requestor(&world, &placement, None, &BTreeSet::new(), |_| 0);
        let asked = requestor(&world, &placement, Some(NodeId(4)), &BTreeSet::new(), |_| 0);
        let mut takers = Takers::new(&world, &BTreeSet::new(), BYTES).unwrap();
        let of_many = planner().lost_block(&world, &placement, true, &mut takers);
        let of_many = of_many.map(|found| found.lost.requestors);
        assert_eq!(one.as_ref().ok().map(|node| vec![*node]), of_many.ok(), "both ways choose alike");
        (one.ok().map(|node| node.0), asked.is_ok())
    };
    let leaves = |node: NodeId, of: &[u32]| of.contains(&node.0);
    assert_eq!(
        chosen(&|node, facts| facts.is_leaving = leaves(node, &[7])),
        (Some(2), true),
        "host 2 is free"
    );
    assert_eq!(chosen(&|node, facts| facts.is_leaving = leaves(node, &[2, 7])), (Some(4), true));
    let dies = |node: NodeId, facts: &mut NodeFacts| {
        facts.is_leaving = node.0 == 2;
        facts.is_living = node.0 != 7;
    };
    assert_eq!(chosen(&dies), (Some(4), true));
    assert_eq!(
        chosen(&|node, facts| facts.is_leaving = leaves(node, &[2])),
        (None, false),
        "node 7 keeps it"
    );
    // The host of a dead node with another member is not free, because that node may come back.
    let other_dies = |node: NodeId, facts: &mut NodeFacts| {
        facts.is_leaving = [2, 4].contains(&node.0);
        facts.is_living = node.0 != 1;
    };
    assert_eq!(chosen(&other_dies), (None, false));
}
