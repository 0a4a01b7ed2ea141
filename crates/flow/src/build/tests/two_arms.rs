//! Two chains that meet at the requestor: each carries half of the helpers, so the first slice arrives after half of the
//! hops, and the requestor's link carries two blocks instead of one.
//!
//! ```text
//!   b1 ──▶ b2 ──▶ b3 ──┐
//!                      ├──▶ requestor
//!   b4 ──▶ b5 ──▶ b6 ──┘
//! ```

use crate::build::columns::{Column, enliven, matrix, pass};
use crate::build::request::{RepairRequest, Share};
use crate::error::FlowError;
use crate::graph::{Edge, EdgeId, Input, Lane, Output, Stage, StageId};
use crate::prove::Proved;

/// Helpers in the given order, the first half in one chain, the rest in the other. A block that the requestor's site
/// stores is added there.
///
/// # Errors
/// As [`build`](crate::build::build).
pub fn two_arms(request: &RepairRequest<'_>) -> Result<Proved, FlowError> {
    let row = request.row()?;
    let width = request.wanted.len();
    let root = row.len() - 1;
    let edges = arms(root, width as u16);
    let mut lane = Lane { stages: Vec::with_capacity(row.len()), edges };
    // For each stage so far, the rows of its sum to which some block contributes: only those are passed on.
    let mut live: Vec<Vec<bool>> = Vec::with_capacity(row.len());
    for (at, Share { site, inputs: own, columns: own_columns }) in row.into_iter().enumerate() {
        let mut inputs = Vec::new();
        let mut columns: Vec<Column> = Vec::new();
        let mut contributed = vec![false; width];
        for (id, edge) in (0..).map(EdgeId).zip(&lane.edges).filter(|(_, edge)| usize::from(edge.to.0) == at)
        {
            let passed = pass(&live[usize::from(edge.from.0)]);
            enliven(&mut contributed, &passed);
            inputs.push(Input::Edge(id));
            columns.extend(passed);
        }
        enliven(&mut contributed, &own_columns);
        live.push(contributed);
        inputs.extend(own);
        columns.extend(own_columns);
        // Every helper sends on one edge, and edges are listed in the order of their senders.
        let outputs = if at == root { request.outputs()? } else { vec![Output::Edge(EdgeId(at as u16))] };
        let matrix = matrix(request.code.field(), width, &columns)?;
        lane.stages.push(Stage { site, inputs, outputs, matrix });
    }
    request.prove(lane)
}

/// Streams that each of k helpers receives, by its place.
pub(in crate::build) fn received(k: usize) -> Vec<usize> {
    let receivers = arms(k, 1).into_iter().map(|edge| usize::from(edge.to.0));
    let mut received = vec![0; k + 1];
    receivers.for_each(|place| received[place] += 1);
    received.truncate(k);
    received
}

/// From each of `helpers` stages to the next of its arm, from the last of each arm to the root.
fn arms(helpers: usize, rows: u16) -> Vec<Edge> {
    let half = helpers.div_ceil(2);
    let next = |at: usize| if at + 1 == half || at + 1 == helpers { helpers } else { at + 1 };
    (0..helpers).map(|at| Edge { from: StageId(at as u16), to: StageId(next(at) as u16), rows }).collect()
}
