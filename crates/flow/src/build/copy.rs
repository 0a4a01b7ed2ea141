//! One edge: a block move, or a read of a healthy block.

use codes::Code;
use gf::Matrix;

use super::request::{Sink, write_outputs};
use crate::error::FlowError;
use crate::graph::{Edge, EdgeId, Flow, Geometry, Input, Lane, Member, Output, Site, Stage, StageId, Symbol};
use crate::prove::{Proved, prove};

/// Sends `symbols`, all stored at `from`, to `to`, which writes whole blocks or hands the symbols to the
/// driver. If `from` is `to` (a local read) there is no edge.
///
/// # Errors
/// [`FlowError::NothingWanted`], [`FlowError::WantedTwice`], [`FlowError::PartialWrite`], or a symbol that
/// the code does not have.
pub fn copy(
    code: &Code,
    geometry: Geometry,
    symbols: &[Symbol],
    from: Site,
    to: Site,
    sink: Sink,
) -> Result<Proved, FlowError> {
    if symbols.is_empty() {
        return Err(FlowError::NothingWanted);
    }
    if let Some(i) = (1..symbols.len()).find(|&i| symbols[..i].contains(&symbols[i])) {
        return Err(FlowError::WantedTwice { symbol: symbols[i] });
    }
    let outputs = match sink {
        Sink::Read => vec![Output::Read { symbols: symbols.to_vec() }],
        Sink::Write => write_outputs(symbols, code.alpha())?,
    };
    let identity = Matrix::identity(code.field(), symbols.len());
    let stage = |site, inputs, outputs| Stage { site, inputs, outputs, matrix: identity.clone() };
    let lane = if from == to {
        Lane { stages: vec![stage(from, locals(symbols), outputs)], edges: Vec::new() }
    } else {
        let edge = EdgeId(0);
        let sender = stage(from, locals(symbols), vec![Output::Edge(edge)]);
        let receiver = stage(to, vec![Input::Edge(edge)], outputs);
        let rows = symbols.len() as u16;
        Lane { stages: vec![sender, receiver], edges: vec![Edge { from: StageId(0), to: StageId(1), rows }] }
    };
    prove(Flow::of_one(code.field(), geometry, lane), code, &[])
}

/// Runs of symbols of one block become one input each.
fn locals(symbols: &[Symbol]) -> Vec<Input> {
    let run = |run: &[Symbol]| {
        let member: Member = run[0].member;
        Input::Local { member, symbols: run.iter().map(|symbol| symbol.index).collect() }
    };
    symbols.chunk_by(|a, b| a.member == b.member).map(run).collect()
}
