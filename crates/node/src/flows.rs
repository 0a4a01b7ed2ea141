//! The block store as the flow executor sees it.

use crate::cache::BlockCache;
use crate::store::{
    BlockMeta, BlockReader, BlockWriter, CopyId, NewBlock, Salvaged, Staged, Store, StoreError,
};
use crate::suspects::Suspects;
use disk::DiskError;
use exec::{BlockSink, BlockSource, BlockStore};
use flow::Member;
use flow::bound::{BlockRead, BlockWrite, FlowHeader};
use gf::{CHUNK_BYTES, FINGERPRINT_BYTES, Fingerprint};
use model::{BlockId, Cause, Fault, FlowId, Incarnation, Stamp, StoreId, StoredCopy, Sums, note};
use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, OnceLock};
use wire::mac::{Mac, Secret, WrittenCopy};
use wire::proto;

/// A [`Store`] for flows, and what was met in it.
pub struct FlowStore {
    /// Orders to delete that were decided by this change of the catalog, or before, are refused; those that run hold it.
    pub fence: Mutex<Option<Stamp>>,
    /// The blocks.
    pub store: Store,
    /// Recently read ones.
    pub cache: Arc<BlockCache>,
    /// Copies in which wrong bytes were met.
    pub suspects: Arc<Suspects>,
    /// So often everything was read unasked.
    pub scrub_rounds: AtomicU64,
    /// The secret of this start, with which it proves that it wrote a copy or that it lives.
    pub secret: Secret,
}

impl FlowStore {
    /// Over an open store, with at most `cache_bytes` of it in memory.
    pub fn new(store: Store, cache_bytes: u64) -> FlowStore {
        let cache = Arc::new(BlockCache::new(cache_bytes));
        let (fence, suspects, scrub_rounds) = (Mutex::default(), Arc::default(), AtomicU64::default());
        FlowStore { fence, store, cache, suspects, scrub_rounds, secret: Secret::draw() }
    }

    /// The copy was deleted.
    pub fn forget(&self, copy: CopyId) {
        self.cache.forget(copy.block, copy.generation);
        self.suspects.forget(copy);
    }

    /// Opens a copy that failed to open for reading its sound chunks, if the block's fingerprint identifies them. The copy still counts as
    /// damaged.
    fn salvaged(&self, read: &BlockRead, error: StoreError) -> Result<Box<dyn BlockSource>, Fault> {
        let StoredCopy { block, generation, stored_bytes } = read.copy;
        let fault = self.fault(CopyId { block, generation }, &error);
        if !matches!(error, StoreError::Corrupt { .. } | StoreError::UnknownVersion { .. }) {
            return Err(fault);
        }
        let Some(fingerprint) = &read.fingerprint else { return Err(fault) };
        match self.store.salvage(block, generation, stored_bytes, fingerprint) {
            Ok(salvaged) => Ok(Box::new(salvaged)),
            Err(unusable) => {
                tracing::debug!(%block, generation, %unusable, "nothing tells what is sound of a damaged copy");
                Err(fault)
            }
        }
    }

    fn fault(&self, copy: CopyId, error: &StoreError) -> Fault {
        if matches!(error, StoreError::Corrupt { .. }) {
            self.report_corrupt(copy.block, copy.generation);
        } else if error.says_nothing() {
            self.suspects.suspect(copy);
        }
        fault_of(copy.block, error)
    }
}

/// The fault that tells a driver what the store said.
pub fn fault_of(block: BlockId, error: &StoreError) -> Fault {
    let cause = match error {
        StoreError::NotFound { .. } => Cause::NotFound,
        StoreError::Corrupt { .. } => Cause::CorruptBlock,
        StoreError::DigestDiffers { .. } => Cause::WrongDigest,
        // Another writing has these names: here the copy cannot be, elsewhere it can.
        StoreError::Exists { .. } | StoreError::Half { .. } => Cause::Disk,
        StoreError::NoRoom { .. }
        | StoreError::TakesNoWrites { .. }
        | StoreError::Disk(DiskError::NoSpace { .. }) => Cause::NoSpace,
        StoreError::Disk(_) | StoreError::NotMounted => Cause::Disk,
        StoreError::BadGeometry { .. } => Cause::Invalid,
        StoreError::UnknownVersion { .. } => Cause::Disk,
        _ => Cause::Bug,
    };
    Fault::new(cause, error.to_string()).about(block)
}

