//! What the double of a disk does to bytes that it took.
#![allow(clippy::unwrap_used)] // Helpers of tests fail the test.

use disk::{CrashDisk, Disk, DiskError, PowerSwitch, SyncPoint};
use std::path::Path;
use std::sync::Arc;

const PAGE: usize = 4096;

fn p(path: &str) -> &Path {
    Path::new(path)
}

/// A disk with a synced file of `pages` pages, each full of its number plus one.
fn with_file(pages: usize) -> (Arc<PowerSwitch>, CrashDisk) {
    let power = PowerSwitch::new();
    let disk = CrashDisk::new(&power);
    let file = disk.create_new(p("f")).unwrap();
    file.write_at(0, &numbered(pages, 1)).unwrap();
    file.sync(SyncPoint::Catalog).unwrap();
    disk.sync_folder(p(""), SyncPoint::CatalogFolder).unwrap();
    (power, disk)
}

fn numbered(pages: usize, first: u8) -> Vec<u8> {
    (0..pages * PAGE).map(|at| (at / PAGE) as u8 + first).collect()
}

fn read(disk: &CrashDisk) -> Vec<u8> {
    let file = disk.open(p("f")).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(0, &mut bytes).unwrap();
    bytes
}

/// The first byte of each page.
fn pages(disk: &CrashDisk) -> Vec<u8> {
    let bytes = read(disk);
    assert!(bytes.chunks(PAGE).all(|page| page.iter().all(|&byte| byte == page[0])), "pages are not torn");
    bytes.iter().step_by(PAGE).copied().collect()
}

fn restarted(power: &PowerSwitch, disk: &CrashDisk) -> CrashDisk {
    power.restart();
    disk.reopen()
}

#[test]
fn a_flipped_bit_is_for_good_and_syncs_nothing_else() {
    let (power, disk) = with_file(2);
    disk.open_write(p("f")).unwrap().write_at(0, b"unsynced").unwrap();
    disk.flip_bit(p("f"), 4100, 7).unwrap();
    disk.flip_bit(p("f"), 1 << 40, 0).unwrap();
    assert_eq!(read(&disk)[4100], 2 | 0x80);
    let disk = restarted(&power, &disk);
    let mut expected = numbered(2, 1);
    expected[4100] |= 0x80;
    assert_eq!(read(&disk), expected);
    assert!(matches!(disk.flip_bit(p("no"), 0, 0), Err(DiskError::NotFound { .. })));
}

#[test]
fn a_stale_page_is_what_it_was_and_the_others_are_not() {
    let (power, disk) = with_file(3);
    let kept = disk.keep_pages(p("f")).unwrap();
    assert_eq!((kept.pages(), kept.page(2)[0], kept.page(3).len()), (3, 3, 0));
    let file = disk.open_write(p("f")).unwrap();
    file.write_at(0, &numbered(3, 11)).unwrap();
    file.sync(SyncPoint::Catalog).unwrap();
    disk.serve_stale(p("f"), &kept, 1).unwrap();
    disk.serve_stale(p("f"), &kept, 9).unwrap();
    assert_eq!(pages(&disk), [11, 2, 13]);
    assert_eq!(pages(&restarted(&power, &disk)), [11, 2, 13]);
}

#[test]
fn a_stale_page_beyond_the_end_of_a_file_that_was_cut_does_not_extend_it() {
    let (_power, disk) = with_file(3);
    let kept = disk.keep_pages(p("f")).unwrap();
    disk.open_write(p("f")).unwrap().set_len(100).unwrap();
    disk.serve_stale(p("f"), &kept, 0).unwrap();
    disk.serve_stale(p("f"), &kept, 2).unwrap();
    assert_eq!(read(&disk), [1; 100]);
}

#[test]
fn lost_writes_leave_whole_old_pages_that_a_sync_makes_durable() {
    let (power, disk) = with_file(64);
    disk.lose_writes(p("f"), 500, 1).unwrap();
    let file = disk.open_write(p("f")).unwrap();
    file.write_at(0, &numbered(64, 101)).unwrap();
    file.sync(SyncPoint::Catalog).unwrap();
    let got = pages(&disk);
    let lost = got.iter().zip(1..).filter(|&(&page, old)| page == old).count();
    let new = got.iter().zip(101..).filter(|&(&page, new)| page == new).count();
    assert_eq!(lost + new, 64);
    assert!((16..48).contains(&lost), "{lost}");
    assert_eq!(pages(&restarted(&power, &disk)), got);
}

#[test]
fn writes_are_lost_by_seed_in_one_file_until_switched_off() {
    let lossy = |seed| {
        let (_power, disk) = with_file(32);
        disk.lose_writes(p("f"), 300, seed).unwrap();
        disk.open_write(p("f")).unwrap().write_at(0, &numbered(32, 101)).unwrap();
        (pages(&disk), disk)
    };
    assert_eq!(lossy(1).0, lossy(1).0);
    assert_ne!(lossy(1).0, lossy(2).0);
    let (_, disk) = lossy(3);
    disk.create_new(p("g")).unwrap().write_at(0, &[7; 32 * PAGE]).unwrap();
    let other = disk.keep_pages(p("g")).unwrap();
    assert!((0..32).all(|page| other.page(page) == [7; PAGE]));
    disk.lose_writes(p("f"), 0, 0).unwrap();
    disk.open_write(p("f")).unwrap().write_at(0, &numbered(32, 201)).unwrap();
    assert_eq!(pages(&disk), (201..233).collect::<Vec<u8>>());
    // All of them, extending the file: its length grows, with zeros.
    disk.lose_writes(p("f"), 1000, 0).unwrap();
    disk.open_write(p("f")).unwrap().write_at(32 * PAGE as u64, &[9; PAGE]).unwrap();
    assert_eq!(pages(&disk).last(), Some(&0));
}
