//! Reports make a node look, and change nothing else: what a client says drops no copy and quarantines nobody.

use crate::rig::{BLOCK, Rig, content, eventually};
use model::{BlockId, Cause, Fault, NodeId};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;
use wire::proto::coordinator_client::CoordinatorClient;
use wire::proto::{self, TaskStatus};

async fn report(rig: &Rig, fault: Fault) {
    let mut coordinator = CoordinatorClient::connect(format!("http://{}", rig.address())).await.unwrap();
    coordinator.report_fault(proto::Fault::from(fault)).await.unwrap();
}

async fn looks(rig: &Rig) -> TaskStatus {
    rig.status().await.tasks.into_iter().find(|task| task.name == "looks").unwrap()
}

async fn placed(rig: &Rig) -> BTreeSet<(Vec<u8>, u32)> {
    let info = rig.client.lookup("a", true).await.unwrap();
    info.blocks
        .into_iter()
        .flat_map(|b| b.nodes.into_iter().map(move |node| (b.block.clone(), node)))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_accuses_everybody_of_everything_changes_nothing() {
    let rig = Rig::new(4).await;
    let bytes = content(1, 3 * BLOCK);
    rig.put("a", &bytes).await.unwrap();
    let before = placed(&rig).await;
    for (block, node) in &before {
        let (block, node) = (BlockId::from_slice(block).unwrap(), NodeId(*node));
        report(&rig, Fault::new(Cause::CorruptBlock, "it is").suspecting(node, node).about(block)).await;
        for other in (1..=4).map(NodeId) {
            for cause in [Cause::CorruptSlice, Cause::WrongDigest] {
                report(&rig, Fault::new(cause, "it was").suspecting(node, other).about(block)).await;
            }
        }
    }
    let copies = before.len() as u64;
    eventually("each node looked at what it has", async || looks(&rig).await.done >= copies).await;
    eventually("nothing is left to look at", async || {
        let before = looks(&rig).await;
        // Several of its ticks: whatever waits is begun meanwhile.
        tokio::time::sleep(Duration::from_millis(500)).await;
        let after = looks(&rig).await;
        after.state == "idle" && before == after
    })
    .await;
    let status = rig.status().await;
    assert_eq!((status.quarantined, status.garbage, status.missing_blocks), (vec![], 0, 0));
    assert_eq!(status.nodes.iter().filter(|n| n.living).count(), 4);
    assert_eq!(placed(&rig).await, before);
    // Said again, it is not even looked at again.
    let done = looks(&rig).await.done;
    for (block, node) in &before {
        let (block, node) = (BlockId::from_slice(block).unwrap(), NodeId(*node));
        report(&rig, Fault::new(Cause::CorruptBlock, "it is").suspecting(node, node).about(block)).await;
    }
    rig.put("b", &bytes).await.unwrap();
    assert_eq!(looks(&rig).await.done, done);
    assert!(rig.get("a").await.unwrap() == bytes);
}

/// A client need only be right.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_that_is_reported_and_that_its_node_finds_damaged_is_replaced() {
    let rig = Rig::new(4).await;
    let bytes = content(2, BLOCK);
    rig.put("a", &bytes).await.unwrap();
    let (block, node) = placed(&rig).await.into_iter().next().unwrap();
    let id = BlockId::from_slice(&block).unwrap();
    let copy = rig.newest(node, id).unwrap();
    let file = Path::new("blocks").join(&id.to_string()[..2]).join(copy.to_string());
    rig.machines[&node].disk.damage(&file, |b| b[40_000] ^= 1).unwrap();
    let accused = NodeId(node);
    report(&rig, Fault::new(Cause::CorruptBlock, "it is").suspecting(accused, accused).about(id)).await;
    eventually("there are three whole copies", async || {
        let copies = placed(&rig).await;
        copies.len() == 3 && copies.iter().all(|(_, node)| rig.damage(*node, id).is_none())
    })
    .await;
    assert!(rig.get("a").await.unwrap() == bytes);
    assert!(rig.status().await.quarantined.is_empty());
}
