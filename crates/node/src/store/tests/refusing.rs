//! A disk that takes no writes: its contents can be read, and starts that could not be noted lose nothing.

use super::*;
use disk::SyncPoint;
use model::Term;

const BLOCK: BlockId = BlockId(0xaa << 120 | 1);
const OTHER: BlockId = BlockId(0xbb << 120 | 2);
const CLUSTER: ClusterId = ClusterId(5);

/// Returns a store with one copy whose start was welcomed and has ended.
fn bench() -> Bench {
    let bench = Bench::new();
    let store = bench.store();
    put(&store, BLOCK, 1, &content(1, 50_000)).unwrap();
    store.try_start().unwrap();
    store.welcomed(CLUSTER).unwrap();
    bench
}

/// Fills the disk up to less than a block of a file system. The disk double counts single bytes, and identities differ in length.
fn fill(disk: &CrashDisk) {
    const SLACK: u64 = 64;
    disk.set_capacity(u64::MAX);
    disk.set_capacity(u64::MAX - disk.free_bytes().unwrap() + SLACK);
}

fn reads(store: &Store) {
    assert_eq!(get(store, BLOCK, 1).unwrap(), content(1, 50_000));
    assert_eq!(copies(store), [(BLOCK, 1)]);
}

/// Runs a whole start: it registers, hears of a new life of a coordinator, and is welcomed.
fn start(disk: &CrashDisk, term: u64) -> (Store, Identity) {
    let store = open(disk).unwrap();
    let before = store.try_start().unwrap();
    store.hear(Stamp { term: Term { number: term, word: term }, change: 1 }).unwrap();
    store.welcomed(CLUSTER).unwrap();
    (store, before)
}

#[test]
fn a_start_on_a_full_disk_is_noted_in_room_that_was_kept_for_it() {
    let Bench { disk, .. } = bench();
    fill(&disk);
    let mut last = None;
    for term in 1..20 {
        let (store, before) = start(&disk, term);
        reads(&store);
        assert!(last.is_none() || before.accepted == last, "start {term} knows the last one");
        assert_eq!(before.heard.term.number, term - 1);
        last = Some(store.incarnation());
        store.try_disk(0).unwrap();
        assert!(store.refusal().unwrap().contains("no space"));
        assert_eq!((store.free_bytes().unwrap(), store.vouches()), (0, true));
        assert!(matches!(store.writer(OTHER, 1, 10), Err(StoreError::NoRoom { .. })));
        // Others take whatever a write or a deletion freed.
        fill(&disk);
    }
    disk.set_capacity(u64::MAX);
    let (store, _) = start(&disk, 20);
    store.try_disk(0).unwrap();
    assert_eq!(store.refusal(), None);
    put(&store, OTHER, 1, b"x").unwrap();
}

#[test]
fn a_read_only_disk_is_read_and_nothing_is_written_before_its_start_is_noted() {
    let Bench { disk, .. } = bench();
    let noted = open(&disk).unwrap().identity();
    disk.set_read_only(true);
    let (store, before) = start(&disk, 3);
    assert_eq!(before, noted);
    reads(&store);
    assert_eq!(store.verify(BLOCK, 1, |_| ()).unwrap(), Verdict::Whole);
    assert!(!store.vouches(), "names that cannot be synced may not outlive a power cut");
    store.try_disk(0).unwrap();
    assert!(store.refusal().is_some());
    let refused = store.writer(OTHER, 1, 10);
    assert!(matches!(refused, Err(StoreError::TakesNoWrites { .. })), "{refused:?}");
    assert!(matches!(store.hold_records(Default::default()), Err(StoreError::TakesNoWrites { .. })));
    assert!(store.delete(BLOCK, 1).is_err());
    assert_eq!(store.heard().term.number, 3);
    let older = Stamp { term: Term { number: 2, word: 2 }, change: 9 };
    assert!(
        matches!(store.hear(older), Err(StoreError::OlderTerm { .. })),
        "it holds as long as the process lives"
    );
    drop(store);

    // The next start does not know what the last one could not note.
    let (store, before) = start(&disk, 4);
    assert_eq!(before, noted);
    disk.set_read_only(false);
    put(&store, OTHER, 1, b"x").unwrap();
    let word = store.incarnation();
    drop(store);
    let identity = open(&disk).unwrap().identity();
    assert_eq!((identity.accepted, identity.heard.term.number), (Some(word), 4), "noted before the write");
}

#[test]
fn a_start_that_could_not_be_noted_wrote_nothing_whenever_the_power_is_cut() {
    for cut in 0..30 {
        let Bench { power, disk } = bench();
        let noted = open(&disk).unwrap().identity();
        disk.set_read_only(true);
        let (store, _) = start(&disk, 3);
        disk.set_read_only(false);
        power.cut_after(cut);
        let is_written = put(&store, OTHER, 1, b"x").is_ok();
        drop(store);
        power.cut();
        power.restart();
        let store = open(&disk.reopen()).unwrap();
        let is_noted = store.identity() != noted;
        assert!(is_noted || (!is_written && copies(&store) == [(BLOCK, 1)]), "cut after {cut}");
    }
}

