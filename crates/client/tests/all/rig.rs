//! The cluster under test, and what tests ask of it.

use crate::daemon::Daemon;
use client::{Client, ClientError, GetOptions, GetReport, JobEvents, PutOptions};
use coordinator::{Coordinator, CoordinatorError};
use disk::{CrashDisk, Disk, PowerSwitch};
use exec::{DriverIo, Engine, Injection};
use node::{Node, NodeError};

use model::{BlockId, NodeId};
use node::store::{CopyId, StoreError, Verdict};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use wire::proto::coordinator_client::CoordinatorClient;
use wire::proto::{
    ArchiveRequest, BlockInfo, ClusterStatus, FlowPlan, JobEvent, ObjectInfo, PlanReadRequest, RepairRequest,
    TaskControl,
};

/// Bytes of a block: three chunks, the last one short.
pub const BLOCK: usize = 80_000;

/// Waiting for a condition fails the test after this long. It never takes that long; a busy machine may need some of it.
pub const PATIENCE: Duration = Duration::from_secs(40);

/// Nodes that live say what they keep of a catalog at once.
const CATCH_UP_MS: u64 = 2_000;

const LOOK: Duration = Duration::from_millis(5);

/// What tests vary.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub nodes: u32,
    pub dead_after_ms: u64,
    /// Whether nodes that have not registered since a start are waited for. Most tests start a coordinator without some of them.
    pub expects_nodes: bool,
    pub garbage_grace_ms: u64,
    pub put_lease_ms: u64,
    pub block_bytes: u64,
    pub replicas: u32,
    pub recovery_grace_ms: u64,
    pub cache_bytes: u64,
    pub waits_for_holders: bool,
    /// `None`: as the coordinator has it, an hour.
    pub compare_every_ms: Option<u64>,
    /// `None`: as the coordinator has it.
    pub lookup_bytes: Option<usize>,
}

impl Settings {
    /// Nodes die after twenty missed heartbeats: a busy machine does not reach that by chance.
    pub fn nodes(nodes: u32) -> Settings {
        Settings {
            nodes,
            dead_after_ms: 2_000,
            expects_nodes: false,
            garbage_grace_ms: 100,
            put_lease_ms: 60_000,
            block_bytes: BLOCK as u64,
            replicas: 3,
            recovery_grace_ms: 3_600_000,
            cache_bytes: 0,
            waits_for_holders: false,
            compare_every_ms: None,
            lookup_bytes: None,
        }
    }
}

/// A coordinator and nodes 1 … n, two to a rack.
pub struct Rig {
    pub settings: Settings,
    pub power: Arc<PowerSwitch>,
    /// The catalog's.
    pub disk: CrashDisk,
    pub machines: BTreeMap<u32, Machine>,
    pub client: Client,
    coordinator: Option<Daemon<Coordinator>>,
    address: SocketAddr,
}

/// A node's disk, the faults planted in it, and the node, if it runs.
pub struct Machine {
    pub disk: CrashDisk,
    pub injection: Arc<Injection>,
    daemon: Option<Daemon<Node>>,
}

impl Machine {
    fn new(power: &Arc<PowerSwitch>) -> Machine {
        Machine { disk: CrashDisk::new(power), injection: Arc::default(), daemon: None }
    }

    /// The node ends, and what it keeps of the catalog is removed.
    pub fn remove_records(&mut self) {
        let records = std::path::Path::new("records");
        self.daemon = None;
        for entry in self.disk.list(records).unwrap_or_default() {
            self.disk.remove(&records.join(entry.name)).unwrap();
        }
        let _ = self.disk.sync_folder(records, disk::SyncPoint::HeldFolder);
    }
}

impl Rig {
    pub async fn new(nodes: u32) -> Rig {
        Rig::with(Settings::nodes(nodes)).await
    }

    pub async fn with(settings: Settings) -> Rig {
        let power = PowerSwitch::new();
        Rig::on(settings, power).await
    }

    /// On a switch that may have been told something.
    pub async fn on(settings: Settings, power: Arc<PowerSwitch>) -> Rig {
        let disk = CrashDisk::new(&power);
        let machines = (1..=settings.nodes).map(|node| (node, Machine::new(&power))).collect();
        let coordinator = start_coordinator(settings, &disk, any_port(), true).await.unwrap();
        let address = coordinator.get().local_addr();
        let client = Client::connect(&address.to_string()).await.unwrap();
        let coordinator = Some(coordinator);
        let mut rig = Rig { settings, power, disk, machines, client, coordinator, address };
        for node in 1..=settings.nodes {
            rig.start(node).await.unwrap();
        }
        rig.all_live().await;
        rig
    }

