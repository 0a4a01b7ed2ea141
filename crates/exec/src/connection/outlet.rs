//! The sending end of an edge: frames gathered, then sent in few system calls.

use super::{Link, StreamContext};
use crate::doing::Activity;
use crate::throttle::Bucket;
use flow::bound::EdgeEnd;
use model::{Cause, Fault};
use std::io::{Read, Write};
use std::ops::Range;
use std::sync::Arc;
use wire::frame::{ACKNOWLEDGEMENT, HEADER_BYTES, Header, Kind};

/// Under a throttle bytes are charged and sent in pieces of this size at most, so that a hop adds little delay …
const MOST_PIECE_BYTES: u64 = 32 * 1024;

/// … nor smaller: each costs a system call and a packet.
const LEAST_PIECE_BYTES: u64 = 4 * 1024;

/// A piece takes this part of a second, between the two: streams that share a throttle take turns so often.
const PIECES_PER_S: u64 = 16;

/// Frames are gathered to about this size before they are sent, as long as there is input to go on with.
const SEND_BYTES: usize = 128 * 1024;

/// Where frames go.
enum Carrier {
    Link(Link, u64),
    /// They are gathered, to answer a call with.
    Answer(Vec<u8>),
}

/// Length of the pieces at that rate.
fn piece_bytes(bytes_per_s: u64) -> usize {
    (bytes_per_s / PIECES_PER_S).clamp(LEAST_PIECE_BYTES, MOST_PIECE_BYTES) as usize
}

/// The sending end of an edge.
pub struct Outlet {
    carrier: Carrier,
    end: EdgeEnd,
    context: Arc<StreamContext>,
    /// What this edge may send.
    rate: Bucket,
    pending: Vec<u8>,
    frames: u64,
    /// Payload bytes sent.
    pub payload_bytes: u64,
    /// Wire bytes sent.
    pub wire_bytes: u64,
}

impl Outlet {
    /// Takes a link over.
    pub fn new(link: Link, end: EdgeEnd, context: Arc<StreamContext>) -> Outlet {
        let watched = context.abort.watch(&link.stream);
        Outlet::over(Carrier::Link(link, watched), end, context)
    }

    /// Gathers frames, to answer a call with.
    pub fn answer(end: EdgeEnd, context: Arc<StreamContext>) -> Outlet {
        Outlet::over(Carrier::Answer(Vec::new()), end, context)
    }

    fn over(carrier: Carrier, end: EdgeEnd, context: Arc<StreamContext>) -> Outlet {
        let rate = Bucket::new(end.bytes_per_s);
        Outlet {
            carrier,
            end,
            context,
            rate,
            pending: Vec::new(),
            frames: 0,
            payload_bytes: 0,
            wire_bytes: 0,
        }
    }

    /// The edge.
    pub fn end(&self) -> &EdgeEnd {
        &self.end
    }

    /// The header of a frame of this edge.
    pub fn header(&self, slice: u64, row: u16, payload_bytes: u32) -> Header {
        let flow = &self.context.id.header;
        Header {
            kind: Kind::Slice,
            flow: flow.flow,
            attempt: flow.attempt,
            lane: self.end.lane,
            edge: self.end.edge,
            row,
            verified: flow.verify,
            slice,
            slices: 1,
            payload_bytes,
            payload_crc: 0,
        }
    }

    /// The header of a frame that `slices` share.
    pub fn frame_header(&self, slices: &Range<u64>, payload_bytes: u32) -> Header {
        let count = u16::try_from(slices.end - slices.start).unwrap_or(u16::MAX);
        Header { slices: count, ..self.header(slices.start, 0, payload_bytes) }
    }

    /// Makes room for `bytes` more at the end of what is pending.
    pub fn reserve(&mut self, bytes: usize) {
        self.pending.resize(self.pending.len() + bytes, 0);
    }

