//! A stage's reading of a local block: in large pieces, ahead of the slices, checked against the sidecar.

use crate::store::{BlockSource, BlockStore};
use flow::bound::{BlockRead, FlowHeader};
use gf::{CHUNK_BYTES, Fingerprint};
use model::{BlockId, Cause, Fault, Peer, StoredCopy};
use std::ops::Range;
use std::sync::Arc;

/// Bytes read at once, unless a slice is longer: one `pread` for several slices, while the piece still fits the
/// second-level cache beside what arrives from the network.
const READ_BYTES: u64 = 256 * 1024;

/// Fingerprints loaded from the sidecar at once: those of 8 MiB.
const FINGERPRINTS_AT_ONCE: u64 = 256;

const CHUNK: u64 = CHUNK_BYTES as u64;

/// The rows that one `Local` input brings.
pub struct LocalBlock {
    block: BlockId,
    generation: u64,
    node: Peer,
    source: Box<dyn BlockSource>,
    store: Arc<dyn BlockStore>,
    rows: Vec<LocalRow>,
    slice_bytes: u64,
    /// Chunks are checked when they are read, because slices are smaller than chunks.
    check_on_read: bool,
    /// Bytes read so far.
    pub read_bytes: u64,
}

struct LocalRow {
    /// Where the symbol begins in the block.
    base: u64,
    /// Bytes of it that are stored.
    extent: u64,
    buffer: Vec<u8>,
    /// Offset in the symbol of `buffer[0]`.
    first: u64,
    fingerprints: Vec<Fingerprint>,
    first_chunk: u64,
}

impl LocalBlock {
    /// Opens the block; its symbols `symbols` are the rows.
    pub fn open(
        store: Arc<dyn BlockStore>,
        node: Peer,
        header: &FlowHeader,
        read: &BlockRead,
        symbols: &[u16],
    ) -> Result<LocalBlock, Fault> {
        let StoredCopy { block, generation, stored_bytes } = read.copy;
        let source = store.open(read, header.flow).map_err(|f| f.about(block).suspecting(node, node))?;
        if source.stored_bytes() != stored_bytes {
            let what = format!("{} bytes are stored, the plan says {stored_bytes}", source.stored_bytes());
            return Err(Fault::new(Cause::NotFound, what).about(block).suspecting(node, node));
        }
        let geometry = header.geometry;
        let rows = symbols
            .iter()
            .map(|&s| LocalRow {
                base: u64::from(s) * geometry.symbol_bytes(),
                extent: geometry.symbol_extent(s, stored_bytes),
                buffer: Vec::new(),
                first: 0,
                fingerprints: Vec::new(),
                first_chunk: 0,
            })
            .collect();
        let slice_bytes = u64::from(geometry.slice_bytes);
        let check_on_read = header.verify && slice_bytes < CHUNK;
        let read_bytes = 0;
        Ok(LocalBlock {
            block,
            generation,
            node,
            source,
            store,
            rows,
            slice_bytes,
            check_on_read,
            read_bytes,
        })
    }

    /// Tells the disk what is coming.
    pub fn will_need(&self, first_slice: u64, slices: u64) {
        let (from, to) = (first_slice * self.slice_bytes, (first_slice + slices) * self.slice_bytes);
        for row in self.rows.iter().filter(|r| r.extent > from) {
            self.source.will_need(row.base + from..row.base + to.min(row.extent));
        }
    }

    /// Brings a slice of every row into memory. `granted_end` is the end of the granted run: nothing beyond it is
    /// read ahead.
    pub fn load(&mut self, slice: u64, granted_end: u64, verify: bool) -> Result<(), Fault> {
        let (start, end) = (slice * self.slice_bytes, (slice + 1) * self.slice_bytes);
        let ahead = granted_end.saturating_mul(self.slice_bytes);
        (0..self.rows.len()).try_for_each(|row| self.hold(row, start..end, ahead, verify))
    }

    /// Brings a part of a row into memory, and perhaps more, up to `ahead`. Offsets are those of the symbol.
    pub fn hold(&mut self, row: usize, part: Range<u64>, ahead: u64, verify: bool) -> Result<(), Fault> {
        let r = &self.rows[row];
        let wanted_end = part.end.min(r.extent);
        let held = r.first <= part.start && wanted_end <= r.first + r.buffer.len() as u64;
        if wanted_end <= part.start || held {
            return Ok(());
        }
        self.read(row, part.start, wanted_end, ahead, verify)
    }

