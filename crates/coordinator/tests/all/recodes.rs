//! Stripes that take the place of others: what stripes keep of deleted objects comes back, and objects get another code.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use crate::archival::{all_read, put_some};
use crate::support::{Cluster, Settings};
use std::collections::{BTreeMap, BTreeSet};
use tonic::Status;
use wire::proto;

const HASTY: Settings = Settings { dead_after_ms: 1_200, garbage_grace_ms: 50, put_lease_ms: 60_000 };

type Objects = Vec<(String, Vec<u8>)>;

/// Objects of one block each that are archived together.
async fn archived(cluster: &mut Cluster, count: usize, code: &str) -> Objects {
    let objects = put_some(cluster, count).await;
    archive(cluster, "b/", code, false).await.unwrap();
    objects
}

/// What the job said last.
async fn archive(cluster: &mut Cluster, prefix: &str, code: &str, change: bool) -> Result<String, Status> {
    let request = proto::ArchiveRequest {
        name: prefix.to_owned(),
        is_prefix: true,
        code: code.to_owned(),
        slice_bytes: 1024,
        short: true,
        change,
        ..Default::default()
    };
    let events = cluster.archive_as(request).await?;
    Ok(events.last().unwrap().message.clone())
}

async fn compact(cluster: &mut Cluster) -> String {
    cluster.compact().await.unwrap().last().unwrap().message.clone()
}

/// The code and the nodes of each stripe; no two members of one are on the same node.
async fn stripes(cluster: &mut Cluster, objects: &Objects) -> BTreeMap<Vec<u8>, (String, Vec<u32>)> {
    let mut stripes = BTreeMap::new();
    for (name, _) in objects {
        for block in cluster.lookup(name).await.unwrap().blocks {
            let stripe = block.stripe.expect("each is archived");
            let nodes: Vec<u32> = stripe.members.iter().filter(|m| m.node != 0).map(|m| m.node).collect();
            assert_eq!(nodes.iter().collect::<BTreeSet<_>>().len(), nodes.len(), "{nodes:?}");
            stripes.insert(stripe.stripe, (stripe.code, nodes));
        }
    }
    stripes
}

