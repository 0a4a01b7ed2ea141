//! Stripes that take the place of others.

#![allow(clippy::unwrap_used)] // a test may

use catalog::backend::Memory;
use catalog::rows::NodeRow;
use catalog::{
    Catalog, CatalogError, Choices, CommittedBlock, FIRST_GENERATION, Findings, FoundBlock, Intent, NewPut,
    NewStripe, PlannedBlock, Purpose, PutEnd, Recoding, RecoveredAt, Staged,
};
use model::note::{NotedMember, StripeNote};
use model::{
    BlockCopy, BlockId, ClusterId, Contents, FlowId, Incarnation, Location, MemberState, NodeId, Part, PutId,
    Stamp, StoreId, StripeId, Sums, Term,
};
use std::collections::{BTreeMap, BTreeSet};

const BYTES: u64 = 10;
const PARITY_NODE: NodeId = NodeId(8);

fn nodes() -> BTreeSet<NodeId> {
    (1..=9).map(NodeId).collect()
}

fn start(node: NodeId) -> (StoreId, Incarnation) {
    (StoreId(u128::from(node.0)), Incarnation(1))
}

fn catalog() -> Catalog {
    let catalog = Catalog::over(Box::new(Memory::default()), ClusterId(1)).unwrap();
    catalog.begin_term(77, 0).unwrap();
    for node in nodes() {
        let (store, incarnation) = start(node);
        let text = || node.to_string();
        let (control_addr, data_addr, rack) = (text(), text(), text());
        let row = NodeRow { control_addr, data_addr, rack, store, incarnation, host: String::new() };
        catalog.register_node(node, &row, None, None).unwrap();
    }
    catalog
}

/// An object of one block with one copy.
fn put(catalog: &Catalog, id: u128, node: NodeId) -> BlockCopy {
    let (put, block) = (PutId(id), BlockId(id));
    let name = format!("object-{id}");
    let new = NewPut { put, name, block_bytes: BYTES, replicas: 1, lease_until_ms: 100, gathers: None };
    catalog.begin_put(&new).unwrap();
    let (sums, nodes) = (Sums::default(), vec![node]);
    let (flow, last) = (FlowId(id), true);
    let planned =
        PlannedBlock { block, index: 0, stored_bytes: BYTES, sums, last, nodes: nodes.clone(), flow };
    catalog.plan_block(put, &planned, 0, 100).unwrap();
    let committed = CommittedBlock { block, stored_bytes: BYTES, sums, nodes, by: BTreeMap::new() };
    let end = PutEnd { now_ms: 0, created_ms: 0, remembered_until_ms: 0 };
    catalog.commit_put(put, &[committed], BYTES, [0; 32], end).unwrap();
    BlockCopy { block, node, generation: FIRST_GENERATION }
}

/// A stripe of these with one parity.
fn new_stripe(stripe: u128, kept: &[BlockCopy]) -> NewStripe {
    let parity = BlockId(stripe + 1_000);
    NewStripe {
        stripe: StripeId(stripe),
        code: format!("rs-{}+1", kept.len()),
        block_bytes: BYTES,
        members: kept.iter().map(|copy| copy.block).chain([parity]).map(MemberState::Stored).collect(),
        data: kept.len() as u16,
        kept: kept.to_vec(),
    }
}

fn begin(catalog: &Catalog, purpose: &Purpose) -> (Intent, Vec<Staged>) {
    let parity = |new: &NewStripe| (BlockId(new.stripe.0 + 1_000), PARITY_NODE);
    let writes: Vec<_> = purpose.stripes().iter().map(parity).collect();
    let intent = catalog.begin(FlowId(9), 1, purpose, &writes, 0).unwrap();
    let staged = |copy: &BlockCopy| Staged {
        copy: *copy,
        stored_bytes: BYTES,
        sums: Sums::default(),
        by: Some(start(copy.node)),
    };
    let staged = intent.copies.iter().map(staged).collect();
    (intent, staged)
}

