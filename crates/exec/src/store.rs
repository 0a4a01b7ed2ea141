//! What the executor asks of a block store.

use flow::bound::{BlockRead, BlockWrite, FlowHeader};
use gf::Fingerprint;
use model::{BlockId, Fault, FlowId};
use std::ops::Range;
use wire::proto;

/// Where local blocks are read and written. Implemented by the node (native layout; later HDFS, QFS).
pub trait BlockStore: Send + Sync {
    /// Opens a copy for reading in a flow: that generation, and a block of that digest where it is known. Another one is corrupt,
    /// however well it fits its sidecar.
    fn open(&self, read: &BlockRead, flow: FlowId) -> Result<Box<dyn BlockSource>, Fault>;

    /// Begins a block; refused at once if there is no room for it. Nothing stands under its final name before [`BlockSink::finish`].
    fn create(&self, write: &BlockWrite, header: &FlowHeader) -> Result<Box<dyn BlockSink>, Fault>;

    /// Wrong bytes were met while a flow read a copy. Whether the copy is corrupt is for the store to find out.
    fn report_corrupt(&self, block: BlockId, generation: u64);
}

/// A block being read.
pub trait BlockSource: Send {
    /// Bytes stored.
    fn stored_bytes(&self) -> u64;

    /// Fills `out` from `offset`; the range lies within the stored bytes.
    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), Fault>;

    /// The recorded fingerprints of chunks `first`, `first` + 1, …
    fn fingerprints(&self, first: u64, out: &mut [Fingerprint]) -> Result<(), Fault>;

    /// Whether fingerprints are kept beside the bytes, and many are as cheap as one. Else each is made of its chunk's bytes,
    /// and that of a chunk that was just read is there already.
    fn keeps_fingerprints(&self) -> bool {
        true
    }

    /// Hint: this range is read soon.
    fn will_need(&self, range: Range<u64>);
}

/// A block being written.
pub trait BlockSink: Send {
    /// Writes `bytes` at `offset`: in order within each chunk. `fingerprints`, when given, are the checked ones of
    /// the chunks that `bytes` begins, one each (then `offset` stands at a chunk's beginning).
    fn write(&mut self, offset: u64, bytes: &[u8], fingerprints: Option<&[Fingerprint]>)
    -> Result<(), Fault>;

    /// Another attempt goes on with the block: what came only in part is forgotten, and what is there already is passed
    /// over when it comes again. The byte ranges that are missing.
    fn resume(&mut self) -> Vec<Range<u64>>;

    /// Compares with what is expected, makes everything durable in FLOW.md's order, and gives the block its name.
    /// Dropping the sink instead leaves nothing.
    fn finish(self: Box<Self>) -> Result<proto::Staged, Fault>;
}
