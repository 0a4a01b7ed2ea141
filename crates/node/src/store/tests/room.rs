//! What does not fit is refused before anything is written.

use super::*;

const BLOCK: BlockId = BlockId(0xdd << 120 | 1);
const MIB: u64 = 1 << 20;

/// A store with so much room beyond what is there, of which so much is reserved.
fn store(free_bytes: u64, reserve_bytes: u64) -> (CrashDisk, Store) {
    let Bench { disk, .. } = Bench::new();
    disk.set_capacity(u64::MAX);
    let used = u64::MAX - disk.free_bytes().unwrap();
    disk.set_capacity(used + free_bytes);
    let store = Store::open(as_dyn(&disk), NODE, reserve_bytes).unwrap();
    (disk, store)
}

fn is_refused(begun: Result<BlockWriter>) -> bool {
    matches!(begun, Err(StoreError::NoRoom { block: BLOCK, .. }))
}

#[test]
fn a_block_that_does_not_fit_beside_the_reserve_is_not_begun() {
    let (disk, store) = store(10 * MIB, 6 * MIB);
    assert_eq!(store.free_bytes().unwrap(), 4 * MIB);
    assert!(is_refused(store.writer(BLOCK, 1, 5 * MIB)));
    assert!(is_refused(store.writer(BLOCK, 1, 4 * MIB)), "its sidecar needs room too");
    assert!(is_refused(store.writer(BLOCK, 1, u64::MAX)));
    assert!(disk.list(Path::new("tmp")).unwrap().is_empty());
    put(&store, BLOCK, 1, &content(1, 3 << 20)).unwrap();
    let left = store.free_bytes().unwrap();
    assert!((MIB - 64 * 1024..MIB).contains(&left), "{left}");
    let (_, full) = self::store(MIB, 2 * MIB);
    assert_eq!(full.free_bytes().unwrap(), 0, "the reserve may be used up already");
    assert!(is_refused(full.writer(BLOCK, 1, 0)));
}

#[test]
fn what_open_writers_will_write_is_taken_and_given_back() {
    let (_, store) = store(10 * MIB, 0);
    let mut first = store.writer(BLOCK, 1, 6 * MIB).unwrap();
    assert!(store.free_bytes().unwrap() < 4 * MIB);
    assert!(is_refused(store.writer(BLOCK, 2, 6 * MIB)));
    let small = store.writer(BLOCK, 3, MIB).unwrap();
    // What is on the disk is counted once.
    let before = store.free_bytes().unwrap();
    first.write(0, &content(2, 2 << 20), None).unwrap();
    assert_eq!(store.free_bytes().unwrap(), before);
    drop(small);
    assert!(store.free_bytes().unwrap() > before + MIB);
    drop(first);
    assert_eq!(store.free_bytes().unwrap(), 10 * MIB);
    drop(store.writer(BLOCK, 2, 9 * MIB).unwrap());
}

/// The check that was made is worth nothing if two writers make it at once.
#[test]
fn many_writers_at_once_never_take_the_same_room() {
    let (_, store) = store(10 * MIB, 0);
    let writers: Vec<_> = std::thread::scope(|scope| {
        let begin = |generation| {
            let store = store.clone();
            scope.spawn(move || store.writer(BLOCK, generation, MIB).ok())
        };
        let begun: Vec<_> = (0..32).map(begin).collect();
        begun.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    assert_eq!(writers.iter().flatten().count(), 9, "nine with their sidecars");
}
