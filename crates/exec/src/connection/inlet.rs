//! The receiving end of an edge: whole, checked frames out of a byte stream.

use super::low_water::Come;
use super::{Link, Origin, StreamContext, low_water};
use crate::doing::Activity;
use flow::bound::{EdgeEnd, FlowHeader};
use flow::limits;
use gf::{CHUNK_BYTES, FINGERPRINT_BYTES, Fingerprint};
use model::{Cause, Fault};
use std::io::{ErrorKind, Write};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use wire::frame::{ACKNOWLEDGEMENT, HEADER_BYTES, Header, Kind, RELEASE, chunks};
use wire::proto;

/// What one read may bring at most, unless a slice is longer: large enough to amortise the system call, small
/// enough to stay in the second-level cache until it has been combined and sent on.
const RECEIVE_BYTES: usize = 256 * 1024;

/// The kernel is asked to gather at most this much before it wakes us: any slice that is taken whole, for a thread that
/// wakes earlier only goes back to sleep. The kernel makes its receive buffer large enough.
const MAX_LOW_WATER: usize = RECEIVE_BYTES;

/// What it is for connections that no stage holds.
const USUAL_LOW_WATER: usize = 1;

/// A slice that is taken in parts is waited for in runs of this size.
const PART_BYTES: usize = 64 * 1024;

/// The receiving end of an edge.
pub struct Inlet {
    link: Link,
    watched: u64,
    end: EdgeEnd,
    context: Arc<StreamContext>,
    buffer: Vec<u8>,
    /// Frames in `buffer[..start]` were taken; bytes in `buffer[start..filled]` have arrived since.
    start: usize,
    filled: usize,
    frames: u64,
    /// Of the long frame that is being taken: its checksum over the payload, and how much of that is to come.
    long: (u32, usize),
    /// What the kernel was last told to wake us at.
    low_water: usize,
    /// Wire bytes received.
    pub wire_bytes: u64,
}

/// Whether a flow's slices are taken in parts. Those of a serial flow never are: it is there to do one thing after
/// another.
pub fn in_parts(header: &FlowHeader) -> bool {
    header.geometry.slice_bytes as usize > RECEIVE_BYTES && !header.serial
}

/// A whole frame within an inlet's buffer.
#[derive(Clone, Copy, Debug)]
pub struct FrameAt {
    /// Its header, checked.
    pub header: Header,
    /// Where it begins.
    pub at: usize,
}

impl FrameAt {
    /// Where its payload begins.
    pub fn payload_at(&self) -> usize {
        self.at + HEADER_BYTES + self.header.fingerprint_bytes()
    }

    /// Where it ends.
    pub fn end(&self) -> usize {
        self.at + self.header.frame_bytes()
    }

    /// Its first fingerprint, in `buffer`, if it has any.
    pub fn fingerprint(&self, buffer: &[u8]) -> Option<Fingerprint> {
        (self.header.fingerprint_bytes() > 0).then(|| fingerprint_at(buffer, self.at + HEADER_BYTES, 0))
    }
}

impl Inlet {
    /// Takes a link over, on which `slices` slices are granted so far.
    pub fn new(mut link: Link, end: EdgeEnd, context: Arc<StreamContext>, slices: u64) -> Inlet {
        let watched = context.abort.watch(&link.stream);
        let early = std::mem::take(&mut link.early);
        let capacity = granted_capacity(&context.id.header, end.rows, slices).max(early.len());
        let mut buffer = vec![0; capacity];
        buffer[..early.len()].copy_from_slice(&early);
        let mut inlet = Inlet {
            link,
            watched,
            end,
            context,
            buffer,
            start: 0,
            filled: 0,
            frames: 0,
            long: (0, 0),
            low_water: USUAL_LOW_WATER,
            wire_bytes: 0,
        };
        if !early.is_empty() {
            inlet.came(early.len());
        }
        inlet
    }

