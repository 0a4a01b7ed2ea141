//! Nodes say whom they obey.

use crate::rig::{Rig, eventually};
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
