//! Stores that are gone for good, by an operator's word.

#![allow(clippy::unwrap_used)] // a test may

use catalog::backend::Memory;
use catalog::rows::{ForgottenRow, NodeRow};
use catalog::{
    Catalog, CatalogError, CommittedBlock, Loss, NewPut, NewStripe, Pass, PlannedBlock, Purpose, PutEnd,
    Staged,
};
use model::{
    BlockCopy, BlockId, ClusterId, Flaw, FlowId, Incarnation, MemberState, NodeId, PutId, StoreId, StripeId,
    Sums,
};
use std::collections::{BTreeMap, BTreeSet};

const REPLICAS: [NodeId; 3] = [NodeId(1), NodeId(2), NodeId(3)];
const GONE: NodeId = REPLICAS[0];
const STORE: StoreId = StoreId(0x11);
const START: Incarnation = Incarnation(5);
const BYTES: u64 = 10;
const END: PutEnd = PutEnd { now_ms: 0, created_ms: 0, remembered_until_ms: 0 };

/// With a node that is about to be gone.
fn catalog() -> Catalog {
    let catalog = Catalog::over(Box::new(Memory::default()), ClusterId(1)).unwrap();
    catalog.begin_term(77, 0).unwrap();
    catalog.register_node(GONE, &row(STORE), None, None).unwrap();
    catalog
}

fn row(store: StoreId) -> NodeRow {
    let addr = || "10.0.0.7:7000".to_owned();
    let rack = "r1".to_owned();
    NodeRow { control_addr: addr(), data_addr: addr(), rack, store, incarnation: START, host: String::new() }
}

/// A block of three replicas that is planned, and not yet committed.
fn planned(catalog: &Catalog, id: u128) -> PutId {
    let (put, block, sums, nodes) = (PutId(id), BlockId(id), Sums::default(), REPLICAS.to_vec());
    let name = format!("object-{id}");
    catalog
        .begin_put(&NewPut { put, name, block_bytes: BYTES, replicas: 3, lease_until_ms: 100, gathers: None })
        .unwrap();
    let (index, last, flow) = (0, true, FlowId(id));
    let planned = PlannedBlock { block, index, stored_bytes: BYTES, sums, last, nodes, flow };
    catalog.plan_block(put, &planned, 0, 100).unwrap();
    put
}

fn put(catalog: &Catalog, id: u128) -> BlockId {
    let (put, block, sums) = (planned(catalog, id), BlockId(id), Sums::default());
    let committed =
        CommittedBlock { block, stored_bytes: BYTES, sums, nodes: REPLICAS.to_vec(), by: BTreeMap::new() };
    catalog.commit_put(put, &[committed], BYTES, [0; 32], END).unwrap();
    block
}

fn on(node: NodeId, block: BlockId) -> BlockCopy {
    BlockCopy { block, node, generation: catalog::FIRST_GENERATION }
}

/// Any member suffices.
fn recoverable(_: &str, usable: &[bool]) -> Vec<bool> {
    vec![usable.contains(&true); usable.len()]
}

fn begin(catalog: &Catalog) -> Loss {
    let loss = catalog.loss(GONE, &[REPLICAS[1], REPLICAS[2]].into(), recoverable).unwrap();
    catalog.begin_forgetting(GONE, (STORE, START), &loss, 7).unwrap();
    loss
}

/// As a process does that has just started: to the end, or to what is waited for.
fn forget(catalog: &Catalog) -> Pass {
    let mut pass = catalog.forget_some(STORE, &Pass::Waits).unwrap();
    while !matches!(pass, Pass::Waits | Pass::Over) {
        pass = catalog.forget_some(STORE, &pass).unwrap();
    }
    pass
}

fn forgotten(catalog: &Catalog) -> ForgottenRow {
    let [(store, row)] = catalog.forgotten().unwrap().try_into().unwrap();
    assert_eq!(store, STORE);
    row
}