    /// Makes room for `slices` slices more that are granted.
    pub fn grant(&mut self, slices: u64) {
        let capacity = granted_capacity(&self.context.id.header, self.end.rows, slices);
        if capacity > self.buffer.len() {
            self.buffer.resize(capacity, 0);
        }
    }

    /// The edge.
    pub fn end(&self) -> &EdgeEnd {
        &self.end
    }

    /// The buffer, to read frames in.
    pub fn buffer(&self) -> &[u8] {
        &self.buffer
    }

    /// The buffer, to combine into frames in place.
    pub fn buffer_mut(&mut self) -> &mut [u8] {
        &mut self.buffer
    }

    /// Whether all rows of `slice`, the next one, are here already, so that taking them cannot block.
    pub fn ready(&self, slice: u64) -> bool {
        self.has(self.slice_on_wire(slice))
    }

    /// Whether the next `bytes` bytes are here already, so that waiting for them cannot block.
    pub fn has(&self, bytes: usize) -> bool {
        self.filled - self.start >= bytes
    }

    /// Bytes that all frames of a slice take: known beforehand, because the plan says how far each row reaches.
    fn slice_on_wire(&self, slice: u64) -> usize {
        (0..self.end.rows).map(|row| self.frame_on_wire(self.payload_bytes(slice, row))).sum()
    }

    fn frame_on_wire(&self, payload_bytes: u32) -> usize {
        let fingerprints = if self.context.id.header.verify { chunks(payload_bytes as usize) } else { 0 };
        HEADER_BYTES + fingerprints * FINGERPRINT_BYTES + payload_bytes as usize
    }

    /// Bytes of payload that the frame of a row has in a slice.
    pub fn payload_bytes(&self, slice: u64, row: u16) -> u32 {
        self.end.payload_bytes(slice, row, self.context.id.header.geometry.slice_bytes)
    }

    /// Takes the rows of `slice`, the next one. Blocks until they are here; the frames stay valid until the next call
    /// that blocks.
    pub fn take_rows(&mut self, slice: u64, out: &mut Vec<FrameAt>) -> Result<(), Fault> {
        self.wait(self.slice_on_wire(slice))?;
        out.clear();
        for row in 0..self.end.rows {
            let payload_bytes = self.payload_bytes(slice, row);
            let frame = self.take_frame(payload_bytes)?;
            self.expect(&frame.header, slice, row)?;
            self.frames += 1;
            out.push(frame);
        }
        Ok(())
    }

    /// Takes the head of a frame whose payload comes in parts, because it is longer than what one read may bring: what each
    /// chunk of it must be; empty if the frame has only a checksum.
    pub fn take_head(&mut self, slice: u64, row: u16) -> Result<Vec<Fingerprint>, Fault> {
        let payload_bytes = self.payload_bytes(slice, row);
        self.wait(self.frame_on_wire(payload_bytes) - payload_bytes as usize)?;
        let header = self.read_header(payload_bytes, 1)?;
        self.expect(&header, slice, row)?;
        let fingerprints = (0..header.fingerprint_bytes() / FINGERPRINT_BYTES)
            .map(|index| fingerprint_at(&self.buffer, self.start + HEADER_BYTES, index))
            .collect();
        self.start += HEADER_BYTES + header.fingerprint_bytes();
        self.long = (header.payload_crc, payload_bytes as usize);
        self.frames += 1;
        Ok(fingerprints)
    }

    /// Takes the head of a frame that `slices` share; it is here already, and its payload is taken with [`Inlet::take`].
    pub fn take_frame_head(&mut self, slices: &Range<u64>) -> Result<FrameAt, Fault> {
        let payload_bytes =
            self.end.payload_bytes_of(slices.clone(), 0, self.context.id.header.geometry.slice_bytes);
        let header = self.read_header(payload_bytes, slices.end - slices.start)?;
        self.expect(&header, slices.start, 0)?;
        let frame = FrameAt { header, at: self.start };
        self.start = frame.payload_at();
        self.frames += 1;
        Ok(frame)
    }

