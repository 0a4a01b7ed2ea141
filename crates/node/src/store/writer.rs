//! Writing a block.

use super::room::{Room, Taken};
use super::sidecar::{self, ChunkEntry, chunks_of};
use super::temp::TempFile;
use super::{BlockMeta, CopyId, Digest, Folder, NewBlock, Result, StoreError};
use disk::{DiskFile, SyncPoint};
use flow::limits;
use gf::{CHUNK_BYTES, Fingerprint};
use model::{BlockId, Traffic};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

const CHUNK: u64 = CHUNK_BYTES as u64;

/// Read back at once when a digest has to be taken after the writing: large enough to be cheap, small beside a block.
const READ_BACK_BYTES: usize = 1 << 20;

/// A block that is being written. Dropping it leaves nothing.
///
/// Bytes may come in pieces of any size and, when the block has several symbols, interleaved: in order within each
/// chunk, chunks in any order, each byte once. Chunks are written as soon as they are complete.
#[derive(Debug)]
pub struct BlockWriter {
    folder: Arc<Folder>,
    block: BlockId,
    generation: u64,
    data: TempFile,
    /// Room for what it will still write.
    room: Taken,
    /// Complete chunks by index.
    chunks: Vec<Option<Complete>>,
    /// Beginnings of chunks by index, at most one for each symbol.
    begun: BTreeMap<u64, Vec<u8>>,
    hasher: blake3::Hasher,
    /// Bytes from the block's beginning that `hasher` has seen.
    hashed_bytes: u64,
    /// What is complete may come again, and is passed over.
    resumed: bool,
}

#[derive(Clone, Copy, Debug)]
struct Complete {
    entry: ChunkEntry,
    bytes: usize,
}

/// A block that is durable under its final name; nothing refers to it yet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Staged {
    /// What its sidecar says.
    pub meta: BlockMeta,
    /// The fingerprints of its α symbols.
    pub symbols: Vec<Fingerprint>,
}

impl BlockWriter {
    pub(super) fn begin(
        folder: &Arc<Folder>,
        copy: CopyId,
        stored_bytes: u64,
        traffic: Traffic,
    ) -> Result<Self> {
        let CopyId { block, generation } = copy;
        folder.must_be_noted()?;
        let room = Room::take(&folder.room, folder.disk.as_ref(), (block, stored_bytes), traffic)?;
        Ok(Self {
            folder: Arc::clone(folder),
            block,
            generation,
            room,
            data: TempFile::create(folder).map_err(StoreError::of_writing)?,
            chunks: Vec::new(),
            begun: BTreeMap::new(),
            hasher: blake3::Hasher::new(),
            hashed_bytes: 0,
            resumed: false,
        })
    }

    /// Writes `bytes` at `offset` of the block. `fingerprints`, when given, are those of the chunks that `bytes`
    /// consists of: `offset` stands at a chunk's beginning, and only the block's last chunk may be short. They are
    /// recorded as they are; without them they are computed.
    ///
    /// Errors: [`StoreError::OutOfOrder`], [`StoreError::TooLarge`], the disk's.
    pub fn write(&mut self, offset: u64, bytes: &[u8], fingerprints: Option<&[Fingerprint]>) -> Result<()> {
        self.check_bounds(offset, bytes)?;
        if let Some(fingerprints) = fingerprints {
            if !offset.is_multiple_of(CHUNK) || fingerprints.len() as u64 != chunks_of(bytes.len() as u64) {
                return Err(self.out_of_order(offset));
            }
            return self.write_chunks(offset, bytes, &|index| fingerprints.get(index).copied());
        }
        let to_boundary = (offset.next_multiple_of(CHUNK) - offset) as usize;
        let (head, rest) = bytes.split_at(to_boundary.min(bytes.len()));
        let (whole, tail) = rest.split_at(rest.len() - rest.len() % CHUNK_BYTES);
        let whole_at = offset + head.len() as u64;
        self.gather(offset, head)?;
        self.write_chunks(whole_at, whole, &|_| None)?;
        self.gather(whole_at + whole.len() as u64, tail)
    }

    /// Whoever wrote so far is gone, and somebody else goes on. What came of a chunk in part is forgotten; a chunk that is
    /// complete may come again and is passed over. Of a block of `stored_bytes` the byte ranges that are missing.
    pub fn resume(&mut self, stored_bytes: u64) -> Vec<Range<u64>> {
        self.begun.clear();
        self.resumed = true;
        let mut missing: Vec<Range<u64>> = Vec::new();
        for index in 0..chunks_of(stored_bytes) {
            let (from, to) = (index * CHUNK, stored_bytes.min((index + 1) * CHUNK));
            match missing.last_mut() {
                _ if self.has(index) => {}
                Some(last) if last.end == from => last.end = to,
                _ => missing.push(from..to),
            }
        }
        missing
    }

    fn has(&self, chunk: u64) -> bool {
        self.chunks.get(chunk as usize).is_some_and(Option::is_some)
    }

