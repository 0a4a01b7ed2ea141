//! Speed of the walk over a redb file in the page cache, beside plain reads of the same file.
//!
//! `cargo bench -p disk --bench pages`; `BENCH_MB` sets the size (200). The file is made under the temporary folder.
#![allow(clippy::unwrap_used)] // A benchmark stops at the first error.

use disk::{Disk, PageDamage, PageVisitor, RealDisk, open_database, walk_pages};
use redb::{ReadableDatabase, TableDefinition};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("rows");
const PATH: &str = "catalog.redb";
const ROW_BYTES: u64 = 250;
const RUNS: usize = 7;

#[derive(Default)]
struct Count {
    bytes: u64,
    damage: u64,
}

impl PageVisitor for Count {
    fn row(&mut self, _table: &str, key: &[u8], value: &[u8], _is_intact: bool) {
        self.bytes += (key.len() + value.len()) as u64;
    }

    fn damage(&mut self, _damage: PageDamage) {
        self.damage += 1;
    }
}

/// Shortest and longest of several runs.
fn spread(mut run: impl FnMut()) -> [Duration; 2] {
    let mut times: Vec<_> = (0..RUNS)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed()
        })
        .collect();
    times.sort();
    [times[0], times[RUNS - 1]]
}

fn print(what: &str, bytes: u64, [best, worst]: [Duration; 2]) {
    let rate = |time: Duration| bytes as f64 / time.as_secs_f64() / 1e9;
    println!("{what:<28} {:>6.2} to {:.2} GB/s", rate(worst), rate(best));
}

fn read_all(disk: &dyn Disk, buffer: &mut [u8]) {
    let file = disk.open(Path::new(PATH)).unwrap();
    let mut at = 0;
    while let got @ 1.. = file.read_at(at, buffer).unwrap() {
        at += got as u64;
    }
}

fn main() {
    let mb: u64 = std::env::var("BENCH_MB").map_or(200, |mb| mb.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::open(folder.path()).unwrap());
    let database = open_database(&disk, Path::new(PATH)).unwrap();
    let rows = mb * 1_000_000 / ROW_BYTES;
    let tx = database.begin_write().unwrap();
    for row in 0..rows {
        let mut table = tx.open_table(TABLE).unwrap();
        let key = format!("object/{row:0>32}");
        table.insert(key.as_bytes(), [row as u8; ROW_BYTES as usize - 39].as_slice()).unwrap();
    }
    tx.commit().unwrap();

    let _tx = database.begin_read().unwrap();
    let mut count = Count::default();
    let report = walk_pages(disk.as_ref(), Path::new(PATH), &mut count).unwrap();
    assert!(count.damage == 0 && report.is_complete && report.rows == rows);
    println!("{} MB in {} pages, {rows} rows of {ROW_BYTES} bytes", report.bytes / 1_000_000, report.pages);
    let walk = spread(|| {
        walk_pages(disk.as_ref(), Path::new(PATH), &mut count).unwrap();
    });
    print("walk", report.bytes, walk);
    let file_bytes = disk.len(Path::new(PATH)).unwrap();
    for read_bytes in [4096, 1 << 20] {
        let mut buffer = vec![0; read_bytes];
        print(
            &format!("reads of {read_bytes} bytes"),
            file_bytes,
            spread(|| read_all(disk.as_ref(), &mut buffer)),
        );
    }
}
