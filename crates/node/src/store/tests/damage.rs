//! Whatever happens to the files, the store says so, and names the place.

use super::*;
use proptest::prelude::*;

const BLOCK: BlockId = BlockId(0xcc << 120 | 3);
const BYTES: usize = 3 * CHUNK_BYTES + 1000;

fn bench() -> Bench {
    let bench = Bench::new();
    put(&bench.store(), BLOCK, 1, &content(9, BYTES)).unwrap();
    bench
}

fn flip(bench: &Bench, path: &Path, at: usize) {
    bench.disk.damage(path, |bytes| bytes[at] ^= 0x10).unwrap();
}

fn scrub(bench: &Bench) -> Verdict {
    bench.store().verify(BLOCK, |_| ()).unwrap()
}

#[test]
fn a_flipped_bit_of_the_data_is_found_by_reads_of_its_chunk_and_by_scrubs() {
    let bench = bench();
    flip(&bench, &data_path(BLOCK), 2 * CHUNK_BYTES + 5);
    let store = bench.store();
    let reader = store.reader(BLOCK).unwrap();
    let mut out = vec![0; CHUNK_BYTES];
    reader.read_verified(CHUNK_BYTES as u64, &mut out).unwrap();
    for (at, length) in [(2 * CHUNK_BYTES, 1), (2 * CHUNK_BYTES - 1, 2), (0, BYTES), (3 * CHUNK_BYTES - 1, 1)]
    {
        let mut out = vec![0; length];
        let found = reader.read_verified(at as u64, &mut out);
        assert!(matches!(found, Err(StoreError::Corrupt { damage: Damage::Chunk(2), .. })), "{at} {found:?}");
    }
    drop((store, reader));
    assert_eq!(scrub(&bench), Verdict::Damaged(Damage::Chunk(2)));
}

#[test]
fn a_flipped_bit_anywhere_in_the_sidecar_is_found() {
    let sidecar = file(&bench().disk, &sidecar_path(BLOCK));
    let entries_at = sidecar.len() - 4 * ENTRY_BYTES;
    // But for the version: the store does not open then.
    let header = (0..8).chain(12..entries_at);
    for at in header.chain((entries_at..sidecar.len()).step_by(11)) {
        let bench = bench();
        flip(&bench, &sidecar_path(BLOCK), at);
        let found = scrub(&bench);
        if at < entries_at {
            assert!(matches!(found, Verdict::Damaged(Damage::Sidecar(_))), "{at} {found:?}");
        } else {
            let chunk = ((at - entries_at) / ENTRY_BYTES) as u64;
            assert_eq!(found, Verdict::Damaged(Damage::Entry(chunk)), "{at}");
        }
    }
}

#[test]
fn files_that_are_cut_off_or_too_long_are_found() {
    for length in [0, 1, BYTES - 1, BYTES + 1] {
        let bench = bench();
        bench.disk.damage(&data_path(BLOCK), |bytes| bytes.resize(length, 0)).unwrap();
        let length = Damage::Length { stored: BYTES as u64, found: length as u64 };
        assert_eq!(scrub(&bench), Verdict::Damaged(length));
    }
    let sidecar_bytes = file(&bench().disk, &sidecar_path(BLOCK)).len();
    for length in (0..sidecar_bytes).step_by(7).chain([sidecar_bytes + 1, sidecar_bytes + ENTRY_BYTES]) {
        let bench = bench();
        bench.disk.damage(&sidecar_path(BLOCK), |bytes| bytes.resize(length, 0)).unwrap();
        assert!(matches!(scrub(&bench), Verdict::Damaged(Damage::Sidecar(_))), "{length}");
        let store = bench.store();
        let listed: Vec<_> = store.list().collect();
        assert!(matches!(listed[..], [Err(StoreError::Corrupt { block: BLOCK, .. })]), "{listed:?}");
        assert!(store.contains(BLOCK).unwrap());
        // A corrupt copy stands in nobody's way.
        put(&store, BLOCK, 1, b"repaired").unwrap();
        assert_eq!(get(&store, BLOCK).unwrap(), b"repaired");
        assert_eq!(store.usage(), Usage { blocks: 1, stored_bytes: 8, half_blocks: 0 });
    }
}

