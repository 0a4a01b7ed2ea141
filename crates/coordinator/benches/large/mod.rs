//! A coordinator with many blocks on a real disk, and stubs for its nodes.

use crate::support;
use crate::support::world::World;
use crate::support::{Client, write_request, written};
use catalog::{Catalog, CommittedBlock, NewPut, PlannedBlock, PutEnd};
use coordinator::Config;
use disk::{Disk, RealDisk};
use model::{BlockCopy, BlockId, ClusterId, FlowId, NodeId, PutId, Sums};
use plan::Draw;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_stream::StreamExt;
use wire::proto;
use wire::proto::coordinator_client::CoordinatorClient;
use wire::proto::register_message::Kind;

pub const REPLICAS: usize = 3;
/// Of the objects that benches about blocks fill a catalog with.
#[allow(dead_code, reason = "the bench of listings has other ones")]
pub const BLOCKS_OF_AN_OBJECT: u64 = 1_000;
/// As nodes send them.
const COPIES_PER_MESSAGE: usize = 1_024;

/// Runs a measurement in a folder of its own: its numbers of blocks and nodes are the program's arguments, or these.
pub fn run<F: Future<Output = ()>>(
    name: &str,
    (blocks, nodes): (u64, u64),
    measure: impl FnOnce(Arc<dyn Disk>, u64, u32) -> F,
) {
    let mut numbers = std::env::args().filter_map(|argument| argument.parse::<u64>().ok());
    let (blocks, nodes) = (numbers.next().unwrap_or(blocks), numbers.next().unwrap_or(nodes) as u32);
    let folder = std::env::temp_dir().join(format!("stripeline-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::create(folder.clone()).unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(measure(disk, blocks, nodes));
    runtime.shutdown_background();
    std::fs::remove_dir_all(&folder).unwrap();
}

/// What each node has.
pub type Copies = BTreeMap<u32, Vec<BlockCopy>>;

/// Objects are put by so many callers at once: their changes share transactions, or a million syncs would take half an hour.
const CALLERS: u64 = 64;

/// A catalog with so many blocks, placed at random, of objects that have `each` of them.
pub fn fill(disk: &Arc<dyn Disk>, blocks: u64, each: u64, nodes: u32) -> Copies {
    let catalog = Catalog::open(disk, ClusterId(1)).unwrap();
    let objects = blocks.div_ceil(each);
    std::thread::scope(|scope| {
        for caller in 0..CALLERS {
            let catalog = &catalog;
            scope.spawn(move || {
                for object in (caller..objects).step_by(CALLERS as usize) {
                    let first = object * each;
                    fill_object(catalog, object, first..blocks.min(first + each), nodes);
                }
            });
        }
    });
    let held = |node| (node, catalog.held_by(NodeId(node)).unwrap().into_iter().collect());
    let copies = (1..=nodes).map(held).collect();
    catalog.close();
    copies
}

fn fill_object(catalog: &Catalog, object: u64, numbers: Range<u64>, nodes: u32) {
    let (put, mut draw) = (PutId(u128::from(object) + 1), Draw::seeded(object));
    let sums = Sums { digest: Some([7; 32]), fingerprint: Some(support::world::fingerprint(&[7])) };
    let new = NewPut {
        put,
        name: format!("object-{object:06}"),
        block_bytes: 1,
        replicas: REPLICAS as u32,
        lease_until_ms: u64::MAX,
        gathers: None,
    };
    catalog.begin_put(&new).unwrap();
    let mut written = Vec::new();
    let count = numbers.end - numbers.start;
    for (index, number) in (0..).zip(numbers) {
        // Spread over all folders, as ids that are drawn are.
        let block =
            BlockId(u128::from(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)) << 64 | u128::from(number));
        let mut all: Vec<NodeId> = (1..=nodes).map(NodeId).collect();
        draw.shuffle(&mut all);
        let nodes = all[..REPLICAS].to_vec();
        let (last, flow) = (index + 1 == count, FlowId(block.0));
        let planned = PlannedBlock { block, index, stored_bytes: 1, sums, last, nodes: nodes.clone(), flow };
        catalog.plan_block(put, &planned, 0, u64::MAX).unwrap();
        written.push(CommittedBlock { block, stored_bytes: 1, sums, nodes, by: BTreeMap::new() });
    }
    let end = PutEnd { now_ms: 0, created_ms: 0, remembered_until_ms: 0 };
    catalog.commit_put(put, &written, count, [7; 32], end).unwrap();
}

/// A coordinator, and how long after its start it did what.
#[allow(dead_code, reason = "not each bench tells all of it")]
pub struct Running {
    coordinator: coordinator::Coordinator,
    pub client: Client,
    pub beats: Vec<tokio::task::JoinHandle<()>>,
    pub read: Duration,
    pub put: Duration,
    pub registered: Duration,
    pub kept: Duration,
}

impl Running {
    pub async fn end(self) {
        self.beats.iter().for_each(tokio::task::JoinHandle::abort);
        self.coordinator.shutdown().await;
    }
}

/// Dead nodes are recovered after `recovery_grace_ms`.
pub async fn start(
    disk: &Arc<dyn Disk>,
    world: &Arc<World>,
    copies: &Copies,
    founds: bool,
    recovery_grace_ms: u64,
) -> Running {
    let began = Instant::now();
    let config =
        Config { founds, recovery_grace_ms, ..Config::new("127.0.0.1:0".parse().unwrap(), Arc::clone(disk)) };
    let coordinator = coordinator::start(config).await.unwrap();
    let address = format!("http://{}", coordinator.local_addr());
    let mut client: Client = CoordinatorClient::connect(address).await.unwrap();
    let nodes: Vec<u32> = world.living();
    let (all, mut registered_all) = tokio::sync::mpsc::channel(nodes.len());
    let beats = nodes
        .iter()
        .map(|&node| {
            let (client, world, all) = (client.clone(), Arc::clone(world), all.clone());
            let own = copies.get(&node).cloned().unwrap_or_default();
            tokio::spawn(async move { live(client, world, node, &own, all).await })
        })
        .collect();
    let mut read = None;
    if !founds {
        read = Some(first_read(&mut client, began).await);
    }
    let put = first_put(&mut client, world, began).await;
    for _ in &nodes {
        registered_all.recv().await.expect("every node registers");
    }
    let registered = began.elapsed();
    drop(registered_all);
    let kept = records_kept(&mut client, began).await;
    Running { coordinator, client, beats, read: read.unwrap_or_default(), put, registered, kept }
}

/// Registers, and sends heartbeats until it is to register again, as a node does.
async fn live(
    mut client: Client,
    world: Arc<World>,
    node: u32,
    own: &[BlockCopy],
    all: tokio::sync::mpsc::Sender<()>,
) {
    loop {
        register(&mut client, &world, node, own).await;
        // Whoever counts them may be gone by now.
        let _ = all.send(()).await;
        let mut is_known = true;
        while is_known {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let request = proto::HeartbeatRequest { status: Some(world.status(node)) };
            if let Ok(reply) = client.heartbeat(request).await {
                let reply = reply.into_inner();
                world.hear(node, reply.now);
                is_known = !reply.register_again;
            }
        }
    }
}

/// Again and again while the coordinator is not ready.
async fn register(client: &mut Client, world: &World, node: u32, own: &[BlockCopy]) {
    loop {
        let hello = proto::RegisterMessage { kind: Some(Kind::Hello(world.hello(node))) };
        let reference = |copy: &BlockCopy| proto::BlockRef {
            block: copy.block.to_vec(),
            generation: copy.generation,
            ..Default::default()
        };
        let parts = own.chunks(COPIES_PER_MESSAGE).map(|part| proto::BlockInventory {
            blocks: part.iter().map(reference).collect(),
            ..Default::default()
        });
        let put = world.inventory(node);
        let parts: Vec<_> = parts
            .chain([put])
            .map(|part| proto::RegisterMessage { kind: Some(Kind::Blocks(part)) })
            .collect();
        let messages = tokio_stream::iter([hello]).chain(tokio_stream::iter(parts));
        if let Ok(reply) = client.register(messages).await {
            let reply = reply.into_inner();
            world.joined(node, reply.cluster);
            world.hear(node, reply.now);
            return;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// Until a read of some object's first byte is planned.
async fn first_read(client: &mut Client, began: Instant) -> Duration {
    loop {
        let request = proto::LookupRequest {
            name: "object-000000".to_owned(),
            with_blocks: true,
            ..Default::default()
        };
        if let Ok(info) = client.lookup(request).await {
            let block = info.into_inner().blocks[0].block.clone();
            let request = proto::PlanReadRequest { block, offset: 0, length: 1, ..Default::default() };
            if client.plan_read(request).await.is_ok() {
                return began.elapsed();
            }
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn first_put(client: &mut Client, world: &World, began: Instant) -> Duration {
    while put(client, world).await.is_none() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    began.elapsed()
}

async fn put(client: &mut Client, world: &World) -> Option<()> {
    let begin = proto::BeginPutRequest {
        name: "new".to_owned(),
        block_bytes: 64,
        replicas: REPLICAS as u32,
        gathers: None,
    };
    let put = client.begin_put(begin).await.ok()?.into_inner().put;
    let bytes = support::bytes(1, 64);
    let reply = client.plan_write(write_request(&put, 0, &bytes, true)).await.ok()?.into_inner();
    let staged = world.run(reply.plan.as_ref()?, &bytes, 0).ok()?.staged;
    let digest = blake3::hash(&bytes).as_bytes().to_vec();
    let commit = proto::CommitPutRequest {
        put,
        blocks: vec![written(&staged)],
        object_bytes: 64,
        digest,
        parities: Vec::new(),
    };
    client.commit_put(commit).await.ok().map(|_| ())
}

/// Until the nodes that keep the catalog have all of it.
async fn records_kept(client: &mut Client, began: Instant) -> Duration {
    loop {
        let status = client.get_status(proto::Empty {}).await.unwrap().into_inner();
        let records = status.tasks.iter().find(|task| task.name == "records");
        if records.is_some_and(|task| task.detail.starts_with("kept by"))
            || began.elapsed() > Duration::from_secs(120)
        {
            return began.elapsed();
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
