//! The gateway's port: who may ask, for how much at once, and how an answer is carried.

use crate::protocol::{self, Code, DATA_BYTES, REQUEST_HEAD_BYTES, Refusal, Request};
use client::{Client, ClientError, GroupPieces, GroupRead, GroupReading, Patience};
use exec::Throttle;
use model::Cause;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, tcp};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::{JoinHandle, JoinSet};

/// Requests that are served at once: a DataNode runs eight reconstructions unless it is told otherwise, and programs on its host
/// read a few blocks. Each holds a flow of a dozen threads across the cluster, and some MiB here.
const MAX_REQUESTS: usize = 64;

/// Whoever connects has its request ready.
const REQUEST_PATIENCE: Duration = Duration::from_secs(10);

/// Whoever asked takes a frame within this time, or is taken for dead: HDFS itself waits eight minutes for a slow target, and a
/// flow costs others their room meanwhile.
const TAKE_PATIENCE: Duration = Duration::from_secs(120);

/// A coordinator that is away is waited for this long: enough for one that is started again at once. Whoever asks, HDFS above all, has a
/// way of its own, and takes it as soon as it is refused.
const COORDINATOR_PATIENCE: Duration = Duration::from_secs(5);

/// Pieces between the flow and the socket.
const PIECES_AHEAD: usize = 4;

/// Why a gateway did not start.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// The port cannot be had.
    #[error("cannot listen on {addr}: {source}; choose another port with --gateway")]
    Listen {
        /// The address.
        addr: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// Anybody on the network could ask.
    #[error("the gateway asks nobody who he is: {0} is no loopback address")]
    NotLoopback(SocketAddr),
}

/// A running gateway; dropping it ends it, and what it serves.
pub struct Gateway {
    addr: SocketAddr,
    serving: JoinHandle<()>,
}

impl Gateway {
    /// Where it is.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Starts to serve on a loopback address, with plans of the coordinator at that host and port, which may come and go. What flows
/// bring counts against `throttle`. Within a tokio runtime.
///
/// # Errors
/// [`GatewayError`].
pub async fn start(
    addr: SocketAddr,
    coordinator: String,
    throttle: Arc<Throttle>,
) -> Result<Gateway, GatewayError> {
    if !addr.ip().is_loopback() {
        return Err(GatewayError::NotLoopback(addr));
    }
    let listen = |source| GatewayError::Listen { addr, source };
    let listener = TcpListener::bind(addr).await.map_err(listen)?;
    let addr = listener.local_addr().map_err(listen)?;
    let requestor = Arc::new(Requestor { coordinator, throttle, client: Mutex::default() });
    Ok(Gateway { addr, serving: tokio::spawn(accept(listener, requestor)) })
}

async fn accept(listener: TcpListener, requestor: Arc<Requestor>) {
    let room = Arc::new(Semaphore::new(MAX_REQUESTS));
    let mut attended = JoinSet::new();
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Descriptors may be short for a moment.
                tracing::warn!("the gateway cannot accept: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        while attended.try_join_next().is_some() {}
        let (requestor, permit) = (Arc::clone(&requestor), Arc::clone(&room).try_acquire_owned());
        attended.spawn(async move {
            // The last frame is a few packets: who does not take it is gone.
            let (from, mut to) = stream.into_split();
            let answered = match permit {
                Ok(_permit) => requestor.answer(from, &mut to).await,
                Err(_) => {
                    let what = format!("{MAX_REQUESTS} requests are served already");
                    Err(Some(Refusal::new(Code::Busy, what)))
                }
            };
            if let Err(Some(refusal)) = answered {
                tracing::info!(code = ?refusal.code, "a request is not answered with bytes: {refusal}");
                let _ = take(&mut to, &protocol::error(&refusal)).await;
            }
        });
    }
}

/// Why an answer ended early; `None`: nobody is there to be told.
type Ended = Option<Refusal>;

/// Who drives the flows.
struct Requestor {
    coordinator: String,
    throttle: Arc<Throttle>,
    /// From the first time that the coordinator answered.
    client: Mutex<Option<Client>>,
}

impl Requestor {
    async fn client(&self) -> Result<Client, Refusal> {
        let known = self.client.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(client) = known {
            return Ok(client);
        }
        let connecting = Client::connect_with(
            &self.coordinator,
            Arc::clone(&self.throttle),
            Patience::of(COORDINATOR_PATIENCE),
        );
        let client = connecting.await.map_err(|error| refusal(&error))?;
        *self.client.lock().unwrap_or_else(PoisonError::into_inner) = Some(client.clone());
        Ok(client)
    }

