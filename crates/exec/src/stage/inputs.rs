//! What a stage takes its rows from.

use super::Connect;
use super::local::LocalBlock;
use crate::connection::{Call, FrameAt, Inlet, Link, StreamContext, fingerprint_at};
use flow::bound::EdgeEnd;
use gf::{CHUNK_BYTES, Fingerprint};
use model::{Cause, Fault};
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::{Arc, mpsc};
use wire::frame::{HEADER_BYTES, crc32c};

/// An edge whose link is still to come.
pub enum EdgePlan {
    /// We dial this peer, and greet it or call it.
    Dial(EdgeEnd, SocketAddr, Option<Call>),
    /// The peer dials; its link arrives here.
    Wait(EdgeEnd, mpsc::Receiver<Link>),
}

impl EdgePlan {
    /// The edge.
    pub fn end(&self) -> &EdgeEnd {
        match self {
            EdgePlan::Dial(end, ..) | EdgePlan::Wait(end, _) => end,
        }
    }
}

/// The client's bytes: a whole block in memory.
pub struct Source {
    /// The block.
    pub bytes: Arc<Vec<u8>>,
    /// α.
    pub rows: u16,
}

/// An input, opened as far as is possible before the flow runs.
pub enum InputPlan {
    /// A local block.
    Local(LocalBlock, usize),
    /// An edge.
    Edge(EdgePlan),
    /// The client's bytes.
    Source(Source),
}

/// Where an input row is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RowAt {
    Frame { inlet: usize, row: usize },
    Local { local: usize, row: usize },
    Source { row: usize },
}

pub(crate) struct Inputs {
    pub(crate) context: Arc<StreamContext>,
    pub(crate) rows: Vec<RowAt>,
    pub(crate) inlets: Vec<Inlet>,
    pub(crate) frames: Vec<Vec<FrameAt>>,
    pub(crate) locals: Vec<LocalBlock>,
    source: Option<Source>,
}

impl Inputs {
    pub(crate) fn open(
        plans: Vec<InputPlan>,
        context: &Arc<StreamContext>,
        connect: &impl Connect,
        slices: u64,
    ) -> Result<Inputs, Fault> {
        let mut inputs = Inputs {
            context: context.clone(),
            rows: Vec::new(),
            inlets: Vec::new(),
            frames: Vec::new(),
            locals: Vec::new(),
            source: None,
        };
        let mut begun = Vec::new();
        for plan in plans {
            match plan {
                InputPlan::Local(local, rows) => {
                    let index = inputs.locals.len();
                    inputs.rows.extend((0..rows).map(|row| RowAt::Local { local: index, row }));
                    inputs.locals.push(local);
                }
                InputPlan::Edge(edge) => {
                    let end = edge.end().clone();
                    let index = begun.len();
                    inputs
                        .rows
                        .extend((0..usize::from(end.rows)).map(|row| RowAt::Frame { inlet: index, row }));
                    begun.push((end, connect.begin(edge, false)));
                }
                InputPlan::Source(source) => {
                    inputs.rows.extend((0..usize::from(source.rows)).map(|row| RowAt::Source { row }));
                    inputs.source = Some(source);
                }
            }
        }
        // Who was greeted last answers last, as a rule: waited for first, it is the only one for which this thread sleeps.
        for (end, connecting) in begun.into_iter().rev() {
            let link = connect.complete(connecting)?;
            inputs.inlets.push(Inlet::new(link, end, context.clone(), slices));
            inputs.frames.push(Vec::new());
        }
        inputs.inlets.reverse();
        Ok(inputs)
    }

    /// Whether `slice`, the next one, of every stream is here already.
    pub(crate) fn ready(&self, slice: u64) -> bool {
        self.inlets.iter().all(|i| i.ready(slice))
    }

    /// Makes room for a granted run, and tells the disks what is coming.
    pub(crate) fn grant(&mut self, first: u64, count: u64) {
        self.inlets.iter_mut().for_each(|inlet| inlet.grant(count));
        if !self.context.id.header.serial {
            self.locals.iter().for_each(|l| l.will_need(first, count));
        }
    }

    /// Waits for a slice of every row.
    pub(crate) fn take(&mut self, slice: u64, granted_end: u64) -> Result<(), Fault> {
        if self.context.id.header.serial {
            // First the slice that comes, then the own one, and nothing ahead.
            self.receive(slice)?;
            return self.load(slice, slice + 1);
        }
        self.load(slice, granted_end)?;
        self.receive(slice)
    }

    fn load(&mut self, slice: u64, granted_end: u64) -> Result<(), Fault> {
        let verify = self.context.id.header.verify;
        self.locals.iter_mut().try_for_each(|local| local.load(slice, granted_end, verify))
    }

    fn receive(&mut self, slice: u64) -> Result<(), Fault> {
        let verify = self.context.id.header.verify;
        for (inlet, frames) in self.inlets.iter_mut().zip(&mut self.frames) {
            inlet.take_rows(slice, frames)?;
            if !verify {
                for frame in frames.iter() {
                    let payload = &inlet.buffer()[frame.payload_at()..frame.end()];
                    if crc32c(payload) != frame.header.payload_crc {
                        return Err(inlet.fault(Cause::CorruptSlice, "the payload's checksum does not hold"));
                    }
                }
            }
        }
        Ok(())
    }

    /// The bytes of a row; shorter than the slice where the rest is zero.
    pub(crate) fn bytes(&self, row: usize, slice: u64) -> &[u8] {
        match self.rows[row] {
            RowAt::Frame { inlet, row } => {
                let frame = &self.frames[inlet][row];
                &self.inlets[inlet].buffer()[frame.payload_at()..frame.end()]
            }
            RowAt::Local { local, row } => self.locals[local].bytes(row, slice),
            RowAt::Source { row } => self.source_bytes(row, slice),
        }
    }

