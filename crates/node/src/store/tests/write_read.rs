//! Bytes come back as they were written, with the checksums and fingerprints that flows expect.

use super::*;
use gf::Fingerprint;
use proptest::prelude::*;

const BLOCK: BlockId = BlockId(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);

/// The fingerprint of a run of whole chunks (the last may be short), by its definition.
fn fingerprint(bytes: &[u8]) -> Fingerprint {
    let mut sum = Fingerprint::ZERO;
    for (index, chunk) in (0..).zip(bytes.chunks(CHUNK_BYTES)) {
        sum.fold(index, &gf::kernels().fingerprint(chunk));
    }
    sum
}

/// The offsets and lengths in which a flow with that slice size brings the symbols of a block: slice by slice, row by
/// row, cut at the block's length.
fn frames(alpha: usize, symbol_bytes: usize, stored: usize, slice: usize) -> Vec<std::ops::Range<usize>> {
    let mut frames = Vec::new();
    for at in (0..symbol_bytes).step_by(slice) {
        for symbol in 0..alpha {
            let end = (symbol * symbol_bytes + (at + slice).min(symbol_bytes)).min(stored);
            let start = (symbol * symbol_bytes + at).min(end);
            if start < end {
                frames.push(start..end);
            }
        }
    }
    frames
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Whatever the slices and symbols, and whether fingerprints come along.
    #[test]
    fn blocks_are_what_was_written(
        alpha in 1usize..5,
        stored in 0usize..300_000,
        slice in prop::sample::select(vec![1024usize, 4096, 32 * 1024, 96 * 1024]),
        ranges in prop::collection::vec((0usize..300_000, 0usize..100_000), 4),
        with_fingerprints: bool,
    ) {
        let bytes = content(stored as u64, stored);
        let mut symbol_bytes = stored.div_ceil(alpha);
        if alpha > 1 {
            symbol_bytes = symbol_bytes.next_multiple_of(CHUNK_BYTES);
        }
        let bench = Bench::new();
        let store = bench.store();
        let mut writer = store.writer(BLOCK, 3, stored as u64).unwrap();
        for frame in frames(alpha, symbol_bytes, stored, slice) {
            let prints: Vec<_> = bytes[frame.clone()].chunks(CHUNK_BYTES).map(fingerprint).collect();
            let known = (with_fingerprints && slice >= CHUNK_BYTES).then_some(prints.as_slice());
            writer.write(frame.start as u64, &bytes[frame], known).unwrap();
        }
        let facts = NewBlock { alpha: alpha as u16, symbol_bytes: symbol_bytes as u64, ..plain(stored) };
        let digest = *blake3::hash(&bytes).as_bytes();
        let staged = writer.finish(facts, Some(digest)).unwrap();

        prop_assert_eq!(file(&bench.disk, &data_path_of(BLOCK, 3)), bytes.clone());
        prop_assert_eq!((staged.meta.digest, staged.meta.stored_bytes), (digest, stored as u64));
        prop_assert_eq!(staged.meta.fingerprint, fingerprint(&bytes));
        prop_assert_eq!(staged.symbols.len(), alpha);
        for (index, symbol) in staged.symbols.iter().enumerate() {
            let start = (index * symbol_bytes).min(stored);
            let end = ((index + 1) * symbol_bytes).min(stored);
            prop_assert_eq!(*symbol, fingerprint(&bytes[start..end]));
        }
        prop_assert_eq!(store.verify(BLOCK, 3, |_| ()).unwrap(), Verdict::Whole);
        let reader = store.reader(BLOCK, 3).unwrap();
        prop_assert_eq!(reader.meta().generation, 3);
        for (at, wanted) in ranges {
            let at = at.min(stored);
            let mut out = vec![0; wanted.min(stored - at)];
            reader.read_verified(at as u64, &mut out).unwrap();
            prop_assert_eq!(&out, &bytes[at..at + out.len()]);
            reader.read_at(at as u64, &mut out).unwrap();
            prop_assert_eq!(&out, &bytes[at..at + out.len()]);
        }
        let entries = reader.entries(0..chunks_of(stored as u64)).unwrap();
        for (entry, chunk) in entries.iter().zip(bytes.chunks(CHUNK_BYTES)) {
            prop_assert_eq!(entry.fingerprint, gf::kernels().fingerprint(chunk));
            prop_assert_eq!(entry.crc, wire::frame::crc32c(chunk));
        }
    }
}

