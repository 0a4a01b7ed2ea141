//! Blocks join stripes, leave them, and become part of one when it is encoded, whatever happens in between.

use crate::backend::Memory;
use crate::error::Result;
use crate::put::NewPut;
use crate::put_block::{CommittedBlock, FIRST_GENERATION, PlannedBlock};
use crate::rows::{BucketRow, GatherTerms, GatheredBlock, GatheredRow, GatheringRow, PutRow, SettledRow};
use crate::table::{Read, Row, decode_of_before};
use crate::{Catalog, CatalogError, Gathers, Join, NewStripe, Purpose, PutEnd, Staged};
use model::{BlockCopy, BlockId, ClusterId, FlowId, MemberState, NodeId, PutId, StripeId, Sums};
use std::collections::BTreeMap;

const BYTES: u64 = 10;
const NODES: [NodeId; 3] = [NodeId(1), NodeId(2), NodeId(3)];
const PARITY_NODE: NodeId = NodeId(4);
const STRIPE: StripeId = StripeId(77);
const END: PutEnd = PutEnd { now_ms: 0, created_ms: 0, remembered_until_ms: 100 };

fn terms() -> GatherTerms {
    GatherTerms {
        policy: "ear".to_owned(),
        code: "rs-2+1".to_owned(),
        rack_capacity: 1,
        target_racks: 0,
        spread: "two-racks".to_owned(),
    }
}

fn catalog() -> Catalog {
    Catalog::over(Box::new(Memory::default()), ClusterId(1)).unwrap()
}

/// A put of so many blocks, each planned and gathered in the stripe.
fn planned(catalog: &Catalog, id: u128, name: &str, blocks: u64) -> Vec<CommittedBlock> {
    let put = PutId(id);
    let name = name.to_owned();
    let new =
        NewPut { put, name, block_bytes: BYTES, replicas: 3, lease_until_ms: 100, gathers: Some(terms()) };
    catalog.begin_put(&new).unwrap();
    (0..blocks)
        .map(|index| join(catalog, put, BlockId(id * 100 + u128::from(index)), (index, blocks)).unwrap())
        .collect()
}

fn join(catalog: &Catalog, put: PutId, block: BlockId, (index, of): (u64, u64)) -> Result<CommittedBlock> {
    let planned = PlannedBlock {
        block,
        index,
        stored_bytes: BYTES,
        sums: Sums::default(),
        last: index + 1 == of,
        nodes: NODES.into(),
        flow: FlowId(block.0),
    };
    let before = catalog.gathering(STRIPE)?;
    let mut after = before.clone().unwrap_or_else(|| GatheringRow {
        terms: terms(),
        replicas: 3,
        size_class: 4,
        since_ms: 0,
        sealed_ms: None,
        core: None,
        targets: Vec::new(),
        globals: Vec::new(),
        blocks: Vec::new(),
        settled: Vec::new(),
    });
    after.blocks.push(GatheredBlock { block, nodes: NODES.into() });
    catalog.plan_gathered(put, &planned, Some(&Join { stripe: STRIPE, before, after }), 0, 100)?;
    Ok(CommittedBlock {
        block,
        stored_bytes: BYTES,
        sums: Sums::default(),
        nodes: NODES.into(),
        by: BTreeMap::new(),
    })
}

fn commit(catalog: &Catalog, id: u128, blocks: &[CommittedBlock]) {
    catalog.commit_put(PutId(id), blocks, BYTES * blocks.len() as u64, [0; 32], END).unwrap();
}

/// The blocks that wait in the stripe; an index that does not say the same is a defect.
fn waiting(catalog: &Catalog) -> Vec<BlockId> {
    let row = catalog.gathering(STRIPE).unwrap();
    let blocks: Vec<BlockId> = row.iter().flat_map(|row| &row.blocks).map(|block| block.block).collect();
    let index = catalog.view(|txn| txn.all::<GatheredRow>(&[])).unwrap();
    let mut indexed: Vec<BlockId> = index.into_iter().map(|(block, _)| block).collect();
    let mut sorted = blocks.clone();
    indexed.sort();
    sorted.sort();
    assert_eq!(indexed, sorted);
    blocks
}

