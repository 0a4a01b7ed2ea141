//! A slice too long for a receive buffer, a whole block for example: combined piece by piece as it arrives, input after
//! input, and sent on when it is whole.
//!
//! Nothing is held twice. What comes is added to the sums at once, so that when the last byte is here the sum is too,
//! and memory is one slice for each row that is made, however many come in. Inputs are taken in their order, which is
//! that of their timeslots where the graph has any (`flow`'s tree): who is not yet due waits for room.

use super::inputs::RowAt;
use super::outputs::{Destination, Place};
use super::{Stage, combine};
use crate::connection::LongFrame;
use gf::{CHUNK_BYTES, Fingerprint, Matrix};
use model::Fault;
use std::ops::Range;
use wire::frame::{HEADER_BYTES, chunks, crc32c};

/// What a stage that only reads sends at once: as much as it reads at once.
const SEND_BYTES: usize = 256 * 1024;

/// The sum of one output row, kept from slice to slice.
#[derive(Default)]
pub(crate) struct Sum {
    bytes: Vec<u8>,
    /// One for each chunk.
    made: Vec<Fingerprint>,
    length: usize,
}

impl Sum {
    fn reserve(&mut self, bytes: usize) {
        self.bytes.reserve_exact(bytes.saturating_sub(self.bytes.len()));
    }

    /// Zeros for the next piece. Memory is touched only now: clearing a whole block in each of ten processes before the first
    /// byte is sent takes a good part of a second.
    fn begin(&mut self, piece: Range<usize>) {
        let old = self.bytes.len();
        self.bytes[piece.start.min(old)..piece.end.min(old)].fill(0);
        self.bytes.resize(old.max(piece.end), 0);
    }
}

/// An input row that is being added.
struct Adding {
    row: usize,
    length: usize,
    /// What its chunks must be; `None` for the client's own bytes.
    promised: Option<Vec<Fingerprint>>,
}

/// Takes every input of `slice`, and sends the sums on.
pub(crate) fn slice(stage: &mut Stage, slice: u64, granted_end: u64) -> Result<(), Fault> {
    let lengths = stage.inputs.lengths(slice);
    let frames: Vec<usize> =
        (0..lengths.len()).filter(|&r| matches!(stage.inputs.rows[r], RowAt::Frame { .. })).collect();
    prepare_sums(stage, &lengths);
    if frames.is_empty() && may_stream(stage) {
        return stream(stage, slice, granted_end);
    }
    if frames.is_empty() && stage.outputs.rows.iter().all(|row| matches!(row.to, Destination::Outlet { .. }))
    {
        return row_by_row(stage, slice, granted_end);
    }
    // What lies here is added together with what arrives first: that is the time to read it; what only later rows need, with
    // the frames of those, or a processor that all share would be late with the first.
    let mut here: Vec<usize> = (0..lengths.len()).filter(|r| !frames.contains(r)).collect();
    let mut frames = frames.into_iter().enumerate().peekable();
    let mut first = true;
    while first || frames.peek().is_some() {
        let next = frames.next();
        let last = frames.peek().is_none();
        let place = next.map_or(0, |(place, _)| place);
        let matrix = &stage.matrix;
        let is_due = |&mut row: &mut usize| last || (0..=place).any(|r| uses(matrix, r, row));
        let mut due: Vec<usize> = here.extract_if(.., is_due).collect();
        due.extend(next.map(|(_, row)| row));
        add(stage, slice, granted_end, &due, (first, last))?;
        first = false;
    }
    let falsify = stage.injection.wire(slice);
    (0..stage.sums.len()).try_for_each(|row| send_on(stage, slice, row, falsify))
}

/// Whether output row `row` takes something of input row `input`.
fn uses(matrix: &Matrix, row: usize, input: usize) -> bool {
    row < matrix.rows() && matrix.get(row, input) != 0
}

/// A stage with nothing to wait for, and several rows: each is sent as soon as all that it takes was added.
fn row_by_row(stage: &mut Stage, slice: u64, granted_end: u64) -> Result<(), Fault> {
    let falsify = stage.injection.wire(slice);
    let mut left: Vec<usize> = (0..stage.inputs.rows.len()).collect();
    for row in 0..stage.sums.len() {
        let matrix = &stage.matrix;
        let due: Vec<usize> = left.extract_if(.., |input| uses(matrix, row, *input)).collect();
        add(stage, slice, granted_end, &due, (row == 0, false))?;
        send_on(stage, slice, row, falsify)?;
    }
    Ok(())
}

