//! What leaves a living node comes from all sources: some of its blocks are copied from it, the others are rebuilt from their
//! stripes by chains that do not pass through it, so many that both end together. Ours: in HDFS and Ozone the node that leaves
//! is the only source, and its uplink carries all that it holds.
//!
//! With n blocks of (·, k) stripes over N other nodes and any number of requestors the uplinks allow n·k/(N+k) block lengths, and
//! the downlinks n·k/(N+k−1), where copying alone takes n.

use super::balanced::{Assignment, LostBlock, NodeLoad, balanced, loads_of};
use crate::error::PlanError;
use model::NodeId;
use std::collections::{BTreeMap, BTreeSet};

/// A block of a node that leaves.
#[derive(Clone, Copy, Debug)]
pub struct Leaving<'a> {
    /// The copy of it: its node is the one survivor; or, where it is not on one that can send it, how it is rebuilt.
    pub copied: &'a LostBlock,
    /// How it can be rebuilt instead.
    pub rebuilt: Option<&'a LostBlock>,
}

/// Assigns all of `blocks`, on top of `loads`: copied or rebuilt, such that the busiest link carries little. The answers come in
/// the order of the blocks; one with a chain of the block's own node is a copy.
///
/// # Errors
/// For a block: as [`balanced`].
pub fn leaving(
    blocks: &[Leaving<'_>],
    loads: &BTreeMap<NodeId, NodeLoad>,
) -> Vec<Result<Assignment, PlanError>> {
    let can = |block: &Leaving<'_>| block.rebuilt.is_some_and(|rebuilt| rebuilt.check().is_ok());
    let either: Vec<usize> = (0..blocks.len()).filter(|&at| can(&blocks[at])).collect();
    let leavers: BTreeSet<NodeId> =
        either.iter().flat_map(|&at| blocks[at].copied.survivors.iter().copied()).collect();
    let all = |rebuilt: usize| Split::of(blocks, &either, rebuilt, &leavers, loads);
    // The more are rebuilt, the less those that leave send and the more the others carry.
    let (mut few, mut many) = (0, either.len());
    while few < many {
        let middle = few.midpoint(many);
        let split = all(middle);
        if split.leavers <= split.others { many = middle } else { few = middle + 1 }
    }
    let split = all(few);
    let busiest = |split: &Split| split.leavers.max(split.others);
    match few.checked_sub(1).map(all) {
        Some(fewer) if busiest(&fewer) <= busiest(&split) => fewer.assigned,
        _ => split.assigned,
    }
}

struct Split {
    assigned: Vec<Result<Assignment, PlanError>>,
    /// What those that leave send, the busiest of them.
    leavers: u64,
    /// What any link of the others carries.
    others: u64,
}

impl Split {
    /// So many of `either` are rebuilt, evenly among the others: both kinds then run all the time.
    fn of(
        blocks: &[Leaving<'_>],
        either: &[usize],
        rebuilt: usize,
        leavers: &BTreeSet<NodeId>,
        loads: &BTreeMap<NodeId, NodeLoad>,
    ) -> Split {
        let mut chosen: Vec<&LostBlock> = blocks.iter().map(|block| block.copied).collect();
        for (place, &at) in either.iter().enumerate() {
            let so_far = |places: usize| places * rebuilt / either.len();
            if let Some(other) = blocks[at].rebuilt.filter(|_| so_far(place + 1) > so_far(place)) {
                chosen[at] = other;
            }
        }
        let assigned = balanced(&chosen, loads);
        let made = assigned.iter().zip(&chosen);
        let made = made.filter_map(|(answer, block)| Some((answer.as_ref().ok()?, block.bytes)));
        let mut busy = loads_of(made);
        for (&node, load) in loads {
            let sum = busy.entry(node).or_default();
            *sum = NodeLoad { sent: sum.sent + load.sent, received: sum.received + load.received };
        }
        let (mut from_leavers, mut others) = (0, 0);
        for (node, load) in &busy {
            match leavers.contains(node) {
                true => from_leavers = from_leavers.max(load.sent),
                false => others = others.max(load.sent).max(load.received),
            }
        }
        Split { assigned, leavers: from_leavers, others }
    }
}
