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
    bench.store().verify(BLOCK, 1, |_| ()).unwrap()
}

#[test]
fn a_flipped_bit_of_the_data_is_found_by_reads_of_its_chunk_and_by_scrubs() {
    let bench = bench();
    flip(&bench, &data_path(BLOCK), 2 * CHUNK_BYTES + 5);
    let store = bench.store();
    let reader = store.reader(BLOCK, 1).unwrap();
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
    // But for the version: such a copy cannot be judged.
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
        assert_eq!(copies(&store), [(BLOCK, 1)], "a listing opens nothing");
        assert!(store.contains(BLOCK, 1).unwrap());
        // A corrupt copy stands in nobody's way: the new one lies beside it, and an order removes the old one.
        put(&store, BLOCK, 2, b"repaired").unwrap();
        assert_eq!(copies(&store), [(BLOCK, 1), (BLOCK, 2)]);
        assert!(store.delete(BLOCK, 1).unwrap());
        assert_eq!(get(&store, BLOCK, 2).unwrap(), b"repaired");
        assert_eq!(store.usage(), Usage { blocks: 1, stored_bytes: 8, half_blocks: 0 });
    }
}

#[test]
fn wrong_fingerprints_and_swapped_sidecars_are_found_by_scrubs() {
    let bench = Bench::new();
    let store = bench.store();
    let bytes = content(9, 2 * CHUNK_BYTES);
    let mut writer = store.writer(BLOCK, 1, bytes.len() as u64).unwrap();
    let good = gf::kernels().fingerprint(&bytes[..CHUNK_BYTES]);
    writer.write(0, &bytes, Some(&[good, good])).unwrap();
    writer.finish(plain(bytes.len()), None).unwrap();
    assert_eq!(store.verify(BLOCK, 1, |_| ()).unwrap(), Verdict::Damaged(Damage::Fingerprint(1)));

    let other = BlockId(BLOCK.0 + 1);
    put(&store, other, 1, &bytes).unwrap();
    let swapped = file(&bench.disk, &sidecar_path(other));
    bench.disk.damage(&sidecar_path(BLOCK), |bytes| bytes.clone_from(&swapped)).unwrap();
    let found = store.verify(BLOCK, 1, |_| ()).unwrap();
    assert_eq!(found, Verdict::Damaged(Damage::Sidecar("it is that of another block")));

    put(&store, other, 2, b"another writing").unwrap();
    let swapped = file(&bench.disk, &sidecar_path_of(other, 2));
    bench.disk.damage(&sidecar_path(other), |bytes| bytes.clone_from(&swapped)).unwrap();
    let found = store.verify(other, 1, |_| ()).unwrap();
    assert_eq!(found, Verdict::Damaged(Damage::Sidecar("it is that of another copy")));
}

#[test]
fn half_a_copy_is_none_and_is_kept_and_told_by_its_name() {
    let copy = CopyId { block: BLOCK, generation: 1 };
    for (lost, half) in
        [(data_path(BLOCK), Unjudged::Sidecar(copy)), (sidecar_path(BLOCK), Unjudged::Data(copy))]
    {
        let bench = bench();
        let moved = Path::new("aside");
        bench.disk.rename(&lost, moved).unwrap();
        let store = bench.store();
        assert!(!store.contains(BLOCK, 1).unwrap());
        assert!(matches!(store.reader(BLOCK, 1), Err(StoreError::NotFound { .. })));
        assert!(matches!(store.verify(BLOCK, 1, |_| ()), Err(StoreError::NotFound { .. })));
        let usage = Usage { half_blocks: 1, ..Usage::default() };
        assert_eq!((copies(&store), unjudged(&store), store.usage()), (vec![], vec![half], usage));
        // Nothing takes its place, and a new copy has its own.
        let refused = put(&store, BLOCK, 1, b"again");
        assert!(matches!(refused, Err(StoreError::Half { block: BLOCK, generation: 1 })), "{refused:?}");
        put(&store, BLOCK, 2, b"again").unwrap();
        assert_eq!(get(&store, BLOCK, 2).unwrap(), b"again");
        assert_eq!(bench.disk.list(Path::new("blocks/cc")).unwrap().len(), 3);
        drop(store);
        // What was moved away for one start is whole when it is back.
        bench.disk.rename(moved, &lost).unwrap();
        assert_eq!(get(&bench.store(), BLOCK, 1).unwrap(), content(9, BYTES));
    }
}

