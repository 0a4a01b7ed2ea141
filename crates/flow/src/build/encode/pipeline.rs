//! Encoding along a chain of the data sites (RapidRAID §III, for any systematic code): each adds its own block to all
//! parities and passes them on; each parity goes to the site that writes it when it is complete. No site has to hold or
//! receive all data.
//!
//! ```text
//!   b0 ══[C0]══▶ b1 ══[I|C1]══▶ … ══▶ bk−1 ══[I|Ck−1]═╦══▶ write bk
//!                  (n−k rows on every edge)           ╚══▶ write bk+1
//! ```

use super::EncodeRequest;
use crate::build::leaving;
use crate::build::request::Share;
use crate::error::FlowError;
use crate::graph::Lane;
use crate::limits::ENCODE_LANES;
use crate::prove::Proved;

/// One chain through the data sites, in the order in which the blocks are listed.
///
/// # Errors
/// As [`build`](super::build).
pub fn pipeline(encode: &EncodeRequest<'_>) -> Result<Proved, FlowError> {
    rotations(encode, 1)
}

/// Several chains (ours), each the same rotated by one, up to [`ENCODE_LANES`], with equal shares. Each data site still
/// sends n−k blocks in all; but each receives as much as any other, and no link to a site that writes carries more than a
/// part of a block.
///
/// # Errors
/// As [`build`](super::build).
pub fn pipeline_lanes(encode: &EncodeRequest<'_>) -> Result<Proved, FlowError> {
    rotations(encode, ENCODE_LANES)
}

fn rotations(encode: &EncodeRequest<'_>, most: usize) -> Result<Proved, FlowError> {
    let request = encode.repair(None);
    let row = request.shares()?;
    let sites = encode.sites();
    let count = row.len().min(most);
    let lane = |number: usize| -> Result<Lane, FlowError> {
        let (before, after) = row.split_at(number * row.len() / count);
        let path: Vec<Share> = after.iter().chain(before).cloned().collect();
        leaving::lane(&request, path, &sites)
    };
    let lanes = (0..count).map(lane).collect::<Result<Vec<Lane>, _>>()?;
    request.prove_lanes(lanes, vec![1; count])
}
