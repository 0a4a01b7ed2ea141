//! Why nothing can be decided, as whoever asked is told.

use crate::error::PlanError;
use codes::CodeError;
use flow::FlowError;
use model::{BlockId, Fault, NodeId};

/// What decisions answer.
pub type Result<T> = std::result::Result<T, DecideError>;

/// Errors of decisions. Each says in one sentence what is wrong and, where it is not plain, what to do.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum DecideError {
    /// A request that makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// No such node was ever registered.
    #[error("there is no node {number}", number = .0.0)]
    NoSuchNode(NodeId),
    /// Fewer living nodes than a write needs.
    #[error("{alive} nodes are alive that can take blocks, {needed} are needed; start or add nodes")]
    NotEnoughNodes {
        /// Nodes alive, not quarantined and not avoided.
        alive: usize,
        /// Distinct nodes needed.
        needed: usize,
    },
    /// Enough nodes live, and too few of them have room.
    #[error(
        "{roomy} of {usable} nodes that can take blocks have room for {bytes} bytes, {needed} are needed; add nodes or disks, \
         or delete something"
    )]
    NoRoom {
        /// Nodes with room.
        roomy: usize,
        /// Nodes that live and could take blocks.
        usable: usize,
        /// Nodes needed.
        needed: usize,
        /// What is to be written to each, without its sidecar.
        bytes: u64,
    },
    /// Something contradicts the request as things stand.
    #[error("{0}")]
    Conflict(String),
    /// A block to encode that nobody can read.
    #[error("block {block} has no living replica that can be read; bring nodes back, then archive")]
    NoReplica {
        /// The block.
        block: BlockId,
    },
    /// Too few blocks survive at the moment.
    #[error(
        "block {block} cannot be recovered now: {survivors} of the {needed} blocks it needs are reachable; \
         bring nodes back"
    )]
    Unrecoverable {
        /// The block.
        block: BlockId,
        /// Usable blocks of its stripe, or living replicas.
        survivors: usize,
        /// Blocks that suffice.
        needed: usize,
    },
    /// A scheme that forwards whole symbols, and one that is longer than any slice.
    #[error(
        "{scheme} forwards whole symbols of up to {limit} B, and this block's have {bytes} B; choose a scheme that streams"
    )]
    BlockTooLong {
        /// The scheme's name.
        scheme: &'static str,
        /// Length of a symbol.
        bytes: u64,
        /// The longest slice.
        limit: u32,
    },
    /// A code name, or a question to a code.
    #[error(transparent)]
    Code(#[from] CodeError),
    /// A flow that cannot be built or proved.
    #[error(transparent)]
    Flow(#[from] FlowError),
    /// A flow that cannot be bound.
    #[error(transparent)]
    Unbound(#[from] Fault),
    /// No decision about nodes.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A defect of ours.
    #[error("internal error: {0}")]
    Bug(String),
}
