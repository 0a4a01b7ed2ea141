//! Files that come or go while their node runs, behind its back: real folders, real reads.

use crate::rig::{BLOCK, Rig, content, eventually};
use disk::Disk;
use model::{BlockCopy, BlockId};
use std::path::PathBuf;
use std::sync::atomic::Ordering;

/// Both files of a copy.
fn files(block: BlockId, generation: u64) -> [PathBuf; 2] {
    let folder = PathBuf::from("blocks").join(&block.to_string()[..2]);
    [folder.join(format!("{block}.{generation}")), folder.join(format!("{block}.{generation}.meta"))]
}

/// The first block of an object, and a node that has it.
async fn placed(rig: &Rig, name: &str) -> (BlockId, u32) {
    let block = rig.client.lookup(name, true).await.unwrap().blocks[0].clone();
    (BlockId::from_slice(&block.block).unwrap(), block.nodes[0])
}

/// Takes the files of a block away from a running node; the node is told nothing.
fn take_away(rig: &Rig, node: u32, block: BlockId) -> u64 {
    let copy = rig.newest(node, block).unwrap();
    let disk = &rig.machines[&node].disk;
    files(block, copy.generation).iter().for_each(|file| disk.remove(file).unwrap());
    copy.generation
}

async fn until_it_is_made_again(rig: &Rig, name: &str, copies: usize) {
    eventually("its block has all its copies", async || {
        let block = rig.client.lookup(name, true).await.unwrap().blocks[0].clone();
        let id = BlockId::from_slice(&block.block).unwrap();
        block.nodes.len() == copies && block.nodes.iter().all(|node| rig.damage(*node, id).is_none())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_scrubs_a_node_is_told_which_copies_its_disk_lacks() {
    let rig = Rig::new(4).await;
    rig.put("a", &content(1, BLOCK)).await.unwrap();
    let (block, node) = placed(&rig, "a").await;
    assert_eq!(rig.client.compare_node(node).await.unwrap().missing, []);
    let generation = take_away(&rig, node, block);
    let missing = rig.client.compare_node(node).await.unwrap().missing;
    assert_eq!(missing.len(), 1);
    assert_eq!((missing[0].block.clone(), missing[0].generation), (block.to_vec(), generation));
    until_it_is_made_again(&rig, "a", 3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_scrub_could_not_read_because_it_is_not_there_is_made_again() {
    let rig = Rig::new(4).await;
    rig.put("a", &content(2, BLOCK)).await.unwrap();
    let (block, node) = placed(&rig, "a").await;
    take_away(&rig, node, block);
    // Its scrub has ended a round, as the next heartbeat tells.
    rig.node(node).flows().scrub_rounds.fetch_add(1, Ordering::Relaxed);
    until_it_is_made_again(&rig, "a", 3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_block_that_a_read_does_not_find_is_made_again() {
    let rig = Rig::new(6).await;
    let bytes = content(3, 2 * BLOCK);
    rig.put("a", &bytes).await.unwrap();
    rig.archive("a", "rs-2+2").await.unwrap();
    rig.no_garbage().await;
    let (block, node) = placed(&rig, "a").await;
    take_away(&rig, node, block);
    assert!(rig.get("a").await.unwrap() == bytes, "from the others");
    until_it_is_made_again(&rig, "a", 1).await;
    assert!(rig.get("a").await.unwrap() == bytes);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_that_is_away_makes_no_copy_missing() {
    let rig = Rig::new(4).await;
    rig.put("a", &content(4, BLOCK)).await.unwrap();
    let (_, node) = placed(&rig, "a").await;
    rig.machines[&node].disk.starve(true);
    rig.client.compare_node(node).await.unwrap_err();
    rig.machines[&node].disk.starve(false);
    assert_eq!(rig.client.compare_node(node).await.unwrap().missing, []);
    let status = rig.status().await;
    assert_eq!((status.lost_copies, status.missing_blocks), (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sidecars_that_come_back_after_their_blocks_were_archived_go_too() {
    let rig = Rig::new(6).await;
    let bytes = content(6, 4 * BLOCK);
    rig.put("a", &bytes).await.unwrap();
    let (block, _) = placed(&rig, "a").await;
    let copies = rig.machines.iter().filter_map(|(&node, machine)| {
        let [data, sidecar] = files(block, rig.newest(node, block)?.generation);
        let file = machine.disk.open(&sidecar).unwrap();
        let mut kept = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
        file.read_exact_at(0, &mut kept).unwrap();
        Some((node, machine.disk.clone(), data, sidecar, kept))
    });
    let copies: Vec<_> = copies.collect();
    assert_eq!(copies.len(), 3);
    rig.archive("a", "rs-4+2").await.unwrap();
    rig.no_garbage().await;
    let mut returned = 0;
    for (node, disk, data, sidecar, kept) in &copies {
        if !disk.exists(data).unwrap() {
            let file = disk.create_new(sidecar).unwrap();
            file.write_at(0, kept).unwrap();
            rig.client.compare_node(*node).await.unwrap();
            returned += 1;
            eventually("it goes too", async || !disk.exists(sidecar).unwrap()).await;
        }
    }
    assert!(returned >= 2);
    assert!(rig.get("a").await.unwrap() == bytes);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn halves_that_come_back_after_their_block_was_deleted_stay_until_an_operator_names_them() {
    let rig = Rig::new(4).await;
    rig.put("a", &content(5, BLOCK)).await.unwrap();
    let (block, node) = placed(&rig, "a").await;
    let [_, sidecar] = files(block, rig.newest(node, block).unwrap().generation);
    let (disk, aside) = (rig.machines[&node].disk.clone(), PathBuf::from("aside"));
    disk.rename(&sidecar, &aside).unwrap();
    rig.client.delete("a").await.unwrap();
    rig.no_garbage().await;
    disk.rename(&aside, &sidecar).unwrap();
    let stray = files(BlockId(7), 1)[0].clone();
    disk.create_new(&stray).unwrap();
    for _ in 0..2 {
        rig.client.compare_node(node).await.unwrap();
        eventually("they are told", async || rig.status().await.unknown_copies == 2).await;
    }
    rig.no_garbage().await;
    assert!(
        disk.exists(&sidecar).unwrap() && disk.exists(&stray).unwrap(),
        "no row says that they were let go"
    );
    // Of halves only the name is known, and which half it is.
    let told = rig.client.unknown_copies(None).await.unwrap();
    let why =
        |block| told.copies.iter().find(|told| told.copy.block == block).unwrap().unread.clone().unwrap();
    assert_eq!((told.copies.len(), told.others, told.unasked.len()), (2, 0, 0), "{told:?}");
    assert!(why(block).contains("its data are not there"), "{}", why(block));
    assert!(why(BlockId(7)).contains("its sidecar is not there"), "{}", why(BlockId(7)));
    let copies: Vec<BlockCopy> = told.copies.iter().map(|told| told.copy).collect();
    assert_eq!(rig.client.let_unknown_go(&copies).await.unwrap().noted, 2);
    eventually("they go", async || !disk.exists(&sidecar).unwrap() && !disk.exists(&stray).unwrap()).await;
    eventually("nothing is unknown", async || rig.status().await.unknown_copies == 0).await;
    rig.no_garbage().await;
}
