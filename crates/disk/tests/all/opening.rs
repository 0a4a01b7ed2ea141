//! What opening a database finds: older commits, damage, another opener.
#![allow(clippy::unwrap_used)] // Helpers of tests fail the test.

use disk::{CrashDisk, Disk, Opened, PowerSwitch, RealDisk, SyncPoint, open_database, open_database_noting};
use redb::{Database, DatabaseError, ReadableDatabase, ReadableTable, StorageError, TableDefinition};
use std::path::Path;
use std::sync::Arc;

const TABLE: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("rows");
const PATH: &str = "catalog";

fn noting(disk: &CrashDisk) -> Result<Opened, DatabaseError> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    open_database_noting(&disk, Path::new(PATH))
}

fn commit(db: &Database, row: u64) {
    assert!(try_commit(db, row));
}

fn try_commit(db: &Database, row: u64) -> bool {
    let Ok(tx) = db.begin_write() else { return false };
    let is_there = match tx.open_table(TABLE) {
        Ok(mut table) => table.insert(row, [row as u8; 3000].as_slice()).is_ok(),
        Err(_) => false,
    };
    is_there && tx.commit().is_ok()
}

fn rows(db: &Database) -> Vec<u64> {
    let table = db.begin_read().unwrap().open_table(TABLE).unwrap();
    table.iter().unwrap().map(|entry| entry.unwrap().0.value()).collect()
}

fn bytes(disk: &CrashDisk) -> Vec<u8> {
    let kept = disk.keep_pages(Path::new(PATH)).unwrap();
    (0..kept.pages()).flat_map(|page| kept.page(page).to_vec()).collect()
}

fn disk_with(bytes: &[u8]) -> CrashDisk {
    let disk = CrashDisk::new(&PowerSwitch::new());
    let file = disk.create_new(Path::new(PATH)).unwrap();
    file.write_at(0, bytes).unwrap();
    file.sync(SyncPoint::Catalog).unwrap();
    disk
}

/// The file of a process that died after `commits` commits, and the same with one more.
fn killed_after(commits: u64) -> (Vec<u8>, Vec<u8>) {
    let disk = CrashDisk::new(&PowerSwitch::new());
    let db = noting(&disk).unwrap().database;
    (0..commits).for_each(|row| commit(&db, row));
    let before = bytes(&disk);
    commit(&db, commits);
    (before, bytes(&disk))
}

/// Pages other than the header that differ: those of the last commit.
fn pages_of_last_commit(before: &[u8], after: &[u8]) -> Vec<usize> {
    (1..after.len() / 4096)
        .filter(|page| {
            let range = page * 4096..(page + 1) * 4096;
            before.get(range.clone()) != Some(&after[range])
        })
        .collect()
}

#[test]
fn an_opening_that_keeps_the_newest_commit_says_so() {
    for commits in 1..6 {
        let (_, after) = killed_after(commits);
        let disk = disk_with(&after);
        let repaired = noting(&disk).unwrap();
        assert!(!repaired.rolled_back, "{commits}");
        assert_eq!(rows(&repaired.database).len() as u64, commits + 1);
        drop(repaired);
        let clean = noting(&disk).unwrap();
        assert!(!clean.rolled_back, "after a clean stop");
    }
    let disk = CrashDisk::new(&PowerSwitch::new());
    assert!(!noting(&disk).unwrap().rolled_back, "a new file");
    assert!(!noting(&disk).unwrap().rolled_back, "a file without commits");
}

#[test]
fn a_repair_that_gives_up_the_newest_commit_is_noted() {
    let mut noted = 0;
    for commits in 1..6 {
        let (before, after) = killed_after(commits);
        for page in pages_of_last_commit(&before, &after) {
            let mut damaged = after.clone();
            damaged[page * 4096 + 5] ^= 1;
            // Some damage is to pages that the commit before uses too, and then nothing is left.
            let Ok(opened) = noting(&disk_with(&damaged)) else { continue };
            let kept = rows(&opened.database).len() as u64;
            assert!(kept == commits || kept == commits + 1);
            assert_eq!(opened.rolled_back, kept == commits, "page {page} of {commits}");
            noted += u32::from(opened.rolled_back);
        }
    }
    assert!(noted >= 10, "{noted}");
}

#[test]
fn a_torn_commit_slot_is_noted() {
    let (_, mut after) = killed_after(3);
    let primary = 64 + 128 * usize::from(after[9] & 1);
    after[primary + 10] ^= 1;
    let opened = noting(&disk_with(&after)).unwrap();
    assert!(opened.rolled_back);
    assert_eq!(rows(&opened.database), [0, 1, 2]);
}

