//! How many small objects a second a cluster takes from many clients, beside the same number of files written and synced bare on
//! the same disk: `cargo bench -p client --bench puts` (`TMPDIR` says which disk).
//!
//! Coordinator, six nodes and clients are those of the product, in one process, over sockets of the loopback. An object has 4 KiB in
//! three replicas, each of which is two files, data and sidecar. Bare, each writer creates six files of 4 KiB, and syncs each. With the policy
//! `ear` each object also joins an open stripe, which the catalog notes.

#![allow(clippy::unwrap_used, reason = "a measurement that cannot run should stop")]

use client::{Client, Gather, PutOptions};
use disk::RealDisk;
use model::NodeId;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const BYTES: usize = 4_096;
/// Enough for a stripe of [`CODE`], one in each rack.
const NODES: u32 = 6;
const CODE: &str = "rs-4+2";
/// Data and sidecar of each replica.
const FILES: usize = 2 * 3;
const CLIENTS: [usize; 3] = [1, 8, 64];
/// Each measurement goes on for so long …
const LASTS: Duration = Duration::from_secs(3);
/// … and is made so often, in turn with the other; the best of each counts.
const ROUNDS: usize = 3;

fn main() {
    let folder = std::env::temp_dir().join(format!("stripeline-puts-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let cluster = Cluster::start(&folder).await;
        println!("clients    puts/s  median ms    bare puts/s  puts over bare    ear puts/s  median ms  ear over none");
        for clients in CLIENTS {
            let (mut best, mut ear, mut bare) = ((0.0, 0.0), (0.0, 0.0), 0.0_f64);
            for round in 0..ROUNDS {
                for (policy, best) in [("none", &mut best), ("ear", &mut ear)] {
                    let puts = cluster.puts(clients, policy, round).await;
                    *best = if puts.0 > best.0 { puts } else { *best };
                }
                let at = folder.clone();
                let files = tokio::task::spawn_blocking(move || files(&at, clients)).await.unwrap();
                bare = bare.max(files);
            }
            let ((puts, median), (ear, ear_median)) = (best, ear);
            let (over_bare, over_none) = (puts / bare, ear / puts);
            println!(
                "{clients:7} {puts:9.0} {median:10.2} {bare:14.0} {over_bare:15.2} {ear:13.0} {ear_median:10.2} {over_none:14.2}"
            );
        }
    });
    runtime.shutdown_background();
    std::fs::remove_dir_all(&folder).unwrap();
}

struct Cluster {
    address: String,
    _coordinator: coordinator::Coordinator,
    _nodes: Vec<node::Node>,
}

impl Cluster {
    async fn start(folder: &Path) -> Cluster {
        let disk = |name: String| {
            let at = folder.join(name);
            std::fs::create_dir_all(&at).unwrap();
            Arc::new(RealDisk::open(&at).unwrap())
        };
        let config = coordinator::Config::new("127.0.0.1:0".parse().unwrap(), disk("catalog".to_owned()));
        let coordinator = coordinator::start(config).await.unwrap();
        let address = coordinator.local_addr().to_string();
        let mut nodes = Vec::new();
        for number in 1..=NODES {
            let mut config =
                node::Config::new(NodeId(number), address.clone(), disk(format!("node-{number}")));
            config.rack = format!("rack-{number}");
            nodes.push(node::start(config).await.unwrap());
        }
        let client = Client::connect(&address).await.unwrap();
        while client.status().await.unwrap().nodes.iter().filter(|node| node.living).count() < NODES as usize
        {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Cluster { address, _coordinator: coordinator, _nodes: nodes }
    }

    /// Puts a second, and the median of what one takes, in milliseconds.
    async fn puts(&self, clients: usize, policy: &'static str, round: usize) -> (f64, f64) {
        let mut putting = tokio::task::JoinSet::new();
        let began = Instant::now();
        for id in 0..clients {
            let client = Client::connect(&self.address).await.unwrap();
            putting.spawn(async move {
                let mut took = Vec::new();
                while began.elapsed() < LASTS {
                    let name = format!("{policy}/{clients}/{round}/{id}/{}", took.len());
                    let content = std::io::Cursor::new(vec![id as u8; BYTES]);
                    let (start, options) = (Instant::now(), options(policy));
                    client.put(&name, content, options).await.unwrap();
                    took.push(start.elapsed());
                }
                took
            });
        }
        let mut took = Vec::new();
        while let Some(of_one) = putting.join_next().await {
            took.extend(of_one.unwrap());
        }
        let rate = took.len() as f64 / began.elapsed().as_secs_f64();
        took.sort_unstable();
        (rate, took[took.len() / 2].as_secs_f64() * 1_000.0)
    }
}

fn options(policy: &str) -> PutOptions {
    let gather = || Gather {
        policy: policy.to_owned(),
        code: CODE.to_owned(),
        rack_capacity: 1,
        target_racks: 0,
        spread: "two-racks".to_owned(),
    };
    PutOptions { gathers: (policy != "none").then(gather), ..PutOptions::default() }
}

/// Times a second that as many files are written and synced as a put has.
fn files(folder: &Path, writers: usize) -> f64 {
    let (done, began) = (AtomicU64::new(0), Instant::now());
    std::thread::scope(|scope| {
        for writer in 0..writers {
            let done = &done;
            scope.spawn(move || {
                while began.elapsed() < LASTS {
                    for file in 0..FILES {
                        let path = folder.join(format!("bare-{writer}-{file}"));
                        let mut file = File::create(&path).unwrap();
                        file.write_all(&[0; BYTES]).unwrap();
                        file.sync_all().unwrap();
                        std::fs::remove_file(&path).unwrap();
                    }
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    done.load(Ordering::Relaxed) as f64 / began.elapsed().as_secs_f64()
}