fn prepare_sums(stage: &mut Stage, lengths: &[usize]) {
    stage.sums.resize_with(stage.matrix.rows(), Sum::default);
    for (row, sum) in stage.sums.iter_mut().enumerate() {
        let used = stage.matrix.row(row).iter().zip(lengths).filter(|(c, _)| **c != 0);
        sum.length = used.map(|(_, &length)| length).max().unwrap_or(0);
        sum.made.clear();
        sum.made.resize(chunks(sum.length), Fingerprint::ZERO);
    }
}

/// Adds the rows `due` to all sums, piece by piece. The `first` addition overwrites what the sums held; with the `last`
/// one, pieces are finished and those that end here are handed on.
fn add(
    stage: &mut Stage,
    slice: u64,
    granted_end: u64,
    due: &[usize],
    (first, last): (bool, bool),
) -> Result<(), Fault> {
    let (verify, node, geometry) = (stage.id.header.verify, stage.id.node, stage.id.header.geometry);
    let adding = due.iter().map(|&row| begin(stage, row, slice)).collect::<Result<Vec<Adding>, Fault>>()?;
    let Stage { inputs, outputs, sums, matrix, injection, .. } = stage;
    let start = slice * u64::from(geometry.slice_bytes);
    let room = geometry.symbol_bytes().saturating_sub(start).min(u64::from(geometry.slice_bytes)) as usize;
    let mut received = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    let kernels = gf::kernels();
    if first {
        sums.iter_mut().for_each(|s| s.reserve(s.length));
    }
    for piece in 0..chunks(room) {
        let from = piece * CHUNK_BYTES;
        let part = |length: usize| from.min(length)..(from + CHUNK_BYTES).min(length);
        for a in &adding {
            inputs.await_part(a.row, slice, part(a.length), granted_end)?;
        }
        if first {
            sums.iter_mut().for_each(|s| s.begin(part(s.length)));
        }
        for a in &adding {
            let region = inputs.part(a.row, slice, part(a.length));
            let seen = if verify { kernels.fingerprint(region) } else { Fingerprint::ZERO };
            if verify && a.promised.as_ref().is_some_and(|p| p.get(piece).is_some_and(|p| *p != seen)) {
                return Err(inputs.mismatch(a.row, slice, piece));
            }
            if !verify && matches!(inputs.rows[a.row], RowAt::Frame { .. }) {
                received.update(region);
            }
            for (r, sum) in sums.iter_mut().enumerate() {
                let coefficient = matrix.get(r, a.row) as u8;
                if coefficient != 0 && !region.is_empty() {
                    kernels.mul_add(coefficient, region, &mut sum.bytes[from..from + region.len()]);
                    sum.made[piece].add_scaled(coefficient, &seen);
                }
            }
        }
        for a in &adding {
            inputs.consume(a.row, part(a.length));
        }
        if first
            && piece == 0
            && let Some(byte) = sums.first_mut().and_then(|s| s.bytes.first_mut())
            && injection.arithmetic(slice)
        {
            *byte ^= 1;
        }
        for (r, sum) in sums.iter().enumerate() {
            if !last || !outputs.ends(r) {
                continue;
            }
            let bytes = &sum.bytes[part(sum.length)];
            let made = sum.made.get(piece).copied().unwrap_or(Fingerprint::ZERO);
            if verify && kernels.fingerprint(bytes) != made {
                return Err(combine::miscalculated(node, slice));
            }
            let place = Place { slice, piece, length: sum.length, room: (room - from).min(CHUNK_BYTES) };
            outputs.piece(r, place, bytes, made)?;
        }
    }
    let frame = adding.iter().find(|a| matches!(inputs.rows[a.row], RowAt::Frame { .. }));
    frame.map_or(Ok(()), |a| inputs.end_long(a.row, received.finalize() as u32))
}

/// What is known of a row before its bytes: of one that arrives, its frame's header and fingerprints.
fn begin(stage: &mut Stage, row: usize, slice: u64) -> Result<Adding, Fault> {
    let verify = stage.id.header.verify;
    let length = stage.inputs.lengths(slice)[row];
    let promised = match stage.inputs.rows[row] {
        RowAt::Frame { .. } => stage.inputs.begin_long(row, slice)?.map(LongFrame::into_fingerprints),
        RowAt::Local { local, row } if verify => Some(stage.inputs.locals[local].recorded_in(row, slice)?),
        RowAt::Local { .. } | RowAt::Source { .. } => None,
    };
    Ok(Adding { row, length, promised: promised.filter(|_| verify) })
}

