//! Everything that can go wrong here, and what a caller is told about it.

use catalog::CatalogError;
use model::{BlockId, Fault, NodeId, StripeId};
use plan::decide::DecideError;
use std::net::SocketAddr;
use wire::codec::away::Away;

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
    /// No such task.
    #[error(transparent)]
    NoSuchTask(#[from] worker::UnknownTask),
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
    /// Nothing can be decided.
    #[error(transparent)]
    Decide(DecideError),
    /// Something contradicts the request as things stand.
    #[error("{0}")]
    Conflict(String),
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
    /// A prefix that fits nothing.
    #[error("no object's name begins with {0:?}")]
    NoSuchPrefix(String),
    /// Nodes that are ordered to hold nothing still hold blocks, and none of these can be moved now.
    #[error("{nodes}: leaving ({left} left: {why}); it goes on by itself", left = blocks(*left))]
    Leaving {
        /// The nodes.
        nodes: String,
        /// Number of copies that count there.
        left: u64,
        /// The reason why the order waits.
        why: String,
    },
    /// An archival of which some stripes failed.
    #[error("{failed} of {all} stripes could not be encoded: {first}; {others}")]
    Encodings {
        /// So many.
        failed: u64,
        /// Of those that were to be encoded.
        all: usize,
        /// Why the first of them.
        first: Box<CoordinatorError>,
        /// What the others came to.
        others: String,
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
    /// The registering process does not answer at its address as the start that it claims to be.
    #[error(
        "nobody answers at {addr} as {node} in the start that wants to register: this coordinator must reach each node at its \
         control address; let connections to that port pass, or give the node another address"
    )]
    Unanswered {
        /// The node that it claims to be.
        node: NodeId,
        /// The address that it names.
        addr: String,
    },
    /// A commit names a copy that its node did not write.
    #[error("block {block} of the put: {node} {why}; nothing was changed, put it again")]
    NotWritten {
        /// The block.
        block: BlockId,
        /// The node that is said to have the copy.
        node: NodeId,
        /// The reason why the copy does not count.
        why: String,
    },
    /// A commit names a copy whose node could not be asked.
    #[error("block {block} of the put: {node} does not say whether it wrote it: {why}; ask again")]
    NotToldYet {
        /// The block.
        block: BlockId,
        /// The node that is said to have the copy.
        node: NodeId,
        /// Why the node was not asked.
        why: String,
    },
    /// The catalog.
    #[error(transparent)]
    Catalog(CatalogError),
    /// A change is made, and not yet where the cluster wants it to be before it is acknowledged.
    #[error(
        "the change is made, but not yet kept by two nodes; it stands unless the coordinator's disk is lost now: ask again"
    )]
    NotKept,
    /// A node that is to be forgotten lives.
    #[error(
        "{0} is alive: end it first ('stripeline node stop {n}'), if it is gone for good; 'stripeline node decommission {n}' moves \
         its blocks away before",
        n = .0.0
    )]
    StillLives(NodeId),
    /// A node that is to be forgotten may be the only one that has something.
    #[error(
        "{blocks} blocks{of} cannot be had from the nodes that live: {node} has what is missing of them, as far as is known; start it, or \
         others that are away, or give it up all the same ('stripeline node forget {n} --accept-loss')",
        of = of_objects(*objects, names), n = node.0
    )]
    StillNeeded {
        /// The node.
        node: NodeId,
        /// Blocks that cannot be had.
        blocks: u64,
        /// Objects that cannot be read for it.
        objects: u64,
        /// The first of their names.
        names: Vec<String>,
    },
    /// Another life of the coordinator leads the nodes.
    #[error(
        "another coordinator took over: {node} obeys its term {term}, at {leader}; this one ends, and its folder is of no use any more"
    )]
    TakenOver {
        /// Who says so.
        node: NodeId,
        /// The term that it obeys.
        term: model::Term,
        /// Where that coordinator is.
        leader: String,
    },
    /// Two lives of the coordinator went on from one catalog.
    #[error(
        "this catalog has changes up to {own} that the records which {node} keeps, up to {theirs}, do not have, and cannot be kept aside: \
         it is of another cluster, or too many are kept aside already; move this folder away and start with an empty one"
    )]
    Branched {
        /// Who keeps the later records.
        node: NodeId,
        /// The last change here.
        own: model::Stamp,
        /// The last change there.
        theirs: model::Stamp,
    },
    /// What nodes keep is compared with the catalog; nothing else is answered meanwhile.
    #[error("{0}")]
    Comparing(String),
    /// The disk.
    #[error(transparent)]
    Disk(#[from] disk::DiskError),
    /// A defect of ours.
    #[error("internal error: {0}")]
    Bug(String),
}

impl CoordinatorError {
    /// Whether somebody else is making the block now.
    pub(crate) fn is_held(&self) -> bool {
        matches!(self, CoordinatorError::Catalog(CatalogError::BeingRepaired(_)))
    }

    /// Whether the same work fails again until nodes or copies change.
    pub(crate) fn lasts(&self) -> bool {
        use DecideError::{NoReplica, NoRoom, NotEnoughNodes, Plan, Unrecoverable};
        matches!(
            self,
            CoordinatorError::CodeTooWide { .. }
                | CoordinatorError::Decide(
                    Unrecoverable { .. } | NoReplica { .. } | NoRoom { .. } | NotEnoughNodes { .. } | Plan(_)
                )
        )
    }

