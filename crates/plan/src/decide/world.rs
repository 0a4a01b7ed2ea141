//! What decisions know of the cluster.

use super::{DecideError, Result};
use crate::{ByNode, LeastRecent, LinkRates, Topology};
use model::{BlockFacts, BlockId, Incarnation, Location, NodeId, StoreId};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A block's sidecar has a hundred and thirty-odd bytes for each 32 KiB of it: less than a two-hundredth.
const SIDECAR_SHARE: u64 = 200;

/// A disk keeps this much free besides: folders, journals and sidecars' heads need some, and what a node said of its room is
/// a heartbeat old.
const SPARE_BYTES: u64 = 1 << 20;

/// The cluster at one moment. A copy costs a few counters, so whoever keeps the changing things hands one out for each
/// decision.
#[derive(Clone, Debug, Default)]
pub struct World {
    /// All nodes that are known, alive or not.
    pub nodes: Arc<ByNode<NodeFacts>>,
    /// Their racks and hosts.
    pub topology: Arc<Topology>,
    /// The names of racks, by their numbers.
    pub rack_names: Arc<Vec<String>>,
    /// Nodes that help only where others do not suffice: quarantined ones, and those that are slow.
    pub last_resort: Arc<BTreeSet<NodeId>>,
    /// What is known of the links, in Mb/s.
    pub links: Arc<LinkRates>,
    /// Who was selected when.
    pub recent: Arc<LeastRecent>,
}

/// A node at one moment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NodeFacts {
    /// Host and port of control calls.
    pub control_addr: String,
    /// Host and port of slices.
    pub data_addr: String,
    /// Its store, and the start of it that was accepted last: orders name both.
    pub store: Option<(StoreId, Incarnation)>,
    /// The number of its rack.
    pub rack: u32,
    /// It reports, and its inventory is known.
    pub is_living: bool,
    /// Whoever keeps the world has heard of it.
    pub was_seen: bool,
    /// It was suspected on several edges.
    pub is_quarantined: bool,
    /// It held up several repairs lately.
    pub is_slow: bool,
    /// It is decommissioned: it is given no blocks.
    pub is_leaving: bool,
    /// Stages that run on it.
    pub running_stages: u32,
    /// Blocks that it stores.
    pub blocks: u64,
    /// Bytes of those.
    pub stored_bytes: u64,
    /// Room on its disk; `None` if nobody knows.
    pub free_bytes: Option<u64>,
    /// Free bytes for parities of an archival, which frees more than it takes; `None` if there is no more room than for other blocks.
    pub archival_free_bytes: Option<u64>,
    /// Those that it has in memory.
    pub cached_blocks: Vec<BlockId>,
}

impl World {
    /// Nodes that live.
    pub fn living(&self) -> BTreeSet<NodeId> {
        self.nodes.iter().filter(|(_, node)| node.is_living).map(|(id, _)| id).collect()
    }

    /// The same with further nodes that help only where others do not suffice.
    pub fn with_last_resort(&self, nodes: impl IntoIterator<Item = NodeId>) -> World {
        let mut last_resort = self.last_resort.clone();
        for node in nodes {
            Arc::make_mut(&mut last_resort).insert(node);
        }
        World { last_resort, ..self.clone() }
    }

    /// Nodes that may be given blocks, apart from those to avoid, in rising order.
    pub fn usable(&self, avoid: &BTreeSet<NodeId>) -> Vec<NodeId> {
        let usable = |(id, node): &(NodeId, &NodeFacts)| node.takes_blocks() && !avoid.contains(id);
        self.nodes.iter().filter(usable).map(|(id, _)| id).collect()
    }

    /// Nodes that may be given a block of so many bytes: usable ones that have room for it.
    ///
    /// # Errors
    /// [`DecideError::NoRoom`] if so few of those that are usable have room that the `needed` are not among them, those of one
    /// host counted once.
    pub fn roomy(&self, avoid: &BTreeSet<NodeId>, bytes: u64, needed: usize) -> Result<Vec<NodeId>> {
        let mut nodes = self.usable(avoid);
        let hosts = |nodes: &[NodeId]| self.topology.hosts(nodes.iter().copied()).len();
        let usable = hosts(&nodes);
        nodes.retain(|&node| self.nodes.get(node).is_some_and(|node| node.has_room(bytes)));
        match hosts(&nodes) {
            roomy if roomy < needed && needed <= usable => {
                Err(DecideError::NoRoom { roomy, usable, needed, bytes })
            }
            _ => Ok(nodes),
        }
    }

    /// A node that is known.
    ///
    /// # Errors
    /// [`DecideError::NoSuchNode`].
    pub fn node(&self, node: NodeId) -> Result<&NodeFacts> {
        self.nodes.get(node).ok_or(DecideError::NoSuchNode(node))
    }

    /// A copy of a block on a living node, preferably one of `first`, then one that is no last resort; none to avoid.
    pub(super) fn living_copy(
        &self,
        facts: &BlockFacts,
        avoid: &BTreeSet<NodeId>,
        first: &[NodeId],
    ) -> Option<Location> {
        let node = |l: &Location| self.nodes.get(l.node).filter(|n| n.is_living && !avoid.contains(&l.node));
        let living = facts
            .locations
            .iter()
            .filter_map(|l| node(l).map(|n| (!first.contains(&l.node), self.is_last_resort(l.node, n), *l)));
        living.min().map(|(_, _, location)| location)
    }

    /// Whether others help rather than this node.
    pub(super) fn is_last_resort(&self, id: NodeId, node: &NodeFacts) -> bool {
        node.is_last_resort() || self.last_resort.contains(&id)
    }
}

/// Below a tenth of free room an operator should act: what the next disk or node brings takes days, and a disk that is full takes no more puts.
const LEAST_FREE: u64 = 10;

/// Whether so much free room is little beside what is stored.
pub fn nearly_full(stored_bytes: u64, free_bytes: u64) -> bool {
    free_bytes.saturating_mul(LEAST_FREE) <= stored_bytes.saturating_add(free_bytes)
}

fn fits(bytes: u64, free_bytes: u64) -> bool {
    free_bytes >= bytes.saturating_add(bytes / SIDECAR_SHARE).saturating_add(SPARE_BYTES)
}

impl NodeFacts {
    /// Whether others help rather.
    pub fn is_last_resort(&self) -> bool {
        self.is_quarantined || self.is_slow
    }

    /// Whether a block of so many bytes fits on its disk, as far as is known.
    pub fn has_room(&self, bytes: u64) -> bool {
        self.free_bytes.is_none_or(|free| fits(bytes, free))
    }

    /// Whether a block of this size that an archival makes or moves fits on its disk, as far as is known.
    pub fn has_room_to_archive(&self, bytes: u64) -> bool {
        self.has_room(bytes) || self.archival_free_bytes.is_some_and(|free| fits(bytes, free))
    }

    /// Whether blocks have nine tenths of the room that there is for them, or more.
    pub fn is_nearly_full(&self) -> bool {
        self.free_bytes.is_some_and(|free| nearly_full(self.stored_bytes, free))
    }

    /// Whether it may be given blocks.
    pub fn takes_blocks(&self) -> bool {
        self.is_living && !self.is_quarantined && !self.is_leaving
    }
}
