//! The product's own daemons on the hosts of a testbed: a coordinator and nodes, a process each.

mod daemon;
mod work;

pub use work::{LinkTraffic, RepairOrder, RepairOutcome, busiest_bytes};

use crate::error::{LabError, Result, bad};
use crate::scratch::Scratch;
use crate::testbed::{Host, Testbed};
use client::{Client, ClientError, Patience};
use daemon::Daemon;
use model::NodeId;
use rustix::fs::{Advice, fadvise};
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Builder;
use wire::proto::ClusterStatus;

/// Each host has its own address, so that all can use the same ports.
const COORDINATOR_PORT: u16 = 7400;
const CONTROL_PORT: u16 = 7401;
const DATA_PORT: u16 = 7402;

/// A daemon listens within a fraction of a second; dozens at once share the processors.
/// A superfluous copy is kept for a minute, and what waits is looked at again once in another.
const GARBAGE_PATIENCE: Duration = Duration::from_secs(240);

const START_PATIENCE: Duration = Duration::from_secs(60);

/// Longest wait until a node that answers no call is noticed as dead.
const DEATH_PATIENCE: Duration = Duration::from_secs(30);

const POLL: Duration = Duration::from_millis(20);

/// What a cluster on a testbed consists of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClusterSpec {
    /// The program `stripeline`.
    pub binary: PathBuf,
    /// Hosts of nodes: the first is node 1.
    pub node_hosts: Vec<usize>,
    /// Block size of puts.
    pub block_bytes: u64,
    /// Where daemons keep everything, in a folder of its own that is removed in the end; `None`: in memory.
    pub folder: Option<PathBuf>,
    /// Memory in which each node keeps blocks that it has read; 0: none.
    pub cache_bytes: u64,
}

/// A cluster that runs. Dropping it kills its daemons and removes their data.
pub struct LabCluster {
    binary: PathBuf,
    address: String,
    coordinator: Daemon,
    /// Node i + 1, if it has not been stopped.
    nodes: Vec<Option<Daemon>>,
    node_hosts: Vec<Host>,
    hosts: Vec<Host>,
    cache_bytes: u64,
    // Last: daemons are gone before their data are.
    folder: Scratch,
}

impl LabCluster {
    /// Host of the coordinator, and of clients that name no other. It is a node's too: a stripe of 16 and its requestor need
    /// all of 17.
    pub const COORDINATOR_HOST: usize = 0;

    /// Starts a coordinator and nodes and waits until all are registered. Racks are the testbed's.
    ///
    /// # Errors
    /// [`LabError::NoHost`], [`LabError::BadSpec`]; [`LabError::Daemon`] with a daemon's last words.
    pub fn start(testbed: &Testbed, spec: &ClusterSpec) -> Result<LabCluster> {
        let host = testbed.host(LabCluster::COORDINATOR_HOST)?.clone();
        let node_hosts: Vec<Host> =
            spec.node_hosts.iter().map(|&index| testbed.host(index).cloned()).collect::<Result<_, _>>()?;
        let folder = Scratch::new(spec.folder.as_deref())?;
        let address = format!("{}:{COORDINATOR_PORT}", host.addr);
        let arguments =
            ["coordinator", "--found", "--listen", &address, "--block-size", &spec.block_bytes.to_string()]
                .map(str::to_owned);
        let coordinator = Daemon::start("coordinator", &host, &spec.binary, folder.path(), &arguments)?;
        let mut cluster = LabCluster {
            binary: spec.binary.clone(),
            address,
            coordinator,
            nodes: node_hosts.iter().map(|_| None).collect(),
            node_hosts,
            hosts: testbed.hosts().to_vec(),
            cache_bytes: spec.cache_bytes,
            folder,
        };
        cluster.wait_for_coordinator()?;
        for node in cluster.nodes() {
            cluster.spawn_node(node)?;
        }
        cluster.wait_registered()?;
        Ok(cluster)
    }

    /// All nodes, stopped ones included.
    pub fn nodes(&self) -> impl DoubleEndedIterator<Item = NodeId> + use<> {
        (1..=self.node_hosts.len() as u32).map(NodeId)
    }

    /// The host of a node.
    ///
    /// # Errors
    /// [`LabError::BadSpec`] if there is no such node.
    pub fn host_of(&self, node: NodeId) -> Result<&Host> {
        let unknown = || {
            let nodes = self.node_hosts.len();
            bad(format!("there is no node {}; nodes are 1 to {nodes}", node.0))
        };
        self.node_hosts.get(index(node)).ok_or_else(unknown)
    }

