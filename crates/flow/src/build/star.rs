//! Conventional repair (RP §2.2): every helper sends its raw symbols, the requestor decodes.
//!
//! ```text
//!   b1 ──▶┐
//!   b2 ──▶┼─ decoding matrix ─▶ b0
//!   b3 ──▶┘
//! ```

use super::columns::{Column, matrix};
use super::request::{RepairRequest, Share};
use crate::error::FlowError;
use crate::graph::{Edge, EdgeId, Input, Lane, Output, Site, Stage, StageId};
use crate::prove::Proved;

/// k helpers → requestor. A block that the requestor's site stores is read there.
///
/// # Errors
/// As [`build`](super::build).
pub fn star(request: &RepairRequest<'_>) -> Result<Proved, FlowError> {
    let outputs = request.outputs()?;
    let mut lane = Lane { stages: Vec::new(), edges: Vec::new() };
    gather(request, request.shares()?, &mut lane, request.requestor, outputs)?;
    request.prove(lane)
}

/// The same with the symbols of conventional recovery, those of an XOR code's first parity: a baseline (XOR supplement §3).
///
/// # Errors
/// As [`build`](super::build).
pub fn first_parity(request: &RepairRequest<'_>) -> Result<Proved, FlowError> {
    let outputs = request.outputs()?;
    let mut lane = Lane { stages: Vec::new(), edges: Vec::new() };
    let shares = request
        .shares_by(|wanted, known, available, _| request.code.conventional(wanted, known, available))?;
    gather(request, shares, &mut lane, request.requestor, outputs)?;
    request.prove(lane)
}

/// Adds the sending stages of `shares` and, as last stage, `centre` with the matrix that makes the wanted rows for
/// `outputs`.
pub(super) fn gather(
    request: &RepairRequest<'_>,
    shares: Vec<Share>,
    lane: &mut Lane,
    centre: Site,
    outputs: Vec<Output>,
) -> Result<(), FlowError> {
    let field = request.code.field();
    let (local, remote): (Vec<Share>, Vec<Share>) =
        shares.into_iter().partition(|share| share.site == centre);
    let to = StageId(remote.len() as u16);
    let mut inputs = Vec::new();
    let mut columns: Vec<Column> = Vec::new();
    for (index, mut share) in remote.into_iter().enumerate() {
        let edge = EdgeId(index as u16);
        let rows = share.columns.len();
        lane.edges.push(Edge { from: StageId(index as u16), to, rows: rows as u16 });
        lane.stages.push(Stage {
            site: share.site,
            inputs: share.inputs,
            outputs: vec![Output::Edge(edge)],
            matrix: gf::Matrix::identity(field, rows),
        });
        inputs.push(Input::Edge(edge));
        columns.append(&mut share.columns);
    }
    for mut share in local {
        inputs.append(&mut share.inputs);
        columns.append(&mut share.columns);
    }
    let matrix = matrix(field, request.wanted.len(), &columns)?;
    lane.stages.push(Stage { site: centre, inputs, outputs, matrix });
    Ok(())
}
