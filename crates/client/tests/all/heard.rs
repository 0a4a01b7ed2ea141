//! Nodes say whom they obey, and what they have heard of the catalog or keep of it.

use crate::rig::{BLOCK, Rig, content, eventually};
use model::{Position, Stamp};
use std::time::Duration;
use wire::proto;
use wire::proto::node_client::NodeClient;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_says_whom_it_registered_with_and_how_long_ago_that_answered() {
    let mut rig = Rig::new(1).await;
    let node = format!("http://{}", rig.node(1).control_addr());
    let client = NodeClient::connect(node).await.unwrap();
    let status = async || client.clone().get_status(proto::Empty {}).await.unwrap().into_inner();
    let term = |status: &proto::NodeStatus| status.heard.as_ref().unwrap().term;
    let before = status().await;
    assert_eq!(before.coordinator, rig.address().to_string());
    assert!(before.answered_ms_ago.is_some_and(|ago| ago < 10_000) && term(&before) > 0, "{before:?}");

    rig.stop_coordinator().await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let alone = status().await;
    assert!(alone.answered_ms_ago.unwrap() >= 400, "{alone:?}");
    assert_eq!(term(&alone), term(&before));

    // The next life of the coordinator is obeyed once the node has registered with it.
    rig.start_coordinator(rig.disk.clone()).await;
    eventually("it registers again", async || term(&status().await) > term(&before)).await;
    assert!(status().await.answered_ms_ago.unwrap() < 10_000);
}

/// A node that keeps nothing of the catalog gets a snapshot of a change that it has not heard of, nor has anybody else. It is killed
/// and comes back, as one does that was killed before it noted what it had heard.
async fn keeps_more_than_it_heard(rig: &mut Rig) -> u32 {
    rig.put("a", &content(1, BLOCK)).await.unwrap();
    eventually("the catalog is kept", async || {
        rig.running().iter().filter(|node| rig.node(**node).flows().store.held().is_some()).count() == 3
    })
    .await;
    let free = |node: &u32| rig.node(*node).flows().store.held().is_none();
    let node = rig.running().into_iter().find(free).unwrap();
    let store = rig.node(node).flows().store.clone();
    let heard = store.heard();
    let at = Position { stamp: Stamp { change: heard.change + 1_000, ..heard }, hash: [7; 32] };
    let mut snapshot = store.hold_snapshot(store.identity().cluster.unwrap(), at).unwrap();
    snapshot.write(&content(2, 1_000)).unwrap();
    snapshot.finish().unwrap();
    drop(store);
    assert_eq!(rig.status().await.safe_mode, "");
    rig.lose([node]).await;
    rig.bring_back([node]).await;
    node
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_node_keeps_of_the_catalog_counts_as_heard_when_it_registers() {
    let mut rig = Rig::new(6).await;
    let node = keeps_more_than_it_heard(&mut rig).await;
    let said = rig.status().await.safe_mode;
    assert!(said.contains("does not know") && said.contains(&format!("node-{node}")), "{said}");
    rig.client.delete("a").await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(rig.status().await.garbage, 3, "nothing is let go");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recover_ends_no_safe_mode_while_a_living_node_keeps_records_of_another_history() {
    let mut rig = Rig::new(6).await;
    let node = keeps_more_than_it_heard(&mut rig).await;
    let told = rig.client.recover_catalog(&[], &[]).await.unwrap();
    assert!(told.away.is_empty() && told.incomplete.is_empty() && told.newer.is_empty(), "{told:?}");
    assert!(told.safe_mode.contains("does not know"), "{told:?}");
    assert_eq!(rig.status().await.safe_mode, told.safe_mode);

    // Without them nothing is left to decide.
    rig.machines.get_mut(&node).unwrap().remove_records();
    rig.all_live().await;
    rig.bring_back([node]).await;
    assert_eq!(rig.client.recover_catalog(&[], &[]).await.unwrap().safe_mode, "");
    rig.client.delete("a").await.unwrap();
    rig.no_garbage().await;
}
