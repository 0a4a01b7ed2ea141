//! Connections to a control port: how many are kept, and which one goes when there are too many.
//!
//! A connection is a *stranger* until its first bytes have come. Strangers and others have a limit each, so those who only
//! connect cannot push out those who ask.

use super::Limits;
use std::collections::HashMap;
use std::io::{Error, ErrorKind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep, sleep, sleep_until};
use tokio_stream::Stream;
use tonic::transport::server::Connected;

/// When a process has no descriptors left, others get this time to close theirs.
const OUT_OF_DESCRIPTORS: Duration = Duration::from_millis(100);

/// The connections of a port.
#[derive(Debug)]
pub(super) struct Guests {
    limits: Limits,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    last: u64,
    all: HashMap<u64, Known>,
}

#[derive(Debug)]
struct Known {
    guest: Arc<Guest>,
    /// Dropped, it closes the connection.
    _stays: oneshot::Sender<()>,
}

/// One connection.
#[derive(Debug)]
pub(super) struct Guest {
    heard: Mutex<Instant>,
    is_stranger: AtomicBool,
    /// Requests that are being answered.
    requests: AtomicU32,
}

impl Guest {
    fn new() -> Guest {
        Guest {
            heard: Mutex::new(Instant::now()),
            is_stranger: AtomicBool::new(true),
            requests: AtomicU32::new(0),
        }
    }

    fn hear(&self) {
        *locked(&self.heard) = Instant::now();
        self.is_stranger.store(false, Ordering::Relaxed);
    }

    fn last_heard(&self) -> Instant {
        *locked(&self.heard)
    }

    fn is_stranger(&self) -> bool {
        self.is_stranger.load(Ordering::Relaxed)
    }

    fn silent_until(&self, limits: &Limits) -> Instant {
        self.last_heard() + if self.is_stranger() { limits.first_word } else { limits.silence }
    }

    /// Counts a request until the result is dropped: a connection with requests is not closed for others.
    pub fn asks(self: &Arc<Guest>) -> Asking {
        self.requests.fetch_add(1, Ordering::Relaxed);
        Asking(Arc::clone(self))
    }
}

/// A request that is being answered.
pub(super) struct Asking(Arc<Guest>);

impl Drop for Asking {
    fn drop(&mut self) {
        self.0.requests.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Guests {
    pub fn new(limits: Limits) -> Guests {
        Guests { limits, open: Mutex::default() }
    }

    #[cfg(test)]
    pub fn count(&self) -> usize {
        locked(&self.open).all.len()
    }

    #[cfg(test)]
    pub fn admitted(&self) -> u64 {
        locked(&self.open).last
    }

    /// Admits a connection. If there are too many, the one that has been silent longest goes; one with a request stays. Returns `None` if all of
    /// them have requests.
    fn admit(self: &Arc<Guests>, stream: TcpStream) -> Option<Connection> {
        let mut open = locked(&self.open);
        let strangers = open.all.values().filter(|known| known.guest.is_stranger()).count();
        let is_full = open.all.len() - strangers >= self.limits.guests;
        if (strangers >= self.limits.strangers || is_full)
            && !open.close_one(strangers >= self.limits.strangers)
        {
            return None;
        }
        open.last += 1;
        let (number, guest, (stays, closed)) = (open.last, Arc::new(Guest::new()), oneshot::channel());
        open.all.insert(number, Known { guest: Arc::clone(&guest), _stays: stays });
        let due = Box::pin(sleep_until(guest.silent_until(&self.limits)));
        let entry = Entry { guests: Arc::clone(self), number };
        Some(Connection { stream, guest, closed, due, entry })
    }
}

impl Open {
    fn close_one(&mut self, strangers: bool) -> bool {
        let idle = self.all.iter().filter(|(_, known)| {
            known.guest.is_stranger() == strangers && known.guest.requests.load(Ordering::Relaxed) == 0
        });
        let silent = idle.min_by_key(|(_, known)| known.guest.last_heard()).map(|(&number, _)| number);
        silent.is_some_and(|number| self.all.remove(&number).is_some())
    }
}

/// A connection's place among the open ones; dropping it frees that.
struct Entry {
    guests: Arc<Guests>,
    number: u64,
}

impl Drop for Entry {
    fn drop(&mut self) {
        locked(&self.guests.open).all.remove(&self.number);
    }
}

/// Connections as they come.
pub(super) struct Arrivals {
    listener: TcpListener,
    guests: Arc<Guests>,
    /// Set while there are no descriptors.
    pause: Option<Pin<Box<Sleep>>>,
}

impl Arrivals {
    pub fn new(listener: TcpListener, guests: Arc<Guests>) -> Arrivals {
        Arrivals { listener, guests, pause: None }
    }
}

impl Stream for Arrivals {
    type Item = std::io::Result<Connection>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let arrivals = self.get_mut();
        loop {
            if let Some(pause) = &mut arrivals.pause {
                ready!(pause.as_mut().poll(cx));
                arrivals.pause = None;
            }
            match ready!(arrivals.listener.poll_accept(cx)) {
                Ok((stream, _)) => {
                    let _ = stream.set_nodelay(true);
                    if let Some(connection) = arrivals.guests.admit(stream) {
                        return Poll::Ready(Some(Ok(connection)));
                    }
                }
                Err(error) if is_of_one_connection(&error) => {}
                Err(error) => {
                    tracing::warn!("control port: {error}");
                    arrivals.pause = Some(Box::pin(sleep(OUT_OF_DESCRIPTORS)));
                }
            }
        }
    }
}

/// Whether a connection ended before it was accepted.
fn is_of_one_connection(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset | ErrorKind::ConnectionRefused
    )
}

/// A connection that ends when it is silent for too long, or closed for another one.
pub(super) struct Connection {
    stream: TcpStream,
    guest: Arc<Guest>,
    closed: oneshot::Receiver<()>,
    due: Pin<Box<Sleep>>,
    entry: Entry,
}

impl Connected for Connection {
    type ConnectInfo = Arc<Guest>;

    fn connect_info(&self) -> Arc<Guest> {
        Arc::clone(&self.guest)
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let connection = self.get_mut();
        let before = buffer.filled().len();
        // Read pending bytes first: after a pause of this process all deadlines have passed.
        if let Poll::Ready(read) = Pin::new(&mut connection.stream).poll_read(cx, buffer) {
            if buffer.filled().len() > before {
                connection.guest.hear();
            }
            return Poll::Ready(read);
        }
        if Pin::new(&mut connection.closed).poll(cx).is_ready() {
            return Poll::Ready(Err(Error::new(
                ErrorKind::ConnectionAborted,
                "closed for another connection",
            )));
        }
        loop {
            ready!(connection.due.as_mut().poll(cx));
            let until = connection.guest.silent_until(&connection.entry.guests.limits);
            if until <= Instant::now() {
                return Poll::Ready(Err(Error::new(ErrorKind::TimedOut, "silent for too long")));
            }
            connection.due.as_mut().reset(until);
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

fn locked<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}
