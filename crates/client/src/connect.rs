//! The connection to the coordinator.

use crate::clock::Clock;
use crate::error::{ClientError, Result, root_cause};
use crate::patience::{Failed, Patience};
use exec::{Engine, EngineConfig, Throttle};
use model::{NodeId, Peer};
use plan::decide::{Hedging, Usual};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tonic::transport::{Channel, Endpoint};
use wire::limits;
use wire::proto::coordinator_client::CoordinatorClient;
use wire::proto::node_client::NodeClient;

/// A peer that vanished without closing is noticed in the sum of the two; jobs run for hours on an idle stream.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(20);

/// The calls of the coordinator.
pub(crate) type Coordinator = CoordinatorClient<Channel>;

/// A connected client. Cheap to clone; calls of clones share one connection.
#[derive(Clone)]
pub struct Client {
    pub(crate) address: String,
    pub(crate) coordinator: Coordinator,
    pub(crate) patience: Patience,
    pub(crate) engine: Engine,
    /// How long reads take between this client and its cluster.
    usual: Arc<Mutex<Usual>>,
    /// Long reads that are under way.
    pub(crate) long_reads: Arc<AtomicUsize>,
    /// How long the short ones took, and who was late.
    hedging: Arc<Mutex<Hedging>>,
    since: Clock,
}

impl Client {
    /// Connects to the coordinator at `address` (`host:port`), and waits up to 30 s for one that is away, now and in all calls.
    ///
    /// # Errors
    /// [`ClientError::BadAddress`], [`ClientError::Unreachable`].
    pub async fn connect(address: &str) -> Result<Client> {
        Client::connect_with(address, Arc::default(), Patience::default()).await
    }

    /// Connects with another patience; reads and puts keep within the rates of `throttle`, together with whatever else does.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub async fn connect_with(address: &str, throttle: Arc<Throttle>, patience: Patience) -> Result<Client> {
        let connect = || async {
            let opened = open(address).await.map_err(Failed::Else)?;
            let unreachable = |reason| ClientError::Unreachable { address: address.to_owned(), reason };
            opened.map_err(|reason| Failed::Away(unreachable(reason)))
        };
        let since = Clock::start();
        let channel = patience.wait(|| since.elapsed(), connect).await?;
        let coordinator = CoordinatorClient::new(channel)
            .max_decoding_message_size(limits::MAX_CONTROL_BYTES)
            .max_encoding_message_size(limits::MAX_CONTROL_BYTES);
        let (address, usual) = (address.to_owned(), Arc::new(Mutex::new(Usual::among_many())));
        let (hedging, long_reads) = (Arc::default(), Arc::default());
        let engine = Engine::new(EngineConfig::new(Peer::Client, throttle, None));
        Ok(Client { address, coordinator, patience, engine, usual, long_reads, hedging, since })
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
