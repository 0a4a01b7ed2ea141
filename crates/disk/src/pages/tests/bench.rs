//! What the tests of the walk share: a database to damage, chance, and a second reader of the file's structure.

use super::super::header::Header;
use super::super::node::{Node, Widths};
use super::super::place::Place;
use super::super::table::Definition;
use super::{BLOCKS, BYTEWISE, COUNTS, EMPTY, OBJECTS, PATH, Rows};
use crate::pages::header::Root;
use crate::{CrashDisk, PageDamage, PageVisitor};
use redb::Database;
use std::ops::Range;
use std::path::Path;
use xxhash_rust::xxh3::xxh3_128;

/// Seeded numbers (SplitMix64).
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % end as u64) as usize
    }
}

/// All that a walk said.
#[derive(Default)]
pub(super) struct Heard {
    pub(super) intact: Rows,
    pub(super) doubtful: Rows,
    pub(super) damage: Vec<PageDamage>,
}

impl PageVisitor for Heard {
    fn row(&mut self, table: &str, key: &[u8], value: &[u8], is_intact: bool) {
        let rows = if is_intact { &mut self.intact } else { &mut self.doubtful };
        let old = rows.insert((table.to_owned(), key.to_vec()), value.to_vec());
        assert!(old.is_none() || !is_intact, "a row came twice");
    }

    fn damage(&mut self, damage: PageDamage) {
        self.damage.push(damage);
    }
}

/// Only the damage.
#[derive(Default)]
pub(super) struct Damage(pub(super) Vec<PageDamage>);

impl PageVisitor for Damage {
    fn row(&mut self, _: &str, _: &[u8], _: &[u8], _: bool) {}

    fn damage(&mut self, damage: PageDamage) {
        self.0.push(damage);
    }
}

/// Long, so that branches have few children and trees many levels.
pub(super) fn key(row: u64) -> Vec<u8> {
    format!("{row:0>90}").into_bytes()
}

pub(super) fn value(row: u64, version: u64) -> Vec<u8> {
    let bytes = 20 + (row * 37 % 150) as usize;
    (0..bytes).map(|at| (row ^ version ^ at as u64) as u8).collect()
}

pub(super) fn fill(db: &Database, rows: u64) {
    let tx = db.begin_write().unwrap();
    for table in BYTEWISE {
        tx.open_table(table).unwrap();
    }
    for row in 0..rows {
        let mut blocks = tx.open_table(BLOCKS).unwrap();
        blocks.insert(key(row).as_slice(), value(row, 0).as_slice()).unwrap();
        tx.open_table(COUNTS).unwrap().insert(row, row * 3).unwrap();
    }
    for row in 0..12 {
        let large = vec![row as u8; 3000 << row.min(6)];
        tx.open_table(OBJECTS).unwrap().insert(key(row).as_slice(), large.as_slice()).unwrap();
    }
    tx.open_table(EMPTY).unwrap().insert([1].as_slice(), [2].as_slice()).unwrap();
    tx.commit().unwrap();
}

pub(super) fn remove_some(db: &Database, rows: u64) {
    for start in 0..3 {
        let tx = db.begin_write().unwrap();
        for row in (start..rows).step_by(21) {
            tx.open_table(BLOCKS).unwrap().remove(key(row).as_slice()).unwrap();
        }
        tx.open_table(EMPTY).unwrap().remove([1].as_slice()).unwrap();
        tx.commit().unwrap();
    }
}

/// Adds four large objects, in one commit.
pub(super) fn put_large(db: &Database, first: u64, bytes: usize) {
    let tx = db.begin_write().unwrap();
    for row in first..first + 4 {
        tx.open_table(OBJECTS).unwrap().insert(key(row).as_slice(), vec![7; bytes].as_slice()).unwrap();
    }
    tx.commit().unwrap();
}

/// Removes what [`put_large`] added.
pub(super) fn remove_large(db: &Database, first: u64) {
    let tx = db.begin_write().unwrap();
    for row in first..first + 4 {
        tx.open_table(OBJECTS).unwrap().remove(key(row).as_slice()).unwrap();
    }
    tx.commit().unwrap();
}