    /// A node that there was not.
    pub async fn join(&mut self, node: u32) {
        self.machines.insert(node, Machine::new(&self.power));
        self.start(node).await.unwrap();
    }

    /// Starts a node that does not run, on what its disk holds.
    pub async fn start(&mut self, node: u32) -> Result<(), NodeError> {
        let deadline = Instant::now() + PATIENCE;
        let machine = self.machines.get_mut(&node).unwrap();
        assert!(machine.daemon.is_none());
        loop {
            let disk: Arc<dyn Disk> = Arc::new(machine.disk.clone());
            let mut config = node::Config::new(NodeId(node), self.address.to_string(), disk);
            config.rack = format!("rack-{}", (node - 1) / 2);
            config.injection = Arc::clone(&machine.injection);
            config.cache_bytes = self.settings.cache_bytes;
            match Daemon::start(node::start(config)).await {
                Ok(daemon) => {
                    machine.daemon = Some(daemon);
                    return Ok(());
                }
                // Threads of its former life have not ended yet.
                Err(NodeError::Store(StoreError::InUse)) if Instant::now() < deadline => {
                    tokio::time::sleep(LOOK).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The node ends in an orderly way.
    pub async fn stop(&mut self, node: u32) {
        self.machines.get_mut(&node).unwrap().daemon.take().unwrap().end(Node::shutdown).await;
    }

    /// The node's process ends without a word. Its disk stays.
    pub fn kill(&mut self, node: u32) {
        self.machines.get_mut(&node).unwrap().daemon = None;
    }

    /// Nodes lose what they keep of the catalog: those that ran run again.
    pub async fn forget_records(&mut self) {
        let running = self.running();
        self.remove_records();
        for node in running {
            self.start(node).await.unwrap();
        }
    }

    /// All nodes end, and what they keep of the catalog is removed.
    pub fn remove_records(&mut self) {
        self.machines.values_mut().for_each(Machine::remove_records);
    }

    /// The same, and the coordinator has noticed.
    pub async fn lose(&mut self, nodes: impl IntoIterator<Item = u32>) {
        nodes.into_iter().for_each(|node| self.kill(node));
        self.all_live().await;
    }

    /// Starts nodes again, and waits until they have registered.
    pub async fn bring_back(&mut self, nodes: impl IntoIterator<Item = u32>) {
        for node in nodes {
            self.start(node).await.unwrap();
        }
        self.all_live().await;
    }

    /// Waits until the coordinator sees alive what runs, and dead what does not.
    pub async fn all_live(&self) {
        let running = self.running();
        eventually("the coordinator knows who lives", async || {
            let Ok(status) = self.client.status().await else { return false };
            status.nodes.iter().filter(|n| n.living).map(|n| n.node).collect::<BTreeSet<u32>>() == running
        })
        .await;
    }

    pub fn running(&self) -> BTreeSet<u32> {
        self.machines.iter().filter(|(_, m)| m.daemon.is_some()).map(|(&node, _)| node).collect()
    }

    pub fn node(&self, node: u32) -> &Node {
        self.machines[&node].daemon.as_ref().unwrap().get()
    }

    /// Ends the coordinator in an orderly way.
    pub async fn stop_coordinator(&mut self) {
        self.coordinator.take().unwrap().end(Coordinator::shutdown).await;
    }

    /// The coordinator's process ends without a word.
    pub fn stop_coordinator_at_once(&mut self) {
        self.coordinator = None;
    }

    /// Starts one at the same address, on `disk`.
    pub async fn start_coordinator(&mut self, disk: CrashDisk) {
        self.begin_coordinator(disk).await;
        self.all_live().await;
    }

    /// Starts one at the same address, on `disk`; nodes may not have registered yet.
    pub async fn begin_coordinator(&mut self, disk: CrashDisk) {
        self.disk = disk;
        let deadline = Instant::now() + PATIENCE;
        let daemon = loop {
            match start_coordinator(self.settings, &self.disk, self.address, false).await {
                Err(CoordinatorError::Listen { .. }) if Instant::now() < deadline => {
                    tokio::time::sleep(LOOK).await;
                }
                other => break other.unwrap(),
            }
        };
        self.coordinator = Some(daemon);
        self.client = Client::connect(&self.address.to_string()).await.unwrap();
    }

    /// A client whose calls fail at once while the coordinator starts.
    pub async fn impatient(&self) -> Client {
        let patience = client::Patience::of(Duration::ZERO);
        Client::connect_with(&self.address.to_string(), Arc::default(), patience).await.unwrap()
    }

    /// All power off, and on again; the nodes `off` stay off. Everything runs on what survived; with `cut_after`, only for
    /// so many durable calls.
    pub async fn power_cycle(&mut self, off: &BTreeSet<u32>, cut_after: Option<u64>) -> Result<(), String> {
        self.coordinator = None;
        self.machines.values_mut().for_each(|machine| machine.daemon = None);
        self.power.restart();
        if let Some(calls) = cut_after {
            self.power.cut_after(calls);
        }
        self.disk = self.disk.reopen();
        let coordinator = start_coordinator(self.settings, &self.disk, any_port(), false).await;
        let coordinator = coordinator.map_err(|e| format!("the coordinator: {e}"))?;
        self.address = coordinator.get().local_addr();
        self.coordinator = Some(coordinator);
        let client = Client::connect(&self.address.to_string()).await;
        self.client = client.map_err(|e| format!("the coordinator: {e}"))?;
        for node in 1..=self.settings.nodes {
            let machine = self.machines.get_mut(&node).unwrap();
            machine.disk = machine.disk.reopen();
            if !off.contains(&node) {
                self.start(node).await.map_err(|e| format!("node-{node}: {e}"))?;
            }
        }
        let registered = tokio::time::timeout(Duration::from_secs(15), self.all_live());
        registered.await.map_err(|_| "not all nodes register again".to_owned())
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub async fn put(&self, name: &str, bytes: &[u8]) -> Result<ObjectInfo, ClientError> {
        self.client.put(name, std::io::Cursor::new(bytes.to_vec()), PutOptions::default()).await
    }

    pub async fn get(&self, name: &str) -> Result<Vec<u8>, ClientError> {
        self.get_with(name, GetOptions::default()).await
    }

    /// Part of an object, as HTTP writes ranges.
    pub async fn range(&self, name: &str, range: &str) -> Result<Vec<u8>, ClientError> {
        let range = Some(range.parse().unwrap());
        self.get_with(name, GetOptions { range, ..GetOptions::default() }).await
    }

    pub async fn get_with(&self, name: &str, options: GetOptions) -> Result<Vec<u8>, ClientError> {
        self.read(name, options).await.map(|(bytes, _)| bytes)
    }

    pub async fn read(&self, name: &str, options: GetOptions) -> Result<(Vec<u8>, GetReport), ClientError> {
        let output = Output::default();
        let report = self.client.get(name, output.clone(), options).await?;
        Ok((output.bytes(), report))
    }

    /// A block, without the help of some nodes.
    pub async fn read_around(&self, block: &BlockInfo, avoid: &[u32]) -> Result<Vec<u8>, String> {
        let mut coordinator = CoordinatorClient::connect(format!("http://{}", self.address)).await.unwrap();
        let mut bytes = Vec::new();
        // A plan reads to the end of a symbol at most.
        while bytes.len() < block.stored_bytes as usize {
            let offset = bytes.len() as u64;
            let (block, length) = (block.block.clone(), block.stored_bytes - offset);
            let avoid = avoid.to_vec();
            let request = PlanReadRequest { block, offset, length, avoid, ..Default::default() };
            let reply =
                coordinator.plan_read(request).await.map_err(|s| s.message().to_owned())?.into_inner();
            let symbol = run_read(reply.plan.unwrap()).await?;
            bytes.extend(&symbol[..reply.length as usize]);
        }
        Ok(bytes)
    }

    /// Archives, and returns what the job said.
    pub async fn archive(&self, name: &str, code: &str) -> Result<Vec<JobEvent>, ClientError> {
        let request = ArchiveRequest {
            name: name.to_owned(),
            code: code.to_owned(),
            slice_bytes: 0,
            short: true,
            ..Default::default()
        };
        all(self.client.archive(request).await?).await
    }

    pub async fn repair(&self, request: RepairRequest) -> Result<Vec<JobEvent>, ClientError> {
        all(self.client.repair(request).await?).await
    }

    pub async fn repair_node(&self, node: u32) -> Result<Vec<JobEvent>, ClientError> {
        self.repair(RepairRequest { node, ..Default::default() }).await
    }

    pub async fn status(&self) -> ClusterStatus {
        self.client.status().await.unwrap()
    }

    pub async fn control_task(&self, name: &str, action: &str) {
        let control = TaskControl { name: name.to_owned(), action: action.to_owned(), ..Default::default() };
        self.client.control_task(control).await.unwrap();
    }

    /// Waits until the nodes have deleted all garbage.
    pub async fn no_garbage(&self) {
        eventually("the garbage is collected", async || self.status().await.garbage == 0).await;
    }

    /// Blocks that a running node stores.
    pub fn stored(&self, node: u32) -> BTreeSet<BlockId> {
        self.copies(node).into_iter().map(|copy| copy.block).collect()
    }

    /// Copies that a running node stores, several of one block among them, in the order of their names.
    pub fn copies(&self, node: u32) -> Vec<CopyId> {
        self.node(node).flows().store.list().flat_map(|listing| listing.unwrap().copies).collect()
    }

    /// The newest copy of a block on a running node.
    pub fn newest(&self, node: u32, block: BlockId) -> Option<CopyId> {
        self.copies(node).into_iter().rfind(|copy| copy.block == block)
    }

    /// What is wrong with the newest copy of a block, all of it read.
    pub fn damage(&self, node: u32, block: BlockId) -> Option<String> {
        if !self.running().contains(&node) {
            return Some(format!("block {block} is on node-{node}, which does not run"));
        }
        match self.newest(node, block) {
            Some(copy) => self.damage_of(node, copy),
            None => Some(format!("block {block} is not on node-{node}")),
        }
    }

    fn damage_of(&self, node: u32, copy: CopyId) -> Option<String> {
        match self.node(node).flows().store.verify(copy.block, copy.generation, |_| ()) {
            Ok(Verdict::Whole) => None,
            Ok(Verdict::Damaged(damage)) => Some(format!("node-{node}: block {copy}: {damage}")),
            Err(error) => Some(format!("node-{node}: {error}")),
        }
    }

    /// What is wrong with the running nodes' blocks: whatever has its final name must be whole.
    pub fn damages(&self) -> Vec<String> {
        let copies = self
            .running()
            .into_iter()
            .flat_map(|node| self.copies(node).into_iter().map(move |copy| (node, copy)));
        // It may have been deleted since it was listed.
        let damage = |(node, copy): (u32, CopyId)| {
            self.damage_of(node, copy).filter(|_| self.copies(node).contains(&copy))
        };
        copies.filter_map(damage).collect()
    }
}

fn any_port() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

pub async fn start_coordinator(
    settings: Settings,
    disk: &CrashDisk,
    listen: SocketAddr,
    founds: bool,
) -> Result<Daemon<Coordinator>, CoordinatorError> {
    let mut config = coordinator::Config::new(listen, Arc::new(disk.clone()));
    config.heartbeat_ms = 100;
    config.dead_after_ms = settings.dead_after_ms;
    config.expects_nodes = settings.expects_nodes;
    config.garbage_grace_ms = settings.garbage_grace_ms;
    config.put_lease_ms = settings.put_lease_ms;
    config.block_bytes = settings.block_bytes;
    config.replicas = settings.replicas;
    config.recovery_grace_ms = settings.recovery_grace_ms;
    config.waits_for_holders = settings.waits_for_holders;
    config.compare_every_ms = settings.compare_every_ms.unwrap_or(config.compare_every_ms);
    config.lookup_bytes = settings.lookup_bytes.unwrap_or(config.lookup_bytes);
    config.catch_up_ms = CATCH_UP_MS;
    config.founds = founds;
    Daemon::start(coordinator::start(config)).await
}

async fn all(mut events: JobEvents) -> Result<Vec<JobEvent>, ClientError> {
    let mut list = Vec::new();
    while let Some(event) = events.next().await? {
        list.push(event);
    }
    Ok(list)
}

/// One symbol, with zeros behind it.
async fn run_read(plan: FlowPlan) -> Result<Vec<u8>, String> {
    let geometry = plan.header.as_ref().and_then(|header| header.geometry).unwrap();
    let bytes = Arc::new(Mutex::new(vec![0; geometry.block_bytes as usize]));
    let out = Arc::clone(&bytes);
    let sink: exec::Sink = Box::new(move |delivery: exec::Delivery<'_>| {
        let mut out = out.lock().unwrap();
        let start = delivery.offset as usize;
        let end = (start + delivery.bytes.len()).min(out.len());
        out[start..end].copy_from_slice(&delivery.bytes[..end - start]);
        Ok(())
    });
    let io = DriverIo { sink: Some(sink), ..DriverIo::default() };
    let plan = wire::codec::plan::decode(&plan).map_err(|fault| fault.to_string())?;
    Engine::client().drive(plan, io, |_| {}).await.map_err(|fault| fault.to_string())?;
    Ok(std::mem::take(&mut bytes.lock().unwrap()))
}

/// Waits for a condition; fails the test if it does not come about.
pub async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds().await {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        tokio::time::sleep(LOOK).await;
    }
}

/// Bytes without a pattern, by a seed.
pub fn content(seed: u64, bytes: usize) -> Vec<u8> {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&seed.to_le_bytes());
    let mut out = vec![0; bytes];
    hasher.finalize_xof().fill(&mut out);
    out
}

/// Collects what a get writes.
#[derive(Clone, Default)]
pub struct Output(Arc<Mutex<Vec<u8>>>);

impl Output {
    pub fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().clone()
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
