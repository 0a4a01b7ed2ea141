//! What a power cut leaves.
#![allow(clippy::unwrap_used)] // Helpers of tests fail the test.

use disk::{CrashDisk, Disk, DiskError, PowerSwitch, SyncPoint};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::path::Path;

fn p(path: &str) -> &Path {
    Path::new(path)
}

fn write(disk: &CrashDisk, path: &str, bytes: &[u8]) {
    let file = disk.create_new(p(path)).unwrap();
    file.write_at(0, bytes).unwrap();
    file.sync(SyncPoint::BlockData).unwrap();
}

fn read(disk: &CrashDisk, path: &str) -> Option<Vec<u8>> {
    let file = disk.open(p(path)).ok()?;
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(0, &mut bytes).unwrap();
    Some(bytes)
}

fn restart(power: &PowerSwitch, disk: &CrashDisk) -> CrashDisk {
    power.restart();
    disk.reopen()
}

#[test]
fn contents_and_names_are_kept_only_if_both_were_synced() {
    let power = PowerSwitch::new();
    let disk = CrashDisk::new(&power);
    write(&disk, "kept", b"first");
    write(&disk, "replaced", b"old");
    disk.sync_folder(p(""), SyncPoint::BlockFolder).unwrap();
    write(&disk, "nameless", b"x");
    write(&disk, "new", b"new");
    disk.rename(p("new"), p("replaced")).unwrap();
    let file = disk.open_write(p("kept")).unwrap();
    file.write_at(0, b"F").unwrap();
    file.sync(SyncPoint::BlockData).unwrap();
    file.set_len(2).unwrap();
    file.write_at(4, b"unsynced").unwrap();

    let disk = restart(&power, &disk);
    assert_eq!(read(&disk, "kept").unwrap(), b"First");
    assert_eq!(read(&disk, "replaced").unwrap(), b"old");
    assert_eq!((read(&disk, "nameless"), read(&disk, "new")), (None, None));

    disk.remove(p("kept")).unwrap();
    let disk = restart(&power, &disk);
    assert_eq!(read(&disk, "kept").unwrap(), b"First", "a removal must be synced, too");
}

#[test]
fn a_file_cut_and_grown_between_syncs_has_zeros_where_it_was_cut() {
    let power = PowerSwitch::new();
    let disk = CrashDisk::new(&power);
    write(&disk, "f", b"abcdef");
    disk.sync_folder(p(""), SyncPoint::BlockFolder).unwrap();
    let file = disk.open_write(p("f")).unwrap();
    file.set_len(1).unwrap();
    file.set_len(4).unwrap();
    file.write_at(3, b"X").unwrap();
    file.sync(SyncPoint::BlockData).unwrap();
    assert_eq!(read(&restart(&power, &disk), "f").unwrap(), b"a\0\0X");
}

#[test]
fn several_disks_die_at_the_same_call_and_old_handles_stay_dead() {
    let power = PowerSwitch::new();
    let (a, b) = (CrashDisk::new(&power), CrashDisk::new(&power));
    power.cut_after(5);
    write(&a, "f", b"1"); // three calls
    let held = b.create_new(p("f")).unwrap();
    held.write_at(0, b"2").unwrap();
    assert!(matches!(a.sync_folder(p(""), SyncPoint::BlockFolder), Err(DiskError::PowerCut)));
    assert!(matches!(held.len(), Err(DiskError::PowerCut)));
    assert!(power.is_cut());
    assert_eq!(power.calls(), 5);

    let reopened = restart(&power, &b);
    write(&reopened, "f", b"3");
    assert!(matches!(held.write_at(0, b"2"), Err(DiskError::PowerCut)));
    assert!(matches!(b.remove(p("f")), Err(DiskError::PowerCut)));
    assert_eq!(read(&reopened, "f").unwrap(), b"3");
}

#[test]
fn an_ignored_sync_keeps_nothing() {
    for ignored in [SyncPoint::BlockData, SyncPoint::BlockFolder] {
        let power = PowerSwitch::new();
        power.ignore(ignored);
        let disk = CrashDisk::new(&power);
        write(&disk, "f", b"bytes");
        disk.sync_folder(p(""), SyncPoint::BlockFolder).unwrap();
        let left = read(&restart(&power, &disk), "f");
        let without = if ignored == SyncPoint::BlockData { Some(vec![]) } else { None };
        assert_eq!(left, without, "{ignored:?}");
    }
}

#[test]
fn a_full_disk_refuses_what_would_exceed_it_and_removals_make_room() {
    let disk = CrashDisk::new(&PowerSwitch::new());
    disk.set_capacity(10);
    write(&disk, "f", b"12345678");
    let file = disk.create_new(p("g")).unwrap();
    assert!(matches!(file.write_at(0, b"123"), Err(DiskError::NoSpace { .. })));
    assert!(matches!(file.set_len(3), Err(DiskError::NoSpace { .. })));
    assert_eq!((file.len().unwrap(), disk.free_bytes().unwrap()), (0, 2));
    disk.remove(p("f")).unwrap();
    file.write_at(0, b"1234567890").unwrap();
    disk.rename(p("g"), p("h")).unwrap();
    file.set_len(4).unwrap();
    assert_eq!(disk.free_bytes().unwrap(), 6);
}

