//! Nodes that are gone for good, by an operator's word.

use crate::catalog::{populate, same};
use crate::rig::{BLOCK, PATIENCE, Rig, Settings, content, eventually};
use client::ClientError;
use disk::CrashDisk;
use model::NodeId;
use std::collections::BTreeSet;
use std::sync::Arc;
use wire::proto::ForgetNodeReply;

/// Asks until it is over.
async fn forget(rig: &Rig, node: u32, accept_loss: bool) -> ForgetNodeReply {
    let mut last = ForgetNodeReply::default();
    eventually("the node is forgotten", async || {
        last = rig.client.forget_node(NodeId(node), accept_loss).await.unwrap();
        last.over
    })
    .await;
    last
}

/// Nodes that the coordinator knows.
async fn known(rig: &Rig) -> Vec<u32> {
    rig.status().await.nodes.iter().map(|node| node.node).collect()
}

/// Why the coordinator refuses a node with this disk.
async fn refusal(rig: &Rig, node: u32, disk: &CrashDisk) -> String {
    let config = node::Config::new(NodeId(node), rig.address().to_string(), Arc::new(disk.clone()));
    let mut refused = node::start(config).await.unwrap();
    let why = tokio::time::timeout(PATIENCE, refused.refused()).await.unwrap().to_string();
    refused.shutdown().await;
    why
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_forgotten_node_had_is_made_again_and_its_store_is_refused() {
    let mut rig = Rig::new(7).await;
    let objects = populate(&rig).await;
    let alive = rig.client.forget_node(NodeId(3), true).await.unwrap_err();
    assert!(matches!(&alive, ClientError::Refused(why) if why.contains("node-3 is alive")), "{alive}");
    let nobody = rig.client.forget_node(NodeId(77), true).await.unwrap_err();
    assert!(matches!(nobody, ClientError::NotFound(_)), "{nobody}");

    rig.lose([3]).await;
    // Its superfluous copies cannot go.
    rig.client.delete("replicated").await.unwrap();
    let old = rig.machines[&3].disk.clone();
    let reply = forget(&rig, 3, false).await;
    assert_eq!((reply.lost_blocks, reply.lost_objects, reply.lost_names.len()), (0, 0, 0), "{reply:?}");
    assert_eq!(known(&rig).await, [1, 2, 4, 5, 6, 7]);
    rig.no_garbage().await;
    let status = rig.status().await;
    assert_eq!((status.missing_blocks, status.unrecoverable_blocks), (0, 0));
    let objects = objects.into_iter().filter(|(name, _)| *name != "replicated").collect();
    same(&rig, &objects).await;
    for block in rig.client.lookup("one", true).await.unwrap().blocks {
        assert_eq!(block.nodes.len(), 3, "it was made again before its copy was dropped");
    }
    let found = rig.client.recover_catalog(&[], &[]).await.unwrap();
    assert!(found.away.is_empty(), "nobody is asked for any more: {found:?}");

    let why = refusal(&rig, 3, &old).await;
    assert!(why.contains("given up for good") && why.contains("empty folder"), "{why}");
    assert_eq!(forget(&rig, 3, false).await, reply, "it is told again");
    // Its number is another store's.
    rig.machines.get_mut(&3).unwrap().disk = CrashDisk::new(&rig.power);
    rig.bring_back([3]).await;
    assert_eq!(known(&rig).await, [1, 2, 3, 4, 5, 6, 7]);
    let why = refusal(&rig, 3, &old).await;
    assert!(why.contains("given up for good"), "{why}");
    same(&rig, &objects).await;
    assert_eq!(rig.damages(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_only_a_dead_node_may_have_is_given_up_on_an_operators_word_alone() {
    let mut rig = Rig::new(6).await;
    let bytes = content(1, BLOCK);
    rig.put("a", &bytes).await.unwrap();
    let nodes = rig.client.lookup("a", true).await.unwrap().blocks[0].nodes.clone();
    rig.lose(nodes.clone()).await;
    let refused = rig.client.forget_node(NodeId(nodes[0]), false).await.unwrap_err();
    let ClientError::Refused(why) = refused else { panic!("{refused}") };
    assert!(why.contains("1 blocks of 1 object ('a')") && why.contains("--accept-loss"), "{why}");
    assert_eq!(known(&rig).await.len(), 6, "nothing has happened");

    let reply = forget(&rig, nodes[0], true).await;
    let said = (reply.dropped, reply.short_blocks, reply.lost_blocks, reply.lost_objects);
    assert_eq!((said, &reply.lost_names[..]), ((1, 1, 1, 1), &["a".to_owned()][..]));
    assert!(rig.get("a").await.is_err());
    let status = rig.status().await;
    assert_eq!((status.objects, status.unrecoverable_blocks), (1, 1), "it stays listed");
    // Others that are away bring it back, and its third copy is made elsewhere.
    rig.bring_back(nodes[1..].to_vec()).await;
    assert_eq!(rig.get("a").await.unwrap(), bytes);
    eventually("the block has three copies again", async || {
        let block = rig.client.lookup("a", true).await.unwrap().blocks.remove(0);
        block.nodes.len() == 3 && !block.nodes.contains(&nodes[0])
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocks_that_no_node_had_room_for_are_made_again_when_one_comes() {
    let mut rig = Rig::new(3).await;
    rig.put("a", &content(1, 3 * BLOCK)).await.unwrap();
    rig.lose([3]).await;
    let reply = forget(&rig, 3, false).await;
    assert_eq!((reply.dropped, reply.short_blocks, reply.lost_blocks), (3, 3, 0));
    rig.machines.get_mut(&3).unwrap().disk = CrashDisk::new(&rig.power);
    rig.bring_back([3]).await;
    eventually("all blocks have three copies again", async || {
        let info = rig.client.lookup("a", true).await.unwrap();
        info.blocks.iter().all(|block| block.nodes == [1, 2, 3])
    })
    .await;
    assert_eq!(rig.damages(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forgetting_goes_on_after_the_coordinator_restarts() {
    let mut rig = Rig::new(5).await;
    let objects = populate(&rig).await;
    rig.control_task("forget", "pause").await;
    rig.lose([2]).await;
    let begun = rig.client.forget_node(NodeId(2), false).await.unwrap();
    assert!(!begun.over, "{begun:?}");
    let forgotten = async |rig: &Rig| {
        let nodes = rig.status().await.nodes;
        nodes.iter().filter(|node| node.forgotten).map(|node| node.node).collect::<Vec<_>>()
    };
    assert_eq!(forgotten(&rig).await, [2]);
    rig.stop_coordinator().await;
    rig.start_coordinator(rig.disk.clone()).await;
    assert_eq!(forgotten(&rig).await, [2]);
    // It is refused from its first mention on, and so is another store under its number until that is over.
    let why = refusal(&rig, 2, &rig.machines[&2].disk.clone()).await;
    assert!(why.contains("given up for good"), "{why}");
    let why = refusal(&rig, 2, &CrashDisk::new(&rig.power)).await;
    assert!(why.contains("is being forgotten"), "{why}");
    rig.control_task("forget", "resume").await;
    eventually("it is forgotten", async || !known(&rig).await.contains(&2)).await;
    same(&rig, &objects).await;
    assert_eq!(rig.status().await.missing_blocks, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn safe_mode_does_not_wait_for_keepers_of_the_records_that_are_gone() {
    let mut rig = Rig::with(Settings { replicas: 3, ..Settings::nodes(5) }).await;
    rig.put("a", &content(1, BLOCK)).await.unwrap();
    let keeps = |rig: &Rig| {
        let keeps = |node: &u32| rig.node(*node).flows().store.held().is_some();
        rig.running().into_iter().filter(keeps).collect::<BTreeSet<u32>>()
    };
    eventually("three nodes keep the records", async || keeps(&rig).len() == 3).await;
    rig.stop_coordinator().await;
    let gone: Vec<u32> = keeps(&rig).into_iter().take(2).collect();
    gone.iter().for_each(|&node| rig.kill(node));
    rig.start_coordinator(rig.disk.clone()).await;
    // It is asked once it has registered.
    eventually("the one that is left has answered", async || {
        rig.status().await.safe_mode.contains("1 have answered")
    })
    .await;
    for node in gone {
        forget(&rig, node, false).await;
    }
    eventually("the doubt is over", async || rig.status().await.safe_mode.is_empty()).await;
    assert_eq!(rig.get("a").await.unwrap(), content(1, BLOCK));
}