    /// Counts frames that were put into the room made by [`Outlet::reserve`], or go by [`Outlet::send_direct`].
    pub fn count(&mut self, frames: u64, payload_bytes: u64) {
        self.frames += frames;
        self.payload_bytes += payload_bytes;
    }

    /// What waits for [`Outlet::flush`], to be filled in.
    pub fn pending_mut(&mut self) -> &mut [u8] {
        &mut self.pending
    }

    /// Bytes that wait for [`Outlet::flush`].
    pub fn pending_bytes(&self) -> usize {
        self.pending.len()
    }

    /// Whether enough is gathered.
    pub fn is_full(&self) -> bool {
        self.pending.len() >= SEND_BYTES
    }

    /// Sends what is pending.
    pub fn flush(&mut self) -> Result<(), Fault> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let mut pending = std::mem::take(&mut self.pending);
        let sent = self.send(&pending);
        pending.clear();
        self.pending = pending;
        sent
    }

    /// Sends frames that stand elsewhere, after what is pending.
    pub fn send_direct(&mut self, frames: &[u8]) -> Result<(), Fault> {
        self.flush()?;
        self.send(frames)
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        let (throttle, traffic) = (&self.context.throttle, self.context.id.header.traffic);
        let own = Some(self.rate.rate()).filter(|rate| *rate > 0);
        let limit = throttle.sending_bytes_per_s(traffic).into_iter().chain(own).min();
        for part in bytes.chunks(limit.map_or(bytes.len().max(1), piece_bytes)) {
            if limit.is_some() {
                let _throttled = self.context.doing.during(Activity::Throttled);
                let is_over = || self.context.abort.fired();
                self.rate.charge(part.len(), &is_over);
                throttle.send_unless(traffic, part.len(), is_over);
            }
            let _sending = self.context.doing.during(Activity::Sending);
            let sent = match &mut self.carrier {
                Carrier::Link(link, _) => (&*link.stream).write_all(part),
                Carrier::Answer(gathered) => gathered.write_all(part),
            };
            sent.map_err(|e| self.lost(&e.to_string()))?;
        }
        self.wire_bytes += bytes.len() as u64;
        Ok(())
    }

    /// Waits until the receiver of a serial flow has taken the slice that was sent last.
    pub fn await_acknowledgement(&mut self) -> Result<(), Fault> {
        let mut answer = [0];
        let Carrier::Link(link, _) = &mut self.carrier else { return Ok(()) };
        let _sending = self.context.doing.during(Activity::Sending);
        // Waiting for an acknowledgement is waiting for room, which is no stall: whoever waits for input says so.
        (&*link.stream).read_exact(&mut answer).map_err(|e| self.lost(&e.to_string()))?;
        if answer == [ACKNOWLEDGEMENT] { Ok(()) } else { Err(self.lost("the receiver answers nonsense")) }
    }

    fn lost(&self, why: &str) -> Fault {
        if self.context.abort.fired() {
            return Fault::new(Cause::Aborted, "the flow was ended");
        }
        self.context.id.fault(Cause::Disconnected, &self.end, false, why)
    }

    /// Sends the End frame.
    pub fn finish(&mut self) -> Result<(), Fault> {
        let mut header = self.header(self.frames, 0, 0);
        header.kind = Kind::End;
        let at = self.pending.len();
        self.reserve(HEADER_BYTES);
        header.seal(&mut self.pending[at..]);
        self.flush()
    }

    /// The link, for another flow. Only after [`Outlet::finish`]. `None` if the flow was ended meanwhile, and with it the
    /// connection.
    pub fn into_link(self) -> Option<Link> {
        let Carrier::Link(link, watched) = self.carrier else { return None };
        self.context.abort.forget(watched).then_some(link)
    }

    /// The frames that were gathered.
    pub fn into_answer(self) -> Vec<u8> {
        if let Carrier::Answer(gathered) = self.carrier { gathered } else { Vec::new() }
    }
}
