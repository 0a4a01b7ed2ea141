//! How long a listing of many objects takes: `cargo bench -p coordinator --bench listing [-- OBJECTS NODES]`, by default 100,000
//! of one block each, beside reading the same rows from the catalog and nothing else.
//!
//! The catalog and its stubs are those of the bench `start`; the list comes over a socket, as `stripeline ls` asks for it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a measurement that cannot run should stop"
)]

mod large;
#[path = "../tests/all/support/mod.rs"]
mod support;

use catalog::Catalog;
use disk::Disk;
use large::{Copies, fill, start};
use model::ClusterId;
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::Client;
use support::world::World;
use wire::proto;

/// As in the coordinator's process.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ROUNDS: usize = 5;
/// No node dies.
const GRACE_MS: u64 = 900_000;

fn main() {
    large::run("listing", (100_000, 5), measure);
}

async fn measure(disk: Arc<dyn Disk>, objects: u64, nodes: u32) {
    let world = World::start(nodes).await;
    start(&disk, &world, &Copies::new(), true, GRACE_MS).await.end().await;
    let copies = fill(&disk, objects, 1, nodes);
    let bare = (0..ROUNDS).map(|_| rows(&disk, objects)).min().unwrap();
    let mut running = start(&disk, &world, &copies, false, GRACE_MS).await;
    let mut listed = Vec::new();
    for _ in 0..ROUNDS {
        listed.push(list(&mut running.client, objects).await);
    }
    running.end().await;
    listed.sort_unstable();
    let (least, median) = (listed[0], listed[ROUNDS / 2]);
    println!(
        "{objects} objects listed in {:.2} s (median of {ROUNDS}; least {:.2} s); their rows read from the catalog alone in {:.2} s",
        median.as_secs_f64(),
        least.as_secs_f64(),
        bare.as_secs_f64()
    );
}

async fn list(client: &mut Client, objects: u64) -> Duration {
    let began = Instant::now();
    let mut listed = client.list_objects(proto::ListObjectsRequest::default()).await.unwrap().into_inner();
    let mut count = 0;
    while listed.message().await.unwrap().is_some() {
        count += 1;
    }
    // One more was put by the start.
    assert!(count >= objects, "{count}");
    began.elapsed()
}

fn rows(disk: &Arc<dyn Disk>, objects: u64) -> Duration {
    let catalog = Catalog::open(disk, ClusterId(1)).unwrap();
    let began = Instant::now();
    let (mut count, mut after) = (0, None);
    loop {
        let names: Vec<String> = catalog.list_objects("", after.as_deref(), 1_000).unwrap();
        let Some(last) = names.last().cloned() else { break };
        let found: Vec<_> = names.iter().map(|name| catalog.object(name).unwrap()).collect();
        count += found.len() as u64;
        after = Some(last);
    }
    assert!(count >= objects, "{count}");
    let took = began.elapsed();
    catalog.close();
    took
}
