//! Work of clients and operators.

use serde::{Deserialize, Serialize};

/// A step of a client or operator.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "work", rename_all = "kebab-case")]
pub enum Work {
    /// Store an object, perhaps over an older version.
    Put {
        /// The object.
        object: usize,
        /// Number that, with the seed, determines its content; no two contents are the same.
        content: u64,
        /// Length of the content.
        bytes: usize,
        /// Kill the client after this time.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        killed_after_ms: Option<u64>,
        /// Whether it is coded on write.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        coded: bool,
        /// The code, if not the cluster's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<String>,
        /// The policy that places its replicas for that code, if not the seed's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        policy: Option<String>,
    },
    /// Remove an object.
    Delete {
        /// The object.
        object: usize,
    },
    /// Read a whole object.
    Get {
        /// The object.
        object: usize,
    },
    /// Read a part, given in thousandths of its length.
    GetRange {
        /// The object.
        object: usize,
        /// Start of the part.
        from_permille: u64,
        /// End of the part.
        to_permille: u64,
    },
    /// Turn replicas into a code.
    Archive {
        /// The object.
        object: usize,
        /// Whether a pipeline encodes it, with the code of the same shape that stores no data blocks unchanged.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        piped: bool,
        /// The code, if not the cluster's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<String>,
        /// The encoding scheme, if not a star.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        scheme: Option<String>,
    },
    /// Archive all objects.
    ArchiveAll {
        /// The code.
        code: String,
        /// Whether objects with another code are recoded.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        change: bool,
    },
    /// Recode an archived object, and archive the rest of it with the same code.
    Change {
        /// The object.
        object: usize,
        /// The code.
        code: String,
    },
    /// Reclaim what stripes keep of deleted objects.
    Compact,
    /// Rebuild a block.
    RepairBlock {
        /// The object.
        object: usize,
        /// Index of the block.
        index: usize,
        /// The repair scheme.
        scheme: String,
        /// Whether the rebuilt block is discarded.
        discard: bool,
    },
    /// Rebuild what an object lost.
    RepairObject {
        /// The object.
        object: usize,
    },
    /// Rebuild what a dead node held.
    RepairNode {
        /// The node.
        node: u32,
    },
    /// Move a living node's blocks elsewhere.
    Decommission {
        /// The node.
        node: u32,
    },
    /// Let a node hold blocks again.
    Recommission {
        /// The node.
        node: u32,
    },
    /// Read everything that nodes store.
    Scrub,
    /// List objects.
    List,
}

impl Work {
    /// All kinds of work.
    pub const KINDS: &[&str] = &[
        "put, killed",
        "put, coded",
        "put",
        "delete",
        "get",
        "get range",
        "archive, piped",
        "archive",
        "change all codes",
        "archive all",
        "change the code",
        "compact",
        "repair block",
        "repair object",
        "repair node",
        "decommission",
        "recommission",
        "scrub",
        "list",
    ];

    /// Returns the kind of work, as tables name it.
    pub fn kind(&self) -> &'static str {
        match self {
            Work::Put { killed_after_ms: Some(_), .. } => "put, killed",
            Work::Put { coded: true, .. } => "put, coded",
            Work::Put { .. } => "put",
            Work::Delete { .. } => "delete",
            Work::Get { .. } => "get",
            Work::GetRange { .. } => "get range",
            Work::Archive { piped: true, .. } => "archive, piped",
            Work::Archive { .. } => "archive",
            Work::ArchiveAll { change: true, .. } => "change all codes",
            Work::ArchiveAll { .. } => "archive all",
            Work::Change { .. } => "change the code",
            Work::Compact => "compact",
            Work::RepairBlock { .. } => "repair block",
            Work::RepairObject { .. } => "repair object",
            Work::RepairNode { .. } => "repair node",
            Work::Decommission { .. } => "decommission",
            Work::Recommission { .. } => "recommission",
            Work::Scrub => "scrub",
            Work::List => "list",
        }
    }

    /// Returns the object that it names, if any.
    pub fn object(&self) -> Option<usize> {
        match self {
            Work::Put { object, .. }
            | Work::Delete { object }
            | Work::Get { object }
            | Work::GetRange { object, .. }
            | Work::Archive { object, .. }
            | Work::Change { object, .. }
            | Work::RepairBlock { object, .. }
            | Work::RepairObject { object } => Some(*object),
            Work::RepairNode { .. }
            | Work::Decommission { .. }
            | Work::Recommission { .. }
            | Work::ArchiveAll { .. }
            | Work::Compact
            | Work::Scrub
            | Work::List => None,
        }
    }

    /// Returns the node that it names, if any.
    pub fn node(&self) -> Option<u32> {
        match self {
            Work::RepairNode { node } | Work::Decommission { node } | Work::Recommission { node } => {
                Some(*node)
            }
            _ => None,
        }
    }

    /// Returns the code that it names, if any.
    pub fn code(&self) -> Option<&str> {
        match self {
            Work::Put { code, .. } | Work::Archive { code, .. } => code.as_deref(),
            Work::Change { code, .. } | Work::ArchiveAll { code, .. } => Some(code),
            _ => None,
        }
    }
}