    /// Where the next `bytes` bytes of payload stand, which are here already.
    pub fn take(&mut self, bytes: usize) -> Range<usize> {
        self.start += bytes;
        self.start - bytes..self.start
    }

    /// Waits for the next `bytes` of the payload, at most a chunk.
    pub fn await_part(&mut self, bytes: usize) -> Result<(), Fault> {
        if self.has(bytes) {
            return Ok(());
        }
        self.wait(self.long.1.min(PART_BYTES))
    }

    /// The next `bytes` of the payload, waited for.
    pub fn part(&self, bytes: usize) -> &[u8] {
        &self.buffer[self.start..self.start + bytes]
    }

    /// Goes on to the part after the next `bytes`.
    pub fn consume(&mut self, bytes: usize) {
        self.start += bytes;
        self.long.1 -= bytes;
    }

    /// Compares the checksum of a payload that was taken in parts and had no fingerprints.
    pub fn end_long(&mut self, crc: u32) -> Result<(), Fault> {
        if !self.context.id.header.verify && crc != self.long.0 {
            return Err(self.fault(Cause::CorruptSlice, "the payload's checksum does not hold"));
        }
        Ok(())
    }

    fn expect(&self, h: &Header, slice: u64, row: u16) -> Result<(), Fault> {
        if h.kind == Kind::Slice && h.slice == slice && h.row == row {
            return Ok(());
        }
        let (kind, got) = (h.kind, h.slice);
        let what = format!("expected row {row} of slice {slice}, got {kind:?} {got} row {}", h.row);
        Err(self.fault(Cause::CorruptSlice, what).at(u32::from(self.end.lane), slice))
    }

    /// Tells the sender of a serial flow that the slice was taken. It is waiting for just that, so this cannot block.
    pub fn acknowledge(&mut self) -> Result<(), Fault> {
        (&*self.link.stream).write_all(&[ACKNOWLEDGEMENT]).map_err(|e| self.ended(&e.to_string()))
    }

    /// Takes the End frame: the sender is sure that it sent everything.
    pub fn take_end(&mut self) -> Result<(), Fault> {
        self.wait(HEADER_BYTES)?;
        let frame = self.take_frame(0)?;
        if frame.header.kind != Kind::End || frame.header.slice != self.frames {
            return Err(self.fault(Cause::CorruptSlice, "the stream does not end where it should"));
        }
        Ok(())
    }

    /// What the stage at the other end said of itself, if it answered a call.
    pub fn answered(&mut self) -> Option<proto::StageStats> {
        self.link.answered.take()
    }

    /// The link, for another flow. Only after [`Inlet::take_end`]. `None` if more was read than the flow's End: the sender
    /// has begun the next flow, whose Hello nobody would see. Closed, the connection is made anew at once; kept, the
    /// sender would wait in vain. `None` too if the flow was ended meanwhile, and with it the connection.
    pub fn into_link(self) -> Option<Link> {
        if !self.context.abort.forget(self.watched) || self.start < self.filled {
            return None;
        }
        // The next flow's first messages are shorter than any slice.
        if self.low_water != USUAL_LOW_WATER {
            low_water::set(&self.link.stream, USUAL_LOW_WATER);
        }
        let link = Link { released: true, ..self.link };
        let told = matches!(link.origin, Origin::Dialled(_)) || (&*link.stream).write_all(&[RELEASE]).is_ok();
        told.then_some(link)
    }

    /// Takes the next frame, whole in the buffer if it has the payload that it must have.
    fn take_frame(&mut self, payload_bytes: u32) -> Result<FrameAt, Fault> {
        let header = self.read_header(payload_bytes, 1)?;
        let frame = FrameAt { header, at: self.start };
        self.start = frame.end();
        Ok(frame)
    }

