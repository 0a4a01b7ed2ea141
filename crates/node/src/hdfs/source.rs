//! A block of a DataNode, open for a flow: what is read is checked, and gets its fingerprints.

use super::HdfsError;
use super::checksums::Checksums;
use disk::DiskFile;
use exec::BlockSource;
use gf::{CHUNK_BYTES, Fingerprint};
use model::{BlockId, Fault, hdfs};
use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const CHUNK: u64 = CHUNK_BYTES as u64;

pub struct OpenBlock {
    block: BlockId,
    data: Box<dyn DiskFile>,
    checksums: Checksums,
    stored_bytes: u64,
    /// How often wrong bytes were met in blocks of the DataNode.
    corrupt: Arc<AtomicU64>,
    /// Of the chunks that were read last: a flow asks for them right after the bytes.
    made: RefCell<Made>,
}

#[derive(Default)]
struct Made {
    first: u64,
    fingerprints: Vec<Fingerprint>,
    /// Bytes that were read only for their checksums.
    spare: Vec<u8>,
}

impl OpenBlock {
    pub fn new(
        block: BlockId,
        data: Box<dyn DiskFile>,
        checksums: Checksums,
        stored_bytes: u64,
        corrupt: Arc<AtomicU64>,
    ) -> Self {
        OpenBlock { block, data, checksums, stored_bytes, corrupt, made: RefCell::default() }
    }

    /// Fills `out` with bytes that fit their checksums. Those that do not are read once more: what is told of them has HDFS give
    /// the block up, and memory errs too.
    fn read_checked(&self, offset: u64, out: &mut [u8], spare: &mut Vec<u8>) -> Result<(), HdfsError> {
        match self.read_once(offset, out, spare) {
            Err(HdfsError::Checksum { .. }) => {}
            other => return other,
        }
        let again = self.read_once(offset, out, spare);
        if let Err(error @ HdfsError::Checksum { .. }) = &again {
            self.corrupt.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(
                block = hdfs::parts(self.block).1,
                "a block of the DataNode has wrong bytes: {error}"
            );
        }
        again
    }

    fn read_once(&self, offset: u64, out: &mut [u8], spare: &mut Vec<u8>) -> Result<(), HdfsError> {
        let range = offset..offset + out.len() as u64;
        let around = self.checksums.around(range.clone(), self.stored_bytes);
        if around == range {
            self.data.read_exact_at(offset, out)?;
            return self.checksums.check(offset, out);
        }
        spare.resize((around.end.max(range.end) - around.start) as usize, 0);
        self.data.read_exact_at(around.start, spare)?;
        self.checksums.check(around.start, spare)?;
        out.copy_from_slice(&spare[(range.start - around.start) as usize..][..out.len()]);
        Ok(())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), HdfsError> {
        let mut made = self.made.borrow_mut();
        made.fingerprints.clear();
        self.read_checked(offset, out, &mut made.spare)?;
        let end = offset + out.len() as u64;
        if offset.is_multiple_of(CHUNK) && (end.is_multiple_of(CHUNK) || end == self.stored_bytes) {
            made.first = offset / CHUNK;
            made.fingerprints.extend(out.chunks(CHUNK_BYTES).map(|chunk| gf::kernels().fingerprint(chunk)));
        }
        Ok(())
    }

    fn fingerprint(&self, chunk: u64, bytes: &mut Vec<u8>) -> Result<Fingerprint, HdfsError> {
        let mut made = self.made.borrow_mut();
        let known = chunk.checked_sub(made.first).and_then(|place| made.fingerprints.get(place as usize));
        if let Some(known) = known {
            return Ok(*known);
        }
        let start = (chunk * CHUNK).min(self.stored_bytes);
        bytes.resize((self.stored_bytes - start).min(CHUNK) as usize, 0);
        if bytes.is_empty() {
            return Ok(Fingerprint::ZERO);
        }
        self.read_checked(start, bytes, &mut made.spare)?;
        Ok(gf::kernels().fingerprint(bytes))
    }
}

impl BlockSource for OpenBlock {
    fn stored_bytes(&self) -> u64 {
        self.stored_bytes
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), Fault> {
        self.read(offset, out).map_err(|error| error.fault(self.block))
    }

    fn fingerprints(&self, first: u64, out: &mut [Fingerprint]) -> Result<(), Fault> {
        let mut bytes = Vec::new();
        for (chunk, to) in (first..).zip(out) {
            *to = self.fingerprint(chunk, &mut bytes).map_err(|error| error.fault(self.block))?;
        }
        Ok(())
    }

    fn keeps_fingerprints(&self) -> bool {
        false
    }

    fn will_need(&self, range: Range<u64>) {
        self.data.advise_willneed(range);
    }
}
