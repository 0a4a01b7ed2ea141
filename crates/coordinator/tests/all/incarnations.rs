//! Which start of which store a node's number stands for: registrations, heartbeats, orders to delete.

use crate::support::{BLOCK_BYTES, Cluster, Settings, write_request, written};
use model::StoreId;
use tonic::{Code, Status};
use wire::mac::Whose;
use wire::proto;
use wire::proto::register_message::Kind;

/// Nodes die within moments, and deletions do not wait.
const HASTY: Settings = Settings { dead_after_ms: 600, garbage_grace_ms: 50, put_lease_ms: 60_000 };

async fn register(
    cluster: &mut Cluster,
    hello: proto::NodeHello,
    inventory: proto::BlockInventory,
) -> Result<(), Status> {
    // Nodes send 1,024 blocks in a message.
    let pieces = inventory
        .blocks
        .chunks(1_024)
        .map(|blocks| proto::BlockInventory { blocks: blocks.to_vec(), ..proto::BlockInventory::default() });
    let last = proto::BlockInventory { blocks: Vec::new(), ..inventory.clone() };
    let messages = std::iter::once(Kind::Hello(hello)).chain(pieces.chain([last]).map(Kind::Blocks));
    let messages: Vec<_> = messages.map(|kind| proto::RegisterMessage { kind: Some(kind) }).collect();
    cluster.client.register(tokio_stream::iter(messages)).await.map(|_| ())
}

