//! Who has room: as much as is known, and an error that counts.

#![allow(clippy::unwrap_used)] // a test may

use model::NodeId;
use plan::decide::{DecideError, NodeFacts, World, replica_nodes};
use plan::{ByNode, Draw, RackId, Topology};
use std::collections::BTreeSet;
use std::sync::Arc;

const BLOCK: u64 = 64 << 20;

/// Nodes 1, 2, … with this room each.
fn world(rooms: &[Option<u64>]) -> World {
    let (mut nodes, mut topology) = (ByNode::default(), Topology::default());
    for (node, &free_bytes) in (1..).map(NodeId).zip(rooms) {
        nodes.insert(node, NodeFacts { is_living: true, free_bytes, ..NodeFacts::default() });
        topology.insert(node, RackId(node.0 % 2));
    }
    World { nodes: Arc::new(nodes), topology: Arc::new(topology), ..World::default() }
}

#[test]
fn replicas_go_to_nodes_with_room_and_those_that_said_nothing_of_it() {
    let world = world(&[Some(0), Some(10 * BLOCK), None, Some(BLOCK), Some(10 * BLOCK)]);
    let mut draw = Draw::seeded(1);
    for _ in 0..50 {
        let nodes = replica_nodes(&world, (3, 2), BLOCK, &BTreeSet::new(), &mut draw).unwrap();
        // A block's sidecar needs some too: room for the bytes alone is none.
        assert_eq!(nodes.into_iter().collect::<BTreeSet<_>>(), [2, 3, 5].map(NodeId).into());
    }
}

#[test]
fn an_error_tells_a_lack_of_room_from_a_lack_of_nodes() {
    let world = world(&[Some(0), Some(10 * BLOCK), Some(BLOCK / 2)]);
    let nodes = |avoid: &[u32]| {
        replica_nodes(
            &world,
            (3, 2),
            BLOCK,
            &avoid.iter().copied().map(NodeId).collect(),
            &mut Draw::seeded(2),
        )
    };
    assert_eq!(nodes(&[]), Err(DecideError::NoRoom { roomy: 1, usable: 3, needed: 2, bytes: BLOCK }));
    assert_eq!(nodes(&[1, 3]), Err(DecideError::NotEnoughNodes { alive: 1, needed: 2 }));
    assert_eq!(world.roomy(&BTreeSet::new(), 0, 2).unwrap().len(), 2);
}

#[test]
fn a_node_with_less_than_a_tenth_of_its_room_free_is_nearly_full() {
    let node = |stored_bytes, free_bytes| NodeFacts { stored_bytes, free_bytes, ..NodeFacts::default() };
    assert!(node(90, Some(10)).is_nearly_full() && node(0, Some(0)).is_nearly_full());
    assert!(!node(89, Some(11)).is_nearly_full());
    assert!(!node(90, None).is_nearly_full(), "nobody knows");
}

#[test]
fn an_archival_may_use_room_that_other_blocks_may_not() {
    let node = NodeFacts { free_bytes: Some(0), archival_free_bytes: Some(2 << 20), ..NodeFacts::default() };
    assert!(!node.has_room(64 << 10) && node.has_room_to_archive(64 << 10));
    assert!(!node.has_room_to_archive(2 << 20));
}
