//! The blocks of a put: as they are planned, where they belong, and as their client says that they are durable.

use crate::error::{CatalogError, Result};
use crate::rows::PutRow;
use crate::staged::StartOfStore;
use model::{BlockId, FlowId, MAX_OBJECT_BLOCKS, NodeId, Sums};
use std::collections::BTreeMap;

/// Generation of the copies that a put writes.
pub const FIRST_GENERATION: u64 = 1;

/// A put never commits a block with fewer copies than this, if it asked for as many.
pub const MIN_REPLICAS: usize = 2;

/// The bit that the index of a parity has, and that of a data block has not.
const PARITY: u64 = 1 << 63;

/// Bits of a parity's index that tell its place in its stripe.
const MEMBER_BITS: u32 = 16;

/// A block that is about to be written.
#[derive(Clone, Debug)]
pub struct PlannedBlock {
    /// Its id.
    pub block: BlockId,
    /// Which block of the object.
    pub index: u64,
    /// Its length.
    pub stored_bytes: u64,
    /// What its client computed.
    pub sums: Sums,
    /// Whether the object ends with it.
    pub last: bool,
    /// Who writes it.
    pub nodes: Vec<NodeId>,
    /// By this flow.
    pub flow: FlowId,
}

/// A block that the client says is durable on `nodes`.
#[derive(Clone, Debug)]
pub struct CommittedBlock {
    /// Its id.
    pub block: BlockId,
    /// Its length.
    pub stored_bytes: u64,
    /// As it was planned.
    pub sums: Sums,
    /// Who has it.
    pub nodes: Vec<NodeId>,
    /// Under which starts of their stores these said so.
    pub by: BTreeMap<NodeId, StartOfStore>,
}

/// What of an object a block of its put is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PutPlace {
    /// This block of it.
    Data(u64),
    /// A parity.
    Parity {
        /// Of this stripe, counted from 0.
        stripe: u64,
        /// Which member of it.
        member: u16,
    },
}

impl PutPlace {
    /// As one number: that of a data block is its own.
    pub fn index(self) -> u64 {
        match self {
            PutPlace::Data(index) => index,
            PutPlace::Parity { stripe, member } => PARITY | stripe << MEMBER_BITS | u64::from(member),
        }
    }

    /// From that number.
    pub fn of(index: u64) -> PutPlace {
        match index & PARITY {
            0 => PutPlace::Data(index),
            _ => PutPlace::Parity { stripe: (index & !PARITY) >> MEMBER_BITS, member: index as u16 },
        }
    }

    /// The stripe, of a code of k data blocks, and the member of it.
    pub(crate) fn in_stripe(self, k: u64) -> (u64, u16) {
        match self {
            PutPlace::Data(index) => (index / k, (index % k) as u16),
            PutPlace::Parity { stripe, member } => (stripe, member),
        }
    }

    pub(crate) fn is_parity(self) -> bool {
        matches!(self, PutPlace::Parity { .. })
    }
}

/// Whether a data block may be one of the put's.
pub(crate) fn check_block(put: &PutRow, block: &PlannedBlock) -> Result<()> {
    let full = put.block_bytes;
    let length = block.stored_bytes;
    if block.index >= MAX_OBJECT_BLOCKS {
        return Err(CatalogError::Invalid(format!(
            "an object has at most {MAX_OBJECT_BLOCKS} blocks; put it with longer blocks"
        )));
    }
    let fits = if block.last { length <= full && (length > 0 || block.index == 0) } else { length == full };
    if !fits {
        return Err(CatalogError::Invalid(format!(
            "block {} of {length} bytes: all but the last have {full}, and the last has at least one",
            block.index
        )));
    }
    Ok(())
}