/// A power cut may undo the commit that it interrupts, and none that was acknowledged: with an honest disk, a commit
/// that is noted as given up was not.
#[test]
fn a_power_cut_gives_up_no_more_than_the_commit_that_it_interrupts() {
    let mut given_up = 0;
    for seed in 0..12 {
        for cut in (10..200).step_by(3) {
            let power = PowerSwitch::new();
            power.survive_at_random(seed);
            let disk = CrashDisk::new(&power);
            let db = noting(&disk).unwrap().database;
            commit(&db, 0);
            power.cut_after(cut);
            let acknowledged = (1..9).take_while(|&row| try_commit(&db, row)).count() + 1;
            drop(db);
            power.restart();
            let opened = noting(&disk.reopen()).unwrap();
            let kept = rows(&opened.database).len();
            assert!(kept == acknowledged || (kept == acknowledged + 1 && !opened.rolled_back));
            given_up += u32::from(opened.rolled_back);
        }
    }
    assert!(given_up > 10, "{given_up}");
}

#[test]
fn a_process_that_dies_within_a_commit_leaves_the_commit_before() {
    let disk = CrashDisk::new(&PowerSwitch::new());
    let db = noting(&disk).unwrap().database;
    commit(&db, 0);
    let before = db.begin_read().unwrap();
    let file = disk.clone();
    let killed = std::thread::scope(|scope| {
        let writing = scope.spawn(|| (1..60).for_each(|row| commit(&db, row)));
        let mut killed = Vec::new();
        while !writing.is_finished() && killed.len() < 30 {
            killed.push(bytes(&file));
        }
        killed
    });
    drop(before);
    assert!(!killed.is_empty());
    for bytes in killed {
        let opened = noting(&disk_with(&bytes)).unwrap();
        assert!(!opened.rolled_back);
        let rows = rows(&opened.database);
        assert_eq!(rows, (0..rows.len() as u64).collect::<Vec<_>>());
    }
}

#[test]
fn the_last_commit_is_known() {
    let disk = CrashDisk::new(&PowerSwitch::new());
    let opened = noting(&disk).unwrap();
    let mut last = opened.last_commit.transaction();
    for row in 0..5 {
        commit(&opened.database, row);
        let now = opened.last_commit.transaction();
        assert!(now > last, "{now} after {last}");
        last = now;
    }
    drop(opened);
    assert!(noting(&disk).unwrap().last_commit.transaction() >= last);
}

/// redb panics over some of these files (also in assertions of debug builds), and refuses or repairs others.
#[test]
fn no_damaged_file_makes_the_opening_panic() {
    /// Kinds of pages, counts, offsets, references.
    const CHANGES: [(usize, u8); 7] =
        [(0, 9), (2, 0xff), (20, 0xff), (3, 0xff), (60, 0xff), (4, 0xff), (16, 0xff)];
    let (_, after) = killed_after(4);
    let clean = {
        let disk = disk_with(&after);
        drop(noting(&disk).unwrap());
        bytes(&disk)
    };
    let (mut panics, mut refused) = (0, 0);
    for file in [&after, &clean] {
        let used = (0..file.len() / 4096).filter(|page| file[page * 4096..][..4096].iter().any(|&b| b != 0));
        for (page, (at, byte)) in used.zip(CHANGES.into_iter().cycle()) {
            let mut damaged = file.clone();
            damaged[page * 4096 + at] = byte;
            match noting(&disk_with(&damaged)) {
                Err(DatabaseError::Storage(StorageError::Corrupted(why))) if why.contains("broke off") => {
                    panics += 1;
                }
                Err(_) => refused += 1,
                Ok(_) => {}
            }
        }
    }
    assert!(panics > 0 && refused > 0, "{panics} panics, {refused} refusals");
}

#[test]
fn removing_the_lock_file_does_not_admit_a_second_opener() {
    let folder = tempfile::tempdir().unwrap();
    let open = || {
        let disk: Arc<dyn Disk> = Arc::new(RealDisk::open(folder.path()).unwrap());
        open_database(&disk, Path::new(PATH))
    };
    let db = open().unwrap();
    commit(&db, 0);
    assert!(matches!(open(), Err(DatabaseError::DatabaseAlreadyOpen)));
    std::fs::remove_file(folder.path().join("catalog.lock")).unwrap();
    assert!(matches!(open(), Err(DatabaseError::DatabaseAlreadyOpen)));
    commit(&db, 1);
    drop(db);
    // Closed files may be renamed and opened under another name.
    std::fs::rename(folder.path().join(PATH), folder.path().join("aside")).unwrap();
    let db = open().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::open(folder.path()).unwrap());
    let aside = open_database(&disk, Path::new("aside")).unwrap();
    assert_eq!(rows(&aside), [0, 1]);
    drop((db, aside));
}
