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

/// Nodes register again within a second of a start. Until then they are expected, and whoever needs them waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn right_after_a_start_nothing_is_refused_for_want_of_nodes() {
    let mut rig =
        Rig::with(Settings { dead_after_ms: 8_000, expects_nodes: true, ..Settings::nodes(6) }).await;
    let bytes = content(3, 3 * BLOCK);
    rig.put("a", &bytes).await.unwrap();
    rig.archive("a", "rs-2+2").await.unwrap();
    rig.put("b", &bytes).await.unwrap();
    let placed: Vec<Vec<u32>> =
        rig.client.lookup("a", true).await.unwrap().blocks.into_iter().map(|block| block.nodes).collect();
    for turn in 0..4 {
        rig.stop_coordinator().await;
        rig.begin_coordinator(rig.disk.clone()).await;
        let states: Vec<String> = rig.status().await.nodes.into_iter().map(|node| node.state).collect();
        assert!(states.iter().all(|state| state == "expected" || state == "living"), "{states:?}");
        match turn {
            0 => assert!(rig.get("a").await.unwrap() == bytes),
            1 => _ = rig.put("c", &bytes).await.unwrap(),
            2 => {
                rig.archive("b", "rs-4+2").await.unwrap();
            }
            _ => {
                let health = rig.client.health().await.unwrap();
                assert!(health.is_whole(), "{health:?}");
            }
        }
    }
    // One that does not come is dead once it had its time.
    rig.kill(placed[0][0]);
    rig.stop_coordinator().await;
    rig.begin_coordinator(rig.disk.clone()).await;
    assert!(rig.get("a").await.unwrap() == bytes);
    assert!(!rig.client.health().await.unwrap().is_whole());
}
