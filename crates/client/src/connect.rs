//! The connection to the coordinator, and how its calls are made.

use crate::error::{ClientError, Result, root_cause};
use exec::{Engine, EngineConfig, Throttle};
use model::{NodeId, Peer};
use plan::decide::{Hedging, Usual};
use std::future::Future;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tonic::transport::{Channel, Endpoint};
use tonic::{Response, Status};
use wire::limits;
use wire::proto::coordinator_client::CoordinatorClient;
use wire::proto::node_client::NodeClient;

/// A call that is no job is answered from the catalog, at worst behind a few dozen others that sync.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// A lost answer is asked for so often, with these pauses: a coordinator that is started again is there within a second.
const MAX_TRIES: u32 = 4;
const TRY_PAUSE: Duration = Duration::from_millis(500);

/// A peer that vanished without closing is noticed in the sum of the two; jobs run for hours on an idle stream.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(20);

/// A connected client. Cheap to clone; calls of clones share one connection.
#[derive(Clone)]
pub struct Client {
    pub(crate) address: String,
    pub(crate) coordinator: CoordinatorClient<Channel>,
    pub(crate) engine: Engine,
    /// How long reads take between this client and its cluster.
    usual: Arc<Mutex<Usual>>,
    /// Long reads that are under way.
    pub(crate) long_reads: Arc<AtomicUsize>,
    /// How long the short ones took, and who was late.
    hedging: Arc<Mutex<Hedging>>,
    since: Instant,
}

impl Client {
    /// Connects to the coordinator at `address` (`host:port`).
    ///
    /// # Errors
    /// [`ClientError::BadAddress`], [`ClientError::Unreachable`].
    pub async fn connect(address: &str) -> Result<Client> {
        Client::connect_throttled(address, Arc::default()).await
    }

    /// The same for a client whose reads and puts keep within these rates, together with whatever else does.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub async fn connect_throttled(address: &str, throttle: Arc<Throttle>) -> Result<Client> {
        let channel = open(address)
            .await?
            .map_err(|reason| ClientError::Unreachable { address: address.to_owned(), reason })?;
        let coordinator = CoordinatorClient::new(channel)
            .max_decoding_message_size(limits::MAX_CONTROL_BYTES)
            .max_encoding_message_size(limits::MAX_CONTROL_BYTES);
        let (address, usual) = (address.to_owned(), Arc::new(Mutex::new(Usual::among_many())));
        let (hedging, long_reads, since) = (Arc::default(), Arc::default(), Instant::now());
        let engine = Engine::new(EngineConfig::new(Peer::Client, throttle, None));
        Ok(Client { address, coordinator, engine, usual, long_reads, hedging, since })
    }

    /// Where the coordinator is.
    pub fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn usual(&self) -> MutexGuard<'_, Usual> {
        self.usual.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn hedging(&self) -> MutexGuard<'_, Hedging> {
        self.hedging.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Since the client began.
    pub(crate) fn now(&self) -> Duration {
        self.since.elapsed()
    }

    /// A call that is answered at once, within a bounded time.
    pub(crate) async fn call<T>(
        &self,
        what: &'static str,
        call: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T> {
        match tokio::time::timeout(CALL_TIMEOUT, call).await {
            Ok(Ok(response)) => Ok(response.into_inner()),
            Ok(Err(status)) => Err(ClientError::from_status(&status, &self.address)),
            Err(_) => Err(ClientError::TimedOut { what, seconds: CALL_TIMEOUT.as_secs() }),
        }
    }
}

impl Client {
    /// The same for a call that may be repeated: if its answer is lost, it is asked for again, a few times.
    pub(crate) async fn call_again<T, F>(&self, what: &'static str, call: impl Fn() -> F) -> Result<T>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let mut tries = 1;
        loop {
            match self.call(what, call()).await {
                Err(
                    ClientError::Unreachable { .. } | ClientError::TimedOut { .. } | ClientError::NotNow(_),
                ) if tries < MAX_TRIES => {
                    tries += 1;
                    tokio::time::sleep(TRY_PAUSE).await;
                }
                answer => return answer,
            }
        }
    }
}

/// Does something at intervals, until it is dropped.
pub(crate) async fn at_intervals<F: Future>(interval: Duration, mut act: impl FnMut() -> F) {
    loop {
        tokio::time::sleep(interval).await;
        act().await;
    }
}

/// Connects to the control port of a node.
pub(crate) async fn node(node: NodeId, address: &str) -> Result<NodeClient<Channel>> {
    let channel = open(address).await?.map_err(|reason| ClientError::NodeUnreachable {
        node,
        address: address.to_owned(),
        reason,
    })?;
    Ok(NodeClient::new(channel).max_decoding_message_size(limits::MAX_CONTROL_BYTES))
}

/// The outer error is about the address, the inner one the network's reason.
async fn open(address: &str) -> Result<Result<Channel, String>> {
    let bad = || ClientError::BadAddress(address.to_owned());
    let (host, port) = address.rsplit_once(':').ok_or_else(bad)?;
    if host.is_empty() || port.parse::<u16>().is_err() {
        return Err(bad());
    }
    let endpoint = Endpoint::from_shared(format!("http://{address}"))
        .map_err(|_| bad())?
        .connect_timeout(Duration::from_millis(limits::CONNECT_TIMEOUT_MS))
        .http2_keep_alive_interval(KEEP_ALIVE_INTERVAL)
        .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
        .tcp_nodelay(true);
    Ok(endpoint.connect().await.map_err(|e| root_cause(&e)))
}
