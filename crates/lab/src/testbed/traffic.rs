//! What the laboratory itself sends over links: streams that are measured, and packets beside what is measured.

use super::{Host, LinkRate, Testbed};
use crate::error::{LabError, Result};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

const PIECE_BYTES: usize = 256 << 10;

/// Payload of a packet: a full frame.
const PACKET_BYTES: usize = 1472;

/// What a link counts of it: headers of UDP, IP and Ethernet too.
const FRAME_BYTES: usize = PACKET_BYTES + 8 + 20 + 14;

/// A sender of packets sleeps so long between two bursts.
const PAUSE: Duration = Duration::from_millis(2);

/// What a sender that is late makes up for at most: such a burst fits in a link's queue.
const LATEST: Duration = Duration::from_millis(20);

/// Somebody listens here, or every packet would be answered by an error.
const PORT: u16 = 7499;

/// Packets that hosts send to others all the time, as `iperf` does by UDP: (from, to, bits per second on the wire).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Background(pub Vec<(usize, usize, LinkRate)>);

/// While it lives, packets are sent.
pub struct Running {
    ended: Arc<AtomicBool>,
    senders: Vec<JoinHandle<()>>,
    _listeners: Vec<UdpSocket>,
}

impl Background {
    /// Begins to send, by a clock.
    ///
    /// # Errors
    /// [`LabError::Io`], [`LabError::NoHost`].
    pub fn start(
        &self,
        testbed: &Testbed,
        clock: impl Fn() -> Duration + Copy + Send + 'static,
    ) -> Result<Running> {
        let ended = Arc::new(AtomicBool::new(false));
        let mut running = Running { ended: Arc::clone(&ended), senders: Vec::new(), _listeners: Vec::new() };
        for &(from, to, rate) in &self.0 {
            let (from, to) = (testbed.host(from)?, testbed.host(to)?);
            // Nobody reads: what its buffer cannot hold is dropped after it has passed the links.
            running._listeners.push(socket(to, PORT)?);
            let sender = socket(from, 0)?;
            let (ended, target) = (Arc::clone(&ended), SocketAddr::new(to.addr, PORT));
            running.senders.push(std::thread::spawn(move || send(&sender, target, rate, clock, &ended)));
        }
        Ok(running)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        for sender in self.senders.drain(..) {
            // A sender that panicked has ended, too.
            let _ = sender.join();
        }
    }
}

fn socket(host: &Host, port: u16) -> Result<UdpSocket> {
    let wrong = LabError::io(format!("open a socket on host {}", host.index));
    host.inside(|| UdpSocket::bind((host.addr, port)))?.map_err(wrong)
}

/// Sends as many packets as the rate allows, until it is to end.
fn send(
    socket: &UdpSocket,
    to: SocketAddr,
    rate: LinkRate,
    clock: impl Fn() -> Duration,
    ended: &AtomicBool,
) {
    let packet = [0; PACKET_BYTES];
    let frames_per_s = rate.bits_per_s as f64 / 8.0 / FRAME_BYTES as f64;
    let (mut last, mut due) = (clock(), 0.0);
    while !ended.load(Ordering::Relaxed) {
        let now = clock();
        due += now.saturating_sub(last).min(LATEST).as_secs_f64() * frames_per_s;
        last = now;
        while due >= 1.0 {
            // One that the host cannot send is lost, as others are on the way.
            let _ = socket.send_to(&packet, to);
            due -= 1.0;
        }
        std::thread::sleep(PAUSE);
    }
}

/// Both ends of a connection between two hosts.
pub(super) fn connect(from: &Host, to: &Host) -> Result<(TcpStream, TcpStream)> {
    let wrong = |e: io::Error| LabError::io(format!("connect host {} to host {}", from.index, to.index))(e);
    let listener = to.inside(|| TcpListener::bind((to.addr, 0)))?.map_err(wrong)?;
    let address = listener.local_addr().map_err(wrong)?;
    let sender =
        from.inside(|| TcpStream::connect_timeout(&address, Duration::from_secs(5)))?.map_err(wrong)?;
    let (receiver, _) = listener.accept().map_err(wrong)?;
    Ok((sender, receiver))
}

/// Sends as much as goes until the connection ends.
pub(super) fn pour(mut to: &TcpStream) {
    let piece = vec![0; PIECE_BYTES];
    while to.write_all(&piece).is_ok() {}
}

/// Receives until the connection ends, and tells of every piece.
pub(super) fn drain(mut from: &TcpStream, told: impl Fn(usize)) {
    let mut piece = vec![0; PIECE_BYTES];
    while let Ok(bytes @ 1..) = from.read(&mut piece) {
        told(bytes);
    }
}
