//! The hop of a chain: one incoming row, one local block, one outgoing row. The slice is combined where it arrived,
//! in one pass that also checks both fingerprints, and is sent from there.

use super::Stage;
use super::algebra::{self, Wrong};
use super::strategy::Hop;
use model::Fault;
use wire::frame::{HEADER_BYTES, crc32c};

/// Combines the slice in place, if the local part is not longer than what arrived. Returns whether it did. The frame is
/// sent by [`send_on`].
pub(crate) fn in_place(stage: &mut Stage, hop: Hop, slice: u64) -> Result<bool, Fault> {
    let Stage { inputs, outputs, injection, .. } = stage;
    let frame = inputs.frames[0][0];
    let length = frame.header.payload_bytes as usize;
    let block = &inputs.locals[0];
    let local = block.bytes(hop.block_row, slice);
    if local.len() > length {
        return Ok(false);
    }
    let mut header = outputs.outlets[0].header(slice, 0, frame.header.payload_bytes);
    let falsify = (injection.arithmetic(slice), injection.wire(slice));

    let sent = &mut inputs.inlets[0].buffer_mut()[frame.at..frame.end()];
    let (head, payload) = sent.split_at_mut(frame.payload_at() - frame.at);
    let combined = if header.verified {
        let recorded = |piece| block.recorded(hop.block_row, slice, piece);
        algebra::hop(hop.coefficient, local, payload, &mut head[HEADER_BYTES..], recorded)
    } else {
        gf::kernels().mul_add(hop.coefficient, local, &mut payload[..local.len()]);
        Ok(())
    };
    if let Some(first) = payload.first_mut().filter(|_| falsify.0) {
        *first ^= 1;
    }
    if !header.verified {
        header.payload_crc = crc32c(payload);
    }
    header.seal(sent);
    if let Some(last) = sent.last_mut().filter(|_| falsify.1 && length > 0) {
        *last ^= 0x10;
    }
    combined.map_err(|wrong| match wrong {
        Wrong::Received(piece) => inputs.mismatch(hop.edge, slice, piece),
        Wrong::Local(piece) => inputs.mismatch(hop.local, slice, piece),
    })?;
    outputs.outlets[0].count(1, length as u64);
    let from = outputs.in_place.take().map_or(frame.at, |range| range.start);
    outputs.in_place = Some(from..frame.end());
    Ok(true)
}

/// Sends the frames that stand combined in the inlet's buffer. To be called before that buffer changes.
pub(crate) fn send_on(stage: &mut Stage) -> Result<(), Fault> {
    match stage.outputs.in_place.take() {
        Some(range) => stage.outputs.outlets[0].send_direct(&stage.inputs.inlets[0].buffer()[range]),
        None => Ok(()),
    }
}
