//! What is kept of the catalog is given back as it was; what does not hold is not used, and what cannot be judged is kept.

use super::*;
use crate::store::records::{Held, HeldReader, MAX_RECORD_BYTES, PIECE_BYTES};
use model::{Position, RecordHead, Term};

pub const CLUSTER: ClusterId = ClusterId(0x0011_2233_4455_6677_8899_aabb_ccdd_eeff);

/// Changes of a catalog: of each its record, and how far a copy has come with it.
pub struct Chain {
    records: Vec<Vec<u8>>,
    positions: Vec<Position>,
}

impl Chain {
    /// So many changes, with rows of these lengths in turn.
    pub fn new(changes: u64, rows_bytes: &[usize]) -> Chain {
        let (mut records, mut positions) = (Vec::new(), vec![Position::default()]);
        for change in 1..=changes {
            let rows = content(change, rows_bytes[change as usize % rows_bytes.len()]);
            let (record, position) = record(&positions[change as usize - 1], change, &rows);
            records.push(record);
            positions.push(position);
        }
        Chain { records, positions }
    }

    /// After that change.
    pub fn at(&self, change: usize) -> Position {
        self.positions[change]
    }

    /// The records that lead from there to there.
    pub fn records(&self, from: usize, to: usize) -> &[Vec<u8>] {
        &self.records[from..to]
    }
}

/// A record that follows what is at `last`.
fn record(last: &Position, change: u64, rows: &[u8]) -> (Vec<u8>, Position) {
    let stamp = Stamp { term: Term { number: 2, word: 3 }, change };
    let mut record = RecordHead { stamp, before: last.hash }.encode().to_vec();
    record.extend_from_slice(rows);
    let hash = *blake3::hash(&record).as_bytes();
    (record, Position { stamp, hash })
}

fn framed(records: &[Vec<u8>]) -> Vec<u8> {
    let frame = |record: &Vec<u8>| [(record.len() as u64).to_le_bytes().as_slice(), record].concat();
    records.iter().flat_map(frame).collect()
}

/// A bench whose store has joined the cluster.
pub fn bench() -> (Bench, Store) {
    let bench = Bench::new();
    let store = bench.store();
    store.welcomed(CLUSTER).unwrap();
    (bench, store)
}

/// A snapshot's bytes.
pub fn snapshot_of(change: usize) -> Vec<u8> {
    content(change as u64 + 1000, 5_000 + change)
}

pub fn hold_snapshot(store: &Store, at: Position, bytes: &[u8]) -> Result<Held> {
    let mut writer = store.hold_snapshot(CLUSTER, at)?;
    for piece in bytes.chunks(1_999) {
        writer.write(piece)?;
    }
    writer.finish()
}

/// Appends in pieces that split frames anywhere; `None` if what is held ends elsewhere.
pub fn append(store: &Store, at: Position, records: &[Vec<u8>]) -> Result<Option<Held>> {
    append_bytes(store, at, &framed(records))
}

fn append_bytes(store: &Store, at: Position, bytes: &[u8]) -> Result<Option<Held>> {
    let Some(mut writer) = store.hold_records(at)? else { return Ok(None) };
    for piece in bytes.chunks(777) {
        writer.write(piece)?;
    }
    writer.finish().map(Some)
}

/// What is held, the snapshot, and the records behind their lengths.
pub type Given = (Held, Vec<u8>, Vec<u8>);

/// All that is held.
pub fn read(store: &Store) -> Result<Option<Given>> {
    let Some(mut reader) = store.read_held()? else { return Ok(None) };
    let snapshot = all(&mut reader, HeldReader::next_of_snapshot)?;
    let records = all(&mut reader, HeldReader::next_of_records)?;
    Ok(Some((reader.held(), snapshot, records)))
}

fn all(
    reader: &mut HeldReader,
    next: impl Fn(&mut HeldReader) -> Result<Option<Vec<u8>>>,
) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    while let Some(piece) = next(reader)? {
        assert!((1..=PIECE_BYTES).contains(&piece.len()), "{}", piece.len());
        bytes.extend(piece);
    }
    Ok(bytes)
}

/// The store of the bench, opened anew.
fn again(bench: &Bench, store: Store) -> Store {
    drop(store);
    bench.store()
}

