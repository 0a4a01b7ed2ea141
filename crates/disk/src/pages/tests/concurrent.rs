//! Walks while the database is written to.

use super::bench;
use super::{PATH, walk};
use crate::{CrashDisk, Disk, PowerSwitch, RealDisk, open_database_noting};
use redb::{Database, ReadableDatabase};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const ROWS: u64 = 400;

/// Commits until told to stop: mostly few rows, now and then enough to grow the file and shrink it again.
fn write_until(db: &Database, stop: &AtomicBool, commits: &AtomicU64) {
    for version in 1.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        bench::change_some(db, ROWS, version, if version % 10 == 0 { 1 } else { 50 });
        match version % 20 {
            5 => bench::put_large(db, 100, 300_000),
            15 => bench::remove_large(db, 100),
            _ => {}
        }
        commits.fetch_add(1, Ordering::Relaxed);
    }
}

fn no_false_damage(disk: Arc<dyn Disk>, walks: u64) {
    let opened = open_database_noting(&disk, Path::new(PATH)).unwrap();
    let db = &opened.database;
    bench::fill(db, ROWS);
    let (stop, commits) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| write_until(db, &stop, &commits));
        let mut incomplete = 0;
        let mut lengths = BTreeSet::new();
        let mut walked = 0;
        while walked < walks || commits.load(Ordering::Relaxed) < walks {
            let due = opened.last_commit.transaction();
            let tx = db.begin_read().unwrap();
            let (heard, report) = walk(disk.as_ref());
            drop(tx);
            if !heard.damage.is_empty()
                || report.transaction < due
                || heard.doubtful.len() + heard.intact.len() < 800
            {
                stop.store(true, Ordering::Relaxed);
                panic!("walk {walked}: {:?} {report:?}, due {due}", heard.damage);
            }
            lengths.insert(disk.len(Path::new(PATH)).unwrap());
            incomplete += u64::from(!report.is_complete);
            walked += 1;
        }
        stop.store(true, Ordering::Relaxed);
        assert!(incomplete <= walked / 20, "{incomplete} of {walked}");
        assert!(lengths.len() > 1, "the file neither grew nor shrank: {lengths:?}");
    });
}

#[test]
fn commits_during_a_walk_are_no_damage() {
    no_false_damage(Arc::new(CrashDisk::new(&PowerSwitch::new())), 200);
}

#[test]
fn commits_during_a_walk_are_no_damage_on_a_real_disk() {
    let folder = tempfile::tempdir().unwrap();
    no_false_damage(Arc::new(RealDisk::open(folder.path()).unwrap()), 200);
}

/// Without a reader, pages of users' tables are reused: the test above would notice it.
#[test]
fn without_a_read_transaction_a_walk_is_worthless() {
    let disk = CrashDisk::new(&PowerSwitch::new());
    let dyn_disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let opened = open_database_noting(&dyn_disk, Path::new(PATH)).unwrap();
    let db = &opened.database;
    bench::fill(db, ROWS);
    struct Meddler<'a>(&'a Database, u64, usize);
    impl crate::PageVisitor for Meddler<'_> {
        fn row(&mut self, _: &str, _: &[u8], _: &[u8], _: bool) {}
        fn damage(&mut self, _: crate::PageDamage) {
            self.2 += 1;
        }
        fn goes_on(&mut self) -> bool {
            self.1 += 1;
            bench::change_some(self.0, ROWS, self.1, 10);
            true
        }
    }
    let mut meddler = Meddler(db, 0, 0);
    crate::walk_pages(&disk, Path::new(PATH), &mut meddler).unwrap();
    assert!(meddler.2 > 0);
    let _tx = db.begin_read().unwrap();
    let mut meddler = Meddler(db, 0, 0);
    crate::walk_pages(&disk, Path::new(PATH), &mut meddler).unwrap();
    assert_eq!(meddler.2, 0);
}
