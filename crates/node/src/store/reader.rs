//! Reading a block.

use super::error::reading;
use super::sidecar::{ChunkEntry, Sidecar, chunks_of};
use super::{BlockMeta, CopyId, Damage, Folder, Result, StoreError};
use disk::DiskFile;
use gf::CHUNK_BYTES;
use std::ops::Range;

const CHUNK: u64 = CHUNK_BYTES as u64;

/// A block open for reading.
#[derive(Debug)]
pub struct BlockReader {
    sidecar: Sidecar,
    data: Box<dyn DiskFile>,
}

impl BlockReader {
    pub(super) fn open(folder: &Folder, copy: CopyId) -> Result<Self> {
        let (sidecar, data) = folder.names.open(folder.disk.as_ref(), copy)?;
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
        self.read_with_entries(offset, out).map(|_| ())
    }

    /// [`read_verified`](Self::read_verified) that also returns the entries of the chunks it touched.
    pub(super) fn read_with_entries(&self, offset: u64, out: &mut [u8]) -> Result<Vec<ChunkEntry>> {
        self.read_at(offset, out)?;
        if out.is_empty() {
            return Ok(Vec::new());
        }
        let end = offset + out.len() as u64;
        let first = offset / CHUNK;
        let entries = self.entries(first..chunks_of(end))?;
        let mut rest = &*out;
        for (index, entry) in (first..).zip(&entries) {
            let chunk = index * CHUNK..((index + 1) * CHUNK).min(self.stored_bytes());
            let wanted = chunk.start.max(offset)..chunk.end.min(end);
            let (part, after) = rest.split_at((wanted.end - wanted.start) as usize);
            rest = after;
            // The checksum is that of the whole chunk: what was not asked for is read only for it.
            let mut crc = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
            crc.update(&self.bytes(chunk.start..wanted.start)?);
            crc.update(part);
            crc.update(&self.bytes(wanted.end..chunk.end)?);
            if crc.finalize() as u32 != entry.crc {
                return Err(StoreError::Corrupt { block: self.meta().block, damage: Damage::Chunk(index) });
            }
        }
        Ok(entries)
    }

    /// Unchecked bytes of less than a chunk.
    fn bytes(&self, range: Range<u64>) -> Result<Vec<u8>> {
        let mut bytes = vec![0; (range.end - range.start) as usize];
        if !bytes.is_empty() {
            self.read_at(range.start, &mut bytes)?;
        }
        Ok(bytes)
    }

    /// Hints that the range will be read soon.
    pub fn will_need(&self, range: Range<u64>) {
        self.data.advise_willneed(range);
    }

    /// Hints that the range was read for once, and need not stay in the page cache.
    pub fn wont_need(&self, range: Range<u64>) {
        self.data.advise_dontneed(range);
    }

    fn check_range(&self, offset: u64, bytes: usize) -> Result<()> {
        let (stored_bytes, bytes) = (self.stored_bytes(), bytes as u64);
        if offset.checked_add(bytes).is_some_and(|end| end <= stored_bytes) {
            return Ok(());
        }
        Err(StoreError::OutOfRange { block: self.meta().block, stored_bytes, offset, bytes })
    }
}
