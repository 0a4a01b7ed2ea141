//! Versions that `catalog recover` leaves out are settled one by one, on an operator's word.

use crate::letting_go::{A_WHILE, flip_versions};
use crate::rig::{self, BLOCK, Rig, content, eventually};
use crate::succession::snapshot;
use client::ClientError;
use disk::CrashDisk;
use model::BlockId;
use std::collections::BTreeSet;

/// An object of two versions, the first of which the nodes have kept; the second lacks a block without the nodes returned.
async fn two_versions(rig: &Rig, bytes: [&[u8]; 2]) -> (String, [u64; 2], Vec<u32>) {
    rig.control_task("gc", "pause").await;
    for attempt in 0..50 {
        let name = format!("photo {attempt}@home");
        rig.put(&name, bytes[0]).await.unwrap();
        let before = rig.client.lookup(&name, true).await.unwrap();
        rig.put(&name, bytes[1]).await.unwrap();
        let after = rig.client.lookup(&name, true).await.unwrap();
        let nodes = |info: &wire::proto::ObjectInfo, index: usize| info.blocks[index].nodes.clone();
        let (first, lost) = (nodes(&before, 0), nodes(&after, 1));
        // The other block of the second version, and the first version, are at other nodes too.
        let is_elsewhere = |nodes: &[u32]| nodes.iter().any(|node| !lost.contains(node));
        if is_elsewhere(&first) && is_elsewhere(&nodes(&after, 0)) {
            return (name, [before.version, after.version], lost);
        }
        rig.client.delete(&name).await.unwrap();
    }
    panic!("no such placement in fifty puts");
}

/// The catalog is lost, with all that nodes keep of it.
async fn lose_the_catalog(rig: &mut Rig) {
    rig.stop_coordinator().await;
    rig.forget_records().await;
    rig.start_coordinator(CrashDisk::new(&rig.power)).await;
}

