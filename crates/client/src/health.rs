//! How far everything in the cluster is from being lost; asked for in `metadata.rs`.

use model::{BlockId, NodeId};
use std::collections::BTreeMap;
use std::time::Duration;

/// As of now, with the nodes that live.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Health {
    /// Objects that can be read, by their margin: the further losses of copies that their worst block surely survives. A margin of
    /// `u64::MAX` have those that have no blocks.
    pub objects: BTreeMap<u64, u64>,
    /// Encoded stripes all of which can be had, by their margin.
    pub stripes: BTreeMap<u64, u64>,
    /// Objects that cannot be read now.
    pub unreadable_objects: u64,
    /// The first of them.
    pub unreadable_names: Vec<String>,
    /// Encoded stripes some of which cannot be had now.
    pub broken_stripes: u64,
    /// Blocks that have fewer living copies than they are to have.
    pub short_blocks: u64,
    /// Bytes of the copies that these are to have and have not, on living nodes.
    pub short_bytes: u64,
    /// How fast copies that lacked were made in the last minute; `None` if hardly any were.
    pub healed_bytes_per_s: Option<f64>,
    /// Bytes per second that each node may carry for repairs and moves, in each direction; `None` if nothing limits it.
    pub healing_limit_bytes_per_s: Option<u64>,
    /// The least time, under that limit, until short blocks have their copies, if some of them wait for no node to come back.
    pub limited_left: Option<Duration>,
    /// Of these, blocks whose copies are all noted, on nodes some of which do not answer.
    pub waiting_for_nodes: u64,
    /// Copies that their nodes have lost, and that no others have replaced.
    pub missing_copies: u64,
    /// The same of damaged ones.
    pub damaged_copies: u64,
    /// Why blocks get no copies now.
    pub hindrances: Vec<Hindrance>,
    /// Why nothing is let go; empty if something is.
    pub safe_mode: String,
    /// Whether the catalog's file is still unchecked since the coordinator's start. Until then nothing is known to be whole.
    pub is_unchecked: bool,
    /// Number of copies that count on living nodes that cannot read them now.
    pub unread_copies: u64,
    /// Unread copies by node.
    pub unread: Vec<UnreadCopies>,
    /// Operators' orders that cannot proceed now.
    pub stuck: Vec<StuckOrder>,
    /// Time of the count, in milliseconds since 1970.
    pub at_unix_ms: u64,
}

/// Copies that a living node cannot read now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnreadCopies {
    /// The node.
    pub node: NodeId,
    /// Number of its copies that count.
    pub copies: u64,
    /// The reason for one of them.
    pub why: String,
    /// Time until replacements are made. Blocks that survive no further loss get theirs within about a minute.
    pub grace_left: Duration,
}

/// An order for a node to hold nothing whose blocks cannot be moved now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StuckOrder {
    /// The node.
    pub node: NodeId,
    /// Number of copies there that count.
    pub blocks_left: u64,
    /// The reason why the order waits.
    pub why: String,
}

/// Why blocks get no copies now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hindrance {
    /// For people.
    pub why: String,
    /// How many blocks.
    pub blocks: u64,
    /// One of them.
    pub block: BlockId,
}

impl Health {
    /// Everything has all of its copies, as far as is noted, on nodes that live.
    pub fn is_whole(&self) -> bool {
        self.is_readable() && self.short_blocks == 0
    }

    /// How long it takes until everything has all of its copies: if they are made as fast as in the last minute, and no less than the
    /// limit on healing allows. `None` if that cannot be said.
    pub fn left(&self) -> Option<Duration> {
        let measured = self.healed_bytes_per_s.map(|rate| self.short_bytes as f64 / rate);
        let measured = measured.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        measured.max(self.limited_left)
    }

    /// Everything can be read.
    pub fn is_readable(&self) -> bool {
        self.unreadable_objects == 0 && self.broken_stripes == 0
    }
}
