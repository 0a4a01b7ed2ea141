//! A cluster for tests: one coordinator, and nodes that are a tiny double of the real ones. Their blocks are bytes in
//! memory, and a flow is really computed, with the matrices of the plan; so what a test reads back is what the
//! coordinator's plans make of what was put.

#![allow(dead_code)]

mod holding;
pub mod world;

use coordinator::{Config, Coordinator, CoordinatorError, Fleet};
use disk::{CrashDisk, Disk, PowerSwitch};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_stream::StreamExt;
use tonic::transport::Channel;
use tonic::{Code, Status};
use wire::proto;
use wire::proto::coordinator_client::CoordinatorClient;
use wire::proto::register_message::Kind;
use world::World;

/// Bytes of a block in most tests: several slices of 1 KiB, the last one short.
pub const BLOCK_BYTES: u64 = 4_000;

/// Heartbeats come this often; nodes are dead after a multiple that a busy machine does not reach by chance.
const HEARTBEAT_MS: u64 = 100;

pub type Client = CoordinatorClient<Channel>;

/// A coordinator and its nodes.
pub struct Cluster {
    pub power: Arc<PowerSwitch>,
    pub disk: CrashDisk,
    pub world: Arc<World>,
    pub client: Client,
    coordinator: Option<Coordinator>,
    heartbeats: Vec<(u32, JoinHandle<()>)>,
    pub settings: Settings,
    /// Puts that began.
    puts: Vec<Vec<u8>>,
}

/// What tests vary.
#[derive(Clone, Copy)]
pub struct Settings {
    pub dead_after_ms: u64,
    pub garbage_grace_ms: u64,
    pub put_lease_ms: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { dead_after_ms: 60_000, garbage_grace_ms: 60_000, put_lease_ms: 60_000 }
    }
}

impl Cluster {
    /// A coordinator with an empty catalog and nodes 1 … `nodes`, two to a rack.
    pub async fn new(nodes: u32, settings: Settings) -> Cluster {
        let world = World::start(nodes).await;
        Cluster::with(world, settings).await.expect("a new cluster starts")
    }

    /// The same with nodes that exist already, and an empty catalog.
    pub async fn with(world: Arc<World>, settings: Settings) -> Result<Cluster, CoordinatorError> {
        let power = PowerSwitch::new();
        let disk = CrashDisk::new(&power);
        Cluster::on(power, disk, world, settings).await
    }

    /// The same on a disk that may hold a catalog.
    pub async fn on(
        power: Arc<PowerSwitch>,
        disk: CrashDisk,
        world: Arc<World>,
        settings: Settings,
    ) -> Result<Cluster, CoordinatorError> {
        let founds = world.is_new();
        let config = Config { founds, ..config(&disk, settings) };
        Cluster::told(config, (power, disk), world, settings).await
    }

    /// The same, whose nodes are reached in another way.
    pub async fn over(
        fleet: Arc<dyn Fleet>,
        world: Arc<World>,
        settings: Settings,
    ) -> Result<Cluster, CoordinatorError> {
        let power = PowerSwitch::new();
        let disk = CrashDisk::new(&power);
        let config = Config { fleet, ..config(&disk, settings) };
        Cluster::told(config, (power, disk), world, settings).await
    }

    /// The same with nodes that exist already, and a coordinator that is told more.
    pub async fn set(world: Arc<World>, settings: Settings, set: impl FnOnce(&mut Config)) -> Cluster {
        let power = PowerSwitch::new();
        let disk = CrashDisk::new(&power);
        let mut config = config(&disk, settings);
        set(&mut config);
        Cluster::told(config, (power, disk), world, settings).await.expect("it starts")
    }

    /// The same, whose wall clock is this.
    pub async fn dated(nodes: u32, settings: Settings, wall_ms: fn() -> u64) -> Cluster {
        Cluster::set(World::start(nodes).await, settings, |config| config.wall_ms = wall_ms).await
    }