#[test]
fn what_does_not_fit_is_refused_and_leaves_nothing() {
    let bench = Bench::new();
    let store = bench.store();
    let chunk = CHUNK_BYTES as u64;
    let bytes = content(0, 3 * CHUNK_BYTES);
    let begin = || {
        let mut writer = store.writer(BLOCK, 1, bytes.len() as u64).unwrap();
        writer.write(0, &bytes[..CHUNK_BYTES + 100], None).unwrap();
        writer
    };
    let prints = [Fingerprint::ZERO];
    for (offset, length, known) in [
        (0, 10, None),                       // written already
        (chunk, 10, None),                   // begun already
        (chunk, CHUNK_BYTES, None),          // begun already
        (chunk + 101, 10, None),             // a gap within a chunk
        (2 * chunk + 1, 10, None),           // a chunk that lacks its beginning
        (2 * chunk + 1, 10, Some(&prints)),  // fingerprints are of chunks
        (2 * chunk, 10, Some(&prints[..0])), // one for each
    ] as [(u64, usize, Option<&[Fingerprint]>); 7]
    {
        let refused = begin().write(offset, &bytes[..length], known);
        assert!(matches!(refused, Err(StoreError::OutOfOrder { .. })), "{offset} {length} {refused:?}");
    }
    assert!(matches!(begin().write(u64::MAX - 5, &bytes[..10], None), Err(StoreError::TooLarge { .. })));

    for stored in [0, 100, CHUNK_BYTES, CHUNK_BYTES + 99, CHUNK_BYTES + 101, 3 * CHUNK_BYTES] {
        let refused = begin().finish(plain(stored), None);
        assert!(matches!(refused, Err(StoreError::Incomplete { .. })), "{stored} {refused:?}");
    }
    let stored = CHUNK_BYTES + 100;
    let refused = begin().finish(plain(stored), Some([0; 32]));
    assert!(matches!(refused, Err(StoreError::DigestDiffers { .. })), "{refused:?}");
    for (alpha, symbol_bytes) in [(0, chunk), (2, chunk - 1), (1, 100), (2000, chunk), (1, u64::MAX)] {
        let refused = begin().finish(NewBlock { alpha, symbol_bytes, ..plain(stored) }, None);
        assert!(matches!(refused, Err(StoreError::BadGeometry { .. })), "{alpha} {symbol_bytes} {refused:?}");
    }
    let name = "n".repeat(MAX_META_BYTES);
    let part = Some(model::Part { name, version: 1, offset: 0, last: true });
    let refused = begin().finish(NewBlock { part, ..plain(stored) }, None);
    assert!(matches!(refused, Err(StoreError::TooLarge { .. })), "{refused:?}");

    drop(begin());
    assert_eq!(copies(&store), []);
    assert!(bench.disk.list(Path::new("tmp")).unwrap().is_empty());
    begin().finish(plain(stored), None).unwrap();
}

#[test]
fn copies_of_a_block_lie_beside_each_other_and_each_goes_by_its_own_order() {
    let bench = Bench::new();
    let store = bench.store();
    put(&store, BLOCK, 2, b"second").unwrap();
    put(&store, BLOCK, 3, b"the third").unwrap();
    put(&store, BLOCK, 1, b"first").unwrap();
    let reader = store.reader(BLOCK, 2).unwrap();
    for (generation, bytes) in [(1, &b"first"[..]), (2, b"second"), (3, b"the third")] {
        assert_eq!(get(&store, BLOCK, generation).unwrap(), bytes);
    }
    assert_eq!(copies(&store), [(BLOCK, 1), (BLOCK, 2), (BLOCK, 3)]);
    assert_eq!(store.usage(), Usage { blocks: 3, stored_bytes: 20, half_blocks: 0 });
    assert!(!store.delete(BLOCK, 4).unwrap(), "another copy than was meant stays");
    assert!(store.delete(BLOCK, 2).unwrap() && !store.delete(BLOCK, 2).unwrap());
    let mut old = [0; 6];
    reader.read_verified(0, &mut old).unwrap();
    assert_eq!(&old, b"second", "whoever reads goes on reading what he opened");
    assert!(!store.contains(BLOCK, 2).unwrap());
    assert_eq!(copies(&store), [(BLOCK, 1), (BLOCK, 3)]);
    assert_eq!(store.usage(), Usage { blocks: 2, stored_bytes: 14, half_blocks: 0 });
    assert!(matches!(reader.read_at(5, &mut old), Err(StoreError::OutOfRange { .. })));
    assert!(matches!(reader.entries(0..2), Err(StoreError::OutOfRange { .. })));
    assert!(matches!(reader.entries(u64::MAX - 1..u64::MAX), Err(StoreError::OutOfRange { .. })));
}