/// Checks that exactly the chain from one change to another is held.
fn holds(store: &Store, chain: &Chain, from: usize, to: usize) {
    let (held, snapshot, records) = read(store).unwrap().expect("something");
    let of = chain.records(from, to);
    assert_eq!(snapshot, snapshot_of(from));
    assert!(records == framed(of), "{} bytes", records.len());
    let record_bytes = of.iter().map(|record| record.len() as u64).sum();
    let snapshot_bytes = snapshot.len() as u64;
    assert_eq!(held, Held { snapshot: chain.at(from), last: chain.at(to), snapshot_bytes, record_bytes });
    assert_eq!(store.held(), Some(held));
}

/// A bench on which the chain is held from its first change on.
fn held(chain: &Chain, to: usize) -> Bench {
    let (bench, store) = bench();
    hold_snapshot(&store, chain.at(1), &snapshot_of(1)).unwrap();
    append(&store, chain.at(1), chain.records(1, to)).unwrap().unwrap();
    bench
}

fn file_names(disk: &CrashDisk) -> Vec<String> {
    let mut names: Vec<String> =
        disk.list(Path::new("records")).unwrap().into_iter().map(|entry| entry.name).collect();
    names.sort();
    names
}

const SNAPSHOT: &str = "records/0000000000000001.snapshot";
const RECORDS: &str = "records/0000000000000001.records";

#[test]
fn what_is_held_comes_back_as_it_was_also_after_a_restart() {
    let chain = Chain::new(9, &[0, 100, 20_000]);
    let (bench, store) = bench();
    assert_eq!((store.held(), read(&store).unwrap()), (None, None));
    assert_eq!(append(&store, Position::default(), chain.records(0, 1)).unwrap(), None, "nothing is held");
    assert!(
        !bench.disk.exists(Path::new("records")).unwrap(),
        "a store that holds nothing has no such folder"
    );
    hold_snapshot(&store, chain.at(2), &snapshot_of(2)).unwrap();
    holds(&store, &chain, 2, 2);
    for (from, to) in [(2, 3), (3, 3), (3, 8)] {
        let held = append(&store, chain.at(from), chain.records(from, to)).unwrap().unwrap();
        assert_eq!(held.last, chain.at(to));
        holds(&store, &chain, 2, to);
    }
    drop(store);
    holds(&bench.store(), &chain, 2, 8);
    hold_snapshot(&bench.store(), chain.at(8), &snapshot_of(8)).unwrap();
    assert_eq!(file_names(&bench.disk), ["0000000000000002.snapshot"], "the older pair goes");
    append(&bench.store(), chain.at(8), chain.records(8, 9)).unwrap().unwrap();
    holds(&bench.store(), &chain, 8, 9);
}

#[test]
fn records_longer_than_any_piece_come_back_and_longer_ones_than_any_are_refused() {
    let chain = Chain::new(6, &[3 << 20, 90, 700_000]);
    let bench = held(&chain, 6);
    holds(&bench.store(), &chain, 1, 6);
    let store = bench.store();
    for bytes in [0, 56, MAX_RECORD_BYTES + 1, u64::MAX] {
        let refused = append_bytes(&store, chain.at(6), &bytes.to_le_bytes());
        assert!(matches!(refused, Err(StoreError::BadRecord { .. })), "{bytes}: {refused:?}");
    }
    holds(&store, &chain, 1, 6);
}

#[test]
fn records_that_follow_something_else_are_not_taken() {
    let chain = Chain::new(5, &[50]);
    let bench = held(&chain, 3);
    let store = bench.store();
    for elsewhere in [1, 2, 4] {
        assert_eq!(append(&store, chain.at(elsewhere), chain.records(elsewhere, 5)).unwrap(), None);
    }
    holds(&store, &chain, 1, 3);
}

#[test]
fn a_batch_with_a_bad_record_is_refused_as_a_whole() {
    // Long enough that what was good of it is written before what is bad comes.
    let chain = Chain::new(8, &[600_000]);
    let bench = held(&chain, 3);
    let mut store = bench.store();
    let good = chain.records(3, 6);
    let gap = [good, chain.records(7, 8)].concat();
    let twice = [good, chain.records(3, 4)].concat();
    let set_back = [good, &[record(&chain.at(6), 6, b"the same change").0]].concat();
    let mut unknown = [good, chain.records(6, 7)].concat();
    unknown[3][0] = 77;
    for bad in [gap, twice, set_back, unknown] {
        let refused = append(&store, chain.at(3), &bad);
        assert!(matches!(refused, Err(StoreError::BadRecord { .. })), "{refused:?}");
        holds(&store, &chain, 1, 3);
        store = again(&bench, store);
        holds(&store, &chain, 1, 3);
    }
    let mut cut = framed(good);
    cut.pop();
    assert!(matches!(append_bytes(&store, chain.at(3), &cut), Err(StoreError::BadRecord { .. })));
    append(&store, chain.at(3), chain.records(3, 8)).unwrap().unwrap();
    holds(&store, &chain, 1, 8);
}