    /// Reads a request, and answers it to its end.
    async fn answer(&self, mut from: tcp::OwnedReadHalf, to: &mut tcp::OwnedWriteHalf) -> Result<(), Ended> {
        let reading = tokio::time::timeout(REQUEST_PATIENCE, request(&mut from)).await;
        let Request { group, wanted, range, scheme, traffic, tokens, hears_of_corrupt } =
            reading.map_err(|_| None)??;
        let members = wanted.len();
        tracing::debug!(group = group.id, ?wanted, ?range, "is asked for");
        let client = self.client().await.map_err(Some)?;
        let read = GroupRead { group, wanted, range: range.clone(), scheme, traffic, patient: false, tokens };
        let (pieces, reading) = client.read_group(read);
        let found = reading.found();
        let carried = carry(pieces, reading, members, range, &mut from, to).await;
        let corrupt = found.corrupt();
        if hears_of_corrupt && !corrupt.is_empty() && !matches!(carried, Err(None)) {
            take(to, &protocol::corrupt(&corrupt)).await?;
        }
        let (bytes, note) = carried?;
        take(to, &protocol::end(bytes, &note)).await
    }
}

/// Hands on what comes, to its end; how many bytes of each member it was, and how.
async fn carry(
    pieces: GroupPieces,
    reading: GroupReading,
    members: usize,
    range: Range<u64>,
    from: &mut tcp::OwnedReadHalf,
    to: &mut tcp::OwnedWriteHalf,
) -> Result<(u64, String), Ended> {
    let (mut at, end) = (range.start, range.end);
    let mut pieces = pumped(pieces);
    let mut over = [0];
    loop {
        let piece = tokio::select! {
            piece = pieces.recv() => piece,
            // Nothing more is to come: whoever asked has gone, or says what nobody asked for. Dropping the reading ends the flow.
            _ = from.read(&mut over) => return Err(None),
        };
        let Some(piece) = piece else { break };
        let (each, step) = (piece.len() / members.max(1), (DATA_BYTES / members.max(1)).max(1));
        for from in (0..each).step_by(step) {
            let part = from..(from + step).min(each);
            take(to, &protocol::data(at + from as u64, members, &piece, part)).await?;
        }
        at += each as u64;
    }
    let report = reading.end().await.map_err(|error| Some(refusal(&error)))?;
    if at != end {
        return Err(Some(Refusal::new(Code::Bug, format!("the bytes from {at} to {end} did not come"))));
    }
    Ok((at - range.start, report.to_string()))
}

/// Hands pieces on, as they come, from where they block.
fn pumped(pieces: GroupPieces) -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel(PIECES_AHEAD);
    tokio::task::spawn_blocking(move || {
        while let Some(piece) = pieces.next_piece() {
            if sender.blocking_send(piece).is_err() {
                return;
            }
        }
    });
    receiver
}

async fn request(from: &mut tcp::OwnedReadHalf) -> Result<Request, Ended> {
    let mut head = [0; REQUEST_HEAD_BYTES];
    from.read_exact(&mut head).await.map_err(|_| None)?;
    let head = protocol::request_head(&head).map_err(Some)?;
    let mut body = vec![0; head.length];
    from.read_exact(&mut body).await.map_err(|_| None)?;
    protocol::request(&body, head).map_err(Some)
}

async fn take(to: &mut tcp::OwnedWriteHalf, frame: &[u8]) -> Result<(), Ended> {
    match tokio::time::timeout(TAKE_PATIENCE, to.write_all(frame)).await {
        Ok(Ok(())) => Ok(()),
        _ => Err(None),
    }
}

fn refusal(error: &ClientError) -> Refusal {
    let code = match error {
        ClientError::Unreachable { .. } | ClientError::TimedOut { .. } | ClientError::BadAddress(_) => {
            Code::NoCoordinator
        }
        ClientError::Refused(_) | ClientError::NotNow(_) | ClientError::NotFound(_) => Code::NoPlan,
        ClientError::Flow { fault, .. } if fault.cause == Cause::Denied => Code::Denied,
        ClientError::Flow { .. } => Code::Flow,
        _ => Code::Bug,
    };
    Refusal::new(code, error.to_string())
}
