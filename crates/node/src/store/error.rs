use super::Digest;
use disk::DiskError;
use model::{BlockId, ClusterId, NodeId, Term};

/// What the store answers.
pub type Result<T> = std::result::Result<T, StoreError>;

/// Why the store refused.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// No such block here.
    #[error("block {block} is not stored here")]
    NotFound {
        /// The block.
        block: BlockId,
    },
    /// The block, or its sidecar, is not what was written.
    #[error("block {block} is corrupt: {damage}")]
    Corrupt {
        /// The block.
        block: BlockId,
        /// What is wrong with it.
        damage: Damage,
    },
    /// Exactly this copy is stored already, and with other bytes. It stays.
    #[error("generation {generation} of block {block} is stored already, and it has other bytes")]
    Exists {
        /// The block.
        block: BlockId,
        /// The generation.
        generation: u64,
    },
    /// The block does not fit beside what is stored, what is being written, and the reserve.
    #[error("block {block}: {wanted_bytes} bytes are wanted, {free_bytes} can still be taken")]
    NoRoom {
        /// The block.
        block: BlockId,
        /// What it takes, its sidecar included.
        wanted_bytes: u64,
        /// What there is, the reserve and what open writers will still write taken off.
        free_bytes: u64,
    },
    /// The disk takes no writes: it is full, read-only, or forbids them. Its contents can still be read.
    #[error("the disk takes no writes: {why}")]
    TakesNoWrites {
        /// The disk's error.
        why: String,
    },
    /// The store's identity is no longer in its folder, so nothing is created there.
    #[error("the block store is not in its folder any more: is its disk mounted?")]
    NotMounted,
    /// Bytes came that do not fit to what was written before: out of order within a chunk, or a second time.
    #[error("block {block}: the bytes at {offset} came out of order or twice")]
    OutOfOrder {
        /// The block.
        block: BlockId,
        /// Where the bytes were meant to go.
        offset: u64,
    },
    /// The block is not what its length says: bytes are missing, or there are more.
    #[error("block {block} of {stored_bytes} bytes is incomplete or too long at {offset}")]
    Incomplete {
        /// The block.
        block: BlockId,
        /// Its length.
        stored_bytes: u64,
        /// Start of the first chunk that is missing, short or too much.
        offset: u64,
    },
    /// Length and symbols of the block contradict each other.
    #[error("block {block} cannot be stored: {why}")]
    BadGeometry {
        /// The block.
        block: BlockId,
        /// What is wrong.
        why: &'static str,
    },
    /// The bytes are not those that were expected. Nothing of the block was kept.
    #[error("block {block} has digest {}, expected {}", hex(.found), hex(.expected))]
    DigestDiffers {
        /// The block.
        block: BlockId,
        /// The digest it should have.
        expected: Digest,
        /// The digest of what came.
        found: Digest,
    },
    /// A length exceeds a limit.
    #[error("block {block}: {what} of {bytes} bytes exceeds the limit of {limit}")]
    TooLarge {
        /// The block.
        block: BlockId,
        /// What is too large.
        what: &'static str,
        /// How large it is, in bytes.
        bytes: u64,
        /// How large it may be.
        limit: u64,
    },
    /// A read past the block's end.
    #[error("block {block} has {stored_bytes} bytes; {bytes} at {offset} were asked for")]
    OutOfRange {
        /// The block.
        block: BlockId,
        /// Its length.
        stored_bytes: u64,
        /// Where the read begins.
        offset: u64,
        /// Its length.
        bytes: u64,
    },
    /// The folder holds no store.
    #[error("the folder holds no block store: format it first")]
    NotFormatted,
    /// The folder holds a store, or blocks of one, already.
    #[error("the folder already holds a block store")]
    AlreadyFormatted,
    /// Another process uses the folder.
    #[error("the block store is in use by another process")]
    InUse,
    /// The identity file is damaged or of a version that this program does not know.
    #[error("the block store's identity file is unusable: {why}")]
    BadIdentity {
        /// What is wrong with it.
        why: &'static str,
    },
    /// A store of a version that this program does not know: nothing in it can be judged.
    #[error("the block store is of version {found}, this program reads versions 1 and 2: start {reader}")]
    UnknownStore {
        /// The version found.
        found: String,
        /// Which program reads it.
        reader: String,
    },
    /// A sidecar of a version that this program does not know. The copy cannot be judged: it is neither damaged nor absent.
    #[error(
        "the sidecar of block {block} has version {found}, this program knows {known}: the version that wrote it reads it"
    )]
    UnknownVersion {
        /// The block.
        block: BlockId,
        /// What is stored: versions of the sidecar and of its fingerprints.
        found: String,
        /// What this program reads.
        known: String,
    },
    /// Only one of the copy's two files is there. It is no copy, and it is kept.
    #[error("half of generation {generation} of block {block} lies here, and it is kept")]
    Half {
        /// The block.
        block: BlockId,
        /// The generation.
        generation: u64,
    },
    /// The folder belongs to another node.
    #[error("the block store belongs to {found}, not to {expected}")]
    WrongNode {
        /// The node that wanted it.
        expected: NodeId,
        /// The node that it belongs to.
        found: NodeId,
    },
    /// The folder belongs to another cluster.
    #[error("the block store belongs to cluster {found}, not to cluster {expected}")]
    WrongCluster {
        /// The cluster that the node wanted to join.
        expected: ClusterId,
        /// The cluster that the store belongs to.
        found: ClusterId,
    },
    /// Another life of a coordinator is obeyed already.
    #[error("term {obeyed} of a coordinator is obeyed here, and term {term} is none after it")]
    OlderTerm {
        /// Whom the node obeys.
        obeyed: Term,
        /// Who is refused.
        term: Term,
    },
    /// A later life of a coordinator than the one that is obeyed: a node takes it when it registers with it.
    #[error("term {obeyed} of a coordinator is obeyed here; a node of term {term} registers first")]
    UnheardTerm {
        /// Whom the node obeys.
        obeyed: Term,
        /// Who is refused.
        term: Term,
    },
    /// A record of the catalog that cannot be kept. Nothing of what came with it is.
    #[error("a record of the catalog is refused: {why}")]
    BadRecord {
        /// What is wrong with it.
        why: &'static str,
    },
    /// What is held of the catalog is not what was written.
    #[error("what is held of the catalog is damaged: {why}")]
    HeldDamaged {
        /// What is wrong with it.
        why: &'static str,
    },
    /// Snapshots and records are taken from one sender at a time.
    #[error("records of the catalog are being taken from somebody else")]
    HoldBusy,
    /// The disk refused.
    #[error(transparent)]
    Disk(#[from] DiskError),
}

