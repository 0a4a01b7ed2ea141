//! Proof that a flow computes what it says, before it runs.
//!
//! Each lane is executed on coefficient vectors: a local symbol is its row of the code's generator, a stage
//! multiplies, and each output row must be the generator row of the symbol it claims to be. As stages are
//! linear, that settles it for any bytes. Absent blocks are zero, so the data they stand for is struck from
//! every vector first.
//!
//! A row that is brought and not used, or always zero and yet used, is refused too: then no coefficient of a
//! proved flow can change without changing an output, and nothing is read or sent for nothing.

use std::ops::Deref;

use codes::Code;
use gf::Matrix;

use crate::error::FlowError;
use crate::graph::{Flow, Input, Lane, Member, Output, Stage, StageId, Symbol};
use crate::validate::{stages, validate};

/// A flow whose outputs were proved equal to the wanted symbols. Only such flows may be sent to nodes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Proved(Flow);

impl Proved {
    /// The flow itself; it can no longer claim to be proved once taken out.
    pub fn into_inner(self) -> Flow {
        self.0
    }
}

impl Deref for Proved {
    type Target = Flow;

    fn deref(&self) -> &Flow {
        &self.0
    }
}

/// Validates `flow` and proves all its lanes against `code`, given that the `absent` blocks are all zero.
///
/// # Errors
/// [`FlowError::WrongOutput`] or [`FlowError::IdleRow`] naming the place, [`FlowError::NotAllZero`] if
/// `absent` includes a block to which present data contributes, or what [`validate`] finds.
pub fn prove(flow: Flow, code: &Code, absent: &[Member]) -> Result<Proved, FlowError> {
    validate(&flow, code)?;
    let present = Present::new(code, absent)?;
    for (index, lane) in flow.lanes.iter().enumerate() {
        prove_lane(&flow, lane, index, &present)?;
    }
    Ok(Proved(flow))
}

/// The code's generator with the columns of absent data struck out.
pub(crate) struct Present<'a> {
    code: &'a Code,
    struck: Vec<bool>,
}

impl<'a> Present<'a> {
    pub(crate) fn new(code: &'a Code, absent: &[Member]) -> Result<Self, FlowError> {
        let mut present = Present { code, struck: vec![false; code.generator().cols()] };
        let symbols = |member: Member| (0..code.alpha() as u16).map(move |index| Symbol { member, index });
        for symbol in absent.iter().copied().flat_map(symbols) {
            let row = present.checked_row(symbol)?;
            // A symbol that is one data symbol (systematic): its being zero is that data's being zero.
            if let (Some(data), 1) =
                (row.iter().position(|&c| c != 0), row.iter().filter(|&&c| c != 0).count())
            {
                present.struck[data] = true;
            }
        }
        for symbol in absent.iter().copied().flat_map(symbols) {
            if present.row(symbol).iter().any(|&c| c != 0) {
                return Err(FlowError::NotAllZero { member: symbol.member });
            }
        }
        Ok(present)
    }

    fn checked_row(&self, symbol: Symbol) -> Result<Vec<u16>, FlowError> {
        if usize::from(symbol.member.0) >= self.code.n() {
            return Err(FlowError::NotAllZero { member: symbol.member });
        }
        Ok(self.row(symbol))
    }

    /// Coefficients of an existing symbol over the data that is present.
    pub(crate) fn row(&self, symbol: Symbol) -> Vec<u16> {
        let row = self.code.symbol_row(symbol.member.0, symbol.index);
        row.iter().zip(&self.struck).map(|(&c, &struck)| if struck { 0 } else { c }).collect()
    }

    fn block(&self, member: Member) -> impl Iterator<Item = Symbol> + use<> {
        (0..self.code.alpha() as u16).map(move |index| Symbol { member, index })
    }
}

fn prove_lane(flow: &Flow, lane: &Lane, index: usize, present: &Present<'_>) -> Result<(), FlowError> {
    let mut streams: Vec<Vec<Vec<u16>>> = vec![Vec::new(); lane.edges.len()];
    for (id, stage) in stages(lane) {
        let inputs: Vec<Vec<Vec<u16>>> = stage
            .inputs
            .iter()
            .map(|input| match input {
                Input::Local { member, symbols } => {
                    symbols.iter().map(|&index| present.row(Symbol { member: *member, index })).collect()
                }
                Input::Source { member } => {
                    present.block(*member).map(|symbol| present.row(symbol)).collect()
                }
                Input::Edge(edge) => std::mem::take(&mut streams[usize::from(edge.0)]),
            })
            .collect();
        no_idle_row(stage, &inputs, index, id)?;
        let vectors = Matrix::from_rows(flow.field, &inputs.concat())?;
        let made = stage.matrix.mul(&vectors)?;
        let mut next = 0;
        for (output, sink) in stage.outputs.iter().enumerate() {
            let rows = sink.rows(lane, flow.geometry.alpha);
            let made_rows = (next..next + rows).map(|row| made.row(row));
            next += rows;
            let claimed: Vec<Symbol> = match sink {
                Output::Edge(edge) => {
                    streams[usize::from(edge.0)] = made_rows.map(<[u16]>::to_vec).collect();
                    continue;
                }
                Output::Write { member } => present.block(*member).collect(),
                Output::Read { symbols } => symbols.clone(),
            };
            for (row, (symbol, made)) in claimed.into_iter().zip(made_rows).enumerate() {
                if made != present.row(symbol) {
                    return Err(FlowError::WrongOutput { lane: index, stage: id, output, row, symbol });
                }
            }
        }
    }
    Ok(())
}

/// A row is zero exactly if no output uses it.
fn no_idle_row(stage: &Stage, inputs: &[Vec<Vec<u16>>], lane: usize, id: StageId) -> Result<(), FlowError> {
    let mut column = 0;
    for (input, rows) in inputs.iter().enumerate() {
        for (row, vector) in rows.iter().enumerate() {
            let used = !stage.matrix.is_zero_col(column);
            let zero = vector.iter().all(|&c| c == 0);
            if used == zero {
                return Err(FlowError::IdleRow { lane, stage: id, input, row });
            }
            column += 1;
        }
    }
    Ok(())
}
