//! The stages of a plain chain whose slices share frames (`flow::bound::frame_slices`): the first, a hop, the last.
//!
//! A slice is combined and sent on as soon as it is there, as everywhere. The frame's fingerprint is checked with its last
//! slice, which a hop sends only then, and which the last stage awaits before it hands on any.

use super::inputs::Inputs;
use super::outputs;
use super::strategy::{Hop, Place};
use super::{Stage, algebra, hop};
use crate::fault_injection::Injection;
use flow::bound::frame_slices;
use gf::{FINGERPRINT_BYTES, Fingerprint};
use model::Fault;
use std::ops::Range;
use wire::frame::{HEADER_BYTES, fingerprint_bytes};

/// The frame that a stage is at.
#[derive(Default)]
pub(crate) struct Frame {
    /// Its slices that are still to come.
    slices: Range<u64>,
    /// What its fingerprint is to be.
    promised: Fingerprint,
    /// … and is, of the slices so far.
    seen: Fingerprint,
    /// At the last stage, the fingerprint of each slice, from the last one to the next.
    pieces: Vec<Fingerprint>,
    /// At the first stage, where the next slice goes in what is to be sent.
    filled: usize,
}

/// Takes `slice`, the next one, and hands it on.
pub(crate) fn slice(stage: &mut Stage, place: Place, slice: u64, granted_end: u64) -> Result<(), Fault> {
    let begins = stage.frame.slices.is_empty();
    if begins {
        stage.frame.slices = slice..frame_slices::frame_end(&stage.id.header, slice, granted_end);
    }
    match place {
        Place::First { coefficient } => first(stage, coefficient, begins, granted_end),
        Place::Between(hop) => in_between(stage, hop, begins, granted_end),
        Place::Last => last(stage, begins),
    }?;
    stage.frame.slices.start += 1;
    Ok(())
}

/// Bytes of the header and the fingerprint of a frame with so much payload.
fn head_bytes(slices: &Range<u64>, payload_bytes: u32) -> usize {
    HEADER_BYTES + fingerprint_bytes(true, slice_count(slices), payload_bytes)
}

fn slice_count(slices: &Range<u64>) -> u16 {
    u16::try_from(slices.end - slices.start).unwrap_or(u16::MAX)
}

/// The fingerprint of the local part of a frame, as the sidecar has it; of parts of chunks, which were checked when they
/// were read, as it is. Of the slices in which the frame has payload.
fn own(inputs: &Inputs, slices: &Range<u64>, payload_bytes: u32) -> Fingerprint {
    let local = &inputs.locals[0];
    let pieces = payload_bytes.div_ceil(inputs.context.id.header.geometry.slice_bytes);
    let mut own = Fingerprint::ZERO;
    for slice in slices.clone().take(pieces as usize) {
        let recorded = local.recorded(0, slice, 0);
        own.append(&recorded.unwrap_or_else(|| gf::kernels().fingerprint(local.bytes(0, slice))));
    }
    own
}

/// Reads what lies here of a frame.
fn load(inputs: &mut Inputs, slices: &Range<u64>, granted_end: u64) -> Result<(), Fault> {
    let header = &inputs.context.id.header;
    let slice_bytes = u64::from(header.geometry.slice_bytes);
    let part = slices.start * slice_bytes..slices.end * slice_bytes;
    inputs.locals[0].hold(0, part, granted_end.saturating_mul(slice_bytes), header.verify)
}

/// The first stage: its own block, multiplied.
fn first(stage: &mut Stage, coefficient: u8, begins: bool, granted_end: u64) -> Result<(), Fault> {
    let Stage { inputs, outputs, frame, injection, id, .. } = stage;
    let slice_bytes = id.header.geometry.slice_bytes;
    let outlet = &mut outputs.outlets[0];
    if begins {
        if outlet.is_full() {
            outlet.flush()?;
        }
        load(inputs, &frame.slices, granted_end)?;
        let payload_bytes = outlet.end().payload_bytes_of(frame.slices.clone(), 0, slice_bytes);
        let header = outlet.frame_header(&frame.slices, payload_bytes);
        let mut made = Fingerprint::ZERO;
        made.add_scaled(coefficient, &own(inputs, &frame.slices, payload_bytes));
        let at = outlet.pending_bytes();
        outlet.reserve(header.frame_bytes());
        outlet.count(1, u64::from(payload_bytes));
        let head = &mut outlet.pending_mut()[at..];
        if header.fingerprint_bytes() > 0 {
            head[HEADER_BYTES..HEADER_BYTES + FINGERPRINT_BYTES].copy_from_slice(made.as_bytes());
        }
        header.seal(head);
        frame.filled = at + head_bytes(&frame.slices, payload_bytes);
    }
    let slice = frame.slices.start;
    let length = outlet.end().payload_bytes(slice, 0, slice_bytes) as usize;
    let local = inputs.locals[0].bytes(0, slice);
    let part = &mut outlet.pending_mut()[frame.filled..frame.filled + length];
    frame.filled += length;
    let recorded = inputs.locals[0].recorded(0, slice, 0);
    algebra::hop_part(coefficient, local, part, recorded).ok_or_else(|| inputs.mismatch(0, slice, 0))?;
    falsify(injection, slice, part);
    Ok(())
}

