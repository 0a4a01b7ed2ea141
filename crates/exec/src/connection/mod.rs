//! Data connections: one for each edge of each lane, pooled between flows, never shared by two at once.

mod dial;
mod inlet;
mod low_water;
mod outlet;

pub use dial::{Call, Dialling, dial};
pub use inlet::{FrameAt, Inlet, fingerprint_at, frame_capacity, in_parts, receive_capacity};
pub use outlet::Outlet;

use crate::doing::Doing;
use crate::lock;
use crate::throttle::Throttle;
use flow::bound::{EdgeEnd, FlowHeader};
use model::{Cause, Fault, Peer};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use std::collections::HashMap;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use wire::frame::RELEASE;
use wire::proto;

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
    streams: HashMap<u64, Arc<TcpStream>>,
}

impl Abort {
    /// Wakes all threads of the flow; what they do next fails.
    pub fn fire(&self) {
        self.fired.store(true, Ordering::SeqCst);
        for (_, stream) in lock(&self.streams).streams.drain() {
            // The stream may be gone already; then there is nobody to wake.
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }

    /// Whether [`Abort::fire`] was called.
    pub fn fired(&self) -> bool {
        self.fired.load(Ordering::SeqCst)
    }

    pub(crate) fn watch(&self, stream: &Arc<TcpStream>) -> u64 {
        let mut watched = lock(&self.streams);
        watched.next += 1;
        let key = watched.next;
        watched.streams.insert(key, Arc::clone(stream));
        drop(watched);
        if self.fired() {
            self.fire();
        }
        key
    }

    /// The stream ended well and serves another flow from now on: this one must not shut it down any more. Whether it has
    /// not done so already.
    pub(crate) fn forget(&self, key: u64) -> bool {
        lock(&self.streams).streams.remove(&key).is_some()
    }
}

/// Connections that this process dialled and whose flows have ended here.
///
/// At the other end a stage may still hold one, and wait for other streams before it takes this one's End. A Hello on it would
/// wait with that stage; and flows that so wait for each other's connections would stand still. So one that was sent on is
/// handed out only once its receiver has [released](RELEASE) it.
#[derive(Debug, Default)]
pub struct Pool {
    idle: Mutex<HashMap<SocketAddr, Vec<Pooled>>>,
}

#[derive(Debug)]
struct Pooled {
    stream: Arc<TcpStream>,
    released: bool,
}

impl Pool {
    fn take(&self, peer: SocketAddr) -> Option<Arc<TcpStream>> {
        let mut idle = lock(&self.idle);
        let pooled = idle.get_mut(&peer)?;
        pooled.retain_mut(Pooled::hear);
        let free = pooled.iter().rposition(|pooled| pooled.released)?;
        Some(pooled.remove(free).stream)
    }

    pub(crate) fn put(&self, peer: SocketAddr, stream: Arc<TcpStream>, released: bool) {
        let mut idle = lock(&self.idle);
        let pooled = idle.entry(peer).or_default();
        if pooled.len() < POOLED_PER_PEER {
            pooled.push(Pooled { stream, released });
        }
    }
}

impl Pooled {
    /// Hears, without waiting, whether the receiver has released it. Whether it may still be of use.
    fn hear(&mut self) -> bool {
        if self.released {
            return true;
        }
        let mut said = [0];
        match recv(&self.stream, &mut said, RecvFlags::DONTWAIT) {
            Ok((1, _)) => self.released = said == [RELEASE],
            Err(error) => return error == Errno::WOULDBLOCK || error == Errno::INTR,
            Ok(_) => {}
        }
        self.released
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
    /// Shared with whoever may end the flow, while one runs.
    pub(crate) stream: Arc<TcpStream>,
    pub(crate) origin: Origin,
    /// Whether nobody at the other end holds it any more, once its flow has ended here.
    pub(crate) released: bool,
    /// What the stage at the other end says of itself, if it answered a call: its frames follow.
    pub(crate) answered: Option<proto::StageStats>,
    /// Bytes of the flow that came with its answer.
    pub(crate) early: Vec<u8>,
}

impl Link {
    /// A connection on which nothing of the flow has come yet.
    pub(crate) fn new(stream: Arc<TcpStream>, origin: Origin) -> Link {
        Link { stream, origin, released: false, answered: None, early: Vec::new() }
    }
}

/// Who we are in a flow, for errors and frames.
#[derive(Clone, Debug)]
pub struct Identity {
    /// This process.
    pub node: Peer,
    /// The flow's header.
    pub header: FlowHeader,
}

impl Identity {
    /// A fault of this flow, reported by this node, suspecting the edge between `peer` and us.
    pub fn fault(&self, cause: Cause, end: &EdgeEnd, inbound: bool, detail: impl Into<String>) -> Fault {
        let (from, to) = if inbound { (end.peer, self.node) } else { (self.node, end.peer) };
        Fault::new(cause, detail).suspecting(from, to).at(u32::from(end.lane), 0)
    }

