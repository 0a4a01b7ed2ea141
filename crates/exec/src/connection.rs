//! Data connections: one for each edge of each lane, pooled between flows, never shared by two at once.

use crate::throttle::Throttle;
use gf::{CHUNK_BYTES, FINGERPRINT_BYTES, Fingerprint};
use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wire::frame::{HEADER_BYTES, Header, Hello, Kind, REPLY_BYTES, Reply};
use wire::spec::{EdgeEnd, FlowHeader};
use wire::{Cause, Fault, limits};

/// What one read may bring at most, unless a slice is longer: large enough to amortise the system call, small
/// enough to stay in the second-level cache until it has been combined and sent on.
const RECEIVE_BYTES: usize = 256 * 1024;

/// Under a throttle bytes are charged and sent in pieces of this size, so that a hop adds little delay.
const THROTTLED_PIECE_BYTES: usize = 32 * 1024;

/// Idle connections kept for each peer. A node has rarely more flows with one neighbour at once.
const POOLED_PER_PEER: usize = 8;

/// Ends everything that a flow's threads wait for.
#[derive(Debug, Default)]
pub struct Abort {
    fired: AtomicBool,
    streams: Mutex<Watched>,
}

#[derive(Debug, Default)]
struct Watched {
    next: u64,
    streams: HashMap<u64, TcpStream>,
}