#[test]
fn half_a_copy_goes_by_an_order_that_names_it() {
    for lost in [data_path(BLOCK), sidecar_path(BLOCK)] {
        let bench = bench();
        bench.disk.remove(&lost).unwrap();
        let store = bench.store();
        assert!(!store.delete(BLOCK, 2).unwrap());
        assert_eq!(store.usage().half_blocks, 1);
        assert!(store.delete(BLOCK, 1).unwrap());
        assert_eq!((store.usage(), unjudged(&store)), (Usage::default(), vec![]));
    }
}

#[test]
fn a_copy_whose_sidecar_has_an_unknown_version_is_neither_damaged_nor_absent() {
    for at in [8, 9, 10, 11] {
        let bench = bench();
        flip(&bench, &sidecar_path(BLOCK), at);
        let store = bench.store();
        for error in [
            store.reader(BLOCK, 1).map(drop),
            store.verify(BLOCK, 1, |_| ()).map(drop),
            // What cannot be judged is not taken for the same bytes, and stays.
            put(&store, BLOCK, 1, &content(9, BYTES)).map(drop),
        ] {
            assert!(matches!(error, Err(StoreError::UnknownVersion { block: BLOCK, .. })), "{error:?}");
        }
        assert!(store.contains(BLOCK, 1).unwrap());
        assert_eq!((copies(&store), store.usage().blocks), (vec![(BLOCK, 1)], 1));
        flip(&bench, &sidecar_path(BLOCK), at);
        assert_eq!(get(&store, BLOCK, 1).unwrap(), content(9, BYTES));
    }
}

#[test]
fn a_deletion_opens_no_sidecar_so_a_damaged_copy_goes_and_a_newer_one_never_does() {
    let (old, new) = (content(9, BYTES), content(10, 5000));
    // The old copy's sidecar is damaged, the newer one's is, or none can be opened.
    for damaged in [Some(sidecar_path_of(BLOCK, 1)), Some(sidecar_path_of(BLOCK, 2)), None] {
        let bench = bench();
        let store = bench.store();
        put(&store, BLOCK, 2, &new).unwrap();
        match &damaged {
            Some(sidecar) => flip(&bench, sidecar, 20),
            None => bench.disk.starve(true),
        }
        assert!(!store.delete(BLOCK, 3).unwrap(), "a copy that is not here");
        assert!(store.delete(BLOCK, 1).unwrap());
        assert!(!store.delete(BLOCK, 1).unwrap());
        bench.disk.starve(false);
        if damaged == Some(sidecar_path_of(BLOCK, 2)) {
            flip(&bench, &sidecar_path_of(BLOCK, 2), 20);
        }
        assert_eq!(get(&store, BLOCK, 2).unwrap(), new);
        assert_eq!(copies(&store), [(BLOCK, 2)]);
        assert_ne!(old, new);
    }
}

#[test]
fn a_deletion_that_fails_removes_nothing_more_and_can_be_repeated() {
    let calls = {
        let bench = bench();
        let store = bench.store();
        let before = bench.power.calls();
        store.delete(BLOCK, 1).unwrap();
        bench.power.calls() - before
    };
    for cut in 0..calls {
        let bench = bench();
        let store = bench.store();
        put(&store, BLOCK, 2, b"newer").unwrap();
        bench.power.cut_after(cut);
        assert!(store.delete(BLOCK, 1).is_err());
        drop(store);
        bench.power.restart();
        let disk = bench.disk.reopen();
        let store = open(&disk).unwrap();
        assert_eq!(get(&store, BLOCK, 2).unwrap(), b"newer");
        store.delete(BLOCK, 1).unwrap();
        assert_eq!((copies(&store), unjudged(&store)), (vec![(BLOCK, 2)], vec![]));
        assert_eq!(store.usage(), Usage { blocks: 1, stored_bytes: 5, half_blocks: 0 });
    }
}

