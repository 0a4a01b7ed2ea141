//! Laws of changes that no single state shows.

#![allow(clippy::unwrap_used)] // a test may

use catalog::backend::Memory;
use catalog::rows::{NodeRow, SafeModeRow};
use catalog::{
    Catalog, CatalogError, CommittedBlock, FIRST_GENERATION, Fate, NewPut, NewStripe, PlannedBlock, Purpose,
    PutEnd, SafeMode, Staged, restore,
};
use disk::{CrashDisk, Disk, PowerSwitch};
use model::{
    BlockCopy, BlockId, ClusterId, FlowId, Incarnation, MemberState, NodeId, PutId, Stamp, StoreId, StripeId,
    Sums, Term,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const REPLICAS: [NodeId; 3] = [NodeId(1), NodeId(2), NodeId(3)];
const PARITY_NODE: NodeId = NodeId(4);
const BYTES: u64 = 10;

fn catalog() -> Catalog {
    let catalog = Catalog::over(Box::new(Memory::default()), ClusterId(1)).unwrap();
    catalog.begin_term(77, 0).unwrap();
    catalog
}

/// A block of three replicas; the birth of its copies.
fn put(catalog: &Catalog, id: u128) -> (BlockId, Stamp) {
    let (put, block) = (PutId(id), BlockId(id));
    let new = NewPut {
        put,
        name: format!("object-{id}"),
        block_bytes: BYTES,
        replicas: 3,
        lease_until_ms: 100,
        gathers: None,
    };
    catalog.begin_put(&new).unwrap();
    let (sums, nodes) = (Sums::default(), REPLICAS.to_vec());
    let flow = FlowId(id);
    let planned =
        PlannedBlock { block, index: 0, stored_bytes: BYTES, sums, last: true, nodes: nodes.clone(), flow };
    let birth = catalog.plan_block(put, &planned, 0, 100).unwrap();
    let committed = CommittedBlock { block, stored_bytes: BYTES, sums, nodes, by: BTreeMap::new() };
    let end = PutEnd { now_ms: 0, created_ms: 0, remembered_until_ms: 0 };
    catalog.commit_put(put, &[committed], BYTES, [0; 32], end).unwrap();
    (block, birth)
}

#[test]
fn an_encoding_commits_only_if_every_copy_kept_and_new_is_on_a_living_node() {
    let all: BTreeSet<NodeId> = REPLICAS.into_iter().chain([PARITY_NODE]).collect();
    for (dead, commits) in [(REPLICAS[0], false), (PARITY_NODE, false), (REPLICAS[2], true)] {
        let catalog = catalog();
        let (data, _) = put(&catalog, 1);
        let parity = BlockId(2);
        let purpose = Purpose::Encode(NewStripe {
            stripe: StripeId(3),
            code: "rs-1+1".to_owned(),
            block_bytes: BYTES,
            members: vec![MemberState::Stored(data), MemberState::Stored(parity)],
            data: 1,
            kept: vec![BlockCopy { block: data, node: REPLICAS[0], generation: FIRST_GENERATION }],
        });
        let intent = catalog.begin(FlowId(9), 1, &purpose, &[(parity, PARITY_NODE)], 0).unwrap();
        let staged = Staged { copy: intent.copies[0], stored_bytes: BYTES, sums: Sums::default(), by: None };
        let living = all.iter().copied().filter(|node| *node != dead).collect();
        let committed = catalog.commit(&intent, &[staged], &living, 0);
        assert_eq!(committed.is_ok(), commits, "{dead} is dead: {committed:?}");
        if !commits {
            assert!(matches!(committed, Err(CatalogError::Overtaken(_))));
            assert_eq!(catalog.placement(data).unwrap().facts.locations.len(), 3, "all replicas count");
        }
    }
}

#[test]
fn a_birth_is_remembered_by_the_catalog_that_gave_it_and_by_no_other() {
    let first = catalog();
    let (_, birth) = put(&first, 1);
    assert!(first.remembers(birth).unwrap());
    let later = Stamp { change: birth.change + 100, ..birth };
    assert!(!first.remembers(later).unwrap(), "a change that was not made yet");
    let other = Stamp { term: Term { word: 78, ..birth.term }, ..birth };
    assert!(!first.remembers(other).unwrap(), "another life of that number");
    assert!(!first.remembers(Stamp::default()).unwrap(), "a copy from before there were births");
    // The next life remembers it. A catalog that is restored does not: what was in flight at the backup may be anything.
    first.begin_term(79, 0).unwrap();
    assert!(first.remembers(birth).unwrap());
    let mut backup = Vec::new();
    first
        .backup(1 << 20, |piece| {
            backup.extend(piece);
            true
        })
        .unwrap();
    let (_, after) = put(&first, 2);
    let disk: Arc<dyn Disk> = Arc::new(CrashDisk::new(&PowerSwitch::new()));
    restore(&disk, &backup).unwrap();
    let restored = Catalog::open(&disk, ClusterId(1)).unwrap();
    restored.begin_term(80, 0).unwrap();
    assert!(!restored.remembers(birth).unwrap());
    assert!(!restored.remembers(after).unwrap());
}

#[test]
fn terms_rise_above_all_that_was_heard_and_versions_and_generations_with_them() {
    let catalog = catalog();
    let (block, _) = put(&catalog, 1);
    assert_eq!(catalog.begin_term(5, 0).unwrap(), Term { number: 2, word: 5 });
    assert_eq!(catalog.begin_term(6, 40).unwrap(), Term { number: 41, word: 6 });
    let purpose = Purpose::Repair { replaces: None };
    let intent = catalog.begin(FlowId(9), 1, &purpose, &[(block, PARITY_NODE)], 0).unwrap();
    assert_eq!(intent.copies[0].generation, (40 << 40) + 1);
    catalog.abort(&intent, 0).unwrap();
    let intent = catalog.begin(FlowId(9), 1, &purpose, &[(block, PARITY_NODE)], 0).unwrap();
    assert_eq!(intent.copies[0].generation, (40 << 40) + 2);
    put(&catalog, 2);
    assert_eq!(catalog.object("object-2").unwrap().0.version, (40 << 40) + 1);
    assert!(matches!(catalog.begin_term(7, u64::MAX - 1), Err(CatalogError::Invalid(_))));
}

#[test]
fn nothing_is_archived_while_the_history_may_be_broken_not_even_what_had_begun() {
    let catalog = catalog();
    let (data, _) = put(&catalog, 1);
    let purpose = Purpose::Encode(NewStripe {
        stripe: StripeId(3),
        code: "rs-1+1".to_owned(),
        block_bytes: BYTES,
        members: vec![MemberState::Stored(data), MemberState::Stored(BlockId(2))],
        data: 1,
        kept: vec![BlockCopy { block: data, node: REPLICAS[0], generation: FIRST_GENERATION }],
    });
    let writes = [(BlockId(2), PARITY_NODE)];
    let intent = catalog.begin(FlowId(9), 1, &purpose, &writes, 0).unwrap();
    let staged = Staged { copy: intent.copies[0], stored_bytes: BYTES, sums: Sums::default(), by: None };
    let living = REPLICAS.into_iter().chain([PARITY_NODE]).collect();
    let lost = Stamp { term: Term { number: 9, word: 9 }, change: 1 };
    assert!(catalog.hear(NodeId(1), lost, 0).unwrap());
    assert_eq!(catalog.commit(&intent, &[staged], &living, 0), Err(CatalogError::SafeMode));
    catalog.abort(&intent, 0).unwrap();
    assert_eq!(catalog.begin(FlowId(9), 1, &purpose, &writes, 0), Err(CatalogError::SafeMode));
    assert_eq!(catalog.placement(data).unwrap().facts.locations.len(), 3, "all replicas count");
    catalog.end_safe_mode(1_000).unwrap();
    assert!(catalog.begin(FlowId(9), 1, &purpose, &writes, 0).is_ok());
}

#[test]
fn what_was_ordered_is_not_taken_back_before_its_node_has_answered() {
    let catalog = catalog();
    let (block, _) = put(&catalog, 1);
    catalog.delete("object-1", 0).unwrap();
    let copies: Vec<BlockCopy> = catalog.due_candidates(&REPLICAS.into(), 0, 10, &BTreeSet::new()).unwrap();
    assert_eq!(copies.len(), 3);
    let sight = catalog::Sight { is_kept: true, compared: REPLICAS.into(), ..Default::default() };
    assert_eq!(catalog.order(&copies, &sight).unwrap().go, copies);
    assert!(copies.iter().all(|copy| catalog.candidate(copy).unwrap().unwrap().is_ordered));
    assert!(!catalog.take_back(&copies[0], &[], false, &REPLICAS.into(), 0).unwrap());
    assert!(matches!(catalog.placement(block), Err(CatalogError::NoSuchBlock(_))));
}

#[test]
fn what_waits_does_not_hold_up_what_comes_after_it() {
    let catalog = catalog();
    (1..=4).for_each(|id| {
        put(&catalog, id);
        catalog.delete(&format!("object-{id}"), 0).unwrap();
    });
    let due = |skip: &BTreeSet<BlockCopy>| catalog.due_candidates(&REPLICAS.into(), 0, 2, skip).unwrap();
    let first = due(&BTreeSet::new());
    assert_eq!(first.len(), 6, "two of each node");
    let second = due(&first.iter().copied().collect());
    assert_eq!(second.len(), 6);
    assert!(second.iter().all(|copy| !first.contains(copy)));
}

#[test]
fn what_a_node_heard_and_the_catalog_does_not_know_is_a_broken_history() {
    let catalog = catalog();
    put(&catalog, 1);
    let last = catalog.last_change().unwrap();
    assert!(!catalog.hear(NodeId(1), Stamp::default(), 0).unwrap(), "a node that heard of nobody");
    assert!(!catalog.hear(NodeId(1), last, 0).unwrap());
    catalog.begin_term(5, 0).unwrap();
    assert!(!catalog.hear(NodeId(1), last, 0).unwrap(), "of an earlier life");
    assert_eq!(catalog.safe_mode().unwrap(), None);
    let lost = Stamp { change: last.change + 1, ..last };
    assert!(catalog.hear(NodeId(2), lost, 7).unwrap());
    let row = SafeMode::Heard(SafeModeRow { since_ms: 7, node: NodeId(2), heard: lost });
    assert_eq!(catalog.safe_mode().unwrap(), Some(row.clone()));
    assert!(catalog.hear(NodeId(3), lost, 9).unwrap());
    assert_eq!(catalog.safe_mode().unwrap(), Some(row), "the first one is told");
    assert!(catalog.end_safe_mode(1_000).unwrap());
    assert_eq!(catalog.safe_mode().unwrap(), None);
}

#[test]
fn a_put_that_was_given_up_and_is_whole_is_uncertain_if_an_earlier_term_noted_it() {
    use catalog::FoundBlock;
    use model::{Contents, Location, Part};
    let catalog = catalog();
    catalog.begin_term(1, 0).unwrap();
    let all = |_: &str, usable: &[bool]| usable.to_vec();
    // Version 1 is stored; a put of version 2 is given up, when its client is silent.
    let (stored, _) = put(&catalog, 1);
    let name = "object-1".to_owned();
    let version = catalog.object(&name).unwrap().0.version;
    let found = |block: BlockId, version: u64, last: bool, birth: Stamp| FoundBlock {
        block,
        location: Location { node: REPLICAS[0], generation: FIRST_GENERATION },
        facts: Contents {
            stored_bytes: BYTES,
            sums: Sums::default(),
            part: Some(Part { name: name.clone(), version, offset: 0, last }),
        },
        stripe: None,
        birth,
    };
    let (silent, given_up, nodes) = (PutId(2), BlockId(2), REPLICAS.to_vec());
    let new = NewPut {
        put: silent,
        name: name.clone(),
        block_bytes: BYTES,
        replicas: 3,
        lease_until_ms: 100,
        gathers: None,
    };
    catalog.begin_put(&new).unwrap();
    let (sums, flow) = (Sums::default(), FlowId(2));
    let planned =
        PlannedBlock { block: given_up, index: 0, stored_bytes: BYTES, sums, last: true, nodes, flow };
    let born = catalog.plan_block(silent, &planned, 0, 100).unwrap();
    let uncertain = |found: &[FoundBlock]| catalog.uncertain_versions(found, all).unwrap();
    let of_it = found(given_up, version + 1, true, born);
    let own = found(stored, version, true, born);
    assert!(uncertain(&[own.clone(), of_it.clone()]).is_empty(), "this term alone can have committed it");
    catalog.begin_term(2, 0).unwrap();
    assert_eq!(uncertain(&[own.clone(), of_it.clone()]), [(name.clone(), version + 1)].into(), "under way");
    catalog.abort_put(silent, 0).unwrap();
    assert_eq!(uncertain(&[own.clone(), of_it]), [(name.clone(), version + 1)].into());
    assert!(
        uncertain(&[own.clone(), found(given_up, version + 1, false, born)]).is_empty(),
        "it lacks blocks"
    );
    // What is of no history here is uncertain, whole or not, if it is above what stands.
    let lost = Stamp { term: Term { number: 9, word: 9 }, change: 1 };
    let strange = |version, last| found(BlockId(77), version, last, lost);
    assert!(!uncertain(&[strange(version + 5, false)]).is_empty());
    assert!(uncertain(&[own, strange(version, true)]).is_empty());
}

#[test]
fn a_block_that_two_archivals_named_is_rebuilt_into_one_stripe() {
    use catalog::FoundBlock;
    use model::note::{NotedMember, StripeNote};
    use model::{Contents, Location, Part};
    let contents = |part| Contents { stored_bytes: BYTES, sums: Sums::default(), part };
    let part = Part { name: "a".to_owned(), version: 1, offset: 0, last: true };
    let data = BlockId(1);
    let member = |block, contents| MemberState::Stored(NotedMember { block, generation: 1, contents });
    let note = |stripe, parities: &[BlockId]| StripeNote {
        stripe: StripeId(stripe),
        code: format!("rs-1+{}", parities.len()),
        index: 1,
        block_bytes: BYTES,
        members: [member(data, contents(Some(part.clone())))]
            .into_iter()
            .chain(parities.iter().map(|&parity| member(parity, contents(None))))
            .collect(),
    };
    let found = |block, node, contents, stripe| FoundBlock {
        block,
        location: Location { node: NodeId(node), generation: 1 },
        facts: contents,
        stripe,
        birth: Stamp::default(),
    };
    // Of the attempt that was given up one of two parities is left; its number is the higher one.
    let (kept, left) = (note(5, &[BlockId(2)]), note(9, &[BlockId(3), BlockId(4)]));
    let blocks = vec![
        found(data, 1, contents(Some(part.clone())), None),
        found(BlockId(2), 2, contents(None), Some(kept)),
        found(BlockId(3), 3, contents(None), Some(left)),
    ];
    let catalog = catalog();
    let all = |_: &str, usable: &[bool]| vec![true; usable.len()];
    let at = catalog::RecoveredAt { now_ms: 0, created_ms: 0 };
    let findings = catalog::Findings { found: blocks, ..Default::default() };
    catalog.recover(&findings, &catalog::Choices::default(), 3, all, at).unwrap();
    let counts = catalog.survey(&REPLICAS.into()).unwrap().counts;
    assert_eq!((counts.objects, counts.stripes), (1, 1));
    assert_eq!(catalog.placement(data).unwrap().stripe.unwrap().id, StripeId(5));
}

/// A node registers with a start of a store.
fn register(catalog: &Catalog, node: NodeId, store: u128, word: u64) {
    let (store, incarnation) = (StoreId(store), Incarnation(word));
    let text = || format!("{node}");
    let (control_addr, data_addr, rack) = (text(), text(), text());
    let row = NodeRow { control_addr, data_addr, rack, store, incarnation, host: String::new() };
    let seen = catalog.node(node).unwrap().map(|row| (row.store, row.incarnation));
    catalog.register_node(node, &row, None, seen).unwrap();
}

#[test]
fn a_repaired_copy_that_another_start_staged_is_unconfirmed_and_one_in_another_store_is_refused() {
    let is_good = |fate: &Fate| *fate == Fate::Good;
    let is_unconfirmed = |fate: &Fate| *fate == Fate::Unconfirmed;
    let is_refused = |fate: &Fate| matches!(fate, Fate::Refused(why) if why.contains("store"));
    type Check = fn(&Fate) -> bool;
    let staged_by = Some((StoreId(4), Incarnation(40)));
    let cases: [(&str, _, (u128, u64), Check); 4] = [
        ("the start that wrote it", staged_by, (4, 40), is_good),
        ("its node was started since", staged_by, (4, 41), is_unconfirmed),
        ("its node does not say under which start", None, (4, 40), is_unconfirmed),
        ("its node has another disk, of another word or the same", staged_by, (5, 40), is_refused),
    ];
    for (case, by, (store, word), check) in cases {
        let catalog = catalog();
        register(&catalog, PARITY_NODE, 4, 40);
        let (block, _) = put(&catalog, 1);
        let purpose = Purpose::Repair { replaces: Some(REPLICAS[0]) };
        let intent = catalog.begin(FlowId(9), 1, &purpose, &[(block, PARITY_NODE)], 0).unwrap();
        register(&catalog, PARITY_NODE, store, word);
        let staged = Staged { copy: intent.copies[0], stored_bytes: BYTES, sums: Sums::default(), by };
        let living = [REPLICAS[1], REPLICAS[2], PARITY_NODE].into();
        let fates = catalog.commit(&intent, &[staged], &living, 0).unwrap();
        assert!(check(&fates[0].1), "{case}: {fates:?}");
        let counts = catalog.placement(block).unwrap().facts.on(PARITY_NODE).is_some();
        assert_eq!(counts, !is_refused(&fates[0].1), "{case}");
    }
}

#[test]
fn a_put_leaves_out_what_lies_in_another_store_and_names_nodes_that_were_started_since() {
    let by: BTreeMap<NodeId, _> =
        REPLICAS.into_iter().map(|node| (node, (StoreId(u128::from(node.0)), Incarnation(1)))).collect();
    let begun = |catalog: &Catalog| {
        for node in REPLICAS {
            register(catalog, node, u128::from(node.0), 1);
        }
        let (put, block, nodes, sums) = (PutId(1), BlockId(1), REPLICAS.to_vec(), Sums::default());
        let name = "object".to_owned();
        let new = NewPut { put, name, block_bytes: BYTES, replicas: 3, lease_until_ms: 100, gathers: None };
        catalog.begin_put(&new).unwrap();
        let flow = FlowId(1);
        let planned = PlannedBlock {
            block,
            index: 0,
            stored_bytes: BYTES,
            sums,
            last: true,
            nodes: nodes.clone(),
            flow,
        };
        catalog.plan_block(put, &planned, 0, 100).unwrap();
        CommittedBlock { block, stored_bytes: BYTES, sums, nodes, by: by.clone() }
    };
    let end = PutEnd { now_ms: 0, created_ms: 0, remembered_until_ms: 100 };
    let commit = |catalog: &Catalog, block| catalog.commit_put(PutId(1), &[block], BYTES, [0; 32], end);

    let started = catalog();
    let block = begun(&started);
    register(&started, REPLICAS[1], u128::from(REPLICAS[1].0), 2);
    assert_eq!(commit(&started, block.clone()).unwrap().unconfirmed, [REPLICAS[1]].into());
    assert_eq!(started.placement(BlockId(1)).unwrap().facts.locations.len(), 3, "it may well be there");

    let swapped = catalog();
    let block = begun(&swapped);
    register(&swapped, REPLICAS[1], 77, 1);
    commit(&swapped, block.clone()).unwrap();
    let facts = swapped.placement(BlockId(1)).unwrap().facts;
    assert_eq!((facts.locations.len(), facts.on(REPLICAS[1])), (2, None), "that disk is elsewhere");

    let alone = catalog();
    let block = begun(&alone);
    register(&alone, REPLICAS[1], 77, 1);
    register(&alone, REPLICAS[2], 78, 1);
    assert!(commit(&alone, block).is_err(), "one copy is too few");
}