#[test]
fn blocks_of_several_objects_wait_in_one_stripe_and_leave_with_their_objects() {
    let catalog = catalog();
    let (a, b) = (planned(&catalog, 1, "a", 2), planned(&catalog, 2, "b", 1));
    commit(&catalog, 1, &a);
    commit(&catalog, 2, &b);
    assert_eq!(waiting(&catalog), [a[0].block, a[1].block, b[0].block]);
    assert_eq!(catalog.gathers().unwrap(), Gathers { open: 1, sealed: 0, blocks: 3 });
    catalog.delete("a", 0).unwrap();
    assert_eq!(waiting(&catalog), [b[0].block]);
    // Overwritten is gone, too.
    let new = planned(&catalog, 3, "b", 1);
    commit(&catalog, 3, &new);
    assert_eq!(waiting(&catalog), [new[0].block]);
    catalog.delete("b", 0).unwrap();
    assert_eq!((waiting(&catalog), catalog.gathers().unwrap()), (vec![], Gathers::default()));
}

#[test]
fn blocks_of_a_put_that_is_given_up_leave() {
    let catalog = catalog();
    planned(&catalog, 1, "a", 2);
    let kept = planned(&catalog, 2, "b", 1);
    catalog.abort_put(PutId(1), 0).unwrap();
    assert_eq!(waiting(&catalog), [kept[0].block]);
    // What was planned for the same place of an object before, elsewhere, leaves at once.
    let again = join(&catalog, PutId(2), BlockId(999), (0, 1)).unwrap();
    assert_eq!(waiting(&catalog), [again.block]);
    commit(&catalog, 2, std::slice::from_ref(&again));
    assert_eq!(waiting(&catalog), [again.block]);
}

#[test]
fn a_block_joins_only_the_stripe_that_it_was_placed_in() {
    let catalog = catalog();
    planned(&catalog, 1, "a", 1);
    let stale = catalog.gathering(STRIPE).unwrap();
    planned(&catalog, 2, "b", 1);
    let mut after = stale.clone().unwrap();
    after.blocks.push(GatheredBlock { block: BlockId(5), nodes: NODES.into() });
    let plan = |before: Option<GatheringRow>, after: GatheringRow| {
        let planned = PlannedBlock {
            block: BlockId(5),
            index: 0,
            stored_bytes: BYTES,
            sums: Sums::default(),
            last: true,
            nodes: NODES.into(),
            flow: FlowId(5),
        };
        catalog.plan_gathered(PutId(2), &planned, Some(&Join { stripe: STRIPE, before, after }), 0, 100)
    };
    assert!(matches!(plan(stale, after.clone()), Err(CatalogError::Overtaken(_))));
    assert!(matches!(plan(None, after), Err(CatalogError::Overtaken(_))));
    catalog.seal(STRIPE, 9).unwrap();
    let sealed = catalog.gathering(STRIPE).unwrap().unwrap();
    assert_eq!(sealed.sealed_ms, Some(9));
    assert!(catalog.open_stripes().unwrap().is_empty());
    let mut after = sealed.clone();
    after.blocks.push(GatheredBlock { block: BlockId(5), nodes: NODES.into() });
    assert!(matches!(plan(Some(sealed), after), Err(CatalogError::Overtaken(_))));
    assert_eq!(waiting(&catalog).len(), 2);
}

/// Encodes two blocks, as the stripe that they wait in or as another one.
fn encode(catalog: &Catalog, stripe: StripeId, data: &[CommittedBlock]) -> Result<()> {
    let parity = BlockId(5_000);
    let kept = data.iter().zip(NODES);
    let kept = kept.map(|(b, node)| BlockCopy { block: b.block, node, generation: FIRST_GENERATION });
    let members = data.iter().map(|b| b.block).chain([parity]).map(MemberState::Stored);
    let purpose = Purpose::Encode(NewStripe {
        stripe,
        code: "rs-2+1".to_owned(),
        block_bytes: BYTES,
        members: members.collect(),
        data: 2,
        kept: kept.collect(),
    });
    let intent = catalog.begin(FlowId(1), 1, &purpose, &[(parity, PARITY_NODE)], 0)?;
    let staged = Staged { copy: intent.copies[0], stored_bytes: BYTES, sums: Sums::default(), by: None };
    let living = NODES.into_iter().chain([PARITY_NODE]).collect();
    catalog.commit(&intent, &[staged], &living, 0).map(|_| ())
}

