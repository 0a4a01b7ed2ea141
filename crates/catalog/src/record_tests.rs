//! Records and snapshots make the catalog again that they are of, or nothing.

use crate::backend::Memory;
use crate::entry::{Entry, Split, split};
use crate::rows::{NodeRow, PutRow, TermRow};
use crate::table::Read;
use crate::{
    Catalog, CatalogError, CommittedBlock, CommittedPut, FIRST_GENERATION, Former, Incoming, NewPut,
    PlannedBlock, PutEnd, Settled,
};
use disk::{CrashDisk, Disk, PowerSwitch};
use model::{
    BlockCopy, BlockId, ClusterId, FlowId, Incarnation, NodeId, Position, PutId, StoreId, Sums, Term,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const CLUSTER: ClusterId = ClusterId(9);

fn put(catalog: &Catalog, id: u128) {
    let name = format!("object-{id}");
    let new =
        NewPut { put: PutId(id), name, block_bytes: 10, replicas: 3, lease_until_ms: 100, gathers: None };
    catalog.begin_put(&new).unwrap();
}

/// What somebody keeps who took a snapshot after a few changes, and the records of some more, which remove rows too.
fn kept(catalog: &Catalog) -> (Position, Vec<u8>, Vec<u8>) {
    let row = NodeRow {
        control_addr: "a:1".to_owned(),
        data_addr: "a:2".to_owned(),
        rack: "r".to_owned(),
        host: String::new(),
        store: StoreId(1),
        incarnation: Incarnation(1),
    };
    catalog.begin_term(77, 0).unwrap();
    catalog.register_node(NodeId(1), &row, None, None).unwrap();
    put(catalog, 1);
    let (mut at, mut snapshot) = (Position::default(), Vec::new());
    let begin = |position| {
        at = position;
        true
    };
    let send = |piece: Vec<u8>| {
        snapshot.extend(piece);
        true
    };
    catalog.snapshot(64, begin, send).unwrap();
    catalog.abort_put(PutId(1), 5).unwrap();
    catalog.begin_term(78, 0).unwrap();
    put(catalog, 2);
    let mut records = Vec::new();
    for record in catalog.records_after(&at, usize::MAX).unwrap().unwrap() {
        records.extend((record.bytes.len() as u64).to_le_bytes());
        records.extend(record.bytes.iter());
    }
    (at, snapshot, records)
}

fn new_disk() -> (Arc<PowerSwitch>, CrashDisk) {
    let power = PowerSwitch::new();
    let disk = CrashDisk::new(&power);
    (power, disk)
}

fn bring(disk: &Arc<dyn Disk>, at: Position, snapshot: &[u8], records: &[u8]) -> crate::Result<Position> {
    let mut incoming = Incoming::begin(disk)?;
    snapshot.chunks(7).try_for_each(|piece| incoming.take(piece))?;
    incoming.end_snapshot(at)?;
    records.chunks(7).try_for_each(|piece| incoming.take(piece))?;
    incoming.finish(Former::Earlier)
}

fn rows(catalog: &Catalog) -> Vec<u8> {
    catalog.check(&|_| true).unwrap();
    let mut rows = Vec::new();
    let send = |piece| {
        rows.extend::<Vec<u8>>(piece);
        true
    };
    catalog.snapshot(usize::MAX, |_| true, send).unwrap();
    rows
}

#[test]
fn a_snapshot_and_records_make_the_same_catalog() {
    let (_, first) = new_disk();
    let first: Arc<dyn Disk> = Arc::new(first);
    let catalog = Catalog::open(&first, CLUSTER).unwrap();
    let (at, snapshot, records) = kept(&catalog);
    let (_, second) = new_disk();
    let second: Arc<dyn Disk> = Arc::new(second);
    assert_eq!(bring(&second, at, &snapshot, &records).unwrap(), catalog.position().unwrap());
    let brought = Catalog::open(&second, ClusterId(1)).unwrap();
    let puts = brought.view(|txn| txn.all::<PutRow>(&[])).unwrap();
    assert_eq!(puts.iter().map(|(put, _)| *put).collect::<Vec<_>>(), [PutId(2)]);
    assert_eq!(brought.expired_puts(u64::MAX - 1).unwrap(), [], "it may have been committed since");
    assert!(brought.end_safe_mode(100).is_ok());
    assert_eq!(brought.expired_puts(101).unwrap(), [PutId(2)]);
    catalog.end_safe_mode(100).unwrap();
    // What the end of safe mode changed is the same put in both, so all rows are but that of the change itself.
    assert_eq!(brought.nodes().unwrap(), catalog.nodes().unwrap());
    let terms = |c: &Catalog| c.view(|txn| Ok((txn.all::<TermRow>(&[])?, crate::meta(txn)?))).unwrap();
    assert_eq!(terms(&brought), terms(&catalog));
}

#[test]
fn without_records_a_snapshot_is_the_catalog_byte_for_byte() {
    let catalog = Catalog::over(Box::new(Memory::default()), CLUSTER).unwrap();
    catalog.begin_term(77, 0).unwrap();
    let (_, disk) = new_disk();
    let disk: Arc<dyn Disk> = Arc::new(disk);
    let snapshot = rows(&catalog);
    bring(&disk, catalog.position().unwrap(), &snapshot, &[]).unwrap();
    let brought = Catalog::open(&disk, ClusterId(1)).unwrap();
    assert_eq!(rows(&brought), snapshot);
    brought.close();
}

#[test]
fn what_is_cut_off_or_changed_takes_nobodys_place() {
    let catalog = Catalog::over(Box::new(Memory::default()), CLUSTER).unwrap();
    let (at, snapshot, records) = kept(&catalog);
    let (_, disk) = new_disk();
    let disk: Arc<dyn Disk> = Arc::new(disk);
    let there = Catalog::open(&disk, ClusterId(1)).unwrap();
    let before = rows(&there);
    there.close();
    for end in 0..snapshot.len() {
        assert!(bring(&disk, at, &snapshot[..end], &[]).is_err(), "a snapshot of {end} bytes");
    }
    for at_byte in 0..snapshot.len() {
        let mut changed = snapshot.clone();
        changed[at_byte] ^= 1;
        assert!(bring(&disk, at, &changed, &[]).is_err(), "byte {at_byte} of the snapshot");
    }
    for at_byte in (0..records.len()).step_by(5) {
        let mut changed = records.clone();
        changed[at_byte] ^= 1;
        let result = bring(&disk, at, &snapshot, &changed);
        let last = result.as_ref().is_ok_and(|position| *position == catalog.position().unwrap());
        // Only the last record has nobody after it who would tell.
        assert!(!last, "byte {at_byte} of the records");
    }
    drop(Incoming::begin(&disk).unwrap());
    assert!(
        bring(&disk, Position::default(), &snapshot, &records).is_err(),
        "of another change than was said"
    );
    let (_, untouched) = new_disk();
    let untouched: Arc<dyn Disk> = Arc::new(untouched);
    Catalog::open(&untouched, ClusterId(1)).unwrap().close();
    assert!(bring(&untouched, at, &snapshot[..9], &[]).is_err());
    let there = Catalog::open(&untouched, ClusterId(2)).unwrap();
    assert_eq!(rows(&there), before, "the catalog that was there");
}

#[test]
fn a_power_cut_leaves_the_old_catalog_or_the_new_one() {
    let catalog = Catalog::over(Box::new(Memory::default()), CLUSTER).unwrap();
    let (at, snapshot, records) = kept(&catalog);
    let (mut old, mut new) = (0, 0);
    for calls in 0.. {
        let (power, disk) = new_disk();
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        Catalog::open(&shared, ClusterId(1)).unwrap().close();
        power.cut_after(calls);
        let brought = bring(&shared, at, &snapshot, &records);
        power.restart();
        let shared: Arc<dyn Disk> = Arc::new(disk.reopen());
        let there = Catalog::open(&shared, ClusterId(2)).unwrap();
        match there.meta().unwrap().cluster {
            CLUSTER => new += 1,
            ClusterId(1) => old += 1,
            other => panic!("{other}: neither"),
        }
        if brought.is_ok() {
            assert_eq!(there.meta().unwrap().cluster, CLUSTER, "it was acknowledged");
            break;
        }
    }
    assert!(old > 5 && new > 0, "{old} {new}");
}

#[test]
fn records_follow_each_other_and_who_is_elsewhere_gets_none() {
    let catalog = Catalog::over(Box::new(Memory::default()), CLUSTER).unwrap();
    let begin = catalog.position().unwrap();
    for id in 1..=4 {
        put(&catalog, id);
    }
    let all = catalog.records_after(&begin, usize::MAX).unwrap().unwrap();
    assert_eq!(all.len(), 4);
    assert!(all.windows(2).all(|pair| pair[1].before == pair[0].at.hash));
    assert_eq!(catalog.position().unwrap(), all[3].at);
    let one = catalog.records_after(&all[0].at, 1).unwrap().unwrap();
    assert_eq!(one.iter().map(|record| record.at).collect::<Vec<_>>(), [all[1].at], "one at least");
    assert!(catalog.records_after(&all[3].at, 1).unwrap().unwrap().is_empty());
    let elsewhere = Position { hash: [1; 32], ..all[1].at };
    assert!(catalog.records_after(&elsewhere, 1).unwrap().is_none());
    let refused = catalog.begin_put(&NewPut {
        put: PutId(5),
        name: String::new(),
        block_bytes: 1,
        replicas: 1,
        lease_until_ms: 0,
        gathers: None,
    });
    assert!(matches!(refused, Err(CatalogError::Invalid(_))));
    assert_eq!(catalog.position().unwrap(), all[3].at, "what was not changed has no record");
}

/// Puts 1 and 2, of object-1 and object-2, were pending when this catalog was brought, each with one block planned on nodes 1 to 3.
fn brought_with_two_pending_puts() -> Catalog {
    brought_after(&[])
}

/// The puts begin in the first of these lives.
fn brought_after(words: &[u64]) -> Catalog {
    let catalog = Catalog::over(Box::new(Memory::default()), CLUSTER).unwrap();
    let mut words = words.iter();
    words.next().into_iter().for_each(|word| _ = catalog.begin_term(*word, 0).unwrap());
    let (nodes, sums) = ([1, 2, 3].map(NodeId).to_vec(), Sums::default());
    for id in [1, 2] {
        put(&catalog, id);
        let (block, flow) = (BlockId(id), FlowId(id));
        let planned =
            PlannedBlock { block, index: 0, stored_bytes: 10, sums, last: true, nodes: nodes.clone(), flow };
        catalog.plan_block(PutId(id), &planned, 0, 100).unwrap();
    }
    words.for_each(|word| _ = catalog.begin_term(*word, 0).unwrap());
    let (_, disk) = new_disk();
    let disk: Arc<dyn Disk> = Arc::new(disk);
    bring(&disk, catalog.position().unwrap(), &rows(&catalog), &[]).unwrap();
    let brought = Catalog::open(&disk, ClusterId(1)).unwrap();
    assert_eq!(brought.check(&|_| true).unwrap().findings, 0);
    brought
}

/// The copies of that put on these nodes.
fn copies(id: u128, nodes: &[u32]) -> BTreeSet<BlockCopy> {
    let copy = |&node| BlockCopy { block: BlockId(id), node: NodeId(node), generation: FIRST_GENERATION };
    nodes.iter().map(copy).collect()
}

/// A commit of it would be among what holders keep.
#[test]
fn a_whole_put_that_nobody_can_have_been_told_of_is_not_committed() {
    let (waits, own) = (Term::drawn(8 << 32, true), Term::drawn(9 << 32, false));
    let whole =
        |words: &[u64], is_complete| settle_in(&brought_after(words), 1, &[1, 2, 3], &[1, 2, 3], is_complete);
    assert_eq!(whole(&[waits, waits], true), Settled::Pending);
    assert_eq!(whole(&[waits, waits], false), Settled::Committed, "holders may keep more");
    assert_eq!(whole(&[waits, own, waits], true), Settled::Committed, "that life told at once");
    assert_eq!(whole(&[own, waits], true), Settled::Committed);
    assert_eq!(whole(&[], true), Settled::Committed, "of before the lives were marked");
}

#[test]
fn a_gap_in_the_terms_is_no_word_that_all_waited() {
    let catalog = Catalog::over(Box::new(Memory::default()), CLUSTER).unwrap();
    let waits = Term::drawn(8 << 32, true);
    for heard in [0, 0, 7] {
        catalog.begin_term(waits, heard).unwrap();
    }
    let waited = |number| catalog.waited_since(number).unwrap();
    assert_eq!([8, 9, 1, 2].map(waited), [true, false, false, false], "the terms 3 to 7 are unknown");
}

fn settle(catalog: &Catalog, id: u128, seen: &[u32], answered: &[u32]) -> Settled {
    settle_in(catalog, id, seen, answered, false)
}

fn settle_in(catalog: &Catalog, id: u128, seen: &[u32], answered: &[u32], is_complete: bool) -> Settled {
    let answered = answered.iter().copied().map(NodeId).collect();
    let end = PutEnd { now_ms: 5, created_ms: 6, remembered_until_ms: 7 };
    catalog.settle_put(PutId(id), (&copies(id, seen), &answered), is_complete, 500, end).unwrap()
}

/// Of one all nodes have everything, of the other one lacks a block.
#[test]
fn a_pending_put_that_came_with_a_brought_catalog_is_settled_by_what_nodes_have() {
    let brought = brought_with_two_pending_puts();
    let unsettled = brought.unsettled_puts().unwrap();
    let planned = |id| (PutId(id), copies(id, &[1, 2, 3]).into_iter().collect::<Vec<_>>());
    assert_eq!(unsettled, [planned(1), planned(2)]);
    assert_eq!(settle(&brought, 1, &[1], &[1, 2]), Settled::Waits, "node 3 may have what makes it whole");
    assert_eq!(settle(&brought, 1, &[1, 3], &[1, 3]), Settled::Committed);
    let (object, blocks) = brought.object("object-1").unwrap();
    assert_eq!((object.object_bytes, object.digest), (10, None));
    assert_eq!(blocks[0].facts.locations.iter().map(|l| l.node.0).collect::<Vec<_>>(), [1, 3]);
    a_settled_put_is_confirmed_to_its_client(&brought);
    assert_eq!(settle(&brought, 2, &[2], &[1, 2, 3]), Settled::Pending);
    assert_eq!(brought.expired_puts(501).unwrap(), [PutId(2)], "its lease ends like any other");
    assert_eq!(brought.unsettled_puts().unwrap(), []);
}

/// Its client asks again, for it never had an answer, and is the one who knows the digest of put 1.
fn a_settled_put_is_confirmed_to_its_client(brought: &Catalog) {
    let commit = |object_bytes, digest| {
        let end = PutEnd { now_ms: 6, created_ms: 7, remembered_until_ms: 8 };
        brought.commit_put(PutId(1), &[], object_bytes, digest, end)
    };
    let is_refused = |asked: Result<CommittedPut, _>| matches!(asked, Err(CatalogError::NoSuchPut));
    assert!(is_refused(commit(11, [9; 32])), "of another length");
    let told = commit(10, [9; 32]).unwrap();
    assert_eq!((told.name.as_str(), told.object_bytes, told.created_ms), ("object-1", 10, 6));
    assert_eq!(brought.object("object-1").unwrap().0.digest, Some([9; 32]));
    assert_eq!(commit(10, [9; 32]).unwrap(), told, "and once more");
    assert!(is_refused(commit(10, [8; 32])), "by then it is known");
}

#[test]
fn a_deletion_ends_pending_puts_of_its_name_that_came_with_a_brought_catalog() {
    let brought = brought_with_two_pending_puts();
    // A later version of the name comes and goes before anybody knows what the nodes have of the earlier one.
    let (later, block) = (PutId(3), BlockId(3));
    let name = "object-1".to_owned();
    let new = NewPut { put: later, name, block_bytes: 10, replicas: 1, lease_until_ms: 100, gathers: None };
    brought.begin_put(&new).unwrap();
    let (nodes, sums) = (vec![NodeId(1)], Sums::default());
    let planned = PlannedBlock {
        block,
        index: 0,
        stored_bytes: 10,
        sums,
        last: true,
        nodes: nodes.clone(),
        flow: FlowId(3),
    };
    brought.plan_block(later, &planned, 0, 100).unwrap();
    let end = PutEnd { now_ms: 5, created_ms: 6, remembered_until_ms: 7 };
    brought
        .commit_put(
            later,
            &[CommittedBlock { block, stored_bytes: 10, sums, nodes, by: BTreeMap::new() }],
            10,
            [0; 32],
            end,
        )
        .unwrap();
    brought.delete("object-1", 8).unwrap();
    let left: Vec<PutId> = brought.unsettled_puts().unwrap().into_iter().map(|(put, _)| put).collect();
    assert_eq!(left, [PutId(2)], "of another name");
    assert_eq!(settle(&brought, 1, &[1, 2, 3], &[1, 2, 3]), Settled::Pending);
    assert!(brought.object("object-1").is_err(), "it is not back");
    let candidates =
        copies(1, &[1, 2, 3]).iter().filter(|copy| brought.candidate(copy).unwrap().is_some()).count();
    assert_eq!(candidates, 3, "what it wrote goes");

    // A name that may stand for such a put can be deleted, once.
    brought.delete("object-2", 8).unwrap();
    assert_eq!(brought.unsettled_puts().unwrap(), []);
    assert!(matches!(brought.delete("object-2", 8), Err(CatalogError::NoSuchObject(_))));
    let waiting = brought.pending_put(PutId(2));
    assert!(matches!(waiting, Err(CatalogError::NoSuchPut)));
}

#[test]
fn entries_are_read_as_they_are_written() {
    let entries = [
        Entry { table: "nodes", key: b"k", value: Some(b"value") },
        Entry { table: "terms", key: b"", value: None },
        Entry { table: "objects", key: b"o", value: Some(b"") },
    ];
    let mut bytes = Vec::new();
    entries.iter().for_each(|entry| entry.push_to(&mut bytes));
    let mut rest = bytes.as_slice();
    for entry in entries {
        let Split::Entry(read, after) = split(rest) else { panic!("{rest:?}") };
        assert_eq!(read, entry);
        assert_eq!(split(&rest[..rest.len() - after.len() - 1]), Split::CutOff);
        rest = after;
    }
    assert_eq!(split(&[0xfe, 0, 0]), Split::Unknown);
}