    /// Runs `work` on a host with a client of the library. What the client sends and receives goes over the host's links.
    ///
    /// # Errors
    /// [`LabError::NoHost`]; [`LabError::Client`] if the coordinator cannot be reached; whatever `work` says.
    pub fn with_client<T: Send>(
        &self,
        host: usize,
        work: impl AsyncFnOnce(Client) -> Result<T> + Send,
    ) -> Result<T> {
        let on_host = || {
            // An experiment whose coordinator is away has failed.
            let at_once = Patience::of(Duration::ZERO);
            let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
            let runtime = runtime.map_err(LabError::io("start threads"))?;
            let result = runtime.block_on(async {
                work(Client::connect_with(&self.address, Arc::default(), at_once).await?).await
            });
            runtime.shutdown_background();
            result
        };
        self.host(host)?.inside(on_host)?
    }

    /// What the coordinator says about the cluster.
    ///
    /// # Errors
    /// [`LabError::Client`].
    pub fn status(&self) -> Result<ClusterStatus> {
        self.with_client(self.coordinator.host.index, async |client| Ok(client.status().await?))
    }

    /// Processor time of all daemons that run, so far, in user and kernel mode.
    pub fn cpu_seconds(&self) -> f64 {
        self.coordinator.cpu_seconds() + self.nodes.iter().flatten().map(Daemon::cpu_seconds).sum::<f64>()
    }

    /// Of this, the coordinator's part.
    pub fn coordinator_cpu_seconds(&self) -> f64 {
        self.coordinator.cpu_seconds()
    }

    /// Kills a node, as a crash would, and waits until the coordinator knows. Its data stay.
    ///
    /// # Errors
    /// [`LabError::BadSpec`] if there is no such node; [`LabError::Daemon`] if the coordinator does not notice.
    pub fn stop_node(&mut self, node: NodeId) -> Result<()> {
        self.host_of(node)?;
        // Dropping it kills it.
        self.nodes[index(node)] = None;
        self.wait_until("does not notice that a node is dead", DEATH_PATIENCE, |status| {
            status.nodes.iter().all(|n| n.node != node.0 || !n.living)
        })
    }

    /// Starts a stopped node again, with its data, and waits until it is registered.
    ///
    /// # Errors
    /// As [`LabCluster::stop_node`].
    pub fn start_node(&mut self, node: NodeId) -> Result<()> {
        self.host_of(node)?;
        if self.nodes[index(node)].is_none() {
            self.spawn_node(node)?;
        }
        self.wait_registered()
    }

    /// Stops a node's process where it is, until [`LabCluster::thaw_node`]. One that is not there stays as it is.
    pub fn freeze_node(&self, node: NodeId) {
        self.signal(node, Signal::STOP);
    }

    /// Lets it go on, and waits until it lives again for the coordinator.
    ///
    /// # Errors
    /// As [`LabCluster::start`].
    pub fn thaw_node(&mut self, node: NodeId) -> Result<()> {
        self.signal(node, Signal::CONT);
        self.wait_registered()
    }

    fn signal(&self, node: NodeId, signal: Signal) {
        self.nodes.get(index(node)).and_then(Option::as_ref).inspect(|daemon| daemon.signal(signal));
    }

    /// Starts a node more on a host and waits until it is registered. What was stored before is not on it.
    ///
    /// # Errors
    /// As [`LabCluster::start`].
    pub fn add_node(&mut self, host: usize) -> Result<NodeId> {
        self.node_hosts.push(self.host(host)?.clone());
        self.nodes.push(None);
        let node = NodeId(self.nodes.len() as u32);
        self.spawn_node(node)?;
        self.wait_registered()?;
        Ok(node)
    }

    /// Has the operating system drop all daemons' files from its memory, so that they are next read from the disk. Of
    /// files in memory nothing is dropped.
    ///
    /// # Errors
    /// [`LabError::Io`] if a file that stays cannot be read.
    pub fn forget_files(&self) -> Result<()> {
        self.each_file(|path| {
            // Temporary files come and go meanwhile.
            let Ok(file) = File::open(path) else { return Ok(()) };
            let forgotten = file.sync_data().and_then(|()| Ok(fadvise(&file, 0, None, Advice::DontNeed)?));
            forgotten.map_err(LabError::io(format!("forget {}", path.display())))
        })
    }

