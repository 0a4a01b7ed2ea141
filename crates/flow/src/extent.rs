//! How much of a block, symbol or row can be nonzero: bytes past an extent are zero, and are neither stored
//! nor sent.

use codes::{Code, CodeError};

use crate::error::FlowError;
use crate::graph::{Geometry, Input, Lane, Member, Output};

/// Stored length in bytes of `member`, given those of the blocks that hold the data symbols: up to the last byte that
/// can be nonzero. For α = 1 it is that of the longest data block that counts. For α > 1 a parity's last symbol is as
/// long as the longest symbol it sums, so a parity can exceed the logical block length, up to α whole symbols.
///
/// # Errors
/// [`FlowError::Code`] if the code does not store its data, or has no such block.
pub fn stored_bytes(
    code: &Code,
    geometry: Geometry,
    member: Member,
    data: impl Fn(Member) -> u64,
) -> Result<u64, FlowError> {
    let places =
        code.data_symbols().ok_or_else(|| CodeError::DataNotStored { code: code.name().to_owned() })?;
    let rows = code.rows(&code.symbols_of(&[usize::from(member.0)])?)?;
    let mut stored = 0;
    for index in 0..geometry.alpha.min(rows.rows() as u16) {
        let summed = rows.row(usize::from(index)).iter().zip(&places).filter(|&(&c, _)| c != 0);
        let extents = summed.map(|(_, place)| geometry.symbol_extent(place.index, data(Member(place.block))));
        if let Some(extent) = extents.max().filter(|&extent| extent > 0) {
            stored = u64::from(index) * geometry.symbol_bytes() + extent;
        }
    }
    Ok(stored)
}

/// Extent in bytes of every row of every edge of `lane`, given the stored length of every member that it
/// takes: that of a local symbol, and for a sum the largest among the inputs that have a nonzero coefficient.
///
/// # Panics
/// As slices do, if the lane is not [valid](crate::validate::validate).
pub fn edge_extents(geometry: Geometry, lane: &Lane, stored: impl Fn(Member) -> u64) -> Vec<Vec<u64>> {
    let mut extents: Vec<Vec<u64>> = vec![Vec::new(); lane.edges.len()];
    let mut inputs: Vec<u64> = Vec::new();
    for stage in &lane.stages {
        inputs.clear();
        for input in &stage.inputs {
            match input {
                Input::Local { member, symbols } => {
                    inputs.extend(symbols.iter().map(|&i| geometry.symbol_extent(i, stored(*member))));
                }
                Input::Source { member } => {
                    inputs.extend((0..geometry.alpha).map(|i| geometry.symbol_extent(i, stored(*member))));
                }
                Input::Edge(edge) => inputs.extend(&extents[usize::from(edge.0)]),
            }
        }
        let mut row = 0;
        for output in &stage.outputs {
            let rows = row..row + output.rows(lane, geometry.alpha);
            row = rows.end;
            if let Output::Edge(edge) = output {
                let used = |row: usize| inputs.iter().zip(stage.matrix.row(row)).filter(|&(_, &c)| c != 0);
                extents[usize::from(edge.0)] =
                    rows.map(|row| used(row).map(|(&extent, _)| extent).max().unwrap_or(0)).collect();
            }
        }
    }
    extents
}
