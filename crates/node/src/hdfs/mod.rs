//! Blocks of an HDFS DataNode, lent to flows where they lie: a block store that is no house. Nothing here writes, deletes,
//! locks or renames anything in the DataNode's folders.
//!
//! ```text
//!   <data dir>/current/VERSION                                     which DataNode it is
//!              current/<pool>/current/finalized/subdirA/subdirB/blk_<id>                 the bytes
//!                                                               blk_<id>_<stamp>.meta    a CRC for each 512 of them
//! ```
//!
//! - [`folders`]: where a block lies; [`checksums`]: what its `.meta` says; `source`: both, as flows read them.
//! - [`tokens`]: for whom a block may be read.
//! - [`serve`]: the helper, startable in-process.
//!
//! HDFS keeps no linear fingerprint, so those with which slices travel are made here, of bytes that were just checked against
//! their CRCs. What memory does to the bytes between the two is not noticed; from then on everything is.

pub mod checksums;
pub mod folders;
pub mod serve;
mod source;
pub mod tokens;

pub use serve::{Config, Lender, LenderError, start};

use checksums::Checksums;
use disk::DiskError;
use exec::{BlockSink, BlockSource, BlockStore};
use flow::bound::{BlockRead, BlockWrite, FlowHeader};
use folders::Folders;
use model::{BlockId, Cause, Fault, FlowId, hdfs};
use source::OpenBlock;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokens::{Asking, NotPermitted};

/// Why a block cannot be lent.
#[derive(Debug, thiserror::Error)]
pub enum HdfsError {
    /// No such block, or not with that stamp.
    #[error("the DataNode has no finalized block {block} with stamp {stamp}")]
    Absent {
        /// Its id in HDFS.
        block: i64,
        /// Its generation stamp.
        stamp: u64,
    },
    /// It has another length than whoever asks was told.
    #[error("the DataNode has {found} bytes of it, the block group says {expected}")]
    Length {
        /// Bytes in the file.
        found: u64,
        /// Bytes in the plan.
        expected: u64,
    },
    /// Bytes differ from their checksum.
    #[error("the bytes from {offset} on differ from their checksum")]
    Checksum {
        /// Where the checksum's bytes begin.
        offset: u64,
    },
    /// Its `.meta` makes no sense.
    #[error("its .meta file {0}")]
    Meta(String),
    /// Whoever announced the flow may not read it, or nobody knows.
    #[error("may not be read: {0}")]
    Denied(#[from] NotPermitted),
    /// The disk.
    #[error(transparent)]
    Disk(#[from] DiskError),
}

impl HdfsError {
    /// What a driver is told.
    fn fault(&self, block: BlockId) -> Fault {
        let cause = match self {
            HdfsError::Absent { .. } | HdfsError::Length { .. } => Cause::NotFound,
            HdfsError::Checksum { .. } => Cause::CorruptBlock,
            HdfsError::Denied(_) => Cause::Denied,
            // A .meta that cannot be read says nothing of the bytes beside it.
            HdfsError::Meta(_) | HdfsError::Disk(_) => Cause::Disk,
        };
        Fault::new(cause, self.to_string()).about(block)
    }
}

/// The blocks of a DataNode.
#[derive(Debug)]
pub struct HdfsStore {
    folders: Folders,
    /// Who says what may be read; `None`: all may be.
    asking: Option<Asking>,
    /// Blocks in which wrong bytes were met.
    corrupt: Arc<AtomicU64>,
}

impl HdfsStore {
    /// Of the DataNode with these folders, which `asking` asks before anything is read.
    pub fn new(folders: Folders, asking: Option<Asking>) -> HdfsStore {
        HdfsStore { folders, asking, corrupt: Arc::default() }
    }

    /// How often wrong bytes were met.
    pub fn corrupt(&self) -> u64 {
        self.corrupt.load(Ordering::Relaxed)
    }

    fn find(&self, read: &BlockRead, flow: FlowId) -> Result<OpenBlock, HdfsError> {
        let copy = read.copy;
        let (pool, block) = hdfs::parts(copy.block);
        let stamp = copy.generation;
        if let Some(asking) = &self.asking {
            // Who may not read a block is not told whether it is there.
            let pool = self.folders.pool(pool)?.ok_or(HdfsError::Absent { block, stamp })?;
            asking.may_read(&pool, block, flow, read.permit.as_ref())?;
        }
        let (data, meta) =
            self.folders.open(pool, block, stamp)?.ok_or(HdfsError::Absent { block, stamp })?;
        let (found, expected) = (data.len()?, copy.stored_bytes);
        if found != expected {
            return Err(HdfsError::Length { found, expected });
        }
        let checksums = Checksums::open(meta, found)?;
        Ok(OpenBlock::new(copy.block, data, checksums, found, Arc::clone(&self.corrupt)))
    }
}

impl BlockStore for HdfsStore {
    fn open(&self, read: &BlockRead, flow: FlowId) -> Result<Box<dyn BlockSource>, Fault> {
        match self.find(read, flow) {
            Ok(open) => Ok(Box::new(open)),
            Err(error) => {
                if let HdfsError::Denied(why) = &error {
                    let (_, block) = hdfs::parts(read.copy.block);
                    tracing::warn!(block, %flow, "a block is not read for a flow: {why}");
                }
                Err(error.fault(read.copy.block))
            }
        }
    }

    fn create(&self, write: &BlockWrite, _: &FlowHeader) -> Result<Box<dyn BlockSink>, Fault> {
        let what = "blocks of HDFS are written by HDFS: a helper beside a DataNode only reads";
        Err(Fault::new(Cause::Invalid, what).about(write.block))
    }

    /// The bytes fitted their checksums when they were read: what changed them since is no damage of the block.
    fn report_corrupt(&self, block: BlockId, generation: u64) {
        let (_, id) = hdfs::parts(block);
        tracing::error!(block = id, stamp = generation, "bytes changed in memory after they were checked");
    }
}