    /// The fault for a connection that could not be had, or kept, because of `error`. No peer is to blame for what this
    /// process lacks.
    fn no_connection(&self, end: &EdgeEnd, inbound: bool, error: &std::io::Error, detail: String) -> Fault {
        let lacks = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM, Errno::ADDRNOTAVAIL];
        match Errno::from_io_error(error) {
            Some(errno) if lacks.contains(&errno) => {
                Fault::new(Cause::Busy, detail).suspecting(self.node, self.node)
            }
            _ => self.fault(Cause::Disconnected, end, inbound, detail),
        }
    }
}

/// What a stage needs to turn links into streams.
pub struct StreamContext {
    /// Who we are.
    pub id: Identity,
    /// The process's limit.
    pub throttle: Arc<Throttle>,
    /// Ends blocking calls.
    pub abort: Arc<Abort>,
    /// What the stage does right now.
    pub doing: Arc<Doing>,
    /// Called when input stays away for `stall_ms`.
    pub on_wait: Arc<dyn Fn(Fault) + Send + Sync>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::NodeId;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let dialled = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (dialled, listener.accept().unwrap().0)
    }

    #[test]
    fn a_connection_serves_another_flow_or_ends_with_its_own() {
        let abort = Abort::default();
        let ((kept, _peer), (ended, mut peer)) = (pair(), pair());
        let (kept, ended) = (Arc::new(kept), Arc::new(ended));
        let (first, second) = (abort.watch(&kept), abort.watch(&ended));
        assert!(abort.forget(first));
        abort.fire();
        assert!(!abort.forget(second), "it must not be kept: it was shut down");
        assert_eq!(peer.read(&mut [0]).unwrap(), 0);
        kept.set_nonblocking(true).unwrap();
        let open = (&*kept).read(&mut [0]).unwrap_err();
        assert_eq!(open.kind(), std::io::ErrorKind::WouldBlock);
    }

    #[test]
    fn a_connection_is_handed_out_once_its_receiver_has_released_it() {
        let (pool, peer) = (Pool::default(), "127.0.0.1:1".parse().unwrap());
        let ((sent, mut receiver), (received, _sender)) = (pair(), pair());
        let (first, second) = (sent.local_addr().unwrap(), received.local_addr().unwrap());
        pool.put(peer, Arc::new(sent), false);
        assert!(pool.take(peer).is_none(), "its receiver is busy with other streams yet");
        pool.put(peer, Arc::new(received), true);
        assert_eq!(pool.take(peer).unwrap().local_addr().unwrap(), second);
        assert!(pool.take(peer).is_none());
        receiver.write_all(&[RELEASE]).unwrap();
        let taken = (0..1000).find_map(|_| {
            pool.take(peer).or_else(|| {
                std::thread::sleep(std::time::Duration::from_millis(1));
                None
            })
        });
        assert_eq!(taken.unwrap().local_addr().unwrap(), first);

        // What was closed, or says anything else, is let go of.
        let ((closed, receiver), (strange, mut stranger)) = (pair(), pair());
        drop(receiver);
        stranger.write_all(&[RELEASE + 1]).unwrap();
        pool.put(peer, Arc::new(closed), false);
        pool.put(peer, Arc::new(strange), false);
        while lock(&pool.idle)[&peer].iter().any(|pooled| !pooled.released) {
            assert!(pool.take(peer).is_none());
        }
    }

    #[test]
    fn no_peer_is_blamed_for_what_this_process_lacks() {
        let geometry = flow::Geometry { block_bytes: 1, alpha: 1, slice_bytes: 1024 };
        let id = Identity {
            node: NodeId(3).into(),
            header: FlowHeader::new(model::FlowId(1), gf::Field::Gf256, geometry),
        };
        let end = EdgeEnd {
            lane: 0,
            edge: 0,
            rows: 1,
            extents: vec![1],
            token: model::Token(rand::random()),
            dial: None,
            peer: NodeId(7).into(),
            bytes_per_s: 0,
        };
        let fault = |errno: Errno| id.no_connection(&end, false, &errno.into(), String::new());
        let lacking = fault(Errno::MFILE);
        assert_eq!((lacking.cause, lacking.suspect), (Cause::Busy, Some((id.node, id.node))));
        let lost = fault(Errno::CONNRESET);
        assert_eq!((lost.cause, lost.suspect), (Cause::Disconnected, Some((id.node, end.peer))));
    }
}
