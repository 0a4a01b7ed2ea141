//! What the death of a large store costs the coordinator, and how soon its blocks are made anew:
//! `cargo bench -p coordinator --bench death [-- BLOCKS NODES]`, by default 1,667,000 blocks of three replicas on five nodes,
//! of which each then has a million.
//!
//! Catalog and stubs are those of the bench `start`. The nodes have no bytes, so repairs fail; the first is the first order that a node gets
//! to drive one.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a measurement that cannot run should stop"
)]

mod large;
#[path = "../tests/all/support/mod.rs"]
mod support;

use disk::Disk;
use large::{BLOCKS_OF_AN_OBJECT, Copies, fill, start};
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::Client;
use support::world::World;
use wire::proto;

/// As in the coordinator's process.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Long enough to see what happens before it is over.
const GRACE_MS: u64 = 30_000;
const VICTIM: u32 = 1;
/// Nodes live for so long before one dies.
const QUIET: Duration = Duration::from_secs(30);
const TICK: Duration = Duration::from_millis(5);

fn main() {
    large::run("death", (1_667_000, 5), measure);
}

async fn measure(disk: Arc<dyn Disk>, blocks: u64, nodes: u32) {
    let world = World::start(nodes).await;
    let mut running = start(&disk, &world, &Copies::new(), true, GRACE_MS).await;
    // Nodes that are not heard while all register are taken for dead, and stubs have no bytes to repair from.
    control(&mut running.client, "pause").await;
    running.end().await;
    let copies = fill(&disk, blocks, BLOCKS_OF_AN_OBJECT, nodes);
    let mut running = start(&disk, &world, &copies, false, GRACE_MS).await;
    let (resident, began) = (resident_mib(), Instant::now());
    running.client.get_status(proto::Empty {}).await.unwrap();
    println!(
        "first status, which counts everything: {:.2} s, {} MiB of memory more",
        began.elapsed().as_secs_f64(),
        resident_mib().saturating_sub(resident)
    );
    quiet(&mut running.client.clone()).await;
    control(&mut running.client, "resume").await;
    println!("{} blocks on the node that dies; grace {} s", copies[&VICTIM].len(), GRACE_MS / 1_000);
    let mut client = running.client.clone();
    let whole = timed(&mut client).await;
    println!("health before: {:.3} s, {} short", whole.0.as_secs_f64(), whole.1.short_blocks);
    let before = world.last_change();
    world.kill(VICTIM);
    running.beats.remove(VICTIM as usize - 1).abort();
    let died = dead(&mut client).await;
    let short = timed(&mut client).await;
    println!(
        "health after: {:.3} s, {} short, margins {:?}",
        short.0.as_secs_f64(),
        short.1.short_blocks,
        short.1.objects
    );
    tokio::time::sleep_until((died + Duration::from_millis(GRACE_MS / 2)).into()).await;
    println!("changes of the catalog since: {}", world.last_change() - before);
    let ordered = world.ordered();
    let began = job(&mut client).await;
    while world.ordered() == ordered {
        tokio::time::sleep(TICK).await;
    }
    println!(
        "{:.2} s after its death its recovery begins, {:.2} s later the first repair",
        (began - died).as_secs_f64(),
        began.elapsed().as_secs_f64()
    );
    running.end().await;
}

async fn control(client: &mut Client, action: &str) {
    let (name, action) = ("healer".to_owned(), action.to_owned());
    client.control_task(proto::TaskControl { name, action, ..Default::default() }).await.unwrap();
}

/// Of this process.
fn resident_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    resident.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1_024
}

async fn timed(client: &mut Client) -> (Duration, proto::HealthReply) {
    let began = Instant::now();
    let health = client.get_health(proto::Empty {}).await.unwrap().into_inner();
    (began.elapsed(), health)
}

/// Until all nodes have lived for a while: after a start with so much to say, coordinator and stubs have too much to do, in one
/// process, to hear each other.
async fn quiet(client: &mut Client) {
    let mut since = Instant::now();
    while since.elapsed() < QUIET {
        let status = client.get_status(proto::Empty {}).await.unwrap().into_inner();
        if !status.nodes.iter().all(|node| node.living) {
            since = Instant::now();
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// When the victim is seen to be dead.
async fn dead(client: &mut Client) -> Instant {
    until(client, |status| status.nodes.iter().any(|node| node.node == VICTIM && !node.living)).await
}

/// When its recovery is there.
async fn job(client: &mut Client) -> Instant {
    until(client, |status| status.tasks.iter().any(|task| task.name.starts_with("recover-"))).await
}

async fn until(client: &mut Client, holds: impl Fn(&proto::ClusterStatus) -> bool) -> Instant {
    while !holds(&client.get_status(proto::Empty {}).await.unwrap().into_inner()) {
        tokio::time::sleep(TICK).await;
    }
    Instant::now()
}
