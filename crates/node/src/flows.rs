//! The block store as the flow executor sees it.

use crate::cache::BlockCache;
use crate::store::{BlockMeta, BlockReader, BlockWriter, NewBlock, Staged, Store, StoreError};
use disk::DiskError;
use exec::{BlockSink, BlockSource, BlockStore};
use flow::Member;
use flow::bound::{BlockRead, BlockWrite, FlowHeader};
use gf::{CHUNK_BYTES, Fingerprint};
use model::{BlockId, Cause, Fault, StoredCopy, Sums, note};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};
use wire::proto;

/// Corrupt blocks remembered for the coordinator; one that is told of so many has other worries.
const MAX_CORRUPT: usize = 4096;

/// A [`Store`] for flows, and the list of what was found corrupt in it.
pub struct FlowStore {
    /// The blocks.
    pub store: Store,
    /// Recently read ones.
    pub cache: Arc<BlockCache>,
    corrupt: Arc<Corrupt>,
}

/// Blocks found corrupt and still here.
#[derive(Default)]
struct Corrupt(Mutex<BTreeSet<BlockId>>);

impl Corrupt {
    fn lock(&self) -> MutexGuard<'_, BTreeSet<BlockId>> {
        self.0.lock().unwrap_or_else(|p| p.into_inner())
    }
}

impl FlowStore {
    /// Over an open store, with at most `cache_bytes` of it in memory.
    pub fn new(store: Store, cache_bytes: u64) -> FlowStore {
        FlowStore { store, cache: Arc::new(BlockCache::new(cache_bytes)), corrupt: Arc::default() }
    }

    /// Blocks found corrupt and still here.
    pub fn corrupt(&self) -> Vec<BlockId> {
        self.corrupt.lock().iter().copied().collect()
    }

    /// Whether the block was found corrupt and is still here.
    pub fn is_corrupt(&self, block: BlockId) -> bool {
        self.corrupt.lock().contains(&block)
    }

    /// The block was replaced or deleted.
    pub fn forget(&self, block: BlockId) {
        self.cache.forget(block);
        self.corrupt.lock().remove(&block);
    }

    fn fault(&self, block: BlockId, error: StoreError) -> Fault {
        if matches!(error, StoreError::Corrupt { .. }) {
            self.report_corrupt(block);
        }
        fault_of(block, &error)
    }
}

/// The fault that tells a driver what the store said.
pub fn fault_of(block: BlockId, error: &StoreError) -> Fault {
    let cause = match error {
        StoreError::NotFound { .. } => Cause::NotFound,
        StoreError::Corrupt { .. } => Cause::CorruptBlock,
        StoreError::DigestDiffers { .. } => Cause::WrongDigest,
        StoreError::Stale { .. } => Cause::StaleAttempt,
        StoreError::Disk(DiskError::NoSpace { .. }) => Cause::NoSpace,
        StoreError::Disk(_) => Cause::Disk,
        StoreError::BadGeometry { .. } => Cause::Invalid,
        StoreError::UnknownVersion { .. } => Cause::Disk,
        _ => Cause::Bug,
    };
    Fault::new(cause, error.to_string()).about(block)
}

impl BlockStore for FlowStore {
    fn open(&self, read: &BlockRead) -> Result<Box<dyn BlockSource>, Fault> {
        let StoredCopy { block, generation, .. } = read.copy;
        let reader = self.store.reader(block).map_err(|e| self.fault(block, e))?;
        let stored = reader.meta().generation;
        if stored != generation {
            let what = format!("generation {stored} is stored here, not {generation}");
            return Err(Fault::new(Cause::NotFound, what).about(block));
        }
        if read.digest.is_some_and(|digest| digest != reader.meta().digest) {
            self.report_corrupt(block);
            let what = "its sidecar has another digest than was recorded when it was written";
            return Err(Fault::new(Cause::CorruptBlock, what).about(block));
        }
        Ok(Box::new(OpenBlock(reader, Arc::clone(&self.cache))))
    }

    fn create(&self, write: &BlockWrite, header: &FlowHeader) -> Result<Box<dyn BlockSink>, Fault> {
        let (block, sums) = (write.block, write.sums);
        if !write.note.is_empty() {
            note::decode(&write.note)
                .map_err(|bad| Fault::new(Cause::Invalid, bad.to_string()).about(block))?;
        }
        let facts = NewBlock {
            stored_bytes: write.stored_bytes,
            alpha: header.geometry.alpha,
            symbol_bytes: header.geometry.symbol_bytes(),
            part: write.part.clone(),
            note: write.note.clone(),
        };
        let writer = self.store.writer(block, write.generation).map_err(|e| self.fault(block, e))?;
        let (member, corrupt) = (write.member, Arc::clone(&self.corrupt));
        Ok(Box::new(Sink { block, member, writer, facts, sums, corrupt }))
    }

