//! Slices that share a frame: those of plain chains, where the header and fingerprint of every slice would cost more time
//! than all else that a chain takes beyond a direct send (192 bytes in 32 KiB: 0.6 %).
//!
//! A slice stays what it is, the unit that is combined and sent on: a hop sends each slice of a frame as soon as it has it.
//! It can, because it knows the frame's fingerprint before the payload: that of what arrives is in the frame's head, that of
//! its own block in the sidecar. Only the last slice of a frame waits until the frame was checked, so that nobody gets a
//! whole frame from a hop that received a wrong one, and whoever finds a fault names the edge on which it happened.

use crate::spec::{EdgeEnd, FlowHeader, InputSpec, OutputSpec};
use flow::limits;
use flow::{Input, Lane, Member, Output, Proved};
use gf::{CHUNK_BYTES, Matrix};
use model::Fault;

/// Payload of a shared frame at most. Twice as much would save 0.07 % of the bytes, and fill a hop's receive buffer.
pub const SHARED_FRAME_BYTES: u32 = 128 * 1024;

/// Slices that share a frame in a flow like this; 1 where they cannot. `extents` are those of the rows of each lane's edges.
pub fn frame_slices(
    flow: &Proved,
    header: &FlowHeader,
    extents: &[Vec<Vec<u64>>],
    stored: impl Fn(Member) -> u64,
) -> u32 {
    let slice_bytes = header.geometry.slice_bytes;
    if !may_share(header) {
        return 1;
    }
    let plain =
        flow.lanes.iter().zip(extents).all(|(lane, extents)| is_plain_chain(header, lane, extents, &stored));
    if plain { SHARED_FRAME_BYTES / slice_bytes } else { 1 }
}

/// Where the frame ends that begins with `slice` in a run that is granted up to `granted_end`.
pub fn frame_end(header: &FlowHeader, slice: u64, granted_end: u64) -> u64 {
    let slices = u64::from(header.frame_slices.max(1));
    (slice / slices + 1).saturating_mul(slices).min(granted_end)
}

/// Whether a header's number of slices a frame can be.
pub fn header_ok(header: &FlowHeader) -> bool {
    let bytes = u64::from(header.frame_slices) * u64::from(header.geometry.slice_bytes);
    header.frame_slices == 1 || (may_share(header) && bytes <= u64::from(SHARED_FRAME_BYTES))
}

fn may_share(header: &FlowHeader) -> bool {
    header.verify
        && !header.serial
        && header.geometry.alpha == 1
        && header.geometry.slice_bytes <= CHUNK_BYTES as u32
        && header.geometry.slice_bytes >= limits::MIN_SLICE_BYTES
}

fn is_plain_chain(
    header: &FlowHeader,
    lane: &Lane,
    extents: &[Vec<u64>],
    stored: impl Fn(Member) -> u64,
) -> bool {
    // One length on all edges: what a hop adds is not longer than what it received.
    let Some([length]) = extents.first().map(Vec::as_slice) else { return false };
    let even = extents.iter().all(|rows| rows == &[*length]);
    let own = |member: Member, symbol: u16| header.geometry.symbol_extent(symbol, stored(member));
    let stage = |stage: &flow::Stage| {
        let inputs = stage.inputs.iter().map(|input| match input {
            Input::Edge(_) => Takes::Edge,
            Input::Local { member, symbols } => match symbols[..] {
                [symbol] if own(*member, symbol) <= *length => Takes::Local,
                _ => Takes::Other,
            },
            Input::Source { .. } => Takes::Other,
        });
        let outputs = stage.outputs.iter().map(|output| match output {
            Output::Edge(_) => Gives::Edge,
            Output::Write { .. } => Gives::End,
            Output::Read { symbols } if symbols.len() == 1 => Gives::End,
            Output::Read { .. } => Gives::Other,
        });
        is_plain(inputs, outputs, &stage.matrix)
    };
    even && lane.stages.iter().all(stage)
}

