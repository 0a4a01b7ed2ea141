//! A slice too long for a receive buffer, a whole block for example: combined piece by piece as it arrives, input after
//! input, and sent on when it is whole.
//!
//! Nothing is held twice. What comes is added to the sums at once, so that when the last byte is here the sum is too,
//! and memory is one slice for each row that is made, however many come in. Inputs are taken in their order, which is
//! that of their timeslots where the graph has any (`flow`'s tree): who is not yet due waits for room.

use super::inputs::{Inputs, RowAt};
use super::outputs::{Destination, Outputs, Place};
use super::strategy::Strategy;
use super::{Stage, algebra, combine};
use gf::{CHUNK_BYTES, Fingerprint, Matrix};
use model::Fault;
use std::ops::Range;
use std::sync::Arc;
use wire::frame::{HEADER_BYTES, chunks, crc32c};

/// What a stage that only reads sends at once: as much as it reads at once.
const SEND_BYTES: usize = 256 * 1024;

/// What a stage keeps from slice to slice where they are long.
#[derive(Default)]
pub(crate) struct Long {
    sums: Vec<Sum>,
    steps: Arc<[Step]>,
}

/// Inputs that are added together, and the sums that are whole then.
#[derive(Debug)]
struct Step {
    adds: Vec<usize>,
    is_first: bool,
    is_last: bool,
    sends: Range<usize>,
}

/// The sum of one output row.
#[derive(Default)]
struct Sum {
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

impl Long {
    pub(crate) fn new(strategy: Strategy, inputs: &Inputs, outputs: &Outputs, matrix: &Matrix) -> Long {
        if !matches!(strategy, Strategy::Accumulate | Strategy::Stream) {
            return Long::default();
        }
        let sums = (0..matrix.rows()).map(|_| Sum::default()).collect();
        Long { sums, steps: steps(inputs, outputs, matrix).into() }
    }

