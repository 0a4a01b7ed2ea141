//! Slices that share a frame: those of plain chains, where the header and fingerprint of every slice would cost more time
//! than all else that a chain takes beyond a direct send (192 bytes in 32 KiB: 0.6 %).
//!
//! A slice stays what it is, the unit that is combined and sent on: a hop sends each slice of a frame as soon as it has it.
//! It can, because it knows the frame's fingerprint before the payload: that of what arrives is in the frame's head, that of
//! its own block in the sidecar. Only the last slice of a frame waits until the frame was checked, so that nobody gets a
//! whole frame from a hop that received a wrong one, and whoever finds a fault names the edge on which it happened.

use super::{BlockRead, BoundEdge, Ends, FlowHeader};
use crate::graph::{EdgeId, Flow, Geometry, Input, Member, Output, Stage};
use crate::limits;
use gf::CHUNK_BYTES;
use std::collections::BTreeMap;

/// Payload of a shared frame at most. Twice as much would save 0.07 % of the bytes, and fill a hop's receive buffer.
pub const FRAME_BYTES: u32 = 128 * 1024;

/// Slices that share a frame in a flow like this; 1 where they cannot.
pub(super) fn of(
    flow: &Flow,
    header: &FlowHeader,
    edges: &[Vec<BoundEdge>],
    stored: impl Fn(Member) -> u64,
) -> u32 {
    if !may_share(header) {
        return 1;
    }
    let plain = flow.lanes.iter().zip(edges).all(|(lane, edges)| {
        let extents = |edge: EdgeId, _| edges.get(usize::from(edge.0)).map(|edge| &edge.extents[..]);
        lane.stages.iter().all(|stage| is_plain(header.geometry, stage, extents, &stored))
    });
    if plain { FRAME_BYTES / header.geometry.slice_bytes } else { 1 }
}

/// Whether a stage that arrived may share frames as its header says.
pub(super) fn fits(
    header: &FlowHeader,
    lane: u32,
    stage: &Stage,
    ends: &Ends,
    blocks: &BTreeMap<Member, BlockRead>,
) -> bool {
    let extents =
        |edge: EdgeId, sends| ends.get(&(lane, u32::from(edge.0), sends)).map(|end| &end.extents[..]);
    let stored = |member| blocks.get(&member).map_or(0, |read| read.copy.stored_bytes);
    header.frame_slices == 1 || is_plain(header.geometry, stage, extents, stored)
}

/// Where the frame ends that begins with `slice` in a run that is granted up to `granted_end`.
pub fn frame_end(header: &FlowHeader, slice: u64, granted_end: u64) -> u64 {
    let slices = u64::from(header.frame_slices.max(1));
    (slice / slices + 1).saturating_mul(slices).min(granted_end)
}

/// Whether a header's number of slices a frame can be.
pub fn header_ok(header: &FlowHeader) -> bool {
    let bytes = u64::from(header.frame_slices) * u64::from(header.geometry.slice_bytes);
    header.frame_slices == 1 || (may_share(header) && bytes <= u64::from(FRAME_BYTES))
}

fn may_share(header: &FlowHeader) -> bool {
    header.verify
        && !header.serial
        && header.geometry.alpha == 1
        && header.geometry.slice_bytes <= CHUNK_BYTES as u32
        && header.geometry.slice_bytes >= limits::MIN_SLICE_BYTES
}

/// Whether a stage is the first of a plain chain, a hop, or the last: one row, of one length on all edges, to which a hop
/// adds one symbol that is not longer.
fn is_plain<'a>(
    geometry: Geometry,
    stage: &Stage,
    extents: impl Fn(EdgeId, bool) -> Option<&'a [u64]>,
    stored: impl Fn(Member) -> u64,
) -> bool {
    let length = |edge: EdgeId, sends: bool| match extents(edge, sends)? {
        [length] => Some(*length),
        _ => None,
    };
    let own = |input: &Input| match input {
        Input::Local { member, symbols } if symbols.len() == 1 => {
            Some(geometry.symbol_extent(symbols[0], stored(*member)))
        }
        _ => None,
    };
    let sends = |to: EdgeId, local: &Input| {
        let length = length(to, true);
        length.filter(|&length| own(local).is_some_and(|own| own <= length))
    };
    let unchanged = |input: usize| {
        stage.matrix.rows() == 1 && input < stage.matrix.cols() && stage.matrix.get(0, input) == 1
    };
    match (&stage.inputs[..], &stage.outputs[..]) {
        ([local], [Output::Edge(to)]) => sends(*to, local).is_some(),
        ([Input::Edge(from), local], [Output::Edge(to)]) => {
            unchanged(0) && length(*from, false).is_some_and(|length| sends(*to, local) == Some(length))
        }
        ([local, Input::Edge(from)], [Output::Edge(to)]) => {
            unchanged(1) && length(*from, false).is_some_and(|length| sends(*to, local) == Some(length))
        }
        ([Input::Edge(from)], [end]) => {
            let one_row = match end {
                Output::Write { .. } => true,
                Output::Read { symbols } => symbols.len() == 1,
                Output::Edge(_) => false,
            };
            one_row && unchanged(0) && length(*from, false).is_some()
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(slice_bytes: u32, frame_slices: u32) -> FlowHeader {
        let geometry = Geometry { block_bytes: 1 << 20, alpha: 1, slice_bytes };
        FlowHeader { frame_slices, ..FlowHeader::new(model::FlowId(1), gf::Field::Gf256, geometry) }
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
