//! Control ports: how many connections they keep, how long those may be silent, and how many bytes requests may bring at once.
//!
//! Bounds hold before a request reaches its service, so no service can forget them. Who may ask is not decided here.

mod calls;
mod guests;
mod scales;

use guests::Guests;
use scales::{Scales, Weighed};
use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tonic::body::Body;
use tonic::codegen::{Service, http};
use tonic::server::NamedService;

/// A connected caller is asked for a sign of life this often. It also tells a service that a listener has died.
const PING_EVERY: Duration = Duration::from_secs(8);

/// A connection whose other end answers no ping within this time is closed. A paused process may come back within it.
const PONG_WITHIN: Duration = Duration::from_secs(16);

/// Connections that have said something. A node of a cluster of 1,000 has one from each of the others, and clients' beside them.
const MAX_GUESTS: usize = 2_048;

/// Connections that have said nothing yet. A caller's first bytes follow its connection at once.
const MAX_STRANGERS: usize = 256;

/// A stranger says something within this time.
const FIRST_WORD: Duration = Duration::from_secs(10);

/// Others may be silent for this time: a caller answers pings, which come more often.
const SILENCE: Duration = Duration::from_secs(25);

/// A message comes within this time of its first byte, and a request without a stream of its headers. The largest takes 0.3 s at 1 Gbit/s.
const ARRIVES_WITHIN: Duration = Duration::from_secs(20);

/// Limits of a port. Tests use shorter times and smaller numbers.
#[derive(Clone, Copy, Debug)]
struct Limits {
    guests: usize,
    strangers: usize,
    first_word: Duration,
    silence: Duration,
    ping_every: Duration,
    arrives_within: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            guests: MAX_GUESTS,
            strangers: MAX_STRANGERS,
            first_word: FIRST_WORD,
            silence: SILENCE,
            ping_every: PING_EVERY,
            arrives_within: ARRIVES_WITHIN,
        }
    }
}

/// A port for control calls. Dropping it closes it once nobody serves there.
#[derive(Debug)]
pub struct ControlPort {
    addr: SocketAddr,
    listener: std::net::TcpListener,
    limits: Limits,
    guests: Arc<Guests>,
    scales: Arc<Scales>,
}

impl ControlPort {
    /// Listens on `addr`; port 0 takes any free one.
    ///
    /// # Errors
    /// I/O errors of the socket.
    pub async fn bind(addr: SocketAddr) -> std::io::Result<ControlPort> {
        ControlPort::within(Limits::default(), addr).await
    }

    async fn within(limits: Limits, addr: SocketAddr) -> std::io::Result<ControlPort> {
        let listener = TcpListener::bind(addr).await?;
        let addr = listener.local_addr()?;
        let (guests, scales) = (Arc::new(Guests::new(limits)), Arc::new(Scales::new(limits.arrives_within)));
        Ok(ControlPort { addr, listener: listener.into_std()?, limits, guests, scales })
    }

    /// Returns the address on which the port listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Answers calls with `service` until `stop` ends. Several services may follow each other on one port; callers wait between two of them.
    ///
    /// # Errors
    /// I/O errors of the socket.
    pub fn serve<S, F>(
        &self,
        service: S,
        stop: F,
    ) -> std::io::Result<impl Future<Output = Result<(), tonic::transport::Error>> + Send + use<S, F>>
    where
        F: Future<Output = ()> + Send + 'static,
        S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible>
            + NamedService
            + Clone
            + Send
            + Sync
            + 'static,
        S::Future: Send,
    {
        let listener = TcpListener::from_std(self.listener.try_clone()?)?;
        let arrivals = guests::Arrivals::new(listener, Arc::clone(&self.guests));
        let service = Weighed::new(service, Arc::clone(&self.scales));
        Ok(tonic::transport::Server::builder()
            .http2_keepalive_interval(Some(self.limits.ping_every))
            .http2_keepalive_timeout(Some(PONG_WITHIN))
            .add_service(service)
            .serve_with_incoming_shutdown(arrivals, stop))
    }
}

#[cfg(test)]
mod tests;