/// A hop.
fn in_between(stage: &mut Stage, hop: Hop, begins: bool, granted_end: u64) -> Result<(), Fault> {
    let slice_bytes = stage.id.header.geometry.slice_bytes;
    let slice = stage.frame.slices.start;
    let length = stage.inputs.inlets[0].payload_bytes(slice, 0) as usize;
    let mut from = None;
    if begins {
        let slices = stage.frame.slices.clone();
        load(&mut stage.inputs, &slices, granted_end)?;
        let end = stage.inputs.inlets[0].end();
        let payload_bytes = end.payload_bytes_of(slices.clone(), 0, slice_bytes);
        // The first slice with the head: a head alone is not worth a packet.
        await_input(stage, head_bytes(&slices, payload_bytes) + length)?;
        let own = own(&stage.inputs, &slices, payload_bytes);
        let inlet = &mut stage.inputs.inlets[0];
        let head = inlet.take_frame_head(&slices)?;
        stage.frame.promised = head.fingerprint(inlet.buffer()).unwrap_or_default();
        stage.frame.seen = Fingerprint::ZERO;
        let mut made = stage.frame.promised;
        made.add_scaled(hop.coefficient, &own);
        let outlet = &mut stage.outputs.outlets[0];
        let header = outlet.frame_header(&slices, payload_bytes);
        let head_bytes = &mut inlet.buffer_mut()[head.at..head.payload_at()];
        if header.fingerprint_bytes() > 0 {
            head_bytes[HEADER_BYTES..].copy_from_slice(made.as_bytes());
        }
        header.seal(head_bytes);
        outlet.count(1, u64::from(payload_bytes));
        from = Some(head.at);
    } else {
        await_input(stage, length)?;
    }
    let is_last = slice + 1 == stage.frame.slices.end;
    let Stage { inputs, outputs, frame, injection, .. } = stage;
    let at = inputs.inlets[0].take(length);
    let local = inputs.locals[0].bytes(0, slice);
    let part = &mut inputs.inlets[0].buffer_mut()[at.clone()];
    if length > 0 {
        let recorded = inputs.locals[0].recorded(0, slice, 0);
        let seen = algebra::hop_part(hop.coefficient, local, part, recorded);
        falsify(injection, slice, part);
        frame.seen.append(&seen.ok_or_else(|| inputs.mismatch(hop.local, slice, 0))?.received);
    }
    if is_last && frame.seen != frame.promised {
        return Err(inputs.mismatch(hop.edge, slice, 0));
    }
    let from = outputs.in_place.take().map(|range| range.start).or(from).unwrap_or(at.start);
    outputs.in_place = Some(from..at.end);
    Ok(())
}

/// The last stage: what arrives ends here.
fn last(stage: &mut Stage, begins: bool) -> Result<(), Fault> {
    let slice_bytes = stage.id.header.geometry.slice_bytes;
    let Stage { inputs, outputs, frame, id, .. } = stage;
    if begins {
        let inlet = &mut inputs.inlets[0];
        let payload_bytes = inlet.end().payload_bytes_of(frame.slices.clone(), 0, slice_bytes);
        inlet.wait(head_bytes(&frame.slices, payload_bytes) + payload_bytes as usize)?;
        let head = inlet.take_frame_head(&frame.slices)?;
        let promised = head.fingerprint(inlet.buffer()).unwrap_or_default();
        let payload = &inlet.buffer()[head.payload_at()..head.end()];
        if algebra::frame_end(payload, slice_bytes as usize, &mut frame.pieces) != promised {
            return Err(inputs.mismatch(0, frame.slices.start, 0));
        }
    }
    let slice = frame.slices.start;
    let length = inputs.inlets[0].payload_bytes(slice, 0) as usize;
    let at = inputs.inlets[0].take(length);
    let room = id.header.geometry.slice_room(slice);
    let place = outputs::Place { slice, piece: 0, length, room };
    let fingerprint = frame.pieces.pop().unwrap_or_default();
    outputs.piece(0, place, &inputs.inlets[0].buffer()[at], fingerprint)
}

/// Damages a slice that was combined, as a test planted it: by a faulty processor or by a faulty link.
fn falsify(injection: &Injection, slice: u64, part: &mut [u8]) {
    let planted = (injection.arithmetic(slice), injection.wire(slice));
    if let Some(byte) = part.first_mut().filter(|_| planted.0) {
        *byte ^= 1;
    }
    if let Some(byte) = part.last_mut().filter(|_| planted.1) {
        *byte ^= 0x10;
    }
}

/// Waits for the next `bytes` bytes; what stands combined is sent before.
fn await_input(stage: &mut Stage, bytes: usize) -> Result<(), Fault> {
    if stage.inputs.inlets[0].has(bytes) {
        return Ok(());
    }
    hop::send_on(stage)?;
    stage.inputs.inlets[0].wait(bytes)
}
