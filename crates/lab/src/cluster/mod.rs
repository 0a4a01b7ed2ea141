//! The product's own daemons on the hosts of a testbed: a coordinator and nodes, a process each.

mod daemon;
mod work;

pub use work::{LinkTraffic, RepairOrder, RepairOutcome};

use crate::error::LabError;
use crate::scratch::Scratch;
use crate::testbed::{Host, Testbed};
use client::{Client, ClientError};
use daemon::Daemon;
use rustix::fs::{Advice, fadvise};
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};
use tokio::runtime::Builder;
use wire::proto::ClusterStatus;

/// Each host has its own address, so that all can use the same ports.
const COORDINATOR_PORT: u16 = 7400;
const CONTROL_PORT: u16 = 7401;
const DATA_PORT: u16 = 7402;

/// A daemon listens within a fraction of a second; dozens at once share the processors.
const START_PATIENCE: Duration = Duration::from_secs(60);

/// A dead node is noticed after five missed heartbeats.
const DEATH_PATIENCE: Duration = Duration::from_secs(30);

const POLL: Duration = Duration::from_millis(20);

/// What a cluster on a testbed consists of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClusterSpec {
    /// The program `stripeline`.
    pub binary: PathBuf,
    /// Host of the coordinator, and of clients that name no other. It may be a node's too.
    pub coordinator_host: usize,
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
    /// Starts a coordinator and nodes and waits until all are registered. Racks are the testbed's.
    ///
    /// # Errors
    /// [`LabError::NoHost`], [`LabError::BadSpec`]; [`LabError::Daemon`] with a daemon's last words.
    pub fn start(testbed: &Testbed, spec: &ClusterSpec) -> Result<LabCluster, LabError> {
        let host = testbed.host(spec.coordinator_host)?.clone();
        let node_hosts: Vec<Host> =
            spec.node_hosts.iter().map(|&index| testbed.host(index).cloned()).collect::<Result<_, _>>()?;
        let folder = Scratch::new(spec.folder.as_deref())?;
        let address = format!("{}:{COORDINATOR_PORT}", host.addr);
        let arguments = ["coordinator", "--listen", &address, "--block-size", &spec.block_bytes.to_string()]
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
        for node in cluster.node_ids() {
            cluster.spawn_node(node)?;
        }
        cluster.wait_registered()?;
        Ok(cluster)
    }

    /// Where the coordinator listens, for those on the testbed.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Numbers of all nodes, stopped ones included.
    pub fn node_ids(&self) -> std::ops::RangeInclusive<u32> {
        1..=self.node_hosts.len() as u32
    }

    /// The host of a node.
    ///
    /// # Errors
    /// [`LabError::BadSpec`] if there is no such node.
    pub fn host_of(&self, node: u32) -> Result<&Host, LabError> {
        let host = (node as usize).checked_sub(1).and_then(|at| self.node_hosts.get(at));
        host.ok_or_else(|| {
            LabError::BadSpec(format!("there is no node {node}; nodes are 1 to {}", self.node_hosts.len()))
        })
    }

    /// The node on a host, the first if there are several.
    pub fn node_on(&self, host: usize) -> Option<u32> {
        self.node_hosts.iter().position(|h| h.index == host).map(|at| at as u32 + 1)
    }

    /// Runs `stripeline --json …` on a host against this cluster, to its end.
    ///
    /// # Errors
    /// [`LabError::NoHost`], [`LabError::Io`]; what the command itself says is in the output.
    pub fn client_in(&self, host: usize, arguments: &[&str]) -> Result<Output, LabError> {
        let mut command = std::process::Command::new(&self.binary);
        command.args(["--json", "--coordinator", &self.address]).args(arguments).stdin(Stdio::null());
        let output = self.host(host)?.inside(|| command.output())?;
        output.map_err(LabError::io(format!("start {}", self.binary.display())))
    }

    /// Runs `work` on a host with a client of the library: cheaper than [`LabCluster::client_in`], and typed. What the
    /// client sends and receives goes over the host's links.
    ///
    /// # Errors
    /// [`LabError::NoHost`]; [`LabError::Client`] if the coordinator cannot be reached; whatever `work` says.
    pub fn with_client<T: Send>(
        &self,
        host: usize,
        work: impl AsyncFnOnce(Client) -> Result<T, LabError> + Send,
    ) -> Result<T, LabError> {
        let on_host = || {
            let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
            let runtime = runtime.map_err(LabError::io("start threads"))?;
            let result = runtime.block_on(async { work(Client::connect(&self.address).await?).await });
            runtime.shutdown_background();
            result
        };
        self.host(host)?.inside(on_host)?
    }

    /// What the coordinator says about the cluster.
    ///
    /// # Errors
    /// [`LabError::Client`].
    pub fn status(&self) -> Result<ClusterStatus, LabError> {
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

    /// Processor time of one node so far; 0 if it is stopped.
    pub fn cpu_seconds_of(&self, node: u32) -> f64 {
        let at = (node as usize).wrapping_sub(1);
        self.nodes.get(at).and_then(Option::as_ref).map_or(0.0, Daemon::cpu_seconds)
    }

    /// Kills a node, as a crash would, and waits until the coordinator knows. Its data stay.
    ///
    /// # Errors
    /// [`LabError::BadSpec`] if there is no such node; [`LabError::Daemon`] if the coordinator does not notice.
    pub fn stop_node(&mut self, node: u32) -> Result<(), LabError> {
        self.host_of(node)?;
        // Dropping it kills it.
        self.nodes[node as usize - 1] = None;
        self.wait_until("does not notice that a node is dead", DEATH_PATIENCE, |status| {
            status.nodes.iter().all(|n| n.node != node || !n.living)
        })
    }

    /// Starts a stopped node again, with its data, and waits until it is registered.
    ///
    /// # Errors
    /// As [`LabCluster::stop_node`].
    pub fn start_node(&mut self, node: u32) -> Result<(), LabError> {
        self.host_of(node)?;
        if self.nodes[node as usize - 1].is_none() {
            self.spawn_node(node)?;
        }
        self.wait_registered()
    }

    /// Stops a node's process where it is, until [`LabCluster::thaw_node`]. One that is not there stays as it is.
    pub fn freeze_node(&self, node: u32) {
        let at = (node as usize).wrapping_sub(1);
        self.nodes.get(at).and_then(Option::as_ref).inspect(|daemon| daemon.signal(Signal::STOP));
    }

    /// Lets it go on, and waits until it lives again for the coordinator.
    ///
    /// # Errors
    /// As [`LabCluster::start`].
    pub fn thaw_node(&mut self, node: u32) -> Result<(), LabError> {
        let at = (node as usize).wrapping_sub(1);
        self.nodes.get(at).and_then(Option::as_ref).inspect(|daemon| daemon.signal(Signal::CONT));
        self.wait_registered()
    }

    /// Starts a node more on a host and waits until it is registered; its number. What was stored before is not on it.
    ///
    /// # Errors
    /// As [`LabCluster::start`].
    pub fn add_node(&mut self, host: usize) -> Result<u32, LabError> {
        self.node_hosts.push(self.host(host)?.clone());
        self.nodes.push(None);
        let node = *self.node_ids().end();
        self.spawn_node(node)?;
        self.wait_registered()?;
        Ok(node)
    }

    /// Has the operating system drop all daemons' files from its memory, so that they are next read from the disk. Of
    /// files in memory nothing is dropped.
    ///
    /// # Errors
    /// [`LabError::Io`] if a file that stays cannot be read.
    pub fn forget_files(&self) -> Result<(), LabError> {
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
    pub fn recall_files(&self, blocks: &BTreeSet<String>) -> Result<(), LabError> {
        let mut missing = blocks.clone();
        self.each_file(|path| {
            let name = path.file_name().and_then(|name| name.to_str());
            let Some(name) = name.filter(|name| blocks.contains(*name)) else { return Ok(()) };
            missing.remove(name);
            let read = File::open(path).and_then(|mut file| std::io::copy(&mut file, &mut std::io::sink()));
            read.map(drop).map_err(LabError::io(format!("read {}", path.display())))
        })?;
        match missing.first() {
            Some(block) => Err(LabError::BadSpec(format!("no node has a file of block {block}"))),
            None => Ok(()),
        }
    }

    fn each_file(&self, mut visit: impl FnMut(&Path) -> Result<(), LabError>) -> Result<(), LabError> {
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
    pub fn shutdown(self) -> Result<(), LabError> {
        let LabCluster { coordinator, nodes, folder, .. } = self;
        let mut daemons: Vec<Daemon> = nodes.into_iter().flatten().chain([coordinator]).collect();
        daemon::end(&mut daemons);
        drop(daemons);
        folder.close()
    }

    fn host(&self, index: usize) -> Result<&Host, LabError> {
        self.hosts.get(index).ok_or(LabError::NoHost { index, hosts: self.hosts.len() })
    }

    fn spawn_node(&mut self, node: u32) -> Result<(), LabError> {
        let host = self.host_of(node)?.clone();
        let options = [
            ("--id", node.to_string()),
            ("--rack", format!("rack-{}", host.rack + 1)),
            ("--coordinator", self.address.clone()),
            ("--listen-control", format!("{}:{CONTROL_PORT}", host.addr)),
            ("--listen-data", format!("{}:{DATA_PORT}", host.addr)),
            ("--cache", self.cache_bytes.to_string()),
        ];
        let mut arguments = vec!["node".to_owned()];
        arguments.extend(options.into_iter().flat_map(|(name, value)| [name.to_owned(), value]));
        let daemon =
            Daemon::start(&format!("node-{node}"), &host, &self.binary, self.folder.path(), &arguments)?;
        self.nodes[node as usize - 1] = Some(daemon);
        Ok(())
    }

    fn wait_for_coordinator(&mut self) -> Result<(), LabError> {
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
    fn wait_registered(&mut self) -> Result<(), LabError> {
        let wanted: Vec<u32> =
            self.node_ids().filter(|&node| self.nodes[node as usize - 1].is_some()).collect();
        self.wait_until("does not see all nodes registered", START_PATIENCE, |status| {
            wanted.iter().all(|&node| status.nodes.iter().any(|n| n.node == node && n.living))
        })
    }

    fn wait_until(
        &mut self,
        otherwise: &str,
        patience: Duration,
        reached: impl Fn(&ClusterStatus) -> bool,
    ) -> Result<(), LabError> {
        let deadline = Instant::now() + patience;
        while !reached(&self.status()?) {
            self.coordinator.check()?;
            for node in self.nodes.iter_mut().flatten() {
                node.check()?;
            }
            if Instant::now() > deadline {
                let message = format!("{otherwise} within {} s", patience.as_secs());
                return Err(LabError::Daemon { who: "the coordinator".to_owned(), message });
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }
}
