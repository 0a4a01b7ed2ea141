//! What operators want of nodes reaches those that were away, and outlives everybody.

use crate::rig::{BLOCK, Rig, content, eventually};
use std::time::Duration;
use tokio::time::timeout;
use wire::proto::{BudgetChange, Budgets, RepairRequest, TaskControl};

async fn restart_coordinator(rig: &mut Rig) {
    rig.stop_coordinator().await;
    let disk = rig.disk.clone();
    rig.start_coordinator(disk).await;
}

async fn has_rates(rig: &Rig, node: u32, rates: (u64, u64)) {
    let throttle = rig.node(node).engine().throttle().clone();
    eventually("the node has the limit that was set", async || throttle.rates() == rates).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_that_is_set_while_a_node_is_away_holds_when_it_is_back() {
    let mut rig = Rig::new(3).await;
    rig.lose([2]).await;
    rig.client.throttle(123_000, 456_000).await.unwrap();
    for node in [1, 3] {
        assert_eq!(
            rig.node(node).engine().throttle().rates(),
            (123_000, 456_000),
            "node-{node} was told at once"
        );
    }
    rig.bring_back([2]).await;
    has_rates(&rig, 2, (123_000, 456_000)).await;
    // Whatever a node was started with: one truth.
    rig.node(3).engine().throttle().set(7, 7);
    has_rates(&rig, 3, (123_000, 456_000)).await;
    let set = rig.status().await.throttle.unwrap();
    assert_eq!((set.egress_bytes_per_s, set.ingress_bytes_per_s), (123_000, 456_000));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_that_was_lifted_while_a_node_was_away_stays_lifted() {
    let mut rig = Rig::new(3).await;
    rig.client.throttle(123_000, 456_000).await.unwrap();
    rig.lose([2]).await;
    rig.client.throttle(0, 0).await.unwrap();
    restart_coordinator(&mut rig).await;
    rig.bring_back([2]).await;
    // As a node is that was started with a limit of its own.
    rig.node(2).engine().throttle().set(123_000, 456_000);
    has_rates(&rig, 2, (0, 0)).await;
    rig.kill(2);
    rig.bring_back([2]).await;
    assert_eq!(rig.status().await.throttle.unwrap().egress_bytes_per_s, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_keep_their_own_limits_as_long_as_nobody_says_anything() {
    let rig = Rig::new(1).await;
    rig.node(1).engine().throttle().set(9_000_000, 8_000_000);
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(rig.node(1).engine().throttle().rates(), (9_000_000, 8_000_000));
    assert!(rig.status().await.throttle.is_none());
}

/// Bytes per second that take longer for any block here than a test lasts.
const HARDLY_ANY: u64 = 100;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_kind_of_traffic_has_a_budget_of_its_own() {
    let mut rig = Rig::new(6).await;
    let bytes = content(3, 2 * BLOCK);
    rig.put("a", &bytes).await.unwrap();
    rig.put("b", &bytes).await.unwrap();
    let archival = BudgetChange { archival_bytes_per_s: Some(HARDLY_ANY), ..Default::default() };
    rig.client.budgets(archival).await.unwrap();
    let encoded = timeout(Duration::from_secs(1), rig.archive("a", "rs-2+2")).await;
    assert!(encoded.is_err(), "parities wait for their budget: {encoded:?}");
    assert_eq!(rig.get("b").await.unwrap(), bytes);
    let all = BudgetChange { archival_bytes_per_s: Some(0), ..Default::default() };
    assert_eq!(rig.client.budgets(all).await.unwrap(), Budgets::default());
    rig.archive("b", "rs-2+2").await.unwrap();

    // What is lost is read, and not repaired.
    let healing = BudgetChange { healing_bytes_per_s: Some(HARDLY_ANY), ..Default::default() };
    rig.client.budgets(healing).await.unwrap();
    let info = rig.client.lookup("b", true).await.unwrap();
    let block = info.blocks[0].clone();
    rig.lose([block.nodes[0]]).await;
    let request = RepairRequest { block: block.block, ..Default::default() };
    let repaired = timeout(Duration::from_secs(1), rig.repair(request.clone())).await;
    assert!(repaired.is_err(), "the repair waits for its budget: {repaired:?}");
    assert_eq!(rig.get("b").await.unwrap(), bytes);
    rig.put("c", &bytes).await.unwrap();
    rig.client.budgets(BudgetChange { healing_bytes_per_s: Some(0), ..healing }).await.unwrap();
    eventually("it goes on at once, or when it is asked for again if it had given up", async || {
        let _ = timeout(Duration::from_secs(5), rig.repair(request.clone())).await;
        let block = rig.client.lookup("b", true).await.unwrap().blocks[0].clone();
        block.nodes.iter().any(|node| !info.blocks[0].nodes.contains(node))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn budgets_hold_over_restarts_of_node_and_coordinator() {
    let mut rig = Rig::new(2).await;
    let (healing, client) = (Some(3_000_000), Some(5_000_000));
    rig.client.budgets(BudgetChange { healing_bytes_per_s: healing, ..Default::default() }).await.unwrap();
    rig.lose([2]).await;
    let set =
        rig.client.budgets(BudgetChange { client_bytes_per_s: client, ..Default::default() }).await.unwrap();
    let wanted = model::Budgets { client: 5_000_000, healing: 3_000_000, archival: 0 };
    assert_eq!(model::Budgets::from(set), wanted, "the other stays");
    restart_coordinator(&mut rig).await;
    rig.bring_back([2]).await;
    for node in [1, 2] {
        let throttle = rig.node(node).engine().throttle().clone();
        eventually("the node has the budgets", async || throttle.budgets() == wanted).await;
        assert_eq!(throttle.rates(), (0, 0));
    }
    assert_eq!(rig.status().await.budgets.map(model::Budgets::from), Some(wanted));
}

async fn control(rig: &Rig, node: u32, action: &str) -> String {
    let control =
        TaskControl { name: "scrub".to_owned(), action: action.to_owned(), node, ..TaskControl::default() };
    rig.client.control_task(control).await.unwrap().state
}

async fn scrub_is(rig: &Rig, node: u32, state: &str) {
    eventually("the scrub is as it was wanted", async || {
        let status = rig.status().await;
        let told = status.nodes.iter().find(|n| n.node == node).and_then(|n| n.status.as_ref());
        told.is_some_and(|s| s.tasks.iter().any(|task| task.name == "scrub" && task.state == state))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scrub_that_is_paused_stays_so_over_restarts_of_node_and_coordinator() {
    let mut rig = Rig::new(3).await;
    assert_eq!(control(&rig, 2, "pause").await, "paused");
    rig.lose([2]).await;
    rig.bring_back([2]).await;
    scrub_is(&rig, 2, "paused").await;
    restart_coordinator(&mut rig).await;
    scrub_is(&rig, 2, "paused").await;
    rig.lose([2]).await;
    restart_coordinator(&mut rig).await;
    rig.bring_back([2]).await;
    scrub_is(&rig, 2, "paused").await;
    let status = rig.status().await;
    let wishes: Vec<(u32, &str)> =
        status.nodes.iter().flat_map(|n| n.wishes.iter().map(|w| (n.node, w.action.as_str()))).collect();
    assert_eq!(wishes, [(2, "pause")]);

    // It may be said while nobody hears it.
    rig.lose([2]).await;
    assert_eq!(control(&rig, 2, "resume").await, "to go on");
    rig.bring_back([2]).await;
    scrub_is(&rig, 2, "idle").await;
    scrub_is(&rig, 1, "idle").await;
    let unknown = TaskControl {
        name: "scrup".to_owned(),
        action: "pause".to_owned(),
        node: 2,
        ..TaskControl::default()
    };
    assert!(rig.client.control_task(unknown).await.unwrap_err().to_string().contains("scrup"));
}
