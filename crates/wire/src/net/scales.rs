//! Bytes of requests in flight. A message is weighed when its length is known, before the rest of it is read, and counts until its request is
//! answered; in a stream of requests, until the next message is wanted. What waits to be weighed stays with its sender, by HTTP/2's flow control.

use super::calls::{Bounds, SMALL, bounds};
use super::guests::Guest;
use http_body::Frame;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::{Bytes, Service, http};
use tonic::server::NamedService;

/// Bytes of messages up to [`SMALL`]: at least 256 of them at once. They have a share of their own, so that large ones do not hold them up.
const SMALL_IN_FLIGHT: usize = 16 << 20;

/// Bytes of larger messages: one of the largest, and half of another. Decoding takes as much again.
const LARGE_IN_FLIGHT: usize = 48 << 20;

/// The flag and the length before each message of gRPC.
const PREFIX_BYTES: usize = 5;

/// The bytes that requests may still bring.
#[derive(Debug)]
pub(super) struct Scales {
    small: Arc<Semaphore>,
    large: Arc<Semaphore>,
    arrives_within: Duration,
}

impl Scales {
    pub fn new(arrives_within: Duration) -> Scales {
        let [small, large] = [SMALL_IN_FLIGHT, LARGE_IN_FLIGHT].map(|bytes| Arc::new(Semaphore::new(bytes)));
        Scales { small, large, arrives_within }
    }

    fn weigh(&self, bytes: usize) -> Weighing {
        let scale = if bytes <= SMALL { &self.small } else { &self.large };
        Box::pin(Arc::clone(scale).acquire_many_owned(bytes as u32))
    }
}

type Weighing = Pin<Box<dyn Future<Output = Result<OwnedSemaphorePermit, tokio::sync::AcquireError>> + Send>>;

/// The weight of a request's messages. Shared by its body and by whoever answers it.
type Held = Arc<Mutex<Vec<OwnedSemaphorePermit>>>;

/// A service whose requests are weighed.
#[derive(Clone)]
pub(super) struct Weighed<S> {
    service: S,
    scales: Arc<Scales>,
}

impl<S> Weighed<S> {
    pub fn new(service: S, scales: Arc<Scales>) -> Weighed<S> {
        Weighed { service, scales }
    }
}

impl<S: NamedService> NamedService for Weighed<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<http::Request<Body>> for Weighed<S>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<http::Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.service.poll_ready(cx)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let asking = request.extensions().get::<Arc<Guest>>().map(Guest::asks);
        let bounds = bounds(request.uri().path());
        let held = Held::default();
        let scales = Arc::clone(&self.scales);
        let request = request.map(|body| Body::new(Arriving::new(body, bounds, scales, Arc::clone(&held))));
        let answering = self.service.call(request);
        Box::pin(async move {
            let answered = answering.await;
            drop(held);
            // An answer that is a stream is a request under way for as long as it lasts.
            answered.map(|response| response.map(|body| Body::new(Leaving { body, _asking: asking })))
        })
    }
}

/// The body of an answer.
struct Leaving {
    body: Body,
    _asking: Option<super::guests::Asking>,
}

impl http_body::Body for Leaving {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        Pin::new(&mut self.get_mut().body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.size_hint()
    }
}

/// The body of a request.
struct Arriving {
    body: Body,
    bounds: Bounds,
    scales: Arc<Scales>,
    held: Held,
    parsed: Parsed,
    /// A frame that waits until the messages that begin in it are weighed.
    waits: Option<(Frame<Bytes>, Weighing)>,
    /// When the message that is arriving is due.
    due: Option<Pin<Box<Sleep>>>,
}

impl Arriving {
    fn new(body: Body, bounds: Bounds, scales: Arc<Scales>, held: Held) -> Arriving {
        let due = (!bounds.is_stream).then(|| Box::pin(sleep(scales.arrives_within)));
        Arriving { body, bounds, scales, held, parsed: Parsed::default(), waits: None, due }
    }

    fn held(&self) -> std::sync::MutexGuard<'_, Vec<OwnedSemaphorePermit>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at a frame's bytes. Returns the weight of the messages that begin in it.
    fn look(&mut self, bytes: &[u8]) -> Result<usize, Status> {
        let was_within = self.parsed.is_within();
        let weight = self.parsed.feed(bytes, self.bounds.message)?;
        match self.parsed.is_within() {
            false if self.bounds.is_stream => self.due = None,
            true if !was_within && self.bounds.is_stream => {
                self.due = Some(Box::pin(sleep(self.scales.arrives_within)))
            }
            _ => {}
        }
        Ok(weight)
    }
}

