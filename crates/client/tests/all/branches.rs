//! Nodes took another coordinator, over a copy of the catalog, for the successor of one that stood still. That one is gone, and the
//! first one comes back with changes that nobody else has.

use crate::rig::{BLOCK, Rig, content, eventually};
use crate::succession::{kept, snapshot};
use ::catalog::aside::asides;
use disk::CrashDisk;

/// Objects that the first coordinator has when its catalog is copied.
const BEFORE: [&str; 4] = ["kept", "replaced", "removed", "in both"];

/// What each coordinator acknowledged, and the first one's disk. Nobody else has its last changes.
async fn two_lives(rig: &mut Rig, removes: bool) -> CrashDisk {
    for (seed, name) in (0..).zip(BEFORE) {
        rig.put(name, &content(seed, BLOCK)).await.unwrap();
    }
    // A catalog that nobody ever kept asks nobody when it starts.
    kept(rig).await;
    rig.control_task("records", "pause").await;
    let copy = snapshot(rig);
    rig.put("first", &content(10, 2 * BLOCK)).await.unwrap();
    rig.put("replaced", &content(11, BLOCK)).await.unwrap();
    rig.put("in both", &content(12, BLOCK)).await.unwrap();
    rig.put("put and removed", &content(13, BLOCK)).await.unwrap();
    rig.client.delete("put and removed").await.unwrap();
    if removes {
        // The deletion waits, for what decided it is on no other node.
        rig.client.delete("removed").await.unwrap();
    }
    let own = rig.disk.clone();
    rig.stop_coordinator_at_once();

    rig.start_coordinator(copy).await;
    rig.control_task("records", "resume").await;
    rig.put("second", &content(20, BLOCK)).await.unwrap();
    rig.put("in both", &content(22, BLOCK)).await.unwrap();
    kept(rig).await;
    own
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_two_coordinators_acknowledged_over_copies_of_one_catalog_is_readable() {
    let mut rig = Rig::new(5).await;
    let own = two_lives(&mut rig, false).await;
    rig.stop_coordinator_at_once();
    rig.start_coordinator(own).await;
    // At once: what the nodes obeyed last.
    for (name, seed) in [("kept", 0), ("removed", 2), ("second", 20), ("in both", 22)] {
        assert_eq!(rig.get(name).await.unwrap(), content(seed, BLOCK), "{name}");
    }
    eventually("what the first one committed is taken", async || {
        rig.get("first").await.is_ok_and(|bytes| bytes == content(10, 2 * BLOCK))
            && rig.get("replaced").await.is_ok_and(|bytes| bytes == content(11, BLOCK))
    })
    .await;
    eventually("nothing is left to decide", async || rig.status().await.safe_mode.is_empty()).await;
    assert!(rig.get("put and removed").await.is_err(), "it was removed");
    let own = asides(&rig.disk).unwrap();
    assert!(own.len() == 1 && own[0].is_settled, "it is kept: {own:?}");
    // What was replaced goes, and nothing else.
    rig.no_garbage().await;
    for (name, seed) in [("kept", 0), ("replaced", 11), ("removed", 2), ("second", 20), ("in both", 22)] {
        assert_eq!(rig.get(name).await.unwrap(), content(seed, BLOCK), "{name}");
    }
    assert_eq!(rig.damages(), [""; 0]);
    // Another start finds nothing to do.
    rig.stop_coordinator().await;
    rig.start_coordinator(rig.disk.clone()).await;
    assert_eq!((rig.status().await.safe_mode, asides(&rig.disk).unwrap()), (String::new(), own));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_lost_branch_removed_stands_until_people_have_seen_it() {
    let mut rig = Rig::new(5).await;
    let own = two_lives(&mut rig, true).await;
    rig.stop_coordinator_at_once();
    rig.start_coordinator(own).await;
    eventually("it says what it did", async || {
        let said = rig.status().await.safe_mode;
        said.contains("kept aside") && rig.get("first").await.is_ok()
    })
    .await;
    assert_eq!(rig.get("removed").await.unwrap(), content(2, BLOCK));
    let found = rig.client.recover_catalog(&[], &[]).await.unwrap();
    assert_eq!(found.removed.iter().map(|v| v.name.as_str()).collect::<Vec<_>>(), ["removed"]);
    assert_eq!(found.safe_mode, "");
    assert_eq!(rig.get("removed").await.unwrap(), content(2, BLOCK), "it is only listed");
}
