//! Starting and ending a node.

use crate::ailment::{DISK, DiskTrier, TRY_EVERY};
use crate::clock::within;
use crate::ending::{Ending, Serving};
use crate::flows::FlowStore;
use crate::membership::{self, Member, Refusal};
use crate::parts::Parts;
use crate::probe::{PROBE, Prober};
use crate::scrub::{SCRUB, Scrubber};
use crate::service::{ControlCalls, ControlServer, NodeService};
use crate::store::{RESERVE_BYTES, Store, StoreError};
use crate::suspects::{REREAD, Rereader};
use disk::Disk;
use exec::{DataListener, Engine, EngineConfig, Injection, Throttle};
use model::NodeId;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use wire::net::ControlPort;

/// How long a node that is asked to end lets its calls finish.
const SHUTDOWN_PATIENCE: Duration = Duration::from_secs(2);

/// What a node is started with.
pub struct Config {
    /// Its number, from 1; for good.
    pub node: NodeId,
    /// Its rack's name.
    pub rack: String,
    /// The machine that it shares with other nodes; empty if with none. No two nodes of one host are given blocks of one
    /// stripe, or copies of one block.
    pub host: String,
    /// Where it answers control calls; port 0 is any free one.
    pub listen_control: SocketAddr,
    /// Where it takes slices; port 0 is any free one.
    pub listen_data: SocketAddr,
    /// The coordinator's host and port.
    pub coordinator: String,
    /// Its folder.
    pub disk: Arc<dyn Disk>,
    /// Limits of its data sockets.
    pub throttle: Arc<Throttle>,
    /// Recently read blocks that are kept in memory, bytes; default 0, for the operating system caches files already, and
    /// this is memory that it then lacks. It pays where recoveries are assigned by m-PPR and disks are slow.
    pub cache_bytes: u64,
    /// Bytes of the disk that are never given to blocks.
    pub reserve_bytes: u64,
    /// Between two tries of its disk.
    pub try_disk_every: Duration,
    /// Faults that tests plant.
    pub injection: Arc<Injection>,
}

impl Config {
    /// On free ports of the loopback, unlimited.
    pub fn new(node: NodeId, coordinator: String, disk: Arc<dyn Disk>) -> Config {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        Config {
            node,
            rack: "rack-0".into(),
            host: String::new(),
            listen_control: any,
            listen_data: any,
            coordinator,
            disk,
            throttle: Arc::default(),
            cache_bytes: 0,
            reserve_bytes: RESERVE_BYTES,
            try_disk_every: TRY_EVERY,
            injection: Arc::default(),
        }
    }
}

/// Why a node did not start.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// A number that no node may have.
    #[error("node numbers begin at 1")]
    Number,
    /// The block store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A port cannot be had.
    #[error("cannot listen on {addr}: {source}; choose another port or end the program that uses it")]
    Listen {
        /// The address.
        addr: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// The coordinator does not want this node.
    #[error("the coordinator refuses this node: {0}")]
    Refused(String),
    /// An operator gave its store up for good; trying again is of no use.
    #[error("the coordinator refuses this node for good: {0}")]
    GivenUp(String),
}

/// A running node. Dropping it ends it at once; [`Node::shutdown`] waits.
pub struct Node {
    parts: Parts,
    control_addr: SocketAddr,
    data_addr: SocketAddr,
    _listener: DataListener,
    /// Ends with the reason when the coordinator refuses the node.
    membership: tokio::task::JoinHandle<Refusal>,
    workers: [tokio::task::JoinHandle<()>; 4],
    server: tokio::task::JoinHandle<()>,
    /// Dropped to ask all of it to end.
    serving: Option<Serving>,
}

/// Opens (or formats, if it is empty) the store and starts serving. Within a tokio runtime.
pub async fn start(config: Config) -> Result<Node, NodeError> {
    if config.node.0 == 0 {
        return Err(NodeError::Number);
    }
    let store = open_or_format(config.disk, config.node, config.reserve_bytes)?;
    let flows = Arc::new(FlowStore::new(store, config.cache_bytes));
    let mut engine_config = EngineConfig::new(config.node.into(), config.throttle, Some(flows.clone()));
    engine_config.injection = config.injection;
    let engine = Engine::new(engine_config);
    let listener = listen_data(config.listen_data, &engine).await?;
    let control = listen_control(config.listen_control).await?;
    let (control_addr, data_addr) = (control.addr(), listener.addr());
    let (serving, ending) = Ending::new();
    let parts = Parts {
        node: config.node,
        flows,
        engine,
        tasks: Arc::default(),
        settings: Arc::default(),
        coordinator: config.coordinator.into(),
        answered: Arc::default(),
        ailment: Arc::default(),
    };
    let scrubber = Scrubber::new(parts.flows.clone(), ending.clone());
    let rereader = Rereader { suspects: parts.flows.suspects.clone(), store: parts.flows.store.clone() };
    let prober = Prober::new(parts.flows.clone());
    let trier = DiskTrier::new(parts.flows.store.clone(), parts.ailment.clone(), config.try_disk_every);
    let workers = [
        tokio::spawn(worker::run(trier, parts.tasks.add(DISK))),
        tokio::spawn(worker::run(scrubber, parts.tasks.add(SCRUB))),
        tokio::spawn(worker::run(rereader, parts.tasks.add(REREAD))),
        tokio::spawn(worker::run(prober, parts.tasks.add(PROBE))),
    ];
    let service = NodeService::new(parts.clone(), ending.clone()).server();
    let server = serve_control(control, service, ending);
    let (rack, host) = (config.rack, config.host);
    let member = Member { parts: parts.clone(), rack, host, control_addr, data_addr };
    let membership = tokio::spawn(membership::run(member));
    let (_listener, serving) = (listener, Some(serving));
    Ok(Node { parts, control_addr, data_addr, _listener, membership, workers, server, serving })
}