    /// The same, whose nodes are compared with the catalog this often.
    pub async fn comparing(nodes: u32, settings: Settings, every_ms: u64) -> Cluster {
        Cluster::set(World::start(nodes).await, settings, |config| config.compare_every_ms = every_ms).await
    }

    /// The same, in whose stripes blocks wait for company no longer than this.
    pub async fn sealing(nodes: u32, settings: Settings, open_for_ms: u64) -> Cluster {
        Cluster::set(World::start(nodes).await, settings, |config| config.open_for_ms = open_for_ms).await
    }

    /// The same with nodes that exist already, which looks this often for nodes that are filled unevenly.
    pub async fn balancing(world: Arc<World>, settings: Settings, balance_every_ms: u64) -> Cluster {
        Cluster::set(world, settings, |config| config.balance_every_ms = balance_every_ms).await
    }

    /// The same, in which dead nodes are waited for this long.
    pub async fn waiting(nodes: u32, settings: Settings, recovery_grace_ms: u64) -> Cluster {
        let set = |config: &mut Config| config.recovery_grace_ms = recovery_grace_ms;
        Cluster::set(World::start(nodes).await, settings, set).await
    }

    /// The same, which looks this often, by this wall clock, for what is old enough to be archived.
    pub async fn aging(nodes: u32, settings: Settings, wall_ms: fn() -> u64, every_ms: u64) -> Cluster {
        let set = |config: &mut Config| (config.wall_ms, config.archive_look_ms) = (wall_ms, every_ms);
        Cluster::set(World::start(nodes).await, settings, set).await
    }

    async fn told(
        config: Config,
        (power, disk): (Arc<PowerSwitch>, CrashDisk),
        world: Arc<World>,
        settings: Settings,
    ) -> Result<Cluster, CoordinatorError> {
        let coordinator = coordinator::start(config).await?;
        let client = connect(&coordinator).await;
        let mut cluster = Cluster {
            power,
            disk,
            world,
            client,
            coordinator: Some(coordinator),
            heartbeats: Vec::new(),
            settings,
            puts: Vec::new(),
        };
        for node in cluster.world.living() {
            cluster
                .join_in_the_end(node)
                .await
                .map_err(|s| CoordinatorError::Invalid(s.message().to_owned()))?;
        }
        Ok(cluster)
    }

