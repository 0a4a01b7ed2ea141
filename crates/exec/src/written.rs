//! Blocks that flows write here. The ends of all lanes of a flow write one block together; when the flow breaks and is to
//! be mended, what was written stays for a lease, and the next attempt goes on from there.

use crate::lock;
use crate::store::BlockSink;
use flow::bound::{BlockWrite, FlowHeader};
use gf::Fingerprint;
use model::{BlockId, Cause, Fault, FlowId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use wire::proto;

/// Blocks that are kept at once though no flow writes them: a repair breaks off one or two. The one that waited longest
/// goes first, and its repair begins anew.
const MAX_KEPT: usize = 64;

/// Runs of slices that a mended flow is told it lacks; more of them, of many lanes with long slices, become fewer that
/// include what is there.
const MAX_LACKS: usize = 1024;

/// All blocks that are being written in this process.
pub(crate) struct WrittenBlocks {
    slots: Mutex<HashMap<Key, Slot>>,
    /// Where it waits for leases to end.
    runtime: tokio::runtime::Handle,
}

type Key = (FlowId, BlockId);

struct Slot {
    block: Arc<Mutex<Written>>,
    generation: u64,
    attempt: u32,
    /// Stages that write it now.
    writers: usize,
    /// Since when nobody does.
    idle: Option<Instant>,
}

struct Written {
    /// `None` when it is finished, or of no use any more.
    sink: Option<Box<dyn BlockSink>>,
    attempt: u32,
    /// Stages of the attempt that have not yet written everything.
    unfinished: usize,
    /// Whether there is anything to go on from.
    begun: bool,
}

/// A stage's hold on the block that it writes.
pub struct WrittenBlock {
    blocks: Arc<WrittenBlocks>,
    key: Key,
    block: Arc<Mutex<Written>>,
    attempt: u32,
    keep: Option<Duration>,
}

/// How a stage finds the block that it writes.
pub(crate) enum Beginning {
    /// Nothing was there.
    New,
    /// Another lane of the attempt has opened it.
    Opened,
    /// An earlier attempt left it; these slices of each symbol are missing.
    Resumed(Vec<proto::SliceRun>),
}

impl WrittenBlocks {
    /// For the current runtime.
    pub fn new() -> WrittenBlocks {
        WrittenBlocks { slots: Mutex::default(), runtime: tokio::runtime::Handle::current() }
    }

    /// The block for one more stage of a flow that writes it: begun by `create`, unless another stage of the same attempt
    /// has, or an earlier attempt left it.
    pub fn open(
        self: &Arc<Self>,
        write: &BlockWrite,
        header: &FlowHeader,
        create: impl FnOnce() -> Result<Box<dyn BlockSink>, Fault>,
    ) -> Result<(WrittenBlock, Beginning), Fault> {
        let key = (header.flow, write.block);
        let lease = Duration::from_millis(u64::from(header.lease_ms));
        let mut slots = lock(&self.slots);
        forget_old(&mut slots, lease);
        let known = slots.get_mut(&key).filter(|slot| slot.generation == write.generation);
        let mut beginning = Beginning::Opened;
        let slot = match known {
            Some(slot) if slot.attempt == header.attempt => slot,
            Some(slot)
                if slot.attempt < header.attempt && slot.block.lock().is_ok_and(|b| b.sink.is_some()) =>
            {
                slot.attempt = header.attempt;
                slot.writers = 0;
                let mut block = lock(&slot.block);
                (block.attempt, block.unfinished) = (header.attempt, 0);
                if let Some(sink) = &mut block.sink {
                    beginning = Beginning::Resumed(runs(&sink.resume(), header));
                }
                drop(block);
                slot
            }
            _ => {
                beginning = Beginning::New;
                let written =
                    Written { sink: Some(create()?), attempt: header.attempt, unfinished: 0, begun: false };
                let slot = Slot {
                    block: Arc::new(Mutex::new(written)),
                    generation: write.generation,
                    attempt: header.attempt,
                    writers: 0,
                    idle: None,
                };
                slots.entry(key).insert_entry(slot).into_mut()
            }
        };
        slot.writers += 1;
        slot.idle = None;
        lock(&slot.block).unfinished += 1;
        let hold = WrittenBlock {
            blocks: Arc::clone(self),
            key,
            block: Arc::clone(&slot.block),
            attempt: header.attempt,
            keep: header.keep.then_some(lease),
        };
        Ok((hold, beginning))
    }

    /// Forgets what waits in vain, after a lease.
    fn forget_later(self: &Arc<Self>, lease: Duration) {
        let blocks = Arc::clone(self);
        self.runtime.spawn(async move {
            tokio::time::sleep(lease).await;
            forget_old(&mut lock(&blocks.slots), lease);
        });
    }
}

fn forget_old(slots: &mut HashMap<Key, Slot>, lease: Duration) {
    slots.retain(|_, slot| slot.idle.is_none_or(|since| since.elapsed() < lease));
    while slots.values().filter(|slot| slot.idle.is_some()).count() > MAX_KEPT {
        let oldest = slots.iter().filter_map(|(key, slot)| slot.idle.map(|since| (since, *key))).min();
        oldest.and_then(|(_, key)| slots.remove(&key));
    }
}

impl WrittenBlock {
    /// As [`BlockSink::write`].
    pub fn write(
        &self,
        offset: u64,
        bytes: &[u8],
        fingerprints: Option<&[Fingerprint]>,
    ) -> Result<(), Fault> {
        let mut block = lock(&self.block);
        let sink = self.current(&mut block)?.as_mut().ok_or_else(gone)?;
        let written = sink.write(offset, bytes, fingerprints);
        block.begun = true;
        if written.is_err() {
            // Whatever is wrong with it, nobody goes on from here; and its room is given back.
            block.sink = None;
        }
        written
    }

    /// This stage has written all it will. The last one finishes the block, as [`BlockSink::finish`].
    pub fn finish(self) -> Result<Option<proto::Staged>, Fault> {
        let sink = {
            let mut block = lock(&self.block);
            self.current(&mut block)?;
            block.unfinished = block.unfinished.saturating_sub(1);
            if block.unfinished > 0 {
                return Ok(None);
            }
            block.sink.take().ok_or_else(gone)?
        };
        sink.finish().map(Some)
    }

    fn current<'b>(&self, block: &'b mut Written) -> Result<&'b mut Option<Box<dyn BlockSink>>, Fault> {
        if block.attempt == self.attempt { Ok(&mut block.sink) } else { Err(gone()) }
    }
}