impl BlockStore for FlowStore {
    fn open(&self, read: &BlockRead, _: FlowId) -> Result<Box<dyn BlockSource>, Fault> {
        let StoredCopy { block, generation, .. } = read.copy;
        let copy = CopyId { block, generation };
        let reader = match self.store.reader(block, generation) {
            Ok(reader) => reader,
            Err(error) => return self.salvaged(read, error),
        };
        if read.digest.is_some_and(|digest| digest != reader.meta().digest) {
            // It fits its sidecar; to read it again tells nothing.
            self.suspects.condemn_for_good(copy);
            let what = "its sidecar has another digest than was recorded when it was written";
            return Err(Fault::new(Cause::CorruptBlock, what).about(block));
        }
        Ok(Box::new(OpenBlock {
            reader,
            store: self.store.clone(),
            fingerprint: read.fingerprint,
            salvaged: OnceLock::new(),
            copy,
            cache: Arc::clone(&self.cache),
            suspects: Arc::clone(&self.suspects),
        }))
    }

    fn create(&self, write: &BlockWrite, header: &FlowHeader) -> Result<Box<dyn BlockSink>, Fault> {
        let block = write.block;
        if !write.note.is_empty() {
            note::decode(&write.note)
                .map_err(|bad| Fault::new(Cause::Invalid, bad.to_string()).about(block))?;
        }
        let facts = NewBlock {
            birth: write.birth,
            stored_bytes: write.stored_bytes,
            alpha: header.geometry.alpha,
            symbol_bytes: header.geometry.symbol_bytes(),
            part: write.part.clone(),
            note: write.note.clone(),
        };
        let writer = self.store.writer_for(header.traffic, block, write.generation, write.stored_bytes);
        let writer = writer.map_err(|e| fault_of(block, &e))?;
        let by = By {
            flow: header.flow,
            store: self.store.identity().store,
            incarnation: self.store.incarnation(),
            secret: self.secret,
        };
        let (store, suspects) = (self.store.clone(), Arc::clone(&self.suspects));
        let (member, sums) = (write.member, write.sums);
        Ok(Box::new(Sink { block, member, writer, facts, sums, by, store, suspects }))
    }

    fn report_corrupt(&self, block: BlockId, generation: u64) {
        self.cache.forget(block, generation);
        self.suspects.suspect(CopyId { block, generation });
    }
}

struct OpenBlock {
    reader: BlockReader,
    store: Store,
    /// The block's fingerprint, if it is known.
    fingerprint: Option<Fingerprint>,
    /// Replaces the sidecar if some of its entries are damaged.
    salvaged: OnceLock<Salvaged>,
    copy: CopyId,
    cache: Arc<BlockCache>,
    suspects: Arc<Suspects>,
}

impl OpenBlock {
    /// A copy that cannot be read as its sidecar says is looked at again.
    fn fault(&self, error: &StoreError) -> Fault {
        if matches!(error, StoreError::Corrupt { .. }) || error.says_nothing() {
            self.suspects.suspect(self.copy);
        }
        fault_of(self.copy.block, error)
    }

    /// Returns fingerprints of chunks when some of their entries are damaged. If the fingerprints of all chunks fold to that of the block,
    /// damaged entries are recomputed from the bytes. Otherwise a chunk with a damaged entry gets a fingerprint that no bytes match, and the
    /// other chunks stay usable.
    fn salvaged_fingerprints(
        &self,
        first: u64,
        out: &mut [Fingerprint],
        error: &StoreError,
    ) -> Result<(), Fault> {
        let fault = self.fault(error);
        let CopyId { block, generation } = self.copy;
        if let (None, Some(expected)) = (self.salvaged.get(), &self.fingerprint)
            && let Ok(salvaged) = self.store.salvage(block, generation, self.reader.stored_bytes(), expected)
        {
            let _ = self.salvaged.set(salvaged);
        }
        if let Some(salvaged) = self.salvaged.get() {
            return salvaged.fingerprints(first, out).map_err(|e| fault_of(block, &e));
        }
        if out.len() == 1 {
            return Err(fault);
        }
        for (chunk, out) in (first..).zip(out) {
            let entry =
                self.reader.entries(chunk..chunk + 1).ok().and_then(|entries| entries.first().copied());
            *out = entry.map_or(UNKNOWN, |entry| entry.fingerprint);
        }
        Ok(())
    }
}