    /// The same, while the coordinator may still compare its catalog, or begin anew over another one, which breaks calls off.
    async fn join_in_the_end(&mut self, node: u32) -> Result<(), Status> {
        let is_over_soon = |status: &Status| {
            status.code() == Code::Unavailable || status.message().contains("h2 protocol error")
        };
        for _ in 0..200 {
            match self.join(node).await {
                Err(status) if is_over_soon(&status) => {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                joined => return joined,
            }
        }
        self.join(node).await
    }

    /// Registers a node and keeps it alive.
    pub async fn join(&mut self, node: u32) -> Result<(), Status> {
        register(&mut self.client, &self.world, node).await?;
        let (mut client, world) = (self.client.clone(), Arc::clone(&self.world));
        let beat = tokio::spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_millis(HEARTBEAT_MS)).await;
                if !world.lives(node) {
                    continue;
                }
                let request = proto::HeartbeatRequest { status: Some(world.status(node)) };
                match client.heartbeat(request).await {
                    Ok(reply) if reply.get_ref().register_again => {
                        let _ = register(&mut client, &world, node).await;
                    }
                    Ok(reply) => world.hear(node, reply.get_ref().now),
                    Err(_) => {}
                }
            }
        });
        self.heartbeats.push((node, beat));
        Ok(())
    }

    /// Cuts the coordinator off (or shuts it down), and starts one anew on what its disk kept.
    pub async fn restart(mut self) -> Cluster {
        self.stop().await;
        self.power.restart();
        let disk = self.disk.reopen();
        let mut cluster = Cluster::on(Arc::clone(&self.power), disk, Arc::clone(&self.world), self.settings)
            .await
            .expect("the catalog opens after a restart");
        cluster.puts = std::mem::take(&mut self.puts);
        cluster
    }

    /// Another coordinator on the same disk, to which the living nodes register.
    pub async fn again(&mut self) -> Result<(), Status> {
        self.stop().await;
        let coordinator = coordinator::start(config(&self.disk, self.settings)).await?;
        self.client = connect(&coordinator).await;
        self.coordinator = Some(coordinator);
        for node in self.world.living() {
            self.join(node).await?;
        }
        Ok(())
    }

    /// Gives up every put that is still pending.
    pub async fn abort_puts(&mut self) {
        for put in std::mem::take(&mut self.puts) {
            self.client.abort_put(proto::AbortPutRequest { put }).await.expect("an abort");
        }
    }

    /// Ends the coordinator; nodes stay.
    pub async fn stop(&mut self) {
        for (_, beat) in self.heartbeats.drain(..) {
            beat.abort();
        }
        if let Some(coordinator) = self.coordinator.take() {
            coordinator.shutdown().await;
        }
    }

    /// Waits until the collector has had two turns.
    pub async fn collect(&mut self) {
        tokio::time::sleep(Duration::from_millis(3 * self.settings.garbage_grace_ms + 100)).await;
    }

    /// Nothing comes from the node any more, neither heartbeats nor registrations; it answers yet.
    pub fn hush(&mut self, node: u32) {
        self.heartbeats.retain(|(of, beat)| {
            if *of == node {
                beat.abort();
            }
            *of != node
        });
    }

    /// The node falls silent; returns when the coordinator has noticed.
    pub async fn kill(&mut self, node: u32) {
        self.world.kill(node);
        self.until("a dead node is noticed", async |cluster| {
            let status = cluster.status().await;
            !status.nodes.iter().any(|n| n.node == node && n.living)
        })
        .await;
    }

    /// Waits for a condition; fails the test if it does not come about in 20 s.
    pub async fn until(&mut self, what: &str, mut holds: impl AsyncFnMut(&mut Cluster) -> bool) {
        for _ in 0..2_000 {
            if holds(self).await {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("in vain: {what}; {:#?}", self.status().await);
    }

    pub async fn status(&mut self) -> proto::ClusterStatus {
        self.client.get_status(proto::Empty {}).await.expect("status").into_inner()
    }

    /// Puts an object as a client does: block by block, then the commit.
    pub async fn put(&mut self, name: &str, bytes: &[u8]) -> Result<proto::ObjectInfo, Status> {
        self.put_with(name, bytes, BLOCK_BYTES, 3).await
    }

    pub async fn put_with(
        &mut self,
        name: &str,
        bytes: &[u8],
        block_bytes: u64,
        replicas: u32,
    ) -> Result<proto::ObjectInfo, Status> {
        let begin = proto::BeginPutRequest { name: name.to_owned(), block_bytes, replicas, gathers: None };
        let begun = self.client.begin_put(begin).await?.into_inner();
        self.puts.push(begun.put.clone());
        let mut blocks = Vec::new();
        let pieces: Vec<&[u8]> =
            if bytes.is_empty() { vec![&[]] } else { bytes.chunks(block_bytes as usize).collect() };
        for (index, piece) in pieces.iter().enumerate() {
            let request = write_request(&begun.put, index, piece, index + 1 == pieces.len());
            let reply = self.client.plan_write(request).await?.into_inner();
            let staged = self.world.run(reply.plan.as_ref().expect("a plan"), piece, 0);
            let staged = staged.map_err(|fault| Status::unavailable(fault.to_string()))?.staged;
            blocks.push(written(&staged));
        }
        let commit = proto::CommitPutRequest {
            put: begun.put,
            blocks,
            object_bytes: bytes.len() as u64,
            digest: blake3::hash(bytes).as_bytes().to_vec(),
            parities: Vec::new(),
        };
        Ok(self.client.commit_put(commit).await?.into_inner())
    }

    /// Reads an object back by plans, whatever lives. Also tells how many reads were degraded.
    pub async fn get(&mut self, name: &str) -> Result<(Vec<u8>, usize), Status> {
        let info = self.lookup(name).await?;
        let mut bytes = Vec::new();
        let mut degraded = 0;
        for block in &info.blocks {
            let mut offset = 0;
            while offset < block.stored_bytes {
                let reply =
                    self.plan_read(&block.block, offset, block.stored_bytes - offset, "", &[]).await?;
                degraded += usize::from(reply.degraded);
                assert!(
                    reply.offset == offset && reply.length > 0,
                    "the plan reads a prefix of what is wanted"
                );
                bytes
                    .extend(self.world.read(&reply).map_err(|fault| Status::unavailable(fault.to_string()))?);
                offset += reply.length;
            }
        }
        assert_eq!(bytes.len() as u64, info.object_bytes);
        Ok((bytes, degraded))
    }

    pub async fn plan_read(
        &mut self,
        block: &[u8],
        offset: u64,
        length: u64,
        scheme: &str,
        avoid: &[u32],
    ) -> Result<proto::PlanReply, Status> {
        let request = proto::PlanReadRequest {
            block: block.to_vec(),
            offset,
            length,
            scheme: scheme.to_owned(),
            avoid: avoid.to_vec(),
            slice_bytes: 1024,
            ..Default::default()
        };
        Ok(self.client.plan_read(request).await?.into_inner())
    }

    pub async fn lookup(&mut self, name: &str) -> Result<proto::ObjectInfo, Status> {
        let request = proto::LookupRequest { name: name.to_owned(), with_blocks: true, ..Default::default() };
        Ok(self.client.lookup(request).await?.into_inner())
    }

    pub async fn delete(&mut self, name: &str) -> Result<(), Status> {
        let request =
            proto::LookupRequest { name: name.to_owned(), with_blocks: false, ..Default::default() };
        self.client.delete(request).await.map(|_| ())
    }

    pub async fn archive(&mut self, name: &str, code: &str) -> Result<Vec<proto::JobEvent>, Status> {
        let request = proto::ArchiveRequest {
            name: name.to_owned(),
            code: code.to_owned(),
            slice_bytes: 1024,
            short: true,
            ..Default::default()
        };
        self.archive_as(request).await
    }

    pub async fn archive_as(
        &mut self,
        request: proto::ArchiveRequest,
    ) -> Result<Vec<proto::JobEvent>, Status> {
        ended(self.client.archive(request).await?.into_inner()).await
    }

    pub async fn compact(&mut self) -> Result<Vec<proto::JobEvent>, Status> {
        let request = proto::CompactRequest { slice_bytes: 1024, ..Default::default() };
        ended(self.client.compact(request).await?.into_inner()).await
    }

    pub async fn repair(&mut self, request: proto::RepairRequest) -> Result<Vec<proto::JobEvent>, Status> {
        ended(self.client.repair(proto::RepairRequest { slice_bytes: 1024, ..request }).await?.into_inner())
            .await
    }

    pub async fn control(&mut self, name: &str, action: &str) -> Result<proto::TaskStatus, Status> {
        let control =
            proto::TaskControl { name: name.to_owned(), action: action.to_owned(), ..Default::default() };
        Ok(self.client.control_task(control).await?.into_inner())
    }

    pub async fn backup(&mut self) -> Vec<u8> {
        let mut stream = self.client.backup_catalog(proto::Empty {}).await.expect("backup").into_inner();
        let mut bytes = Vec::new();
        while let Some(piece) = stream.message().await.expect("a piece") {
            bytes.extend(piece.bytes);
        }
        bytes
    }

    /// Every copy on the nodes is one that the catalog lists, and the other way round, once what moves has arrived.
    pub async fn nothing_leaked(&mut self, names: &[&str]) {
        let is_so = async |cluster: &mut Cluster| {
            let mut listed = std::collections::BTreeSet::new();
            for name in names {
                for block in cluster.lookup(name).await.expect("the object").blocks {
                    listed.extend(block.nodes.iter().map(|&node| (node, block.block.clone())));
                    let members = block.stripe.into_iter().flat_map(|s| s.members);
                    listed.extend(members.filter(|m| m.node != 0).map(|m| (m.node, m.block)));
                }
            }
            cluster.world.copies() == listed.into_iter().collect::<Vec<_>>()
        };
        self.until("nodes have what the catalog lists", is_so).await;
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.heartbeats.drain(..).for_each(|(_, beat)| beat.abort());
    }
}

/// Settings of a coordinator on that disk.
pub fn config(disk: &CrashDisk, settings: Settings) -> Config {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    Config {
        catch_up_ms: 1_000,
        heartbeat_ms: HEARTBEAT_MS,
        dead_after_ms: settings.dead_after_ms,
        expects_nodes: false,
        garbage_grace_ms: settings.garbage_grace_ms,
        put_lease_ms: settings.put_lease_ms,
        slice_bytes: 1024,
        ..Config::new("127.0.0.1:0".parse().expect("an address"), disk)
    }
}

async fn connect(coordinator: &Coordinator) -> Client {
    let address = format!("http://{}", coordinator.local_addr());
    CoordinatorClient::connect(address).await.expect("the coordinator accepts")
}

pub async fn register(client: &mut Client, world: &World, node: u32) -> Result<(), Status> {
    let hello = proto::RegisterMessage { kind: Some(Kind::Hello(world.hello(node))) };
    let blocks = proto::RegisterMessage { kind: Some(Kind::Blocks(world.inventory(node))) };
    let reply = client.register(tokio_stream::iter([hello, blocks])).await?.into_inner();
    world.joined(node, reply.cluster);
    world.hear(node, reply.now);
    Ok(())
}

/// The events of a job; its failure is an error with the job's own words.
async fn ended(mut stream: tonic::Streaming<proto::JobEvent>) -> Result<Vec<proto::JobEvent>, Status> {
    let mut events = Vec::new();
    while let Some(event) = stream.next().await {
        events.push(event?);
    }
    match events.last() {
        Some(event) if event.state == "done" => Ok(events),
        Some(event) => Err(Status::new(Code::Aborted, event.message.clone())),
        None => Err(Status::new(Code::Aborted, "no events")),
    }
}

pub fn write_request(put: &[u8], index: usize, piece: &[u8], last: bool) -> proto::PlanWriteRequest {
    proto::PlanWriteRequest {
        put: put.to_vec(),
        index: index as u64,
        avoid: Vec::new(),
        stored_bytes: piece.len() as u64,
        digest: blake3::hash(piece).as_bytes().to_vec(),
        fingerprint: world::fingerprint(piece).as_bytes().to_vec(),
        last,
    }
}

pub fn written(staged: &[proto::Staged]) -> proto::WrittenBlock {
    proto::WrittenBlock {
        block: staged[0].block.clone(),
        stored_bytes: staged[0].stored_bytes,
        digest: staged[0].digest.clone(),
        fingerprint: staged[0].fingerprint.clone(),
        nodes: staged.iter().map(|s| s.node).collect(),
        by: staged.iter().map(written_by).collect(),
    }
}

fn written_by(staged: &proto::Staged) -> proto::WrittenBy {
    let proto::Staged { node, store, incarnation, mac, .. } = staged.clone();
    proto::WrittenBy { node, store, incarnation, mac }
}

/// Bytes that differ from seed to seed.
pub fn bytes(seed: u8, length: usize) -> Vec<u8> {
    let mut reader = blake3::Hasher::new().update(&[seed]).finalize_xof();
    let mut bytes = vec![0; length];
    reader.fill(&mut bytes);
    bytes
}
