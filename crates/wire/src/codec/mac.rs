//! Messages that ask for MACs and carry them.

use crate::mac::{Challenge, Mac, Whose};
use crate::proto;
use model::{BlockId, Incarnation, NodeId, StoreId};

/// An answer to a [`Challenge`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identified {
    /// Claimed identity of the answering process.
    pub whose: Whose,
    /// Proof of that identity.
    pub mac: Mac,
}

impl From<Challenge> for proto::Challenge {
    fn from(challenge: Challenge) -> proto::Challenge {
        proto::Challenge { nonce: challenge.0.to_vec() }
    }
}

/// Converts a message; returns `None` if it is invalid.
pub fn challenge(message: &proto::Challenge) -> Option<Challenge> {
    message.nonce.as_slice().try_into().ok().map(Challenge)
}

impl From<Identified> for proto::Identified {
    fn from(identified: Identified) -> proto::Identified {
        let Identified { whose: Whose { node, store, incarnation }, mac } = identified;
        let (store, mac) = (store.to_vec(), mac.to_vec());
        proto::Identified { node: node.0, store, incarnation: incarnation.0, mac }
    }
}

/// Converts a message; returns `None` if it is invalid.
pub fn identified(message: &proto::Identified) -> Option<Identified> {
    let (node, incarnation) = (NodeId(message.node), Incarnation(message.incarnation));
    let whose = Whose { node, store: StoreId::from_slice(&message.store).ok()?, incarnation };
    Some(Identified { whose, mac: Mac::from_slice(&message.mac)? })
}

/// A block and the node that is said to have written it.
type By = (BlockId, NodeId);

/// The start under which it wrote the block, and the MAC, which may be empty.
type Said = ((StoreId, Incarnation), Vec<u8>);

/// Returns the nodes that are said to have written the block, each with its start and MAC.
pub fn told(written: &proto::WrittenBlock) -> impl Iterator<Item = (By, Said)> {
    let block = BlockId::from_slice(&written.block).ok();
    written.by.iter().filter_map(move |by| {
        let start = super::block::start_of_store(&by.store, by.incarnation)?;
        Some(((block?, NodeId(by.node)), (start, by.mac.clone())))
    })
}
