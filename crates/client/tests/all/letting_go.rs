//! Nodes that cannot look lose nothing for it: neither errors nor unknown formats mean that a block is gone.

use crate::catalog::{populate, same};
use crate::rig::{Rig, eventually};
use disk::{CrashDisk, Disk};
use model::BlockId;
use node::store::StoreError;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Long enough that a node tries to register several times, and that garbage would be collected.
const A_WHILE: Duration = Duration::from_secs(2);

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
    let refused = rig.get("replicated").await;
    assert!(refused.is_err(), "nobody guesses what an unknown version says");
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
    rig.control_task("repair-damaged", "pause").await;
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
    rig.control_task("repair-damaged", "resume").await;
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
fn flip_versions(disk: &CrashDisk) {
    sidecars(disk).iter().for_each(|path| disk.damage(path, |bytes| bytes[8] ^= 0x40).unwrap());
}
