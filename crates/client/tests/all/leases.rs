//! A put lives as long as its bytes move, and no longer than a lease after they stopped; and a grace outlives a restart.

use crate::rig::{Rig, Settings, content, eventually};
use client::PutOptions;
use std::io::Cursor;
use std::time::{Duration, Instant};

/// Much shorter than a block takes.
const LEASE_MS: u64 = 1_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_put_whose_block_takes_longer_than_the_lease_is_not_given_up() {
    let settings = Settings { put_lease_ms: LEASE_MS, block_bytes: 1 << 24, ..Settings::nodes(3) };
    let rig = Rig::with(settings).await;
    // Four seconds, in eight steps that a flow tells of.
    rig.client.throttle(1 << 22, 1 << 22).await.unwrap();
    let (bytes, began) = (content(1, 1 << 24), Instant::now());
    rig.put("a", &bytes).await.unwrap();
    assert!(began.elapsed() > Duration::from_millis(2 * LEASE_MS), "it took no longer than the lease");
    rig.client.throttle(0, 0).await.unwrap();
    assert!(rig.get("a").await.unwrap() == bytes);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_put_whose_client_is_stuck_is_given_up_after_the_lease() {
    let settings = Settings { put_lease_ms: LEASE_MS, block_bytes: 1 << 20, ..Settings::nodes(3) };
    let rig = Rig::with(settings).await;
    // So slow that nothing moves: a slice takes minutes.
    rig.client.throttle(100, 100).await.unwrap();
    let (client, input) = (rig.client.clone(), Cursor::new(content(2, 1 << 20)));
    let put = tokio::spawn(async move { client.put("a", input, PutOptions::default()).await });
    eventually("copies are planned", async || rig.status().await.in_flight > 0).await;
    eventually("the put is given up", async || rig.status().await.in_flight == 0).await;
    put.abort();
}

/// What the task says of the node: seconds until its recovery begins.
async fn left(rig: &Rig) -> Option<u64> {
    let status = rig.status().await;
    let detail = status.tasks.into_iter().find(|task| task.name == "auto-recovery").unwrap().detail;
    detail.rsplit_once(" in ")?.1.split_once(' ')?.0.parse().ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_has_passed_of_a_dead_nodes_grace_survives_a_restart_of_the_coordinator() {
    let settings = Settings { recovery_grace_ms: 500_000, ..Settings::nodes(4) };
    let mut rig = Rig::with(settings).await;
    rig.put("a", &content(3, 100)).await.unwrap();
    let victim = rig.client.lookup("a", true).await.unwrap().blocks[0].nodes[0];
    rig.lose([victim]).await;
    eventually("some of the grace has passed", async || left(&rig).await.is_some_and(|left| left < 497))
        .await;
    let before = left(&rig).await.unwrap();
    rig.stop_coordinator().await;
    let disk = rig.disk.clone();
    rig.start_coordinator(disk).await;
    let mut after = None;
    eventually("the coordinator knows who is dead", async || {
        after = left(&rig).await;
        after.is_some()
    })
    .await;
    assert!(after.is_some_and(|after| after <= before), "{after:?} s are left, {before} s were");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_came_back_is_waited_for_longer_after_a_restart_of_the_coordinator_too() {
    let settings = Settings { recovery_grace_ms: 12_000, ..Settings::nodes(4) };
    let mut rig = Rig::with(settings).await;
    rig.put("a", &content(4, 100)).await.unwrap();
    let victim = rig.client.lookup("a", true).await.unwrap().blocks[0].nodes[0];
    rig.lose([victim]).await;
    eventually("half of the grace has passed", async || left(&rig).await.is_some_and(|left| left < 5)).await;
    rig.bring_back([victim]).await;
    // Until this is noted a restart forgets it.
    tokio::time::sleep(Duration::from_secs(1)).await;
    rig.stop_coordinator().await;
    let disk = rig.disk.clone();
    rig.start_coordinator(disk).await;
    rig.all_live().await;
    rig.lose([victim]).await;
    let told = async || {
        let tasks = rig.status().await.tasks;
        tasks.into_iter().find(|task| task.name == "auto-recovery").unwrap().detail
    };
    eventually("its grace is told", async || told().await.contains("is dead")).await;
    assert!(told().await.contains("came back 1 times lately"), "{}", told().await);
    assert!(left(&rig).await.unwrap() > 12, "twice as long");
}
