//! What clients and operators do.

use serde::{Deserialize, Serialize};

/// What a client does.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "work", rename_all = "kebab-case")]
pub enum Work {
    /// Store an object, perhaps over an older version.
    Put {
        /// Which object.
        object: usize,
        /// What its content is made of, together with the seed; no two are the same.
        content: u64,
        /// Its length.
        bytes: usize,
        /// Kill the client after this time.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        killed_after_ms: Option<u64>,
        /// Code it as it is written.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        coded: bool,
        /// With which code, if not the cluster's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<String>,
        /// The policy by which its replicas are placed for that code, if not the seed's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        policy: Option<String>,
    },
    /// Remove an object.
    Delete {
        /// Which object.
        object: usize,
    },
    /// Read all of it.
    Get {
        /// Which object.
        object: usize,
    },
    /// Read a part, given in thousandths of its length.
    GetRange {
        /// Which object.
        object: usize,
        /// Where it begins.
        from_permille: u64,
        /// Where it ends.
        to_permille: u64,
    },
    /// Turn replicas into a code.
    Archive {
        /// Which object.
        object: usize,
        /// By a pipeline: the code of the same shape that stores no data as they are.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        piped: bool,
        /// With which code, if not the cluster's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<String>,
        /// How parities are made, if not by a star.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        scheme: Option<String>,
    },
    /// The same with all objects.
    ArchiveAll {
        /// The code.
        code: String,
        /// What has another code gets this one.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        change: bool,
    },
    /// Give what is archived another code, and archive the rest with it.
    Change {
        /// Which object.
        object: usize,
        /// The code.
        code: String,
    },
    /// Give back what stripes keep of deleted objects.
    Compact,
    /// Rebuild a block.
    RepairBlock {
        /// Which object.
        object: usize,
        /// Which of its blocks.
        index: usize,
        /// How.
        scheme: String,
        /// Throw it away then.
        discard: bool,
    },
    /// Rebuild what an object lost.
    RepairObject {
        /// Which object.
        object: usize,
    },
    /// Rebuild what a dead node held.
    RepairNode {
        /// Which node.
        node: u32,
    },
    /// Move a living node's blocks elsewhere.
    Decommission {
        /// Which node.
        node: u32,
    },
    /// Let it hold blocks again.
    Recommission {
        /// Which node.
        node: u32,
    },
    /// Read all that nodes store.
    Scrub,
    /// List objects.
    List,
}

impl Work {
    /// All names.
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

    /// Its name in tables.
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

    /// The object that it names, if it names one.
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

    /// The node that it names, if it names one.
    pub fn node(&self) -> Option<u32> {
        match self {
            Work::RepairNode { node } | Work::Decommission { node } | Work::Recommission { node } => {
                Some(*node)
            }
            _ => None,
        }
    }

    /// The code that it names, if it names one.
    pub fn code(&self) -> Option<&str> {
        match self {
            Work::Put { code, .. } | Work::Archive { code, .. } => code.as_deref(),
            Work::Change { code, .. } | Work::ArchiveAll { code, .. } => Some(code),
            _ => None,
        }
    }
}
