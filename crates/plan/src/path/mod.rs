//! Paths of helpers that end at a requestor, one planner per file (RP §4).

mod links;
mod node_set;
mod search;
mod weighted;

pub use links::LinkMatrix;
pub use weighted::{SEARCH_STEPS, WeightedPath, weighted_path};

use crate::error::PlanError;

/// Most nodes of one planning: blocks of a stripe over GF(2^8).
pub const MAX_NODES: usize = 256;

/// What every path needs: k helpers out of `helpers`, each once and none the requestor.
fn check_helpers(helpers: &[usize], k: usize, requestor: usize, nodes: usize) -> Result<(), PlanError> {
    if nodes > MAX_NODES {
        return Err(PlanError::TooManyNodes { nodes, most: MAX_NODES });
    }
    if let Some(&node) = helpers.iter().chain([&requestor]).find(|&&node| node >= nodes) {
        return Err(PlanError::NoSuchNode { node, nodes });
    }
    let mut seen = vec![false; nodes];
    seen[requestor] = true;
    for &helper in helpers {
        if std::mem::replace(&mut seen[helper], true) {
            return Err(PlanError::RepeatedNode { node: helper });
        }
    }
    if k == 0 {
        return Err(PlanError::NoHelpers);
    }
    if helpers.len() < k {
        return Err(PlanError::NotEnoughHelpers { needed: k, available: helpers.len() });
    }
    Ok(())
}
