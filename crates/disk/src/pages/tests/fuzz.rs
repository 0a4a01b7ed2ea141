//! No bytes can make the walk panic, loop or allocate without bound.

use super::bench::{self, Damage, Dice};
use super::{PATH, open};
use crate::pages::PageReport;
use crate::pages::walk::Walk;
use crate::{CrashDisk, DiskFile, PowerSwitch, Result, SyncPoint};
use std::ops::Range;
use std::path::Path;
use xxhash_rust::xxh3::xxh3_128;

#[derive(Debug)]
struct Bytes(Vec<u8>);

impl DiskFile for Bytes {
    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        let from = (offset as usize).min(self.0.len());
        let bytes = out.len().min(self.0.len() - from);
        out[..bytes].copy_from_slice(&self.0[from..from + bytes]);
        Ok(bytes)
    }

    fn write_at(&self, _: u64, _: &[u8]) -> Result<()> {
        unreachable!("the walk only reads")
    }

    fn set_len(&self, _: u64) -> Result<()> {
        unreachable!("the walk only reads")
    }

    fn len(&self) -> Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn sync(&self, _: SyncPoint) -> Result<()> {
        unreachable!("the walk only reads")
    }

    fn advise_willneed(&self, _: Range<u64>) {}

    fn advise_dontneed(&self, _: Range<u64>) {}
}

fn walk(file: &Bytes) -> (PageReport, usize) {
    let mut damage = Damage::default();
    let report = Walk::new(file, &mut damage).run().unwrap();
    assert!(report.pages <= file.0.len() as u64 / 4096 * 2, "pages are read once: {report:?}");
    assert!(report.bytes <= file.0.len() as u64 * 2, "{report:?}");
    (report, damage.0.len())
}

fn small() -> (Bytes, Vec<bench::Part>) {
    let disk = CrashDisk::new(&PowerSwitch::new());
    let db = open(&disk);
    bench::fill(&db, 600);
    drop(db);
    let kept = disk.keep_pages(Path::new(PATH)).unwrap();
    let file = (0..kept.pages()).flat_map(|page| kept.page(page).to_vec()).collect();
    (Bytes(file), bench::parts(&disk))
}

/// Makes the checksums of both slots right again, so that the walk follows what they say.
fn seal_slots(file: &mut [u8]) {
    for at in [64, 192] {
        let checksum = xxh3_128(&file[at..at + 112]).to_le_bytes();
        file[at + 112..at + 128].copy_from_slice(&checksum);
    }
}

#[test]
fn changed_bytes_are_damage_and_no_more() {
    let (mut file, parts) = small();
    let mut dice = Dice(3);
    for _ in 0..3000 {
        let mut old = Vec::new();
        for _ in 0..=dice.below(4) {
            let part = &parts[dice.below(parts.len())];
            // Counts, offsets, references: the beginning of a page is what the walk trusts.
            let reach = [16, 64, 4096][dice.below(3)].min(part.covered.end - part.covered.start) as usize;
            let at = part.covered.start as usize + dice.below(reach);
            let byte = [0, 1, 2, 0x7f, 0xff, dice.below(256) as u8][dice.below(6)];
            old.push((at, file.0[at]));
            file.0[at] = byte;
        }
        let (before, is_sealed) = (file.0[64..320].to_vec(), dice.below(2) == 0);
        if is_sealed {
            seal_slots(&mut file.0);
        }
        walk(&file);
        file.0[64..320].copy_from_slice(&before);
        old.into_iter().rev().for_each(|(at, byte)| file.0[at] = byte);
    }
    assert_eq!(walk(&file).1, 0, "the last case was undone");
}

/// Whole references are replaced by others of the file: loops, pages of other trees, parents as children.
#[test]
fn swapped_references_are_damage_and_no_more() {
    let (mut file, parts) = small();
    let mut dice = Dice(4);
    let branches: Vec<_> = parts
        .iter()
        .filter(|part| part.page.offset > 0 && file.0[part.page.offset as usize] == 2)
        .cloned()
        .collect();
    for _ in 0..1000 {
        let part = &branches[dice.below(branches.len())];
        let at = part.page.offset as usize;
        let keys = usize::from(u16::from_le_bytes([file.0[at + 2], file.0[at + 3]]));
        let child = at + 8 + 16 * (keys + 1) + 8 * dice.below(keys + 1);
        let old: [u8; 8] = file.0[child..child + 8].try_into().unwrap();
        let other = parts[dice.below(parts.len())].page.offset / 4096;
        let order = [0, 0, 1, 5, 16, 17, 20, 31][dice.below(8)];
        let number = (other.saturating_sub(1) >> order.min(63)) | (order << 59);
        file.0[child..child + 8].copy_from_slice(&number.to_le_bytes());
        let (_, damaged) = walk(&file);
        assert!(damaged > 0 || old == number.to_le_bytes());
        file.0[child..child + 8].copy_from_slice(&old);
    }
}

#[test]
fn cut_files_are_damage_and_no_more() {
    let (file, _) = small();
    let mut dice = Dice(5);
    for case in 0..300 {
        let bytes = if case % 3 == 0 { dice.below(9000) } else { dice.below(file.0.len()) };
        let (_, damaged) = walk(&Bytes(file.0[..bytes].to_vec()));
        assert!(damaged > 0, "{bytes}");
    }
}

#[test]
fn random_bytes_are_damage_and_no_more() {
    let (whole, _) = small();
    let mut dice = Dice(6);
    for case in 0..300 {
        let bytes = 4096 * (1 + dice.below(40));
        let mut file: Vec<u8> = (0..bytes).map(|_| dice.below(256) as u8).collect();
        if case % 2 == 0 {
            file[..4096].copy_from_slice(&whole.0[..4096]);
            // Small numbers, so that pages look like pages.
            file[4096..].iter_mut().for_each(|byte| *byte = if *byte < 200 { *byte % 4 } else { *byte });
            seal_slots(&mut file);
        }
        let (_, damaged) = walk(&Bytes(file));
        assert!(damaged > 0);
    }
}