    /// Bytes that each row has in a slice; the rest is zero. Known before anything arrives.
    pub(crate) fn lengths(&self, slice: u64) -> Vec<usize> {
        let length = |at: &RowAt| match *at {
            RowAt::Frame { inlet, row } => self.inlets[inlet].payload_bytes(slice, row as u16) as usize,
            RowAt::Local { local, row } => self.locals[local].stored_in(row, slice),
            RowAt::Source { row } => self.source_bytes(row, slice).len(),
        };
        self.rows.iter().map(length).collect()
    }

    /// Waits for the head of a long frame: what its chunks must be.
    pub(crate) fn begin_long(&mut self, row: usize, slice: u64) -> Result<Option<Vec<Fingerprint>>, Fault> {
        let RowAt::Frame { inlet, row } = self.rows[row] else { return Ok(None) };
        self.inlets[inlet].take_head(slice, row as u16).map(Some)
    }

    /// Waits until `part` of a row of a long slice is here; parts of a frame come in order.
    pub(crate) fn await_part(
        &mut self,
        row: usize,
        slice: u64,
        part: Range<usize>,
        granted_end: u64,
    ) -> Result<(), Fault> {
        let header = &self.context.id.header;
        let slice_bytes = u64::from(header.geometry.slice_bytes);
        match self.rows[row] {
            RowAt::Frame { inlet, .. } => self.inlets[inlet].await_part(part.len()),
            RowAt::Local { local, row } => {
                let start = slice * slice_bytes;
                let part = start + part.start as u64..start + part.end as u64;
                self.locals[local].hold(row, part, granted_end.saturating_mul(slice_bytes), header.verify)
            }
            RowAt::Source { .. } => Ok(()),
        }
    }

    /// The bytes waited for.
    pub(crate) fn part(&self, row: usize, slice: u64, part: Range<usize>) -> &[u8] {
        match self.rows[row] {
            RowAt::Frame { inlet, .. } => self.inlets[inlet].part(part.len()),
            RowAt::Local { local, row } => {
                let start = slice * u64::from(self.context.id.header.geometry.slice_bytes);
                self.locals[local].held(row, start + part.start as u64..start + part.end as u64)
            }
            RowAt::Source { row } => &self.source_bytes(row, slice)[part],
        }
    }

    /// They are done with.
    pub(crate) fn consume(&mut self, row: usize, part: Range<usize>) {
        if let RowAt::Frame { inlet, .. } = self.rows[row] {
            self.inlets[inlet].consume(part.len());
        }
    }

    /// All parts of a long frame were taken; `crc` is that of its payload, if fingerprints did not cover it.
    pub(crate) fn end_long(&mut self, row: usize, crc: u32) -> Result<(), Fault> {
        let RowAt::Frame { inlet, .. } = self.rows[row] else { return Ok(()) };
        self.inlets[inlet].end_long(crc)
    }

    fn source_bytes(&self, row: usize, slice: u64) -> &[u8] {
        let Some(source) = &self.source else { return &[] };
        let geometry = self.context.id.header.geometry;
        let extent = geometry.symbol_extent(row as u16, source.bytes.len() as u64);
        let start = slice * u64::from(geometry.slice_bytes);
        let end = (start + u64::from(geometry.slice_bytes)).min(extent);
        let base = row as u64 * geometry.symbol_bytes();
        if end <= start { &[] } else { &source.bytes[(base + start) as usize..(base + end) as usize] }
    }

    /// What the fingerprint of piece `piece` of a row must be; `None` when whatever is computed is right, because
    /// the bytes were checked before or are the client's own.
    pub(crate) fn promised(&self, row: usize, slice: u64, piece: usize) -> Option<Fingerprint> {
        match self.rows[row] {
            RowAt::Frame { inlet, row } => {
                let frame = &self.frames[inlet][row];
                if piece * CHUNK_BYTES >= frame.header.payload_bytes as usize {
                    return Some(Fingerprint::ZERO);
                }
                Some(fingerprint_at(self.inlets[inlet].buffer(), frame.at + HEADER_BYTES, piece))
            }
            RowAt::Local { local, row } => self.locals[local].recorded(row, slice, piece),
            RowAt::Source { .. } => None,
        }
    }

    /// The fault for a row whose piece is not what was promised.
    pub(crate) fn mismatch(&self, row: usize, slice: u64, piece: usize) -> Fault {
        match self.rows[row] {
            RowAt::Frame { inlet, .. } => self.inlets[inlet]
                .fault(Cause::CorruptSlice, "the bytes received are not what their fingerprint promises"),
            RowAt::Local { local, row } => {
                let block = &self.locals[local];
                block.corrupt(row, block.chunk_of(slice, piece))
            }
            RowAt::Source { .. } => Fault::new(Cause::Bug, "the client's own bytes differ from themselves"),
        }
    }

    pub(crate) fn take_ends(&mut self) -> Result<(), Fault> {
        self.inlets.iter_mut().try_for_each(Inlet::take_end)
    }

    pub(crate) fn read_bytes(&self) -> u64 {
        self.locals.iter().map(|l| l.read_bytes).sum()
    }

    /// After [`Inputs::take_ends`].
    pub(crate) fn take_links(&mut self) -> impl Iterator<Item = Link> {
        self.inlets.drain(..).filter_map(Inlet::into_link)
    }
}