fn listed(versions: &[wire::proto::ObjectVersion]) -> BTreeSet<(String, u64)> {
    versions.iter().map(|v| (v.name.clone(), v.version)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_versions_of_a_lost_catalog_the_newer_is_taken_once_it_is_whole() {
    let mut rig = Rig::new(8).await;
    let bytes = [content(1, BLOCK), content(2, 2 * BLOCK)];
    let (name, [first, second], lost) = two_versions(&rig, [&bytes[0], &bytes[1]]).await;
    rig.lose(lost.clone()).await;
    lose_the_catalog(&mut rig).await;
    let [older, newer] = [first, second].map(|version| (name.clone(), version));

    let found = rig.client.recover_catalog(&[], &[]).await.unwrap();
    assert!(listed(&found.incomplete).contains(&newer), "{found:?}");
    assert_eq!(rig.get(&name).await.unwrap(), bytes[0], "the older one is whole");
    let refused = rig.client.recover_catalog(std::slice::from_ref(&newer), &[]).await.unwrap_err();
    assert!(matches!(&refused, ClientError::Refused(why) if why.contains("lacks blocks")), "{refused}");
    let nothing = rig.client.recover_catalog(&[(name.clone(), second + 1)], &[]).await.unwrap_err();
    assert!(matches!(nothing, ClientError::NotFound(_)), "{nothing}");

    rig.bring_back(lost).await;
    let found = rig.client.recover_catalog(&[], &[]).await.unwrap();
    assert!(listed(&found.newer).contains(&newer), "{found:?}");
    assert_eq!(rig.get(&name).await.unwrap(), bytes[0], "nobody has decided");
    let taken = rig.client.recover_catalog(std::slice::from_ref(&newer), &[]).await.unwrap();
    assert_eq!((taken.objects, taken.newer.len(), taken.incomplete.len()), (1, 0, 0), "{taken:?}");
    assert_eq!(rig.get(&name).await.unwrap(), bytes[1]);
    assert_eq!(rig.client.lookup(&name, false).await.unwrap().version, second);
    let again = rig.client.recover_catalog(&[], &[]).await.unwrap();
    assert_eq!((again.objects, again.newer.len(), again.incomplete.len()), (0, 0, 0), "{again:?}");

    // The one that was replaced goes as one that was overwritten.
    let back = rig.client.recover_catalog(&[older], &[]).await.unwrap_err();
    assert!(matches!(back, ClientError::NotFound(_)), "its copies are superfluous: {back}");
    rig.client.end_safe_mode().await.unwrap();
    rig.control_task("gc", "resume").await;
    rig.no_garbage().await;
    assert_eq!(rig.get(&name).await.unwrap(), bytes[1]);
    assert!(rig.put(&name, b"newer yet").await.unwrap().version > second);
    assert_eq!(rig.damages(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_version_that_is_dropped_goes_and_the_other_one_stays() {
    let mut rig = Rig::new(8).await;
    let bytes = [content(1, BLOCK), content(2, 2 * BLOCK)];
    let (name, [_, second], lost) = two_versions(&rig, [&bytes[0], &bytes[1]]).await;
    let of_it = rig.client.lookup(&name, true).await.unwrap().blocks;
    let blocks: BTreeSet<BlockId> =
        of_it.iter().map(|block| BlockId::from_slice(&block.block).unwrap()).collect();
    let copies = |rig: &Rig| rig.running().iter().map(|&node| rig.copies(node).len()).sum::<usize>();
    rig.lose(lost.clone()).await;
    lose_the_catalog(&mut rig).await;
    let newer = [(name.clone(), second)];
    rig.client.recover_catalog(&[], &[]).await.unwrap();
    // Copies are counted, and none is to be made meanwhile.
    rig.control_task("healer", "pause").await;
    let before = copies(&rig);
    let dropped = rig.client.recover_catalog(&[], &newer).await.unwrap();
    assert!(dropped.dropped_copies > 0 && !listed(&dropped.incomplete).contains(&newer[0]), "{dropped:?}");
    assert_eq!(rig.status().await.garbage, dropped.dropped_copies, "superfluous, and still there");
    assert_eq!(copies(&rig), before);
    rig.control_task("healer", "resume").await;

    // What was away at that time is listed when it comes, and dropped too.
    rig.bring_back(lost).await;
    let found = rig.client.recover_catalog(&[], &[]).await.unwrap();
    assert!(listed(&[found.incomplete, found.newer].concat()).contains(&newer[0]));
    let dropped = rig.client.recover_catalog(&[], &newer).await.unwrap();
    assert_eq!((dropped.newer.len(), dropped.incomplete.len()), (0, 0), "{dropped:?}");
    let older: Vec<(String, u64)> = dropped.older.iter().map(|v| (v.name.clone(), v.version)).collect();
    rig.client.recover_catalog(&[], &older).await.unwrap();
    rig.client.end_safe_mode().await.unwrap();
    rig.control_task("gc", "resume").await;
    rig.no_garbage().await;
    assert_eq!(rig.get(&name).await.unwrap(), bytes[0]);
    eventually("the dropped version is on no node", async || {
        rig.running().iter().all(|&node| rig.stored(node).is_disjoint(&blocks))
    })
    .await;
    assert_eq!(rig.get(&name).await.unwrap(), bytes[0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn safe_mode_ends_when_nothing_is_left_to_decide() {
    for takes in [true, false] {
        let mut rig = Rig::new(5).await;
        rig.put("a", b"the old version").await.unwrap();
        rig.stop_coordinator().await;
        let old = snapshot(&rig);
        rig.start_coordinator(rig.disk.clone()).await;
        let second = rig.put("a", b"the new version").await.unwrap().version;
        rig.stop_coordinator().await;
        rig.forget_records().await;
        rig.start_coordinator(old).await;
        assert!(rig.status().await.safe_mode.contains("does not know"));

        let found = rig.client.recover_catalog(&[], &[]).await.unwrap();
        assert_eq!(listed(&found.newer), BTreeSet::from([("a".to_owned(), second)]));
        assert!(!found.safe_mode.is_empty(), "one version is not decided: {found:?}");
        let choice = [("a".to_owned(), second)];
        let (take, drop) = if takes { (&choice[..], &[][..]) } else { (&[][..], &choice[..]) };
        let settled = rig.client.recover_catalog(take, drop).await.unwrap();
        assert_eq!(settled.safe_mode, "", "{settled:?}");
        assert_eq!(rig.status().await.safe_mode, "");
        let expected: &[u8] = if takes { b"the new version" } else { b"the old version" };
        assert_eq!(rig.get("a").await.unwrap(), expected);
        rig.no_garbage().await;
        assert_eq!(rig.get("a").await.unwrap(), expected);
        assert_eq!(rig.damages(), [""; 0]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn safe_mode_ends_by_itself_if_no_name_is_uncertain_and_else_waits_for_an_operator() {
    let settings = rig::Settings { compare_every_ms: Some(500), ..rig::Settings::nodes(5) };
    for is_uncertain in [false, true] {
        let mut rig = Rig::with(settings).await;
        rig.put("a", b"the old version").await.unwrap();
        rig.put("gone", b"deleted before").await.unwrap();
        rig.client.delete("gone").await.unwrap();
        rig.no_garbage().await;
        rig.stop_coordinator().await;
        let old = snapshot(&rig);
        // A life of which the old catalog knows nothing.
        rig.start_coordinator(rig.disk.clone()).await;
        if is_uncertain {
            rig.put("a", b"the new version").await.unwrap();
        }
        rig.stop_coordinator().await;
        rig.forget_records().await;
        rig.start_coordinator(old).await;
        rig.put("b", b"stored meanwhile").await.unwrap();
        rig.client.delete("b").await.unwrap();
        if !is_uncertain {
            eventually("nothing is left to decide", async || rig.status().await.safe_mode.is_empty()).await;
            rig.no_garbage().await;
            continue;
        }
        let detail = async || {
            let tasks = rig.status().await.tasks;
            tasks.into_iter().find(|task| task.name == "safe-mode").unwrap().detail
        };
        eventually("it says what it waits for", async || detail().await.contains("catalog recover")).await;
        assert!(rig.status().await.safe_mode.contains("does not know"));
        assert_eq!(rig.status().await.garbage, 3, "nothing is let go");
        let newer = rig.client.recover_catalog(&[], &[]).await.unwrap().newer;
        rig.client.recover_catalog(&[(newer[0].name.clone(), newer[0].version)], &[]).await.unwrap();
        assert_eq!(rig.get("a").await.unwrap(), b"the new version");
        rig.no_garbage().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn safe_mode_stays_while_a_node_is_away() {
    let settings = rig::Settings { compare_every_ms: Some(500), ..rig::Settings::nodes(5) };
    let mut rig = Rig::with(settings).await;
    rig.put("a", b"one version").await.unwrap();
    rig.stop_coordinator().await;
    let old = snapshot(&rig);
    rig.start_coordinator(rig.disk.clone()).await;
    let new = rig.put("a", b"another version").await.unwrap();
    let holder = rig.client.lookup("a", true).await.unwrap().blocks[0].nodes.clone();
    rig.lose(holder.clone()).await;
    rig.stop_coordinator().await;
    rig.forget_records().await;
    rig.start_coordinator(old).await;
    let detail = async || {
        let tasks = rig.status().await.tasks;
        tasks.into_iter().find(|task| task.name == "safe-mode").unwrap().detail
    };
    eventually("it says what it waits for", async || detail().await.contains("away")).await;
    assert!(!rig.status().await.safe_mode.is_empty());
    assert!(new.version > 0);
}

/// Copies whose sidecars have a version that is not known may be all that is left of a version.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn safe_mode_stays_while_what_may_be_of_a_lost_version_cannot_be_read() {
    let settings = rig::Settings { compare_every_ms: Some(500), ..rig::Settings::nodes(5) };
    let mut rig = Rig::with(settings).await;
    rig.put("a", b"the old version").await.unwrap();
    rig.put("b", b"the only version").await.unwrap();
    rig.stop_coordinator().await;
    let old = snapshot(&rig);
    rig.start_coordinator(rig.disk.clone()).await;
    let new = rig.put("a", b"the new version").await.unwrap();
    rig.stop_coordinator().await;
    rig.forget_records().await;
    let flip = |rig: &Rig| rig.machines.values().for_each(|machine| flip_versions(&machine.disk));
    flip(&rig);
    rig.start_coordinator(old).await;
    let detail = async |rig: &Rig| {
        let tasks = rig.status().await.tasks;
        tasks.into_iter().find(|task| task.name == "safe-mode").unwrap().detail
    };
    eventually("it says what it waits for", async || detail(&rig).await.contains("cannot be read")).await;
    // Those of which the catalog knows are no reason.
    assert!(detail(&rig).await.contains("3 copies of which"), "{}", detail(&rig).await);
    let found = rig.client.recover_catalog(&[], &[]).await.unwrap();
    assert!(found.safe_mode.contains("cannot be read"), "{found:?}");
    tokio::time::sleep(A_WHILE).await;
    assert!(!rig.status().await.safe_mode.is_empty());
    flip(&rig);
    let newer = rig.client.recover_catalog(&[], &[]).await.unwrap().newer;
    assert_eq!(newer.iter().map(|v| v.version).collect::<Vec<_>>(), [new.version]);
    rig.client.recover_catalog(&[("a".to_owned(), new.version)], &[]).await.unwrap();
    assert_eq!(rig.status().await.safe_mode, "");
    assert_eq!(rig.get("a").await.unwrap(), b"the new version");
    assert_eq!(rig.get("b").await.unwrap(), b"the only version");
}
