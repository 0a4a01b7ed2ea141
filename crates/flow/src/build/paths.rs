//! Several pipelines at once (ours; RP §4.3 takes one): each lane is a chain of its own over helpers of its own, and
//! carries slices in proportion to its rate. The planner finds the paths and their rates: a flow knows no links.

use super::chain::along;
use super::request::RepairRequest;
use crate::error::FlowError;
use crate::graph::{Lane, Site};
use crate::prove::Proved;

/// The helpers of one lane in their order, and the lane's share of the slices, at least 1.
pub type PathShare = (Vec<Site>, u32);

/// One chain along each of `paths`, all to the requestor. A path names sites of the request's helpers; only those of
/// their blocks are read that its equation needs. Blocks at the requestor's own site take part in every lane.
///
/// # Errors
/// As [`build`](super::build), of the first path whose helpers do not suffice too.
pub fn paths(request: &RepairRequest<'_>, paths: &[PathShare]) -> Result<Proved, FlowError> {
    let lane = |(path, _): &PathShare| -> Result<Lane, FlowError> {
        let at = |site: Site| request.helpers.iter().filter(move |helper| helper.site == site).copied();
        let mut helpers: Vec<_> = [request.requestor].iter().chain(path).flat_map(|&site| at(site)).collect();
        // Blocks of which nothing is stored cost nothing, wherever they are.
        helpers.extend(request.helpers.iter().filter(|helper| helper.stored_bytes == 0));
        let lane = RepairRequest { helpers: &helpers, ..request.clone() };
        along(&lane, lane.row()?)
    };
    let lanes = paths.iter().map(lane).collect::<Result<Vec<Lane>, FlowError>>()?;
    request.prove_lanes(lanes, paths.iter().map(|&(_, share)| share).collect())
}
