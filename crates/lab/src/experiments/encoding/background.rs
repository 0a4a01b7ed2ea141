//! Packets that are sent beside an encoding and take their part of some links, as `iperf` sends them by UDP.

use crate::error::{LabError, Result};
use crate::testbed::{Host, LinkRate, Testbed};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Payload of a packet: a full frame.
const PACKET_BYTES: usize = 1472;

/// What a link counts of it: headers of UDP, IP and Ethernet too.
const FRAME_BYTES: u64 = PACKET_BYTES as u64 + 8 + 20 + 14;

/// A sender sleeps so long between two bursts.
const PAUSE: Duration = Duration::from_millis(2);

/// Longer than a sender may be late for what it then sends at once: a burst must fit in a link's queue.
const LATEST: Duration = Duration::from_millis(20);

/// Somebody listens here, or every packet would be answered by an error.
const PORT: u16 = 7499;

/// Who sends to whom all the time, and how much: bits per second on the wire.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Background(pub Vec<(usize, usize, LinkRate)>);

/// While it lives, packets are sent.
pub struct Running {
    ended: Arc<AtomicBool>,
    senders: Vec<JoinHandle<()>>,
    _listeners: Vec<UdpSocket>,
}

impl Background {
    /// Begins to send.
    ///
    /// # Errors
    /// [`LabError::Io`], [`LabError::NoHost`].
    pub fn start(&self, testbed: &Testbed) -> Result<Running> {
        let ended = Arc::new(AtomicBool::new(false));
        let mut running = Running { ended: Arc::clone(&ended), senders: Vec::new(), _listeners: Vec::new() };
        for &(from, to, rate) in self.0.iter().filter(|(_, _, rate)| rate.is_limited()) {
            let (from, to) = (testbed.host(from)?, testbed.host(to)?);
            // Nobody reads: what its buffer cannot hold is dropped after it has passed the links.
            running._listeners.push(socket(to, PORT)?);
            let sender = socket(from, 0)?;
            let (ended, target) = (Arc::clone(&ended), SocketAddr::new(to.addr, PORT));
            running.senders.push(std::thread::spawn(move || send(&sender, target, rate, &ended)));
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
fn send(socket: &UdpSocket, to: SocketAddr, rate: LinkRate, ended: &AtomicBool) {
    let packet = [0; PACKET_BYTES];
    let frames_per_s = rate.bits_per_s as f64 / 8.0 / FRAME_BYTES as f64;
    let (mut last, mut due) = (Instant::now(), 0.0);
    while !ended.load(Ordering::Relaxed) {
        let now = Instant::now();
        due += now.duration_since(last).min(LATEST).as_secs_f64() * frames_per_s;
        last = now;
        while due >= 1.0 {
            // One that the host cannot send is lost, as others are on the way.
            let _ = socket.send_to(&packet, to);
            due -= 1.0;
        }
        std::thread::sleep(PAUSE);
    }
}
