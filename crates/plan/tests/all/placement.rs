//! Where replicas and stripes go: distinct nodes always, few moves, even racks.

#![allow(clippy::unwrap_used)] // a test may

use std::collections::{BTreeMap, BTreeSet};

use model::NodeId;
use plan::placement::random::random;
use plan::{Archival, ArchiveRequest, Draw, PlanError, RackId, Topology, archive};

fn cluster(nodes: u32, racks: u32) -> (Topology, Vec<NodeId>) {
    let topology: Topology = (0..nodes).map(|n| (NodeId(n), RackId(n % racks))).collect();
    let alive = topology.nodes().collect();
    (topology, alive)
}

fn distinct(nodes: &[NodeId]) -> bool {
    nodes.iter().collect::<BTreeSet<_>>().len() == nodes.len()
}

#[test]
fn replicas_lie_on_one_node_of_a_rack_and_several_of_one_other() {
    let (topology, alive) = cluster(30, 5);
    let mut draw = Draw::seeded(1);
    let mut used = BTreeMap::<NodeId, usize>::new();
    for _ in 0..3_000 {
        let nodes = random(&topology, &alive, 3, &mut draw).unwrap();
        assert!(nodes.len() == 3 && distinct(&nodes));
        let racks: Vec<RackId> = nodes.iter().map(|&node| topology.rack_of(node).unwrap()).collect();
        assert!(racks[0] != racks[1] && racks[1] == racks[2]);
        nodes.iter().for_each(|&node| *used.entry(node).or_default() += 1);
    }
    // 300 replicas a node are expected; seven standard deviations are about 115.
    assert!(used.len() == 30 && used.values().all(|count| (185..415).contains(count)), "{used:?}");
}

#[test]
fn replicas_are_distinct_where_racks_are_few_or_small() {
    let mut draw = Draw::seeded(2);
    for (nodes, racks) in [(3, 1), (4, 4), (5, 2), (40, 3)] {
        let (topology, alive) = cluster(nodes, racks);
        for copies in 0..=3 {
            for _ in 0..50 {
                let placed = random(&topology, &alive, copies, &mut draw).unwrap();
                assert!(placed.len() == copies && distinct(&placed));
                let spread: BTreeSet<RackId> =
                    placed.iter().map(|&node| topology.rack_of(node).unwrap()).collect();
                assert!(spread.len() >= copies.min(2).min(racks as usize));
            }
        }
        let all = nodes as usize;
        assert!(matches!(
            random(&topology, &alive, all + 1, &mut draw),
            Err(PlanError::NotEnoughNodes { needed, alive, .. }) if needed == all + 1 && alive == all
        ));
    }
}