/// Takes slices there, for the engine.
pub(crate) async fn listen_data(addr: SocketAddr, engine: &Engine) -> Result<DataListener, NodeError> {
    let bound = DataListener::bind(addr, engine.greeter()).await;
    bound.map_err(|source| NodeError::Listen { addr, source })
}

/// A port for control calls.
pub(crate) async fn listen_control(addr: SocketAddr) -> Result<ControlPort, NodeError> {
    ControlPort::bind(addr).await.map_err(|source| NodeError::Listen { addr, source })
}

/// Answers control calls until that is asked to end.
pub(crate) fn serve_control<T: ControlCalls>(
    port: ControlPort,
    service: ControlServer<T>,
    ending: Ending,
) -> tokio::task::JoinHandle<()> {
    tokio::spawn(async move {
        let served = match port.serve(service, async move { ending.asked().await }) {
            Ok(serving) => serving.await.map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        if let Err(error) = served {
            tracing::error!("control port: {error}");
        }
    })
}

fn open_or_format(disk: Arc<dyn Disk>, node: NodeId, reserve_bytes: u64) -> Result<Store, StoreError> {
    match Store::open(disk.clone(), node, reserve_bytes) {
        Err(StoreError::NotFormatted) => {
            Store::format(&disk, node)?;
            Store::open(disk, node, reserve_bytes)
        }
        other => other,
    }
}

impl Node {
    /// Where it answers control calls.
    pub fn control_addr(&self) -> SocketAddr {
        self.control_addr
    }

    /// Where it takes slices.
    pub fn data_addr(&self) -> SocketAddr {
        self.data_addr
    }

    /// Its number.
    pub fn number(&self) -> NodeId {
        self.parts.node
    }

    /// Its blocks.
    pub fn flows(&self) -> &FlowStore {
        &self.parts.flows
    }

    /// Its flow executor.
    pub fn engine(&self) -> &Engine {
        &self.parts.engine
    }

    /// Waits until the coordinator has refused the node for good: for most nodes, for ever. To be awaited once.
    pub async fn refused(&mut self) -> NodeError {
        match (&mut self.membership).await {
            Ok(Refusal::Unwelcome(why)) => NodeError::Refused(why),
            Ok(Refusal::GivenUp(why)) => NodeError::GivenUp(why),
            Err(broken) => NodeError::Refused(format!("internal error: {broken}")),
        }
    }

    /// Ends it: the coordinator is told, flows that run fail, nothing half-written stays under a final name.
    pub async fn shutdown(mut self) {
        self.membership.abort();
        self.parts.note_heard().await;
        membership::say_goodbye(&self.parts, self.control_addr, String::new()).await;
        self.serving = None;
        let _ = within(SHUTDOWN_PATIENCE, &mut self.server).await;
        self.end();
    }

    fn end(&mut self) {
        self.membership.abort();
        self.workers.iter().for_each(tokio::task::JoinHandle::abort);
        self.serving = None;
        self.server.abort();
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.end();
    }
}

/// A connection to a process of this machine that runs as `owner`; each read and write is waited for so long. Made at once or not at
/// all: who has no room for it is as good as away. The error is a sentence.
pub(crate) fn connect_local(
    socket: &Path,
    owner: u32,
    patience: Duration,
) -> Result<impl Read + Write + use<>, String> {
    let told = |error: rustix::io::Errno| error.to_string();
    let address = SocketAddrUnix::new(socket).map_err(told)?;
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let made = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None);
    let descriptor: OwnedFd = made.map_err(told)?;
    rustix::net::connect(&descriptor, &address).map_err(told)?;
    let peer = rustix::net::sockopt::socket_peercred(&descriptor).map_err(told)?.uid.as_raw();
    if peer != owner {
        return Err(format!("user {peer} listens there, and the data folders are those of user {owner}"));
    }
    let stream = UnixStream::from(descriptor);
    let waits = stream.set_nonblocking(false).and_then(|()| stream.set_read_timeout(Some(patience)));
    waits.and_then(|()| stream.set_write_timeout(Some(patience))).map_err(|error| error.to_string())?;
    Ok(stream)
}
