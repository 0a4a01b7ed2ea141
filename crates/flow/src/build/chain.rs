//! Repair pipelining (RP §3.2): each helper adds its part to the partial sums it receives and passes them on;
//! the requestor gets the result.
//!
//! ```text
//!   b1 ──[C1]──▶ b2 ──[I|C2]──▶ … ──▶ bk ──[I|Ck]──▶ requestor [I]
//! ```
//!
//! Several wanted rows travel side by side: f lost blocks (RP §4.4) or α symbols.

use super::columns::{enliven, passing};
use super::request::{RepairRequest, Share};
use crate::error::FlowError;
use crate::graph::{Edge, EdgeId, Input, Lane, Output, Stage, StageId};
use crate::prove::Proved;

/// N1 → N2 → … → Nk → requestor, in the order of the helpers. A block that the requestor's site stores is
/// added there.
///
/// # Errors
/// As [`build`](super::build).
pub fn chain(request: &RepairRequest<'_>) -> Result<Proved, FlowError> {
    request.prove(along(request, request.row()?)?)
}

/// The lane along `path`, whose last share is the requestor's.
pub(super) fn along(request: &RepairRequest<'_>, path: Vec<Share>) -> Result<Lane, FlowError> {
    let mut outputs = request.outputs()?;
    let width = request.wanted.len();
    let hops = path.len().saturating_sub(1);
    // Rows of the partial sum to which some stage so far contributed.
    let mut live = vec![false; width];
    let mut lane = Lane { stages: Vec::with_capacity(path.len()), edges: Vec::with_capacity(hops) };
    for (index, Share { site, inputs: own, columns }) in path.into_iter().enumerate() {
        let passed = if index > 0 { width } else { 0 };
        let mut inputs = Vec::with_capacity(own.len() + 1);
        if index > 0 {
            inputs.push(Input::Edge(EdgeId(index as u16 - 1)));
        }
        inputs.extend(own);
        let matrix = passing(request.code.field(), &live[..passed], width, &columns)?;
        enliven(&mut live, &columns);
        let outputs = if index < hops {
            let (from, to) = (StageId(index as u16), StageId(index as u16 + 1));
            lane.edges.push(Edge { from, to, rows: width as u16 });
            vec![Output::Edge(EdgeId(index as u16))]
        } else {
            std::mem::take(&mut outputs)
        };
        lane.stages.push(Stage { site, inputs, outputs, matrix });
    }
    Ok(lane)
}