    /// Reads and checks the header at `start`; it and its fingerprints are there if the payload is as long as it must be.
    fn read_header(&mut self, payload_bytes: u32, slices: u64) -> Result<Header, Fault> {
        let mut head = [0; HEADER_BYTES];
        head.copy_from_slice(&self.buffer[self.start..self.start + HEADER_BYTES]);
        let header = Header::parse(&head, payload_bytes)
            .map_err(|e| self.fault(Cause::CorruptSlice, e.to_string()))?;
        let planned = header.payload_bytes == payload_bytes && u64::from(header.slices) == slices;
        if !planned || header.verified != self.context.id.header.verify {
            return Err(
                self.fault(Cause::CorruptSlice, "a frame of another length than planned, or unverified")
            );
        }
        let id = &self.context.id.header;
        header.check(&self.buffer[self.start..self.filled]).map_err(|e| {
            self.fault(Cause::CorruptSlice, e.to_string()).at(u32::from(self.end.lane), header.slice)
        })?;
        let same = header.flow == id.flow && header.attempt == id.attempt;
        let placed = header.lane == self.end.lane && header.edge == self.end.edge;
        if !same || !placed {
            return Err(self.fault(Cause::CorruptSlice, "a frame of another flow, attempt or edge"));
        }
        Ok(header)
    }

    fn compact(&mut self) {
        self.buffer.copy_within(self.start..self.filled, 0);
        self.filled -= self.start;
        self.start = 0;
    }

    /// Waits for the next `bytes` bytes: reads until they stand behind `start`. What was taken before may move, and is lost.
    pub fn wait(&mut self, bytes: usize) -> Result<(), Fault> {
        if self.has(bytes) {
            return Ok(());
        }
        self.compact();
        if bytes > self.buffer.len() {
            return Err(self.fault(Cause::Bug, "a slice's frames do not fit the receive buffer"));
        }
        let stall = Duration::from_millis(u64::from(self.context.id.header.stall_ms));
        while self.filled < bytes {
            self.wake_at(bytes - self.filled);
            let receiving = self.context.doing.during(Activity::Receiving(self.end.edge));
            let read = low_water::read(&self.link.stream, &mut self.buffer[self.filled..], stall);
            drop(receiving);
            match read {
                Ok(Come::End) => return Err(self.ended("the sender closed the stream before its End")),
                Ok(Come::Bytes(bytes)) => self.came(bytes),
                Ok(Come::Late(bytes)) => {
                    self.came(bytes);
                    if bytes < limits::LEAST_INPUT_BYTES {
                        let waited = self.context.id.header.stall_ms;
                        let what = match bytes {
                            0 => format!("no input for {waited} ms"),
                            _ => format!("{bytes} bytes of input in {waited} ms"),
                        };
                        (self.context.on_wait)(self.fault(Cause::Stalled, what));
                    }
                }
                Err(e) if matches!(e.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {}
                Err(e) => return Err(self.ended(&e.to_string())),
            }
        }
        Ok(())
    }

    fn came(&mut self, bytes: usize) {
        self.filled += bytes;
        self.wire_bytes += bytes as u64;
        let _throttled = self.context.doing.during(Activity::Throttled);
        let is_over = || self.context.abort.fired();
        self.context.throttle.receive_unless(self.context.id.header.traffic, bytes, is_over);
    }

    /// Asks the kernel to wake this thread only when `missing` bytes have come.
    fn wake_at(&mut self, missing: usize) {
        let bytes = missing.min(MAX_LOW_WATER);
        if bytes != self.low_water {
            self.low_water = bytes;
            low_water::set(&self.link.stream, bytes);
        }
    }

    fn ended(&self, why: &str) -> Fault {
        if self.context.abort.fired() {
            return Fault::new(Cause::Aborted, "the flow was ended");
        }
        self.fault(Cause::Disconnected, why)
    }

    /// A fault that suspects this edge.
    pub fn fault(&self, cause: Cause, detail: impl Into<String>) -> Fault {
        self.context.id.fault(cause, &self.end, true, detail)
    }
}

/// Bytes that an inlet needs for a run of so many slices and the End: of a small read far less than for a stream. A star
/// has many inlets, and large buffers that come and go with every read cost more than the read: the allocator takes them
/// from the kernel and gives them back, page by page.
fn granted_capacity(header: &FlowHeader, rows: u16, slices: u64) -> usize {
    let most = receive_capacity(header, rows);
    let slice = frame_capacity(header.geometry.slice_bytes) * usize::from(rows);
    let run = usize::try_from(slices.max(1)).unwrap_or(usize::MAX).saturating_mul(slice);
    if in_parts(header) { most } else { run.saturating_add(HEADER_BYTES).min(most) }
}

/// Bytes that an inlet of this width needs at most.
pub fn receive_capacity(header: &FlowHeader, rows: u16) -> usize {
    let slice_bytes = header.geometry.slice_bytes;
    if in_parts(header) {
        // The fingerprints of a long frame, and then its payload, a read at a time.
        return RECEIVE_BYTES + frame_capacity(slice_bytes) - slice_bytes as usize;
    }
    (frame_capacity(slice_bytes) * usize::from(rows)).max(RECEIVE_BYTES)
}

/// Bytes of the largest frame.
pub fn frame_capacity(max_payload: u32) -> usize {
    let payload = max_payload as usize;
    HEADER_BYTES + payload.div_ceil(CHUNK_BYTES) * FINGERPRINT_BYTES + payload
}

/// Reads fingerprint `index` of the frame whose fingerprints begin at `at`.
pub fn fingerprint_at(buffer: &[u8], at: usize, index: usize) -> Fingerprint {
    let mut bytes = [0; FINGERPRINT_BYTES];
    let from = at + index * FINGERPRINT_BYTES;
    bytes.copy_from_slice(&buffer[from..from + FINGERPRINT_BYTES]);
    Fingerprint::from_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::super::{Identity, Origin, Outlet};
    use super::*;
    use model::Peer;
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};
    use wire::frame::HELLO_BYTES;