/// Sends a sum, if it goes on: the header and the fingerprints, then the bytes from where they were summed.
fn send_on(stage: &mut Stage, slice: u64, row: usize, falsify: bool) -> Result<(), Fault> {
    let Stage { outputs, sums, .. } = stage;
    let Destination::Outlet { outlet, row: frame } = outputs.rows[row].to else { return Ok(()) };
    let sum = &mut sums[row];
    let payload = &mut sum.bytes[..sum.length];
    let outlet = &mut outputs.outlets[outlet];
    let mut header = outlet.header(slice, frame, payload.len() as u32);
    if !header.verified {
        header.payload_crc = crc32c(payload);
    }
    if let Some(last) = payload.last_mut().filter(|_| falsify) {
        *last ^= 0x10;
    }
    outlet.count(1, payload.len() as u64);
    outlet.send_direct(&head(&header, &sum.made))?;
    outlet.send_direct(payload)
}

/// A frame's header and fingerprints.
fn head(header: &wire::frame::Header, made: &[Fingerprint]) -> Vec<u8> {
    let mut head = vec![0; HEADER_BYTES];
    if header.verified {
        made.iter().for_each(|f| head.extend_from_slice(f.as_bytes()));
    }
    header.seal(&mut head);
    head
}

/// Whether the frame can be sent while it is made: what its fingerprints will be is known beforehand.
fn may_stream(stage: &Stage) -> bool {
    let only_local = stage.inputs.rows.iter().all(|r| matches!(r, RowAt::Local { .. }));
    let one_frame = matches!(stage.outputs.rows[..], [only] if matches!(only.to, Destination::Outlet { .. }));
    stage.id.header.verify && only_local && one_frame
}

/// A stage with nothing to wait for: reads, multiplies and sends at once.
fn stream(stage: &mut Stage, slice: u64, granted_end: u64) -> Result<(), Fault> {
    let rows: Vec<usize> = (0..stage.inputs.rows.len()).filter(|&r| stage.matrix.get(0, r) != 0).collect();
    let adding = rows.iter().map(|&row| begin(stage, row, slice)).collect::<Result<Vec<Adding>, Fault>>()?;
    let falsify = (stage.injection.arithmetic(slice), stage.injection.wire(slice));
    let Stage { inputs, outputs, sums, matrix, .. } = stage;
    let [sum] = &mut sums[..] else { return Ok(()) };
    sum.reserve(SEND_BYTES.min(sum.length));
    for a in &adding {
        let coefficient = matrix.get(0, a.row) as u8;
        let promised = a.promised.iter().flatten();
        sum.made.iter_mut().zip(promised).for_each(|(made, p)| made.add_scaled(coefficient, p));
    }
    let outlet = &mut outputs.outlets[0];
    let header = outlet.header(slice, 0, sum.length as u32);
    outlet.count(1, sum.length as u64);
    outlet.send_direct(&head(&header, &sum.made))?;
    let kernels = gf::kernels();
    for from in (0..sum.length).step_by(SEND_BYTES) {
        let whole = from..sum.length.min(from + SEND_BYTES);
        sum.begin(0..whole.len());
        let piece = &mut sum.bytes[..whole.len()];
        for a in &adding {
            let part: Range<usize> = whole.start.min(a.length)..whole.end.min(a.length);
            inputs.await_part(a.row, slice, part.clone(), granted_end)?;
            let region = inputs.part(a.row, slice, part);
            for (i, chunk) in region.chunks(CHUNK_BYTES).enumerate() {
                let index = from / CHUNK_BYTES + i;
                let promised = a.promised.as_ref().and_then(|p| p.get(index));
                if promised.is_some_and(|p| *p != kernels.fingerprint(chunk)) {
                    return Err(inputs.mismatch(a.row, slice, index));
                }
                let at = i * CHUNK_BYTES;
                kernels.mul_add(matrix.get(0, a.row) as u8, chunk, &mut piece[at..at + chunk.len()]);
            }
        }
        if falsify.0 && from == 0 {
            piece[0] ^= 1;
        }
        if falsify.1 && whole.end == sum.length {
            piece[whole.len() - 1] ^= 0x10;
        }
        outlet.send_direct(piece)?;
    }
    Ok(())
}