#[test]
fn the_folder_of_temporary_files_is_made_or_emptied_at_each_opening() {
    let Bench { disk, .. } = bench();
    let tmp = Path::new("tmp");
    for name in ["tmp/7", "tmp/a stranger"] {
        disk.create_new(Path::new(name)).unwrap().write_at(0, b"left over").unwrap();
    }
    for name in ["tmp/folder", "tmp/folder/in it", "tmp/8"] {
        disk.create_folder(Path::new(name)).unwrap();
    }
    disk.create_new(Path::new("tmp/folder/in it/7")).unwrap();
    let moved = tmp.join(format!("{OTHER}.3"));
    disk.create_new(&moved).unwrap();
    let store = open(&disk).unwrap();
    let left: Vec<String> = disk.list(tmp).unwrap().into_iter().map(|entry| entry.name).collect();
    assert_eq!(left, [format!("{OTHER}.3")], "a copy that somebody moved here is kept");
    put(&store, OTHER, 1, b"x").unwrap();
    drop(store);

    disk.remove(&moved).unwrap();
    disk.remove_folder(tmp).unwrap();
    put(&open(&disk).unwrap(), OTHER, 2, b"y").unwrap();

    disk.remove_folder(tmp).unwrap();
    disk.create_new(tmp).unwrap();
    let store = open(&disk).unwrap();
    reads_all(&store);
    store.try_disk(0).unwrap();
    assert!(store.refusal().unwrap().contains("tmp"), "{:?}", store.refusal());
    let refused = store.writer(OTHER, 3, 10);
    assert!(matches!(refused, Err(StoreError::TakesNoWrites { .. })), "{refused:?}");
    disk.remove(tmp).unwrap();
    store.try_disk(0).unwrap();
    assert_eq!(store.refusal(), None);
    put(&store, OTHER, 3, b"z").unwrap();
}

fn reads_all(store: &Store) {
    assert_eq!(get(store, BLOCK, 1).unwrap(), content(1, 50_000));
    assert_eq!(
        (get(store, OTHER, 1).unwrap(), get(store, OTHER, 2).unwrap()),
        (b"x".to_vec(), b"y".to_vec())
    );
}

#[test]
fn a_running_store_makes_its_temporary_folder_again_but_not_in_a_folder_that_is_not_its_own() {
    let Bench { disk, .. } = bench();
    let store = open(&disk).unwrap();
    let tmp = Path::new("tmp");
    disk.remove_folder(tmp).unwrap();
    put(&store, OTHER, 1, b"x").unwrap();
    disk.remove_folder(tmp).unwrap();
    store.try_disk(0).unwrap();
    for number in 0..20 {
        disk.create_folder(&tmp.join(number.to_string())).unwrap();
    }
    put(&store, OTHER, 2, b"y").unwrap();
    reads_all(&store);
    for number in 0..20 {
        disk.remove_folder(&tmp.join(number.to_string())).unwrap();
    }
    // The folder looks as if its disk were not mounted.
    disk.remove_folder(tmp).unwrap();
    disk.rename(Path::new("identity"), Path::new("elsewhere")).unwrap();
    let refused = store.writer(OTHER, 3, 10);
    assert!(matches!(refused, Err(StoreError::NotMounted)), "{refused:?}");
    assert!(store.try_disk(0).is_err());
    assert!(!disk.exists(tmp).unwrap());
    // The folder of another store is not used either.
    let identity = Identity { store: StoreId(99), ..store.identity() };
    identity.save(&disk).unwrap();
    assert!(matches!(store.writer(OTHER, 3, 10), Err(StoreError::NotMounted)));
    assert!(!disk.exists(tmp).unwrap());
    drop(store);
    disk.remove(Path::new("identity")).unwrap();
    assert!(matches!(open(&disk), Err(StoreError::NotFormatted)));
    assert!(
        matches!(Store::format(&as_dyn(&disk), NODE), Err(StoreError::AlreadyFormatted)),
        "it has blocks"
    );
    assert!(!disk.exists(tmp).unwrap(), "nothing is made where blocks lost their identity");
    disk.rename(Path::new("elsewhere"), Path::new("identity")).unwrap();
    reads_all(&open(&disk).unwrap());
}

#[test]
fn what_is_held_of_the_catalog_is_read_and_not_counted_on_a_read_only_disk() {
    let Bench { disk, .. } = bench();
    let store = open(&disk).unwrap();
    store.hear(Stamp { term: Term { number: 1, word: 1 }, change: 1 }).unwrap();
    let mut snapshot = store.hold_snapshot(CLUSTER, Default::default()).unwrap();
    snapshot.write(b"a snapshot").unwrap();
    snapshot.finish().unwrap();
    let held = store.held();
    assert!(held.is_some());
    drop(store);
    disk.sync_folder(Path::new(""), SyncPoint::HeldFolder).unwrap();
    disk.set_read_only(true);
    let store = open(&disk).unwrap();
    assert_eq!(store.held(), None);
    let mut reader = store.read_held().unwrap().unwrap();
    assert_eq!(
        (Some(reader.held()), reader.next_of_snapshot().unwrap().unwrap()),
        (held, b"a snapshot".to_vec())
    );
}

#[test]
fn a_temporary_file_that_the_disk_did_not_let_go_is_removed_once_it_does() {
    let Bench { disk, .. } = bench();
    let (store, tmp) = (open(&disk).unwrap(), Path::new("tmp"));
    let writer = store.writer(OTHER, 1, 10).unwrap();
    disk.set_read_only(true);
    drop(writer);
    store.remove_one_left();
    assert_eq!(disk.list(tmp).unwrap().len(), 1);
    disk.set_read_only(false);
    store.remove_one_left();
    assert_eq!(disk.list(tmp).unwrap().len(), 0);
    store.remove_one_left();
}