impl Abort {
    /// Wakes all threads of the flow; what they do next fails.
    pub fn fire(&self) {
        self.fired.store(true, Ordering::SeqCst);
        for (_, stream) in self.lock().streams.drain() {
            // The stream may be gone already; then there is nobody to wake.
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }

    /// Whether [`Abort::fire`] was called.
    pub fn fired(&self) -> bool {
        self.fired.load(Ordering::SeqCst)
    }

    fn watch(&self, stream: &TcpStream) -> std::io::Result<u64> {
        let copy = stream.try_clone()?;
        let mut watched = self.lock();
        watched.next += 1;
        let key = watched.next;
        watched.streams.insert(key, copy);
        drop(watched);
        if self.fired() {
            self.fire();
        }
        Ok(key)
    }

    /// The stream ended well and serves another flow from now on: this one must not shut it down any more.
    fn forget(&self, key: u64) {
        self.lock().streams.remove(&key);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Watched> {
        self.streams.lock().unwrap_or_else(|p| p.into_inner())
    }
}

/// Idle connections that this process dialled.
#[derive(Debug, Default)]
pub struct Pool {
    idle: Mutex<HashMap<SocketAddr, Vec<TcpStream>>>,
}

impl Pool {
    fn take(&self, peer: SocketAddr) -> Option<TcpStream> {
        self.idle.lock().unwrap_or_else(|p| p.into_inner()).get_mut(&peer)?.pop()
    }

    fn put(&self, peer: SocketAddr, stream: TcpStream) {
        let mut idle = self.idle.lock().unwrap_or_else(|p| p.into_inner());
        let streams = idle.entry(peer).or_default();
        if streams.len() < POOLED_PER_PEER {
            streams.push(stream);
        }
    }
}

/// How a connection came about, and so where it goes when its flow has ended well.
#[derive(Clone, Copy, Debug)]
pub enum Origin {
    /// We dialled this peer.
    Dialled(SocketAddr),
    /// The peer dialled us; the listener waits for its next Hello.
    Accepted,
}

/// A connection given to one edge.
#[derive(Debug)]
pub struct Link {
    pub(crate) stream: TcpStream,
    pub(crate) origin: Origin,
}

/// Who we are in a flow, for errors and frames.
#[derive(Clone, Debug)]
pub struct Identity {
    /// This node (0: a client).
    pub node: u32,
    /// The flow's header.
    pub header: FlowHeader,
}

impl Identity {
    /// A fault of this flow, reported by this node, suspecting the edge between `peer` and us.
    pub fn fault(&self, cause: Cause, end: &EdgeEnd, inbound: bool, detail: impl Into<String>) -> Fault {
        let (from, to) = if inbound { (end.peer, self.node) } else { (self.node, end.peer) };
        Fault::new(cause, detail).suspecting(from, to).at(u32::from(end.lane), 0)
    }
}

/// Connects to the other end of an edge and says which edge it is.
pub fn dial(id: &Identity, end: &EdgeEnd, peer: SocketAddr, sends: bool, pool: &Pool) -> Result<Link, Fault> {
    let hello = Hello {
        flow: id.header.flow,
        attempt: id.header.attempt,
        lane: end.lane,
        edge: end.edge,
        token: end.token,
        dialer_sends: sends,
    };
    // A pooled connection may have been closed by the peer meanwhile; then a new one is made.
    while let Some(stream) = pool.take(peer) {
        if let Ok(Reply::Accepted) = greet(&stream, &hello) {
            return Ok(Link { stream, origin: Origin::Dialled(peer) });
        }
    }
    let unreachable = |e: std::io::Error| {
        id.fault(Cause::Disconnected, end, !sends, format!("cannot connect to {peer}: {e}"))
    };
    let timeout = Duration::from_millis(limits::CONNECT_TIMEOUT_MS);
    let stream = TcpStream::connect_timeout(&peer, timeout).map_err(unreachable)?;
    stream.set_nodelay(true).map_err(unreachable)?;
    match greet(&stream, &hello).map_err(unreachable)? {
        Reply::Accepted => Ok(Link { stream, origin: Origin::Dialled(peer) }),
        Reply::Refused => {
            Err(id.fault(Cause::Disconnected, end, !sends, format!("{peer} does not expect this stream")))
        }
    }
}

fn greet(mut stream: &TcpStream, hello: &Hello) -> std::io::Result<Reply> {
    stream.set_read_timeout(Some(Duration::from_millis(limits::CONNECT_TIMEOUT_MS)))?;
    stream.write_all(&hello.encode())?;
    let mut reply = [0; REPLY_BYTES];
    stream.read_exact(&mut reply)?;
    Reply::decode(&reply).map_err(|e| std::io::Error::new(ErrorKind::InvalidData, e))
}

/// What a stage needs to turn links into streams.
pub struct StreamContext {
    /// Who we are.
    pub id: Identity,
    /// The process's limit.
    pub throttle: Arc<Throttle>,
    /// Ends blocking calls.
    pub abort: Arc<Abort>,
    /// Called when input stays away for `stall_ms`.
    pub on_wait: Arc<dyn Fn(Fault) + Send + Sync>,
}

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
    max_payload: u32,
    frames: u64,
    /// Wire bytes received.
    pub wire_bytes: u64,
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
}

impl Inlet {
    /// Takes a link over.
    pub fn new(
        link: Link,
        end: EdgeEnd,
        max_payload: u32,
        context: Arc<StreamContext>,
    ) -> Result<Inlet, Fault> {
        let lost = |e: std::io::Error| context.id.fault(Cause::Disconnected, &end, true, e.to_string());
        let stall = Duration::from_millis(u64::from(context.id.header.stall_ms));
        link.stream.set_read_timeout(Some(stall)).map_err(lost)?;
        let watched = context.abort.watch(&link.stream).map_err(lost)?;
        let capacity = receive_capacity(max_payload, end.rows);
        Ok(Inlet {
            link,
            watched,
            end,
            context,
            buffer: vec![0; capacity],
            start: 0,
            filled: 0,
            max_payload,
            frames: 0,
            wire_bytes: 0,
        })
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

    /// Whether the next `rows` frames are here already, so that taking them cannot block.
    pub fn ready(&self, rows: usize) -> bool {
        let mut at = self.start;
        for _ in 0..rows {
            match self.peek(at) {
                Some(bytes) if at + bytes <= self.filled => at += bytes,
                _ => return false,
            }
        }
        true
    }

    /// Length of the frame that begins at `at`, once its header is here and makes sense.
    fn peek(&self, at: usize) -> Option<usize> {
        let head = self.buffer.get(at..at + HEADER_BYTES).filter(|_| at + HEADER_BYTES <= self.filled)?;
        let head: &[u8; HEADER_BYTES] = head.try_into().ok()?;
        Header::parse(head, self.max_payload).ok().map(|h| h.frame_bytes())
    }

    /// Takes the next `rows` frames, which must be the rows of `slice`. Blocks until they are here; the frames stay
    /// valid until the next call that blocks.
    pub fn take_rows(&mut self, slice: u64, rows: u16, out: &mut Vec<FrameAt>) -> Result<(), Fault> {
        if !self.ready(usize::from(rows)) {
            self.compact();
        }
        out.clear();
        for row in 0..rows {
            let frame = self.take_frame()?;
            let h = &frame.header;
            if h.kind != Kind::Slice || h.slice != slice || h.row != row {
                let what = format!(
                    "expected row {row} of slice {slice}, got {:?} {} row {}",
                    h.kind, h.slice, h.row
                );
                return Err(self.fault(Cause::CorruptSlice, what).at(u32::from(self.end.lane), slice));
            }
            self.frames += 1;
            out.push(frame);
        }
        Ok(())
    }

    /// Takes the End frame: the sender is sure that it sent everything.
    pub fn take_end(&mut self) -> Result<(), Fault> {
        if !self.ready(1) {
            self.compact();
        }
        let frame = self.take_frame()?;
        if frame.header.kind != Kind::End || frame.header.slice != self.frames {
            return Err(self.fault(Cause::CorruptSlice, "the stream does not end where it should"));
        }
        Ok(())
    }

    /// The link, for another flow. Only after [`Inlet::take_end`].
    pub fn into_link(self) -> Link {
        self.context.abort.forget(self.watched);
        self.link
    }

    fn take_frame(&mut self) -> Result<FrameAt, Fault> {
        self.fill(HEADER_BYTES)?;
        let mut head = [0; HEADER_BYTES];
        head.copy_from_slice(&self.buffer[self.start..self.start + HEADER_BYTES]);
        let header = Header::parse(&head, self.max_payload)
            .map_err(|e| self.fault(Cause::CorruptSlice, e.to_string()))?;
        self.fill(header.frame_bytes())?;
        let frame = FrameAt { header, at: self.start };
        let id = &self.context.id.header;
        header.check(&self.buffer[frame.at..frame.end()]).map_err(|e| {
            self.fault(Cause::CorruptSlice, e.to_string()).at(u32::from(self.end.lane), header.slice)
        })?;
        let same = header.flow == id.flow && header.attempt == id.attempt;
        let placed = header.lane == self.end.lane && header.edge == self.end.edge;
        if !same || !placed || (header.kind == Kind::Slice && header.verified != id.verify) {
            return Err(self.fault(Cause::CorruptSlice, "a frame of another flow, attempt or edge"));
        }
        self.start = frame.end();
        Ok(frame)
    }

    fn compact(&mut self) {
        self.buffer.copy_within(self.start..self.filled, 0);
        self.filled -= self.start;
        self.start = 0;
    }

    /// Reads until `bytes` bytes stand behind `start`.
    fn fill(&mut self, bytes: usize) -> Result<(), Fault> {
        while self.filled - self.start < bytes {
            if self.start + bytes > self.buffer.len() {
                return Err(self.fault(Cause::Bug, "a slice's frames do not fit the receive buffer"));
            }
            match self.link.stream.read(&mut self.buffer[self.filled..]) {
                Ok(0) => return Err(self.ended("the sender closed the stream before its End")),
                Ok(n) => {
                    self.filled += n;
                    self.wire_bytes += n as u64;
                    self.context.throttle.receive(n);
                }
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    let waited = self.context.id.header.stall_ms;
                    let fault = self.fault(Cause::Stalled, format!("no input for {waited} ms"));
                    (self.context.on_wait)(fault);
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(self.ended(&e.to_string())),
            }
        }
        Ok(())
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

/// Bytes that an inlet of this width needs.
pub fn receive_capacity(max_payload: u32, rows: u16) -> usize {
    (frame_capacity(max_payload) * usize::from(rows)).max(RECEIVE_BYTES)
}

/// Bytes of the largest frame.
pub fn frame_capacity(max_payload: u32) -> usize {
    let payload = max_payload as usize;
    HEADER_BYTES + payload.div_ceil(CHUNK_BYTES) * FINGERPRINT_BYTES + payload
}

/// The sending end of an edge.
pub struct Outlet {
    link: Link,
    watched: u64,
    end: EdgeEnd,
    context: Arc<StreamContext>,
    pending: Vec<u8>,
    frames: u64,
    /// Payload bytes sent.
    pub payload_bytes: u64,
    /// Wire bytes sent.
    pub wire_bytes: u64,
}

impl Outlet {
    /// Takes a link over.
    pub fn new(link: Link, end: EdgeEnd, context: Arc<StreamContext>) -> Result<Outlet, Fault> {
        let watched = context
            .abort
            .watch(&link.stream)
            .map_err(|e| context.id.fault(Cause::Disconnected, &end, false, e.to_string()))?;
        Ok(Outlet {
            link,
            watched,
            end,
            context,
            pending: Vec::new(),
            frames: 0,
            payload_bytes: 0,
            wire_bytes: 0,
        })
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
            payload_bytes,
            payload_crc: 0,
        }
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
        let limited = self.context.throttle.limits_sending();
        let piece = if limited { THROTTLED_PIECE_BYTES } else { bytes.len().max(1) };
        for part in bytes.chunks(piece) {
            self.context.throttle.send(part.len());
            if let Err(e) = self.link.stream.write_all(part) {
                if self.context.abort.fired() {
                    return Err(Fault::new(Cause::Aborted, "the flow was ended"));
                }
                return Err(self.context.id.fault(Cause::Disconnected, &self.end, false, e.to_string()));
            }
        }
        self.wire_bytes += bytes.len() as u64;
        Ok(())
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

    /// The link, for another flow. Only after [`Outlet::finish`].
    pub fn into_link(self) -> Link {
        self.context.abort.forget(self.watched);
        self.link
    }
}

/// Gives ended links back: dialled ones to the pool, accepted ones to the listener.
pub fn recycle(links: Vec<Link>, pool: &Pool, accepted: impl Fn(TcpStream)) {
    for link in links {
        match link.origin {
            Origin::Dialled(peer) => pool.put(peer, link.stream),
            Origin::Accepted => accepted(link.stream),
        }
    }
}

/// Reads fingerprint `index` of the frame whose fingerprints begin at `at`.
pub fn fingerprint_at(buffer: &[u8], at: usize, index: usize) -> Fingerprint {
    let mut bytes = [0; FINGERPRINT_BYTES];
    let from = at + index * FINGERPRINT_BYTES;
    bytes.copy_from_slice(&buffer[from..from + FINGERPRINT_BYTES]);
    Fingerprint::from_bytes(bytes)
}
