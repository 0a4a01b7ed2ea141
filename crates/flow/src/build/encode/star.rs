//! Classical encoding (RP §2.2, EAR §2): one site downloads the data blocks, makes the parities and uploads
//! them.
//!
//! ```text
//!   b0 ──▶┐              ┌──▶ write b3
//!   b1 ──▶┼─ archiver ───┤
//!   b2 (local) ┘         └──▶ write b4
//! ```

use super::{EncodeRequest, scatter};
use crate::build::request::{RepairRequest, Share};
use crate::build::star::gather;
use crate::error::FlowError;
use crate::graph::{Lane, Member, Site};
use crate::prove::Proved;

/// The encoding star: data sites → archiver → one edge to each site that writes.
///
/// # Errors
/// As [`build`](super::build).
pub fn star(encode: &EncodeRequest<'_>) -> Result<Proved, FlowError> {
    let (centre, request) = (Some(encode.archiver), encode.repair(Some(encode.archiver)));
    request.prove(around(&request, request.shares()?, encode.archiver, &encode.groups(centre))?)
}

/// The star around a site, whatever it has and writes itself.
pub(super) fn around(
    request: &RepairRequest<'_>,
    shares: Vec<Share>,
    centre: Site,
    groups: &[(Site, Vec<Member>)],
) -> Result<Lane, FlowError> {
    let mut lane = Lane { stages: Vec::new(), edges: Vec::new() };
    gather(request, shares, &mut lane, centre, Vec::new())?;
    scatter(request, &mut lane, groups)?;
    Ok(lane)
}
