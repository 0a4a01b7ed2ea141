//! Paths of helpers that end at a requestor, one planner per file (RP §4).

pub mod cyclic;
mod links;
pub mod multi;
mod node_set;
pub mod rack_aware;
mod search;
pub mod weighted;

pub use cyclic::{cyclic_lane_of, cyclic_lanes, cyclic_share, cyclic_timeslots};
pub use links::LinkMatrix;
pub use multi::{Bandwidth, EXACT_HELPERS, MAX_LANES, MultiPath, RatedLane, multi_path};
pub use rack_aware::{RackAwarePath, rack_aware_path};
pub use weighted::{SEARCH_STEPS, WeightedPath, weighted_path};

use std::collections::BTreeSet;

use crate::error::PlanError;

/// Most nodes of one planning: blocks of a stripe over GF(2^8).
pub const MAX_NODES: usize = 256;

/// What every path needs: k helpers, each once and none the requestor.
fn check_numbers(
    helpers: impl ExactSizeIterator<Item = usize>,
    requestor: usize,
    k: usize,
) -> Result<(), PlanError> {
    let available = helpers.len();
    let mut seen = BTreeSet::from([requestor]);
    for node in helpers {
        if !seen.insert(node) {
            return Err(PlanError::RepeatedNode { node });
        }
    }
    if k == 0 {
        return Err(PlanError::NoHelpers);
    }
    if available < k { Err(PlanError::NotEnoughHelpers { needed: k, available }) } else { Ok(()) }
}

/// The same for helpers that are numbers below `nodes`.
fn check_helpers(helpers: &[usize], k: usize, requestor: usize, nodes: usize) -> Result<(), PlanError> {
    if nodes > MAX_NODES {
        return Err(PlanError::TooManyNodes { nodes, most: MAX_NODES });
    }
    if let Some(&node) = helpers.iter().chain([&requestor]).find(|&&node| node >= nodes) {
        return Err(PlanError::NoSuchNode { node, nodes });
    }
    check_numbers(helpers.iter().copied(), requestor, k)
}