/// The bytes of the file.
pub(super) fn bytes(disk: &CrashDisk) -> Vec<u8> {
    let kept = disk.keep_pages(Path::new(PATH)).unwrap();
    (0..kept.pages()).flat_map(|page| kept.page(page).to_vec()).collect()
}

/// Makes the checksums of both slots right again, so that the walk follows what they say.
pub(super) fn seal_slots(file: &mut [u8]) {
    for at in [64, 192] {
        let checksum = xxh3_128(&file[at..at + 112]).to_le_bytes();
        file[at + 112..at + 128].copy_from_slice(&checksum);
    }
}

/// Changes what a checksum covers, and makes all checksums up to the header right again.
pub(super) fn forge(file: &mut [u8], parts: &[Part], at: usize, change: &dyn Fn(&mut [u8])) {
    let part = parts.iter().find(|part| part.covered.contains(&(at as u64))).unwrap();
    if part.page == Place::HEADER {
        change(file);
        return seal_slots(file);
    }
    let covered = part.covered.start as usize..part.covered.end as usize;
    let old = xxh3_128(&file[covered.clone()]).to_le_bytes();
    change(file);
    let new = xxh3_128(&file[covered]).to_le_bytes();
    let is_parents = |at: &usize| file[*at..at + 16] == old;
    let holds = |at: usize| parts.iter().any(|part| part.covered.contains(&(at as u64)));
    let places: Vec<_> = (0..file.len() - 16).filter(is_parents).filter(|at| holds(*at)).collect();
    for at in places {
        forge(file, parts, at, &|file| file[at..at + 16].copy_from_slice(&new));
    }
}

/// Changes some rows in one commit.
pub(super) fn change_some(db: &Database, rows: u64, version: u64, step: usize) {
    let tx = db.begin_write().unwrap();
    for row in (version % step as u64..rows).step_by(step) {
        let mut blocks = tx.open_table(BLOCKS).unwrap();
        blocks.insert(key(row).as_slice(), value(row, version).as_slice()).unwrap();
        tx.open_table(COUNTS).unwrap().insert(row, version).unwrap();
    }
    tx.commit().unwrap();
}

/// Bytes of a file that one checksum covers.
#[derive(Clone, Debug)]
pub(super) struct Part {
    /// Of the page that they are in.
    pub(super) page: Place,
    pub(super) covered: Range<u64>,
    pub(super) depth: usize,
}

/// Everything of the newest commit that a checksum covers: a recursive reader that trusts the file.
pub(super) fn parts(disk: &CrashDisk) -> Vec<Part> {
    let file = bytes(disk);
    let header = Header::decode(&file, file.len() as u64);
    assert!(header.faults.is_empty(), "{:?}", header.faults);
    let slot = header.newest().unwrap();
    let mut parts = vec![
        Part { page: Place::HEADER, covered: 64..192, depth: 0 },
        Part { page: Place::HEADER, covered: 192..320, depth: 0 },
    ];
    let widths = Widths { key: None, value: None };
    for root in [slot.user, slot.system].into_iter().flatten() {
        tree(&file, root, widths, true, 0, &mut parts);
    }
    parts
}

fn tree(file: &[u8], root: Root, widths: Widths, is_tables: bool, depth: usize, parts: &mut Vec<Part>) {
    let page = Place::decode(root.page, file.len() as u64).unwrap();
    let bytes = &file[page.offset as usize..(page.offset + page.bytes) as usize];
    let node = Node::decode(bytes, widths).unwrap();
    let end = page.offset + node.covered().unwrap().len() as u64;
    parts.push(Part { page, covered: page.offset..end, depth });
    match node {
        Node::Branch(branch) => branch.children().for_each(|child| {
            tree(file, child, widths, is_tables, depth + 1, parts);
        }),
        Node::Leaf(leaf) if is_tables => {
            for row in leaf.rows() {
                let (_, definition) = row.unwrap();
                match Definition::decode(definition).unwrap() {
                    Definition::Table { root: Some(root), widths, .. } => {
                        tree(file, root, widths, false, 0, parts);
                    }
                    Definition::Table { .. } => {}
                    Definition::Multimap => panic!("a multimap"),
                }
            }
        }
        Node::Leaf(_) => {}
    }
}