    /// Reads the files of blocks, by name, so that they are in the operating system's memory: some systems give up what
    /// was not read for a minute, and whoever came first would read from the disk.
    ///
    /// # Errors
    /// [`LabError::Io`] if one cannot be read, [`LabError::BadSpec`] if one is not there.
    pub fn recall_files(&self, blocks: &BTreeSet<String>) -> Result<()> {
        let mut missing = blocks.clone();
        self.each_file(|path| {
            // A copy's files are named by block and generation, its sidecar's with a word more.
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let block = name.split('.').next().unwrap_or_default();
            if !blocks.contains(block) {
                return Ok(());
            }
            missing.remove(block);
            let read = File::open(path).and_then(|mut file| std::io::copy(&mut file, &mut std::io::sink()));
            read.map(drop).map_err(LabError::io(format!("read {}", path.display())))
        })?;
        match missing.first() {
            Some(block) => Err(bad(format!("no node has a file of block {block}"))),
            None => Ok(()),
        }
    }

    fn each_file(&self, mut visit: impl FnMut(&Path) -> Result<()>) -> Result<()> {
        let mut folders = vec![self.folder.path().to_owned()];
        while let Some(folder) = folders.pop() {
            let failed = || LabError::io(format!("read {}", folder.display()));
            for entry in std::fs::read_dir(&folder).map_err(failed())? {
                let path = entry.map_err(failed())?.path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    visit(&path)?;
                }
            }
        }
        Ok(())
    }

    /// Ends all daemons, asking them first, and removes their data.
    ///
    /// # Errors
    /// [`LabError::Io`] if the folder cannot be removed.
    pub fn shutdown(self) -> Result<()> {
        let LabCluster { coordinator, nodes, folder, .. } = self;
        let mut daemons: Vec<Daemon> = nodes.into_iter().flatten().chain([coordinator]).collect();
        daemon::end(&mut daemons);
        drop(daemons);
        folder.close()
    }

    fn host(&self, index: usize) -> Result<&Host> {
        self.hosts.get(index).ok_or(LabError::NoHost { index, hosts: self.hosts.len() })
    }

    fn spawn_node(&mut self, node: NodeId) -> Result<()> {
        let host = self.host_of(node)?.clone();
        let options = [
            ("--id", node.0.to_string()),
            ("--rack", format!("rack-{}", host.rack + 1)),
            ("--coordinator", self.address.clone()),
            ("--listen-control", format!("{}:{CONTROL_PORT}", host.addr)),
            ("--listen-data", format!("{}:{DATA_PORT}", host.addr)),
            ("--cache", self.cache_bytes.to_string()),
        ];
        let mut arguments = vec!["node".to_owned()];
        arguments.extend(options.into_iter().flat_map(|(name, value)| [name.to_owned(), value]));
        let daemon = Daemon::start(&node.to_string(), &host, &self.binary, self.folder.path(), &arguments)?;
        self.nodes[index(node)] = Some(daemon);
        Ok(())
    }

    fn wait_for_coordinator(&mut self) -> Result<()> {
        let deadline = Instant::now() + START_PATIENCE;
        loop {
            match self.status() {
                Ok(_) => return Ok(()),
                Err(LabError::Client(ClientError::Unreachable { .. })) if Instant::now() < deadline => {
                    self.coordinator.check()?;
                    std::thread::sleep(POLL);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Until every node that was not stopped lives.
    fn wait_registered(&mut self) -> Result<()> {
        let wanted: Vec<NodeId> = self.nodes().filter(|&node| self.nodes[index(node)].is_some()).collect();
        self.wait_until("does not see all nodes registered", START_PATIENCE, |status| {
            wanted.iter().all(|&node| status.nodes.iter().any(|n| n.node == node.0 && n.living))
        })
    }

    /// Waits until no copy is superfluous: replicas go some time after an archival.
    ///
    /// # Errors
    /// [`LabError::Daemon`] if they do not.
    pub fn wait_without_garbage(&mut self) -> Result<()> {
        self.wait_until("has superfluous copies yet", GARBAGE_PATIENCE, |status| status.garbage == 0)
    }

    fn wait_until(
        &mut self,
        otherwise: &str,
        patience: Duration,
        reached: impl Fn(&ClusterStatus) -> bool,
    ) -> Result<()> {
        let deadline = Instant::now() + patience;
        while !reached(&self.status()?) {
            self.coordinator.check()?;
            for node in self.nodes.iter_mut().flatten() {
                node.check()?;
            }
            if Instant::now() > deadline {
                let message = format!("{otherwise} within {} s", patience.as_secs());
                return Err(LabError::of_coordinator(message));
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }
}

/// The place of a node among all: they are numbered from 1.
fn index(node: NodeId) -> usize {
    (node.0 as usize).wrapping_sub(1)
}