/// Checks that a stage is one of a plain chain, if its flow's slices share frames.
pub(crate) fn check(
    header: &FlowHeader,
    inputs: &[InputSpec],
    outputs: &[OutputSpec],
    matrix: &Matrix,
) -> Result<(), Fault> {
    if header.frame_slices == 1 {
        return Ok(());
    }
    let ends = inputs.iter().filter_map(|input| match input {
        InputSpec::Edge(end) => Some(end),
        _ => None,
    });
    let ends: Vec<&EdgeEnd> = ends
        .chain(outputs.iter().filter_map(|output| match output {
            OutputSpec::Edge(end) => Some(end),
            _ => None,
        }))
        .collect();
    let length = ends.first().and_then(|end| end.extents.first()).copied().unwrap_or(0);
    let even = ends.iter().all(|end| end.extents == [length]);
    let takes = inputs.iter().map(|input| match input {
        InputSpec::Edge(_) => Takes::Edge,
        InputSpec::Local { stored_bytes, symbols, .. } => match symbols[..] {
            [symbol] if header.geometry.symbol_extent(symbol, *stored_bytes) <= length => Takes::Local,
            _ => Takes::Other,
        },
        InputSpec::Source { .. } => Takes::Other,
    });
    let gives = outputs.iter().map(|output| match output {
        OutputSpec::Edge(_) => Gives::Edge,
        OutputSpec::Write(_) => Gives::End,
        OutputSpec::Read { symbols } if symbols.len() == 1 => Gives::End,
        OutputSpec::Read { .. } => Gives::Other,
    });
    if even && is_plain(takes, gives, matrix) {
        return Ok(());
    }
    Err(Fault::new(model::Cause::Invalid, "only in a plain chain can slices share frames"))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Takes {
    Edge,
    Local,
    Other,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Gives {
    Edge,
    End,
    Other,
}

/// Whether a stage is the first of a plain chain, a hop, or the last.
fn is_plain(takes: impl Iterator<Item = Takes>, gives: impl Iterator<Item = Gives>, matrix: &Matrix) -> bool {
    let (takes, gives): (Vec<Takes>, Vec<Gives>) = (takes.collect(), gives.collect());
    let unchanged = |input: usize| matrix.get(0, input) == 1;
    match (&takes[..], &gives[..]) {
        ([Takes::Local], [Gives::Edge]) => true,
        ([Takes::Edge, Takes::Local], [Gives::Edge]) => unchanged(0),
        ([Takes::Local, Takes::Edge], [Gives::Edge]) => unchanged(1),
        ([Takes::Edge], [Gives::End]) => unchanged(0),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(slice_bytes: u32, frame_slices: u32) -> FlowHeader {
        let geometry = flow::Geometry { block_bytes: 1 << 20, alpha: 1, slice_bytes };
        FlowHeader { frame_slices, ..FlowHeader::new(gf::Field::Gf256, geometry) }
    }

    #[test]
    fn frames_end_at_multiples_and_with_the_run() {
        let header = header(32 << 10, 4);
        assert_eq!([0, 1, 3, 4, 9].map(|slice| frame_end(&header, slice, 10)), [4, 4, 4, 8, 10]);
        assert_eq!(frame_end(&header, u64::MAX - 1, u64::MAX), u64::MAX);
    }

    #[test]
    fn frames_are_bounded_and_only_verified_flows_share_them() {
        assert!(header_ok(&header(32 << 10, 4)) && header_ok(&header(1 << 10, 128)));
        for (slice_bytes, frame_slices) in [(32 << 10, 5), (32 << 10, u32::MAX), (64 << 10, 2)] {
            assert!(!header_ok(&header(slice_bytes, frame_slices)), "{frame_slices} of {slice_bytes}");
        }
        assert!(!header_ok(&FlowHeader { verify: false, ..header(32 << 10, 4) }));
        assert!(!header_ok(&FlowHeader { serial: true, ..header(32 << 10, 4) }));
    }
}
