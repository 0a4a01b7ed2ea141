//! Flipped bits, stale pages, lost writes: all of them are found.

use super::super::node::{Node, Widths};
use super::bench::{self, Damage, Dice};
use super::{PATH, filled, open, rows_of, walk, walk_pages};
use crate::{CrashDisk, Disk, PageDamage, PowerSwitch, open_database_noting};
use redb::ReadableDatabase;
use std::path::Path;
use std::sync::Arc;

fn damage(disk: &CrashDisk) -> Vec<PageDamage> {
    let mut damage = Damage::default();
    walk_pages(disk, Path::new(PATH), &mut damage).unwrap();
    damage.0
}

#[test]
fn every_flipped_bit_is_found_in_its_page_and_no_false_row_is_intact() {
    let disk = filled();
    let (whole, _) = walk(&disk);
    let parts = bench::parts(&disk);
    let mut dice = Dice(1);
    for case in 0..500 {
        // All kinds of pages: the first parts are the header's slots, the trees of tables and their branches.
        let among = if case % 3 == 0 { 12 } else { parts.len() };
        let part = &parts[dice.below(among)];
        let offset = part.covered.start + dice.below((part.covered.end - part.covered.start) as usize) as u64;
        let bit = dice.below(8) as u8;
        disk.flip_bit(Path::new(PATH), offset, bit).unwrap();
        let found = damage(&disk);
        let page = (part.page.offset, part.page.bytes);
        assert!(found.iter().any(|d| (d.offset, d.bytes) == page), "{part:?} at {offset}: {found:?}");
        assert_eq!(found.len(), 1, "{part:?} at {offset}: {found:?}");
        if case % 10 == 0 {
            let (heard, _) = walk(&disk);
            assert!(heard.intact.iter().all(|(key, value)| whole.intact.get(key) == Some(value)));
        }
        disk.flip_bit(Path::new(PATH), offset, bit).unwrap();
    }
    assert_eq!(damage(&disk), []);
}

#[test]
fn flipped_bits_of_the_header_are_found_although_no_checksum_covers_them() {
    let disk = filled();
    // Magic number, the god byte's unused bits, sizes of pages and regions, layout.
    let bits = (0..9 * 8).chain(9 * 8 + 3..10 * 8).chain(12 * 8..32 * 8);
    for bit in bits {
        disk.flip_bit(Path::new(PATH), bit / 8, (bit % 8) as u8).unwrap();
        assert_eq!(damage(&disk).first().map(|d| d.tree.as_str()), Some("header"), "bit {bit}");
        disk.flip_bit(Path::new(PATH), bit / 8, (bit % 8) as u8).unwrap();
    }
}

#[test]
fn damage_of_one_leaf_leaves_all_other_rows_intact() {
    let disk = filled();
    let (whole, _) = walk(&disk);
    let leaf = bench::parts(&disk).into_iter().rfind(|part| part.depth == 2).unwrap();
    disk.flip_bit(Path::new(PATH), leaf.covered.end - 1, 0).unwrap();
    let (heard, report) = walk(&disk);
    assert_eq!(heard.damage.len(), 1);
    assert!(report.is_complete && !heard.doubtful.is_empty() && heard.doubtful.len() < 40);
    assert_eq!(heard.intact.len() + heard.doubtful.len(), whole.intact.len());
}

#[test]
fn every_stale_page_is_found() {
    let disk = filled();
    let older = disk.keep_pages(Path::new(PATH)).unwrap();
    let db = open(&disk);
    for version in 1..4 {
        bench::change_some(&db, 4000, version, 5);
    }
    drop(db);
    let newer = disk.keep_pages(Path::new(PATH)).unwrap();
    let mut changed = Vec::new();
    for part in bench::parts(&disk).into_iter().skip(2) {
        for page in part.covered.start / 4096..part.covered.end.div_ceil(4096) {
            let covered = 4096.min(part.covered.end - page * 4096) as usize;
            let old = older.page(page);
            if !old.is_empty() && old[..covered] != newer.page(page)[..covered] {
                changed.push(page);
            }
        }
    }
    assert!(changed.len() >= 100, "{}", changed.len());
    let mut dice = Dice(2);
    for _ in 0..200 {
        let page = changed[dice.below(changed.len())];
        disk.serve_stale(Path::new(PATH), &older, page).unwrap();
        assert_eq!(damage(&disk).len(), 1, "page {page}");
        disk.serve_stale(Path::new(PATH), &newer, page).unwrap();
    }
    assert_eq!(damage(&disk), []);
}