    fn check_bounds(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let (end, limit) = (offset.saturating_add(bytes.len() as u64), limits::MAX_BLOCK_BYTES);
        if end <= limit {
            return Ok(());
        }
        Err(StoreError::TooLarge { block: self.block, what: "block", bytes: end, limit })
    }

    fn out_of_order(&self, offset: u64) -> StoreError {
        StoreError::OutOfOrder { block: self.block, offset }
    }

    /// Writes complete chunks, the last of which may be short.
    fn write_chunks(
        &mut self,
        offset: u64,
        bytes: &[u8],
        fingerprint: &dyn Fn(usize) -> Option<Fingerprint>,
    ) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let first = offset / CHUNK;
        let end = first + chunks_of(bytes.len() as u64);
        if self.begun.range(first..end).next().is_some() {
            return Err(self.out_of_order(offset));
        }
        if self.chunks.len() < end as usize {
            self.chunks.resize(end as usize, None);
        }
        if self.chunks[first as usize..end as usize].iter().any(Option::is_some) {
            if !self.resumed {
                return Err(self.out_of_order(offset));
            }
            for (index, chunk) in bytes.chunks(CHUNK_BYTES).enumerate() {
                if !self.has(first + index as u64) {
                    self.write_chunks(offset + index as u64 * CHUNK, chunk, &|_| fingerprint(index))?;
                }
            }
            return Ok(());
        }
        self.data.file().write_at(offset, bytes)?;
        self.room.written(bytes.len() as u64);
        let slots = &mut self.chunks[first as usize..end as usize];
        for (index, (slot, chunk)) in slots.iter_mut().zip(bytes.chunks(CHUNK_BYTES)).enumerate() {
            let entry = ChunkEntry::of(chunk, fingerprint(index));
            *slot = Some(Complete { entry, bytes: chunk.len() });
        }
        if self.hashed_bytes == offset {
            self.hasher.update(bytes);
            self.hashed_bytes += bytes.len() as u64;
            self.hash_on()?;
        }
        Ok(())
    }

    /// Hashes what came before its turn and is due now. It was written a moment ago, so that reading it costs a copy.
    fn hash_on(&mut self) -> Result<()> {
        let mut read = Vec::new();
        while self.hashed_bytes.is_multiple_of(CHUNK)
            && let Some(Some(chunk)) = self.chunks.get((self.hashed_bytes / CHUNK) as usize)
        {
            read.resize(chunk.bytes, 0);
            self.data.file().read_exact_at(self.hashed_bytes, &mut read)?;
            self.hasher.update(&read);
            self.hashed_bytes += read.len() as u64;
        }
        Ok(())
    }

    /// Keeps a part of a chunk until the chunk is complete.
    fn gather(&mut self, offset: u64, part: &[u8]) -> Result<()> {
        if part.is_empty() {
            return Ok(());
        }
        let (index, within) = (offset / CHUNK, (offset % CHUNK) as usize);
        let had = self.begun.get(&index).map_or(0, Vec::len);
        // Each symbol has at most one chunk begun.
        let too_many = had == 0 && self.begun.len() >= limits::MAX_ALPHA as usize;
        let is_complete = self.has(index);
        if is_complete && self.resumed {
            return Ok(());
        }
        if had != within || is_complete || too_many {
            return Err(self.out_of_order(offset));
        }
        let chunk = self.begun.entry(index).or_insert_with(|| Vec::with_capacity(CHUNK_BYTES));
        chunk.extend_from_slice(part);
        if chunk.len() == CHUNK_BYTES {
            self.complete(index)?;
        }
        Ok(())
    }

    fn complete(&mut self, index: u64) -> Result<()> {
        match self.begun.remove(&index) {
            Some(chunk) => self.write_chunks(index * CHUNK, &chunk, &|_| None),
            None => Ok(()),
        }
    }

    /// Checks that all is there, and is what was expected if a digest is given; then makes it durable, sidecar before
    /// data, and gives it its final names. If exactly this copy is here already, with the same bytes, it stays, and that is
    /// no error.
    ///
    /// Errors leave nothing: [`StoreError::Incomplete`], [`StoreError::DigestDiffers`], [`StoreError::Exists`],
    /// [`StoreError::Half`], [`StoreError::BadGeometry`], [`StoreError::TooLarge`], the disk's. (If only the very last sync
    /// fails, the copy may be there, whole, until it is deleted.)
    pub fn finish(mut self, facts: NewBlock, expected: Option<Digest>) -> Result<Staged> {
        let stored_bytes = facts.stored_bytes;
        sidecar::check_geometry(stored_bytes, facts.alpha, facts.symbol_bytes)
            .map_err(|why| StoreError::BadGeometry { block: self.block, why })?;
        // The last chunk is short; now it is known to be the last.
        self.complete(stored_bytes / CHUNK)?;
        self.check_complete(stored_bytes)?;
        let digest = self.digest(stored_bytes)?;
        if let Some(expected) = expected
            && expected != digest
        {
            return Err(StoreError::DigestDiffers { block: self.block, expected, found: digest });
        }
        let symbols = fold(self.entries(), facts.alpha, facts.symbol_bytes);
        let fingerprint = fold_block(&symbols, facts.symbol_bytes);
        let meta = BlockMeta {
            block: self.block,
            generation: self.generation,
            birth: facts.birth,
            stored_bytes,
            digest,
            fingerprint,
            alpha: facts.alpha,
            symbol_bytes: facts.symbol_bytes,
            part: facts.part,
            note: facts.note,
        };
        self.commit(&meta)?;
        Ok(Staged { meta, symbols })
    }

    fn check_complete(&self, stored_bytes: u64) -> Result<()> {
        let (block, wanted) = (self.block, chunks_of(stored_bytes));
        let incomplete = |index: u64| StoreError::Incomplete { block, stored_bytes, offset: index * CHUNK };
        for index in 0..wanted {
            let bytes = CHUNK.min(stored_bytes - index * CHUNK) as usize;
            match self.chunks.get(index as usize) {
                Some(Some(chunk)) if chunk.bytes == bytes => {}
                _ => return Err(incomplete(index)),
            }
        }
        let surplus = self.chunks.len() as u64 > wanted || !self.begun.is_empty();
        if surplus { Err(incomplete(wanted)) } else { Ok(()) }
    }

    /// BLAKE3 of the bytes in the block's order: what came in another order is read back.
    fn digest(&mut self, stored_bytes: u64) -> Result<Digest> {
        let from = self.hashed_bytes;
        self.hashed_bytes = stored_bytes.max(from);
        hash_on(&mut self.hasher, self.data.file(), from, stored_bytes)
    }

    fn entries(&self) -> impl Iterator<Item = ChunkEntry> {
        self.chunks.iter().flatten().map(|chunk| chunk.entry)
    }

    fn commit(self, meta: &BlockMeta) -> Result<()> {
        let copy = CopyId { block: self.block, generation: self.generation };
        let (disk, names) = (self.folder.disk.as_ref(), &self.folder.names);
        if names.contains(disk, copy)? {
            return match self.is_stored(copy, meta)? {
                // Whoever made its names may have failed to make them durable.
                true => names.sync(disk, copy, SyncPoint::BlockFolder),
                false => Err(StoreError::Exists { block: copy.block, generation: copy.generation }),
            };
        }
        let sidecar = TempFile::create(&self.folder)?;
        sidecar.file().write_at(0, &sidecar::encode(meta, self.entries())?)?;
        sidecar.sync(SyncPoint::BlockSidecar)?;
        self.data.sync(SyncPoint::BlockData)?;
        names.commit(disk, copy, meta.stored_bytes, sidecar, self.data)
    }

    /// Whether the copy that has these names is this one: its bytes are read, for a sidecar vouches for none.
    fn is_stored(&self, copy: CopyId, meta: &BlockMeta) -> Result<bool> {
        let (stored, data) = match self.folder.names.open(self.folder.disk.as_ref(), copy) {
            Err(StoreError::Corrupt { .. }) => return Ok(false),
            opened => opened?,
        };
        let is_like_it = (stored.meta.digest, stored.meta.stored_bytes) == (meta.digest, meta.stored_bytes);
        Ok(is_like_it
            && hash_on(&mut blake3::Hasher::new(), data.as_ref(), 0, meta.stored_bytes)? == meta.digest)
    }
}