async fn node_of(cluster: &mut Cluster, node: u32) -> proto::NodeInfo {
    cluster.status().await.nodes.into_iter().find(|n| n.node == node).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clone_is_refused_with_both_addresses_and_changes_nothing() {
    let mut cluster = Cluster::new(4, Settings::default()).await;
    cluster.put("object", b"x").await.unwrap();
    let before = cluster.lookup("object").await.unwrap().blocks;
    let node = before[0].nodes[0];
    let own = cluster.world.hello(node);
    let word = cluster.world.word(node);
    for accepted in [vec![word], vec![]] {
        let here = "127.0.0.1:9".to_owned();
        let clone = proto::NodeHello {
            control_addr: here.clone(),
            data_addr: here.clone(),
            accepted,
            incarnation: word + 1,
            ..own.clone()
        };
        let refused = register(&mut cluster, clone, proto::BlockInventory::default()).await.unwrap_err();
        assert_eq!(refused.code(), Code::FailedPrecondition);
        assert!(refused.message().contains(&own.control_addr), "{refused:?}");
        assert!(refused.message().contains(&here), "{refused:?}");
    }
    assert_eq!(cluster.lookup("object").await.unwrap().blocks, before);
    assert_eq!(node_of(&mut cluster, node).await.control_addr, own.control_addr);
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_knows_the_last_one_is_welcome_and_one_that_does_not_is_shown() {
    let mut cluster = Cluster::new(4, Settings::default()).await;
    cluster.put("object", b"x").await.unwrap();
    let before = cluster.lookup("object").await.unwrap().blocks;
    let node = before[0].nodes[0];
    for (tried, is_set_back) in [(true, false), (false, true), (true, false)] {
        // At its address the new process answers, not the one of before.
        let last = cluster.world.word(node);
        cluster.world.restart(node, if tried { vec![last] } else { vec![7] });
        let word = cluster.world.word(node);
        // Its next heartbeat has another word, so it is told to register.
        cluster
            .until("it registers", async |c| {
                node_of(c, node).await.status.is_some_and(|status| status.incarnation == word)
            })
            .await;
        let info = node_of(&mut cluster, node).await;
        assert_eq!((info.set_back, info.living), (is_set_back, true));
        assert_eq!(cluster.lookup("object").await.unwrap().blocks, before);
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_store_may_have_a_number_only_if_that_holds_nothing() {
    let mut cluster = Cluster::new(4, HASTY).await;
    cluster.put("object", b"x").await.unwrap();
    let nodes = cluster.lookup("object").await.unwrap().blocks[0].nodes.clone();
    let empty = (1..=4).find(|node| !nodes.contains(node)).unwrap();
    for node in [nodes[0], empty] {
        cluster.hush(node);
        cluster.kill(node).await;
        cluster.world.restart(node, vec![]);
        let other = proto::NodeHello { store: vec![9; 16], cluster: vec![], ..cluster.world.hello(node) };
        let store = StoreId(u128::from_be_bytes([9; 16]));
        cluster.world.pose(node, Whose { store, ..cluster.world.whose(node) }, cluster.world.secret(node));
        cluster.world.revive(node);
        let empty_folder = proto::BlockInventory { complete: true, ..Default::default() };
        let answer = register(&mut cluster, other, empty_folder).await;
        if node == empty {
            answer.unwrap();
            continue;
        }
        let refused = answer.unwrap_err();
        assert_eq!(refused.code(), Code::FailedPrecondition);
        let ways_out = ["own folder", "stripeline node forget", "another number"];
        assert!(ways_out.iter().all(|way| refused.message().contains(way)), "{refused:?}");
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_heartbeat_of_another_start_is_not_believed() {
    let mut cluster = Cluster::new(3, HASTY).await;
    cluster.world.kill(2);
    let word = cluster.world.word(2) + 1;
    // Another process goes on in its name.
    cluster
        .until("it dies all the same", async |c| {
            let status = proto::NodeStatus { incarnation: word, ..c.world.status(2) };
            let reply = c.client.heartbeat(proto::HeartbeatRequest { status: Some(status) }).await.unwrap();
            assert!(reply.into_inner().register_again);
            !node_of(c, 2).await.living
        })
        .await;
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn orders_to_delete_name_the_start_that_is_accepted() {
    let mut cluster = Cluster::new(3, HASTY).await;
    cluster.put("object", b"x").await.unwrap();
    let node = cluster.lookup("object").await.unwrap().blocks[0].nodes[0];
    let last = cluster.world.word(node);
    cluster.world.restart(node, vec![last]);
    cluster.delete("object").await.unwrap();
    // The double obeys no others.
    cluster.until("the copies go", async |c| c.world.copies().is_empty()).await;
    cluster.stop().await;
}

/// Its node lists what it has when it registers, and nothing is placed there yet.
#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_did_not_outlive_a_start_before_its_commit_is_made_again() {
    // No comparison but those that something asks for.
    let mut cluster = Cluster::comparing(5, Settings::default(), 3_600_000).await;
    let begin = proto::BeginPutRequest {
        name: "object".to_owned(),
        block_bytes: BLOCK_BYTES,
        replicas: 3,
        gathers: None,
    };
    let put = cluster.client.begin_put(begin).await.unwrap().into_inner().put;
    let request = write_request(&put, 0, b"bytes", true);
    let plan = cluster.client.plan_write(request).await.unwrap().into_inner().plan.unwrap();
    let staged = cluster.world.run(&plan, b"bytes", 0).unwrap().staged;
    let (node, block) = (staged[0].node, staged[0].block.clone());
    // Its folder is set back, and it registers as what it is by now.
    cluster.world.lose(node, &block);
    cluster.world.restart(node, vec![]);
    let word = cluster.world.word(node);
    cluster
        .until("it registers", async |c| {
            node_of(c, node).await.status.is_some_and(|status| status.incarnation == word)
        })
        .await;
    let commit = proto::CommitPutRequest {
        parities: Vec::new(),
        put,
        blocks: vec![written(&staged)],
        object_bytes: 5,
        digest: blake3::hash(b"bytes").as_bytes().to_vec(),
    };
    cluster.client.commit_put(commit).await.unwrap();
    cluster
        .until("its block has all its copies", async |c| {
            let nodes = c.lookup("object").await.unwrap().blocks[0].nodes.clone();
            nodes.len() == 3 && nodes.iter().all(|node| c.world.stored(*node, &block).is_some())
        })
        .await;
    cluster.stop().await;
}

/// A node whose copies take long to compare sends no heartbeat meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_lives_while_its_inventory_is_compared() {
    let mut cluster = Cluster::new(4, HASTY).await;
    let long = std::time::Duration::from_millis(2 * HASTY.dead_after_ms);
    let mut copies = 50_000;
    cluster.hush(4);
    loop {
        let named = |number: u64| proto::BlockRef {
            block: (u128::from(number) << 64 | 1).to_be_bytes().to_vec(),
            generation: 1,
            ..proto::BlockRef::default()
        };
        let blocks =
            (0..copies).map(|number: u64| named(number.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
        let inventory = proto::BlockInventory { blocks, complete: true, unjudged: Vec::new() };
        let (hello, began) = (cluster.world.hello(4), std::time::Instant::now());
        register(&mut cluster, hello, inventory).await.unwrap();
        let took = began.elapsed();
        let request = proto::HeartbeatRequest { status: Some(cluster.world.status(4)) };
        let reply = cluster.client.heartbeat(request).await.unwrap().into_inner();
        assert!(!reply.register_again, "after {took:?} for {copies} copies");
        if took > long {
            break;
        }
        copies *= 2;
    }
    cluster.stop().await;
}
