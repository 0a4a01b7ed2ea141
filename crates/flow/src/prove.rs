//! Proof that a flow computes what it says, before it runs.
//!
//! Each lane is executed on coefficient vectors: a local symbol is its row of the code's generator, a stage
//! multiplies, and each output row must be the generator row of the symbol it claims to be. As stages are
//! linear, that settles it for any bytes. Absent blocks are zero, so the data they stand for is struck from
//! every vector first. Outputs are compared modulo what follows from other blocks that are zero.
//!
//! A row that is brought and not used, or always zero and yet used, is refused too: then no coefficient of a
//! proved flow can change without changing an output, and nothing is read or sent for nothing. A row that is zero
//! only by those other blocks may be used: whether one is depends on the data of this stripe alone.

use std::borrow::Cow;
use std::ops::Deref;

use crate::error::FlowError;
use crate::graph::{Flow, Input, Lane, Member, Output, Stage, StageId, Symbol};
use crate::validate::{stages, validate};
use codes::Code;
use gf::Field;

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
    prove_with(flow, code, absent, &[])
}

/// Proves a flow given that the `empty` blocks are all zero too, for whatever reason.
///
/// # Errors
/// As [`prove`].
pub(crate) fn prove_with(
    flow: Flow,
    code: &Code,
    absent: &[Member],
    empty: &[Member],
) -> Result<Proved, FlowError> {
    validate(&flow, code)?;
    let present = Present::new(code, absent, empty)?;
    for (index, lane) in flow.lanes.iter().enumerate() {
        prove_lane(&flow, lane, index, &present)?;
    }
    Ok(Proved(flow))
}

/// The code's generator with the columns of absent data struck out, modulo what is known to be zero.
pub(crate) struct Present<'a> {
    code: &'a Code,
    struck: Vec<bool>,
    /// Rows that are zero, each with its first column that is not, where it has 1.
    zero: Vec<(usize, Vec<u16>)>,
}

impl<'a> Present<'a> {
    pub(crate) fn new(code: &'a Code, absent: &[Member], empty: &[Member]) -> Result<Self, FlowError> {
        let struck = vec![false; code.generator().cols()];
        let mut present = Present { code, struck, zero: Vec::new() };
        let symbols = |member: Member| (0..code.alpha() as u16).map(move |index| Symbol { member, index });
        for symbol in absent.iter().copied().flat_map(symbols) {
            let row = present.checked_row(symbol)?;
            // A symbol that is one data symbol (systematic): if it is zero, that data is zero.
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
        for symbol in empty.iter().copied().flat_map(symbols) {
            let row = present.checked_row(symbol)?;
            present.is_zero(&row);
        }
        Ok(present)
    }

    /// Learns that what a row stands for is zero.
    fn is_zero(&mut self, row: &[u16]) {
        let mut row = self.modulo_zero(row).into_owned();
        let field = self.code.field();
        let Some(pivot) = row.iter().position(|&c| c != 0) else { return };
        let Some(scale) = field.inv(row[pivot]) else { return };
        row.iter_mut().for_each(|c| *c = field.mul(*c, scale));
        self.zero.push((pivot, row));
    }

    fn checked_row(&self, symbol: Symbol) -> Result<Cow<'a, [u16]>, FlowError> {
        if usize::from(symbol.member.0) >= self.code.n() {
            return Err(FlowError::NotAllZero { member: symbol.member });
        }
        Ok(self.row(symbol))
    }

    /// Returns the coefficients of an existing symbol over the data that is present.
    pub(crate) fn row(&self, symbol: Symbol) -> Cow<'a, [u16]> {
        let row = self.code.symbol_row(symbol.member.0, symbol.index);
        match self.struck.contains(&true) {
            false => Cow::Borrowed(row),
            true => row.iter().zip(&self.struck).map(|(&c, &struck)| if struck { 0 } else { c }).collect(),
        }
    }

    /// Returns what is left of a row modulo what is known to be zero.
    fn modulo_zero<'r>(&self, row: &'r [u16]) -> Cow<'r, [u16]> {
        if self.zero.is_empty() {
            return Cow::Borrowed(row);
        }
        let mut row = row.to_vec();
        // Each was reduced by those before it, so one pass leaves nothing of any pivot.
        for (pivot, zero) in &self.zero {
            let factor = row[*pivot];
            self.code.field().add_multiple(&mut row, factor, zero);
        }
        Cow::Owned(row)
    }

    /// Whether an existing symbol is known to be zero.
    pub(crate) fn says_zero(&self, symbol: Symbol) -> bool {
        self.modulo_zero(&self.row(symbol)).iter().all(|&c| c == 0)
    }

    fn block(&self, member: Member) -> impl Iterator<Item = Symbol> + use<> {
        (0..self.code.alpha() as u16).map(move |index| Symbol { member, index })
    }
}

