//! A flow run on bytes, slowly and obviously right: what the executor and its shortcuts are held against.
//!
//! ```text
//!   blocks as they are stored ──▶ every stage of a lane in turn, one multiplication at a time ──▶ symbols
//!                                          │
//!                                          └─▶ what each row of each edge carries
//! ```
//!
//! Nothing is fused, cut into chunks or checked by a fingerprint here. Lengths are kept as the executor keeps them: an
//! edge carries a row up to its extent, and a byte that would get lost behind it is an error.

use std::collections::BTreeMap;
use std::ops::Range;

use gf::Field;

use crate::error::FlowError;
use crate::extent::edge_extents;
use crate::graph::{Flow, Geometry, Input, Lane, Member, Output, Stage, Symbol};
use crate::runs::deal;

/// What a lane makes of a part of every symbol.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Carried {
    /// Of every edge, what each of its rows carries: zeros at its end are not sent.
    pub edges: Vec<Vec<Vec<u8>>>,
    /// What is written or read, with its zeros.
    pub ends: Vec<(Symbol, Vec<u8>)>,
}

/// What a flow makes of the slices that were granted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    geometry: Geometry,
    /// Every symbol that is written or read; zeros where nothing was granted.
    pub symbols: BTreeMap<Symbol, Vec<u8>>,
    /// Payload bytes by lane and edge.
    pub edge_bytes: Vec<Vec<u64>>,
}

impl Outcome {
    /// A block that was written, of `stored_bytes`.
    ///
    /// # Errors
    /// [`FlowError::UnknownBlock`] if the flow does not write it, [`FlowError::LostBytes`] if it is longer.
    pub fn block(&self, member: Member, stored_bytes: u64) -> Result<Vec<u8>, FlowError> {
        let symbol = |index| self.symbols.get(&Symbol { member, index }).map(Vec::as_slice);
        let symbols: Option<Vec<&[u8]>> = (0..self.geometry.alpha).map(symbol).collect();
        let mut bytes = symbols.ok_or(FlowError::UnknownBlock { member })?.concat();
        let lost = bytes.split_off(bytes.len().min(stored_bytes as usize));
        if lost.iter().any(|&byte| byte != 0) { Err(FlowError::LostBytes { member }) } else { Ok(bytes) }
    }
}

/// Runs `flow` over `slices`, which are [dealt](deal) to its lanes. `blocks` gives the stored bytes of what is read, and
/// those that the client brings.
///
/// # Errors
/// As [`lane`].
///
/// # Panics
/// As slices do, if the flow is not [valid](crate::validate::validate).
pub fn run<'b>(
    flow: &Flow,
    slices: Range<u64>,
    blocks: impl Fn(Member) -> Option<&'b [u8]>,
) -> Result<Outcome, FlowError> {
    let geometry = flow.geometry;
    let symbol_bytes = geometry.symbol_bytes();
    let edge_bytes = flow.lanes.iter().map(|lane| vec![0; lane.edges.len()]).collect();
    let mut outcome = Outcome { geometry, symbols: BTreeMap::new(), edge_bytes };
    for run in deal(geometry, &flow.lane_shares(), [slices]) {
        let [from, to] = [run.slices.start, run.slices.end]
            .map(|slice| (slice * u64::from(geometry.slice_bytes)).min(symbol_bytes));
        let carried = lane(flow, &flow.lanes[run.lane], from..to, &blocks)?;
        for (sum, rows) in outcome.edge_bytes[run.lane].iter_mut().zip(&carried.edges) {
            *sum += rows.iter().map(|row| row.len() as u64).sum::<u64>();
        }
        for (symbol, bytes) in carried.ends {
            let whole = outcome.symbols.entry(symbol).or_insert_with(|| vec![0; symbol_bytes as usize]);
            whole[from as usize..to as usize].copy_from_slice(&bytes);
        }
    }
    Ok(outcome)
}