    fn context(id: &Identity) -> Arc<StreamContext> {
        let (throttle, abort) = (Arc::default(), Arc::default());
        let doing = Arc::default();
        Arc::new(StreamContext { id: id.clone(), throttle, abort, doing, on_wait: Arc::new(|_| {}) })
    }

    /// Sends an End and `more`, then ends the receiving side; whether it gave the link back, and the sender's stream.
    fn end_and(more: &[u8]) -> (bool, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let link = |stream| Link::new(Arc::new(stream), Origin::Accepted);
        let receiver = link(listener.accept().unwrap().0);
        let token = model::Token(rand::random());
        let end = EdgeEnd {
            lane: 0,
            edge: 0,
            rows: 1,
            extents: vec![0],
            token,
            dial: None,
            peer: Peer::from_number(2),
            bytes_per_s: 0,
        };
        let geometry = flow::Geometry { block_bytes: 1, alpha: 1, slice_bytes: 1024 };
        let id = Identity {
            node: Peer::from_number(1),
            header: FlowHeader::new(model::FlowId(1), gf::Field::Gf256, geometry),
        };
        let mut outlet = Outlet::new(link(sender.try_clone().unwrap()), end.clone(), context(&id));
        outlet.finish().unwrap();
        sender.write_all(more).unwrap();
        let mut inlet = Inlet::new(receiver, end, context(&id), 1);
        inlet.take_end().unwrap();
        (inlet.into_link().is_some(), sender)
    }

    #[test]
    fn a_link_whose_next_hello_was_read_with_the_end_is_closed() {
        let (given_back, mut sender) = end_and(&[]);
        assert!(given_back);
        let mut said = [0];
        sender.read_exact(&mut said).unwrap();
        assert_eq!(said, [RELEASE], "the sender is told that it may use it again");
        let (given_back, mut sender) = end_and(&[7; HELLO_BYTES]);
        assert!(!given_back);
        sender.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        assert_eq!(sender.read(&mut [0]).unwrap(), 0, "the sender learns of it at once");
    }
}
