//! Partial-parallel repair (PPR; RP §2.2, Fig. 2(b)): a binary reduction tree. In each timeslot neighbours pair
//! up and the left one sends its partial sum to the right one, which adds it to its own; the requestor, the last
//! in the row, is the root.
//!
//! ```text
//!   timeslot 1     b1 ──▶ b2     b3 ──▶ b4              R
//!   timeslot 2            b2 ─────────▶ b4              R
//!   timeslot 3                          b4 ──[sum]────▶ R
//! ```
//!
//! Where whole combined blocks are forwarded, k helpers take ⌈log2(k+1)⌉ timeslots; streamed in slices, the
//! tree's largest in-degree: 2 at k = 6, 3 at k = 8 … 12.

use super::columns::{Column, enliven, matrix, pass};
use super::request::{RepairRequest, Share};
use crate::error::FlowError;
use crate::graph::{Edge, EdgeId, Input, Lane, Output, Stage, StageId};
use crate::prove::Proved;

/// Helpers in the given order, then the requestor, reduced pair by pair. A block that the requestor's site
/// stores is added there. A stage lists its incoming edges in the order of their timeslots, which is the order
/// in which it takes them.
///
/// # Errors
/// As [`build`](super::build).
pub fn tree(request: &RepairRequest<'_>) -> Result<Proved, FlowError> {
    let outputs = request.outputs()?;
    let row = request.row()?;
    let width = request.wanted.len();
    let edges = pairings(row.len(), width);
    let mut stages: Vec<Stage> = Vec::new();
    // Per stage, the rows of its sum to which something contributes.
    let mut live: Vec<Vec<bool>> = Vec::new();
    for (index, share) in row.into_iter().enumerate() {
        let at = StageId(index as u16);
        let mut inputs = Vec::new();
        let mut columns: Vec<Column> = Vec::new();
        let mut contributed = vec![false; width];
        for (id, edge) in (0..).map(EdgeId).zip(&edges).filter(|(_, edge)| edge.to == at) {
            inputs.push(Input::Edge(id));
            let passed = pass(&live[usize::from(edge.from.0)]);
            enliven(&mut contributed, &passed);
            columns.extend(passed);
        }
        let Share { site, inputs: own, columns: own_columns } = share;
        enliven(&mut contributed, &own_columns);
        live.push(contributed);
        inputs.extend(own);
        columns.extend(own_columns);
        let outputs = match (0..).map(EdgeId).zip(&edges).find(|(_, edge)| edge.from == at) {
            Some((id, _)) => vec![Output::Edge(id)],
            None => outputs.clone(),
        };
        let matrix = matrix(request.code.field(), width, &columns)?;
        stages.push(Stage { site, inputs, outputs, matrix });
    }
    request.prove(Lane { stages, edges })
}

/// Streams that each of k helpers in a row receives, by its place.
pub(super) fn received(k: usize) -> Vec<usize> {
    let edges = pairings(k + 1, 1);
    (0..k).map(|place| edges.iter().filter(|edge| usize::from(edge.to.0) == place).count()).collect()
}

/// The edges of the reduction of `count` stages to the last one, timeslot by timeslot. The last stage sits a timeslot
/// out if it finds no partner, so that the root stays the last.
fn pairings(count: usize, width: usize) -> Vec<Edge> {
    let mut edges = Vec::new();
    let mut left: Vec<u16> = (0..count as u16).collect();
    while left.len() > 1 {
        let mut kept = Vec::new();
        for pair in left.chunks(2) {
            if let [from, to] = *pair {
                edges.push(Edge { from: StageId(from), to: StageId(to), rows: width as u16 });
            }
            kept.extend(pair.last());
        }
        left = kept;
    }
    edges
}
