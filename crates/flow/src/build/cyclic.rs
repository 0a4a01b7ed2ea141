//! Cyclic repair (RP §4.1): k−1 chains over the same helpers, each rotated by one, so that every helper but one hands
//! the requestor a part of the block.
//!
//! ```text
//!   lane 0: N1 ▶ N2 ▶ N3 ▶ N4 ▶ R
//!   lane 1: N2 ▶ N3 ▶ N4 ▶ N1 ▶ R      k = 4
//!   lane 2: N3 ▶ N4 ▶ N1 ▶ N2 ▶ R
//! ```
//! No link to the requestor carries more than a (k−1)-th of the block; each helper sends as much as in one chain.

use super::chain::along;
use super::request::{RepairRequest, Share};
use crate::error::FlowError;
use crate::graph::Lane;
use crate::prove::Proved;

/// The rotations of N1 … Nk that begin with all but the last, each → requestor, with equal shares.
///
/// # Errors
/// As [`build`](super::build).
pub fn cyclic(request: &RepairRequest<'_>) -> Result<Proved, FlowError> {
    let mut row = request.row()?;
    let Some(end) = row.pop() else { return Err(FlowError::NothingWanted) };
    let lanes = row.len().saturating_sub(1).max(1);
    let lane = |first: usize| -> Result<Lane, FlowError> {
        let (before, after) = row.split_at(first);
        let path: Vec<Share> = after.iter().chain(before).chain([&end]).cloned().collect();
        along(request, path)
    };
    let built = (0..lanes).map(lane).collect::<Result<Vec<Lane>, FlowError>>()?;
    request.prove_lanes(built, vec![1; lanes])
}
