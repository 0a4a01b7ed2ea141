//! A node lives as long as it answers the coordinator's calls as the start that registered; a process becomes a node only after it has answered
//! one.

use crate::support::{Cluster, Settings};
use model::hdfs::Datanode;
use model::{Incarnation, StoreId};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tonic::{Code, Status};
use wire::mac::{Secret, Whose};
use wire::proto;
use wire::proto::register_message::Kind;

const HASTY: Settings = Settings { dead_after_ms: 800, garbage_grace_ms: 50, put_lease_ms: 60_000 };

async fn living(cluster: &mut Cluster) -> BTreeSet<u32> {
    cluster.status().await.nodes.into_iter().filter(|n| n.living).map(|n| n.node).collect()
}

fn registration(
    hello: proto::NodeHello,
) -> impl tokio_stream::Stream<Item = proto::RegisterMessage> + Send + 'static {
    let inventory = proto::BlockInventory { complete: true, ..Default::default() };
    let messages = [Kind::Hello(hello), Kind::Blocks(inventory)];
    tokio_stream::iter(messages.map(|kind| proto::RegisterMessage { kind: Some(kind) }))
}

#[tokio::test(flavor = "multi_thread")]
async fn heartbeats_in_the_name_of_a_dead_node_do_not_keep_it_alive() {
    let mut cluster = Cluster::new(3, HASTY).await;
    cluster.hush(2);
    cluster.world.kill(2);
    cluster
        .until("it dies all the same", async |c| {
            let status = Some(c.world.status(2));
            c.client.heartbeat(proto::HeartbeatRequest { status }).await.unwrap();
            !living(c).await.contains(&2)
        })
        .await;
    // Heartbeats do not bring it back, and no registration does either.
    for _ in 0..20 {
        let status = Some(cluster.world.status(2));
        let reply = cluster.client.heartbeat(proto::HeartbeatRequest { status }).await.unwrap();
        assert!(reply.into_inner().register_again);
        let hello = cluster.world.hello(2);
        let refused = cluster.client.register(registration(hello)).await.unwrap_err();
        assert_eq!(refused.code(), Code::Unavailable, "{refused:?}");
        assert_eq!(living(&mut cluster).await, BTreeSet::from([1, 3]));
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_that_answer_nobody_become_no_nodes() {
    let mut cluster = Cluster::new(3, HASTY).await;
    let real = cluster.world.hello(1);
    let mut registering = JoinSet::new();
    for node in 1_000..1_300 {
        // Nobody listens at one address; another node listens at the other.
        let control_addr = if node % 2 == 0 { "127.0.0.1:1".to_owned() } else { real.control_addr.clone() };
        let data_addr = format!("10.1.{}.{}:7", node / 250, node % 250);
        let hello = proto::NodeHello { node, control_addr, data_addr, store: vec![9; 16], ..real.clone() };
        let mut client = cluster.client.clone();
        registering.spawn(async move { client.register(registration(hello)).await.map(|_| ()) });
    }
    while let Some(answer) = registering.join_next().await {
        let refused = answer.unwrap().unwrap_err();
        assert!(matches!(refused.code(), Code::Unavailable | Code::ResourceExhausted), "{refused:?}");
    }
    assert_eq!(cluster.status().await.nodes.len(), 3);
    // No row was written either.
    cluster.again().await.unwrap();
    assert_eq!(cluster.status().await.nodes.len(), 3);
    cluster.stop().await;
}

/// The address accepts connections but never answers.
#[tokio::test(flavor = "multi_thread")]
async fn only_so_many_processes_that_do_not_answer_are_waited_for_at_once() {
    let mut cluster = Cluster::new(3, Settings::default()).await;
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let control_addr = silent.local_addr().unwrap().to_string();
    let real = cluster.world.hello(1);
    let mut registering: JoinSet<Result<(), Status>> = JoinSet::new();
    for node in 1_000..1_300 {
        let (control_addr, data_addr) =
            (control_addr.clone(), format!("10.1.{}.{}:7", node / 250, node % 250));
        let hello = proto::NodeHello { node, control_addr, data_addr, store: vec![9; 16], ..real.clone() };
        let mut client = cluster.client.clone();
        registering.spawn(async move { client.register(registration(hello)).await.map(|_| ()) });
    }
    let mut full = 0;
    while let Some(answer) = registering.join_next().await {
        let refused = answer.unwrap().unwrap_err();
        match refused.code() {
            Code::ResourceExhausted => full += 1,
            code => assert_eq!(code, Code::Unavailable, "{refused:?}"),
        }
    }
    assert!((1..300).contains(&full), "{full}");
    assert_eq!(living(&mut cluster).await.len(), 3);
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_nobody_reaches_is_dead_and_comes_back_by_itself() {
    let mut cluster = Cluster::new(3, HASTY).await;
    for _ in 0..2 {
        let began = Instant::now();
        cluster.world.cut_off(2);
        cluster.until("it is dead", async |c| !living(c).await.contains(&2)).await;
        let took = began.elapsed();
        assert!(took < Duration::from_millis(3 * HASTY.dead_after_ms), "{took:?}");
        // It still sends heartbeats, and would register.
        tokio::time::sleep(Duration::from_millis(HASTY.dead_after_ms)).await;
        assert!(!living(&mut cluster).await.contains(&2));
        cluster.world.reconnect(2);
        cluster.until("it is back", async |c| living(c).await.contains(&2)).await;
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_answers_as_another_store_or_start_does_not_live() {
    let mut cluster = Cluster::new(4, HASTY).await;
    let (own, secret) = (cluster.world.whose(1), cluster.world.secret(1));
    let others = [
        (Whose { store: StoreId(9), ..own }, secret),
        (Whose { incarnation: Incarnation(9), ..own }, secret),
        // This one claims to be that start but does not know its secret.
        (own, Secret::draw()),
    ];
    for (whose, secret) in others {
        cluster.world.pose(1, whose, secret);
        cluster.until("it is dead", async |c| !living(c).await.contains(&1)).await;
        cluster.world.pose(1, own, cluster.world.secret(1));
        cluster.until("it is back", async |c| living(c).await.contains(&1)).await;
    }
    assert_eq!(living(&mut cluster).await.len(), 4);
    cluster.stop().await;
}

/// Answers take longer than the time between two calls, and less than the time after which nodes are dead.
#[tokio::test(flavor = "multi_thread")]
async fn slow_answers_are_no_death() {
    let slow = Settings { dead_after_ms: 4_000, ..HASTY };
    let mut cluster = Cluster::new(3, slow).await;
    cluster.world.delay(2, Duration::from_millis(slow.dead_after_ms * 3 / 8));
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(3 * slow.dead_after_ms) {
        assert_eq!(living(&mut cluster).await.len(), 3, "after {:?}", began.elapsed());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    cluster.stop().await;
}

/// The node answers calls; only its heartbeats stop.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_answers_lives_without_heartbeats() {
    let mut cluster = Cluster::new(3, HASTY).await;
    cluster.hush(2);
    tokio::time::sleep(Duration::from_millis(3 * HASTY.dead_after_ms)).await;
    assert_eq!(living(&mut cluster).await.len(), 3);
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn helpers_beside_datanodes_live_as_long_as_they_answer_too() {
    let mut cluster = Cluster::new(3, HASTY).await;
    let (datanode, secret) = (Datanode(StoreId(0x5_0000_0007)), Secret::draw());
    let address = cluster.world.hello(1).control_addr;
    let lender = proto::Lender {
        node: datanode.number().0,
        datanode: datanode.0.to_vec(),
        control_addr: address.clone(),
        data_addr: "127.0.0.1:7".to_owned(),
        rack: "/r".to_owned(),
        protocol: wire::PROTOCOL_VERSION,
        incarnation: 5,
        running_stages: 0,
        leaves: false,
        secret: secret.to_vec(),
    };
    // Another process answers at that address.
    let refused = cluster.client.lend(lender.clone()).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable, "{refused:?}");
    assert!(cluster.status().await.lenders.is_empty());

    let whose = Whose { node: datanode.number(), store: datanode.0, incarnation: Incarnation(5) };
    cluster.hush(1);
    cluster.world.pose(1, whose, secret);
    cluster.client.lend(lender.clone()).await.unwrap();
    let lives = async |c: &mut Cluster| c.status().await.lenders.iter().any(|lender| lender.living);
    tokio::time::sleep(Duration::from_millis(2 * HASTY.dead_after_ms)).await;
    assert!(lives(&mut cluster).await, "it answers");
    cluster.world.cut_off(1);
    cluster
        .until("it is dead, whatever it says", async |c| {
            let _ = c.client.lend(lender.clone()).await;
            !lives(c).await
        })
        .await;
    cluster.world.reconnect(1);
    cluster
        .until("it is back", async |c| c.client.lend(lender.clone()).await.is_ok() && lives(c).await)
        .await;
    cluster.stop().await;
}