async fn nothing_leaked(cluster: &mut Cluster, objects: &Objects) {
    let names: Vec<&str> = objects.iter().map(|(name, _)| name.as_str()).collect();
    let count = |cluster: &Cluster| cluster.world.copies().len();
    let stripes = stripes(cluster, objects).await;
    let listed: usize = stripes.values().map(|(_, nodes)| nodes.len()).sum();
    cluster.until("what nobody needs is gone", async |c| count(c) == listed).await;
    cluster.nothing_leaked(&names).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_stripes_keep_of_deleted_objects_comes_back() {
    let mut cluster = Cluster::new(12, HASTY).await;
    let mut objects = archived(&mut cluster, 40, "rs-4+2").await;
    for (name, _) in objects.extract_if(.., |(name, _)| !name.ends_with('3')).collect::<Objects>() {
        cluster.delete(&name).await.unwrap();
    }
    assert_eq!(objects.len(), 4);
    let before = stripes(&mut cluster, &objects).await;
    assert_eq!(before.len(), 4, "each in another one");
    let told = compact(&mut cluster).await;
    assert!(told.starts_with("4 stripes became 1: 1.5"), "{told}");
    assert!(told.contains("× what lives instead of 6.0"), "{told}");
    let after = stripes(&mut cluster, &objects).await;
    let (code, nodes) = after.values().next().unwrap().clone();
    assert_eq!((after.len(), code.as_str(), nodes.len()), (1, "rs-4+2", 6));
    nothing_leaked(&mut cluster, &objects).await;
    all_read(&mut cluster, &objects).await;
    assert_eq!(compact(&mut cluster).await, "nothing to do");
    // The new parities are right: any two may be lost.
    for &node in &nodes[..2] {
        cluster.kill(node).await;
    }
    all_read(&mut cluster, &objects).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stripe_that_lacks_a_block_is_left_until_it_is_made_again() {
    let mut cluster = Cluster::new(12, HASTY).await;
    let mut objects = archived(&mut cluster, 8, "rs-4+2").await;
    for (name, _) in objects.extract_if(2.., |_| true).collect::<Objects>() {
        cluster.delete(&name).await.unwrap();
    }
    // A replica that is there yet would be counted on again.
    cluster.until("garbage goes", async |c| c.status().await.garbage == 0).await;
    let lost = cluster.lookup("b/001").await.unwrap().blocks[0].nodes[0];
    cluster.kill(lost).await;
    // What is decided on may be as old as 50 ms.
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    let lacks = "1 stripes lack blocks that must be made again first";
    assert_eq!(compact(&mut cluster).await, format!("nothing to do; {lacks}"));
    let refused = archive(&mut cluster, "b/", "rs-3+2", true).await.unwrap_err();
    assert!(refused.message().contains(lacks), "{refused}");
    all_read(&mut cluster, &objects).await;
    let request = proto::RepairRequest { object: "b/001".to_owned(), ..Default::default() };
    cluster.repair(request).await.unwrap();
    let told = compact(&mut cluster).await;
    assert!(told.starts_with("1 stripes became 1: 2.0"), "{told}");
    all_read(&mut cluster, &objects).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_get_another_code_and_those_that_share_their_stripes_keep_theirs() {
    let mut cluster = Cluster::new(12, HASTY).await;
    // In falling length, so b/000 to b/003 share a stripe, and so on.
    let objects = archived(&mut cluster, 26, "rs-4+2").await;
    let refused = archive(&mut cluster, "b/02", "rs-3+3", false).await.unwrap_err();
    assert!(refused.message().contains("archived with another code"), "{refused}");
    let told = archive(&mut cluster, "b/02", "rs-3+3", true).await.unwrap();
    assert!(told.starts_with("2 stripes encoded; 2.0"), "{told}");
    for (name, _) in &objects {
        let wanted = if name.starts_with("b/02") { "rs-3+3" } else { "rs-4+2" };
        assert_eq!(cluster.lookup(name).await.unwrap().code, wanted, "{name}");
    }
    nothing_leaked(&mut cluster, &objects).await;
    all_read(&mut cluster, &objects).await;
    // All of the rest, and back again, over stripes that both codes fill.
    archive(&mut cluster, "b/", "rs-3+3", true).await.unwrap();
    let told = archive(&mut cluster, "b/", "lrc-4+2+2", true).await.unwrap();
    assert!(told.contains("the data instead of 2."), "{told}");
    let stripes = stripes(&mut cluster, &objects).await;
    assert!(stripes.values().all(|(code, _)| code == "lrc-4+2+2"), "{stripes:?}");
    nothing_leaked(&mut cluster, &objects).await;
    for node in 1..=2 {
        cluster.kill(node).await;
    }
    all_read(&mut cluster, &objects).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_that_are_deleted_during_a_change_do_not_fail_it() {
    let mut cluster = Cluster::new(12, HASTY).await;
    let objects = archived(&mut cluster, 40, "rs-4+2").await;
    let mut client = cluster.client.clone();
    let goes = |index: usize| index % 4 == 1;
    let names: Vec<String> = (0..40).filter(|&i| goes(i)).map(|i| objects[i].0.clone()).collect();
    let deletions = tokio::spawn(async move {
        for name in names {
            client
                .delete(proto::LookupRequest { name, with_blocks: false, ..Default::default() })
                .await
                .unwrap();
        }
    });
    archive(&mut cluster, "b/", "rs-6+2", true).await.unwrap();
    deletions.await.unwrap();
    let stay: Objects = (0..40).filter(|&i| !goes(i)).map(|i| objects[i].clone()).collect();
    all_read(&mut cluster, &stay).await;
    compact(&mut cluster).await;
    all_read(&mut cluster, &stay).await;
    nothing_leaked(&mut cluster, &stay).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_needs_a_code_and_a_compaction_a_scheme_that_exists() {
    let mut cluster = Cluster::new(7, HASTY).await;
    archived(&mut cluster, 4, "rs-4+2").await;
    let refused = archive(&mut cluster, "b/", "", true).await.unwrap_err();
    assert!(refused.message().contains("--code"), "{refused}");
    let request = proto::CompactRequest { scheme: "cyclic".to_owned(), ..Default::default() };
    let refused = cluster.client.compact(request).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::InvalidArgument, "{refused}");
    assert_eq!(compact(&mut cluster).await, "nothing to do");
}