    fn report_corrupt(&self, block: BlockId) {
        self.cache.forget(block);
        let mut corrupt = self.corrupt.lock();
        if corrupt.len() < MAX_CORRUPT {
            corrupt.insert(block);
        }
    }
}

struct OpenBlock(BlockReader, Arc<BlockCache>);

impl BlockSource for OpenBlock {
    fn stored_bytes(&self) -> u64 {
        self.0.stored_bytes()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), Fault> {
        let OpenBlock(reader, cache) = self;
        let (block, generation) = (reader.meta().block, reader.meta().generation);
        if cache.read(block, generation, offset, out) {
            return Ok(());
        }
        reader.read_at(offset, out).map_err(|e| fault_of(block, &e))?;
        cache.keep(block, generation, reader.stored_bytes(), offset, out);
        Ok(())
    }

    fn fingerprints(&self, first: u64, out: &mut [Fingerprint]) -> Result<(), Fault> {
        let entries = self.0.entries(first..first + out.len() as u64);
        let entries = entries.map_err(|e| fault_of(self.0.meta().block, &e))?;
        out.iter_mut().zip(entries).for_each(|(to, entry)| *to = entry.fingerprint);
        Ok(())
    }

    fn will_need(&self, range: Range<u64>) {
        self.0.will_need(range);
    }
}

struct Sink {
    block: BlockId,
    member: Member,
    writer: BlockWriter,
    facts: NewBlock,
    sums: Sums,
    corrupt: Arc<Corrupt>,
}

impl BlockSink for Sink {
    fn write(
        &mut self,
        offset: u64,
        bytes: &[u8],
        fingerprints: Option<&[Fingerprint]>,
    ) -> Result<(), Fault> {
        // The store records the fingerprints of whole chunks only; a cut tail gets its own.
        let whole = (offset + bytes.len() as u64).is_multiple_of(CHUNK_BYTES as u64);
        let last = offset + bytes.len() as u64 == self.facts.stored_bytes;
        let fingerprints = fingerprints.filter(|_| whole || last);
        self.writer.write(offset, bytes, fingerprints).map_err(|e| fault_of(self.block, &e))
    }

    fn resume(&mut self) -> Vec<Range<u64>> {
        self.writer.resume(self.facts.stored_bytes)
    }

    fn finish(self: Box<Self>) -> Result<proto::Staged, Fault> {
        let staged = self.writer.finish(self.facts, self.sums.digest);
        let Staged { meta, symbols } = staged.map_err(|e| fault_of(self.block, &e))?;
        // A corrupt copy, if there was one, has just been replaced.
        self.corrupt.lock().remove(&self.block);
        if self.sums.fingerprint.is_some_and(|f| f != meta.fingerprint) {
            let what = "its fingerprint is not the one recorded when it was written";
            return Err(Fault::new(Cause::WrongDigest, what).about(self.block));
        }
        Ok(proto::Staged {
            member: u32::from(self.member.0),
            block: meta.block.to_vec(),
            generation: meta.generation,
            stored_bytes: meta.stored_bytes,
            digest: meta.digest.to_vec(),
            fingerprint: meta.fingerprint.as_bytes().to_vec(),
            symbol_fingerprints: symbols.iter().map(|f| f.as_bytes().to_vec()).collect(),
            ..Default::default()
        })
    }
}

/// What a listing tells of a block without its sidecar.
pub fn listed_block(copy: StoredCopy) -> proto::StoredBlock {
    let StoredCopy { block, generation, stored_bytes } = copy;
    proto::StoredBlock { block: block.to_vec(), generation, stored_bytes, ..Default::default() }
}

/// What a listing tells of a block with its sidecar.
pub fn stored_block(meta: &BlockMeta) -> proto::StoredBlock {
    proto::StoredBlock {
        block: meta.block.to_vec(),
        generation: meta.generation,
        stored_bytes: meta.stored_bytes,
        digest: meta.digest.to_vec(),
        fingerprint: meta.fingerprint.as_bytes().to_vec(),
        alpha: u32::from(meta.alpha),
        object: meta.part.clone().map(Into::into),
        stripe: meta.note.clone(),
        damaged: false,
    }
}