/// Every survival that the contract allows must occur, or tests that pass against the double prove little.
#[test]
fn at_random_every_mix_of_synced_and_unsynced_survives_for_some_seed() {
    const PAGE: usize = 4096;
    let mut contents = BTreeSet::new();
    let mut names = BTreeSet::new();
    for seed in 0..200 {
        let power = PowerSwitch::new();
        power.survive_at_random(seed);
        let disk = CrashDisk::new(&power);
        write(&disk, "f", &[0; 2 * PAGE]);
        disk.sync_folder(p(""), SyncPoint::BlockFolder).unwrap();
        disk.open_write(p("f")).unwrap().write_at(0, &[1; 2 * PAGE]).unwrap();
        write(&disk, "a", b"a");
        write(&disk, "b", b"b");
        let disk = restart(&power, &disk);
        let bytes = read(&disk, "f").unwrap();
        assert!(bytes.chunks(PAGE).all(|page| page.iter().all(|&b| b == page[0])), "pages are never torn");
        contents.insert((bytes[0], bytes[PAGE]));
        names.insert((disk.exists(p("a")).unwrap(), disk.exists(p("b")).unwrap()));
    }
    assert_eq!((contents.len(), names.len()), (4, 4));
}

#[test]
fn an_interrupted_call_may_or_may_not_have_happened() {
    let survived: BTreeSet<bool> = (0..50)
        .map(|seed| {
            let power = PowerSwitch::new();
            power.survive_at_random(seed);
            let disk = CrashDisk::new(&power);
            write(&disk, "f", b"x");
            disk.sync_folder(p(""), SyncPoint::BlockFolder).unwrap();
            power.cut_after(0);
            assert!(matches!(disk.remove(p("f")), Err(DiskError::PowerCut)));
            restart(&power, &disk).exists(p("f")).unwrap()
        })
        .collect();
    assert_eq!(survived.len(), 2);
}

#[derive(Clone, Debug)]
enum Step {
    Write(u64, Vec<u8>),
    SetLen(u64),
    Sync,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..9000u64, prop::collection::vec(any::<u8>(), 1..6000)).prop_map(|(at, b)| Step::Write(at, b)),
        (0..15_000u64).prop_map(Step::SetLen),
        Just(Step::Sync),
    ]
}

proptest! {
    /// A cut gives back exactly the bytes at the last sync, whatever was written, cut and grown since.
    #[test]
    fn a_cut_gives_back_the_last_synced_bytes(steps in prop::collection::vec(step(), 1..20)) {
        let power = PowerSwitch::new();
        let disk = CrashDisk::new(&power);
        write(&disk, "f", b"");
        disk.sync_folder(p(""), SyncPoint::BlockFolder).unwrap();
        let file = disk.open_write(p("f")).unwrap();
        let (mut now, mut synced) = (Vec::new(), Vec::new());
        for step in steps {
            match step {
                Step::Write(at, bytes) => {
                    file.write_at(at, &bytes).unwrap();
                    let at = at as usize;
                    now.resize(now.len().max(at + bytes.len()), 0);
                    now[at..at + bytes.len()].copy_from_slice(&bytes);
                }
                Step::SetLen(bytes) => {
                    file.set_len(bytes).unwrap();
                    now.resize(bytes as usize, 0);
                }
                Step::Sync => {
                    file.sync(SyncPoint::BlockData).unwrap();
                    synced = now.clone();
                }
            }
            prop_assert_eq!(read(&disk, "f").unwrap(), now.clone());
        }
        prop_assert_eq!(read(&restart(&power, &disk), "f").unwrap(), synced);
    }
}

/// As journals of file systems keep it: a rename is one change.
#[test]
fn a_file_that_is_renamed_within_its_folder_always_has_a_name() {
    let mut left = BTreeSet::new();
    for seed in 0..100 {
        let power = PowerSwitch::new();
        power.survive_at_random(seed);
        let disk = CrashDisk::new(&power);
        write(&disk, "old", b"bytes");
        disk.sync_folder(p(""), SyncPoint::BlockFolder).unwrap();
        disk.rename(p("old"), p("new")).unwrap();
        let disk = restart(&power, &disk);
        let names = ["old", "new"].map(|name| read(&disk, name) == Some(b"bytes".to_vec()));
        assert!(names.contains(&true), "seed {seed}");
        left.insert(names);
    }
    assert_eq!(left.len(), 3, "the old name, the new one, both");
}
