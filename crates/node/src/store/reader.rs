//! Reading a block.

use super::error::reading;
use super::sidecar::{ChunkEntry, Sidecar, chunks_of};
use super::{BlockMeta, Damage, Result, Shared, StoreError};
use disk::DiskFile;
use gf::CHUNK_BYTES;
use std::ops::Range;
use wire::BlockId;
use wire::frame::crc32c;

const CHUNK: u64 = CHUNK_BYTES as u64;

/// A block open for reading.
#[derive(Debug)]
pub struct BlockReader {
    sidecar: Sidecar,
    data: Box<dyn DiskFile>,
}

impl BlockReader {
    pub(super) fn open(shared: &Shared, block: BlockId) -> Result<Self> {
        let (sidecar, data) = shared.names.open(shared.disk.as_ref(), block)?;
        Ok(Self { sidecar, data })
    }

    /// What the sidecar says about the block.
    pub fn meta(&self) -> &BlockMeta {
        &self.sidecar.meta
    }

    /// Its length, in bytes.
    pub fn stored_bytes(&self) -> u64 {
        self.sidecar.meta.stored_bytes
    }

    /// Checksum and fingerprint of the chunks `range` (indices, within the block).
    ///
    /// Errors: [`StoreError::OutOfRange`]; [`StoreError::Corrupt`] with [`Damage::Entry`].
    pub fn entries(&self, range: Range<u64>) -> Result<Vec<ChunkEntry>> {
        self.sidecar.entries(range)
    }

    /// Fills `out` from `offset`, unchecked: for flows, which check fingerprints as they go.
    pub fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.check_range(offset, out.len())?;
        self.data.read_exact_at(offset, out).map_err(reading(self.meta().block))
    }

    /// Fills `out` from `offset`, every chunk that it touches checked against its CRC-32C.
    ///
    /// Errors: [`StoreError::Corrupt`] with the first bad chunk; [`StoreError::OutOfRange`].
    pub fn read_verified(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.check_range(offset, out.len())?;
        if out.is_empty() {
            return Ok(());
        }
        let end = offset + out.len() as u64;
        let first = offset / CHUNK;
        let entries = self.entries(first..chunks_of(end))?;
        let mut rest = out;
        for (index, entry) in (first..).zip(&entries) {
            let chunk = index * CHUNK..((index + 1) * CHUNK).min(self.stored_bytes());
            let wanted = chunk.start.max(offset)..chunk.end.min(end);
            let (part, after) = rest.split_at_mut((wanted.end - wanted.start) as usize);
            rest = after;
            if wanted == chunk {
                self.read_at(chunk.start, part)?;
                self.check(index, entry, part)?;
            } else {
                let mut whole = vec![0; (chunk.end - chunk.start) as usize];
                self.read_at(chunk.start, &mut whole)?;
                self.check(index, entry, &whole)?;
                let skip = (wanted.start - chunk.start) as usize;
                part.copy_from_slice(&whole[skip..skip + part.len()]);
            }
        }
        Ok(())
    }

    /// Hints that the range will be read soon.
    pub fn will_need(&self, range: Range<u64>) {
        self.data.advise_willneed(range);
    }

    /// Hints that the range was read for once, and need not stay in the page cache.
    pub fn wont_need(&self, range: Range<u64>) {
        self.data.advise_dontneed(range);
    }

    fn check(&self, index: u64, entry: &ChunkEntry, bytes: &[u8]) -> Result<()> {
        if crc32c(bytes) == entry.crc {
            return Ok(());
        }
        Err(StoreError::Corrupt { block: self.meta().block, damage: Damage::Chunk(index) })
    }

    fn check_range(&self, offset: u64, bytes: usize) -> Result<()> {
        let (stored_bytes, bytes) = (self.stored_bytes(), bytes as u64);
        if offset.checked_add(bytes).is_some_and(|end| end <= stored_bytes) {
            return Ok(());
        }
        Err(StoreError::OutOfRange { block: self.meta().block, stored_bytes, offset, bytes })
    }
}