#[test]
fn a_seed_draws_the_same_again() {
    let (topology, alive) = cluster(30, 5);
    let draws = |seed| {
        let mut draw = Draw::seeded(seed);
        (0..20).map(|_| random(&topology, &alive, 3, &mut draw).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(draws(3), draws(3));
    assert_ne!(draws(3), draws(4));
}

/// Most blocks that can have a node of their own, at most so many in a rack, by trying every choice.
fn most_matched(
    replicas: &[Vec<NodeId>],
    (topology, limit): (&Topology, usize),
    used: &mut Vec<NodeId>,
) -> usize {
    let Some((first, rest)) = replicas.split_first() else { return 0 };
    let mut most = most_matched(rest, (topology, limit), used);
    for &node in first {
        let in_rack = used.iter().filter(|&&other| topology.rack_of(other) == topology.rack_of(node)).count();
        if !used.contains(&node) && in_rack < limit {
            used.push(node);
            most = most.max(1 + most_matched(rest, (topology, limit), used));
            used.pop();
        }
    }
    most
}

#[test]
fn archival_moves_no_more_blocks_than_it_must() {
    let mut draw = Draw::seeded(5);
    let (mut moved, mut bounded) = (0, 0);
    for round in 0..2_000 {
        let (nodes, racks) = (8 + draw.below(5), 1 + draw.below(4));
        let (topology, alive) = cluster(nodes as u32, racks as u32);
        let copies = 1 + draw.below(3);
        // Often few different nodes, or those of one rack, so that replicas collide.
        let step = if round % 3 == 0 { racks } else { 1 };
        let replica = |draw: &mut Draw| NodeId((draw.below(2 + round % 4) * step % nodes) as u32);
        let replicas: Vec<Vec<NodeId>> =
            (0..4).map(|_| (0..copies).map(|_| replica(&mut draw)).collect()).collect();
        let request = ArchiveRequest {
            code: "rs-4+2",
            topology: &topology,
            alive: &alive,
            full: &BTreeSet::new(),
            replicas: &replicas,
            parities: 2,
            tolerance: 2,
        };
        let archival = archive(&request, &mut draw).unwrap();
        check(&archival, &replicas);
        let kept = archival.data.iter().filter(|kept| kept.read_from == kept.stored_at).count();
        // Two lost blocks are outlived; what is more in a rack is so only where racks are too few, or too small.
        let racks = topology.by_rack(&alive).unwrap();
        let limit =
            (2..=6).find(|&limit| racks.values().map(|nodes| nodes.len().min(limit)).sum::<usize>() >= 6);
        assert_eq!(kept, most_matched(&replicas, (&topology, limit.unwrap()), &mut Vec::new()));
        let stored = archival.data.iter().map(|kept| kept.stored_at).chain(archival.parities.iter().copied());
        let most = blocks_by_rack(&topology, stored).into_values().max();
        assert!(most <= limit, "{most:?} in a rack of {racks:?}, and not {limit:?}");
        moved += 4 - kept;
        bounded += usize::from(kept < most_matched(&replicas, (&topology, 6), &mut Vec::new()));
    }
    assert!(
        moved > 1_000 && bounded > 100,
        "the cases were too easy: {moved} moves, {bounded} for the racks"
    );
}

fn blocks_by_rack(topology: &Topology, nodes: impl Iterator<Item = NodeId>) -> BTreeMap<RackId, usize> {
    let mut racks = BTreeMap::new();
    for node in nodes {
        *racks.entry(topology.rack_of(node).unwrap()).or_default() += 1;
    }
    racks
}

fn check(archival: &Archival, replicas: &[Vec<NodeId>]) {
    let stored = archival.data.iter().map(|kept| kept.stored_at);
    assert!(distinct(&stored.chain(archival.parities.iter().copied()).collect::<Vec<_>>()));
    assert!(archival.data.iter().zip(replicas).all(|(kept, replicas)| replicas.contains(&kept.read_from)));
}

/// 14 blocks over 5 racks of 6 nodes, three random replicas each: no rack need have more than three.
#[test]
fn archival_spreads_a_stripe_evenly_over_racks() {
    let (topology, alive) = cluster(30, 5);
    let mut draw = Draw::seeded(6);
    let mut uneven = 0;
    for _ in 0..300 {
        let replicas: Vec<Vec<NodeId>> =
            (0..10).map(|_| random(&topology, &alive, 3, &mut draw).unwrap()).collect();
        let request = ArchiveRequest {
            code: "rs-10+4",
            topology: &topology,
            alive: &alive,
            full: &BTreeSet::new(),
            replicas: &replicas,
            parities: 4,
            tolerance: 4,
        };
        let archival = archive(&request, &mut draw).unwrap();
        check(&archival, &replicas);
        let stored = archival.data.iter().map(|kept| kept.stored_at).chain(archival.parities);
        let racks = blocks_by_rack(&topology, stored);
        uneven += usize::from(racks.values().any(|&blocks| blocks > 3));
    }
    assert!(uneven <= 3, "{uneven} of 300 stripes");
}

#[test]
fn archival_names_what_is_missing() {
    let (topology, alive) = cluster(6, 2);
    let replicas = vec![vec![NodeId(0)], vec![NodeId(1), NodeId(5)]];
    let request = ArchiveRequest {
        code: "rs-2+2",
        topology: &topology,
        alive: &alive[..3],
        full: &BTreeSet::new(),
        replicas: &replicas,
        parities: 2,
        tolerance: 2,
    };
    let mut draw = Draw::seeded(8);
    assert_eq!(
        archive(&request, &mut draw),
        Err(PlanError::NotEnoughNodes { code: "rs-2+2".to_owned(), needed: 4, alive: 3 })
    );
    let later = ArchiveRequest { alive: &alive[1..], ..request };
    assert_eq!(archive(&later, &mut draw), Err(PlanError::NoReplica { block: 0 }));
}