impl http_body::Body for Arriving {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let arriving = self.get_mut();
        if let Some((_, weighing)) = &mut arriving.waits {
            let weighed = ready!(weighing.as_mut().poll(cx));
            let Some((frame, _)) = arriving.waits.take() else { return Poll::Pending };
            return Poll::Ready(Some(match weighed {
                Ok(permit) => {
                    arriving.held().push(permit);
                    // Waiting to be weighed was not the sender's doing.
                    if let Some(due) = &mut arriving.due {
                        due.as_mut().reset(Instant::now() + arriving.scales.arrives_within);
                    }
                    Ok(frame)
                }
                Err(_) => Err(Status::unavailable("no more requests are taken")),
            }));
        }
        if arriving.bounds.is_stream && !arriving.parsed.is_within() {
            arriving.held().clear();
        }
        let Poll::Ready(next) = Pin::new(&mut arriving.body).poll_frame(cx) else {
            if let Some(due) = &mut arriving.due {
                ready!(due.as_mut().poll(cx));
                let what = format!("the request did not come within {:?}", arriving.scales.arrives_within);
                return Poll::Ready(Some(Err(Status::deadline_exceeded(what))));
            }
            return Poll::Pending;
        };
        let frame = match next {
            Some(Ok(frame)) => frame,
            ended => return Poll::Ready(ended),
        };
        let weight = match frame.data_ref().map(|bytes| arriving.look(&bytes.clone())) {
            Some(Ok(weight)) => weight,
            Some(Err(refused)) => return Poll::Ready(Some(Err(refused))),
            None => 0,
        };
        if weight == 0 {
            return Poll::Ready(Some(Ok(frame)));
        }
        arriving.waits = Some((frame, arriving.scales.weigh(weight)));
        Pin::new(arriving).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.waits.is_none() && self.body.is_end_stream()
    }
}

/// Position of a body in its sequence of messages.
#[derive(Default)]
struct Parsed {
    prefix: [u8; PREFIX_BYTES],
    /// Bytes of the prefix that have come.
    prefixed: usize,
    /// Bytes of the message that are still to come.
    left: usize,
}

impl Parsed {
    /// Whether a message has begun and not ended.
    fn is_within(&self) -> bool {
        self.prefixed > 0
    }

    /// Takes the next bytes. Returns the sum of the lengths of messages whose prefix ends in them, or refuses one that is longer than `longest`.
    fn feed(&mut self, mut bytes: &[u8], longest: usize) -> Result<usize, Status> {
        let mut weight = 0;
        while !bytes.is_empty() {
            if self.prefixed < PREFIX_BYTES {
                let (now, rest) = bytes.split_at(bytes.len().min(PREFIX_BYTES - self.prefixed));
                self.prefix[self.prefixed..self.prefixed + now.len()].copy_from_slice(now);
                self.prefixed += now.len();
                bytes = rest;
                if self.prefixed < PREFIX_BYTES {
                    break;
                }
                let [_, length @ ..] = self.prefix;
                self.left = u32::from_be_bytes(length) as usize;
                if self.left > longest {
                    let what = format!(
                        "a request of {} bytes, and at most {longest} are taken by this call",
                        self.left
                    );
                    return Err(Status::out_of_range(what));
                }
                weight += self.left;
            }
            let now = self.left.min(bytes.len());
            self.left -= now;
            bytes = &bytes[now..];
            if self.left == 0 {
                self.prefixed = 0;
            }
        }
        Ok(weight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(bytes: usize) -> Vec<u8> {
        let mut framed = vec![0];
        framed.extend((bytes as u32).to_be_bytes());
        framed.extend(vec![7; bytes]);
        framed
    }

    #[test]
    fn messages_are_weighed_once_however_they_are_cut() {
        let all: Vec<u8> = [0, 1, 300, 7, 5_000].into_iter().flat_map(message).collect();
        for piece in [1, 2, 3, 5, 6, 64, 5_000, all.len()] {
            let mut parsed = Parsed::default();
            let weight: usize = all.chunks(piece).map(|bytes| parsed.feed(bytes, 5_000).unwrap()).sum();
            assert_eq!((weight, parsed.is_within()), (5_308, false), "pieces of {piece}");
        }
    }

    #[test]
    fn a_message_that_is_too_long_is_refused_by_its_prefix() {
        let mut parsed = Parsed::default();
        assert_eq!(parsed.feed(&message(5_001)[..4], 5_000).unwrap(), 0);
        assert!(parsed.is_within());
        let refused = parsed.feed(&message(5_001)[4..5], 5_000).unwrap_err();
        assert_eq!(refused.code(), tonic::Code::OutOfRange);
    }
}