/// Two stripes of two objects each, 1 and 2, 3 and 4; of each the second object is gone.
fn thinned(catalog: &Catalog) -> [BlockCopy; 2] {
    let copies = [1, 2, 3, 4].map(|id| put(catalog, id, NodeId(id as u32)));
    for (stripe, kept) in [(50, &copies[..2]), (60, &copies[2..])] {
        let (intent, staged) = begin(catalog, &Purpose::Encode(new_stripe(stripe, kept)));
        catalog.commit(&intent, &staged, &nodes(), 0).unwrap();
    }
    catalog.delete("object-2", 0).unwrap();
    catalog.delete("object-4", 0).unwrap();
    [copies[0], copies[2]]
}

fn recoding(kept: &[BlockCopy]) -> Purpose {
    let replaces = vec![StripeId(50), StripeId(60)];
    Purpose::Recode(Recoding { stripes: vec![new_stripe(70, kept)], replaces })
}

fn stripe_of(catalog: &Catalog, block: BlockId) -> StripeId {
    catalog.placement(block).unwrap().stripe.unwrap().id
}

#[test]
fn what_lives_leaves_its_stripes_with_the_change_that_drops_them() {
    let catalog = catalog();
    let kept = thinned(&catalog);
    let deaths = catalog.deaths().unwrap();
    assert_eq!(deaths.keys().copied().collect::<Vec<_>>(), [StripeId(50), StripeId(60)]);
    assert!(deaths.values().all(|deaths| (deaths.blocks, deaths.stored_bytes) == (1, BYTES)));
    let contents = catalog.stripe_contents(StripeId(50)).unwrap().unwrap();
    assert_eq!((contents.live.len(), contents.stored_bytes), (1, 3 * BYTES));

    let (intent, staged) = begin(&catalog, &recoding(&kept));
    catalog.commit(&intent, &staged, &nodes(), 0).unwrap();
    for copy in kept {
        let placement = catalog.placement(copy.block).unwrap();
        assert_eq!(placement.facts.locations, [copy.location()]);
        assert_eq!(placement.stripe.unwrap().id, StripeId(70));
    }
    assert!(catalog.deaths().unwrap().is_empty());
    assert!(catalog.stripe_contents(StripeId(50)).unwrap().is_none());
    for gone in [2, 4, 1_050, 1_060].map(BlockId) {
        assert!(matches!(catalog.placement(gone), Err(CatalogError::NoSuchBlock(_))));
    }
    let due = catalog.due_candidates(&nodes(), 1, 100, &BTreeSet::new()).unwrap();
    let blocks: BTreeSet<BlockId> = due.iter().map(|copy| copy.block).collect();
    assert_eq!(blocks, [2, 4, 1_050, 1_060].map(BlockId).into(), "dead ones and the parities of before");
}