/// The vector of coefficients that a row of an input stands for.
enum Vector<'a> {
    /// The row of a stored symbol.
    Stored(Cow<'a, [u16]>),
    /// One that a stage has made, by its number.
    Made(usize),
}

/// Rows that stages have made, one after another, `width` coefficients each.
struct Made {
    width: usize,
    cells: Vec<u16>,
}

impl Made {
    fn count(&self) -> usize {
        self.cells.len() / self.width.max(1)
    }

    fn row(&self, number: usize) -> &[u16] {
        &self.cells[number * self.width..(number + 1) * self.width]
    }

    /// Adds the combination of `vectors` by `coefficients`.
    fn combine(&mut self, field: Field, coefficients: &[u16], vectors: &[Vector<'_>]) {
        let start = self.cells.len();
        self.cells.resize(start + self.width, 0);
        let (before, sum) = self.cells.split_at_mut(start);
        for (&coefficient, vector) in coefficients.iter().zip(vectors) {
            let vector = match vector {
                Vector::Stored(row) => row,
                Vector::Made(number) => &before[number * self.width..(number + 1) * self.width],
            };
            field.add_multiple(sum, coefficient, vector);
        }
    }
}

fn prove_lane(flow: &Flow, lane: &Lane, index: usize, present: &Present<'_>) -> Result<(), FlowError> {
    let alpha = flow.geometry.alpha;
    let mut made = Made { width: present.struck.len(), cells: Vec::new() };
    made.cells.reserve(made.width * (lane.edges.len() + 1));
    // The rows of each edge, by their numbers.
    let mut streams = vec![0..0; lane.edges.len()];
    let mut inputs: Vec<Vector<'_>> = Vec::new();
    for (id, stage) in stages(lane) {
        inputs.clear();
        for input in &stage.inputs {
            match input {
                Input::Local { member, symbols } => inputs.extend(
                    symbols
                        .iter()
                        .map(|&index| Vector::Stored(present.row(Symbol { member: *member, index }))),
                ),
                Input::Source { member } => {
                    inputs.extend(present.block(*member).map(|symbol| Vector::Stored(present.row(symbol))));
                }
                Input::Edge(edge) => inputs.extend(streams[usize::from(edge.0)].clone().map(Vector::Made)),
            }
        }
        no_idle_row(stage, lane, alpha, (&inputs, &made), index, id)?;
        let mut next = 0;
        for (output, sink) in stage.outputs.iter().enumerate() {
            let rows = next..next + sink.rows(lane, alpha);
            next = rows.end;
            let first = made.count();
            for row in rows {
                made.combine(flow.field, stage.matrix.row(row), &inputs);
            }
            let claimed: Vec<Symbol> = match sink {
                Output::Edge(edge) => {
                    streams[usize::from(edge.0)] = first..made.count();
                    continue;
                }
                Output::Write { member } => present.block(*member).collect(),
                Output::Read { symbols } => symbols.clone(),
            };
            for (row, symbol) in claimed.into_iter().enumerate() {
                let claimed = present.row(symbol);
                if present.modulo_zero(made.row(first + row)) != present.modulo_zero(&claimed) {
                    return Err(FlowError::WrongOutput { lane: index, stage: id, output, row, symbol });
                }
            }
        }
    }
    Ok(())
}

/// A row is zero exactly if no output uses it.
fn no_idle_row(
    stage: &Stage,
    lane: &Lane,
    alpha: u16,
    (vectors, made): (&[Vector<'_>], &Made),
    index: usize,
    id: StageId,
) -> Result<(), FlowError> {
    let mut column = 0;
    for (input, source) in stage.inputs.iter().enumerate() {
        for row in 0..source.rows(lane, alpha) {
            let used = !stage.matrix.is_zero_col(column);
            let zero = match &vectors[column] {
                Vector::Stored(row) => row.iter().all(|&c| c == 0),
                Vector::Made(number) => made.row(*number).iter().all(|&c| c == 0),
            };
            if used == zero {
                return Err(FlowError::IdleRow { lane: index, stage: id, input, row });
            }
            column += 1;
        }
    }
    Ok(())
}