#[test]
fn wrong_fingerprints_and_swapped_sidecars_are_found_by_scrubs() {
    let bench = Bench::new();
    let store = bench.store();
    let bytes = content(9, 2 * CHUNK_BYTES);
    let mut writer = store.writer(BLOCK, 1).unwrap();
    let good = gf::kernels().fingerprint(&bytes[..CHUNK_BYTES]);
    writer.write(0, &bytes, Some(&[good, good])).unwrap();
    writer.finish(plain(bytes.len()), None).unwrap();
    assert_eq!(store.verify(BLOCK, |_| ()).unwrap(), Verdict::Damaged(Damage::Fingerprint(1)));

    let other = BlockId(BLOCK.0 + 1);
    put(&store, other, 1, &bytes).unwrap();
    let swapped = file(&bench.disk, &sidecar_path(other));
    bench.disk.damage(&sidecar_path(BLOCK), |bytes| bytes.clone_from(&swapped)).unwrap();
    let found = store.verify(BLOCK, |_| ()).unwrap();
    assert_eq!(found, Verdict::Damaged(Damage::Sidecar("it is that of another block")));
}

#[test]
fn half_a_block_is_none_and_is_kept() {
    for lost in [data_path(BLOCK), sidecar_path(BLOCK)] {
        let bench = bench();
        let moved = Path::new("aside");
        bench.disk.rename(&lost, moved).unwrap();
        let store = bench.store();
        assert!(!store.contains(BLOCK).unwrap());
        assert!(matches!(store.reader(BLOCK), Err(StoreError::NotFound { .. })));
        assert!(matches!(store.verify(BLOCK, |_| ()), Err(StoreError::NotFound { .. })));
        let usage = Usage { half_blocks: 1, ..Usage::default() };
        assert_eq!((store.list().count(), store.usage()), (0, usage), "it is told");
        assert_eq!(bench.disk.list(Path::new("blocks/cc")).unwrap().len(), 1);
        drop(store);
        // What was moved away for one start is whole when it is back.
        bench.disk.rename(moved, &lost).unwrap();
        assert_eq!(get(&bench.store(), BLOCK).unwrap(), content(9, BYTES));
    }
}

#[test]
fn half_a_block_makes_way_for_a_new_copy() {
    for lost in [data_path(BLOCK), sidecar_path(BLOCK)] {
        let bench = bench();
        bench.disk.remove(&lost).unwrap();
        let store = bench.store();
        put(&store, BLOCK, 2, b"again").unwrap();
        assert_eq!(get(&store, BLOCK).unwrap(), b"again");
    }
}

#[test]
fn a_sidecar_of_an_unknown_version_keeps_the_store_closed_and_nothing_goes() {
    for at in [8, 9, 10, 11] {
        let bench = bench();
        let open = bench.store();
        flip(&bench, &sidecar_path(BLOCK), at);
        // One that changes while the store is open is no damage either, and no order touches it.
        assert!(matches!(open.reader(BLOCK), Err(StoreError::UnknownVersion { block: BLOCK, .. })));
        assert!(matches!(open.delete(BLOCK, 1), Err(StoreError::UnknownVersion { .. })));
        assert!(matches!(open.list().next(), Some(Err(StoreError::UnknownVersion { .. }))));
        drop(open);
        let refused = Store::open(as_dyn(&bench.disk), NODE);
        assert!(matches!(refused, Err(StoreError::UnknownVersion { block: BLOCK, .. })), "{refused:?}");
        flip(&bench, &sidecar_path(BLOCK), at);
        assert_eq!(get(&bench.store(), BLOCK).unwrap(), content(9, BYTES));
    }
}

