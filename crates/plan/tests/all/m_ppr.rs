//! m-PPR (PPR §5): weights, loads, disjoint servers, rules of stripes and racks.

#![allow(clippy::unwrap_used)] // a test may

use model::NodeId;
use plan::m_ppr::{Coefficients, LostChunk, MPpr, Servers};
use plan::{Draw, PlanError, RackId, Topology};
use std::collections::BTreeSet;

const MIB: u64 = 1 << 20;

fn nodes(ids: impl IntoIterator<Item = u32>) -> Vec<NodeId> {
    ids.into_iter().map(NodeId).collect()
}

fn planner(count: u32, racks: u32, user: impl Fn(NodeId) -> u64) -> MPpr {
    let topology: Topology = (0..count).map(|n| (NodeId(n), RackId(n % racks))).collect();
    MPpr::new(&topology, &nodes(0..count), user, Coefficients::default()).unwrap()
}

fn chunk(survivors: &[u32], cached: &[u32], needed: usize) -> LostChunk {
    LostChunk {
        survivors: survivors.iter().map(|&n| (NodeId(n), cached.contains(&n))).collect(),
        needed,
        holders: nodes(survivors.iter().copied()),
        bytes: MIB,
    }
}

fn sources(servers: &Servers) -> BTreeSet<u32> {
    servers.sources.iter().map(|node| node.0).collect()
}

#[test]
fn a_cached_chunk_is_a_source_before_others_but_not_before_disjoint_servers() {
    let mut plan = planner(12, 12, |_| 0);
    let lost = chunk(&[0, 1, 2, 3, 4, 5], &[4, 5], 3);
    assert_eq!(sources(&plan.plan(&lost).unwrap()), BTreeSet::from([4, 5, 0]));
    // The next repair of such a stripe goes to those that serve none, cached or not.
    assert_eq!(sources(&plan.plan(&lost).unwrap()), BTreeSet::from([1, 2, 3]));
}

/// One repair of k = 3 moves C·⌈log2(4)⌉ = 2 MiB at most: so much user load weighs as much.
#[test]
fn user_load_weighs_in_bytes_against_repairs_and_cache() {
    let load = |bytes: u64| move |node: NodeId| if node.0 < 2 { bytes } else { 0 };
    let lost = chunk(&[0, 1, 2, 3, 4], &[0, 1], 3);
    // A cached chunk is worth a quarter of a repair, 512 KiB.
    assert!(sources(&planner(9, 9, load(MIB / 2 - 1)).plan(&lost).unwrap()).contains(&0));
    assert!(!sources(&planner(9, 9, load(MIB / 2 + 1)).plan(&lost).unwrap()).contains(&0));
    // Nodes 2, 3, 4 serve one repair; then 0 and 1 are better, up to 2.5 MiB for users.
    for (bytes, first) in [(5 * MIB / 2 - 1, 0), (5 * MIB / 2 + 1, 2)] {
        let mut plan = planner(9, 9, load(bytes));
        assert_eq!(sources(&plan.plan(&lost).unwrap()), BTreeSet::from([2, 3, 4]));
        assert_eq!(plan.plan(&lost).unwrap().sources[0], NodeId(first), "{bytes}");
    }
}

#[test]
fn destinations_hold_nothing_of_the_stripe_and_keep_racks_even() {
    let mut draw = Draw::seeded(5);
    for _ in 0..500 {
        let mut plan = planner(30, 6, |node| u64::from(node.0 % 3) * MIB);
        for _ in 0..5 {
            let mut all: Vec<u32> = (0..30).collect();
            draw.shuffle(&mut all);
            all.truncate(13);
            let lost = chunk(&all, &[], 10);
            let Servers { sources, destination } = plan.plan(&lost).unwrap();
            assert!(sources.iter().all(|node| all.contains(&node.0)) && !all.contains(&destination.0));
            assert_eq!(sources.iter().collect::<BTreeSet<_>>().len(), 10);
            let in_rack = |rack: u32| all.iter().filter(|node| *node % 6 == rack).count();
            let free = (0..30).filter(|node| !all.contains(node)).map(|node| in_rack(node % 6)).min();
            assert_eq!(Some(in_rack(destination.0 % 6)), free);
        }
    }
}

/// As PPR §7.5: simultaneous failures spread over the servers.
#[test]
fn many_repairs_at_once_share_the_work() {
    let mut draw = Draw::seeded(11);
    let (mut planned, mut blind) = ([[0_u32; 60]; 2], [[0_u32; 60]; 2]);
    let mut plan = planner(60, 60, |_| 0);
    for _ in 0..30 {
        let mut all: Vec<u32> = (0..60).collect();
        draw.shuffle(&mut all);
        let lost = chunk(&all[..13], &[], 10);
        all[..10].iter().for_each(|&node| blind[0][node as usize] += 1);
        blind[1][all[13] as usize] += 1;
        let servers = plan.plan(&lost).unwrap();
        servers.sources.iter().for_each(|node| planned[0][node.0 as usize] += 1);
        planned[1][servers.destination.0 as usize] += 1;
    }
    // 300 sources and 30 destinations on 60 servers.
    let most = |loads: &[u32; 60]| loads.iter().copied().max().unwrap();
    assert!(most(&planned[0]) <= 7 && most(&planned[0]) < most(&blind[0]), "{planned:?} {blind:?}");
    assert_eq!(most(&planned[1]), 1);
}

#[test]
fn repairs_under_way_count_until_they_end() {
    let mut plan = planner(8, 8, |_| 0);
    let lost = chunk(&[0, 1, 2, 3], &[], 2);
    let running = Servers { sources: nodes([0, 1]), destination: NodeId(4) };
    plan.add(&running, MIB);
    let first = plan.plan(&lost).unwrap();
    assert_eq!((sources(&first), first.destination), (BTreeSet::from([2, 3]), NodeId(5)));
    plan.end(&first, MIB);
    plan.end(&running, MIB);
    let next = plan.plan(&lost).unwrap();
    assert_eq!((sources(&next), next.destination), (BTreeSet::from([0, 1]), NodeId(4)));
}

#[test]
fn what_cannot_be_planned_is_said_and_changes_no_load() {
    let mut plan = planner(5, 5, |_| 0);
    let lost = chunk(&[0, 1, 2, 3], &[], 2);
    let too_few = plan.plan(&LostChunk { needed: 5, ..lost.clone() });
    assert_eq!(too_few, Err(PlanError::NotEnoughHelpers { needed: 5, available: 4 }));
    assert_eq!(plan.plan(&LostChunk { needed: 0, ..lost.clone() }), Err(PlanError::NoHelpers));
    let full = plan.plan(&LostChunk { holders: nodes(0..5), ..lost.clone() });
    assert_eq!(full, Err(PlanError::NoTarget { alive: 5 }));
    let unknown = plan.plan(&chunk(&[0, 77], &[], 2));
    assert_eq!(unknown, Err(PlanError::UnknownNode { node: NodeId(77) }));
    let next = plan.plan(&lost).unwrap();
    assert_eq!((sources(&next), next.destination), (BTreeSet::from([0, 1]), NodeId(4)));
}
