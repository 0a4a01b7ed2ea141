//! Starting and ending a helper beside a DataNode: it carries flows, tells the coordinator that it is there, and nothing else.

use super::HdfsStore;
use super::folders::{Folders, FoldersError};
use super::tokens::{Asking, BlockTokens};
use crate::clock::within;
use crate::ending::{Ending, Serving};
use crate::membership::Signs;
use crate::server::{NodeError, listen_control, listen_data, serve_control};
use crate::service::LenderService;
use exec::{DataListener, Engine, EngineConfig, Injection, Throttle};
use model::hdfs::Datanode;
use model::{Incarnation, NodeId};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use wire::codec::group::Lender as Word;
use wire::mac::{Secret, Whose};
use worker::{Step, Task, Tasks, Worker};

/// The name of its task.
const LENDING: &str = "lending";

/// After a sign of life that did not reach the coordinator: one that was started again knows its helpers within a second.
const RETRY: Duration = Duration::from_millis(500);

/// A coordinator that lives answers a last word within milliseconds.
const GOODBYE_PATIENCE: Duration = Duration::from_secs(1);

/// How long a helper that is asked to end lets its calls finish.
const SHUTDOWN_PATIENCE: Duration = Duration::from_secs(2);

/// What a helper is started with.
pub struct Config {
    /// The DataNode's data folders.
    pub data_dirs: Vec<PathBuf>,
    /// Its rack, until HDFS says another one.
    pub rack: String,
    /// Where it answers control calls; port 0 is any free one.
    pub listen_control: SocketAddr,
    /// Where it takes slices; port 0 is any free one.
    pub listen_data: SocketAddr,
    /// The coordinator's host and port.
    pub coordinator: String,
    /// Limits of its data sockets.
    pub throttle: Arc<Throttle>,
    /// Faults that tests plant.
    pub injection: Arc<Injection>,
    /// Who says whether a block may be read.
    pub block_tokens: BlockTokens,
}

impl Config {
    /// On free ports of the loopback, unlimited; the DataNode is asked before a block is read.
    pub fn new(data_dirs: Vec<PathBuf>, coordinator: String) -> Config {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        Config {
            data_dirs,
            rack: "/default-rack".into(),
            listen_control: any,
            listen_data: any,
            coordinator,
            throttle: Arc::default(),
            injection: Arc::default(),
            block_tokens: BlockTokens::default(),
        }
    }
}

/// Why a helper did not start.
#[derive(Debug, thiserror::Error)]
pub enum LenderError {
    /// The folders.
    #[error(transparent)]
    Folders(#[from] FoldersError),
    /// A port.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// The DataNode cannot be asked what may be read.
    #[error("cannot see whose the DataNode's data folders are: {0}")]
    Owner(std::io::Error),
}

/// A running helper. Dropping it ends it at once; [`Lender::shutdown`] waits.
pub struct Lender {
    engine: Engine,
    word: Word,
    coordinator: Arc<str>,
    control_addr: SocketAddr,
    data_addr: SocketAddr,
    _listener: DataListener,
    lending: tokio::task::JoinHandle<()>,
    server: tokio::task::JoinHandle<()>,
    /// Dropped to ask all of it to end.
    serving: Option<Serving>,
}

/// Looks whose folders they are, and starts serving. Within a tokio runtime.
///
/// # Errors
/// [`LenderError`].
pub async fn start(config: Config) -> Result<Lender, LenderError> {
    let folders = Folders::at(&config.data_dirs)?;
    let datanode = folders.datanode();
    let node = datanode.number();
    let asking = Asking::of(&config.block_tokens, &config.data_dirs).map_err(LenderError::Owner)?;
    let store = Arc::new(HdfsStore::new(folders, asking));
    let mut engine_config = EngineConfig::new(node.into(), config.throttle, Some(store));
    engine_config.injection = config.injection;
    let engine = Engine::new(engine_config);
    let listener = listen_data(config.listen_data, &engine).await?;
    let control = listen_control(config.listen_control).await?;
    let (control_addr, data_addr) = (control.addr(), listener.addr());
    let (serving, ending) = Ending::new();
    let word = Word {
        datanode,
        control_addr: control_addr.to_string(),
        data_addr: data_addr.to_string(),
        rack: config.rack,
        incarnation: Incarnation(rand::random()),
        running_stages: 0,
        leaves: false,
        secret: Secret::draw(),
    };
    let whose = Whose { node, store: datanode.0, incarnation: word.incarnation };
    let service = LenderService::new(whose, word.secret, engine.clone(), ending.clone());
    let server = serve_control(control, service.server(), ending);
    let coordinator: Arc<str> = config.coordinator.into();
    let signs = Signs::to(coordinator.clone());
    let lending = Lending { signs, word: word.clone(), engine: engine.clone(), is_known: None };
    let lending = tokio::spawn(worker::run(lending, Tasks::default().add(LENDING)));
    let serving = Some(serving);
    Ok(Lender {
        engine,
        word,
        coordinator,
        control_addr,
        data_addr,
        _listener: listener,
        lending,
        server,
        serving,
    })
}

/// Gives signs of life.
struct Lending {
    signs: Signs,
    word: Word,
    engine: Engine,
    /// What came of the last one, if there was one: the log is told when it changes.
    is_known: Option<bool>,
}

impl Worker for Lending {
    type Error = Infallible;

    fn name(&self) -> &'static str {
        LENDING
    }

    fn pause(&self) -> Duration {
        Duration::ZERO
    }

    async fn step(&mut self, _: &Task) -> Result<Step, Infallible> {
        let running_stages = self.engine.running_stages() as u32;
        let given = self.signs.give(&Word { running_stages, ..self.word.clone() }).await;
        let was_known = self.is_known.replace(given.is_ok());
        match &given {
            Ok(_) if was_known != Some(true) => tracing::info!("known to the coordinator at {}", self.signs),
            Err(why) if was_known != Some(false) => {
                tracing::warn!("unknown to the coordinator at {}: {why}; trying on", self.signs);
            }
            _ => {}
        }
        let Ok((pause, budgets)) = given else { return Ok(Step::Wait(RETRY)) };
        self.engine.throttle().set_budgets(budgets);
        Ok(Step::Wait(pause))
    }
}

impl Lender {
    /// Where it answers control calls.
    pub fn control_addr(&self) -> SocketAddr {
        self.control_addr
    }

    /// Where it takes slices.
    pub fn data_addr(&self) -> SocketAddr {
        self.data_addr
    }

    /// The DataNode beside it.
    pub fn datanode(&self) -> Datanode {
        self.word.datanode
    }

    /// Its number.
    pub fn number(&self) -> NodeId {
        self.word.node()
    }

    /// Its flow executor.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Ends it: the coordinator is told, flows that run fail.
    pub async fn shutdown(mut self) {
        self.lending.abort();
        let mut signs = Signs::to(self.coordinator.clone());
        let last = Word { leaves: true, ..self.word.clone() };
        let _ = within(GOODBYE_PATIENCE, signs.give(&last)).await;
        self.serving = None;
        let _ = within(SHUTDOWN_PATIENCE, &mut self.server).await;
    }
}

impl Drop for Lender {
    fn drop(&mut self) {
        self.lending.abort();
        self.serving = None;
        self.server.abort();
    }
}
