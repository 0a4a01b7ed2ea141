//! The assignment of a whole recovery at once, so that the busiest link carries little. Ours; RP §3.3 picks helpers one
//! stripe after another.
//!
//! In a chain every helper sends a block's length; the requestor and all helpers but the first receive as much. So first
//! the helpers are spread over what nodes send, k of each stripe's survivors; then, with the helpers known, what nodes
//! receive: k−1 of the helpers (the one left over begins the chain) and one of the requestors. Each of the two is as
//! even as it can be for blocks of one length, and together they are within a block of [`busiest_bound`] wherever that
//! was tried (`tests/all/recovery.rs`).
//!
//! [`busiest_bound`]: super::busiest_bound

use super::index::Index;
use super::spread::{Group, spread};
use crate::error::PlanError;
use model::NodeId;
use std::borrow::Borrow;
use std::collections::BTreeMap;

/// A block that is to be made again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LostBlock {
    /// Nodes that hold survivors of the stripe, distinct; any `needed` of them suffice.
    pub survivors: Vec<NodeId>,
    /// Helpers in the chain, k.
    pub needed: usize,
    /// Nodes that may receive the block; survivors among them may not.
    pub requestors: Vec<NodeId>,
    /// Its length.
    pub bytes: u64,
}

/// The nodes that repair a block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Assignment {
    /// The helpers, in the order of the chain.
    pub chain: Vec<NodeId>,
    /// Who receives.
    pub requestor: NodeId,
}

/// What a node sends and receives, bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NodeLoad {
    /// Bytes sent.
    pub sent: u64,
    /// Bytes received.
    pub received: u64,
}

/// Assigns helpers, their order and requestors to all of `blocks`, on top of `loads`; the answers come in the order of
/// the blocks. Time grows with the number of survivors and requestors in all, times the moves that level the first choice.
///
/// # Errors
/// For a block: [`PlanError::NotEnoughHelpers`], [`PlanError::NoTarget`], [`PlanError::NoHelpers`] if it needs none. It
/// is left out, and stops no other.
pub fn balanced<B: Borrow<LostBlock>>(
    blocks: &[B],
    loads: &BTreeMap<NodeId, NodeLoad>,
) -> Vec<Result<Assignment, PlanError>> {
    let checked: Vec<Result<&LostBlock, PlanError>> =
        blocks.iter().map(Borrow::borrow).map(|block| block.check().map(|()| block)).collect();
    let sound: Vec<&LostBlock> = checked.iter().filter_map(|block| block.as_ref().ok().copied()).collect();
    let index = Index::of(&sound, loads);
    let groups: Vec<Group> = sound.iter().map(|block| sends(block, &index)).collect();
    let helpers = spread(&groups, &mut index.loads(loads, |load| load.sent));
    let groups: Vec<Group> =
        sound.iter().zip(&helpers).flat_map(|(block, helpers)| receives(block, helpers, &index)).collect();
    let receivers = spread(&groups, &mut index.loads(loads, |load| load.received));
    let (receivers, _) = receivers.as_chunks::<2>();
    let mut assigned = helpers.iter().zip(receivers).map(|(helpers, [middle, requestor])| {
        let first = helpers.iter().filter(|helper| !middle.contains(helper));
        Assignment {
            chain: first.chain(middle).map(|&node| index.node(node)).collect(),
            requestor: index.node(requestor[0]),
        }
    });
    // One for each block that passed the check.
    checked.into_iter().map(|block| block.and_then(|_| assigned.next().ok_or(PlanError::NoHelpers))).collect()
}

/// Adds up what chains of `bytes` each make their nodes send and receive.
pub fn loads_of<'a>(
    assignments: impl IntoIterator<Item = (&'a Assignment, u64)>,
) -> BTreeMap<NodeId, NodeLoad> {
    let mut loads: BTreeMap<NodeId, NodeLoad> = BTreeMap::new();
    for (Assignment { chain, requestor }, bytes) in assignments {
        chain.iter().for_each(|&helper| loads.entry(helper).or_default().sent += bytes);
        let receivers = chain.iter().skip(1).chain([requestor]);
        receivers.for_each(|&node| loads.entry(node).or_default().received += bytes);
    }
    loads
}

impl LostBlock {
    /// Whether the block can be repaired.
    pub(super) fn check(&self) -> Result<(), PlanError> {
        let available = self.survivors.len();
        if self.needed == 0 {
            return Err(PlanError::NoHelpers);
        }
        if available < self.needed {
            return Err(PlanError::NotEnoughHelpers { needed: self.needed, available });
        }
        let mut survivors = self.survivors.clone();
        survivors.sort_unstable();
        survivors.dedup();
        if survivors.len() < available {
            return Err(PlanError::NotEnoughHelpers { needed: self.needed, available: survivors.len() });
        }
        if self.requestors.iter().all(|node| survivors.binary_search(node).is_ok()) {
            return Err(PlanError::NoTarget { alive: self.requestors.len() });
        }
        Ok(())
    }
}

/// Who may send a block's length for it.
pub(super) fn sends(block: &LostBlock, index: &Index) -> Group {
    Group { candidates: index.of_nodes(&block.survivors), count: block.needed, bytes: block.bytes }
}

/// Who may receive it: all but one of the helpers, and a requestor.
pub(super) fn receives(block: &LostBlock, helpers: &[u32], index: &Index) -> [Group; 2] {
    let requestors = block.requestors.iter().filter(|node| !block.survivors.contains(node));
    [
        Group { candidates: helpers.to_vec(), count: block.needed - 1, bytes: block.bytes },
        Group { candidates: index.of_nodes(requestors), count: 1, bytes: block.bytes },
    ]
}
