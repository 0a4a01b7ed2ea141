//! How many puts a second the catalog takes from many callers, and in how many transactions, beside files of 4 KiB written and
//! synced bare on the same disk: `cargo bench -p catalog --bench puts [-- MS [CALLERS]]` (`TMPDIR` says which disk). MS is added to each
//! sync, of the files too, where the disk of a virtual machine syncs faster than any real one; with CALLERS only so many are tried.
//!
//! A put is what the coordinator does for one block of three replicas: begun, planned, committed; three changes. Nothing of a
//! block is moved. A caller writes a file, syncs it, and goes on to the next.

#![allow(clippy::unwrap_used, reason = "a measurement that cannot run should stop")]

use catalog::backend::{Backend, Redb, Rows, RowsMut, Transaction, Visit};
use catalog::{Catalog, CommittedBlock, NewPut, PlannedBlock, PutEnd, Result};
use disk::{Disk, RealDisk};
use model::{BlockId, ClusterId, FlowId, NodeId, PutId, Sums};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const BYTES: u64 = 4_096;
const CALLERS: [u128; 3] = [1, 8, 64];
/// Each measurement goes on for so long …
const LASTS: Duration = Duration::from_secs(2);
/// … and is made so often; the best counts, of the bare files too.
const ROUNDS: usize = 3;

/// Added to each sync.
static SYNC_MS: AtomicU64 = AtomicU64::new(0);

fn main() {
    let numbers: Vec<u64> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    let extra_ms = numbers.first().copied().unwrap_or(0);
    let only = numbers.get(1).map(|callers| u128::from(*callers));
    SYNC_MS.store(extra_ms, Ordering::Relaxed);
    println!("each sync takes {extra_ms} ms more than on this disk");
    let folder = std::env::temp_dir().join(format!("stripeline-puts-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    println!("callers    puts/s  transactions a put    synced files/s  puts over files");
    for callers in CALLERS.into_iter().filter(|callers| only.is_none_or(|only| only == *callers)) {
        let best = |measure: &dyn Fn(usize) -> (f64, f64)| {
            (0..ROUNDS).map(measure).max_by(|a, b| a.0.total_cmp(&b.0)).unwrap()
        };
        let (puts, transactions) = best(&|round| puts(&folder.join(format!("{callers}-{round}")), callers));
        let (files, _) = best(&|_| (rate(callers, |id, count| synced(&folder, id, count)), 0.0));
        println!("{callers:7} {puts:9.0} {transactions:19.3} {files:17.0} {:16.2}", puts / files);
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Calls a second, of so many callers at once.
fn rate(callers: u128, call: impl Fn(u128, u64) + Sync) -> f64 {
    let (done, began) = (AtomicU64::new(0), Instant::now());
    std::thread::scope(|scope| {
        for id in 0..callers {
            let (call, done) = (&call, &done);
            scope.spawn(move || {
                let mut count = 0;
                while began.elapsed() < LASTS {
                    call(id, count);
                    count += 1;
                }
                done.fetch_add(count, Ordering::Relaxed);
            });
        }
    });
    done.into_inner() as f64 / began.elapsed().as_secs_f64()
}

fn synced(folder: &Path, id: u128, _: u64) {
    let mut file = File::create(folder.join(format!("file-{id}"))).unwrap();
    file.write_all(&[7; BYTES as usize]).unwrap();
    file.sync_all().unwrap();
    rest();
}

fn rest() {
    std::thread::sleep(Duration::from_millis(SYNC_MS.load(Ordering::Relaxed)));
}

/// Puts a second, and transactions for each.
fn puts(folder: &Path, callers: u128) -> (f64, f64) {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::create(folder.to_path_buf()).unwrap());
    let commits = Arc::new(AtomicU64::new(0));
    let backend = Counting(Redb::open(&disk).unwrap(), Arc::clone(&commits));
    let catalog = Catalog::over(Box::new(backend), ClusterId(1)).unwrap();
    let begun = AtomicU64::new(0);
    let before = commits.load(Ordering::Relaxed);
    let rate = rate(callers, |id, count| {
        put(&catalog, (id << 64) | u128::from(count)).unwrap();
        begun.fetch_add(1, Ordering::Relaxed);
    });
    let transactions = commits.load(Ordering::Relaxed) - before;
    catalog.close();
    (rate, transactions as f64 / begun.into_inner() as f64)
}

fn put(catalog: &Catalog, id: u128) -> Result<()> {
    let (put, block, nodes) = (PutId(id), BlockId(id), vec![NodeId(1), NodeId(2), NodeId(3)]);
    let (name, sums) = (format!("object-{id}"), Sums::default());
    let lease_until_ms = 1;
    catalog.begin_put(&NewPut {
        put,
        name,
        block_bytes: BYTES,
        replicas: 3,
        lease_until_ms,
        gathers: None,
    })?;
    let committed =
        CommittedBlock { block, stored_bytes: BYTES, sums, nodes: nodes.clone(), by: BTreeMap::new() };
    let planned =
        PlannedBlock { block, index: 0, stored_bytes: BYTES, sums, last: true, nodes, flow: FlowId(id) };
    catalog.plan_block(put, &planned, 0, lease_until_ms)?;
    let end = PutEnd { now_ms: 0, created_ms: 0, remembered_until_ms: 0 };
    catalog.commit_put(put, &[committed], BYTES, [0; 32], end).map(|_| ())
}

/// Counts what becomes durable.
#[derive(Debug)]
struct Counting(Redb, Arc<AtomicU64>);

struct Counted(Box<dyn Transaction>, Arc<AtomicU64>);

impl Backend for Counting {
    fn view(&self, view: &mut dyn FnMut(&dyn Rows) -> Result<()>) -> Result<()> {
        self.0.view(view)
    }

    fn begin(&self) -> Result<Box<dyn Transaction>> {
        Ok(Box::new(Counted(self.0.begin()?, Arc::clone(&self.1))))
    }

    fn close(&self) {
        self.0.close();
    }
}

impl Rows for Counted {
    fn get(&self, table: &'static str, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.0.get(table, key)
    }

    fn scan(&self, table: &'static str, from: &[u8], visit: &mut Visit<'_>) -> Result<()> {
        self.0.scan(table, from, visit)
    }
}

impl RowsMut for Counted {
    fn put(&self, table: &'static str, key: &[u8], value: &[u8]) -> Result<()> {
        self.0.put(table, key, value)
    }

    fn remove(&self, table: &'static str, key: &[u8]) -> Result<bool> {
        self.0.remove(table, key)
    }
}

impl Transaction for Counted {
    fn commit(self: Box<Self>) -> Result<()> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.commit()?;
        rest();
        Ok(())
    }
}
