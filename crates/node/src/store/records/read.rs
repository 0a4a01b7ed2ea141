//! What is held, read back in pieces.

use super::frames::Frames;
use super::snapshot::{HASH_BYTES, HEADER_BYTES};
use super::{Counting, Held, records_path, snapshot_path};
use crate::store::{Result, StoreError};
use disk::{Disk, DiskFile};

/// No piece is longer: a message like others, and little memory for each that is under way.
pub const PIECE_BYTES: usize = 256 << 10;

/// What was held when it was opened. First its snapshot, then its records.
#[derive(Debug)]
pub struct HeldReader {
    held: Held,
    snapshot: Box<dyn DiskFile>,
    /// Where in the snapshot's file the next piece begins.
    at: u64,
    hasher: blake3::Hasher,
    /// None if there are no records.
    records: Option<Frames>,
    /// A record behind its length, of which so much was given out.
    record: (Vec<u8>, usize),
}

impl HeldReader {
    pub(super) fn open(disk: &dyn Disk, counting: &Counting) -> Result<HeldReader> {
        let snapshot = disk.open(&snapshot_path(counting.number))?;
        let records = match counting.end {
            0 => None,
            end => Some(Frames::new(disk.open(&records_path(counting.number))?, end)),
        };
        let mut header = [0; HEADER_BYTES];
        snapshot.read_exact_at(0, &mut header)?;
        let mut hasher = blake3::Hasher::new();
        hasher.update(&header);
        let at = HEADER_BYTES as u64;
        Ok(HeldReader { held: counting.held, snapshot, at, hasher, records, record: (Vec::new(), 0) })
    }

    /// What it is.
    pub fn held(&self) -> Held {
        self.held
    }

    /// The next piece of the snapshot. Only when it was read to its end without an error is it what was written.
    ///
    /// Errors: [`StoreError::HeldDamaged`]; the disk's.
    pub fn next_of_snapshot(&mut self) -> Result<Option<Vec<u8>>> {
        let end = HEADER_BYTES as u64 + self.held.snapshot_bytes;
        if self.at >= end {
            let mut hash = [0; HASH_BYTES];
            self.snapshot.read_exact_at(end, &mut hash)?;
            return match *self.hasher.finalize().as_bytes() == hash {
                true => Ok(None),
                false => Err(StoreError::HeldDamaged { why: "its snapshot's hash does not hold any more" }),
            };
        }
        let mut piece = vec![0; (end - self.at).min(PIECE_BYTES as u64) as usize];
        self.snapshot.read_exact_at(self.at, &mut piece)?;
        self.hasher.update(&piece);
        self.at += piece.len() as u64;
        Ok(Some(piece))
    }

    /// The next piece of the records, each of which stands behind its length (8 bytes, little-endian).
    ///
    /// Errors: [`StoreError::HeldDamaged`]; the disk's.
    pub fn next_of_records(&mut self) -> Result<Option<Vec<u8>>> {
        let mut piece = Vec::new();
        while piece.len() < PIECE_BYTES && self.has_record()? {
            let (record, given) = &mut self.record;
            let now = (record.len() - *given).min(PIECE_BYTES - piece.len());
            piece.extend_from_slice(&record[*given..*given + now]);
            *given += now;
        }
        Ok((!piece.is_empty()).then_some(piece))
    }

    /// Whether something of a record is there that was not given out.
    fn has_record(&mut self) -> Result<bool> {
        let (record, given) = &mut self.record;
        if *given < record.len() {
            return Ok(true);
        }
        let Some(frames) = self.records.as_mut().filter(|frames| !frames.is_at_end()) else {
            return Ok(false);
        };
        let damaged = StoreError::HeldDamaged { why: "a record does not hold any more" };
        let next = frames.next()?.ok_or(damaged)?;
        record.clear();
        record.extend_from_slice(&(next.len() as u64).to_le_bytes());
        record.extend_from_slice(next);
        *given = 0;
        Ok(true)
    }
}
