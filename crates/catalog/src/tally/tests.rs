//! The tally is led along, and not more often than is asked for.

use super::*;
use crate::backend::Memory;
use crate::{NewPut, PlannedBlock};
use model::{ClusterId, FlowId, PutId, Sums};

/// Three copies are in flight then.
fn plan(catalog: &Catalog, name: &str) {
    let id = u128::from(catalog.changes()) + 1;
    let (put, name) = (PutId(id), name.to_owned());
    let new = NewPut { put, name, block_bytes: 10, replicas: 3, lease_until_ms: 100, gathers: None };
    catalog.begin_put(&new).unwrap();
    let (block, flow, sums) = (BlockId(id), FlowId(id), Sums::default());
    let nodes = (1..=3).map(NodeId).collect();
    let planned = PlannedBlock { block, index: 0, stored_bytes: 10, sums, last: true, nodes, flow };
    catalog.plan_block(put, &planned, 0, 100).unwrap();
}

fn in_flight(catalog: &Catalog) -> u64 {
    catalog.survey(&BTreeSet::new()).unwrap().counts.in_flight
}

fn led_to(catalog: &Catalog) -> Option<Position> {
    catalog.tally.tally.lock().unwrap().as_ref().map(|tally| tally.position)
}

fn catalog() -> Catalog {
    let catalog = Catalog::over(Box::new(Memory::default()), ClusterId(1)).unwrap();
    catalog.begin_term(77, 0).unwrap();
    assert_eq!((led_to(&catalog), in_flight(&catalog)), (None, 0));
    catalog
}

#[test]
fn a_tally_that_nobody_asks_for_is_not_left_far_behind() {
    let catalog = catalog();
    let before = led_to(&catalog).unwrap();
    plan(&catalog, "a");
    assert_eq!(led_to(&catalog), Some(before), "a few bytes can wait");
    (0..1_000).for_each(|_| plan(&catalog, &"x".repeat(1_000)));
    let reached = led_to(&catalog).unwrap();
    let behind = catalog.records_after(&reached, usize::MAX).unwrap().unwrap();
    let behind: usize = behind.iter().map(|record| record.bytes.len()).sum();
    assert!(reached.stamp > before.stamp && behind < 2 * FOLLOW_BYTES as usize, "{behind}");
    assert_eq!(in_flight(&catalog), 3 * 1_001);
}

#[test]
fn what_cannot_be_followed_is_counted_anew() {
    let catalog = catalog();
    let lose_place = || catalog.tally.tally.lock().unwrap().as_mut().unwrap().position.hash = [7; 32];
    plan(&catalog, "a");
    lose_place();
    assert_eq!(in_flight(&catalog), 3);
    lose_place();
    catalog.tally.made(&catalog, FOLLOW_BYTES);
    assert_eq!(led_to(&catalog), None, "nothing is counted from what is not known");
    assert_eq!(in_flight(&catalog), 3);
}
