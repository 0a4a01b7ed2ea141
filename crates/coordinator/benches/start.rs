//! How soon a coordinator with many blocks serves after its start, and how soon all of its nodes are compared:
//! `cargo bench -p coordinator --bench start [-- BLOCKS NODES]`, by default 1,000,000 blocks of three replicas on 100 nodes.
//!
//! The catalog is a real one on a real disk (`TMPDIR` says which). The nodes are stubs that answer over sockets: each lists its
//! copies by name when it registers, and keeps what it is sent of the catalog. Bytes of blocks there are none, so a read ends
//! with its plan; a put writes its block to the stubs' memory and is committed. Three starts; times are from the call that
//! starts the coordinator.

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
use large::{BLOCKS_OF_AN_OBJECT, Copies, REPLICAS, fill, start};
use std::sync::Arc;
use std::time::Instant;
use support::world::World;

/// As in the coordinator's process.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const STARTS: usize = 3;
/// No node dies.
const GRACE_MS: u64 = 900_000;

fn main() {
    large::run("start", (1_000_000, 100), measure);
}

async fn measure(disk: Arc<dyn Disk>, blocks: u64, nodes: u32) {
    let world = World::start(nodes).await;
    // Once with nothing in it, so that the nodes are known and belong to the cluster.
    start(&disk, &world, &Copies::new(), true, GRACE_MS).await.end().await;
    let began = Instant::now();
    let copies = fill(&disk, blocks, BLOCKS_OF_AN_OBJECT, nodes);
    println!(
        "{blocks} blocks, {REPLICAS} replicas each, {nodes} nodes; the catalog was filled in {:.0?}",
        began.elapsed()
    );
    println!(
        "{:<12}{:>12}{:>12}{:>16}{:>16}",
        "start", "first read", "first put", "all registered", "records kept"
    );
    for number in 1..=STARTS {
        let running = start(&disk, &world, &copies, false, GRACE_MS).await;
        let seconds = [running.read, running.put, running.registered, running.kept];
        let [read, put, registered, kept] = seconds.map(|time| format!("{:.2} s", time.as_secs_f64()));
        println!("{number:<12}{read:>12}{put:>12}{registered:>16}{kept:>16}");
        running.end().await;
    }
}