impl StoreError {
    /// Whether the error says nothing about the copy: an unknown version, a missing permission, too few descriptors, or a folder that answers
    /// with errors.
    pub fn says_nothing(&self) -> bool {
        match self {
            StoreError::UnknownVersion { .. } => true,
            StoreError::Disk(error) => {
                !matches!(error, DiskError::NoSpace { .. } | DiskError::NotFound { .. })
            }
            _ => false,
        }
    }
}

/// What is wrong with a stored block.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Damage {
    /// The sidecar's header or length is not one that a store wrote.
    #[error("its sidecar is unusable: {0}")]
    Sidecar(&'static str),
    /// The sidecar's entry of a chunk fails its own checksum.
    #[error("the sidecar's entry of chunk {0} fails its checksum")]
    Entry(u64),
    /// The data file has another length than was written.
    #[error("{found} bytes are there instead of {stored}")]
    Length {
        /// Length when it was written.
        stored: u64,
        /// Length now.
        found: u64,
    },
    /// A chunk fails its CRC-32C.
    #[error("chunk {0} fails its checksum")]
    Chunk(u64),
    /// A chunk does not have the fingerprint that flows would check, though its checksum holds.
    #[error("chunk {0} differs from its fingerprint")]
    Fingerprint(u64),
    /// All chunks hold, but together they are not the block that was written.
    #[error("its chunks do not add up to its digest and fingerprint")]
    Digest,
    /// The medium returns no bytes.
    #[error("the disk cannot read it: {0}")]
    Unreadable(String),
}

impl StoreError {
    /// Converts an error of starting a file to [`StoreError::TakesNoWrites`] if the disk refuses writes. The disk may still have free bytes that
    /// it does not give out.
    pub(super) fn of_writing(self) -> StoreError {
        match self {
            StoreError::Disk(refused @ DiskError::Io { .. }) if refused.refuses_writes() => {
                StoreError::TakesNoWrites { why: refused.to_string() }
            }
            other => other,
        }
    }
}

fn hex(digest: &Digest) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Types a disk error met while reading a stored block: what the medium cannot return is as good as corrupt, so that
/// it is repaired like other corruption. No other error says anything about the block.
pub(super) fn reading(block: BlockId) -> impl Fn(DiskError) -> StoreError {
    move |error| match error {
        DiskError::NotFound { .. } => StoreError::NotFound { block },
        error if error.is_unreadable() => {
            StoreError::Corrupt { block, damage: Damage::Unreadable(error.to_string()) }
        }
        other => StoreError::Disk(other),
    }
}
