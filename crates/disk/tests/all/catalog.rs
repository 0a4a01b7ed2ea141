//! The embedded catalog over a disk whose power is cut.
#![allow(clippy::unwrap_used)] // Helpers of tests fail the test.

use disk::{CrashDisk, Disk, PowerSwitch, SyncPoint, open_database};
use redb::{Database, DatabaseError, ReadableDatabase, ReadableTable, TableDefinition};
use std::path::Path;
use std::sync::Arc;

const TABLE: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("rows");
const PATH: &str = "catalog";

fn open(disk: &CrashDisk) -> Result<Database, DatabaseError> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    open_database(&disk, Path::new(PATH))
}

/// Commits `row`; true if the database said that it is durable.
fn commit(db: &Database, row: u64) -> bool {
    let Ok(tx) = db.begin_write() else { return false };
    {
        let Ok(mut table) = tx.open_table(TABLE) else { return false };
        let row_bytes = vec![row as u8; 3000];
        if table.insert(row, row_bytes.as_slice()).is_err() {
            return false;
        }
    }
    tx.commit().is_ok()
}

/// Rows present, all of them checked; they must be 0, 1, 2 … without a gap.
fn rows(db: &Database) -> u64 {
    let Ok(table) = db.begin_read().unwrap().open_table(TABLE) else { return 0 };
    let mut expected = 0;
    for entry in table.iter().unwrap() {
        let (row, bytes) = entry.unwrap();
        assert_eq!(row.value(), expected);
        assert!(bytes.value().iter().all(|&b| b == expected as u8));
        expected += 1;
    }
    expected
}

/// Opens, commits up to `wanted` rows, and returns how many the database acknowledged.
fn run(disk: &CrashDisk, wanted: u64) -> u64 {
    let Ok(db) = open(disk) else { return 0 };
    (0..wanted).take_while(|&row| commit(&db, row)).count() as u64
}

/// Cuts the power after every durable call; returns the first cut after which an acknowledged row was missing, or
/// the database did not open.
fn first_loss(configure: impl Fn(&PowerSwitch)) -> Option<u64> {
    const ROWS: u64 = 4;
    let power = PowerSwitch::new();
    run(&CrashDisk::new(&power), ROWS);
    let calls = power.calls();
    assert!(calls > 20, "{calls}");
    (0..=calls).find(|&cut| {
        let power = PowerSwitch::new();
        configure(&power);
        let disk = CrashDisk::new(&power);
        power.cut_after(cut);
        let acknowledged = run(&disk, ROWS);
        power.cut();
        power.restart();
        let disk = disk.reopen();
        match open(&disk) {
            Ok(db) => !(acknowledged..=acknowledged + 1).contains(&rows(&db)) || !commit(&db, rows(&db)),
            Err(_) => true,
        }
    })
}

#[test]
fn committed_rows_survive_a_cut_after_any_call() {
    assert_eq!(first_loss(|_| {}), None);
}

#[test]
fn committed_rows_survive_whatever_else_survives() {
    for seed in 0..20 {
        assert_eq!(first_loss(|power| power.survive_at_random(seed)), None, "seed {seed}");
    }
}

#[test]
fn no_sync_of_the_catalog_is_superfluous() {
    for point in [SyncPoint::Catalog, SyncPoint::CatalogFolder] {
        assert!(first_loss(|power| power.ignore(point)).is_some(), "{point:?}");
    }
}

/// The name was made by a process that died (without a power cut) before it synced the folder.
#[test]
fn opening_makes_the_name_durable_before_anything_is_committed() {
    let power = PowerSwitch::new();
    power.ignore(SyncPoint::CatalogFolder);
    let disk = CrashDisk::new(&power);
    run(&disk, 0);
    power.heed_all();
    assert_eq!(run(&disk, 2), 2);
    power.restart();
    assert_eq!(rows(&open(&disk.reopen()).unwrap()), 2);
}

#[test]
fn a_second_opener_is_refused_and_a_full_disk_loses_nothing() {
    let power = PowerSwitch::new();
    let disk = CrashDisk::new(&power);
    let db = open(&disk).unwrap();
    assert!(matches!(open(&disk), Err(DatabaseError::DatabaseAlreadyOpen)));
    assert!(commit(&db, 0));
    disk.set_capacity(disk.len(Path::new(PATH)).unwrap());
    let more = (1..10_000).take_while(|&row| commit(&db, row)).count() as u64;
    assert!(more < 9_000, "the disk never filled up");
    drop(db);
    assert_eq!(rows(&open(&disk).unwrap()), 1 + more);
}
