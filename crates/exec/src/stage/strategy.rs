//! How a stage combines: chosen once, when it opens, by its shape and by what its flow's header says.

use super::inputs::{Inputs, RowAt};
use super::outputs::{Destination, Outputs};
use crate::connection::in_parts;
use flow::bound::FlowHeader;
use gf::Matrix;
use model::{Cause, Fault};

/// What is done with every slice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Strategy {
    /// Plain chains whose slices share frames (`frame.rs`).
    Frame(Place),
    /// Long slices of a stage that only reads, sent while they are read (`accumulate.rs`).
    Stream,
    /// Other long slices, summed as they arrive (`accumulate.rs`).
    Accumulate,
    /// A hop, combined where it arrived (`hop.rs`), unless the own block is longer there.
    InPlace(Hop),
    /// Any shape, chunk by chunk (`combine.rs`).
    Combine,
}

/// Where a stage stands in a plain chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    First { coefficient: u8 },
    Between(Hop),
    Last,
}

/// A stage of a chain: one incoming row, which goes on as it is, one row of a local block, one outgoing row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Hop {
    /// The input row that arrives.
    pub(crate) edge: usize,
    /// The input row of the local block.
    pub(crate) local: usize,
    /// Which of the block's rows it is.
    pub(crate) block_row: usize,
    /// What it is multiplied by.
    pub(crate) coefficient: u8,
}

impl Strategy {
    pub(crate) fn choose(
        header: &FlowHeader,
        inputs: &Inputs,
        outputs: &Outputs,
        matrix: &Matrix,
    ) -> Result<Strategy, Fault> {
        let sends_one = matches!(outputs.rows[..], [only] if matches!(only.to, Destination::Outlet { .. }));
        let hop = if sends_one { Hop::of(inputs, matrix) } else { None };
        if header.frame_slices > 1 {
            let place = match inputs.rows[..] {
                [RowAt::Local { .. }] => Some(Place::First { coefficient: matrix.get(0, 0) as u8 }),
                [RowAt::Frame { .. }] => Some(Place::Last),
                _ => hop.map(Place::Between),
            };
            let bug = || Fault::new(Cause::Bug, "a stage of no plain chain shares frames");
            return place.map(Strategy::Frame).ok_or_else(bug);
        }
        if in_parts(header) {
            // What the fingerprints of its one frame will be is known beforehand.
            let only_reads = inputs.rows.iter().all(|row| matches!(row, RowAt::Local { .. }));
            let streams = header.verify && only_reads && sends_one;
            return Ok(if streams { Strategy::Stream } else { Strategy::Accumulate });
        }
        Ok(hop.map_or(Strategy::Combine, Strategy::InPlace))
    }
}

impl Hop {
    fn of(inputs: &Inputs, matrix: &Matrix) -> Option<Hop> {
        let (edge, local, block_row) = match inputs.rows[..] {
            [RowAt::Frame { .. }, RowAt::Local { row, .. }] => (0, 1, row),
            [RowAt::Local { row, .. }, RowAt::Frame { .. }] => (1, 0, row),
            _ => return None,
        };
        let coefficient = matrix.get(0, local) as u8;
        (matrix.get(0, edge) == 1).then_some(Hop { edge, local, block_row, coefficient })
    }
}
