//! Where a stage's rows go.

use super::{Connect, EdgePlan};
use crate::connection::{Link, Outlet, StreamContext};
use crate::in_order::InOrder;
use crate::written::WrittenBlock;
use flow::bound::EdgeEnd;
use gf::{CHUNK_BYTES, FINGERPRINT_BYTES, Fingerprint, Matrix};
use model::{Cause, Fault};
use std::sync::Arc;
use wire::frame::{HEADER_BYTES, Header, crc32c};
use wire::proto;

/// A piece of a row that a flow hands to whoever drives it.
#[derive(Clone, Copy, Debug)]
pub struct Delivery<'a> {
    /// Index among the rows asked for.
    pub row: usize,
    /// The slice.
    pub slice: u64,
    /// Offset of `bytes` in the symbol.
    pub offset: u64,
    /// Bytes of the symbol that this delivers.
    pub room: usize,
    /// The first of them; the rest is zero.
    pub bytes: &'a [u8],
}

/// Takes what a read flow delivers: in order of slices, then rows. Called from the stage's own thread, so it may
/// block; that is the flow's back-pressure.
pub type Sink = Box<dyn FnMut(Delivery<'_>) -> Result<(), Fault> + Send>;

/// An output, opened as far as is possible before the flow runs.
pub enum OutputPlan {
    /// An edge.
    Edge(EdgePlan),
    /// An edge whose frames are gathered, to answer a call with.
    Answer(EdgeEnd),
    /// A block, of this stored length and this many rows.
    Write(WrittenBlock, u64, u16),
    /// Whoever reads, for this many rows.
    Read(Reader, usize),
}

/// Who takes what a read flow delivers.
pub enum Reader {
    /// From one lane.
    Alone(Sink),
    /// From several.
    InOrder(InOrder),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Destination {
    Outlet { outlet: usize, row: u16 },
    Block { block: usize, symbol: u16 },
    Sink { row: usize },
}

/// How a row comes about.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Making {
    /// It is input row `.0` as it stands.
    Copy(usize),
    /// It is row `.0` of the stage's product.
    Computed(usize),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct OutRow {
    pub(crate) to: Destination,
    pub(crate) making: Making,
}

struct Writing {
    block: WrittenBlock,
    stored_bytes: u64,
}

pub(crate) struct Outputs {
    context: Arc<StreamContext>,
    pub(crate) rows: Vec<OutRow>,
    pub(crate) outlets: Vec<Outlet>,
    blocks: Vec<Writing>,
    reader: Option<Reader>,
    /// Where the current slice's frame of each row begins in its outlet's pending bytes.
    frames: Vec<usize>,
    pub(crate) written_bytes: u64,
    /// Frames that stand combined in the inlet's buffer and are not yet sent (see `hop.rs`).
    pub(crate) in_place: Option<std::ops::Range<usize>>,
    zeros: Vec<u8>,
}

impl Outputs {
    pub(crate) fn open(
        plans: Vec<OutputPlan>,
        matrix: &Matrix,
        context: &Arc<StreamContext>,
        connect: &impl Connect,
    ) -> Result<Outputs, Fault> {
        let mut outputs = Outputs {
            context: context.clone(),
            rows: Vec::new(),
            outlets: Vec::new(),
            blocks: Vec::new(),
            reader: None,
            frames: Vec::new(),
            written_bytes: 0,
            in_place: None,
            zeros: Vec::new(),
        };
        let (mut destinations, mut begun) = (Vec::new(), Vec::new());
        for plan in plans {
            match plan {
                OutputPlan::Edge(edge) => {
                    let end = edge.end().clone();
                    let outlet = begun.len();
                    destinations.extend((0..end.rows).map(|row| Destination::Outlet { outlet, row }));
                    begun.push((end, connect.begin(edge, true)));
                }
                OutputPlan::Answer(end) => {
                    let outlet = outputs.outlets.len();
                    destinations.extend((0..end.rows).map(|row| Destination::Outlet { outlet, row }));
                    outputs.outlets.push(Outlet::answer(end, context.clone()));
                }
                OutputPlan::Write(written, stored_bytes, rows) => {
                    let block = outputs.blocks.len();
                    destinations.extend((0..rows).map(|symbol| Destination::Block { block, symbol }));
                    outputs.blocks.push(Writing { block: written, stored_bytes });
                }
                OutputPlan::Read(reader, rows) => {
                    destinations.extend((0..rows).map(|row| Destination::Sink { row }));
                    outputs.reader = Some(reader);
                }
            }
        }
        for (end, connecting) in begun {
            let link = connect.complete(connecting)?;
            outputs.outlets.push(Outlet::new(link, end, context.clone()));
        }
        let mut computed = 0;
        for (row, to) in destinations.into_iter().enumerate() {
            let making = match copied_input(matrix.row(row)) {
                Some(input) => Making::Copy(input),
                None => {
                    computed += 1;
                    Making::Computed(computed - 1)
                }
            };
            outputs.rows.push(OutRow { to, making });
        }
        outputs.frames = vec![0; outputs.rows.len()];
        Ok(outputs)
    }

    /// The rows of the stage's matrix that have to be computed. Without any: no row.
    pub(crate) fn computed_rows(&self, matrix: &Matrix) -> Result<Matrix, Fault> {
        let rows: Vec<usize> =
            (0..self.rows.len()).filter(|&r| matches!(self.rows[r].making, Making::Computed(_))).collect();
        matrix.select_rows(&rows).map_err(|e| Fault::new(Cause::Bug, e.to_string()))
    }

    /// Whether enough is gathered.
    pub(crate) fn full(&self) -> bool {
        self.outlets.iter().any(Outlet::is_full)
    }

    pub(crate) fn flush(&mut self) -> Result<(), Fault> {
        self.outlets.iter_mut().try_for_each(Outlet::flush)
    }

    /// Whether blocks are written here.
    pub(crate) fn writes(&self) -> bool {
        !self.blocks.is_empty()
    }

    /// Whether anything ends here: a block or the driver's sink.
    pub(crate) fn deliver(&self) -> bool {
        !self.blocks.is_empty() || self.reader.is_some()
    }

    /// Whether output row `r` ends here, and is not sent on.
    pub(crate) fn ends(&self, r: usize) -> bool {
        !matches!(self.rows[r].to, Destination::Outlet { .. })
    }

    /// Makes room for the frames of a slice; `lengths[r]` is the payload of output row `r`.
    pub(crate) fn begin(&mut self, slice: u64, lengths: &[usize]) {
        for (r, row) in self.rows.iter().enumerate() {
            if let Destination::Outlet { outlet, row } = row.to {
                let outlet = &mut self.outlets[outlet];
                self.frames[r] = outlet.pending_bytes();
                let header = outlet.header(slice, row, lengths[r] as u32);
                outlet.reserve(header.frame_bytes());
            }
        }
    }

    /// Hands on one piece (at most a chunk) of output row `r`. `length` is the payload of the row's slice.
    pub(crate) fn piece(
        &mut self,
        r: usize,
        place: Place,
        bytes: &[u8],
        fingerprint: Fingerprint,
    ) -> Result<(), Fault> {
        match self.rows[r].to {
            Destination::Outlet { outlet, row } => {
                let outlet = &mut self.outlets[outlet];
                let header = outlet.header(place.slice, row, place.length as u32);
                let frame = &mut outlet.pending_mut()[self.frames[r]..];
                put_piece(frame, &header, place.piece, bytes, &fingerprint);
                Ok(())
            }
            Destination::Block { block, symbol } => self.write(block, symbol, place, bytes, &fingerprint),
            Destination::Sink { row } => {
                let offset = place.offset(self.context.id.header.geometry.slice_bytes);
                let delivery = Delivery { row, slice: place.slice, offset, room: place.room, bytes };
                match &mut self.reader {
                    Some(Reader::Alone(sink)) => sink(delivery),
                    Some(Reader::InOrder(reader)) => reader.take(delivery),
                    None => Ok(()),
                }
            }
        }
    }

    fn write(
        &mut self,
        block: usize,
        symbol: u16,
        place: Place,
        bytes: &[u8],
        fingerprint: &Fingerprint,
    ) -> Result<(), Fault> {
        let header = &self.context.id.header;
        let geometry = header.geometry;
        let target = &mut self.blocks[block];
        let in_symbol = place.offset(geometry.slice_bytes);
        let extent = geometry.symbol_extent(symbol, target.stored_bytes);
        let wanted = extent.saturating_sub(in_symbol).min(place.room as u64) as usize;
        if wanted == 0 {
            return Ok(());
        }
        let offset = u64::from(symbol) * geometry.symbol_bytes() + in_symbol;
        // A chunk's fingerprint belongs to the sidecar only if the piece is the chunk, and nothing was cut off it.
        let whole = header.verify && geometry.slice_bytes as usize >= CHUNK_BYTES && bytes.len() <= wanted;
        let fingerprints = whole.then(|| std::slice::from_ref(fingerprint));
        self.written_bytes += wanted as u64;
        if bytes.len() >= wanted {
            return target.block.write(offset, &bytes[..wanted], fingerprints);
        }
        self.zeros.clear();
        self.zeros.extend_from_slice(bytes);
        self.zeros.resize(wanted, 0);
        target.block.write(offset, &self.zeros, fingerprints)
    }

    /// Seals the frames of a slice. `falsify` damages one bit afterwards: what a test planted.
    pub(crate) fn end(&mut self, slice: u64, lengths: &[usize], falsify: bool) {
        let verify = self.context.id.header.verify;
        for (r, row) in self.rows.iter().enumerate() {
            if let Destination::Outlet { outlet, row } = row.to {
                let outlet = &mut self.outlets[outlet];
                let mut header = outlet.header(slice, row, lengths[r] as u32);
                let frame = &mut outlet.pending_mut()[self.frames[r]..];
                if !verify {
                    header.payload_crc = crc32c(&frame[HEADER_BYTES..HEADER_BYTES + lengths[r]]);
                }
                header.seal(frame);
                if falsify && lengths[r] > 0 {
                    frame[header.frame_bytes() - 1] ^= 0x10;
                }
                outlet.count(1, lengths[r] as u64);
            }
        }
    }

    /// All of a slice was handed on.
    pub(crate) fn delivered(&mut self, slice: u64) -> Result<(), Fault> {
        match &self.reader {
            Some(Reader::InOrder(reader)) => reader.end(slice),
            _ => Ok(()),
        }
    }

    pub(crate) fn end_streams(&mut self) -> Result<(), Fault> {
        self.outlets.iter_mut().try_for_each(Outlet::finish)
    }

    /// What this stage was the last to write.
    pub(crate) fn finish_blocks(&mut self) -> Result<Vec<proto::Staged>, Fault> {
        self.blocks.drain(..).filter_map(|b| b.block.finish().transpose()).collect()
    }

    pub(crate) fn sent(&self) -> Vec<proto::EdgeBytes> {
        self.outlets
            .iter()
            .map(|o| proto::EdgeBytes {
                edge: u32::from(o.end().edge),
                payload_bytes: o.payload_bytes,
                wire_bytes: o.wire_bytes,
            })
            .collect()
    }

    pub(crate) fn into_links(self) -> impl Iterator<Item = Link> {
        self.outlets.into_iter().filter_map(Outlet::into_link)
    }

    pub(crate) fn into_answer(self) -> Vec<u8> {
        self.outlets.into_iter().flat_map(Outlet::into_answer).collect()
    }
}

/// Where a piece lies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) slice: u64,
    /// Index of the chunk-sized piece in the slice.
    pub(crate) piece: usize,
    /// Payload bytes of this row in this slice.
    pub(crate) length: usize,
    /// Bytes that this piece has in a full slice, zeros included.
    pub(crate) room: usize,
}

impl Place {
    fn offset(&self, slice_bytes: u32) -> u64 {
        self.slice * u64::from(slice_bytes) + (self.piece * CHUNK_BYTES) as u64
    }
}

fn put_piece(frame: &mut [u8], header: &Header, piece: usize, bytes: &[u8], fingerprint: &Fingerprint) {
    if bytes.is_empty() {
        return;
    }
    if header.verified {
        let at = HEADER_BYTES + piece * FINGERPRINT_BYTES;
        frame[at..at + FINGERPRINT_BYTES].copy_from_slice(fingerprint.as_bytes());
    }
    let at = HEADER_BYTES + header.fingerprint_bytes() + piece * CHUNK_BYTES;
    frame[at..at + bytes.len()].copy_from_slice(bytes);
}

/// The input that a matrix row is a copy of.
fn copied_input(row: &[u16]) -> Option<usize> {
    let mut nonzero = row.iter().enumerate().filter(|&(_, &c)| c != 0);
    match (nonzero.next(), nonzero.next()) {
        (Some((input, 1)), None) => Some(input),
        _ => None,
    }
}
