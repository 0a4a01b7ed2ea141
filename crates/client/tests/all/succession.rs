//! A coordinator's disk is lost, or set back, and another coordinator goes on where it was, from what nodes keep.

use crate::catalog::{populate, same};
use crate::rig::{BLOCK, PATIENCE, Rig, Settings, content, eventually, start_coordinator};
use coordinator::CoordinatorError;
use disk::{CrashDisk, Disk};
use std::net::SocketAddr;
use std::path::Path;
use wire::proto::TaskControl;

/// Waits until two nodes keep everything that was changed so far.
pub async fn kept(rig: &Rig) {
    let info = rig.client.list("").await.unwrap();
    eventually("two nodes keep the catalog's records", async || {
        let told = rig.running().into_iter().filter_map(|node| rig.node(node).flows().store.held());
        let furthest = told.map(|held| held.last.stamp).collect::<Vec<_>>();
        let Some(last) = furthest.iter().max() else { return false };
        // Nothing is changed meanwhile but the time, once a minute.
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        rig.node(1).flows().store.heard() == *last
            && furthest.iter().filter(|held| *held == last).count() >= 2
    })
    .await;
    assert_eq!(rig.client.list("").await.unwrap(), info);
}

/// A copy of the coordinator's folder, as a snapshot of its disk has it.
pub fn snapshot(rig: &Rig) -> CrashDisk {
    let name = Path::new("catalog.redb");
    let file = rig.disk.open(name).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(0, &mut bytes).unwrap();
    let copy = CrashDisk::new(&rig.power);
    copy.create_new(name).unwrap().write_at(0, &bytes).unwrap();
    copy
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_coordinator_whose_disk_is_lost_goes_on_where_it_was() {
    let mut rig = Rig::new(6).await;
    let objects = populate(&rig).await;
    kept(&rig).await;
    let before = rig.status().await;
    rig.stop_coordinator().await;
    let lost = rig.disk.clone();
    rig.start_coordinator(CrashDisk::new(&rig.power)).await;
    let after = rig.status().await;
    assert_eq!((after.cluster, after.safe_mode), (before.cluster, String::new()));
    assert_eq!((after.objects, after.blocks, after.stripes), (before.objects, before.blocks, before.stripes));
    same(&rig, &objects).await;
    // It is whole: what is deleted goes, and what is put stays.
    rig.put("new", &content(7, BLOCK)).await.unwrap();
    rig.client.delete("one").await.unwrap();
    rig.no_garbage().await;
    assert_eq!(rig.get("new").await.unwrap(), content(7, BLOCK));

    // The old one returns elsewhere, with its old disk: its nodes are led by another.
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let mut old = start_coordinator(rig.settings, &lost, any, false).await.unwrap();
    let why = tokio::time::timeout(PATIENCE, old.get_mut().ended()).await.unwrap();
    assert!(matches!(why, CoordinatorError::TakenOver { .. }), "{why}");
    assert!(why.to_string().contains(&rig.address().to_string()), "{why}");
    assert_eq!(rig.get("new").await.unwrap(), content(7, BLOCK));
    assert_eq!(rig.damages(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_catalog_that_was_set_back_is_brought_forward() {
    let mut rig = Rig::new(5).await;
    rig.put("a", b"the old version").await.unwrap();
    rig.stop_coordinator().await;
    let old = snapshot(&rig);
    rig.start_coordinator(rig.disk.clone()).await;
    rig.put("a", b"the new version").await.unwrap();
    rig.put("b", &content(1, BLOCK)).await.unwrap();
    rig.client.delete("b").await.unwrap();
    rig.put("c", &content(2, BLOCK)).await.unwrap();
    kept(&rig).await;
    rig.stop_coordinator().await;
    rig.start_coordinator(old).await;
    assert_eq!(rig.status().await.safe_mode, "");
    assert_eq!(rig.get("a").await.unwrap(), b"the new version");
    assert_eq!(rig.get("c").await.unwrap(), content(2, BLOCK));
    assert!(rig.get("b").await.is_err(), "it was deleted");
    rig.no_garbage().await;
    assert_eq!(rig.status().await.unknown_copies, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_catalog_of_before_anybody_kept_it_is_brought_forward_too() {
    let mut rig = Rig::new(0).await;
    rig.control_task("records", "pause").await;
    for node in 1..=3 {
        rig.join(node).await;
    }
    rig.all_live().await;
    rig.put("a", b"an older version").await.unwrap();
    let early = snapshot(&rig);
    rig.control_task("records", "resume").await;
    rig.put("a", b"bytes").await.unwrap();
    kept(&rig).await;
    rig.stop_coordinator().await;
    rig.start_coordinator(early).await;
    assert_eq!(rig.status().await.safe_mode, "");
    assert_eq!(rig.get("a").await.unwrap(), b"bytes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_only_the_third_of_those_that_keep_the_catalog_has_is_waited_for() {
    the_third_is_waited_for(true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_catalog_of_before_anybody_kept_it_waits_for_nodes_at_other_addresses() {
    the_third_is_waited_for(false).await;
}

/// The last change before the coordinator's end reached one of three; that one is a moment late. All have other addresses than the
/// catalog knows, and whether it knows that they keep it is said.
async fn the_third_is_waited_for(knows_who_keeps_it: bool) {
    let mut rig = Rig::new(3).await;
    rig.put("a", b"bytes").await.unwrap();
    if knows_who_keeps_it {
        kept(&rig).await;
    }
    let old = snapshot(&rig);
    rig.put("b", b"more").await.unwrap();
    let held = |rig: &Rig, node| rig.node(node).flows().store.held().map(|held| held.last.stamp);
    eventually("all three keep the last change", async || {
        let before = held(&rig, 1);
        // A group is kept each 100 ms.
        tokio::time::sleep(std::time::Duration::from_millis(400)).await;
        (1..=3).all(|node| held(&rig, node) == before)
    })
    .await;
    rig.lose([2, 3]).await;
    let before = held(&rig, 1);
    rig.client.delete("a").await.unwrap();
    eventually("the one that is left keeps it", async || held(&rig, 1) > before).await;
    rig.stop_coordinator_at_once();
    rig.kill(1);
    for node in [2, 3] {
        rig.start(node).await.unwrap();
    }
    let _next = start_coordinator(rig.settings, &old, rig.address(), false).await.unwrap();
    let client = rig.impatient().await;
    eventually("the third is waited for", async || match client.status().await {
        Ok(_) => false,
        Err(error) => error.to_string().contains("node-1 is to keep it too"),
    })
    .await;
    rig.start(1).await.unwrap();
    rig.all_live().await;
    assert_eq!(rig.status().await.safe_mode, "");
    assert!(rig.get("a").await.is_err(), "it was deleted");
    assert_eq!(rig.get("b").await.unwrap(), b"more");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_goes_before_two_that_keep_the_records_have_answered() {
    let mut rig = Rig::new(4).await;
    rig.put("a", &content(1, BLOCK)).await.unwrap();
    kept(&rig).await;
    rig.stop_coordinator().await;
    let keep = |node: &u32| rig.node(*node).flows().store.held().is_some();
    let holders: Vec<u32> = rig.running().into_iter().filter(keep).collect();
    let away = holders[1..].to_vec();
    away.iter().for_each(|&node| rig.kill(node));
    rig.start_coordinator(rig.disk.clone()).await;
    eventually("the one that runs has answered, and does not suffice", async || {
        let said = rig.status().await.safe_mode;
        said.contains("1 have answered") && said.contains("2 say")
    })
    .await;
    assert_eq!(rig.get("a").await.unwrap(), content(1, BLOCK), "it is read all the same");
    rig.bring_back(away).await;
    eventually("the doubt is over", async || rig.status().await.safe_mode.is_empty()).await;
    rig.client.delete("a").await.unwrap();
    rig.no_garbage().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_the_records_paused_nothing_goes() {
    let rig = Rig::new(4).await;
    rig.put("a", &content(1, BLOCK)).await.unwrap();
    let control = |action: &str| TaskControl {
        name: "records".to_owned(),
        action: action.to_owned(),
        ..TaskControl::default()
    };
    rig.client.control_task(control("pause")).await.unwrap();
    rig.client.delete("a").await.unwrap();
    eventually("its copies wait", async || {
        let tasks = rig.status().await.tasks;
        let waits = |task: &wire::proto::TaskStatus| task.detail.contains("not yet on two nodes");
        tasks.iter().any(|task| task.name == "gc" && waits(task))
    })
    .await;
    assert_eq!(rig.status().await.garbage, 3);
    rig.client.control_task(control("resume")).await.unwrap();
    rig.no_garbage().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_folder_founds_nothing_unasked() {
    let mut rig = Rig::new(3).await;
    rig.put("a", b"bytes").await.unwrap();
    kept(&rig).await;
    // Asked to, it does not take over nodes that know a cluster …
    rig.stop_coordinator().await;
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let other = start_coordinator(rig.settings, &CrashDisk::new(&rig.power), any, true).await.unwrap();
    let config = |coordinator: &str| {
        let folder = std::sync::Arc::new(CrashDisk::new(&rig.power));
        node::Config::new(model::NodeId(9), coordinator.to_owned(), folder)
    };
    drop(other);
    // … and unasked it founds none for those that know none.
    let waiting = start_coordinator(rig.settings, &CrashDisk::new(&rig.power), any, false).await.unwrap();
    let address = waiting.get().local_addr().to_string();
    let stranger = node::start(config(&address)).await.unwrap();
    let client = client::Client::connect(&address).await.unwrap();
    eventually("it says what it waits for", async || {
        client.status().await.is_err_and(|error| error.to_string().contains("--found"))
    })
    .await;
    assert!(stranger.flows().store.identity().cluster.is_none());
    stranger.shutdown().await;
    waiting.end(coordinator::Coordinator::shutdown).await;
    rig.start_coordinator(rig.disk.clone()).await;
    assert_eq!(rig.get("a").await.unwrap(), b"bytes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_holders_awaited_nothing_acknowledged_is_lost_with_the_disk() {
    let mut rig = Rig::with(Settings { waits_for_holders: true, ..Settings::nodes(4) }).await;
    for round in 0..5 {
        let name = format!("object-{round}");
        rig.put(&name, &content(round, BLOCK)).await.unwrap();
        if round == 3 {
            rig.client.delete("object-1").await.unwrap();
        }
        // At once: no time for a group to go out that was not waited for.
        rig.stop_coordinator_at_once();
        rig.start_coordinator(CrashDisk::new(&rig.power)).await;
        assert_eq!(rig.status().await.safe_mode, "", "round {round}");
        assert_eq!(rig.get(&name).await.unwrap(), content(round, BLOCK), "round {round}");
        assert_eq!(rig.get("object-1").await.is_ok(), (1..3).contains(&round), "round {round}");
    }
}