/// Stands for an unknown fingerprint; no bytes have it by accident.
const UNKNOWN: Fingerprint = Fingerprint::from_bytes([0xff; FINGERPRINT_BYTES]);

impl BlockSource for Salvaged {
    fn stored_bytes(&self) -> u64 {
        self.stored_bytes()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), Fault> {
        self.read_at(offset, out).map_err(|e| fault_of(self.block(), &e))
    }

    fn fingerprints(&self, first: u64, out: &mut [Fingerprint]) -> Result<(), Fault> {
        self.fingerprints(first, out).map_err(|e| fault_of(self.block(), &e))
    }

    fn will_need(&self, range: Range<u64>) {
        self.will_need(range);
    }
}

impl BlockSource for OpenBlock {
    fn stored_bytes(&self) -> u64 {
        self.reader.stored_bytes()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), Fault> {
        let CopyId { block, generation } = self.copy;
        if self.cache.read(block, generation, offset, out) {
            return Ok(());
        }
        self.reader.read_at(offset, out).map_err(|e| self.fault(&e))?;
        self.cache.keep(block, generation, self.reader.stored_bytes(), offset, out);
        Ok(())
    }

    fn fingerprints(&self, first: u64, out: &mut [Fingerprint]) -> Result<(), Fault> {
        let entries = match self.reader.entries(first..first + out.len() as u64) {
            Err(error @ StoreError::Corrupt { .. }) => return self.salvaged_fingerprints(first, out, &error),
            entries => entries.map_err(|e| self.fault(&e))?,
        };
        out.iter_mut().zip(entries).for_each(|(to, entry)| *to = entry.fingerprint);
        Ok(())
    }

    fn will_need(&self, range: Range<u64>) {
        self.reader.will_need(range);
    }
}

struct Sink {
    block: BlockId,
    member: Member,
    writer: BlockWriter,
    facts: NewBlock,
    sums: Sums,
    by: By,
    store: Store,
    suspects: Arc<Suspects>,
}

/// The flow and the start of the store that write a copy.
struct By {
    flow: FlowId,
    store: StoreId,
    incarnation: Incarnation,
    secret: Secret,
}

impl By {
    /// Returns the MAC that proves that this start made the copy durable.
    fn mac(&self, meta: &BlockMeta) -> Mac {
        self.secret.of_copy(&WrittenCopy {
            flow: self.flow,
            block: meta.block,
            generation: meta.generation,
            stored_bytes: meta.stored_bytes,
            sums: &Sums { digest: Some(meta.digest), fingerprint: Some(meta.fingerprint) },
            store: self.store,
            incarnation: self.incarnation,
        })
    }
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
        // A copy that cannot be opened again is not reported as stored.
        self.store.reader(self.block, meta.generation).map_err(|error| {
            self.suspects.suspect(CopyId { block: self.block, generation: meta.generation });
            Fault::new(Cause::Disk, format!("it cannot be read back: {error}")).about(self.block)
        })?;
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
            store: self.by.store.to_vec(),
            incarnation: self.by.incarnation.0,
            mac: self.by.mac(&meta).to_vec(),
            ..Default::default()
        })
    }
}

/// A copy, as messages name it by its file's name alone.
pub fn named(copy: CopyId) -> proto::BlockRef {
    proto::BlockRef { block: copy.block.to_vec(), generation: copy.generation, ..Default::default() }
}

/// What a listing tells of a copy without its sidecar.
pub fn listed_block(copy: CopyId) -> proto::StoredBlock {
    proto::StoredBlock { block: copy.block.to_vec(), generation: copy.generation, ..Default::default() }
}

/// What a listing tells of a copy with its sidecar.
pub fn stored_block(meta: &BlockMeta) -> proto::StoredBlock {
    proto::StoredBlock {
        block: meta.block.to_vec(),
        generation: meta.generation,
        birth: Some(meta.birth.into()),
        stored_bytes: meta.stored_bytes,
        digest: meta.digest.to_vec(),
        fingerprint: meta.fingerprint.as_bytes().to_vec(),
        alpha: u32::from(meta.alpha),
        object: meta.part.clone().map(Into::into),
        stripe: meta.note.clone(),
        ..Default::default()
    }
}
