//! The walk against what redb says, and against damage of all kinds.
#![allow(clippy::unwrap_used)] // Helpers of tests fail the test.

mod bench;
mod concurrent;
mod damage;
mod fuzz;

use super::{PageDamage, PageReport, PageVisitor, walk_pages};
use crate::{CrashDisk, Disk, PowerSwitch, open_database};
use bench::Heard;
use redb::{
    Database, MultimapTableDefinition, ReadableDatabase, ReadableTable, TableDefinition, TableHandle,
};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

type Raw = TableDefinition<'static, &'static [u8], &'static [u8]>;
type Rows = BTreeMap<(String, Vec<u8>), Vec<u8>>;

const PATH: &str = "catalog.redb";
const BLOCKS: Raw = TableDefinition::new("blocks");
const OBJECTS: Raw = TableDefinition::new("objects");
const EMPTY: Raw = TableDefinition::new("empty");
const BYTEWISE: [Raw; 3] = [BLOCKS, OBJECTS, EMPTY];
/// A table of fixed widths, whose order is not that of the stored bytes.
const COUNTS: TableDefinition<'static, u64, u64> = TableDefinition::new("counts");

fn open(disk: &CrashDisk) -> Database {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    open_database(&disk, Path::new(PATH)).unwrap()
}

fn walk(disk: &dyn Disk) -> (Heard, PageReport) {
    let mut heard = Heard::default();
    let report = walk_pages(disk, Path::new(PATH), &mut heard).unwrap();
    (heard, report)
}

/// A database with several levels of branches, values of many pages, removed rows and an empty table; closed.
fn filled() -> CrashDisk {
    let disk = CrashDisk::new(&PowerSwitch::new());
    let db = open(&disk);
    bench::fill(&db, 4000);
    bench::remove_some(&db, 4000);
    drop(db);
    disk
}

/// All rows, as redb iterates over them.
fn rows_of(db: &Database) -> Rows {
    let tx = db.begin_read().unwrap();
    let mut rows = Rows::new();
    for table in BYTEWISE {
        for entry in tx.open_table(table).unwrap().iter().unwrap() {
            let (key, value) = entry.unwrap();
            rows.insert((table.name().to_owned(), key.value().to_vec()), value.value().to_vec());
        }
    }
    for entry in tx.open_table(COUNTS).unwrap().iter().unwrap() {
        let (key, value) = entry.unwrap();
        let key = (COUNTS.name().to_owned(), key.value().to_le_bytes().to_vec());
        rows.insert(key, value.value().to_le_bytes().to_vec());
    }
    rows
}

#[test]
fn an_undamaged_file_has_the_rows_that_redb_has() {
    let disk = filled();
    let (closed, _) = walk(&disk);
    let db = open(&disk);
    let expected = rows_of(&db);
    let (heard, report) = walk(&disk);
    assert_eq!(heard.damage, []);
    assert_eq!(heard.doubtful, Rows::new());
    assert!(heard.intact == expected && closed.intact == expected);
    assert_eq!(report.rows, expected.len() as u64);
    assert!(report.is_complete && report.pages > 200 && report.bytes > 2 << 20, "{report:?}");
    let depth = bench::parts(&disk).iter().map(|part| part.depth).max();
    assert!(depth >= Some(2), "the trees are too flat to test anything: {depth:?}");
}

#[test]
fn multimap_tables_are_not_followed_and_the_walk_says_so() {
    let disk = CrashDisk::new(&PowerSwitch::new());
    let db = open(&disk);
    bench::fill(&db, 10);
    let tx = db.begin_write().unwrap();
    let many = MultimapTableDefinition::<u64, u64>::new("many");
    tx.open_multimap_table(many).unwrap().insert(1, 2).unwrap();
    tx.commit().unwrap();
    let (heard, report) = walk(&disk);
    assert_eq!(heard.damage, []);
    assert!(!report.is_complete);
    assert!(heard.intact == rows_of(&db));
}

#[test]
fn rows_of_a_table_come_in_the_order_of_their_keys() {
    struct InOrder(String, Vec<u8>);
    impl PageVisitor for InOrder {
        fn row(&mut self, table: &str, key: &[u8], _value: &[u8], _is_intact: bool) {
            assert!(self.0 != table || self.1.as_slice() < key || table == COUNTS.name());
            (self.0, self.1) = (table.into(), key.into());
        }
        fn damage(&mut self, damage: PageDamage) {
            panic!("{damage:?}");
        }
    }
    walk_pages(&filled(), Path::new(PATH), &mut InOrder(String::new(), Vec::new())).unwrap();
}

#[test]
fn the_visitor_ends_the_walk() {
    struct Few(u32);
    impl PageVisitor for Few {
        fn row(&mut self, _: &str, _: &[u8], _: &[u8], _: bool) {}
        fn damage(&mut self, _: PageDamage) {}
        fn goes_on(&mut self) -> bool {
            self.0 -= 1;
            self.0 > 0
        }
    }
    let report = walk_pages(&filled(), Path::new(PATH), &mut Few(10)).unwrap();
    assert!(!report.is_complete && report.pages == 9, "{report:?}");
}