#[test]
fn a_lack_of_descriptors_says_nothing_about_blocks() {
    let bench = bench();
    let store = bench.store();
    bench.disk.starve(true);
    assert!(matches!(store.reader(BLOCK, 1), Err(StoreError::Disk(_))), "no damage, and not absent");
    assert!(matches!(store.verify(BLOCK, 1, |_| ()), Err(StoreError::Disk(_))));
    assert_eq!(store.list().filter(Result::is_err).count(), 256, "every folder's part is missing");
    assert!(open(&bench.disk).is_err());
    bench.disk.starve(false);
    assert_eq!(copies(&store).len(), 1);
}

#[test]
fn strange_files_are_left_alone_and_told() {
    let bench = bench();
    let id = BLOCK.to_string();
    let strange = [
        "README".to_owned(),
        "abc.meta".to_owned(),
        id.clone(),
        format!("{id}.01"),
        format!("{id}.+1"),
        format!("{id}.1.meta.meta"),
        format!("{id}.18446744073709551616"),
        format!("{}.1", "c".repeat(32).to_uppercase()),
        format!("{}.1", "d".repeat(32)),
    ];
    for name in &strange {
        bench.disk.create_new(&Path::new("blocks/cc").join(name)).unwrap();
    }
    let store = bench.store();
    assert_eq!(copies(&store), [(BLOCK, 1)]);
    let told: std::collections::BTreeSet<Unjudged> = unjudged(&store).into_iter().collect();
    assert_eq!(told, strange.iter().cloned().map(Unjudged::Strange).collect());
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
        // The disk fills up while the block is being written: others use it too.
        let mut writer = store.writer(BLOCK, 2, BYTES as u64).unwrap();
        bench.disk.set_capacity(used(&bench) + needed - missing);
        let bytes = content(9, BYTES);
        let refused = writer.write(0, &bytes, None).and_then(|()| writer.finish(plain(BYTES), None));
        let is_full = matches!(refused, Err(StoreError::Disk(DiskError::NoSpace { .. })));
        assert!(is_full, "{missing} {refused:?}");
        assert_eq!(bench.disk.free_bytes().unwrap(), needed - missing);
        assert_eq!(get(&store, BLOCK, 1).unwrap(), b"old");
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
        let found = store.verify(BLOCK, 1, |_| ());
        let known = matches!(found, Ok(Verdict::Damaged(_)) | Err(StoreError::UnknownVersion { .. }));
        prop_assert!(known, "{found:?}");
        prop_assert_eq!(copies(&store).len(), 1);
    }
}

/// A truncated file is counted with its present length, whether it is read first or deleted unread.
#[test]
fn the_bytes_of_a_file_that_was_cut_are_not_counted_for_ever() {
    for is_read in [true, false] {
        let bench = bench();
        let store = bench.store();
        put(&store, BlockId(BLOCK.0 + 1), 1, b"another").unwrap();
        bench.disk.damage(&data_path(BLOCK), |bytes| bytes.truncate(10)).unwrap();
        if is_read {
            assert!(store.reader(BLOCK, 1).is_err());
            assert_eq!(store.miscounted_folder(), Some(0xcc));
            store.list_folder(0xcc).unwrap();
            assert_eq!(store.usage(), Usage { blocks: 2, stored_bytes: 17, half_blocks: 0 });
            assert_eq!(store.miscounted_folder(), None);
        }
        assert!(store.delete(BLOCK, 1).unwrap());
        store.list_folder(store.miscounted_folder().unwrap()).unwrap();
        assert_eq!(store.usage(), Usage { blocks: 1, stored_bytes: 7, half_blocks: 0 });
        assert_eq!(store.miscounted_folder(), None);
    }
}