#[test]
fn what_is_encoded_waits_no_more() {
    for stripe in [STRIPE, StripeId(78)] {
        let catalog = catalog();
        let blocks = planned(&catalog, 1, "a", 3);
        commit(&catalog, 1, &blocks);
        catalog.seal(STRIPE, 0).unwrap();
        encode(&catalog, stripe, &blocks[..2]).unwrap();
        // A stripe that is encoded is no other one's to come; what was left out of it is replicated.
        let left: &[BlockId] = if stripe == STRIPE { &[] } else { &[blocks[2].block] };
        assert_eq!(waiting(&catalog), left);
        let coded = catalog.placement(blocks[0].block).unwrap().stripe.unwrap();
        assert_eq!((coded.id, coded.index), (stripe, 0));
        catalog.seal(STRIPE, 0).unwrap();
    }
}

#[test]
fn a_stripe_whose_block_was_deleted_meanwhile_is_not_encoded() {
    let catalog = catalog();
    let (a, b) = (planned(&catalog, 1, "a", 1), planned(&catalog, 2, "b", 1));
    commit(&catalog, 1, &a);
    commit(&catalog, 2, &b);
    catalog.delete("a", 0).unwrap();
    let both = [a[0].clone(), b[0].clone()];
    assert!(matches!(encode(&catalog, STRIPE, &both), Err(CatalogError::Overtaken(_))));
    assert_eq!(waiting(&catalog), [b[0].block]);
}

#[test]
fn who_leaves_takes_the_decisions_about_its_local_group_along() {
    let catalog = catalog();
    let blocks = planned(&catalog, 1, "a", 5);
    let group = SettledRow { kept: vec![Some(1), None], parity: None };
    let settle = |groups: usize| {
        catalog
            .change(|txn| {
                let row = txn.get::<GatheringRow>(&STRIPE)?.unwrap();
                txn.put(&STRIPE, &GatheringRow { settled: vec![group.clone(); groups], ..row })
            })
            .unwrap();
    };
    let leave = |place: usize| {
        catalog.change(|txn| txn.leave(blocks[place].block)).unwrap();
        catalog.gathering(STRIPE).unwrap().unwrap().settled.len()
    };
    settle(2);
    assert_eq!((leave(4), leave(2), leave(0)), (2, 1, 0));
}

#[test]
fn puts_of_the_format_before_gather_nothing() {
    // As format 5 wrote it.
    let bytes: Vec<u8> = "010768c3b668652f78ac02808080200380d095ffbc31"
        .as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect();
    let row = decode_of_before::<PutRow>(&[0], &bytes).unwrap();
    assert_eq!((row.name.as_str(), row.version, row.replicas, row.gathers), ("höhe/x", 300, 3, None));
    assert!(decode_of_before::<PutRow>(&[0], &[&bytes[..], &[0]].concat()).is_err());
}

#[test]
fn buckets_are_kept_until_they_are_set_otherwise() {
    let catalog = catalog();
    assert_eq!(catalog.bucket("logs").unwrap(), None);
    let row = BucketRow { terms: terms(), archive_after_ms: 7 };
    catalog.set_bucket("logs", Some(&row)).unwrap();
    assert_eq!(catalog.bucket("logs").unwrap().map(|row| row.terms), Some(terms()));
    assert_eq!(catalog.buckets().unwrap().len(), 1);
    catalog.set_bucket("logs", None).unwrap();
    assert!(catalog.buckets().unwrap().is_empty());
    assert!(matches!(catalog.set_bucket("", None), Err(CatalogError::Invalid(_))));
}

#[test]
fn buckets_of_before_are_read_and_archive_nothing_by_themselves() {
    let older = postcard::to_allocvec(&terms()).unwrap();
    let read = BucketRow::of_older(1, &older).unwrap();
    assert_eq!(read, BucketRow { terms: terms(), archive_after_ms: 0 });
    assert_eq!(BucketRow::of_older(1, &[&older[..], &[0]].concat()), None);
}
