//! Unread copies do not count, and nothing is deleted because of them.

use crate::support::world::World;
use crate::support::{BLOCK_BYTES, Cluster, Settings, bytes};
use std::sync::Arc;
use std::time::Duration;
use wire::proto;

const HASTY: Settings = Settings { dead_after_ms: 600, garbage_grace_ms: 50, put_lease_ms: 60_000 };

async fn health(cluster: &mut Cluster) -> proto::HealthReply {
    cluster.client.get_health(proto::Empty {}).await.unwrap().into_inner()
}

/// Returns node and block of each member of an object's stripe.
async fn members(cluster: &mut Cluster, name: &str) -> Vec<(u32, Vec<u8>)> {
    let object = cluster.lookup(name).await.unwrap();
    let stripe = object.blocks[0].stripe.clone().unwrap();
    stripe.members.into_iter().map(|member| (member.node, member.block)).collect()
}

async fn archived(cluster: &mut Cluster) -> Vec<u8> {
    let content = bytes(1, 4 * BLOCK_BYTES as usize);
    cluster.put("object", &content).await.unwrap();
    cluster.archive("object", "rs-4+2").await.unwrap();
    cluster.until("garbage goes", async |c| c.status().await.garbage == 0).await;
    content
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_read_is_told_at_once_and_comes_back_with_the_next_good_reading() {
    // The grace of nodes exceeds the test's duration.
    let mut cluster = Cluster::waiting(7, HASTY, 600_000).await;
    let content = archived(&mut cluster).await;
    // Healing is paused; margins stay true.
    cluster.control("healer", "pause").await.unwrap();
    let members = members(&mut cluster, "object").await;
    for (node, block) in &members[..3] {
        cluster.world.set_unread(*node, block, true);
    }
    cluster.until("it is told", async |c| health(c).await.unread_copies == 3).await;
    let told = health(&mut cluster).await;
    assert_eq!((told.unreadable_objects, told.broken_stripes, told.unread.len()), (1, 1, 3), "{told:?}");
    assert!(told.unread.iter().all(|of| of.why == "a permission" && of.grace_left_ms > 300_000), "{told:?}");
    assert_eq!(cluster.world.copies().len(), 6, "nothing is deleted for it");

    // With one copy back the object can be read, but survives no further loss.
    cluster.world.set_unread(members[0].0, &members[0].1, false);
    cluster.until("it is readable", async |c| health(c).await.unreadable_objects == 0).await;
    assert_eq!(cluster.get("object").await.unwrap().0, content);
    for (node, block) in &members[..3] {
        cluster.world.set_unread(*node, block, false);
    }
    cluster.until("all is well", async |c| health(c).await.short_blocks == 0).await;
    let well = health(&mut cluster).await;
    assert_eq!((well.unread_copies, well.unread.len()), (0, 0));
    assert_eq!(cluster.world.copies().len(), 6, "nothing was made anew");
}

#[tokio::test(flavor = "multi_thread")]
async fn after_their_grace_others_are_made_and_before_it_those_that_survive_no_further_loss() {
    // A block that survives no further loss waits for a fifteenth of the nodes' grace: 0.4 s.
    let mut cluster = Cluster::waiting(9, HASTY, 6_000).await;
    let content = archived(&mut cluster).await;
    let members = members(&mut cluster, "object").await;
    let hide = |cluster: &Cluster, index: usize| {
        let (node, block) = &members[index];
        cluster.world.set_unread(*node, block, true);
    };
    hide(&cluster, 0);
    cluster.until("it is told", async |c| health(c).await.unread_copies == 1).await;
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert_eq!(health(&mut cluster).await.unread_copies, 1, "one more loss is survived: it is waited for");
    hide(&cluster, 1);
    cluster.until("both are made again", async |c| health(c).await.short_blocks == 0).await;
    cluster.until("the unread ones are superfluous", async |c| health(c).await.unread_copies == 0).await;
    let now = self::members(&mut cluster, "object").await;
    assert!(now[0].0 != members[0].0 && now[1].0 != members[1].0, "{now:?}");
    assert_eq!(cluster.get("object").await.unwrap().0, content);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_that_cannot_be_read_takes_its_replicas_out_of_the_count_and_out_of_no_row() {
    let mut cluster = Cluster::waiting(5, HASTY, 3_000).await;
    let content = bytes(3, 500);
    cluster.put("object", &content).await.unwrap();
    let block = cluster.lookup("object").await.unwrap().blocks[0].clone();
    let (node, folder) = (block.nodes[0], block.block[0]);
    cluster.world.set_unread_folder(node, folder, true);
    cluster.until("it is told", async |c| health(c).await.unread_copies == 1).await;
    assert_eq!(cluster.lookup("object").await.unwrap().blocks[0].nodes.len(), 3, "it is still there");
    assert_eq!(health(&mut cluster).await.objects, [proto::MarginCount { losses: 1, count: 1 }]);
    cluster.until("another is made", async |c| health(c).await.short_blocks == 0).await;
    assert_eq!(cluster.lookup("object").await.unwrap().blocks[0].nodes.len(), 4, "none is let go for it");
    cluster.world.set_unread_folder(node, folder, false);
    cluster.until("it is read", async |c| health(c).await.unread_copies == 0).await;
    assert_eq!(cluster.get("object").await.unwrap().0, content);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_copy_of_a_damaged_one_is_made_on_another_node_if_there_is_one() {
    let mut cluster = Cluster::new(8, HASTY).await;
    let content = archived(&mut cluster).await;
    let before = members(&mut cluster, "object").await;
    for (node, block) in &before[..2] {
        cluster.world.corrupt(*node, block);
    }
    cluster
        .until("they are made again elsewhere", async |c| {
            let now = members(c, "object").await;
            (0..2).all(|index| now[index].0 != before[index].0)
        })
        .await;
    assert_eq!(cluster.get("object").await.unwrap().0, content);
}

/// A passing disk fault condemned the copies; then their nodes read them again.
#[tokio::test(flavor = "multi_thread")]
async fn condemned_copies_that_are_whole_again_are_counted_on_again_without_a_restart() {
    let mut cluster = Cluster::new(6, HASTY).await;
    let content = archived(&mut cluster).await;
    let members = members(&mut cluster, "object").await;
    cluster.control("healer", "pause").await.unwrap();
    for (node, block) in &members[..3] {
        cluster.world.corrupt(*node, block);
    }
    cluster.until("it is unreadable", async |c| health(c).await.unreadable_objects == 1).await;
    for (node, block) in &members[..3] {
        cluster.world.clear(*node, block);
    }
    cluster.until("it is well", async |c| health(c).await.short_blocks == 0).await;
    assert_eq!(cluster.get("object").await.unwrap().0, content);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_whose_disk_failed_is_told_of_in_one_way_and_can_be_given_up() {
    let world = World::start(7).await;
    let mut cluster = Cluster::with(Arc::clone(&world), HASTY).await.unwrap();
    archived(&mut cluster).await;
    let ill = members(&mut cluster, "object").await[0].0;
    let control_addr = world.hello(ill).control_addr;
    cluster.hush(ill);
    let ailment = "an error of the disk".to_owned();
    cluster.client.goodbye(proto::GoodbyeRequest { node: ill, control_addr, ailment }).await.unwrap();
    let node = async |c: &mut Cluster| c.status().await.nodes.into_iter().find(|n| n.node == ill);
    let told = node(&mut cluster).await.unwrap();
    assert_eq!((told.state.as_str(), told.state_text.as_str()), ("failed", "left: its disk failed"));
    let order = proto::RepairRequest { node: ill, decommission: true, ..Default::default() };
    let refused = cluster.repair(order).await.unwrap_err();
    assert!(refused.message().contains("its disk failed (an error of the disk)"), "{refused:?}");
    cluster
        .until("tasks say the same", async |c| {
            c.status()
                .await
                .tasks
                .iter()
                .any(|task| task.detail.contains(&format!("node-{ill} is gone: its disk failed")))
        })
        .await;
    // The node's process still answers for its other disks.
    let forget = proto::ForgetNodeRequest { node: ill, accept_loss: false };
    cluster
        .until("it is given up", async |c| c.client.forget_node(forget).await.unwrap().get_ref().over)
        .await;
    assert_eq!(node(&mut cluster).await, None);
}
