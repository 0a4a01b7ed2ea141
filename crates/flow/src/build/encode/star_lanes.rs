//! Encoding by everybody (ours): each data site is the archiver of a part of the slices. It gets that part of all other
//! data blocks, and sends that part of every parity.
//!
//! ```text
//!   lane 0: b1, b2 ──▶ b0 ──▶ b3, b4
//!   lane 1: b0, b2 ──▶ b1 ──▶ b3, b4        k = 3
//!   lane 2: b0, b1 ──▶ b2 ──▶ b3, b4
//! ```
//! With L lanes a data site sends its own block but for an L-th, and an L-th of each of m parities: 1 + (m−1)/L blocks. A
//! chain has each of them send m, a star has one receive k. Less than one block no scheme sends, and none receives.

use super::{EncodeRequest, star};
use crate::error::FlowError;
use crate::graph::{Lane, Site};
use crate::limits::ENCODE_LANES;
use crate::prove::Proved;

/// A star for each data site, up to [`ENCODE_LANES`], with equal shares.
///
/// # Errors
/// As [`build`](super::build).
pub fn star_lanes(encode: &EncodeRequest<'_>) -> Result<Proved, FlowError> {
    let (request, groups) = (encode.repair(None), encode.groups(None));
    let shares = request.shares()?;
    let centres = shares.iter().map(|share| share.site).take(ENCODE_LANES);
    let lane = |centre: Site| star::around(&request, shares.clone(), centre, &groups);
    let lanes = centres.map(lane).collect::<Result<Vec<Lane>, _>>()?;
    let equal = vec![1; lanes.len()];
    request.prove_lanes(lanes, equal)
}