/// Feeds the bytes from `from` to `to` to the hasher, and says what comes out.
fn hash_on(hasher: &mut blake3::Hasher, file: &dyn DiskFile, from: u64, to: u64) -> Result<Digest> {
    let (mut buffer, mut at) = (Vec::new(), from);
    while at < to {
        buffer.resize((to - at).min(READ_BACK_BYTES as u64) as usize, 0);
        file.read_exact_at(at, &mut buffer)?;
        hasher.update(&buffer);
        at += buffer.len() as u64;
    }
    Ok(*hasher.finalize().as_bytes())
}

/// The fingerprints of a block's symbols, from those of its chunks in order.
pub(super) fn fold(
    chunks: impl Iterator<Item = ChunkEntry>,
    alpha: u16,
    symbol_bytes: u64,
) -> Vec<Fingerprint> {
    let per_symbol = chunks_of(symbol_bytes).max(1);
    let mut symbols = vec![Fingerprint::ZERO; usize::from(alpha.max(1))];
    for (index, chunk) in (0u64..).zip(chunks) {
        if let Some(symbol) = symbols.get_mut((index / per_symbol) as usize) {
            symbol.fold(index % per_symbol, &chunk.fingerprint);
        }
    }
    symbols
}

/// A block's fingerprint from those of its symbols.
pub(super) fn fold_block(symbols: &[Fingerprint], symbol_bytes: u64) -> Fingerprint {
    let mut block = Fingerprint::ZERO;
    for (index, symbol) in (0u64..).zip(symbols) {
        block.fold(index * chunks_of(symbol_bytes), symbol);
    }
    block
}
