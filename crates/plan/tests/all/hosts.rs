//! Nodes that share a host fail together: no two of them are given blocks of one stripe, or replicas of one block.

#![allow(clippy::unwrap_used)] // a test may

use codes::Code;
use model::NodeId;
use plan::decide::{NodeFacts, World, stripe_nodes};
use plan::placement::random::random;
use plan::{ArchiveRequest, Draw, Host, PlanError, RackId, Topology, archive, requestor};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Hosts of one to three nodes, whole ones in each rack, numbered in a random order.
fn cluster(hosts: u32, racks: u32, draw: &mut Draw) -> (Topology, Vec<NodeId>) {
    let mut sites: Vec<(RackId, Option<u32>)> = Vec::new();
    for host in 0..hosts {
        let nodes = 1 + draw.below(3);
        let shared = (nodes > 1).then_some(host);
        sites.extend((0..nodes).map(|_| (RackId(host % racks), shared)));
    }
    draw.shuffle(&mut sites);
    let mut topology = Topology::default();
    for (node, (rack, host)) in (1..).map(NodeId).zip(sites) {
        topology.insert_on(node, rack, host.map_or(Host::Own(node), Host::Shared));
    }
    let alive = topology.nodes().collect();
    (topology, alive)
}

fn distinct(topology: &Topology, nodes: &[NodeId]) -> bool {
    topology.hosts(nodes.iter().copied()).len() == nodes.len()
}

#[test]
fn replicas_of_a_block_lie_on_hosts_of_their_own() {
    let mut draw = Draw::seeded(1);
    for _ in 0..200 {
        let hosts = 1 + draw.below(8) as u32;
        let (topology, alive) = cluster(hosts, 1 + draw.below(3) as u32, &mut draw);
        for copies in 0..=hosts as usize {
            let placed = random(&topology, &alive, copies, &mut draw).unwrap();
            assert!(placed.len() == copies && distinct(&topology, &placed));
        }
        let too_many = random(&topology, &alive, hosts as usize + 1, &mut draw);
        assert!(
            matches!(too_many, Err(PlanError::NotEnoughNodes { alive, .. }) if alive == hosts as usize),
            "hosts are counted, not their nodes"
        );
    }
}

#[test]
fn every_node_of_a_host_gets_its_share() {
    let mut topology = Topology::default();
    (1..=3).for_each(|node| topology.insert_on(NodeId(node), RackId(0), Host::Shared(0)));
    topology.insert(NodeId(4), RackId(1));
    let alive: Vec<NodeId> = topology.nodes().collect();
    let mut draw = Draw::seeded(3);
    let mut used = [0; 5];
    for _ in 0..3_000 {
        random(&topology, &alive, 2, &mut draw).unwrap().iter().for_each(|node| used[node.0 as usize] += 1);
    }
    // 1,000 each are expected; seven standard deviations are about 180.
    assert!(used[1..4].iter().all(|count| (820..1_180).contains(count)) && used[4] == 3_000, "{used:?}");
}

/// Blocks that are written stay where they are, also where a rack has more of them than the code outlives the loss of: no other
/// block comes beside one.
#[test]
fn what_is_added_to_a_stripe_comes_beside_none_of_its_blocks() {
    let mut draw = Draw::seeded(11);
    let (code, mut crowded) = (Code::parse("rs-4+2").unwrap(), 0);
    for round in 0..500 {
        let hosts = 6 + draw.below(6) as u32;
        let (topology, alive) = cluster(hosts, 1 + draw.below(4) as u32, &mut draw);
        let rack = topology.rack_of(alive[0]).unwrap();
        let near = alive.iter().copied().filter(|&n| round % 2 == 1 || topology.rack_of(n) == Ok(rack));
        let mut placed: Vec<NodeId> = Vec::new();
        for node in near {
            if placed.len() < 4 && distinct(&topology, &[&placed[..], &[node]].concat()) {
                placed.push(node);
            }
        }
        crowded += usize::from(round % 2 == 0 && placed.len() > code.tolerance());
        let living = NodeFacts { is_living: true, ..NodeFacts::default() };
        let nodes = alive.iter().map(|&node| (node, living.clone())).collect();
        let world = World { nodes: Arc::new(nodes), topology: Arc::new(topology), ..World::default() };
        let more = code.n() - placed.len();
        let added = stripe_nodes(&world, &code, (&placed, more), 1, &BTreeSet::new(), &mut draw).unwrap();
        let all = [placed, added].concat();
        assert!(all.len() == 6 && distinct(&world.topology, &all), "{all:?}");
    }
    assert!(crowded > 100, "{crowded}");
}

