//! Who takes part.

use std::fmt;

/// A storage node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(pub u32);

/// One start of a store, by the word that it drew then. Whatever a node says names it, so that a clone of its folder, or
/// the same folder set back, is not taken for it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Incarnation(pub u64);

/// Who takes part in a flow.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Peer {
    /// The client that drives it.
    Client,
    /// A storage node.
    Node(NodeId),
}

impl Peer {
    /// By the number that messages give it: clients have 0, the numbers of nodes begin at 1.
    pub fn from_number(number: u32) -> Peer {
        if number == 0 { Peer::Client } else { Peer::Node(NodeId(number)) }
    }

    /// The number that messages give it.
    pub fn number(self) -> u32 {
        self.node().map_or(0, |node| node.0)
    }

    /// The node; none if it is the client.
    pub fn node(self) -> Option<NodeId> {
        match self {
            Peer::Client => None,
            Peer::Node(node) => Some(node),
        }
    }
}

impl From<NodeId> for Peer {
    fn from(node: NodeId) -> Peer {
        Peer::Node(node)
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::Client => f.write_str("client"),
            Peer::Node(node) => node.fmt(f),
        }
    }
}

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0 >> 32)
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node-{}", self.0)
    }
}
