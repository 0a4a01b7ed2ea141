//! Puts that are coded as they are written: what the catalog asks of their blocks.

#![allow(clippy::unwrap_used)] // a test may

use catalog::rows::GatherTerms;
use catalog::{Catalog, CatalogError, CommittedBlock, NewPut, ON_WRITE, PlannedBlock, PutEnd, PutPlace};
use disk::{CrashDisk, Disk, PowerSwitch};
use model::{BlockId, ClusterId, FlowId, MemberState, NodeId, PutId, Sums};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const PUT: PutId = PutId(7);
const BYTES: u64 = 10;
const K: usize = 2;
const END: PutEnd = PutEnd { now_ms: 0, created_ms: 0, remembered_until_ms: 100 };

/// With a put of rs-2+2 that has begun.
fn begun() -> Catalog {
    let disk: Arc<dyn Disk> = Arc::new(CrashDisk::new(&PowerSwitch::new()));
    let catalog = Catalog::open(&disk, ClusterId(1)).unwrap();
    let terms = GatherTerms {
        policy: ON_WRITE.to_owned(),
        code: "rs-2+2".to_owned(),
        rack_capacity: 0,
        target_racks: 0,
        spread: String::new(),
    };
    let (name, gathers) = ("a".to_owned(), Some(terms));
    let new = NewPut { put: PUT, name, block_bytes: BYTES, replicas: 3, lease_until_ms: 9, gathers };
    catalog.begin_put(&new).unwrap();
    catalog
}

fn planned(place: PutPlace, block: u128, node: u32) -> PlannedBlock {
    PlannedBlock {
        block: BlockId(block),
        index: place.index(),
        stored_bytes: BYTES,
        sums: Sums::default(),
        last: place == PutPlace::Data(2),
        nodes: vec![NodeId(node)],
        flow: FlowId(block),
    }
}

fn parity(stripe: u64, member: u16) -> PutPlace {
    PutPlace::Parity { stripe, member }
}

fn plan(catalog: &Catalog, blocks: &[PlannedBlock], seen: &[u128]) -> Result<(), CatalogError> {
    let seen: BTreeSet<BlockId> = seen.iter().copied().map(BlockId).collect();
    catalog.plan_coded(PUT, K, blocks, &seen, (0, 9)).map(drop)
}

fn there(block: u128, node: u32) -> CommittedBlock {
    let (block, sums, nodes) = (BlockId(block), Sums::default(), vec![NodeId(node)]);
    CommittedBlock { block, stored_bytes: BYTES, sums, nodes, by: BTreeMap::new() }
}

#[test]
fn blocks_of_a_stripe_are_placed_in_view_of_each_other() {
    let catalog = begun();
    plan(&catalog, &[planned(PutPlace::Data(0), 1, 1)], &[]).unwrap();
    // Whoever has not seen it may have chosen its node.
    let blind = plan(&catalog, &[planned(PutPlace::Data(1), 2, 2)], &[]);
    assert!(matches!(blind, Err(CatalogError::Overtaken(_))), "{blind:?}");
    let same = plan(&catalog, &[planned(PutPlace::Data(1), 2, 1)], &[1]);
    assert!(matches!(same, Err(CatalogError::Bug(_))), "{same:?}");
    plan(&catalog, &[planned(PutPlace::Data(1), 2, 2)], &[1]).unwrap();
    // Another stripe has nothing to do with that, and its own data are no parities of it.
    plan(&catalog, &[planned(PutPlace::Data(2), 3, 1)], &[]).unwrap();
    for place in [parity(0, 1), parity(u64::MAX >> 17, 2)] {
        let bad = plan(&catalog, &[planned(place, 4, 4)], &[1, 2]);
        assert!(matches!(bad, Err(CatalogError::Invalid(_) | CatalogError::Overtaken(_))), "{bad:?}");
    }
    // Planned again, elsewhere: the first plan counts no more.
    plan(&catalog, &[planned(PutPlace::Data(1), 5, 5)], &[1]).unwrap();
    let data = catalog.coded_data(PUT, K, 0).unwrap();
    assert_eq!(data.iter().map(|block| block.block.0).collect::<Vec<_>>(), [1, 5]);
    assert_eq!(catalog.coded_data(PUT, K, 1).unwrap().len(), 1);
    let lost = [BlockId(5), BlockId(3)].into();
    assert_eq!(catalog.coded_members(PUT, K, &lost).unwrap(), [(0, vec![1]), (1, vec![0])].into());
}

#[test]
fn a_coded_put_commits_with_all_parities_or_not() {
    let catalog = begun();
    plan(&catalog, &[planned(PutPlace::Data(0), 1, 1)], &[]).unwrap();
    plan(&catalog, &[planned(PutPlace::Data(1), 2, 2)], &[1]).unwrap();
    plan(&catalog, &[planned(PutPlace::Data(2), 3, 1)], &[]).unwrap();
    let of_first = [planned(parity(0, 2), 4, 3), planned(parity(0, 3), 5, 4)];
    plan(&catalog, &of_first, &[1, 2]).unwrap();
    let data = [there(1, 1), there(2, 2), there(3, 1)];
    let commit = |parities: &[CommittedBlock]| {
        let all = [&data[..], parities].concat();
        catalog.commit_put(PUT, &all, 3 * BYTES, [0; 32], END).map(drop)
    };
    let first = [there(4, 3), there(5, 4)];
    let without = commit(&first).unwrap_err().to_string();
    assert!(without.contains("it has no parities"), "{without}");
    // Of a short stripe, of which one parity would be all zero.
    plan(&catalog, &[planned(parity(1, 2), 6, 2)], &[3]).unwrap();
    for wrong in [&first[..], &[there(4, 3), there(5, 9), there(6, 2)]] {
        let refused = commit(wrong).unwrap_err().to_string();
        assert!(refused.contains("not durable where it was planned"), "{refused}");
    }
    // A data block that is planned anew makes its stripe's parities void.
    plan(&catalog, &[planned(PutPlace::Data(2), 3, 1)], &[]).unwrap();
    assert!(commit(&[there(4, 3), there(5, 4), there(6, 2)]).is_err());
    assert!(catalog.object("a").is_err());
    plan(&catalog, &[planned(parity(1, 2), 7, 2)], &[3]).unwrap();
    commit(&[there(7, 2), there(5, 4), there(4, 3)]).unwrap();
    let (object, blocks) = catalog.object("a").unwrap();
    assert_eq!((object.object_bytes, blocks.len()), (3 * BYTES, 3));
    let members = |at: usize| {
        let stripe = blocks[at].stripe.clone().unwrap();
        let stored = |state: &MemberState<(BlockId, _)>| state.stored().map_or(0, |(block, _)| block.0);
        (stripe.index, stripe.members.iter().map(stored).collect::<Vec<_>>())
    };
    assert_eq!(members(0), (0, vec![1, 2, 4, 5]));
    assert_eq!(members(1), (1, vec![1, 2, 4, 5]));
    assert_eq!(members(2), (0, vec![3, 0, 7, 0]));
    // The same commit again is answered as it was.
    commit(&[there(4, 3), there(5, 4), there(7, 2)]).unwrap();
}