#[test]
fn stripes_are_replaced_all_or_none_and_only_with_all_that_lives_in_them() {
    type Meanwhile = fn(&Catalog, &mut Vec<Staged>, &mut BTreeSet<NodeId>);
    let cases: [(&str, Meanwhile); 4] = [
        ("a block is deleted", |catalog, _, _| catalog.delete("object-1", 0).unwrap()),
        ("a node with a member dies", |_, _, living| _ = living.remove(&NodeId(3))),
        ("the parity's node was started since", |_, staged, _| staged[0].by = None),
        ("a stripe is replaced by somebody else", |catalog, _, _| {
            let copy = BlockCopy { block: BlockId(1), node: NodeId(1), generation: FIRST_GENERATION };
            let (stripes, replaces) = (vec![new_stripe(90, &[copy])], vec![StripeId(50)]);
            let purpose = Purpose::Recode(Recoding { stripes, replaces });
            let writes = [(BlockId(1_090), PARITY_NODE)];
            let intent = catalog.begin(FlowId(10), 1, &purpose, &writes, 0).unwrap();
            let by = Some(start(PARITY_NODE));
            let staged = Staged { copy: intent.copies[0], stored_bytes: BYTES, sums: Sums::default(), by };
            catalog.commit(&intent, &[staged], &nodes(), 0).unwrap();
        }),
    ];
    for (case, meanwhile) in cases {
        let catalog = catalog();
        let kept = thinned(&catalog);
        let (intent, mut staged) = begin(&catalog, &recoding(&kept));
        let mut living = nodes();
        meanwhile(&catalog, &mut staged, &mut living);
        let result = catalog.commit(&intent, &staged, &living, 0);
        assert!(matches!(result, Err(CatalogError::Overtaken(_))), "{case}: {result:?}");
        assert_eq!(stripe_of(&catalog, BlockId(3)), StripeId(60), "{case}");
        catalog.abort(&intent, 0).unwrap();
        assert!(matches!(catalog.placement(BlockId(1_070)), Err(CatalogError::NoSuchBlock(_))));
    }
    // One that lives is in no new stripe.
    let catalog = catalog();
    let kept = thinned(&catalog);
    let (intent, staged) = begin(&catalog, &recoding(&kept[..1]));
    let result = catalog.commit(&intent, &staged, &nodes(), 0);
    assert!(matches!(result, Err(CatalogError::Overtaken(_))), "{result:?}");
    assert_eq!(stripe_of(&catalog, BlockId(1)), StripeId(50));
}

#[test]
fn of_an_old_stripe_and_the_one_that_took_its_place_the_new_one_is_rebuilt() {
    let contents = |part| Contents { stored_bytes: BYTES, sums: Sums::default(), part };
    let part = |id: u128| Part { name: format!("object-{id}"), version: 1, offset: 0, last: true };
    let member = |id: u128, part| {
        MemberState::Stored(NotedMember { block: BlockId(id), generation: 1, contents: contents(part) })
    };
    let note = |stripe, data: &[u128], parity| StripeNote {
        stripe: StripeId(stripe),
        code: "rs-2+1".to_owned(),
        index: 2,
        block_bytes: BYTES,
        members: data.iter().map(|&id| member(id, Some(part(id)))).chain([member(parity, None)]).collect(),
    };
    let found = |id: u128, part, stripe, change| FoundBlock {
        block: BlockId(id),
        location: Location { node: NodeId(id as u32 % 9 + 1), generation: 1 },
        facts: contents(part),
        stripe,
        birth: Stamp { term: Term { number: 1, word: 5 }, change },
    };
    // All of the old ones is still there, their second blocks too, whose objects are gone.
    let mut blocks: Vec<FoundBlock> = [1, 2, 3, 4].map(|id| found(id, Some(part(id)), None, 1)).into();
    blocks.push(found(50, None, Some(note(5, &[1, 2], 50)), 10));
    blocks.push(found(60, None, Some(note(6, &[3, 4], 60)), 11));
    blocks.push(found(70, None, Some(note(7, &[1, 3], 70)), 20));
    let rebuilt = |found: Vec<FoundBlock>| {
        let catalog = Catalog::over(Box::new(Memory::default()), ClusterId(1)).unwrap();
        catalog.begin_term(77, 0).unwrap();
        let findings = Findings { found, ..Findings::default() };
        let all = |_: &str, usable: &[bool]| vec![true; usable.len()];
        let at = RecoveredAt { now_ms: 0, created_ms: 0 };
        catalog.recover(&findings, &Choices::default(), 3, all, at).unwrap();
        [1, 3].map(|id| catalog.placement(BlockId(id)).unwrap().stripe.map(|stripe| stripe.id))
    };
    assert_eq!(rebuilt(blocks.clone()), [Some(StripeId(7)); 2]);
    // Of one that was given up the parity is not there.
    blocks.pop();
    assert_eq!(rebuilt(blocks), [Some(StripeId(5)), Some(StripeId(6))]);
}