#[test]
fn what_was_begun_and_dropped_leaves_what_was_held() {
    let chain = Chain::new(8, &[600_000]);
    let bench = held(&chain, 3);
    let store = bench.store();
    let mut snapshot = store.hold_snapshot(CLUSTER, chain.at(8)).unwrap();
    snapshot.write(&snapshot_of(8)).unwrap();
    assert!(matches!(store.hold_records(chain.at(3)), Err(StoreError::HoldBusy)), "one at a time");
    assert!(matches!(store.hold_snapshot(CLUSTER, chain.at(3)), Err(StoreError::HoldBusy)));
    holds(&store, &chain, 1, 3);
    drop(snapshot);
    let mut records = store.hold_records(chain.at(3)).unwrap().unwrap();
    records.write(&framed(chain.records(3, 8))).unwrap();
    holds(&store, &chain, 1, 3);
    drop(records);
    holds(&store, &chain, 1, 3);
    assert!(bench.disk.list(Path::new("tmp")).unwrap().is_empty());
    holds(&again(&bench, store), &chain, 1, 3);
}

/// Who reads sees what was held when they began.
#[test]
fn a_reader_is_not_disturbed_by_what_is_held_meanwhile() {
    let chain = Chain::new(8, &[50]);
    let bench = held(&chain, 3);
    let store = bench.store();
    let mut reader = store.read_held().unwrap().unwrap();
    append(&store, chain.at(3), chain.records(3, 5)).unwrap().unwrap();
    hold_snapshot(&store, chain.at(6), &snapshot_of(6)).unwrap();
    assert_eq!(all(&mut reader, HeldReader::next_of_snapshot).unwrap(), snapshot_of(1));
    assert_eq!(all(&mut reader, HeldReader::next_of_records).unwrap(), framed(chain.records(1, 3)));
    holds(&store, &chain, 6, 6);
}

#[test]
fn wherever_the_tail_is_torn_the_records_before_it_are_held_and_it_is_overwritten() {
    let chain = Chain::new(5, &[3, 40]);
    let whole = file(&held(&chain, 4).disk, Path::new(RECORDS));
    for bytes in 0..=whole.len() {
        let bench = held(&chain, 4);
        bench.disk.damage(Path::new(RECORDS), |file| file.truncate(bytes)).unwrap();
        let store = bench.store();
        let mut ends =
            (2..=4).filter(|to| (1..*to).map(|i| 12 + chain.records[i].len()).sum::<usize>() <= bytes);
        let last = ends.next_back().unwrap_or(1);
        holds(&store, &chain, 1, last);
        append(&store, chain.at(last), chain.records(last, 5)).unwrap().unwrap();
        holds(&again(&bench, store), &chain, 1, 5);
    }
}

#[test]
fn no_flipped_bit_is_taken_for_a_record_or_a_snapshot() {
    let chain = Chain::new(4, &[3]);
    let bench = held(&chain, 4);
    let records = file(&bench.disk, Path::new(RECORDS));
    let frame_bytes = records.len() / 3;
    for bit in (0..records.len() * 8).step_by(3) {
        bench.disk.damage(Path::new(RECORDS), |file| file[bit / 8] ^= 1 << (bit % 8)).unwrap();
        holds(&bench.store(), &chain, 1, 1 + bit / 8 / frame_bytes);
        bench.disk.damage(Path::new(RECORDS), |file| file.clone_from(&records)).unwrap();
    }
    let snapshot = file(&bench.disk, Path::new(SNAPSHOT));
    for byte in (0..130).chain(snapshot.len() - 40..snapshot.len()) {
        bench.disk.damage(Path::new(SNAPSHOT), |file| file[byte] ^= 1 << (byte % 8)).unwrap();
        assert_eq!(bench.store().held(), None, "{byte}");
        bench.disk.damage(Path::new(SNAPSHOT), |file| file.clone_from(&snapshot)).unwrap();
    }
    for bytes in [0, 1, 81, 113, 114, snapshot.len() - 1] {
        bench.disk.damage(Path::new(SNAPSHOT), |file| file.truncate(bytes)).unwrap();
        assert_eq!(bench.store().held(), None, "{bytes}");
        bench.disk.damage(Path::new(SNAPSHOT), |file| file.clone_from(&snapshot)).unwrap();
    }
    holds(&bench.store(), &chain, 1, 4);
}

