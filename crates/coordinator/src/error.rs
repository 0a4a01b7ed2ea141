//! Everything that can go wrong here, and what a caller is told about it.

use catalog::CatalogError;
use model::{BlockId, Fault, NodeId, StripeId};
use std::net::SocketAddr;

/// What this crate answers.
pub type Result<T> = std::result::Result<T, CoordinatorError>;

/// Errors of the coordinator. Each says in one sentence what is wrong and, where it is not plain, what to do.
#[derive(Debug, thiserror::Error)]
pub enum CoordinatorError {
    /// The coordinator is shutting down.
    #[error("the coordinator is shutting down; try again when it is back")]
    ShuttingDown,
    /// The address cannot be listened on.
    #[error("cannot listen on {addr}: {source}")]
    Listen {
        /// The address.
        addr: SocketAddr,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// A request that makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// No such node was ever registered.
    #[error("there is no {0}")]
    NoSuchNode(NodeId),
    /// No such task.
    #[error(transparent)]
    NoSuchTask(#[from] worker::UnknownTask),
    /// Fewer living nodes than a write needs.
    #[error("{alive} nodes are alive that can take blocks, {needed} are needed; start or add nodes")]
    NotEnoughNodes {
        /// Nodes alive, not quarantined and not avoided.
        alive: usize,
        /// Distinct nodes needed.
        needed: usize,
    },
    /// A code wider than the cluster.
    #[error("{code} needs {needed} nodes, {alive} are alive; start or add nodes, or choose a narrower code")]
    CodeTooWide {
        /// The code's name.
        code: String,
        /// Its n.
        needed: usize,
        /// Nodes alive and not quarantined.
        alive: usize,
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
    /// Too much at once.
    #[error("{what}: at most {limit} at once; try again when some have ended")]
    TooMany {
        /// What there are too many of.
        what: &'static str,
        /// The bound.
        limit: usize,
    },
    /// Parities that are not what the generator makes of the data.
    #[error(
        "stripe {stripe}: the fingerprint of parity {member} does not satisfy {code}; nothing was changed"
    )]
    WrongParity {
        /// The stripe.
        stripe: StripeId,
        /// Index of the parity in the stripe.
        member: usize,
        /// The code's name.
        code: String,
    },
    /// The operator paused or stopped the job while it was at this.
    #[error("paused or stopped by the operator")]
    Paused,
    /// A flow failed.
    #[error(transparent)]
    Flow(#[from] Fault),
    /// A node did not answer as it should.
    #[error("{node} does not answer: {why}")]
    Node {
        /// The node.
        node: NodeId,
        /// What happened.
        why: String,
    },
    /// A code name, or a question to a code.
    #[error(transparent)]
    Code(#[from] codes::CodeError),
    /// A flow that cannot be built or proved.
    #[error(transparent)]
    Plan(#[from] flow::FlowError),
    /// No decision about nodes.
    #[error(transparent)]
    Nodes(#[from] plan::PlanError),
    /// The catalog.
    #[error(transparent)]
    Catalog(CatalogError),
    /// The disk.
    #[error(transparent)]
    Disk(#[from] disk::DiskError),
    /// A defect of ours.
    #[error("internal error: {0}")]
    Bug(String),
}

impl From<CatalogError> for CoordinatorError {
    fn from(error: CatalogError) -> Self {
        match error {
            CatalogError::Closed => CoordinatorError::ShuttingDown,
            other => CoordinatorError::Catalog(other),
        }
    }
}

impl From<model::BadAction> for CoordinatorError {
    fn from(bad: model::BadAction) -> Self {
        CoordinatorError::Invalid(bad.to_string())
    }
}

impl From<model::BadId> for CoordinatorError {
    fn from(bad: model::BadId) -> Self {
        CoordinatorError::Invalid(bad.to_string())
    }
}

impl From<CoordinatorError> for tonic::Status {
    fn from(error: CoordinatorError) -> Self {
        use CoordinatorError::*;
        let text = error.to_string();
        match error {
            Invalid(_)
            | BlockTooLong { .. }
            | Code(_)
            | Plan(flow::FlowError::UnknownScheme { .. } | flow::FlowError::OneRequestor { .. }) => {
                tonic::Status::invalid_argument(text)
            }
            NoSuchNode(_) | NoSuchTask(_) => tonic::Status::not_found(text),
            NotEnoughNodes { .. } | CodeTooWide { .. } | Conflict(_) | NoReplica { .. } | Nodes(_) => {
                tonic::Status::failed_precondition(text)
            }
            Paused => tonic::Status::cancelled(text),
            ShuttingDown | Unrecoverable { .. } | Node { .. } => tonic::Status::unavailable(text),
            TooMany { .. } => tonic::Status::resource_exhausted(text),
            WrongParity { .. } => tonic::Status::data_loss(text),
            Flow(fault) => wire::codec::fault::status(&fault),
            Catalog(error) => tonic::Status::new(code_of(&error), text),
            Listen { .. } | Plan(_) | Disk(_) | Bug(_) => tonic::Status::internal(text),
        }
    }
}

fn code_of(error: &CatalogError) -> tonic::Code {
    use CatalogError::*;
    match error {
        Invalid(_) => tonic::Code::InvalidArgument,
        NoSuchObject(_) | NoSuchBlock(_) | NoSuchPut => tonic::Code::NotFound,
        InUse | Format { .. } | Exists | NotEmpty { .. } | OtherCluster { .. } | BeingRepaired(_) => {
            tonic::Code::FailedPrecondition
        }
        Overtaken(_) => tonic::Code::Aborted,
        Malformed { .. } => tonic::Code::DataLoss,
        Closed => tonic::Code::Unavailable,
        Failed(_) | Bug(_) => tonic::Code::Internal,
    }
}
