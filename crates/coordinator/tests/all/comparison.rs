//! What came or went while its node runs is noticed though nobody registers: hourly, when a read finds nothing, after a scrub.

use crate::support::world::Stored;
use crate::support::{BLOCK_BYTES, Cluster, Settings, bytes};
use model::{BlockId, Cause, Fault, NodeId};
use tonic::Code;
use wire::names::folder_of;
use wire::proto;

const HASTY: Settings = Settings { dead_after_ms: 60_000, garbage_grace_ms: 50, put_lease_ms: 60_000 };

/// Each node's turn comes within a moment …
const SOON_MS: u64 = 100;

/// … or not during a test.
const NEVER_MS: u64 = 3_600_000;

/// A block of an object of that name, and a node that holds a copy.
async fn placed(cluster: &mut Cluster, name: &str) -> (Vec<u8>, u32) {
    let block = cluster.lookup(name).await.unwrap().blocks[0].clone();
    (block.block, block.nodes[0])
}

async fn until_all_are_there(cluster: &mut Cluster, name: &str) {
    let holds = async |c: &mut Cluster| {
        let block = c.lookup(name).await.unwrap().blocks[0].clone();
        let on_disk = block.nodes.iter().filter(|node| c.world.stored(**node, &block.block).is_some());
        block.nodes.len() == 3 && on_disk.count() == 3
    };
    cluster.until("its block has all its copies", holds).await;
}

async fn report(cluster: &mut Cluster, node: u32, block: &[u8]) {
    let (node, block) = (NodeId(node), BlockId::from_slice(block).unwrap());
    let fault = Fault::new(Cause::NotFound, "it is not there").suspecting(node, node).about(block);
    cluster.client.report_fault(proto::Fault::from(fault)).await.unwrap();
}

async fn compared(cluster: &mut Cluster) -> u64 {
    let tasks = cluster.status().await.tasks;
    tasks.into_iter().find(|task| task.name == "compare").unwrap().done
}