/// Runs one lane of `flow` over the bytes `part` of every symbol.
///
/// # Errors
/// [`FlowError::UnknownBlock`] for a block that `blocks` does not give or that is longer than its symbols,
/// [`FlowError::CutOff`] if an edge's extent is too short.
///
/// # Panics
/// As slices do, if the flow is not [valid](crate::validate::validate).
pub fn lane<'b>(
    flow: &Flow,
    lane: &Lane,
    part: Range<u64>,
    blocks: impl Fn(Member) -> Option<&'b [u8]>,
) -> Result<Carried, FlowError> {
    let (geometry, bytes) = (flow.geometry, (part.end - part.start) as usize);
    let extents = edge_extents(geometry, lane, |member| blocks(member).map_or(0, |b| b.len() as u64));
    let mut carried = Carried { edges: vec![Vec::new(); lane.edges.len()], ends: Vec::new() };
    for stage in &lane.stages {
        let inputs = taken(geometry, stage, &part, &carried, &blocks)?;
        let combined = |row| combine(flow.field, stage.matrix.row(row), &inputs, bytes);
        let made: Vec<Vec<u8>> = (0..stage.matrix.rows()).map(combined).collect();
        let mut made = made.into_iter();
        for output in &stage.outputs {
            let symbols = match output {
                Output::Write { member } => symbols_of(*member, geometry),
                Output::Read { symbols } => symbols.clone(),
                Output::Edge(edge) => {
                    let extents = &extents[usize::from(edge.0)];
                    for (mut row, extent) in extents.iter().map_while(|e| Some((made.next()?, e))) {
                        let sent = extent.clamp(&part.start, &part.end) - part.start;
                        if row.split_off(sent as usize).iter().any(|&byte| byte != 0) {
                            return Err(FlowError::CutOff { edge: *edge });
                        }
                        carried.edges[usize::from(edge.0)].push(row);
                    }
                    continue;
                }
            };
            carried.ends.extend(symbols.into_iter().map_while(|symbol| Some((symbol, made.next()?))));
        }
    }
    Ok(carried)
}

fn symbols_of(member: Member, geometry: Geometry) -> Vec<Symbol> {
    (0..geometry.alpha).map(|index| Symbol { member, index }).collect()
}

/// The input rows of a stage, each as long as it is stored or was sent.
fn taken<'a, 'b: 'a>(
    geometry: Geometry,
    stage: &Stage,
    part: &Range<u64>,
    carried: &'a Carried,
    blocks: impl Fn(Member) -> Option<&'b [u8]>,
) -> Result<Vec<&'a [u8]>, FlowError> {
    let mut rows: Vec<&[u8]> = Vec::new();
    for input in &stage.inputs {
        let symbols = match input {
            Input::Edge(edge) => {
                rows.extend(carried.edges[usize::from(edge.0)].iter().map(Vec::as_slice));
                continue;
            }
            Input::Local { member, symbols } => {
                symbols.iter().map(|&index| Symbol { member: *member, index }).collect()
            }
            Input::Source { member } => symbols_of(*member, geometry),
        };
        let most = geometry.symbol_bytes() * u64::from(geometry.alpha);
        for Symbol { member, index } in symbols {
            let block = blocks(member).filter(|block| block.len() as u64 <= most);
            let block = block.ok_or(FlowError::UnknownBlock { member })?;
            let base = u64::from(index) * geometry.symbol_bytes();
            let [from, to] = [part.start, part.end].map(|at| (base + at).min(block.len() as u64) as usize);
            rows.push(&block[from..to]);
        }
    }
    Ok(rows)
}

/// The sum of `inputs` multiplied by `coefficients`, of `bytes` bytes; an input may be shorter, and its rest is zero.
pub fn combine(field: Field, coefficients: &[u16], inputs: &[&[u8]], bytes: usize) -> Vec<u8> {
    let mut sum = vec![0; bytes];
    for (&coefficient, input) in coefficients.iter().zip(inputs).filter(|&(&c, _)| c != 0) {
        let products: Vec<u8> = (0..256).map(|byte| field.mul(coefficient, byte) as u8).collect();
        sum.iter_mut().zip(*input).for_each(|(sum, &byte)| *sum ^= products[usize::from(byte)]);
    }
    sum
}