    fn read(
        &mut self,
        row: usize,
        start: u64,
        wanted_end: u64,
        ahead: u64,
        verify: bool,
    ) -> Result<(), Fault> {
        let r = &mut self.rows[row];
        let from = if self.check_on_read { start / CHUNK * CHUNK } else { start };
        let to = (from + READ_BYTES).min(ahead).max(wanted_end);
        let to = if self.check_on_read { to.next_multiple_of(CHUNK) } else { to }.min(r.extent);
        r.buffer.resize((to - from) as usize, 0);
        r.first = from;
        let about = |f: Fault| f.about(self.block).suspecting(self.node, self.node);
        let mut read = self.source.read_at(r.base + from, &mut r.buffer);
        let mut to = to;
        if to > wanted_end && read.as_ref().is_err_and(|fault| fault.cause == Cause::CorruptBlock) {
            // The damage may lie in the read-ahead; retry with only the wanted bytes.
            to = if self.check_on_read { wanted_end.next_multiple_of(CHUNK) } else { wanted_end }
                .min(r.extent);
            r.buffer.truncate((to - from) as usize);
            read = self.source.read_at(r.base + from, &mut r.buffer);
        }
        read.map_err(about)?;
        self.read_bytes += to - from;
        if !verify {
            return Ok(());
        }
        let (chunk, chunks) = (from / CHUNK, to.div_ceil(CHUNK) - from / CHUNK);
        let known = r.first_chunk <= chunk && chunk + chunks <= r.first_chunk + r.fingerprints.len() as u64;
        if !known {
            let granted = ahead.min(r.extent).div_ceil(CHUNK).saturating_sub(chunk);
            let ahead = if self.source.keeps_fingerprints() { FINGERPRINTS_AT_ONCE.min(granted) } else { 0 };
            let count = chunks.max(ahead);
            r.fingerprints.resize(count as usize, Fingerprint::ZERO);
            r.first_chunk = chunk;
            self.source.fingerprints(r.base / CHUNK + chunk, &mut r.fingerprints).map_err(about)?;
        }
        if self.check_on_read {
            for i in 0..chunks {
                let r = &self.rows[row];
                let at = (i * CHUNK) as usize;
                let bytes = &r.buffer[at..r.buffer.len().min(at + CHUNK_BYTES)];
                if gf::kernels().fingerprint(bytes) != r.fingerprints[(chunk + i - r.first_chunk) as usize] {
                    return Err(self.corrupt(row, chunk + i));
                }
            }
        }
        Ok(())
    }

    /// The loaded bytes of a slice: as many as are stored.
    pub fn bytes(&self, row: usize, slice: u64) -> &[u8] {
        self.held(row, slice * self.slice_bytes..(slice + 1) * self.slice_bytes)
    }

    /// The loaded bytes of a part of a row: as many as are stored.
    pub fn held(&self, row: usize, part: Range<u64>) -> &[u8] {
        let r = &self.rows[row];
        let end = part.end.min(r.extent);
        if end <= part.start {
            return &[];
        }
        &r.buffer[(part.start - r.first) as usize..(end - r.first) as usize]
    }

    /// Bytes of a row that are stored within `slice`.
    pub fn stored_in(&self, row: usize, slice: u64) -> usize {
        let start = slice * self.slice_bytes;
        self.rows[row].extent.saturating_sub(start).min(self.slice_bytes) as usize
    }

    /// The recorded fingerprints of a whole slice of a row: one for each chunk that is stored.
    pub fn recorded_in(&self, row: usize, slice: u64) -> Result<Vec<Fingerprint>, Fault> {
        let chunks = self.stored_in(row, slice).div_ceil(CHUNK_BYTES);
        let mut recorded = vec![Fingerprint::ZERO; chunks];
        if recorded.is_empty() {
            return Ok(recorded);
        }
        let first = (self.rows[row].base + slice * self.slice_bytes) / CHUNK;
        let about = |f: Fault| f.about(self.block).suspecting(self.node, self.node);
        self.source.fingerprints(first, &mut recorded).map_err(about)?;
        Ok(recorded)
    }

    /// The recorded fingerprint of piece `piece` (a chunk) of a slice, or `None` when the piece is only a part of a
    /// chunk that was checked when it was read.
    pub fn recorded(&self, row: usize, slice: u64, piece: usize) -> Option<Fingerprint> {
        if self.check_on_read {
            return None;
        }
        let r = &self.rows[row];
        let chunk = slice * self.slice_bytes / CHUNK + piece as u64;
        if chunk * CHUNK >= r.extent {
            return Some(Fingerprint::ZERO);
        }
        r.fingerprints.get(chunk.checked_sub(r.first_chunk)? as usize).copied()
    }

    /// The fault for a chunk of a row that differs from its sidecar.
    pub fn corrupt(&self, row: usize, chunk: u64) -> Fault {
        self.store.report_corrupt(self.block, self.generation);
        let offset = self.rows[row].base + chunk * CHUNK;
        // Fingerprints that are made of the bytes that were read say nothing of those that are stored.
        let cause = if self.source.keeps_fingerprints() { Cause::CorruptBlock } else { Cause::CorruptSlice };
        Fault::new(cause, format!("the bytes at {offset} differ from their fingerprints"))
            .about(self.block)
            .suspecting(self.node, self.node)
    }

    /// The chunk of a row where a piece of a slice lies.
    pub fn chunk_of(&self, slice: u64, piece: usize) -> u64 {
        slice * self.slice_bytes / CHUNK + piece as u64
    }
}