#[test]
fn nothing_names_a_forgotten_store_its_number_is_free_and_its_id_stays_refused() {
    let catalog = catalog();
    let blocks: Vec<BlockId> = (1..=3).map(|id| put(&catalog, id)).collect();
    catalog.note_flaws(&[on(GONE, blocks[1])], Flaw::Damaged, 0).unwrap();
    catalog.delete("object-3", 0).unwrap();
    assert_eq!(begin(&catalog), Loss::default(), "two others have everything");
    assert_eq!(catalog.leaving().unwrap(), [GONE], "nothing is planned with it");
    let seen = Some((STORE, START));
    let back = catalog.register_node(GONE, &row(STORE), None, seen);
    assert_eq!(back, Err(CatalogError::Forgotten { node: GONE, store: STORE }));
    let other = catalog.register_node(GONE, &row(StoreId(0x22)), None, seen);
    assert_eq!(
        other,
        Err(CatalogError::BeingForgotten(GONE)),
        "copies of the former one would be taken for its own"
    );
    assert_eq!(catalog.end_leaving(GONE), Err(CatalogError::BeingForgotten(GONE)));

    assert_eq!(forget(&catalog), Pass::Over);
    for block in [blocks[0], blocks[1]] {
        let facts = catalog.placement(block).unwrap().facts;
        assert_eq!(facts.locations.iter().map(|l| l.node).collect::<Vec<_>>(), &REPLICAS[1..]);
        assert_eq!(facts.flawed, []);
    }
    assert_eq!(catalog.held_by(GONE).unwrap(), BTreeSet::new());
    let due = catalog.due_candidates(&REPLICAS.into(), 0, 100, &BTreeSet::new()).unwrap();
    assert_eq!(due, [on(REPLICAS[1], blocks[2]), on(REPLICAS[2], blocks[2])], "others' are as they were");
    let ForgottenRow { node, is_over, dropped, candidates, short, lost, .. } = forgotten(&catalog);
    assert_eq!((node, is_over, dropped, candidates, short, lost), (GONE, true, 2, 1, 1, 0));
    assert_eq!((catalog.nodes().unwrap(), catalog.leaving().unwrap()), (vec![], vec![]));

    catalog.register_node(GONE, &row(StoreId(0x22)), None, None).unwrap();
    let back = catalog.register_node(GONE, &row(STORE), None, Some((StoreId(0x22), START)));
    assert_eq!(back, Err(CatalogError::Forgotten { node: GONE, store: STORE }));
    let moved = catalog.register_node(NodeId(9), &row(STORE), None, None);
    assert_eq!(
        moved,
        Err(CatalogError::Forgotten { node: NodeId(9), store: STORE }),
        "under another number too"
    );
}

#[test]
fn what_only_the_store_had_is_told_and_stays_listed() {
    let catalog = catalog();
    let blocks: Vec<BlockId> = (1..=7).map(|id| put(&catalog, id)).collect();
    let elsewhere = |block: &BlockId| [on(REPLICAS[1], *block), on(REPLICAS[2], *block)];
    let lost: Vec<BlockCopy> = blocks[..6].iter().flat_map(elsewhere).collect();
    catalog.note_flaws(&lost, Flaw::Missing, 0).unwrap();
    let names: Vec<String> = (1..=5).map(|id| format!("object-{id}")).collect();
    assert_eq!(begin(&catalog), Loss { blocks: 6, objects: 6, names: names.clone() });
    assert_eq!(forget(&catalog), Pass::Over);
    let row = forgotten(&catalog);
    assert_eq!((row.dropped, row.short, row.lost, row.lost_objects, row.lost_names), (7, 7, 6, 6, names));
    let counts = catalog.survey(&REPLICAS.into()).unwrap().counts;
    assert_eq!((counts.objects, counts.blocks, counts.unrecoverable), (7, 7, 6));
    assert_eq!(counts.lost_copies, 12, "a node that finds one again brings its block back");
}

#[test]
fn a_member_of_a_stripe_is_lost_with_its_store_only_if_it_cannot_be_decoded() {
    let catalog = catalog();
    let (data, parity, at) = (put(&catalog, 1), BlockId(2), NodeId(4));
    let purpose = Purpose::Encode(NewStripe {
        stripe: StripeId(3),
        code: "rs-1+1".to_owned(),
        block_bytes: BYTES,
        members: vec![MemberState::Stored(data), MemberState::Stored(parity)],
        data: 1,
        kept: vec![on(GONE, data)],
    });
    let intent = catalog.begin(FlowId(9), 1, &purpose, &[(parity, at)], 0).unwrap();
    let staged = Staged { copy: intent.copies[0], stored_bytes: BYTES, sums: Sums::default(), by: None };
    catalog.commit(&intent, &[staged], &[GONE, at].into(), 0).unwrap();
    assert_eq!(catalog.loss(GONE, &[at].into(), recoverable).unwrap(), Loss::default());
    let names = vec!["object-1".to_owned()];
    let loss = Loss { blocks: 1, objects: 1, names };
    assert_eq!(catalog.loss(GONE, &REPLICAS[1..].iter().copied().collect(), recoverable).unwrap(), loss);
    // Of a parity that goes with what it is needed for the object is told.
    assert_eq!(catalog.loss(at, &REPLICAS[1..].iter().copied().collect(), recoverable).unwrap(), loss);
}

