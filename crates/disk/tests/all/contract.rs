//! What every disk does, the real one and its double alike.
#![allow(clippy::unwrap_used)] // Helpers of tests fail the test.

use disk::{CrashDisk, Disk, DiskError, PowerSwitch, RealDisk, SyncPoint};
use std::path::Path;

fn on_both(check: impl Fn(&dyn Disk)) {
    let folder = tempfile::tempdir().unwrap();
    check(&RealDisk::create(folder.path().join("a/b")).unwrap());
    check(&CrashDisk::new(&PowerSwitch::new()));
}

fn p(path: &str) -> &Path {
    Path::new(path)
}

fn read(disk: &dyn Disk, path: &str) -> Vec<u8> {
    let file = disk.open(p(path)).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(0, &mut bytes).unwrap();
    bytes
}

#[test]
fn files_are_written_read_cut_and_extended_with_zeros() {
    on_both(|disk| {
        let file = disk.create_new(p("f")).unwrap();
        file.write_at(3, b"abc").unwrap();
        assert_eq!(read(disk, "f"), b"\0\0\0abc");
        file.set_len(4).unwrap();
        file.set_len(6).unwrap();
        file.sync(SyncPoint::BlockData).unwrap();
        assert_eq!(read(disk, "f"), b"\0\0\0a\0\0");
        file.advise_willneed(0..6);
        file.advise_dontneed(0..6);
        let mut out = [9; 4];
        assert_eq!(file.read_at(4, &mut out).unwrap(), 2);
        assert_eq!(file.read_at(100, &mut out).unwrap(), 0);
        assert!(matches!(file.read_exact_at(4, &mut out), Err(DiskError::Io { .. })));
        assert_eq!((disk.len(p("f")).unwrap(), file.len().unwrap()), (6, 6));
    });
}

#[test]
fn names_are_taken_missing_replaced_and_removed() {
    on_both(|disk| {
        disk.create_folder(p("d")).unwrap();
        assert!(matches!(disk.create_folder(p("d")), Err(DiskError::AlreadyExists { .. })));
        let old = disk.create_new(p("d/x")).unwrap();
        old.write_at(0, b"old").unwrap();
        assert!(matches!(disk.create_new(p("d/x")), Err(DiskError::AlreadyExists { .. })));
        disk.create_new(p("y")).unwrap().write_at(0, b"new").unwrap();
        disk.rename(p("y"), p("d/x")).unwrap();
        assert_eq!(read(disk, "d/x"), b"new");
        let mut bytes = [0; 3];
        old.read_exact_at(0, &mut bytes).unwrap();
        assert_eq!(&bytes, b"old", "an open handle outlives its name");
        disk.sync_folder(p("d"), SyncPoint::BlockFolder).unwrap();
        disk.sync_folder(p(""), SyncPoint::BlockFolder).unwrap();

        let mut names: Vec<_> =
            disk.list(p("")).unwrap().into_iter().map(|e| (e.name, e.is_folder)).collect();
        names.sort();
        assert_eq!(names, [("d".to_owned(), true)]);
        disk.remove(p("d/x")).unwrap();
        assert!(!disk.exists(p("d/x")).unwrap() && disk.exists(p("d")).unwrap());
        assert!(matches!(disk.remove_folder(p("")), Err(DiskError::Io { .. })));
        disk.create_folder(p("d/e")).unwrap();
        assert!(matches!(disk.remove_folder(p("d")), Err(DiskError::Io { .. })), "it is not empty");
        disk.remove_folder(p("d/e")).unwrap();
        assert!(disk.exists(p("d")).unwrap() && !disk.exists(p("d/e")).unwrap());
        for error in [
            disk.remove_folder(p("d/e")).err(),
            disk.open(p("d/x")).err(),
            disk.open_write(p("no/x")).err(),
            disk.remove(p("d/x")).err(),
            disk.rename(p("d/x"), p("z")).err(),
            disk.len(p("d/x")).err(),
            disk.list(p("no")).err(),
            disk.sync_folder(p("no"), SyncPoint::BlockFolder).err(),
            disk.create_new(p("no/x")).err(),
        ] {
            assert!(matches!(error, Some(DiskError::NotFound { .. })), "{error:?}");
        }
    });
}

#[test]
fn nothing_outside_the_root_is_touched_and_readers_cannot_write() {
    on_both(|disk| {
        for path in ["../x", "/etc/x", "a/../../x"] {
            assert!(matches!(disk.create_new(p(path)), Err(DiskError::Io { .. })), "{path}");
            assert!(disk.open(p(path)).is_err() && disk.remove(p(path)).is_err(), "{path}");
        }
        disk.create_new(p("f")).unwrap();
        assert!(matches!(disk.open(p("f")).unwrap().write_at(0, b"x"), Err(DiskError::Io { .. })));
        disk.open_write(p("f")).unwrap().write_at(0, b"x").unwrap();
    });
}

#[test]
fn a_lock_is_exclusive_until_its_guard_is_dropped() {
    on_both(|disk| {
        let guard = disk.lock(p("lock")).unwrap();
        assert!(matches!(disk.lock(p("lock")), Err(DiskError::AlreadyLocked { .. })));
        drop(guard);
        disk.lock(p("lock")).unwrap();
        assert!(disk.free_bytes().unwrap() > 0);
    });
}

/// A full or read-only file system refuses new files. Here a file in place of the lock's folder has the same effect; unlike a missing permission,
/// it stops root too.
#[test]
fn a_disk_that_takes_no_writes_is_locked_all_the_same() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("in-the-way"), b"").unwrap();
    let disk = RealDisk::open(folder.path()).unwrap();
    let unmade = p("in-the-way/lock");
    let guard = disk.lock(unmade).unwrap();
    assert!(matches!(disk.lock(unmade), Err(DiskError::AlreadyLocked { .. })));
    assert!(
        matches!(disk.lock(p("lock")), Err(DiskError::AlreadyLocked { .. })),
        "the file could be made since"
    );
    drop(guard);
    let guard = disk.lock(p("lock")).unwrap();
    disk.lock(p("another")).unwrap();
    assert!(matches!(disk.lock(unmade), Err(DiskError::AlreadyLocked { .. })));
    drop(guard);
    disk.lock(unmade).unwrap();
}
