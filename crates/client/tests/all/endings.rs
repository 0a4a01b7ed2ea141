//! Nodes that end: with a word they are missed at once, without one somebody who repairs them waits.

use crate::rig::{BLOCK, Rig, Settings, content};

async fn living(rig: &Rig) -> Vec<u32> {
    rig.status().await.nodes.iter().filter(|n| n.living).map(|n| n.node).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_stopped_is_missed_at_once() {
    let mut rig = Rig::with(Settings { dead_after_ms: 600_000, ..Settings::nodes(4) }).await;
    rig.put("a", &content(1, BLOCK)).await.unwrap();
    let node = rig.client.lookup("a", true).await.unwrap().blocks[0].nodes[0];
    rig.stop(node).await;
    assert!(!living(&rig).await.contains(&node));
    rig.repair_node(node).await.unwrap();
    let nodes = rig.client.lookup("a", true).await.unwrap().blocks[0].nodes.clone();
    assert!(nodes.len() == 3 && !nodes.contains(&node), "{nodes:?}");
    // It comes back as any other.
    rig.start(node).await.unwrap();
    rig.all_live().await;
    assert_eq!(living(&rig).await.len(), 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repair_of_a_node_that_fell_silent_a_moment_ago_waits_until_it_is_dead() {
    let mut rig = Rig::new(4).await;
    rig.put("a", &content(2, BLOCK)).await.unwrap();
    let node = rig.client.lookup("a", true).await.unwrap().blocks[0].nodes[0];
    rig.kill(node);
    assert!(living(&rig).await.contains(&node), "nobody has noticed yet");
    rig.repair_node(node).await.unwrap();
    let nodes = rig.client.lookup("a", true).await.unwrap().blocks[0].nodes.clone();
    assert!(nodes.len() == 3 && !nodes.contains(&node), "{nodes:?}");
    let other = nodes[0];
    let lives = rig.repair_node(other).await.unwrap_err().to_string();
    assert!(lives.contains("is alive"), "{lives}");
}