    fn begin(&mut self, matrix: &Matrix, lengths: &[usize]) {
        for (sum, length) in self.sums.iter_mut().zip(combine::made_lengths(matrix, lengths)) {
            sum.length = length;
            sum.made.clear();
            sum.made.resize(chunks(length), Fingerprint::ZERO);
        }
    }
}

/// In which order inputs are added. What lies here is added together with what arrives first: that is the time to read it;
/// what only later rows need, with the frames of those, or a processor that all share would be late with the first. A
/// stage with nothing to wait for, which only sends, sends each row as soon as all that it takes was added.
fn steps(inputs: &Inputs, outputs: &Outputs, matrix: &Matrix) -> Vec<Step> {
    let is_frame = |row: &usize| matches!(inputs.rows[*row], RowAt::Frame { .. });
    let (frames, mut here): (Vec<usize>, Vec<usize>) = (0..inputs.rows.len()).partition(is_frame);
    let by_row = frames.is_empty() && (0..matrix.rows()).all(|row| !outputs.ends(row));
    let count = if by_row { matrix.rows() } else { frames.len().max(1) };
    let step = |at: usize| {
        let is_last = at + 1 == count;
        let uses = |row: usize, input: usize| row < matrix.rows() && matrix.get(row, input) != 0;
        let is_due = |input: &mut usize| is_last || (0..=at).any(|row| uses(row, *input));
        let mut adds: Vec<usize> = here.extract_if(.., is_due).collect();
        adds.extend(frames.get(at));
        let sends = match (by_row, is_last) {
            (true, _) => at..at + 1,
            (false, true) => 0..matrix.rows(),
            (false, false) => 0..0,
        };
        Step { adds, is_first: at == 0, is_last, sends }
    };
    (0..count).map(step).collect()
}

/// Takes every input of `slice`, and sends the sums on.
pub(crate) fn slice(stage: &mut Stage, slice: u64, granted_end: u64) -> Result<(), Fault> {
    stage.long.begin(&stage.matrix, &stage.inputs.lengths(slice));
    let falsify = stage.injection.wire(slice);
    for step in Arc::clone(&stage.long.steps).iter() {
        add(stage, slice, granted_end, step)?;
        step.sends.clone().try_for_each(|row| send_on(stage, slice, row, falsify))?;
    }
    Ok(())
}

/// Adds the inputs of a step to all sums, piece by piece. The first step overwrites what the sums held; with the last one,
/// pieces are finished and those that end here are handed on.
fn add(stage: &mut Stage, slice: u64, granted_end: u64, step: &Step) -> Result<(), Fault> {
    let (verify, node, geometry) = (stage.id.header.verify, stage.id.node, stage.id.header.geometry);
    let adding =
        step.adds.iter().map(|&row| begin(stage, row, slice)).collect::<Result<Vec<Adding>, Fault>>()?;
    let Stage { inputs, outputs, long: Long { sums, .. }, matrix, injection, .. } = stage;
    let room = geometry.slice_room(slice);
    let mut received = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    let kernels = gf::kernels();
    if step.is_first {
        sums.iter_mut().for_each(|s| s.reserve(s.length));
    }
    for piece in 0..chunks(room) {
        let from = piece * CHUNK_BYTES;
        let part = |length: usize| from.min(length)..(from + CHUNK_BYTES).min(length);
        for a in &adding {
            inputs.await_part(a.row, slice, part(a.length), granted_end)?;
        }
        if step.is_first {
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
            if !region.is_empty() {
                for (r, sum) in sums.iter_mut().enumerate().filter(|(r, _)| matrix.get(*r, a.row) != 0) {
                    let coefficient = matrix.get(r, a.row) as u8;
                    algebra::add(coefficient, region, &seen, &mut sum.bytes[from..], &mut sum.made[piece]);
                }
            }
        }
        for a in &adding {
            inputs.consume(a.row, part(a.length));
        }
        if step.is_first
            && piece == 0
            && let Some(byte) = sums.first_mut().and_then(|s| s.bytes.first_mut())
            && injection.arithmetic(slice)
        {
            *byte ^= 1;
        }
        for (r, sum) in sums.iter().enumerate() {
            if !step.is_last || !outputs.ends(r) {
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
        RowAt::Frame { .. } => stage.inputs.begin_long(row, slice)?,
        RowAt::Local { local, row } if verify => Some(stage.inputs.locals[local].recorded_in(row, slice)?),
        RowAt::Local { .. } | RowAt::Source { .. } => None,
    };
    Ok(Adding { row, length, promised: promised.filter(|_| verify) })
}

/// Sends a sum, if it goes on: the header and the fingerprints, then the bytes from where they were summed.
fn send_on(stage: &mut Stage, slice: u64, row: usize, falsify: bool) -> Result<(), Fault> {
    let Stage { outputs, long: Long { sums, .. }, .. } = stage;
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

/// A stage with nothing to wait for: reads, multiplies and sends at once.
pub(crate) fn stream(stage: &mut Stage, slice: u64, granted_end: u64) -> Result<(), Fault> {
    stage.long.begin(&stage.matrix, &stage.inputs.lengths(slice));
    let rows: Vec<usize> = (0..stage.inputs.rows.len()).filter(|&r| stage.matrix.get(0, r) != 0).collect();
    let adding = rows.iter().map(|&row| begin(stage, row, slice)).collect::<Result<Vec<Adding>, Fault>>()?;
    let falsify = (stage.injection.arithmetic(slice), stage.injection.wire(slice));
    let Stage { inputs, outputs, long, matrix, .. } = stage;
    let [sum] = &mut long.sums[..] else { return Ok(()) };
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
    for from in (0..sum.length).step_by(SEND_BYTES) {
        let whole = from..sum.length.min(from + SEND_BYTES);
        sum.begin(0..whole.len());
        let piece = &mut sum.bytes[..whole.len()];
        for a in &adding {
            let part: Range<usize> = whole.start.min(a.length)..whole.end.min(a.length);
            inputs.await_part(a.row, slice, part.clone(), granted_end)?;
            let region = inputs.part(a.row, slice, part);
            let first = from / CHUNK_BYTES;
            let promised = a.promised.as_deref().and_then(|all| all.get(first..)).unwrap_or_default();
            algebra::add_known(matrix.get(0, a.row) as u8, region, promised, piece)
                .map_err(|index| inputs.mismatch(a.row, slice, first + index))?;
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