impl Drop for WrittenBlock {
    fn drop(&mut self) {
        let mut slots = lock(&self.blocks.slots);
        let Some(slot) = slots.get_mut(&self.key) else { return };
        if slot.attempt != self.attempt || !Arc::ptr_eq(&slot.block, &self.block) {
            return;
        }
        slot.writers = slot.writers.saturating_sub(1);
        if slot.writers > 0 {
            return;
        }
        let is_left = {
            let block = lock(&slot.block);
            block.begun && block.sink.is_some()
        };
        match self.keep.filter(|_| is_left) {
            Some(lease) => {
                slot.idle = Some(Instant::now());
                forget_old(&mut slots, lease);
                self.blocks.forget_later(lease);
            }
            None => drop(slots.remove(&self.key)),
        }
    }
}

fn gone() -> Fault {
    Fault::new(Cause::Aborted, "the block is not written by this attempt any more")
}

/// The slices in which these byte ranges of the block lie.
fn runs(lacks: &[std::ops::Range<u64>], header: &FlowHeader) -> Vec<proto::SliceRun> {
    let geometry = header.geometry;
    let (symbol, slice) = (geometry.symbol_bytes().max(1), u64::from(geometry.slice_bytes));
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for lack in lacks {
        let mut from = lack.start;
        while from < lack.end {
            // Each symbol by itself.
            let end = lack.end.min((from / symbol + 1) * symbol);
            ranges.push((from % symbol / slice, ((end - 1) % symbol) / slice + 1));
            from = end;
        }
    }
    ranges.sort_unstable();
    let mut runs: Vec<proto::SliceRun> = Vec::new();
    for (from, to) in ranges {
        let (many, run) = (runs.len() >= MAX_LACKS, proto::SliceRun { first: from, count: to - from });
        match runs.last_mut() {
            Some(last) if many || from <= last.first + last.count => {
                last.count = to.max(last.first + last.count) - last.first;
            }
            _ => runs.push(run),
        }
    }
    runs
}
