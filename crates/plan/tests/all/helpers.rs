//! Least-recently-selected helpers (RP §3.3) and the choice of requestors and stripes.

#![allow(clippy::unwrap_used)] // a test may

use model::NodeId;
use plan::{Draw, LeastRecent, PlanError, RackId, Topology, Urgency, requestor};

fn nodes(ids: impl IntoIterator<Item = u32>) -> Vec<NodeId> {
    ids.into_iter().map(NodeId).collect()
}

#[test]
fn the_selected_are_never_more_recent_than_the_others() {
    let mut draw = Draw::seeded(7);
    let mut recent = LeastRecent::default();
    let mut last = [0_u64; 30];
    for round in 1..=2_000 {
        let mut stripe = nodes(0..30);
        draw.shuffle(&mut stripe);
        stripe.truncate(13);
        let count = draw.below(14);
        let order = recent.preference(&stripe);
        let chosen = recent.select(&stripe, count).unwrap();
        let mut preferred = order[..count].to_vec();
        preferred.sort_unstable();
        assert_eq!(chosen, preferred);
        let age = |index: &usize| last[stripe[*index].0 as usize];
        let newest_in = chosen.iter().map(age).max().unwrap_or(0);
        let oldest_out = (0..stripe.len()).filter(|i| !chosen.contains(i)).map(|i| age(&i)).min();
        assert!(oldest_out.is_none_or(|out| newest_in <= out));
        for index in chosen {
            last[stripe[index].0 as usize] = round;
        }
    }
}

/// RS(14,10) on 40 nodes, one of them lost, 20 repairs at a time. Only 3 of 13 survivors are spared each time and
/// stripes lie unevenly, so there is little to choose: the variance of the load falls to 0.58 of what blind choice gives.
#[test]
fn a_recovery_loads_helpers_more_evenly_than_chance_does() {
    let mut draw = Draw::seeded(14);
    let mut recent = LeastRecent::default();
    let (mut fair_variance, mut blind_variance) = (0.0, 0.0);
    for _ in 0..100 {
        let (mut fair, mut blind) = ([0_u32; 39], [0_u32; 39]);
        for _ in 0..20 {
            let mut survivors = nodes(0..39);
            draw.shuffle(&mut survivors);
            survivors.truncate(13);
            survivors[..10].iter().for_each(|node| blind[node.0 as usize] += 1);
            for index in recent.select(&survivors, 10).unwrap() {
                fair[survivors[index].0 as usize] += 1;
            }
        }
        fair_variance += variance(&fair);
        blind_variance += variance(&blind);
    }
    assert!(fair_variance < 0.65 * blind_variance, "{fair_variance} {blind_variance}");
}

fn variance(load: &[u32]) -> f64 {
    let mean = f64::from(load.iter().sum::<u32>()) / load.len() as f64;
    load.iter().map(|&load| (f64::from(load) - mean).powi(2)).sum::<f64>() / load.len() as f64
}

#[test]
fn too_few_candidates_are_an_error_and_mark_nobody() {
    let mut recent = LeastRecent::default();
    let error = recent.select(&nodes([1, 2]), 3);
    assert_eq!(error, Err(PlanError::NotEnoughHelpers { needed: 3, available: 2 }));
    assert_eq!(recent.select(&nodes([1, 2, 3]), 2), Ok(vec![0, 1]));
    assert_eq!(recent.select(&nodes([1, 2, 3]), 2), Ok(vec![0, 2]));
}

#[test]
fn a_repaired_block_goes_to_the_emptiest_rack_then_the_least_loaded_node() {
    let topology: Topology = (0..9).map(|n| (NodeId(n), RackId(n / 3))).collect();
    let alive = nodes(0..9);
    let load = |node: NodeId| u64::from(9 - node.0);
    let stripe = nodes([0, 1, 3, 6, 42]);
    assert_eq!(requestor(&topology, &alive, &stripe, load), Ok(NodeId(8)));
    assert_eq!(requestor(&topology, &alive, &stripe, |_| 0), Ok(NodeId(4)));
    assert_eq!(requestor(&topology, &nodes([0, 1, 2]), &stripe, load), Ok(NodeId(2)));
    let full = requestor(&topology, &nodes([0, 1, 3]), &stripe, load);
    assert_eq!(full, Err(PlanError::NoTarget { alive: 3 }));
    let unknown = requestor(&topology, &nodes([50]), &stripe, load);
    assert_eq!(unknown, Err(PlanError::UnknownNode { node: NodeId(50) }));
}

#[test]
fn stripes_nearest_to_loss_come_first() {
    let mut stripes =
        [('a', 13, 10), ('b', 9, 10), ('c', 10, 10), ('d', 2, 1), ('e', 11, 10), ('f', 1, 1), ('g', 8, 10)];
    stripes.sort_by_key(|&(_, survivors, needed)| Urgency::of(survivors, needed));
    assert_eq!(stripes.map(|(stripe, ..)| stripe), ['c', 'f', 'd', 'e', 'a', 'b', 'g']);
}
