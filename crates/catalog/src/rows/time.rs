//! What the catalog keeps of time.

use crate::form;
use model::NodeId;
use serde::{Deserialize, Serialize};

/// The cluster's clock as it was noted last: one row. All leases and graces are counted on it; it goes on while a coordinator
/// runs, and stands still while none does.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ClockRow {
    /// What it showed. It began at the milliseconds since 1970 when the catalog was made.
    pub now_ms: u64,
    /// When each node was heard last.
    pub heard: Vec<HeardRow>,
}

/// When a node was heard last, on the cluster's clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HeardRow {
    /// The node.
    #[serde(with = "form")]
    pub node: NodeId,
    /// When.
    pub at_ms: u64,
}

/// How often a node came back lately after it was away for long, so that it is waited for longer the next time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ReturnsRow {
    /// Returns that are not forgiven yet.
    pub count: u32,
    /// When it came back last, or had one forgiven, on the cluster's clock.
    pub at_ms: u64,
}

/// A put that was committed not long ago: what its client was answered, for one whose answer was lost.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct EndedPutRow {
    pub name: String,
    pub version: u64,
    pub object_bytes: u64,
    pub digest: [u8; 32],
    pub block_bytes: u64,
    pub block_count: u64,
    /// When it was committed, by the wall clock.
    pub created_ms: u64,
    /// It is forgotten then.
    pub until_ms: u64,
}
