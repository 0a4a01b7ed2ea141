//! Nodes that cannot look lose nothing for it: neither errors nor unknown formats mean that a block is gone.

use crate::catalog::{populate, same};
use crate::rig::{BLOCK, Rig, content, eventually};
use disk::{CrashDisk, Disk};
use model::BlockId;
use node::store::StoreError;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Long enough that a node tries to register several times, and that garbage would be collected.
pub const A_WHILE: Duration = Duration::from_secs(2);

/// What each node has.
fn stored(rig: &Rig) -> BTreeMap<u32, BTreeSet<BlockId>> {
    rig.running().into_iter().map(|node| (node, rig.stored(node).into_iter().collect())).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_without_descriptors_lose_nothing_when_the_coordinator_restarts() {
    let mut rig = Rig::new(5).await;
    let objects = populate(&rig).await;
    let before = stored(&rig);
    rig.stop_coordinator().await;
    rig.machines.values().for_each(|machine| machine.disk.starve(true));
    let machines: Vec<CrashDisk> = rig.machines.values().map(|machine| machine.disk.clone()).collect();
    let relief = tokio::spawn(async move {
        tokio::time::sleep(A_WHILE).await;
        machines.iter().for_each(|disk| disk.starve(false));
    });
    // Returns when all live: none does before it can list its blocks.
    rig.start_coordinator(rig.disk.clone()).await;
    assert!(relief.is_finished(), "a node was taken in without its inventory");
    tokio::time::sleep(A_WHILE).await;
    rig.no_garbage().await;
    assert_eq!(stored(&rig), before);
    assert_eq!(rig.status().await.missing_blocks, 0);
    same(&rig, &objects).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sidecars_of_another_version_for_one_start_cost_nothing() {
    let mut rig = Rig::new(5).await;
    let objects = populate(&rig).await;
    let before = stored(&rig);
    let nodes = rig.running();
    nodes.iter().for_each(|&node| rig.kill(node));
    for &node in &nodes {
        flip_versions(&rig.machines[&node].disk);
    }
    // Copies that cannot be judged keep no node from starting, are not absent, and not damaged.
    rig.bring_back(nodes.clone()).await;
    for (&node, blocks) in &before {
        let block = *blocks.first().unwrap();
        let copy = rig.newest(node, block).unwrap();
        let read = rig.node(node).flows().store.reader(block, copy.generation);
        assert!(matches!(read, Err(StoreError::UnknownVersion { .. })), "{read:?}");
    }
    // Copies of an unknown version are still read where the catalog's digest and fingerprint prove their content.
    same(&rig, &objects).await;
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(stored(&rig), before);
    assert!(rig.running().iter().all(|&node| rig.node(node).flows().suspects.corrupt().is_empty()));
    nodes.iter().for_each(|&node| rig.kill(node));
    nodes.iter().for_each(|node| flip_versions(&rig.machines[node].disk));
    rig.bring_back(nodes).await;
    tokio::time::sleep(A_WHILE).await;
    rig.no_garbage().await;
    assert_eq!(stored(&rig), before);
    same(&rig, &objects).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_that_were_moved_away_for_one_start_are_copies_again() {
    let mut rig = Rig::new(5).await;
    let objects = populate(&rig).await;
    let before = stored(&rig);
    let (&node, _) = before.iter().max_by_key(|(_, blocks)| blocks.len()).unwrap();
    // Or others would be made in their place, and they would come back superfluous.
    rig.control_task("healer", "pause").await;
    rig.lose([node]).await;
    let disk = rig.machines[&node].disk.clone();
    let moved: Vec<PathBuf> = sidecars(&disk).into_iter().take(2).collect();
    let aside = |path: &PathBuf| PathBuf::from(path.file_name().unwrap());
    moved.iter().for_each(|path| disk.rename(path, &aside(path)).unwrap());
    rig.bring_back([node]).await;
    eventually("half blocks are told", async || {
        let told = rig.status().await.nodes.into_iter().find(|n| n.node == node);
        told.and_then(|n| n.status).is_some_and(|status| status.half_blocks == 2)
    })
    .await;
    tokio::time::sleep(A_WHILE).await;

    rig.lose([node]).await;
    moved.iter().for_each(|path| disk.rename(&aside(path), path).unwrap());
    rig.bring_back([node]).await;
    tokio::time::sleep(A_WHILE).await;
    rig.no_garbage().await;
    assert_eq!(stored(&rig), before, "taken back, for their blocks lacked them");
    rig.control_task("healer", "resume").await;
    let status = rig.status().await;
    assert_eq!((status.lost_copies, status.missing_blocks), (0, 0));
    same(&rig, &objects).await;
}

fn sidecars(disk: &CrashDisk) -> Vec<PathBuf> {
    let folders = disk.list(Path::new("blocks")).unwrap();
    let files = folders.into_iter().flat_map(|folder| {
        let folder = Path::new("blocks").join(folder.name);
        disk.list(&folder).unwrap().into_iter().map(move |file| folder.join(file.name))
    });
    files.filter(|path| path.extension().is_some_and(|extension| extension == "meta")).collect()
}

/// The version's low byte; twice is as before.
pub fn flip_versions(disk: &CrashDisk) {
    sidecars(disk).iter().for_each(|path| disk.damage(path, |bytes| bytes[8] ^= 0x40).unwrap());
}

/// A node that does not vouch for a copy is asked to read it once in so many seconds.
const LOOKS_EVERY_SECS: u64 = 10;

/// An archived object whose replicas have to wait for the members of its stripe: the collector is paused. With one of these,
/// and its node.
async fn replicas_wait(rig: &Rig, bytes: &[u8]) -> (BlockId, u32) {
    rig.control_task("gc", "pause").await;
    rig.put("a", bytes).await.unwrap();
    rig.archive("a", "rs-2+2").await.unwrap();
    assert!(rig.status().await.garbage >= 4);
    let stripe = rig.client.lookup("a", true).await.unwrap().blocks[0].stripe.clone().unwrap();
    let parity = &stripe.members[3];
    (BlockId::from_slice(&parity.block).unwrap(), parity.node)
}

/// The files of the newest copy of a block, data first.
pub fn files(rig: &Rig, node: u32, block: BlockId) -> [PathBuf; 2] {
    let file = rig.newest(node, block).unwrap().to_string();
    [file.clone(), file + ".meta"].map(|file| Path::new("blocks").join(&block.to_string()[..2]).join(file))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_its_node_does_not_vouch_for_is_looked_at_and_made_again_and_replicas_go() {
    for is_cut_short in [true, false] {
        let rig = Rig::new(6).await;
        let bytes = content(6, 2 * BLOCK);
        let (parity, node) = replicas_wait(&rig, &bytes).await;
        let [data, sidecar] = files(&rig, node, parity);
        if is_cut_short {
            rig.machines[&node].disk.damage(&data, |bytes| bytes.truncate(40_000)).unwrap();
        } else {
            rig.machines[&node].disk.remove(&sidecar).unwrap();
        }
        rig.control_task("gc", "resume").await;
        rig.no_garbage().await;
        let stripe = rig.client.lookup("a", true).await.unwrap().blocks[0].stripe.clone().unwrap();
        assert_eq!(rig.damage(stripe.members[3].node, parity), None);
        assert!(rig.get("a").await.unwrap() == bytes);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_its_node_cannot_read_is_looked_at_now_and_then_and_is_neither_damaged_nor_missing() {
    let rig = Rig::new(6).await;
    let bytes = content(7, 2 * BLOCK);
    let (parity, node) = replicas_wait(&rig, &bytes).await;
    let task = async |name: &str| rig.status().await.tasks.into_iter().find(|t| t.name == name).unwrap();
    rig.machines[&node].disk.starve(true);
    let began = Instant::now();
    rig.control_task("gc", "resume").await;
    eventually("it is asked to look", async || task("looks").await.done > 0).await;
    eventually("its names are compared in vain", async || task("compare").await.errors > 0).await;
    tokio::time::sleep(A_WHILE).await;
    let most = 1 + began.elapsed().as_secs() / LOOKS_EVERY_SECS;
    assert!(task("looks").await.done <= most, "once for each copy, however often the collector asks");
    let status = rig.status().await;
    assert_eq!((status.lost_copies, status.damaged_copies), (0, 0), "it is unread, and neither of these");
    let waits = task("gc").await.detail;
    assert!(status.garbage >= 4 && waits.contains("a member of their stripes was not seen"), "{waits}");
    rig.machines[&node].disk.starve(false);
    rig.no_garbage().await;
    assert_eq!(rig.damage(node, parity), None, "it is the same copy");
}
