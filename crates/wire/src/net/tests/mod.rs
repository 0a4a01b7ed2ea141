use super::{ControlPort, Limits};
use http_body::Frame;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tonic::body::Body;
use tonic::codegen::{Bytes, Service, http};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

/// A service that reads a request and answers once it may.
#[derive(Clone)]
struct Reader {
    /// Bytes of requests that were read and are not answered yet, and the most that these were.
    holds: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
    may_answer: Arc<Semaphore>,
}

impl Reader {
    fn new(answers: usize) -> Reader {
        Reader { holds: Arc::default(), most: Arc::default(), may_answer: Arc::new(Semaphore::new(answers)) }
    }

    async fn answer(self, request: http::Request<Body>) -> http::Response<Body> {
        let is_waited_for = request.uri().path().ends_with("/Drive");
        let mut body = request.into_body();
        let mut own = 0;
        let status = loop {
            match poll_fn(|cx| http_body::Body::poll_frame(Pin::new(&mut body), cx)).await {
                Some(Ok(frame)) => {
                    let bytes = frame.data_ref().map_or(0, |bytes| bytes.len());
                    own += bytes;
                    self.most
                        .fetch_max(self.holds.fetch_add(bytes, Ordering::SeqCst) + bytes, Ordering::SeqCst);
                }
                Some(Err(refused)) => break Some(refused),
                None => break None,
            }
        };
        if is_waited_for && status.is_none() {
            self.may_answer.acquire().await.unwrap().forget();
        }
        self.holds.fetch_sub(own, Ordering::SeqCst);
        match status {
            Some(refused) => refused.into_http(),
            None => Status::ok("").into_http(),
        }
    }
}

impl tonic::server::NamedService for Reader {
    const NAME: &'static str = "test.Reader";
}

impl Service<http::Request<Body>> for Reader {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<http::Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let reader = self.clone();
        Box::pin(async move { Ok(reader.answer(request).await) })
    }
}

/// The bytes of a request, in pieces. Whether it ends is the sender's choice.
struct Sent(VecDeque<Bytes>, bool);

