//! Who has no room is given nothing, and where too few have room the error says so.

use crate::rig::{BLOCK, Rig, Settings, content, eventually};

/// A node's room is what it told last.
async fn told_room(rig: &Rig, node: u32, bytes: u64) {
    eventually("the coordinator knows", async || {
        let status = rig.status().await;
        let told = status.nodes.iter().find(|n| n.node == node).and_then(|n| n.status.as_ref());
        told.and_then(|status| status.free_bytes) == Some(bytes)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn puts_repairs_and_encodings_leave_full_nodes_alone() {
    let mut rig = Rig::with(Settings::nodes(9)).await;
    let bytes = content(1, 2 * BLOCK);
    let full = [1, 2, 3];
    for node in full {
        rig.machines[&node].disk.set_capacity(0);
        told_room(&rig, node, 0).await;
    }
    for name in ["a", "b", "c", "d"] {
        rig.put(name, &bytes).await.unwrap();
        rig.archive(name, "rs-2+2").await.unwrap();
    }
    rig.no_garbage().await;
    assert!(full.iter().all(|&node| rig.stored(node).is_empty()));
    let victim = rig.client.lookup("a", true).await.unwrap().blocks[0].nodes[0];
    rig.lose([victim]).await;
    rig.repair_node(victim).await.unwrap();
    assert!(full.iter().all(|&node| rig.stored(node).is_empty()));
    assert_eq!(rig.get("a").await.unwrap(), bytes);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_says_how_many_nodes_have_room_and_how_many_are_needed() {
    let rig = Rig::new(4).await;
    rig.put("a", &content(2, 2 * BLOCK)).await.unwrap();
    for node in 1..=3 {
        rig.machines[&node].disk.set_capacity(0);
        told_room(&rig, node, 0).await;
    }
    let error = rig.put("b", &content(3, BLOCK)).await.unwrap_err().to_string();
    assert!(error.contains("1 of 4 nodes") && error.contains("2 are needed"), "{error}");
    let error = rig.archive("a", "rs-2+2").await.unwrap_err().to_string();
    assert!(error.contains("of 4 nodes that can take blocks have room"), "{error}");
}