/// A record that was behind what is overwritten follows nothing any more, though its frame is whole.
#[test]
fn what_is_left_of_a_longer_tail_is_not_taken_for_records() {
    let chain = Chain::new(4, &[30]);
    let bench = held(&chain, 4);
    let frame_bytes = file(&bench.disk, Path::new(RECORDS)).len() / 3;
    bench.disk.damage(Path::new(RECORDS), |file| file[frame_bytes + 20] ^= 1).unwrap();
    let store = bench.store();
    holds(&store, &chain, 1, 2);
    let (other, position) = record(&chain.at(2), 3, &content(99, 30));
    let held = append(&store, chain.at(2), &[other]).unwrap().unwrap();
    assert_eq!(held.last, position);
    assert_eq!(file(&bench.disk, Path::new(RECORDS)).len(), 2 * frame_bytes, "nothing is behind it");
    // And if the old record were there still:
    let old = framed(chain.records(3, 4));
    bench.disk.damage(Path::new(RECORDS), |file| file.extend_from_slice(&old)).unwrap();
    assert_eq!(again(&bench, store).held().unwrap().last, position);
}

#[test]
fn what_rots_while_the_store_is_open_is_noticed_when_it_is_read() {
    let chain = Chain::new(4, &[30]);
    for path in [SNAPSHOT, RECORDS] {
        let bench = held(&chain, 4);
        let store = bench.store();
        bench.disk.damage(Path::new(path), |file| file[100] ^= 1).unwrap();
        assert!(matches!(read(&store), Err(StoreError::HeldDamaged { .. })), "{path}");
    }
}

#[test]
fn a_snapshot_that_cannot_be_judged_is_not_used_and_kept() {
    let chain = Chain::new(5, &[30]);
    let kept = ["0000000000000001.records", "0000000000000001.snapshot"];
    let changes: [fn(&mut Vec<u8>); 4] =
        [|file| file[8] = 9, |file| file[10] ^= 1, |file| file[200] ^= 1, |file| file.truncate(50)];
    for change in changes {
        let bench = held(&chain, 4);
        bench.disk.damage(Path::new(SNAPSHOT), change).unwrap();
        let store = bench.store();
        assert_eq!((store.held(), read(&store).unwrap()), (None, None));
        assert_eq!(append(&store, chain.at(4), chain.records(4, 5)).unwrap(), None);
        hold_snapshot(&store, chain.at(4), &snapshot_of(4)).unwrap();
        hold_snapshot(&store, chain.at(5), &snapshot_of(5)).unwrap();
        drop(store);
        let names = file_names(&bench.disk);
        assert_eq!(names, [kept.as_slice(), &["0000000000000003.snapshot"]].concat());
        holds(&bench.store(), &chain, 5, 5);
    }
}

#[test]
fn an_older_snapshot_counts_as_long_as_no_newer_one_can_be_used() {
    let chain = Chain::new(5, &[30]);
    let bench = held(&chain, 4);
    let (older, records) = (file(&bench.disk, Path::new(SNAPSHOT)), file(&bench.disk, Path::new(RECORDS)));
    hold_snapshot(&bench.store(), chain.at(4), &snapshot_of(4)).unwrap();
    let newer = Path::new("records/0000000000000002.snapshot");
    for (path, bytes) in [(SNAPSHOT, &older), (RECORDS, &records)] {
        bench.disk.create_new(Path::new(path)).unwrap().write_at(0, bytes).unwrap();
    }
    bench.disk.damage(newer, |file| file[8] = 9).unwrap();
    holds(&bench.store(), &chain, 1, 4);
    bench.disk.damage(newer, |file| file[8] = 1).unwrap();
    holds(&bench.store(), &chain, 4, 4);
    assert_eq!(file_names(&bench.disk), ["0000000000000002.snapshot"], "the older one goes when it is met");
}

