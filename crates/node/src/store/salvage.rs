//! Reads a copy whose sidecar has a damaged head, or whose length is wrong, chunk by chunk.
//!
//! The fingerprints of all chunks fold to that of the block, which the catalog keeps. Fingerprints that fold to it are therefore right, whether
//! they come from the entries at the end of the sidecar, each with its own checksum, or from the data itself.

use super::error::reading;
use super::names::{data_path, sidecar_path};
use super::sidecar::{ChunkEntry, ENTRY_BYTES, chunks_of};
use super::{CopyId, Damage, Folder, Result, Store, StoreError};
use disk::{DiskError, DiskFile};
use flow::limits;
use gf::{CHUNK_BYTES, Fingerprint};
use model::BlockId;
use std::ops::Range;

const CHUNK: u64 = CHUNK_BYTES as u64;

/// A damaged copy whose chunks can be checked one by one.
#[derive(Debug)]
pub struct Salvaged {
    block: BlockId,
    stored_bytes: u64,
    data: Box<dyn DiskFile>,
    fingerprints: Vec<Fingerprint>,
}

impl Store {
    /// Opens a damaged copy of a block with the given length and fingerprint. Reads the whole copy if its sidecar is useless.
    ///
    /// Errors: [`StoreError::NotFound`] if its data is missing; [`StoreError::Corrupt`] if the sound chunks cannot be identified.
    pub fn salvage(
        &self,
        block: BlockId,
        generation: u64,
        stored_bytes: u64,
        expected: &Fingerprint,
    ) -> Result<Salvaged> {
        Salvaged::open(&self.folder, CopyId { block, generation }, stored_bytes, expected)
    }
}

impl Salvaged {
    fn open(folder: &Folder, copy: CopyId, stored_bytes: u64, expected: &Fingerprint) -> Result<Self> {
        let block = copy.block;
        if stored_bytes > limits::MAX_BLOCK_BYTES {
            let (bytes, limit) = (stored_bytes, limits::MAX_BLOCK_BYTES);
            return Err(StoreError::TooLarge { block, what: "block", bytes, limit });
        }
        let disk = folder.disk.as_ref();
        let data = disk.open(&data_path(copy)).map_err(reading(block))?;
        let entries = match disk.open(&sidecar_path(copy)) {
            Ok(sidecar) => last_entries(sidecar.as_ref(), chunks_of(stored_bytes)).map_err(reading(block))?,
            Err(DiskError::NotFound { .. }) => Vec::new(),
            Err(error) => return Err(reading(block)(error)),
        };
        let mut salvaged = Salvaged { block, stored_bytes, data, fingerprints: Vec::new() };
        let mut sum = Fingerprint::ZERO;
        for chunk in 0..chunks_of(stored_bytes) {
            let noted = entries.get(chunk as usize).copied().flatten();
            let fingerprint =
                noted.map_or_else(|| salvaged.fingerprint_of(chunk), |it| Ok(it.fingerprint))?;
            sum.fold(chunk, &fingerprint);
            salvaged.fingerprints.push(fingerprint);
        }
        match sum == *expected {
            true => Ok(salvaged),
            false => Err(StoreError::Corrupt { block, damage: Damage::Digest }),
        }
    }

    /// Computes a chunk's fingerprint from the bytes on disk.
    fn fingerprint_of(&self, chunk: u64) -> Result<Fingerprint> {
        let start = chunk * CHUNK;
        let mut bytes = vec![0; CHUNK.min(self.stored_bytes - start) as usize];
        self.read_at(start, &mut bytes)?;
        Ok(gf::kernels().fingerprint(&bytes))
    }

    /// Returns the block.
    pub fn block(&self) -> BlockId {
        self.block
    }

    /// Returns the length of the block; fewer bytes may be present.
    pub fn stored_bytes(&self) -> u64 {
        self.stored_bytes
    }

    /// Fills `out` from `offset` without a check.
    ///
    /// Errors: [`StoreError::Corrupt`] for bytes that are missing.
    pub fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.data.read_exact_at(offset, out).map_err(reading(self.block))
    }

    /// Returns the fingerprints that the chunks from `first` on should have.
    ///
    /// Errors: [`StoreError::OutOfRange`].
    pub fn fingerprints(&self, first: u64, out: &mut [Fingerprint]) -> Result<()> {
        let (from, bytes) = (first as usize, out.len() as u64 * CHUNK);
        let known = self.fingerprints.get(from..from.saturating_add(out.len()));
        let (block, stored_bytes, offset) = (self.block, self.stored_bytes, first.saturating_mul(CHUNK));
        out.copy_from_slice(known.ok_or(StoreError::OutOfRange { block, stored_bytes, offset, bytes })?);
        Ok(())
    }

    /// Hints that the range will be read soon.
    pub fn will_need(&self, range: Range<u64>) {
        self.data.advise_willneed(range);
    }
}

/// Returns the last entries of a sidecar, `None` for those that fail their own checksum. Ignores the head.
fn last_entries(sidecar: &dyn DiskFile, chunks: u64) -> disk::Result<Vec<Option<ChunkEntry>>> {
    let bytes = chunks * ENTRY_BYTES as u64;
    let Some(at) = sidecar.len()?.checked_sub(bytes) else { return Ok(Vec::new()) };
    let mut raw = vec![0; bytes as usize];
    match sidecar.read_exact_at(at, &mut raw) {
        Err(error) if error.is_unreadable() => return Ok(Vec::new()),
        read => read?,
    }
    let (raw, _) = raw.as_chunks::<ENTRY_BYTES>();
    Ok(raw.iter().map(ChunkEntry::decode).collect())
}
