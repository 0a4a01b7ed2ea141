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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_block_that_nobody_has_room_for_does_not_keep_shorter_ones_from_being_made() {
    let mut rig = Rig::with(Settings::nodes(5)).await;
    let (long, short) = (content(4, BLOCK), content(5, 1_000));
    rig.put("long", &long).await.unwrap();
    let victim = rig.client.lookup("long", true).await.unwrap().blocks[0].nodes[0];
    for number in 0..12 {
        rig.put(&format!("short {number}"), &short).await.unwrap();
    }
    // Each has room for half of the long one, beside what it has.
    const VAST: u64 = 1 << 40;
    /// Nobody's last MiB is given away.
    const SPARE: u64 = 1 << 20;
    let free = async |node: u32| {
        let status = rig.status().await.nodes.into_iter().find(|n| n.node == node).and_then(|n| n.status);
        status.and_then(|status| status.free_bytes)
    };
    for node in rig.running() {
        let disk = &rig.machines[&node].disk;
        disk.set_capacity(VAST);
        eventually("it tells", async || {
            free(node).await.is_some_and(|free| (VAST / 2..VAST).contains(&free))
        })
        .await;
        let used = VAST - free(node).await.unwrap();
        disk.set_capacity(used + SPARE + BLOCK as u64 / 2);
        eventually("it tells", async || free(node).await.is_some_and(|free| free < VAST / 2)).await;
    }
    rig.lose([victim]).await;
    let error = rig.repair_node(victim).await.unwrap_err().to_string();
    assert!(error.starts_with("1 of"), "{error}");
    for object in rig.client.list("short").await.unwrap() {
        let blocks = rig.client.lookup(&object.name, true).await.unwrap().blocks;
        assert_eq!(blocks[0].living_nodes.len(), 3, "{}", object.name);
    }
    assert_eq!(rig.get("long").await.unwrap(), long);
}
