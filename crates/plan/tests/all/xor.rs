//! Repairs of XOR codes: the fewest symbols are read, whatever the scheme, and fewer of them where a node has more to do.

#![allow(clippy::unwrap_used, reason = "a plan that cannot be made should stop the test")]

use flow::{Scheme, Site};
use model::{
    BlockFacts, BlockId, FlowId, Incarnation, Location, MemberState, NodeId, Placement, Stamp, StoreId,
    StripeId, StripePlace, StripePlacement, Sums, Token,
};
use plan::decide::{NodeFacts, Planner, RepairSpec, SliceLength, World};
use plan::{ByNode, LinkRates, RackId, Topology};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const SYMBOL: u64 = 1 << 20;
const REQUESTOR: NodeId = NodeId(100);

/// Member i of a stripe on node i+1; block 0 is lost. `busy` says how many stages run on a node.
fn world(members: u32, busy: impl Fn(u32) -> u32) -> World {
    let (mut nodes, mut topology) = (ByNode::default(), Topology::default());
    for node in (1..=members).chain([REQUESTOR.0]) {
        topology.insert(NodeId(node), RackId(node));
        let store = Some((StoreId(node.into()), Incarnation(1)));
        let facts = NodeFacts {
            is_living: node > 1,
            store,
            running_stages: busy(node),
            control_addr: "a:1".to_owned(),
            data_addr: "a:2".to_owned(),
            ..NodeFacts::default()
        };
        nodes.insert(NodeId(node), facts);
    }
    World { nodes: Arc::new(nodes), topology: Arc::new(topology), ..World::default() }
}

fn placement(code: &str, members: usize, block_bytes: u64) -> Placement {
    let facts = |index: usize| BlockFacts {
        stored_bytes: block_bytes,
        sums: Sums { digest: Some([1; 32]), fingerprint: None },
        last_generation: 1,
        locations: vec![Location { node: NodeId(index as u32 + 1), generation: 1 }],
        flawed: Vec::new(),
        replicas: 1,
        part: None,
        stripe: Some(StripePlace { stripe: StripeId(1), index: index as u16, is_virtual: false }),
        dead: false,
    };
    let block = |index: usize| BlockId(index as u128 + 1);
    Placement {
        block: block(0),
        facts: facts(0),
        stripe: Some(StripePlacement {
            id: StripeId(1),
            index: 0,
            code: code.to_owned(),
            block_bytes,
            members: (0..members).map(|index| MemberState::Stored((block(index), facts(index)))).collect(),
            holders: (1..=members as u32).map(NodeId).collect(),
        }),
    }
}

/// Symbols that are read at each node for block 0.
fn read(code: &str, (members, alpha): (usize, u64), scheme: Scheme, world: &World) -> BTreeMap<u32, u64> {
    let planner = Planner::new(32 << 10);
    let spec = RepairSpec {
        scheme: Some(scheme),
        slices: SliceLength::exactly(32 << 10),
        verify: true,
        requestor: REQUESTOR,
        scheduled: false,
        generation: 2,
        birth: Stamp::default(),
        flow: FlowId(1),
        attempt: 1,
        moves: false,
        helpers: Vec::new(),
        explained: false,
    };
    let placement = placement(code, members, alpha * SYMBOL);
    let mut token = || Token(7);
    let plan = planner.repair(world, &(&placement, spec), &BTreeSet::new(), &mut token).unwrap();
    let read = plan.planned.cost.disk_read.into_iter().filter(|(_, bytes)| *bytes > 0);
    read.map(|(Site(node), bytes)| (node, bytes / SYMBOL)).collect()
}

#[test]
fn every_scheme_reads_the_fewest_symbols() {
    let even = |_| 0;
    for (code, members, alpha, least) in
        [("rdp-7", 8, 6, 27), ("evenodd-7", 9, 6, 33), ("liber8tion-6+2", 8, 8, 34)]
    {
        for scheme in ["conventional", "ppr", "pipeline"] {
            let scheme: Scheme = scheme.parse().unwrap();
            let read = read(code, (members, alpha), scheme, &world(members as u32, even));
            assert_eq!(read.values().sum::<u64>(), least, "{code} by {scheme}");
        }
    }
}

#[test]
fn less_is_read_where_more_runs() {
    let of_node_2 = |stages: u32| {
        let world = world(8, |node| if node == 2 { stages } else { 0 });
        read("rdp-7", (8, 6), Scheme::Pipeline, &world).get(&2).copied().unwrap_or(0)
    };
    let (even, busy, busiest) = (of_node_2(0), of_node_2(1), of_node_2(40));
    assert!(even >= busy && busy >= busiest && busiest == 0, "{even} {busy} {busiest}");
}

/// A disk counts as an uplink does: less is read from a slow one, and where links are slower still nothing changes.
#[test]
fn less_is_read_from_slow_disks() {
    let of_node_2 = |disk: f64, link: f64| {
        let mut world = world(8, |_| 0);
        let nodes: Vec<NodeId> = (1..=8).map(NodeId).collect();
        let disks: Vec<Option<f64>> =
            (1..=8).map(|node| Some(if node == 2 { disk } else { 800.0 })).collect();
        let rates = LinkRates::new(&nodes, None, Some(&[Some(link); 8]), None).unwrap();
        world.links = Arc::new(rates.with_disks(&nodes, &disks).unwrap());
        read("rdp-7", (8, 6), Scheme::Conventional, &world).get(&2).copied().unwrap_or(0)
    };
    let even = of_node_2(800.0, 1_000.0);
    assert!(even > of_node_2(100.0, 1_000.0), "{even} {}", of_node_2(100.0, 1_000.0));
    assert_eq!(of_node_2(100.0, 100.0), even);
}

/// A slow node's block is not read while the others suffice; with two blocks lost besides it is.
#[test]
fn last_resorts_help_only_in_need() {
    let of_node_2 = |dead: &[u32]| {
        let mut world = world(8, |_| 0);
        world.last_resort = Arc::new([NodeId(2)].into());
        let mut nodes = (*world.nodes).clone();
        for &node in dead {
            let gone = NodeFacts { is_living: false, ..nodes.get(NodeId(node)).unwrap().clone() };
            nodes.insert(NodeId(node), gone);
        }
        world.nodes = Arc::new(nodes);
        read("rdp-7", (8, 6), Scheme::Pipeline, &world).get(&2).copied().unwrap_or(0)
    };
    assert_eq!(of_node_2(&[]), 0);
    assert!(of_node_2(&[3]) > 0, "blocks 0 and 2 are lost: all of the others are needed");
}
