//! A scrub that somebody asks for: its last word says that all was read, and how much could not be.

use crate::rig::NO_COORDINATOR;
use disk::{CrashDisk, PowerSwitch};
use model::{BlockId, NodeId, Stamp};
use node::store::NewBlock;
use node::{Config, Node};
use std::path::Path;
use std::sync::Arc;
use tonic::Code;
use wire::proto::node_client::NodeClient;
use wire::proto::{ScrubEvent, ScrubRequest, TaskControl};

const BLOCKS: u128 = 3;

/// A node with some blocks, each of which begins its folder.
async fn node() -> (CrashDisk, Node) {
    let disk = CrashDisk::new(&PowerSwitch::new());
    let config = Config::new(NodeId(1), NO_COORDINATOR.into(), Arc::new(disk.clone()));
    let node = node::start(config).await.unwrap();
    for block in 0..BLOCKS {
        let mut writer = node.flows().store.writer(BlockId(block << 120), 1, 3).unwrap();
        writer.write(0, b"abc", None).unwrap();
        let facts = NewBlock {
            birth: Stamp::default(),
            stored_bytes: 3,
            alpha: 1,
            symbol_bytes: 3,
            part: None,
            note: Vec::new(),
        };
        writer.finish(facts, None).unwrap();
    }
    (disk, node)
}

/// The events of a scrub, to the one that ends it.
async fn scrub(node: &Node) -> Result<Vec<ScrubEvent>, tonic::Status> {
    let mut client = NodeClient::connect(format!("http://{}", node.control_addr())).await.unwrap();
    let mut stream = client.scrub(ScrubRequest {}).await?.into_inner();
    let mut events = Vec::new();
    while let Some(event) = stream.message().await? {
        events.push(event);
    }
    Ok(events)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scrub_ends_with_how_many_it_read_and_could_not_read() {
    let (disk, node) = node().await;
    let events = scrub(&node).await.unwrap();
    let last = ScrubEvent { done: 3, total: 3, complete: true, ..Default::default() };
    assert!(events.len() == 4 && events[3] == last, "{events:?}");
    assert!(events[..3].iter().all(|event| !event.complete && event.problem.is_empty()), "{events:?}");

    // No file can be opened and no folder listed: that is no word on what is there.
    disk.starve(true);
    let events = scrub(&node).await.unwrap();
    assert!(events.len() == 1 && events[0].complete && events[0].done == 0, "{events:?}");
    assert!(events[0].unread > 0 && !events[0].problem.is_empty(), "{events:?}");
    disk.starve(false);
    assert_eq!(scrub(&node).await.unwrap().last(), Some(&last));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_of_an_unknown_version_is_neither_sound_nor_damaged_nor_read() {
    let (disk, node) = node().await;
    let path = "blocks/01/01000000000000000000000000000000.1.meta";
    disk.damage(Path::new(path), |bytes| bytes[8] ^= 0x10).unwrap();
    let events = scrub(&node).await.unwrap();
    let last = events.last().unwrap();
    assert_eq!((events.len(), last.complete, last.done, last.unread), (3, true, 2, 1), "{events:?}");
    assert!(last.problem.contains("version"), "{}", last.problem);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scrub_that_is_stopped_ends_with_an_error() {
    let (_disk, node) = node().await;
    let mut client = NodeClient::connect(format!("http://{}", node.control_addr())).await.unwrap();
    for (action, is_stopped) in [("stop", true), ("resume", false)] {
        let (name, action) = ("scrub".to_owned(), action.to_owned());
        let control = TaskControl { name, action, node: 1, version: 0 };
        client.control_task(control).await.unwrap();
        match scrub(&node).await {
            Err(status) => assert!(is_stopped && status.code() == Code::FailedPrecondition, "{status:?}"),
            Ok(events) => assert!(!is_stopped && events.last().unwrap().complete, "{events:?}"),
        }
    }
}
