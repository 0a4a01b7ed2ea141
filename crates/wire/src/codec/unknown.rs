//! Unknown copies as messages: what nodes have and the catalog knows nothing of.

use super::invalid;
use crate::proto;
use model::{BlockCopy, BlockId, Fault, NodeId, Part};

/// A copy that no row of the catalog names, of a block that has no row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownCopy {
    /// Where it is.
    pub copy: BlockCopy,
    /// Its length, if its node can tell it.
    pub stored_bytes: Option<u64>,
    /// The part of an object that it is, if its sidecar says so.
    pub part: Option<Part>,
    /// Why its node cannot tell more than the name: half of it is missing, or it is damaged.
    pub unread: Option<String>,
}

/// What was found on the nodes that were asked.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Unknown {
    /// The first of them.
    pub copies: Vec<UnknownCopy>,
    /// So many more there are.
    pub others: u64,
    /// Nodes that did not say what they have, and why.
    pub unasked: Vec<(NodeId, String)>,
    /// Why nothing is deleted now, whoever asks for it; empty if deletions go on.
    pub kept_because: String,
}

/// What came of an operator's word that copies are to go.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LetGo {
    /// So many are deleted once the grace is over.
    pub noted: u64,
    /// These are not unknown, or not any more: nothing changes for them.
    pub refused: Vec<BlockCopy>,
    /// Why nothing is deleted now; empty if deletions go on.
    pub kept_because: String,
}

impl From<BlockCopy> for proto::CopyName {
    fn from(copy: BlockCopy) -> proto::CopyName {
        let BlockCopy { block, node, generation } = copy;
        proto::CopyName { node: node.0, block: block.to_vec(), generation }
    }
}

impl TryFrom<proto::CopyName> for BlockCopy {
    type Error = Fault;

    fn try_from(name: proto::CopyName) -> Result<BlockCopy, Fault> {
        let proto::CopyName { node, block, generation } = name;
        let block = BlockId::from_slice(&block).map_err(|_| invalid("a block's id has another length"))?;
        Ok(BlockCopy { block, node: NodeId(node), generation })
    }
}

/// Asks for the unknown copies on a node, or on all.
pub fn list_request(node: Option<NodeId>) -> proto::ListUnknownRequest {
    proto::ListUnknownRequest { node: node.map_or(0, |node| node.0) }
}

/// Asks for these copies to go.
pub fn go_request(copies: &[BlockCopy]) -> proto::LetUnknownGoRequest {
    proto::LetUnknownGoRequest { copies: copies.iter().map(|copy| (*copy).into()).collect() }
}

/// Names of copies, from messages.
///
/// # Errors
/// If one is none.
pub fn copies(names: Vec<proto::CopyName>) -> Result<Vec<BlockCopy>, Fault> {
    names.into_iter().map(BlockCopy::try_from).collect()
}

impl From<UnknownCopy> for proto::UnknownCopy {
    fn from(unknown: UnknownCopy) -> proto::UnknownCopy {
        let UnknownCopy { copy, stored_bytes, part, unread } = unknown;
        proto::UnknownCopy {
            copy: Some(copy.into()),
            stored_bytes: stored_bytes.unwrap_or(0),
            object: part.map(Into::into),
            unread: unread.unwrap_or_default(),
        }
    }
}

impl TryFrom<proto::UnknownCopy> for UnknownCopy {
    type Error = Fault;

    fn try_from(message: proto::UnknownCopy) -> Result<UnknownCopy, Fault> {
        let proto::UnknownCopy { copy, stored_bytes, object, unread } = message;
        let copy = copy.ok_or_else(|| invalid("a copy has no name"))?.try_into()?;
        Ok(UnknownCopy {
            copy,
            stored_bytes: (stored_bytes > 0).then_some(stored_bytes),
            part: object.map(Into::into),
            unread: (!unread.is_empty()).then_some(unread),
        })
    }
}

impl From<Unknown> for proto::ListUnknownReply {
    fn from(unknown: Unknown) -> proto::ListUnknownReply {
        let Unknown { copies, others, unasked, kept_because } = unknown;
        let node = |(node, why): (NodeId, String)| proto::UnaskedNode { node: node.0, why };
        proto::ListUnknownReply {
            copies: copies.into_iter().map(Into::into).collect(),
            others,
            unasked: unasked.into_iter().map(node).collect(),
            kept_because,
        }
    }
}

impl TryFrom<proto::ListUnknownReply> for Unknown {
    type Error = Fault;

    fn try_from(reply: proto::ListUnknownReply) -> Result<Unknown, Fault> {
        let proto::ListUnknownReply { copies, others, unasked, kept_because } = reply;
        let copies = copies.into_iter().map(UnknownCopy::try_from).collect::<Result<_, Fault>>()?;
        let unasked = unasked.into_iter().map(|node| (NodeId(node.node), node.why)).collect();
        Ok(Unknown { copies, others, unasked, kept_because })
    }
}

impl From<LetGo> for proto::LetUnknownGoReply {
    fn from(gone: LetGo) -> proto::LetUnknownGoReply {
        let LetGo { noted, refused, kept_because } = gone;
        let refused = refused.into_iter().map(Into::into).collect();
        proto::LetUnknownGoReply { noted, refused, kept_because }
    }
}

impl TryFrom<proto::LetUnknownGoReply> for LetGo {
    type Error = Fault;

    fn try_from(reply: proto::LetUnknownGoReply) -> Result<LetGo, Fault> {
        let proto::LetUnknownGoReply { noted, refused, kept_because } = reply;
        Ok(LetGo { noted, refused: copies(refused)?, kept_because })
    }
}
