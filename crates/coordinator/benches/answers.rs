//! Measures the processor time that the coordinator spends on knowing which nodes live: `cargo bench -p coordinator --bench answers [-- NODES]`.
//! The default is 1,000 empty nodes with the default call and report intervals.
//!
//! The nodes are stubs in a separate process that this one starts, so the figure covers the coordinator alone.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a measurement that cannot run should stop"
)]

#[path = "../tests/all/support/mod.rs"]
mod support;

use coordinator::Config;
use disk::{Disk, RealDisk};
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::world::World;
use wire::proto;
use wire::proto::coordinator_client::CoordinatorClient;

/// Same allocator as in the coordinator's process.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Argument that starts the stubs' process; the coordinator's address follows it.
const STUBS_OF: &str = "--stubs-of";
const NODES: u32 = 1_000;
/// `getconf CLK_TCK`; 100 on every Linux.
const TICKS_PER_S: f64 = 100.0;
/// Time from the last registration to a steady state.
const SETTLES: Duration = Duration::from_secs(10);
const LASTS: Duration = Duration::from_secs(60);
const HEARTBEAT: Duration = Duration::from_millis(coordinator::config::HEARTBEAT_MS);

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let nodes = arguments.iter().find_map(|argument| argument.parse().ok()).unwrap_or(NODES);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    match arguments.iter().position(|argument| argument == STUBS_OF) {
        Some(at) => runtime.block_on(stubs(arguments[at + 1].clone(), nodes)),
        None => runtime.block_on(measure(nodes)),
    }
    runtime.shutdown_background();
}

async fn measure(nodes: u32) {
    let folder = std::env::temp_dir().join(format!("stripeline-answers-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::create(folder.clone()).unwrap());
    let coordinator = coordinator::start(Config::new("127.0.0.1:0".parse().unwrap(), disk)).await.unwrap();
    let address = format!("http://{}", coordinator.local_addr());
    let _stubs = Stubs(
        Command::new(std::env::current_exe().unwrap())
            .args([nodes.to_string(), STUBS_OF.to_owned(), address.clone()])
            .spawn()
            .unwrap(),
    );
    let mut client = CoordinatorClient::connect(address).await.unwrap();
    let began = Instant::now();
    while living(&mut client).await < nodes as usize {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    println!("{nodes} nodes have registered after {:.1} s", began.elapsed().as_secs_f64());
    tokio::time::sleep(SETTLES).await;
    let (began, before) = (Instant::now(), processor_s());
    tokio::time::sleep(LASTS).await;
    let (took, used) = (began.elapsed().as_secs_f64(), processor_s() - before);
    let live = living(&mut client).await;
    println!("{:.2} processor seconds a minute, {live} nodes live", used / took * 60.0);
    coordinator.shutdown().await;
    std::fs::remove_dir_all(&folder).unwrap();
}

struct Stubs(Child);

impl Drop for Stubs {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn living(client: &mut support::Client) -> usize {
    let status = client.get_status(proto::Empty {}).await.unwrap().into_inner();
    status.nodes.iter().filter(|node| node.living).count()
}

/// Returns the processor seconds of this process since its start.
fn processor_s() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    fields[11..13].iter().map(|ticks| ticks.parse::<f64>().unwrap()).sum::<f64>() / TICKS_PER_S
}

/// Runs nodes that register, answer calls and send heartbeats, each over its own connection.
async fn stubs(address: String, nodes: u32) {
    let world = World::start(nodes).await;
    for node in 1..=nodes {
        let (world, address) = (Arc::clone(&world), address.clone());
        tokio::spawn(async move {
            let mut client = CoordinatorClient::connect(address).await.unwrap();
            let mut is_known = false;
            loop {
                if !is_known {
                    is_known = support::register(&mut client, &world, node).await.is_ok();
                }
                tokio::time::sleep(HEARTBEAT).await;
                let request = proto::HeartbeatRequest { status: Some(world.status(node)) };
                if let Ok(reply) = client.heartbeat(request).await {
                    is_known = !reply.into_inner().register_again;
                }
            }
        });
    }
    std::future::pending().await
}
