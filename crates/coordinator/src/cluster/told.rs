//! What nodes tell of their copies in heartbeats.

use model::{BlockCopy, BlockId, NodeId};
use wire::proto;

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

impl Unreadable {
    /// As its status says; `None` if there is nothing.
    pub fn of(node: NodeId, status: &proto::NodeStatus) -> Option<Unreadable> {
        let (copies, folders) = (named(node, &status.unread_blocks).collect(), status.unread_folders.clone());
        let told = Unreadable { node, copies, folders, why: status.unread_why.clone() };
        (!(told.copies.is_empty() && told.folders.is_empty())).then_some(told)
    }
}

/// Copies on a node, as it names them; names that are none are left out.
pub(super) fn named(node: NodeId, blocks: &[proto::BlockRef]) -> impl Iterator<Item = BlockCopy> {
    let copy = move |copy: &proto::BlockRef| {
        let block = BlockId::from_slice(&copy.block).ok()?;
        Some(BlockCopy { block, node, generation: copy.generation })
    };
    blocks.iter().filter_map(copy)
}