#[test]
fn a_deletion_that_cannot_tell_which_copy_is_there_removes_nothing() {
    // The sidecar is damaged, away, or cannot be opened; the order may be meant for an older copy.
    let bench = bench();
    flip(&bench, &sidecar_path(BLOCK), 20);
    assert!(matches!(bench.store().delete(BLOCK, 1), Err(StoreError::Corrupt { .. })));
    flip(&bench, &sidecar_path(BLOCK), 20);
    bench.disk.rename(&sidecar_path(BLOCK), Path::new("aside")).unwrap();
    assert!(matches!(bench.store().delete(BLOCK, 1), Err(StoreError::Half { .. })));
    bench.disk.rename(Path::new("aside"), &sidecar_path(BLOCK)).unwrap();
    let store = bench.store();
    bench.disk.starve(true);
    assert!(matches!(store.delete(BLOCK, 1), Err(StoreError::Disk(_))));
    bench.disk.starve(false);
    assert_eq!(get(&store, BLOCK).unwrap(), content(9, BYTES));
}

#[test]
fn a_lack_of_descriptors_says_nothing_about_blocks() {
    let bench = bench();
    let store = bench.store();
    bench.disk.starve(true);
    assert!(matches!(store.reader(BLOCK), Err(StoreError::Disk(_))), "no damage, and not absent");
    assert!(matches!(store.verify(BLOCK, |_| ()), Err(StoreError::Disk(_))));
    assert_eq!(store.list().filter(Result::is_err).count(), 256, "every folder's part is missing");
    assert!(Store::open(as_dyn(&bench.disk), NODE).is_err());
    bench.disk.starve(false);
    assert_eq!(store.list().count(), 1);
}

#[test]
fn strange_files_are_left_alone() {
    let bench = bench();
    let strange = ["README", "abc.meta", &"c".repeat(32).to_uppercase(), &"d".repeat(32)];
    for name in strange {
        bench.disk.create_new(&Path::new("blocks/cc").join(name)).unwrap();
    }
    let store = bench.store();
    assert_eq!(store.list().map(|listed| listed.unwrap().block).collect::<Vec<_>>(), [BLOCK]);
    assert_eq!(bench.disk.list(Path::new("blocks/cc")).unwrap().len(), 2 + strange.len());
}

#[test]
fn a_full_disk_leaves_what_was_there_and_nothing_more() {
    let used = |bench: &Bench| {
        bench.disk.set_capacity(u64::MAX);
        u64::MAX - bench.disk.free_bytes().unwrap()
    };
    let needed = used(&bench()) - used(&Bench::new());
    for missing in [1, 100, 4000, CHUNK_BYTES as u64, needed] {
        let bench = Bench::new();
        let store = bench.store();
        put(&store, BLOCK, 1, b"old").unwrap();
        bench.disk.set_capacity(used(&bench) + needed - missing);
        let refused = put(&store, BLOCK, 2, &content(9, BYTES));
        let is_full = matches!(refused, Err(StoreError::Disk(DiskError::NoSpace { .. })));
        assert!(is_full, "{missing} {refused:?}");
        assert_eq!(bench.disk.free_bytes().unwrap(), needed - missing);
        assert_eq!(get(&store, BLOCK).unwrap(), b"old");
        assert_eq!(store.usage(), Usage { blocks: 1, stored_bytes: 3, half_blocks: 0 });
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    /// Garbage for a sidecar, with a good beginning or wholly: a typed error, no panic, no great allocation.
    #[test]
    fn garbage_is_never_a_sidecar(
        kept in 0usize..700,
        garbage in prop::collection::vec(any::<u8>(), 1..6000),
        length_field: u32,
    ) {
        let bench = bench();
        let store = bench.store();
        bench.disk.damage(&sidecar_path(BLOCK), |bytes| {
            let before = bytes.clone();
            bytes.truncate(kept);
            bytes.extend_from_slice(&garbage);
            if kept == 16 {
                bytes[12..16].copy_from_slice(&length_field.to_le_bytes());
            }
            if *bytes == before {
                bytes.pop();
            }
        }).unwrap();
        let found = store.verify(BLOCK, |_| ());
        let known = matches!(found, Ok(Verdict::Damaged(_)) | Err(StoreError::UnknownVersion { .. }));
        prop_assert!(known, "{found:?}");
        prop_assert_eq!(store.list().count(), 1);
    }
}