/// Waits until every node had its turn once more.
async fn a_round(cluster: &mut Cluster) {
    let nodes = cluster.world.living().len() as u64;
    let before = compared(cluster).await;
    cluster.until("all are compared", async |c| compared(c).await > before + nodes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_vanishes_while_its_node_runs_is_made_again() {
    let mut cluster = Cluster::comparing(5, HASTY, SOON_MS).await;
    cluster.put("object", b"bytes").await.unwrap();
    a_round(&mut cluster).await;
    assert!(cluster.world.listed().is_empty(), "digests alone say that all is as it should be");
    let (block, node) = placed(&mut cluster, "object").await;
    cluster.world.lose(node, &block);
    until_all_are_there(&mut cluster, "object").await;
    let folder = folder_of(BlockId::from_slice(&block).unwrap());
    let listed = cluster.world.listed();
    assert!(!listed.is_empty() && listed.iter().all(|(_, folders)| folders == &[folder]), "{listed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_that_come_back_while_their_node_runs_are_counted_as_unknown() {
    let mut cluster = Cluster::comparing(4, HASTY, SOON_MS).await;
    cluster.put("object", b"bytes").await.unwrap();
    let (block, node) = placed(&mut cluster, "object").await;
    let copy = cluster.world.stored(node, &block).unwrap();
    cluster.delete("object").await.unwrap();
    cluster.until("it goes", async |c| c.world.copies().is_empty()).await;
    cluster.until("nothing waits", async |c| c.status().await.garbage == 0).await;
    let mut stranger: Stored = copy.clone();
    // Born in a life of a coordinator that this catalog does not know.
    stranger.write.birth = Some(proto::Stamp { term: 1, word: 7, change: 1 });
    // Whether the catalog remembers its birth or not: no row says that it was let go.
    for (id, stored) in [(&block[..], copy), (&[7; 16], stranger)] {
        cluster.world.store(node, id, stored);
        cluster.until("it is told", async |c| c.status().await.unknown_copies == 1).await;
        a_round(&mut cluster).await;
        assert_eq!(
            (cluster.world.copies().len(), cluster.status().await.unknown_copies),
            (1, 1),
            "it is kept"
        );
        cluster.world.lose(node, id);
        cluster.until("it is gone", async |c| c.status().await.unknown_copies == 0).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_does_not_answer_lacks_nothing() {
    let mut cluster = Cluster::comparing(4, HASTY, SOON_MS).await;
    cluster.put("object", b"bytes").await.unwrap();
    let (_, node) = placed(&mut cluster, "object").await;
    // The coordinator takes it for living as yet.
    cluster.world.kill(node);
    let failed = async |c: &mut Cluster| {
        c.status().await.tasks.iter().any(|task| task.name == "compare" && task.errors > 1)
    };
    cluster.until("it was asked in vain", failed).await;
    let status = cluster.status().await;
    assert_eq!((status.lost_copies, status.missing_blocks), (0, 0));
    // Nor is another start of it compared before it has registered.
    cluster.world.restart(node, vec![]);
    let request = proto::CompareNodeRequest { node };
    cluster.client.compare_node(request).await.unwrap_err();
    assert_eq!(cluster.status().await.lost_copies, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_written_and_deleted_meanwhile_is_neither_missing_nor_strange() {
    // A turn as often as there can be one.
    let mut cluster = Cluster::comparing(4, Settings { garbage_grace_ms: 20, ..HASTY }, 1).await;
    let (mut round, mut turns) = (0_u8, 0);
    while turns < 30 {
        round = round.wrapping_add(1);
        cluster.put("object", &bytes(round, 3 * BLOCK_BYTES as usize)).await.unwrap();
        if round % 3 == 2 {
            cluster.delete("object").await.unwrap();
        }
        let status = cluster.status().await;
        assert_eq!((status.lost_copies, status.unknown_copies), (0, 0), "round {round}");
        turns = compared(&mut cluster).await;
    }
    let _ = cluster.delete("object").await;
    cluster.until("all goes", async |c| c.world.copies().is_empty()).await;
    cluster.until("nothing waits", async |c| c.status().await.garbage == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_a_read_seeks_in_vain_is_noticed_at_once() {
    let mut cluster = Cluster::comparing(5, HASTY, NEVER_MS).await;
    cluster.put("object", b"bytes").await.unwrap();
    cluster.put("another", b"other bytes").await.unwrap();
    let (there, sound) = placed(&mut cluster, "another").await;
    let before = cluster.lookup("another").await.unwrap().blocks[0].nodes.clone();
    // A client's word alone changes nothing, nor does it make a node look where nothing is placed.
    report(&mut cluster, sound, &there).await;
    let elsewhere = (1..=5).find(|node| !before.contains(node)).unwrap();
    report(&mut cluster, elsewhere, &there).await;
    cluster.until("both were looked at", async |c| compared(c).await == 2).await;
    assert_eq!(cluster.lookup("another").await.unwrap().blocks[0].nodes, before);
    let listed: Vec<u32> = cluster.world.listed().into_iter().map(|(node, _)| node).collect();
    assert_eq!(listed, [sound]);

    let (block, node) = placed(&mut cluster, "object").await;
    cluster.world.lose(node, &block);
    report(&mut cluster, node, &block).await;
    until_all_are_there(&mut cluster, "object").await;
    let folder = folder_of(BlockId::from_slice(&block).unwrap());
    assert!(cluster.world.listed().iter().all(|listed| *listed == (node, vec![folder])));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_has_read_all_that_it_has_is_asked_what_it_lacks() {
    let mut cluster = Cluster::comparing(5, HASTY, NEVER_MS).await;
    cluster.put("object", b"bytes").await.unwrap();
    let (block, node) = placed(&mut cluster, "object").await;
    cluster.world.lose(node, &block);
    cluster.world.scrub(node);
    until_all_are_there(&mut cluster, "object").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_is_told_what_a_node_lacks_also_if_it_was_noticed_before() {
    let mut cluster = Cluster::comparing(3, HASTY, NEVER_MS).await;
    cluster.put("object", b"bytes").await.unwrap();
    let (block, node) = placed(&mut cluster, "object").await;
    cluster.control("healer", "pause").await.unwrap();
    let ask = async |c: &mut Cluster, node| {
        c.client.compare_node(proto::CompareNodeRequest { node }).await.map(|reply| reply.into_inner())
    };
    assert_eq!(ask(&mut cluster, node).await.unwrap(), proto::CompareNodeReply::default());
    let lost = cluster.world.lose(node, &block);
    for _ in 0..2 {
        let reply = ask(&mut cluster, node).await.unwrap();
        let missing: Vec<_> = reply.missing.into_iter().map(|copy| (copy.block, copy.generation)).collect();
        assert_eq!(missing, [(block.clone(), lost.generation)]);
    }
    // It is back, and is counted on again once its node has read it.
    cluster.world.store(node, &block, lost);
    ask(&mut cluster, node).await.unwrap();
    cluster.until("it counts", async |c| c.status().await.lost_copies == 0).await;
    assert_eq!(ask(&mut cluster, node).await.unwrap(), proto::CompareNodeReply::default());
    assert_eq!(ask(&mut cluster, 77).await.unwrap_err().code(), Code::NotFound);
}