#[test]
fn an_archived_stripe_has_a_host_for_each_block_and_keeps_what_it_can() {
    let mut draw = Draw::seeded(5);
    for _ in 0..300 {
        let (data, parities) = (1 + draw.below(4), 1 + draw.below(3));
        let hosts = (data + parities + draw.below(4)) as u32;
        let (topology, alive) = cluster(hosts, 1 + draw.below(4) as u32, &mut draw);
        let copies = 1 + draw.below(2.min(hosts as usize));
        let replicas: Vec<Vec<NodeId>> =
            (0..data).map(|_| random(&topology, &alive, copies, &mut draw).unwrap()).collect();
        let full = BTreeSet::new();
        let request = ArchiveRequest {
            code: "c",
            topology: &topology,
            alive: &alive,
            full: &full,
            replicas: &replicas,
            parities,
            tolerance: data + parities,
        };
        let made = archive(&request, &mut draw).unwrap();
        let stored: Vec<NodeId> =
            made.data.iter().map(|kept| kept.stored_at).chain(made.parities.iter().copied()).collect();
        assert!(stored.len() == data + parities && distinct(&topology, &stored), "{made:?}");
        for (kept, replicas) in made.data.iter().zip(&replicas) {
            assert!(replicas.contains(&kept.read_from));
        }
        let moved = made.data.iter().filter(|kept| kept.stored_at != kept.read_from).count();
        assert_eq!(data - moved, most_kept(&topology, &replicas, &BTreeSet::new()), "no more move than must");
    }
}

/// Most blocks that can stay where they are, on a host each, by trying every choice.
fn most_kept(topology: &Topology, replicas: &[Vec<NodeId>], taken: &BTreeSet<Host>) -> usize {
    let Some((first, rest)) = replicas.split_first() else { return 0 };
    let free = first.iter().map(|&node| topology.host_of(node)).filter(|host| !taken.contains(host));
    let kept = free.map(|host| 1 + most_kept(topology, rest, &taken.iter().copied().chain([host]).collect()));
    kept.max().unwrap_or(0).max(most_kept(topology, rest, taken))
}

#[test]
fn an_archival_needs_as_many_hosts_as_blocks_whatever_the_number_of_nodes() {
    let mut topology = Topology::default();
    (1..=6).for_each(|node| topology.insert_on(NodeId(node), RackId(0), Host::Shared(node % 2)));
    let alive: Vec<NodeId> = topology.nodes().collect();
    let (full, replicas) = (BTreeSet::new(), [vec![NodeId(1)], vec![NodeId(2)]]);
    let request = ArchiveRequest {
        code: "c",
        topology: &topology,
        alive: &alive,
        full: &full,
        replicas: &replicas,
        parities: 1,
        tolerance: 1,
    };
    let refused = archive(&request, &mut Draw::seeded(1));
    assert!(matches!(refused, Err(PlanError::NotEnoughNodes { needed: 3, alive: 2, .. })), "{refused:?}");
}

#[test]
fn a_repaired_block_never_goes_beside_another_of_its_stripe() {
    let mut draw = Draw::seeded(7);
    for _ in 0..500 {
        let hosts = 2 + draw.below(8);
        let (topology, alive) = cluster(hosts as u32, 1 + draw.below(3) as u32, &mut draw);
        let survivors = random(&topology, &alive, 1 + draw.below(hosts), &mut draw).unwrap();
        let taken = topology.hosts(survivors.iter().copied());
        let chosen = requestor(&topology, &alive, &survivors, |node| u64::from(node.0 % 5));
        let open: Vec<NodeId> =
            alive.iter().copied().filter(|&node| !taken.contains(&topology.host_of(node))).collect();
        match chosen {
            Ok(node) => assert!(open.contains(&node)),
            Err(error) => assert!(open.is_empty() && matches!(error, PlanError::NoTarget { .. })),
        }
    }
}