#[test]
fn strange_files_are_left_alone_and_numbers_go_on_above_them() {
    let chain = Chain::new(3, &[30]);
    let bench = held(&chain, 2);
    let strange = [
        "readme",
        "1.snapshot",
        "000000000000000G.snapshot",
        "000000000000000A.records",
        "0000000000000007.x",
    ];
    let taken = ["0000000000000005.snapshot", "0000000000000009.records"];
    for name in strange.iter().chain(&taken) {
        bench.disk.create_new(&Path::new("records").join(name)).unwrap();
    }
    let store = bench.store();
    holds(&store, &chain, 1, 2);
    hold_snapshot(&store, chain.at(3), &snapshot_of(3)).unwrap();
    holds(&again(&bench, store), &chain, 3, 3);
    let names = file_names(&bench.disk);
    assert!(names.contains(&"000000000000000a.snapshot".to_owned()), "{names:?}");
    assert!(strange.iter().chain(&taken).all(|name| names.contains(&(*name).to_owned())), "{names:?}");
}

#[test]
fn a_full_disk_leaves_what_was_held_and_it_goes_on_when_there_is_room() {
    let chain = Chain::new(9, &[600_000]);
    let bench = held(&chain, 3);
    let store = bench.store();
    bench.disk.set_capacity(u64::MAX);
    let used = u64::MAX - bench.disk.free_bytes().unwrap();
    bench.disk.set_capacity(used + 1_500_000);
    let refused = append(&store, chain.at(3), chain.records(3, 9));
    assert!(matches!(refused, Err(StoreError::Disk(DiskError::NoSpace { .. }))), "{refused:?}");
    assert_eq!(store.held(), None, "not known before it is read again");
    holds(&store_after_reading(&store), &chain, 1, 3);
    let refused = hold_snapshot(&store, chain.at(3), &vec![0; 2_000_000]);
    assert!(matches!(refused, Err(StoreError::Disk(DiskError::NoSpace { .. }))), "{refused:?}");
    holds(&store, &chain, 1, 3);
    bench.disk.set_capacity(u64::MAX);
    append(&store, chain.at(3), chain.records(3, 9)).unwrap().unwrap();
    holds(&again(&bench, store), &chain, 1, 9);
}

/// The same store, what it holds having been read again.
fn store_after_reading(store: &Store) -> Store {
    read(store).unwrap().unwrap();
    store.clone()
}

#[test]
fn what_cannot_be_read_again_is_not_taken_for_nothing() {
    let chain = Chain::new(3, &[30]);
    let bench = held(&chain, 2);
    let store = bench.store();
    bench.disk.starve(true);
    // As if a write had failed: what is held has to be read again, and cannot be.
    bench.disk.damage(Path::new(RECORDS), |file| file.truncate(3)).unwrap();
    append(&store, chain.at(2), chain.records(2, 3)).unwrap_err();
    assert_eq!(store.held(), None);
    assert!(read(&store).is_err(), "an error is no word that nothing is held");
    bench.disk.starve(false);
    holds(&store_after_reading(&store), &chain, 1, 1);
}

#[test]
fn the_formats_of_what_is_held_are_stable() {
    let stamp = Stamp { term: Term { number: 2, word: 0xff00 }, change: 3 };
    let at = Position { stamp, hash: [7; 32] };
    let (bench, store) = bench();
    hold_snapshot(&store, at, b"a catalog").unwrap();
    let stamp = Stamp { change: 4, ..stamp };
    let record = [RecordHead { stamp, before: [7; 32] }.encode().as_slice(), b"rows"].concat();
    append(&store, at, &[record]).unwrap().unwrap();
    let hex = |path: &str| -> String {
        file(&bench.disk, Path::new(path)).iter().map(|byte| format!("{byte:02x}")).collect()
    };
    assert_eq!(hex(SNAPSHOT), GOLDEN_SNAPSHOT.concat());
    assert_eq!(hex(RECORDS), GOLDEN_RECORDS.concat());
}

const GOLDEN_SNAPSHOT: [&str; 8] = [
    "534c686f6c646572",
    "0100",
    "00112233445566778899aabbccddeeff",
    "0200000000000000",
    "00ff000000000000",
    "03000000000000000707070707070707070707070707070707070707070707070707070707070707",
    "6120636174616c6f67",
    "350f43f7135b1f3ae47512b642e2424049e6fc2b6374be0f0d63261ac2b46e13",
];

const GOLDEN_RECORDS: [&str; 5] = [
    "3d00000000000000",
    "6f43ec87",
    "01020000000000000000ff0000000000000400000000000000",
    "0707070707070707070707070707070707070707070707070707070707070707",
    "726f7773",
];