#[test]
fn a_plan_that_names_the_store_is_waited_for() {
    for commits in [false, true] {
        let catalog = catalog();
        let pending = planned(&catalog, 1);
        begin(&catalog);
        assert_eq!(forget(&catalog), Pass::Waits);
        assert!(!forgotten(&catalog).is_over);
        if commits {
            let (block, sums) = (BlockId(1), Sums::default());
            let nodes = REPLICAS.to_vec();
            let committed = CommittedBlock { block, stored_bytes: BYTES, sums, nodes, by: BTreeMap::new() };
            catalog.commit_put(pending, &[committed], BYTES, [0; 32], END).unwrap();
        } else {
            catalog.abort_put(pending, 0).unwrap();
        }
        assert_eq!(forget(&catalog), Pass::Over);
        let ForgottenRow { dropped, candidates, .. } = forgotten(&catalog);
        assert_eq!((dropped, candidates), if commits { (1, 0) } else { (0, 1) });
        assert_eq!(catalog.held_by(GONE).unwrap(), BTreeSet::new());
    }
}

#[test]
fn a_store_with_many_copies_is_forgotten_in_batches_and_by_whoever_goes_on() {
    let catalog = catalog();
    let count = 1_100;
    (1..=count).for_each(|id| _ = put(&catalog, id));
    begin(&catalog);
    let mut pass = catalog.forget_some(STORE, &Pass::Waits).unwrap();
    let mut left = vec![catalog.held_by(GONE).unwrap().len()];
    for _ in 0..2 {
        pass = catalog.forget_some(STORE, &pass).unwrap();
        left.push(catalog.held_by(GONE).unwrap().len());
    }
    assert_eq!(left, [1_100, 588, 76]);
    // A coordinator that restarts knows nothing of the pass.
    assert_eq!(forget(&catalog), Pass::Over);
    let row = forgotten(&catalog);
    assert_eq!((row.dropped, row.short), (1_100, 1_100));
    assert_eq!(catalog.forget_some(STORE, &Pass::Waits), Ok(Pass::Over), "once is enough");
}

#[test]
fn a_start_that_came_meanwhile_is_not_forgotten() {
    let catalog = catalog();
    let newer = NodeRow { incarnation: Incarnation(6), ..row(STORE) };
    catalog.register_node(GONE, &newer, None, Some((STORE, START))).unwrap();
    let refused = catalog.begin_forgetting(GONE, (STORE, START), &Loss::default(), 0);
    assert!(matches!(refused, Err(CatalogError::Overtaken(_))), "{refused:?}");
    assert!(!catalog.is_forgotten(STORE).unwrap());
}

#[test]
fn what_a_forgotten_store_kept_of_the_catalog_is_not_waited_for() {
    let catalog = catalog();
    catalog.set_holders(&REPLICAS).unwrap();
    begin(&catalog);
    assert_eq!(catalog.holders().unwrap(), &REPLICAS[1..]);
}

#[test]
fn a_store_that_was_given_up_by_mistake_is_readmitted_and_its_copies_are_not_counted_on() {
    let catalog = catalog();
    let (kept, deleted) = (put(&catalog, 1), put(&catalog, 2));
    assert_eq!(catalog.readmit(STORE), Err(CatalogError::NotForgotten(STORE)));
    begin(&catalog);
    assert_eq!(catalog.readmit(STORE), Err(CatalogError::BeingForgotten(GONE)), "half of it is forgotten");
    assert_eq!(forget(&catalog), Pass::Over);
    catalog.delete("object-2", 0).unwrap();

    // Its number is another's.
    catalog.register_node(GONE, &row(StoreId(0x22)), None, None).unwrap();
    assert_eq!(catalog.readmit(STORE), Err(CatalogError::NumberTaken { node: GONE }));
    let taken = catalog.node(GONE).unwrap().unwrap();
    catalog.begin_forgetting(GONE, (taken.store, taken.incarnation), &Loss::default(), 7).unwrap();
    let mut pass = Pass::Waits;
    while pass != Pass::Over {
        pass = catalog.forget_some(taken.store, &pass).unwrap();
    }

    assert_eq!(catalog.readmit(STORE), Ok(GONE));
    catalog.register_node(GONE, &row(STORE), None, None).unwrap();
    let came = [on(GONE, kept), on(GONE, deleted)];
    let compared = catalog.reconcile(&came, &REPLICAS.into(), 9).unwrap();
    // The block lacks the copy that was dropped with the store, and may take this one back; that is for letting go to decide.
    assert_eq!((compared.surplus, compared.needed, compared.unknown), (1, vec![came[0]], vec![came[1]]));
    assert_eq!(catalog.held_by(GONE).unwrap(), BTreeSet::new(), "nothing counts on it yet");
}