    /// Returns in a few words why blocks cannot be moved or re-created now.
    pub(crate) fn in_short(&self) -> String {
        use DecideError::{NoReplica, NoRoom, NotEnoughNodes, Plan, Unrecoverable};
        match self {
            CoordinatorError::Decide(NoRoom { .. }) => "no node has room".to_owned(),
            CoordinatorError::Decide(NotEnoughNodes { .. } | Plan(_)) => {
                "no other node may take them".to_owned()
            }
            CoordinatorError::Decide(NoReplica { .. } | Unrecoverable { .. }) => {
                "they cannot be read from the nodes that live".to_owned()
            }
            other => other.to_string(),
        }
    }
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

impl From<DecideError> for CoordinatorError {
    fn from(error: DecideError) -> Self {
        match error {
            DecideError::Unbound(fault) => CoordinatorError::Flow(fault),
            other => CoordinatorError::Decide(other),
        }
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
            Invalid(_) => tonic::Status::invalid_argument(text),
            NoSuchTask(_) | NoSuchPrefix(_) => tonic::Status::not_found(text),
            Encodings { first, .. } => tonic::Status::new(tonic::Status::from(*first).code(), text),
            CodeTooWide { .. }
            | Conflict(_)
            | Leaving { .. }
            | StillLives(_)
            | StillNeeded { .. }
            | NotWritten { .. } => tonic::Status::failed_precondition(text),
            Decide(error) => tonic::Status::new(code_of_decision(&error), text),
            Paused => tonic::Status::cancelled(text),
            Comparing(_) => Away::Starts.mark(tonic::Status::unavailable(text)),
            ShuttingDown => Away::Ends.mark(tonic::Status::unavailable(text)),
            Node { .. } | NotKept | Unanswered { .. } | NotToldYet { .. } => tonic::Status::unavailable(text),
            TakenOver { .. } | Branched { .. } => tonic::Status::failed_precondition(text),
            TooMany { .. } => tonic::Status::resource_exhausted(text),
            WrongParity { .. } => tonic::Status::data_loss(text),
            Flow(fault) => wire::codec::fault::status(&fault),
            Catalog(error) => tonic::Status::new(code_of(&error), text),
            Listen { .. } | Disk(_) | Bug(_) => tonic::Status::internal(text),
        }
    }
}

/// Formats a count for people: "1 block", "7 blocks".
fn blocks(count: u64) -> String {
    if count == 1 { "1 block".to_owned() } else { format!("{count} blocks") }
}

/// For people: " of 7 objects ('a', 'b', …)".
fn of_objects(objects: u64, names: &[String]) -> String {
    if objects == 0 {
        return String::new();
    }
    let more = if objects > names.len() as u64 { ", …" } else { "" };
    let names = names.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ");
    let noun = if objects == 1 { "object" } else { "objects" };
    format!(" of {objects} {noun} ({names}{more})")
}

fn code_of_decision(error: &DecideError) -> tonic::Code {
    use DecideError::*;
    use flow::FlowError::{OneRequestor, UnknownEncoding, UnknownScheme};
    match error {
        Invalid(_)
        | BlockTooLong { .. }
        | Code(_)
        | Flow(UnknownScheme { .. } | UnknownEncoding { .. } | OneRequestor { .. }) => {
            tonic::Code::InvalidArgument
        }
        NoSuchNode(_) => tonic::Code::NotFound,
        NoRoom { .. } => tonic::Code::ResourceExhausted,
        NotEnoughNodes { .. } | Conflict(_) | NoReplica { .. } | Plan(_) => tonic::Code::FailedPrecondition,
        Unrecoverable { .. } => tonic::Code::Unavailable,
        Flow(_) | Unbound(_) | Bug(_) => tonic::Code::Internal,
    }
}

fn code_of(error: &CatalogError) -> tonic::Code {
    use CatalogError::*;
    match error {
        Invalid(_) => tonic::Code::InvalidArgument,
        NoSuchObject(_) | NoSuchBlock(_) | NoSuchPut | NoSuchVersion { .. } | NotForgotten(_) => {
            tonic::Code::NotFound
        }
        InUse
        | Format { .. }
        | Exists
        | OtherCluster { .. }
        | SafeMode
        | BeingRepaired(_)
        | NumberTaken { .. }
        | BeingForgotten(_) => tonic::Code::FailedPrecondition,
        // Of what a node is told when it registers, this alone is for good.
        Forgotten { .. } => tonic::Code::PermissionDenied,
        Overtaken(_) => tonic::Code::Aborted,
        NoRoom { .. } => tonic::Code::ResourceExhausted,
        Malformed { .. } | DamagedRow { .. } | DamagedFile(_) => tonic::Code::DataLoss,
        // They are over once the file is made anew, or checked: who asks again is served.
        Closed | ChangesWait(_) | NotKnown(_) | Unchecked => tonic::Code::Unavailable,
        Failed(_) | Bug(_) => tonic::Code::Internal,
    }
}