#[test]
fn a_copy_that_is_there_already_stays_and_only_the_same_bytes_are_taken_for_it() {
    let bench = Bench::new();
    let store = bench.store();
    let bytes = content(4, 2 * CHUNK_BYTES + 7);
    put(&store, BLOCK, 1, &bytes).unwrap();
    put(&store, BLOCK, 1, &bytes).unwrap();
    for other in [content(5, bytes.len()), content(4, 100), vec![]] {
        let refused = put(&store, BLOCK, 1, &other);
        assert!(matches!(refused, Err(StoreError::Exists { block: BLOCK, generation: 1 })), "{refused:?}");
    }
    assert_eq!(get(&store, BLOCK, 1).unwrap(), bytes);
    assert_eq!(store.usage(), Usage { blocks: 1, stored_bytes: bytes.len() as u64, half_blocks: 0 });
    // A sidecar vouches for no bytes.
    bench.disk.damage(&data_path(BLOCK), |bytes| bytes[9] ^= 1).unwrap();
    assert!(matches!(put(&store, BLOCK, 1, &bytes), Err(StoreError::Exists { .. })));
    bench.disk.damage(&sidecar_path(BLOCK), |bytes| bytes.truncate(9)).unwrap();
    assert!(matches!(put(&store, BLOCK, 1, &bytes), Err(StoreError::Exists { .. })));
    assert!(bench.disk.list(Path::new("tmp")).unwrap().is_empty());
    assert_eq!(bench.disk.list(Path::new("blocks/01")).unwrap().len(), 2);
}

#[test]
fn many_blocks_are_listed_in_order_and_counted_again_on_opening() {
    let bench = Bench::new();
    let blocks: Vec<BlockId> = (0..300u128).map(|i| BlockId(((i * 0x9e37_79b9) << 96) | i)).collect();
    let store = bench.store();
    for (index, &block) in blocks.iter().enumerate() {
        put(&store, block, 1, &content(0, index)).unwrap();
    }
    let mut sorted = blocks.clone();
    sorted.sort();
    let listed: Vec<BlockId> = copies(&store).into_iter().map(|(block, _)| block).collect();
    assert_eq!(listed, sorted);
    let usage = Usage { blocks: 300, stored_bytes: (0..300).sum(), half_blocks: 0 };
    assert_eq!(store.usage(), usage);
    drop(store);
    assert_eq!(bench.store().usage(), usage);
}

/// Files may come and go by other hands: a file system that was repaired, an operator.
#[test]
fn what_came_or_went_by_other_hands_is_counted_when_its_folder_is_listed() {
    use crate::store::names as files;
    let bench = Bench::new();
    let store = bench.store();
    let of_generation = |generation| CopyId { block: BLOCK, generation };
    for (generation, bytes) in [(1, &b"first"[..]), (2, b"second"), (3, b"the third")] {
        put(&store, BLOCK, generation, bytes).unwrap();
    }
    bench.disk.remove(&files::data_path(of_generation(1))).unwrap();
    bench.disk.remove(&files::sidecar_path(of_generation(1))).unwrap();
    bench.disk.remove(&files::sidecar_path(of_generation(3))).unwrap();
    assert_eq!(copies(&store), [(BLOCK, 2)]);
    let left = Usage { blocks: 1, stored_bytes: 6, half_blocks: 1 };
    assert_eq!(store.usage(), left, "as soon as its folder was listed");
    // Another copy has taken the place of the one that is left: there are as many as before.
    for path in [files::data_path, files::sidecar_path] {
        bench.disk.rename(&path(of_generation(2)), &path(of_generation(4))).unwrap();
    }
    bench.disk.damage(&files::data_path(of_generation(4)), |bytes| bytes.truncate(2)).unwrap();
    assert_eq!(copies(&store), [(BLOCK, 4)]);
    assert_eq!(store.usage(), Usage { stored_bytes: 2, ..left });
    assert!(store.delete(BLOCK, 4).unwrap() && store.delete(BLOCK, 3).unwrap());
    assert_eq!(store.usage(), Usage::default());
}

/// The same calls on the operating system's disk; blocks are plain files there.
#[test]
fn a_real_folder_holds_plain_files() {
    let folder = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(disk::RealDisk::create(folder.path().join("store")).unwrap());
    Store::format(&disk, NODE).unwrap();
    let store = Store::open(Arc::clone(&disk), NODE, 0).unwrap();
    let bytes = content(5, 1_000_000);
    put(&store, BLOCK, 1, &bytes).unwrap();
    assert_eq!(std::fs::read(folder.path().join("store").join(data_path(BLOCK))).unwrap(), bytes);
    let mut told = 0;
    assert_eq!(store.verify(BLOCK, 1, |step| told += step).unwrap(), Verdict::Whole);
    assert_eq!(told, 1_000_000);
    drop(store);
    let store = Store::open(disk, NODE, 0).unwrap();
    assert_eq!(get(&store, BLOCK, 1).unwrap(), bytes);
    assert!(store.free_bytes().unwrap() > 0);
    assert!(store.delete(BLOCK, 1).unwrap());
}
