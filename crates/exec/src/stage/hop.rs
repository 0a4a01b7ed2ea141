//! The hop of a chain: one incoming row, one local block, one outgoing row. The slice is combined where it arrived,
//! in one pass that also checks both fingerprints, and is sent from there.

use super::Stage;
use super::inputs::RowAt;
use super::outputs::Destination;
use gf::{CHUNK_BYTES, FINGERPRINT_BYTES, Fingerprint};
use model::Fault;
use wire::frame::{HEADER_BYTES, crc32c};

/// Combines the slice in place, if the stage has that shape and the local part is not longer than what arrived.
/// Returns whether it did. The frame is sent by [`send_on`].
pub(crate) fn in_place(stage: &mut Stage, slice: u64) -> Result<bool, Fault> {
    let Some((edge_row, local_row, row_of_local)) = shape(stage) else { return Ok(false) };
    let coefficient = stage.matrix.get(0, local_row) as u8;
    let frame = stage.inputs.frames[0][0];
    let length = frame.header.payload_bytes as usize;
    if stage.inputs.bytes(local_row, slice).len() > length {
        return Ok(false);
    }
    let mut header = stage.outputs.outlets[0].header(slice, 0, frame.header.payload_bytes);
    let falsify = (stage.injection.arithmetic(slice), stage.injection.wire(slice));

    let inputs = &mut stage.inputs;
    let local = inputs.locals[0].bytes(row_of_local, slice);
    let buffer = inputs.inlets[0].buffer_mut();
    let payload_at = frame.payload_at();
    let kernels = gf::kernels();
    let mut bad = None;
    for piece in 0..length.div_ceil(CHUNK_BYTES) {
        let from = piece * CHUNK_BYTES;
        let to = (from + CHUNK_BYTES).min(length);
        let local_part = &local[from.min(local.len())..to.min(local.len())];
        let (head, payload) = buffer.split_at_mut(payload_at);
        let part = &mut payload[from..to];
        if !header.verified {
            kernels.mul_add(coefficient, local_part, &mut part[..local_part.len()]);
            continue;
        }
        let seen = kernels.hop(coefficient, local_part, part);
        let at = frame.at + HEADER_BYTES + piece * FINGERPRINT_BYTES;
        let promised = &mut head[at..at + FINGERPRINT_BYTES];
        if seen.received.as_bytes()[..] != *promised {
            bad = Some((edge_row, piece));
            break;
        }
        if inputs.locals[0].recorded(row_of_local, slice, piece).is_some_and(|f| f != seen.local) {
            bad = Some((local_row, piece));
            break;
        }
        let mut made: Fingerprint = seen.received;
        made.add_scaled(coefficient, &seen.local);
        promised.copy_from_slice(made.as_bytes());
    }
    if let Some((row, piece)) = bad {
        return Err(inputs.mismatch(row, slice, piece));
    }
    if falsify.0 && length > 0 {
        buffer[payload_at] ^= 1;
    }
    if !header.verified {
        header.payload_crc = crc32c(&buffer[payload_at..frame.end()]);
    }
    header.seal(&mut buffer[frame.at..frame.end()]);
    if falsify.1 && length > 0 {
        buffer[frame.end() - 1] ^= 0x10;
    }
    let outputs = &mut stage.outputs;
    outputs.outlets[0].count(1, length as u64);
    outputs.in_place = match outputs.in_place.take() {
        Some(range) => Some(range.start..frame.end()),
        None => Some(frame.at..frame.end()),
    };
    Ok(true)
}

/// Sends the frames that stand combined in the inlet's buffer. To be called before that buffer changes.
pub(crate) fn send_on(stage: &mut Stage) -> Result<(), Fault> {
    match stage.outputs.in_place.take() {
        Some(range) => stage.outputs.outlets[0].send_direct(&stage.inputs.inlets[0].buffer()[range]),
        None => Ok(()),
    }
}

/// Input rows of the edge and of the local block, and the local block's own row, if this is a plain hop.
fn shape(stage: &Stage) -> Option<(usize, usize, usize)> {
    let (edge_row, local_row) = match stage.inputs.rows[..] {
        [RowAt::Frame { .. }, RowAt::Local { .. }] => (0, 1),
        [RowAt::Local { .. }, RowAt::Frame { .. }] => (1, 0),
        _ => return None,
    };
    let RowAt::Local { row, .. } = stage.inputs.rows[local_row] else { return None };
    let to_edge = matches!(stage.outputs.rows[..], [only] if matches!(only.to, Destination::Outlet { .. }));
    (to_edge && stage.matrix.get(0, edge_row) == 1).then_some((edge_row, local_row, row))
}
