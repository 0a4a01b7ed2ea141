//! Classical encoding (RP §2.2, EAR §2): one site downloads the data blocks, makes the parities and uploads
//! them.
//!
//! ```text
//!   b0 ──▶┐              ┌──▶ write b3
//!   b1 ──▶┼─ archiver ───┤
//!   b2 (local) ┘         └──▶ write b4
//! ```

use super::{EncodeRequest, scatter};
use crate::build::star::gather;
use crate::error::FlowError;
use crate::graph::{Lane, Site};
use crate::prove::Proved;

/// The encoding star: data sites → archiver → one edge to each site that writes.
///
/// # Errors
/// As [`build`](super::build).
pub fn star(encode: &EncodeRequest<'_>) -> Result<Proved, FlowError> {
    encode.repair(Some(encode.archiver)).prove(at(encode, encode.archiver)?)
}

/// The same with another site in the middle.
pub(super) fn at(encode: &EncodeRequest<'_>, centre: Site) -> Result<Lane, FlowError> {
    let request = encode.repair(Some(centre));
    let mut lane = Lane { stages: Vec::new(), edges: Vec::new() };
    gather(&request, &mut lane, centre, Vec::new())?;
    scatter(&request, &mut lane, &encode.groups(Some(centre)))?;
    Ok(lane)
}