/// A commit of which some page writes are lost, while redb's own cache hides it.
#[test]
fn lost_writes_are_found_while_the_database_is_open() {
    let mut lost_headers = 0;
    for seed in 0..40 {
        let disk = CrashDisk::new(&PowerSwitch::new());
        let dyn_disk: Arc<dyn Disk> = Arc::new(disk.clone());
        let opened = open_database_noting(&dyn_disk, Path::new(PATH)).unwrap();
        let db = opened.database;
        bench::fill(&db, 300);
        disk.lose_writes(Path::new(PATH), 300, seed).unwrap();
        bench::change_some(&db, 300, 7, 2);
        let due = opened.last_commit.transaction();
        let _tx = db.begin_read().unwrap();
        let (heard, report) = walk(&disk);
        let is_behind = report.transaction < due;
        lost_headers += u32::from(is_behind);
        assert!(is_behind || !heard.damage.is_empty(), "seed {seed}: {report:?}");
        disk.lose_writes(Path::new(PATH), 0, 0).unwrap();
    }
    assert!((1..40).contains(&lost_headers), "{lost_headers}");
}

#[test]
fn a_file_of_which_no_commit_is_left_is_told_of() {
    let disk = filled();
    for offset in [100, 250] {
        disk.flip_bit(Path::new(PATH), offset, 3).unwrap();
    }
    let (heard, report) = walk(&disk);
    assert_eq!(heard.damage.len(), 2);
    assert_eq!((report.is_complete, report.pages, report.rows), (false, 0, 0));
}

#[test]
fn rows_below_a_damaged_branch_are_handed_on_as_doubtful() {
    let disk = filled();
    let expected = rows_of(&open(&disk));
    let root = bench::parts(&disk).into_iter().find(|part| part.depth == 1).unwrap();
    // A byte of a routing key: all references stay right.
    disk.flip_bit(Path::new(PATH), root.covered.end - 1, 0).unwrap();
    let (heard, _) = walk(&disk);
    assert_eq!(heard.damage.len(), 1);
    assert!(!heard.doubtful.is_empty());
    let mut all = heard.intact;
    all.extend(heard.doubtful);
    assert!(all == expected);
}

/// Damage that was copied into a later commit lies under right checksums: a wrong routing key leads searches to the wrong page.
#[test]
fn a_wrong_routing_key_under_right_checksums_is_found() {
    let disk = filled();
    let (parts, original) = (bench::parts(&disk), bench::bytes(&disk));
    let widths = Widths { key: None, value: None };
    let mut tried = 0;
    for part in &parts {
        let page = &original[part.page.offset as usize..(part.page.offset + part.page.bytes) as usize];
        // Pages of other widths are no branches in these, or have no such key.
        let Ok(Node::Branch(branch)) = Node::decode(page, widths) else { continue };
        let Some(key) = branch.key(0).filter(|key| !key.is_empty()) else { continue };
        let at = part.page.offset as usize + (key.as_ptr() as usize - page.as_ptr() as usize);
        if !part.covered.contains(&(at as u64)) {
            continue;
        }
        let mut file = original.clone();
        bench::forge(&mut file, &parts, at, &|file| file[at] ^= 0x80);
        disk.damage(Path::new(PATH), |bytes| bytes.clone_from(&file)).unwrap();
        let found = damage(&disk);
        tried += usize::from(
            found.iter().any(|found| found.why == "a key is not between those of the page above"),
        );
        disk.damage(Path::new(PATH), |bytes| bytes.clone_from(&original)).unwrap();
    }
    assert!(tried > 0, "no branch page of a table was tried");
}
