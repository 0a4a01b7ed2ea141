//! What nodes tell of their copies in heartbeats.

use model::{BlockCopy, NodeId};

/// What a node says that it cannot read now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Unreadable {
    pub node: NodeId,
    pub copies: Vec<BlockCopy>,
    /// Nothing in these can be read, by the first byte of ids.
    pub folders: Vec<u8>,
    pub why: String,
}

/// What a heartbeat tells of damaged copies.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Told {
    /// For the first time, and some of those of which nothing came so far.
    pub damaged: Vec<BlockCopy>,
    /// No more: their node may have found them whole.
    pub cleared: Vec<BlockCopy>,
}
