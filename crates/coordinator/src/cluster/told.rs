//! Reports of nodes about their copies, from heartbeats.

use model::{BlockCopy, NodeId};

/// Copies and folders that a node cannot read now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Unreadable {
    pub node: NodeId,
    pub copies: Vec<BlockCopy>,
    /// Folders in which nothing can be read, as first bytes of block ids.
    pub folders: Vec<u8>,
    pub why: String,
}

/// News of damaged copies in one heartbeat.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Told {
    /// Copies that are reported for the first time, and some reported earlier that are not dealt with yet.
    pub damaged: Vec<BlockCopy>,
    /// Copies that are no longer reported: their node may have found them whole.
    pub cleared: Vec<BlockCopy>,
}
