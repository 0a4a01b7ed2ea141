//! No bytes can make the walk panic, loop or allocate without bound.

use super::bench::{self, Damage, Dice, seal_slots};
use super::open;
use crate::pages::PageReport;
use crate::pages::walk::Walk;
use crate::{CrashDisk, DiskFile, PowerSwitch, Result, SyncPoint};
use std::ops::Range;

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
    (Bytes(bench::bytes(&disk)), bench::parts(&disk))
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
        let bytes = 4096 * (1 + dice.below(25));
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

/// Bytes that pass their checksums and are wrong all the same.
#[test]
fn forged_pages_are_followed_as_far_as_they_make_sense() {
    let find = |file: &[u8], bytes: &[u8]| {
        file.windows(bytes.len())
            .enumerate()
            .filter(|(_, window)| *window == bytes)
            .map(|(at, _)| at)
            .collect::<Vec<_>>()
    };
    let forged = |needle: &[u8], replacement: &[u8]| {
        let (mut file, parts) = small();
        let holds = |at: &usize| parts.iter().any(|part| part.covered.contains(&(*at as u64)));
        let at = find(&file.0, needle).into_iter().find(holds).unwrap();
        bench::forge(&mut file.0, &parts, at, &|file| {
            file[at..at + replacement.len()].copy_from_slice(replacement);
        });
        let mut damage = Damage::default();
        let report = Walk::new(&file, &mut damage).run().unwrap();
        (damage.0, report)
    };
    let whys = |damage: &[crate::PageDamage]| damage.iter().map(|d| d.why).collect::<Vec<_>>();

    let (key, later) = (bench::key(7), bench::key(900));
    let (damage, report) = forged(&key, &later);
    assert_eq!(
        (whys(&damage), report.is_complete),
        (vec!["a key is not between those of the page above"], true)
    );

    // The keys of the tables, and the first definition.
    let (damage, _) = forged(b"objects\x03", b"objects\x09");
    assert_eq!(whys(&damage), ["the definition of a table is not one"]);
    let (damage, _) = forged(b"objects\x03", b"\xffbjects\x03");
    assert_eq!(whys(&damage), ["the name of a table is not text"]);
}

/// A medium that does not return some pages.
#[derive(Debug)]
struct Unreadable(Bytes, Range<u64>);

impl DiskFile for Unreadable {
    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        if offset < self.1.end && offset + out.len() as u64 > self.1.start {
            let source = std::io::Error::from_raw_os_error(5);
            return Err(crate::DiskError::Io { path: "f".into(), source });
        }
        self.0.read_at(offset, out)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.0.write_at(offset, bytes)
    }

    fn set_len(&self, bytes: u64) -> Result<()> {
        self.0.set_len(bytes)
    }

    fn len(&self) -> Result<u64> {
        self.0.len()
    }

    fn sync(&self, point: SyncPoint) -> Result<()> {
        self.0.sync(point)
    }

    fn advise_willneed(&self, _: Range<u64>) {}

    fn advise_dontneed(&self, _: Range<u64>) {}
}

#[test]
fn unreadable_pages_are_damage() {
    let (file, parts) = small();
    let mut dice = Dice(7);
    for _ in 0..50 {
        let part = &parts[dice.below(parts.len())];
        let file = Unreadable(Bytes(file.0.clone()), part.covered.start..part.covered.start + 1);
        let mut damage = Damage::default();
        Walk::new(&file, &mut damage).run().unwrap();
        assert_eq!(damage.0.first().map(|d| d.offset), Some(part.page.offset));
    }
}
