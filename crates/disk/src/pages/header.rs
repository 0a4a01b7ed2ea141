//! The first page of a redb file: which commits it knows, and which of them counts.

use super::place::{PAGE_BYTES, REGION_PAGES};
use crate::{DiskFile, Result};
use std::time::Duration;
use xxhash_rust::xxh3::xxh3_128;

/// What redb writes of the first page: 64 bytes of header and two commit slots of 128.
pub(crate) const HEADER_BYTES: usize = 320;

const MAGIC: &[u8] = b"redb\x1a\x0a\xa9\x0d\x0a";
const SLOT_BYTES: usize = 128;
const VERSION: u8 = 3;

const PRIMARY: u8 = 1;
const RECOVERY_REQUIRED: u8 = 2;
const TWO_PHASE: u8 = 4;

/// A header that is read while it is written can be torn. Writing it takes microseconds, so several torn reads in a
/// row are damage.
const READS: u32 = 5;
const REREAD_AFTER: Duration = Duration::from_millis(1);

/// The root of a tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Root {
    pub(super) page: u64,
    pub(super) checksum: u128,
}

impl Root {
    /// Decodes 24 bytes; `None` if there are fewer.
    pub(super) fn decode(bytes: &[u8]) -> Option<Root> {
        Some(Root { page: u64_at(bytes, 0)?, checksum: u128_at(bytes, 8)? })
    }
}

/// A commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Slot {
    pub(super) transaction: u64,
    pub(super) user: Option<Root>,
    pub(super) system: Option<Root>,
}

impl Slot {
    /// `None` if the slot's own checksum fails.
    fn decode(bytes: &[u8]) -> Option<Slot> {
        let (covered, checksum) = bytes.split_at_checked(SLOT_BYTES - 16)?;
        if covered[0] != VERSION || u128_at(checksum, 0)? != xxh3_128(covered) {
            return None;
        }
        let user = if covered[1] != 0 { Some(Root::decode(&covered[8..])?) } else { None };
        let system = if covered[2] != 0 { Some(Root::decode(&covered[40..])?) } else { None };
        Some(Slot { transaction: u64_at(covered, 104)?, user, system })
    }
}

/// A header as far as it can be read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Header {
    /// By the god byte's bit: the primary, then the other; `None` if its checksum fails.
    slots: [Option<Slot>; 2],
    is_two_phase: bool,
    /// What is wrong with it.
    pub(super) faults: Vec<&'static str>,
    pub(super) file_bytes: u64,
}

impl Header {
    /// Reads the header, again if it looks torn, and then the length of the file.
    ///
    /// # Errors
    /// Those of the disk. An unreadable or cut header is a fault of the header that is returned.
    pub(crate) fn read(file: &dyn DiskFile) -> Result<Header> {
        let mut reads = 1;
        loop {
            let header = Header::read_once(file)?;
            if header.faults.is_empty() || reads == READS {
                return Ok(header);
            }
            reads += 1;
            std::thread::sleep(REREAD_AFTER);
        }
    }

    /// Reads the header once, torn or not.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub(super) fn read_once(file: &dyn DiskFile) -> Result<Header> {
        let mut page = [0; PAGE_BYTES as usize];
        let got = match file.read_at(0, &mut page) {
            Ok(got) => got,
            Err(error) if error.is_unreadable() => 0,
            Err(error) => return Err(error),
        };
        // The length after the header: a file may grow before a commit, and shrinks after it.
        let file_bytes = file.len()?;
        if got < page.len() {
            return Ok(Header { faults: vec!["the header cannot be read"], file_bytes, ..Header::default() });
        }
        Ok(Header::decode(&page, file_bytes))
    }

    /// Decodes the first [`HEADER_BYTES`] of a file of `file_bytes`; fewer bytes are a fault.
    pub(crate) fn decode(bytes: &[u8], file_bytes: u64) -> Header {
        let Some(bytes) = bytes.get(..HEADER_BYTES) else {
            return Header { faults: vec!["the header is cut"], file_bytes, ..Header::default() };
        };
        let god = bytes[MAGIC.len()];
        let mut slots = [Slot::decode(&bytes[64..]), Slot::decode(&bytes[64 + SLOT_BYTES..])];
        if god & PRIMARY != 0 {
            slots.swap(0, 1);
        }
        let mut faults = faults(bytes, god, file_bytes);
        if slots[0].is_none() {
            faults.push("the newest commit slot fails its checksum");
        }
        if slots[1].is_none() {
            faults.push("the older commit slot fails its checksum");
        }
        Header { slots, is_two_phase: god & TWO_PHASE != 0, faults, file_bytes }
    }

    /// The commit that redb would open: with a two-phase commit the primary, else the newer one. A primary that fails
    /// its checksum gives way to the other, even where redb would refuse the file.
    pub(super) fn newest(&self) -> Option<Slot> {
        match self.slots {
            [Some(primary), Some(other)] if !self.is_two_phase && other.transaction > primary.transaction => {
                Some(other)
            }
            [primary, other] => primary.or(other),
        }
    }

    /// The transaction of [`newest`](Self::newest).
    pub(crate) fn transaction(&self) -> Option<u64> {
        self.newest().map(|slot| slot.transaction)
    }

    /// Whether the commit that the god byte names can be read.
    pub(crate) fn has_primary(&self) -> bool {
        self.slots[0].is_some()
    }
}

/// What is wrong with the bytes that no checksum covers.
fn faults(bytes: &[u8], god: u8, file_bytes: u64) -> Vec<&'static str> {
    let number = |at| u64::from(u32_at(bytes, at).unwrap_or(0));
    let mut faults = Vec::new();
    if !bytes.starts_with(MAGIC) {
        faults.push("the magic number is wrong");
    }
    if god & !(PRIMARY | RECOVERY_REQUIRED | TWO_PHASE) != 0 {
        faults.push("the god byte has unknown flags");
    }
    // Page size, pages of a region's header, pages of a region: fixed when the file was made.
    if (number(12), number(16), number(20)) != (PAGE_BYTES, 0, REGION_PAGES) {
        faults.push("the size of pages or regions is wrong");
    }
    let layout_bytes = PAGE_BYTES * (1 + number(24) * REGION_PAGES + number(28));
    // An open database may have grown the file for a commit to come.
    let is_open = god & RECOVERY_REQUIRED != 0;
    if layout_bytes > file_bytes || (!is_open && layout_bytes < file_bytes) {
        faults.push("the length of the file is not the one in the header");
    }
    faults
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

pub(super) fn u128_at(bytes: &[u8], at: usize) -> Option<u128> {
    Some(u128::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}
