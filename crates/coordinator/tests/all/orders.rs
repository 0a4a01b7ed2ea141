//! An operator's order stands until it is done or withdrawn.

use crate::support::world::World;
use crate::support::{BLOCK_BYTES, Client, Cluster, Settings, bytes};
use std::sync::Arc;
use tonic::Status;
use wire::proto;

const HASTY: Settings = Settings { dead_after_ms: 600, garbage_grace_ms: 50, put_lease_ms: 60_000 };

async fn leave(cluster: &mut Cluster, node: u32) -> Result<String, Status> {
    let request = proto::RepairRequest { node, decommission: true, ..Default::default() };
    let events = cluster.repair(request).await?;
    Ok(events.last().map(|event| event.message.clone()).unwrap_or_default())
}

async fn state(cluster: &mut Cluster, node: u32) -> (String, String, u64) {
    let status = cluster.status().await;
    let node = status.nodes.into_iter().find(|info| info.node == node).unwrap();
    (node.state, node.state_text, node.blocks_left)
}

async fn stuck(cluster: &mut Cluster) -> Vec<proto::StuckOrder> {
    cluster.client.get_health(proto::Empty {}).await.unwrap().into_inner().stuck
}

fn held(world: &Arc<World>, node: u32) -> usize {
    world.copies().iter().filter(|(at, _)| *at == node).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_nodes_that_leave_at_once_wait_for_each_other_and_hold_nothing_in_the_end() {
    let mut cluster = Cluster::new(6, HASTY).await;
    for object in 0..8 {
        cluster.put(&format!("object-{object}"), &bytes(object, 3 * BLOCK_BYTES as usize)).await.unwrap();
    }
    let mut other = cluster.client.clone();
    let order = proto::RepairRequest { node: 6, decommission: true, ..Default::default() };
    let both = tokio::spawn(async move {
        let mut events = other.repair(order).await?.into_inner();
        let mut last = proto::JobEvent::default();
        while let Some(event) = events.message().await? {
            last = event;
        }
        Ok::<_, Status>(last)
    });
    let first = leave(&mut cluster, 5).await.unwrap();
    let second = both.await.unwrap().unwrap();
    assert!(first.contains("holds nothing now"), "{first}");
    assert_eq!((second.state.as_str(), second.failed), ("done", 0), "{second:?}");
    for node in [5, 6] {
        assert_eq!(state(&mut cluster, node).await.0, "decommissioned");
    }
    cluster.until("garbage goes", async |c| c.status().await.garbage == 0).await;
    assert_eq!((held(&cluster.world, 5), held(&cluster.world, 6)), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_that_cannot_be_carried_out_is_told_and_goes_on_by_itself_over_restarts_once_a_node_comes() {
    let world = World::start(7).await;
    world.kill(7);
    let mut cluster = Cluster::with(Arc::clone(&world), HASTY).await.unwrap();
    let content = bytes(1, 4 * BLOCK_BYTES as usize);
    cluster.put("object", &content).await.unwrap();
    cluster.archive("object", "rs-4+2").await.unwrap();
    cluster.until("garbage goes", async |c| c.status().await.garbage == 0).await;

    let refused = leave(&mut cluster, 6).await.unwrap_err();
    let text = "node-6: leaving (1 block left: no other node may take them); it goes on by itself";
    assert_eq!(refused.message(), text);
    let (name, told, left) = state(&mut cluster, 6).await;
    assert_eq!((name.as_str(), left), ("leaving", 1), "{told}");
    assert!(told.ends_with("; it goes on by itself"), "{told}");
    assert_eq!(
        stuck(&mut cluster).await.iter().map(|order| (order.node, order.blocks_left)).collect::<Vec<_>>(),
        [(6, 1)]
    );

    let mut cluster = cluster.restart().await;
    cluster.until("it is stuck again", async |c| !stuck(c).await.is_empty()).await;
    assert_eq!(state(&mut cluster, 6).await.0, "leaving");
    world.revive(7);
    cluster.join(7).await.unwrap();
    cluster.until("it is moved", async |c| state(c, 6).await.0 == "decommissioned").await;
    assert_eq!(stuck(&mut cluster).await, []);
    cluster.until("garbage goes", async |c| c.status().await.garbage == 0).await;
    assert_eq!((held(&world, 6), held(&world, 7)), (0, 1));
    assert_eq!(cluster.get("object").await.unwrap().0, content);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_that_was_stopped_stays_stopped_until_it_is_withdrawn() {
    let mut cluster = Cluster::new(6, HASTY).await;
    for object in 0..40 {
        cluster.put(&format!("object-{object}"), &bytes(object, 4 * BLOCK_BYTES as usize)).await.unwrap();
    }
    let mut other = cluster.client.clone();
    let order = proto::RepairRequest { node: 6, decommission: true, ..Default::default() };
    let ended = tokio::spawn(async move {
        let mut events = other.repair(order).await.unwrap().into_inner();
        let mut last = proto::JobEvent::default();
        while let Some(event) = events.message().await.unwrap() {
            last = event;
        }
        last
    });
    let jobs = async |c: &mut Cluster| -> Vec<String> {
        let tasks = c.status().await.tasks.into_iter().map(|task| task.name);
        tasks.filter(|name| name.starts_with("decommission-")).collect()
    };
    let mut stopped = false;
    while !stopped {
        for name in jobs(&mut cluster).await {
            stopped |= cluster.control(&name, "stop").await.is_ok();
        }
    }
    let last = ended.await.unwrap();
    assert_eq!((last.state.as_str(), last.message.contains("was stopped")), ("failed", true), "{last:?}");
    let told = state(&mut cluster, 6).await;
    assert!(told.0 == "leaving" && told.2 > 0 && told.1.contains("moving them was stopped"), "{told:?}");
    let mut cluster = cluster.restart().await;
    cluster.until("nodes are back", async |c| c.status().await.nodes.iter().all(|n| n.living)).await;
    // The sleep is longer than the worker's interval.
    tokio::time::sleep(std::time::Duration::from_millis(2_500)).await;
    assert_eq!((state(&mut cluster, 6).await, jobs(&mut cluster).await), (told, vec![]));
    assert_eq!(stuck(&mut cluster).await.len(), 1);
    cluster.client.recommission(proto::RecommissionRequest { node: 6 }).await.unwrap();
    assert_eq!((state(&mut cluster, 6).await.0.as_str(), stuck(&mut cluster).await.len()), ("living", 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_at_the_same_waits_for_its_turn() {
    let mut cluster = Cluster::new(6, HASTY).await;
    for object in 0..4 {
        cluster.put(&format!("a/{object}"), &bytes(object, 4 * BLOCK_BYTES as usize)).await.unwrap();
    }
    let archive = |parallel| proto::ArchiveRequest {
        name: "a/".to_owned(),
        is_prefix: true,
        code: "rs-4+2".to_owned(),
        parallel,
        ..Default::default()
    };
    let mut clients = [cluster.client.clone(), cluster.client.clone()];
    let [first, second] = &mut clients;
    let ended = async |client: &mut Client, request| {
        let mut events = client.archive(request).await?.into_inner();
        let mut last = proto::JobEvent::default();
        while let Some(event) = events.message().await? {
            last = event;
        }
        Ok::<_, Status>(last)
    };
    let (first, second) = tokio::join!(ended(first, archive(1)), ended(second, archive(2)));
    let (first, second) = (first.unwrap(), second.unwrap());
    assert_eq!((first.state.as_str(), second.state.as_str()), ("done", "done"), "{first:?} {second:?}");
    assert_eq!(first.done + second.done, 4, "each stripe is made once: {first:?} {second:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_waits_for_another_can_be_stopped() {
    let mut cluster = Cluster::new(6, HASTY).await;
    for object in 0..40 {
        cluster.put(&format!("a/{object}"), &bytes(object, 4 * BLOCK_BYTES as usize)).await.unwrap();
    }
    let archive = |parallel| proto::ArchiveRequest {
        name: "a/".to_owned(),
        is_prefix: true,
        code: "rs-4+2".to_owned(),
        parallel,
        ..Default::default()
    };
    let mut first = cluster.client.archive(archive(1)).await.unwrap().into_inner();
    cluster.control("archive-1", "pause").await.unwrap();
    let mut second = cluster.client.archive(archive(2)).await.unwrap().into_inner();
    cluster
        .until("the second waits", async |c| {
            c.status()
                .await
                .tasks
                .iter()
                .any(|task| task.name == "archive-2" && task.detail.contains("archive-1"))
        })
        .await;
    cluster.control("archive-2", "stop").await.unwrap();
    let last = async |events: &mut tonic::Streaming<proto::JobEvent>| {
        let mut last = proto::JobEvent::default();
        while let Some(event) = events.message().await.unwrap() {
            last = event;
        }
        last
    };
    let stopped = last(&mut second).await;
    assert!(stopped.state == "failed" && stopped.message.contains("stopped while it waited"), "{stopped:?}");
    cluster.control("archive-1", "resume").await.unwrap();
    let done = last(&mut first).await;
    assert_eq!((done.state.as_str(), done.done), ("done", 40));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repair_goes_on_after_a_restart_of_the_coordinator() {
    // Nothing is recovered unasked for ten minutes.
    let mut cluster = Cluster::waiting(7, HASTY, 600_000).await;
    const BLOCKS: usize = 300;
    cluster.put("a", &bytes(1, BLOCKS * BLOCK_BYTES as usize)).await.unwrap();
    cluster.kill(7).await;
    let short = async |cluster: &mut Cluster| {
        let blocks = cluster.lookup("a").await.unwrap().blocks;
        let copies = |block: &proto::BlockInfo| block.nodes.iter().filter(|node| **node != 7).count();
        blocks.iter().filter(|block| copies(block) < 3).count()
    };
    let all = short(&mut cluster).await;
    let request = proto::RepairRequest { object: "a".to_owned(), whole_object: true, ..Default::default() };
    let events = cluster.client.repair(request).await.unwrap().into_inner();
    cluster.control("repair-1", "pause").await.unwrap();
    drop(events);
    let left = short(&mut cluster).await;
    assert!((1..=all).contains(&left), "{left} of {all} blocks lack a copy");
    cluster.again().await.unwrap();
    let is_paused = async |cluster: &mut Cluster| {
        let tasks = cluster.status().await.tasks;
        tasks.iter().any(|task| task.name == "repair-1" && task.state == "paused")
    };
    cluster.until("it is there again, and still paused", is_paused).await;
    assert!(short(&mut cluster).await > 0);
    cluster.control("repair-1", "resume").await.unwrap();
    cluster.until("all is repaired", async |c| short(c).await == 0).await;
}
