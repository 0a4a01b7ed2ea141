//! Rack-aware path selection (RP §4.2) against every path.

#![allow(clippy::unwrap_used)] // a test may

use std::collections::BTreeMap;

use model::NodeId;
use plan::path::rack_aware_path;
use plan::{Draw, PlanError, RackId, Topology};

/// Streams between racks on the best path through `k` of `helpers` to a node of rack `head`, by trying all.
fn fewest(topology: &Topology, helpers: &[NodeId], k: usize, head: RackId) -> usize {
    if k == 0 {
        return 0;
    }
    let through = |&helper: &NodeId| {
        let others: Vec<NodeId> = helpers.iter().copied().filter(|&other| other != helper).collect();
        let rack = topology.rack_of(helper).unwrap();
        usize::from(rack != head) + fewest(topology, &others, k - 1, rack)
    };
    helpers.iter().map(through).min().unwrap()
}

#[test]
fn no_path_crosses_racks_less_and_no_rack_has_two_streams() {
    let mut draw = Draw::seeded(42);
    let mut by_cost = [0; 5];
    for _ in 0..1_500 {
        let (nodes, racks) = (2 + draw.below(6), 1 + draw.below(4));
        let topology: Topology =
            (0..nodes).map(|node| (NodeId(node as u32), RackId(draw.below(racks) as u32))).collect();
        let mut helpers: Vec<NodeId> = topology.nodes().collect();
        draw.shuffle(&mut helpers);
        let requestor = helpers.pop().unwrap();
        let k = 1 + draw.below(helpers.len());
        let found = rack_aware_path(&topology, &helpers, k, requestor).unwrap();
        let best = fewest(&topology, &helpers, k, topology.rack_of(requestor).unwrap());

        assert_eq!((found.path.len(), found.path.last()), (k + 1, Some(&requestor)));
        assert!(found.path[..k].iter().all(|node| helpers.contains(node)));
        let (mut leave, mut enter) = (BTreeMap::new(), BTreeMap::new());
        for link in found.path.windows(2) {
            let [from, to] = [link[0], link[1]].map(|node| topology.rack_of(node).unwrap());
            if from != to {
                *leave.entry(from).or_insert(0) += 1;
                *enter.entry(to).or_insert(0) += 1;
            }
        }
        assert!(leave.values().chain(enter.values()).all(|&streams| streams == 1));
        assert_eq!((leave.values().sum::<usize>(), found.cross_rack), (best, best));
        by_cost[best] += 1;
    }
    assert!(by_cost[..4].iter().all(|&cases| cases > 10), "{by_cost:?}");
}

/// RP figure 5: helpers of the requestor's rack last, then the fullest racks; the first of each are preferred.
#[test]
fn near_racks_come_last_and_full_ones_before_empty_ones() {
    let racks = [(0, 0), (1, 0), (2, 1), (3, 2), (4, 2), (5, 2), (6, 3), (7, 3)];
    let topology: Topology = racks.into_iter().map(|(node, rack)| (NodeId(node), RackId(rack))).collect();
    let nodes = |ids: &[u32]| ids.iter().copied().map(NodeId).collect::<Vec<_>>();
    let helpers = nodes(&[2, 7, 5, 3, 1, 4, 6]);
    let path = |k| rack_aware_path(&topology, &helpers, k, NodeId(0)).unwrap();
    assert_eq!((path(5).path, path(5).cross_rack), (nodes(&[7, 4, 3, 5, 1, 0]), 2));
    assert_eq!((path(1).path, path(1).cross_rack), (nodes(&[1, 0]), 0));
    assert_eq!(path(7).cross_rack, 3);
}

#[test]
fn nonsense_is_told_apart() {
    let topology: Topology = (0..3).map(|node| (NodeId(node), RackId(node))).collect();
    let path = |helpers: &[u32], k, requestor| {
        let helpers: Vec<NodeId> = helpers.iter().copied().map(NodeId).collect();
        rack_aware_path(&topology, &helpers, k, NodeId(requestor)).map(|found| found.cross_rack)
    };
    assert_eq!(path(&[1, 2], 2, 0), Ok(2));
    assert_eq!(path(&[1, 2], 0, 0), Err(PlanError::NoHelpers));
    assert_eq!(path(&[1, 2], 3, 0), Err(PlanError::NotEnoughHelpers { needed: 3, available: 2 }));
    assert_eq!(path(&[1, 1], 1, 0), Err(PlanError::RepeatedNode { node: 1 }));
    assert_eq!(path(&[0, 1], 1, 0), Err(PlanError::RepeatedNode { node: 0 }));
    assert_eq!(path(&[1, 9], 1, 0), Err(PlanError::UnknownNode { node: NodeId(9) }));
    assert_eq!(path(&[1], 1, 9), Err(PlanError::UnknownNode { node: NodeId(9) }));
}