impl http_body::Body for Sent {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let sent = self.get_mut();
        match sent.0.pop_front() {
            Some(bytes) => Poll::Ready(Some(Ok(Frame::data(bytes)))),
            None if sent.1 => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}

/// A message of so many bytes, of which that many are sent.
fn message(bytes: usize, sent: usize) -> Sent {
    let mut prefix = vec![0];
    prefix.extend((bytes as u32).to_be_bytes());
    let piece = Bytes::from(vec![7; 64 << 10]);
    let pieces = (0..sent).step_by(piece.len()).map(|at| piece.slice(..piece.len().min(sent - at)));
    Sent(std::iter::once(Bytes::from(prefix)).chain(pieces).collect(), sent == bytes)
}

async fn call(channel: &Channel, name: &str, body: Sent) -> Code {
    let uri = format!("http://test/test.Reader/{name}");
    let request =
        http::Request::post(uri).header("content-type", "application/grpc").header("te", "trailers");
    let mut channel = channel.clone();
    poll_fn(|cx| channel.poll_ready(cx)).await.unwrap();
    match channel.call(request.body(Body::new(body)).unwrap()).await {
        Ok(answer) => Status::from_header_map(answer.headers()).unwrap().code(),
        Err(_) => Code::Unavailable,
    }
}

async fn serve(limits: Limits, reader: &Reader) -> ControlPort {
    let port = ControlPort::within(limits, "127.0.0.1:0".parse().unwrap()).await.unwrap();
    tokio::spawn(port.serve(reader.clone(), std::future::pending()).unwrap());
    port
}

async fn connect(port: &ControlPort) -> Channel {
    Endpoint::from_shared(format!("http://{}", port.addr())).unwrap().connect().await.unwrap()
}

/// Whether the other end closes a connection within this time.
async fn is_closed(connection: &mut TcpStream, within: Duration) -> bool {
    let mut bytes = [0; 64];
    let closed = async { while matches!(connection.read(&mut bytes).await, Ok(1..)) {} };
    tokio::time::timeout(within, closed).await.is_ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_requests_wait_for_each_other_and_small_ones_pass() {
    const LARGE: usize = 30 << 20;
    let reader = Reader::new(0);
    let port = serve(Limits::default(), &reader).await;
    let mut large = Vec::new();
    for _ in 0..4 {
        let channel = connect(&port).await;
        large.push(tokio::spawn(async move { call(&channel, "Drive", message(LARGE, LARGE)).await }));
    }
    while reader.holds.load(Ordering::SeqCst) < LARGE {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let small = connect(&port).await;
    for _ in 0..100 {
        assert_eq!(call(&small, "Lookup", message(1_000, 1_000)).await, Code::Ok);
    }
    reader.may_answer.add_permits(4);
    for each in large {
        assert_eq!(each.await.unwrap(), Code::Ok);
    }
    let most = reader.most.load(Ordering::SeqCst);
    assert!((LARGE..2 * LARGE).contains(&most), "{most} bytes of requests at once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_is_no_longer_than_its_call_takes() {
    let reader = Reader::new(1_000);
    let port = serve(Limits::default(), &reader).await;
    let channel = connect(&port).await;
    for (name, longest) in [("ReportFault", 64 << 10), ("CheckBlocks", 4 << 20), ("Drive", 32 << 20)] {
        assert_eq!(call(&channel, name, message(longest, longest)).await, Code::Ok, "{name}");
        let before = reader.most.load(Ordering::SeqCst);
        assert_eq!(call(&channel, name, message(longest + 1, longest + 1)).await, Code::OutOfRange, "{name}");
        assert_eq!(reader.most.load(Ordering::SeqCst), before, "nothing of it is read");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_does_not_come_is_given_up_and_holds_nothing() {
    let reader = Reader::new(1_000);
    let limits = Limits { arrives_within: Duration::from_millis(300), ..Limits::default() };
    let port = serve(limits, &reader).await;
    let channel = connect(&port).await;
    for name in ["Drive", "RunStages"] {
        for sent in [0, 1 << 20] {
            assert_eq!(
                call(&channel, name, message(30 << 20, sent)).await,
                Code::DeadlineExceeded,
                "{name}, {sent} bytes"
            );
        }
    }
    assert_eq!(call(&channel, "Drive", message(30 << 20, 30 << 20)).await, Code::Ok);
    assert_eq!(call(&channel, "Lookup", Sent(VecDeque::new(), false)).await, Code::DeadlineExceeded);
    // A stream of requests may pause between two of them.
    let pausing = tokio::time::timeout(
        Duration::from_secs(1),
        call(&channel, "RunStages", Sent(VecDeque::new(), false)),
    );
    assert!(pausing.await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn those_who_only_connect_are_few_and_go_soon() {
    let reader = Reader::new(1_000);
    let limits = Limits { strangers: 4, first_word: Duration::from_millis(700), ..Limits::default() };
    let port = serve(limits, &reader).await;
    let channel = connect(&port).await;
    assert_eq!(call(&channel, "Lookup", message(10, 10)).await, Code::Ok);
    let mut silent = Vec::new();
    for _ in 0..12 {
        silent.push(TcpStream::connect(port.addr()).await.unwrap());
        // Each one is admitted before the next one comes.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for (number, connection) in silent.iter_mut().enumerate() {
        assert_eq!(is_closed(connection, Duration::from_millis(200)).await, number < 8, "{number}");
        assert_eq!(call(&channel, "Lookup", message(10, 10)).await, Code::Ok);
        if number == 8 {
            break;
        }
    }
    for connection in &mut silent {
        assert!(is_closed(connection, Duration::from_secs(3)).await);
    }
    assert_eq!(call(&channel, "Lookup", message(10, 10)).await, Code::Ok);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_longest_silent_without_a_request_goes_for_a_new_one() {
    let reader = Reader::new(0);
    let limits = Limits { guests: 3, ..Limits::default() };
    let port = serve(limits, &reader).await;
    let asking = connect(&port).await;
    let answer = tokio::spawn(async move { call(&asking, "Drive", message(100, 100)).await });
    while reader.holds.load(Ordering::SeqCst) == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let mut idle = Vec::new();
    for _ in 0..6 {
        let mut connection = TcpStream::connect(port.addr()).await.unwrap();
        connection.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        idle.push(connection);
    }
    let mut open = 0;
    for connection in &mut idle {
        open += usize::from(!is_closed(connection, Duration::from_millis(100)).await);
    }
    assert_eq!(open, 2, "those who are open beside the one that asks");
    reader.may_answer.add_permits(1);
    assert_eq!(answer.await.unwrap(), Code::Ok);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_answers_no_ping_goes_and_who_does_stays() {
    let reader = Reader::new(1_000);
    let (ping_every, silence) = (Duration::from_millis(100), Duration::from_millis(600));
    let limits = Limits { ping_every, silence, first_word: silence, ..Limits::default() };
    let port = serve(limits, &reader).await;
    let idle = connect(&port).await;
    assert_eq!(call(&idle, "Lookup", message(10, 10)).await, Code::Ok);
    let mut silent = TcpStream::connect(port.addr()).await.unwrap();
    silent.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    assert!(is_closed(&mut silent, Duration::from_secs(5)).await);
    assert_eq!(reader.holds.load(Ordering::SeqCst), 0);
    // It is the same connection; a new one would be counted.
    assert_eq!(port.guests.count(), 1);
    assert_eq!(call(&idle, "Lookup", message(10, 10)).await, Code::Ok);
    assert_eq!(port.guests.admitted(), 2);
}
