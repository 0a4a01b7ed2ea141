//! Blocks are gathered in stripes when they are put, and archived as these: what lies where, what it costs, and what happens in
//! between.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use crate::support::{BLOCK_BYTES, Cluster, Settings, bytes, write_request, written};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tonic::{Code, Status};
use wire::proto;

const HASTY: Settings = Settings { dead_after_ms: 1_200, garbage_grace_ms: 50, put_lease_ms: 60_000 };

/// Two nodes stand in a rack.
fn rack(node: u32) -> u32 {
    node / 2
}

fn terms(policy: &str, code: &str) -> proto::GatherTerms {
    proto::GatherTerms {
        policy: policy.to_owned(),
        code: code.to_owned(),
        rack_capacity: 1,
        target_racks: 0,
        spread: "two-racks".to_owned(),
    }
}

async fn set_bucket(cluster: &mut Cluster, policy: &str, code: &str) -> Result<(), Status> {
    let bucket =
        proto::Bucket { name: "b".to_owned(), terms: Some(terms(policy, code)), archive_after_ms: 0 };
    cluster.client.set_bucket(bucket).await.map(|_| ())
}

fn everything() -> proto::ArchiveRequest {
    proto::ArchiveRequest { name: "b/".to_owned(), is_prefix: true, slice_bytes: 1024, ..Default::default() }
}

/// What the job said last.
async fn archive(cluster: &mut Cluster, request: proto::ArchiveRequest) -> Result<String, Status> {
    let events = cluster.archive_as(request).await?;
    Ok(events.last().map(|event| event.message.clone()).unwrap_or_default())
}

/// Objects of one block each, under names of the bucket.
pub async fn put_some(cluster: &mut Cluster, count: usize) -> Vec<(String, Vec<u8>)> {
    let mut objects = Vec::new();
    for index in 0..count {
        let (name, content) = (format!("b/{index:03}"), bytes(index as u8, BLOCK_BYTES as usize - index));
        cluster.put(&name, &content).await.unwrap();
        objects.push((name, content));
    }
    objects
}

pub async fn all_read(cluster: &mut Cluster, objects: &[(String, Vec<u8>)]) {
    for (name, content) in objects {
        assert!(cluster.get(name).await.unwrap().0 == *content, "{name}");
    }
}

/// The nodes of each encoded stripe's members.
async fn stripes(cluster: &mut Cluster, objects: &[(String, Vec<u8>)]) -> BTreeMap<Vec<u8>, Vec<u32>> {
    let mut stripes = BTreeMap::new();
    for (name, _) in objects {
        for stripe in cluster.lookup(name).await.unwrap().blocks.into_iter().filter_map(|block| block.stripe)
        {
            let nodes = stripe.members.iter().filter(|m| m.node != 0).map(|m| m.node).collect();
            stripes.insert(stripe.stripe, nodes);
        }
    }
    stripes
}

#[tokio::test(flavor = "multi_thread")]
async fn with_ear_encoding_reads_no_other_rack_and_relocates_nothing() {
    let mut cluster = Cluster::new(20, HASTY).await;
    set_bucket(&mut cluster, "ear", "rs-4+2").await.unwrap();
    let objects = put_some(&mut cluster, 60).await;
    let before = cluster.status().await;
    assert_eq!(before.waiting_blocks, 60);
    assert!(before.open_stripes <= 11 && before.sealed_stripes >= 7, "{before:?}");
    for (name, _) in &objects {
        let block = cluster.lookup(name).await.unwrap().blocks.remove(0);
        let waiting = block.waiting.expect("each waits in a stripe");
        let racks: BTreeSet<String> =
            block.nodes.iter().map(|&node| format!("rack-{}", rack(node))).collect();
        assert_eq!(racks.len(), 2, "{racks:?}");
        assert!(waiting.policy == "ear" && waiting.code == "rs-4+2" && !waiting.core_rack.is_empty());
    }
    let told = archive(&mut cluster, everything()).await.unwrap();
    assert!(told.contains("1.50 × the data instead of 3.00 ×"), "{told}");
    assert!(told.contains("0 blocks read from other racks, 0 relocated"), "{told}");
    assert!(told.contains("blocks are in stripes that take more"), "{told}");
    let stripes = stripes(&mut cluster, &objects).await;
    assert_eq!(stripes.len() as u64, before.sealed_stripes);
    for nodes in stripes.values() {
        let racks: BTreeSet<u32> = nodes.iter().copied().map(rack).collect();
        assert_eq!((nodes.len(), racks.len()), (6, 6), "one member in a rack: {nodes:?}");
    }
    let after = cluster.status().await;
    assert_eq!((after.sealed_stripes, after.open_stripes), (0, before.open_stripes));
    // Two racks of eleven are lost. What still waits is in two racks, and may be gone with them.
    let mut coded = Vec::new();
    for (name, content) in objects {
        if cluster.lookup(&name).await.unwrap().code == "rs-4+2" {
            coded.push((name, content));
        }
    }
    for node in 2..=5 {
        cluster.kill(node).await;
    }
    all_read(&mut cluster, &coded).await;
}

/// Both codes, with one block of a stripe in a rack and with two.
#[tokio::test(flavor = "multi_thread")]
async fn stripes_that_ear_placed_survive_the_racks_that_they_claim_to() {
    for (code, capacity, racks) in
        [("rs-10+4", 1, 4), ("rs-10+4", 2, 2), ("lrc-10+2+2", 1, 3), ("lrc-10+2+2", 2, 1)]
    {
        let case = format!("{code}, {capacity} in a rack");
        let mut cluster = Cluster::new(34, HASTY).await;
        let terms = proto::GatherTerms { rack_capacity: capacity, ..terms("ear", code) };
        let bucket = proto::Bucket { name: "b".to_owned(), terms: Some(terms), ..Default::default() };
        cluster.client.set_bucket(bucket).await.unwrap();
        let objects = put_some(&mut cluster, 250).await;
        let told = archive(&mut cluster, everything()).await.unwrap();
        assert!(told.contains("0 blocks read from other racks, 0 relocated"), "{case}: {told}");
        assert!(!told.contains("lie otherwise"), "{case}: {told}");
        let (mut seen, parsed) = (0, codes::Code::parse(code).unwrap());
        for nodes in stripes(&mut cluster, &objects).await.values() {
            assert_eq!(nodes.len(), 14, "{case}: each is full");
            let mut members: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
            nodes
                .iter()
                .enumerate()
                .for_each(|(index, &node)| members.entry(rack(node)).or_default().push(index));
            assert!(
                members.values().all(|members| members.len() <= capacity as usize),
                "{case}: {members:?}"
            );
            let by_rack: Vec<Vec<usize>> = members.into_values().collect();
            for failed in chosen(by_rack.len(), racks) {
                let lost: Vec<usize> = failed.iter().flat_map(|&rack| by_rack[rack].clone()).collect();
                assert!(parsed.recoverable(&lost), "{case}: {lost:?} are lost for good");
            }
            seen += 1;
        }
        assert!(seen >= 4, "{case}: {seen} stripes");
    }
}

/// All ways to choose so many of the numbers below `of`.
fn chosen(of: usize, count: usize) -> Vec<Vec<usize>> {
    if count == 0 {
        return vec![Vec::new()];
    }
    let with = |last: usize| chosen(last, count - 1).into_iter().map(move |rest| [rest, vec![last]].concat());
    (0..of).flat_map(with).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn with_random_placement_what_moves_is_counted() {
    let mut cluster = Cluster::new(12, HASTY).await;
    set_bucket(&mut cluster, "random", "rs-4+2").await.unwrap();
    let objects = put_some(&mut cluster, 24).await;
    assert_eq!((cluster.status().await.open_stripes, cluster.status().await.sealed_stripes), (0, 6));
    let told = archive(&mut cluster, everything()).await.unwrap();
    assert!(told.starts_with("6 stripes encoded") && !told.contains(" 0 blocks read"), "{told}");
    // In six racks with at most one block in each all of them are needed: layouts without a thought of that seldom do.
    for nodes in stripes(&mut cluster, &objects).await.values() {
        assert_eq!(nodes.iter().copied().map(rack).collect::<BTreeSet<_>>().len(), 6, "{nodes:?}");
    }
    all_read(&mut cluster, &objects).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn open_stripes_go_on_where_they_were_after_a_loss_of_power() {
    let mut cluster = Cluster::new(20, HASTY).await;
    set_bucket(&mut cluster, "ear", "rs-4+2").await.unwrap();
    put_some(&mut cluster, 9).await;
    let before = cluster.status().await;
    let mut cluster = cluster.restart().await;
    let after = cluster.status().await;
    let gathered =
        |status: &proto::ClusterStatus| (status.open_stripes, status.sealed_stripes, status.waiting_blocks);
    assert_eq!(gathered(&before), gathered(&after));
    put_some(&mut cluster, 60).await;
    let status = cluster.status().await;
    // One for each rack, as if nothing had happened.
    assert!(status.open_stripes <= 11, "{status:?}");
    let told = archive(&mut cluster, everything()).await.unwrap();
    assert!(told.contains(" 0 relocated"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_deleted_leaves_its_stripe_before_and_after_it_is_encoded() {
    let mut cluster = Cluster::new(20, HASTY).await;
    set_bucket(&mut cluster, "random", "rs-4+2").await.unwrap();
    let mut objects = put_some(&mut cluster, 12).await;
    for index in [0, 4, 5] {
        cluster.delete(&objects[index].0).await.unwrap();
    }
    assert_eq!(cluster.status().await.waiting_blocks, 9);
    // Stripes of three, two and four blocks: 5 : 9, 4 : 6, 6 : 12.
    let told = archive(&mut cluster, everything()).await.unwrap();
    assert!(told.starts_with("3 stripes encoded"), "{told}");
    cluster.delete(&objects[1].0).await.unwrap();
    objects.retain(|(name, _)| !["b/000", "b/001", "b/004", "b/005"].contains(&name.as_str()));
    all_read(&mut cluster, &objects).await;
    cluster.until("garbage goes", async |c| c.status().await.garbage == 0).await;
    for node in 1..=2 {
        cluster.kill(node).await;
    }
    all_read(&mut cluster, &objects).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn small_objects_that_wait_in_no_stripe_share_some() {
    let mut cluster = Cluster::new(8, HASTY).await;
    let objects = put_some(&mut cluster, 10).await;
    let request = proto::ArchiveRequest { code: "rs-4+2".to_owned(), ..everything() };
    let told = archive(&mut cluster, request.clone()).await.unwrap();
    // The last two blocks are a stripe that takes 2 + 2 for 6.
    assert!(told.starts_with("3 stripes encoded; 1.6"), "{told}");
    all_read(&mut cluster, &objects).await;
    assert_eq!(stripes(&mut cluster, &objects).await.len(), 3);
    let again = archive(&mut cluster, request).await.unwrap();
    assert!(again.contains("nothing to do"), "{again}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_takes_more_room_when_it_is_archived_is_not() {
    let mut cluster = Cluster::new(8, HASTY).await;
    cluster.put("b/lone", &bytes(1, 100)).await.unwrap();
    let request = proto::ArchiveRequest {
        name: "b/lone".to_owned(),
        code: "rs-3+3".to_owned(),
        slice_bytes: 1024,
        ..Default::default()
    };
    let refused = archive(&mut cluster, request.clone()).await.unwrap_err();
    assert!(refused.message().contains("4.00 × the data instead of 3.00 ×"), "{refused}");
    assert_eq!(cluster.lookup("b/lone").await.unwrap().code, "rep-3");
    let told = archive(&mut cluster, proto::ArchiveRequest { short: true, ..request }).await.unwrap();
    assert!(told.starts_with("1 stripes encoded; 4.00 ×"), "{told}");
    // A single replica protects nothing: any code is worth its room.
    cluster.put_with("b/single", &bytes(2, 100), BLOCK_BYTES, 1).await.unwrap();
    let single =
        proto::ArchiveRequest { name: "b/single".to_owned(), code: "rs-3+3".to_owned(), ..everything() };
    archive(&mut cluster, proto::ArchiveRequest { is_prefix: false, ..single }).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn open_stripes_are_sealed_when_that_is_asked_for() {
    let mut cluster = Cluster::new(20, HASTY).await;
    set_bucket(&mut cluster, "ear", "rs-2+1").await.unwrap();
    let objects = put_some(&mut cluster, 5).await;
    assert!(cluster.status().await.open_stripes > 0);
    archive(&mut cluster, proto::ArchiveRequest { short: true, ..everything() }).await.unwrap();
    let status = cluster.status().await;
    assert_eq!((status.open_stripes, status.sealed_stripes, status.waiting_blocks), (0, 0, 0));
    all_read(&mut cluster, &objects).await;
    for (name, _) in &objects {
        assert_eq!(cluster.lookup(name).await.unwrap().code, "rs-2+1");
    }
}

/// Replicas fill all disks until puts are refused. Archival may take a little more, and goes on as the replicas that it replaces go.
#[tokio::test(flavor = "multi_thread")]
async fn disks_that_replicas_filled_are_archived_in_steps() {
    let mut cluster = Cluster::new(8, HASTY).await;
    cluster.world.hold((1 << 20) + 20 * BLOCK_BYTES);
    let mut objects = Vec::new();
    loop {
        let content = bytes(objects.len() as u8, BLOCK_BYTES as usize);
        let name = format!("b/{:03}", objects.len());
        match cluster.put(&name, &content).await {
            Ok(_) => objects.push((name, content)),
            Err(refused) => break assert!(refused.message().contains("room"), "{refused}"),
        }
        // The next heartbeat tells what nodes have.
        tokio::time::sleep(Duration::from_millis(30)).await;
        assert!(objects.len() < 200, "nobody refuses");
    }
    cluster.abort_puts().await;
    assert!(objects.len() > 40, "{}", objects.len());
    let status = cluster.status().await;
    assert_eq!(status.object_bytes, objects.len() as u64 * BLOCK_BYTES);
    // The last ones may have two copies, for want of room.
    assert!(status.stored_bytes > 2 * status.object_bytes && status.free_bytes > 0, "{status:?}");
    let code = "rs-4+2".to_owned();
    archive(&mut cluster, proto::ArchiveRequest { code: code.clone(), short: true, ..everything() })
        .await
        .unwrap();
    for (name, _) in &objects {
        assert_eq!(cluster.lookup(name).await.unwrap().code, code);
    }
    all_read(&mut cluster, &objects).await;
    // The next heartbeat tells what nodes have.
    cluster.until("there is room again", async |c| c.put("b/more", b"more").await.is_ok()).await;
}

/// Blocks of many puts that come at once join the same stripes, and one that is refused leaves the others as they are.
#[tokio::test(flavor = "multi_thread")]
async fn blocks_that_come_at_once_join_stripes_together() {
    let mut cluster = Cluster::new(20, HASTY).await;
    let content = bytes(1, 500);
    let mut planning = tokio::task::JoinSet::new();
    for number in 0..60 {
        let begin = proto::BeginPutRequest {
            name: format!("b/{number}"),
            block_bytes: BLOCK_BYTES,
            replicas: 3,
            gathers: Some(terms("ear", "rs-2+1")),
        };
        let put = cluster.client.begin_put(begin).await.unwrap().into_inner().put;
        let is_known = number % 5 > 0;
        let put = if is_known { put } else { put.iter().map(|byte| !byte).collect() };
        let (mut client, request) = (cluster.client.clone(), write_request(&put, 0, &content, true));
        planning.spawn(async move { (put, is_known, client.plan_write(request).await) });
    }
    let mut committed = 0;
    while let Some(planned) = planning.join_next().await {
        let (put, is_known, reply) = planned.unwrap();
        let Ok(reply) = reply else {
            assert!(!is_known);
            continue;
        };
        let plan = reply.into_inner().plan.unwrap();
        let staged = cluster.world.run(&plan, &content, 0).unwrap().staged;
        let commit = proto::CommitPutRequest {
            put,
            blocks: vec![written(&staged)],
            object_bytes: content.len() as u64,
            digest: blake3::hash(&content).as_bytes().to_vec(),
            parities: Vec::new(),
        };
        cluster.client.commit_put(commit).await.unwrap();
        committed += 1;
    }
    let status = cluster.status().await;
    assert_eq!((committed, status.waiting_blocks), (48, 48));
    archive(&mut cluster, proto::ArchiveRequest { short: true, ..everything() }).await.unwrap();
    assert_eq!(cluster.get("b/1").await.unwrap().0, content);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_that_cannot_be_kept_is_refused_with_what_it_needs() {
    let mut cluster = Cluster::new(8, HASTY).await;
    let refused = set_bucket(&mut cluster, "ear", "rs-4+2").await.unwrap_err();
    assert!(refused.message().contains("racks"), "{refused}");
    for (policy, code, what) in [("erring", "rs-2+1", "erring"), ("ear", "rs-0+1", "rs-0+1")] {
        let refused = set_bucket(&mut cluster, policy, code).await.unwrap_err();
        assert!(refused.message().contains(what), "{refused}");
    }
    // No setting was left behind, and a put may say it for itself.
    cluster.put("b/x", &bytes(1, 10)).await.unwrap();
    assert_eq!(cluster.status().await.waiting_blocks, 0);
    let begin = |terms| proto::BeginPutRequest {
        name: "y".to_owned(),
        block_bytes: BLOCK_BYTES,
        replicas: 3,
        gathers: Some(terms),
    };
    assert!(cluster.client.begin_put(begin(terms("ear", "rs-4+2"))).await.is_err());
    cluster.client.begin_put(begin(terms("ear", "rs-2+1"))).await.unwrap();
    let unnamed = proto::Bucket { name: "a/b".to_owned(), terms: None, archive_after_ms: 0 };
    assert_eq!(cluster.client.set_bucket(unnamed).await.unwrap_err().code(), Code::InvalidArgument);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_archived_with_another_code_is_left_and_told() {
    let mut cluster = Cluster::new(20, HASTY).await;
    set_bucket(&mut cluster, "random", "rs-2+1").await.unwrap();
    put_some(&mut cluster, 4).await;
    let other = proto::ArchiveRequest { code: "rs-4+2".to_owned(), ..everything() };
    let refused = archive(&mut cluster, other).await.unwrap_err();
    assert!(
        refused.message().contains("4 objects are archived with another code, or wait for that"),
        "{refused}"
    );
    let one =
        proto::ArchiveRequest { name: "b/000".to_owned(), code: "rs-4+2".to_owned(), ..Default::default() };
    let refused = archive(&mut cluster, one).await.unwrap_err();
    assert!(refused.message().contains("waits to be"), "{refused}");
    // Nothing is old enough.
    let old = proto::ArchiveRequest { older_than_ms: 3_600_000, ..everything() };
    let refused = archive(&mut cluster, old).await.unwrap_err();
    assert!(refused.message().contains("4 objects were put too lately"), "{refused}");
    archive(&mut cluster, proto::ArchiveRequest { older_than_ms: 1, ..everything() }).await.unwrap();
    assert_eq!(cluster.status().await.stripes, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_encoding_scheme_archives_what_waits_and_what_does_not() {
    let mut cluster = Cluster::new(20, HASTY).await;
    for scheme in flow::EncodeScheme::of(&codes::Code::parse("rs-4+2").unwrap()) {
        for policy in [None, Some("ear")] {
            let bucket = proto::Bucket {
                name: "b".to_owned(),
                terms: policy.map(|p| terms(p, "rs-4+2")),
                archive_after_ms: 0,
            };
            cluster.client.set_bucket(bucket).await.unwrap();
            let objects = put_some(&mut cluster, 8).await;
            let (code, scheme) = ("rs-4+2".to_owned(), scheme.name().to_owned());
            let request = proto::ArchiveRequest { code, scheme, short: true, ..everything() };
            archive(&mut cluster, request).await.unwrap();
            all_read(&mut cluster, &objects).await;
            for (name, _) in &objects {
                assert_eq!(cluster.lookup(name).await.unwrap().code, "rs-4+2");
            }
        }
    }
    let unknown = proto::ArchiveRequest { scheme: "cyclic".to_owned(), ..everything() };
    let refused = archive(&mut cluster, unknown).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(refused.message().contains("star-lanes"), "{refused}");
}

/// From open stripes of any policy; along the pipeline nothing is fetched, and a block passes each link.
#[tokio::test(flavor = "multi_thread")]
async fn a_pipeline_encodes_what_waits_whatever_policy_placed_it() {
    let mut cluster = Cluster::new(20, HASTY).await;
    for (code, policy, rack_capacity) in [
        ("rapidraid-4+2", "rapidraid", 1),
        ("rapidraid16-4+2", "rapidraid", 2),
        ("rapidraid-4+2", "ear", 1),
        ("rapidraid-4+2", "random", 1),
    ] {
        let bucket = proto::Bucket {
            name: "b".to_owned(),
            terms: Some(proto::GatherTerms { rack_capacity, ..terms(policy, code) }),
            archive_after_ms: 0,
        };
        cluster.client.set_bucket(bucket).await.unwrap();
        let objects = put_some(&mut cluster, 12).await;
        let events = cluster.archive_as(proto::ArchiveRequest { short: true, ..everything() }).await.unwrap();
        let told = &events.last().unwrap().message;
        assert!(told.contains("0 relocated"), "{policy}: {told}");
        all_read(&mut cluster, &objects).await;
        let mut racks: BTreeMap<Vec<u8>, Vec<u32>> = BTreeMap::new();
        for (name, _) in &objects {
            let info = cluster.lookup(name).await.unwrap();
            assert_eq!(info.code, code);
            let stripe = info.blocks[0].stripe.clone().unwrap();
            let stored = stripe.members.iter().filter(|m| !m.is_virtual && !m.block.is_empty());
            racks.insert(stripe.stripe, stored.map(|member| rack(member.node)).collect());
        }
        for racks in racks.values_mut() {
            racks.sort_unstable();
            let most = racks.chunk_by(|a, b| a == b).map(<[u32]>::len).max();
            assert!(most <= Some(rack_capacity as usize), "{policy}: {racks:?}");
        }
        for flow in events.iter().filter_map(|event| event.flow.as_ref()).filter(|_| policy == "rapidraid") {
            assert_eq!(flow.links.len(), 5, "{:?}", flow.links);
        }
        for (name, _) in &objects {
            cluster.delete(name).await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stripe_that_waits_too_long_is_sealed_short() {
    let mut cluster = Cluster::sealing(20, HASTY, 400).await;
    set_bucket(&mut cluster, "random", "rs-4+2").await.unwrap();
    let objects = put_some(&mut cluster, 6).await;
    cluster.until("it is sealed", async |c| c.status().await.open_stripes == 0).await;
    let sealed = cluster.status().await.sealed_stripes;
    assert!(sealed >= 2, "one is full, the other one waited: {sealed}");
    // Two blocks and two parities take less room than six replicas.
    let told = archive(&mut cluster, everything()).await.unwrap();
    assert!(told.starts_with(&format!("{sealed} stripes encoded")), "{told}");
    all_read(&mut cluster, &objects).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_that_are_deleted_during_an_archival_do_not_fail_it() {
    let mut cluster = Cluster::new(20, HASTY).await;
    for policy in [None, Some("random")] {
        let bucket = proto::Bucket {
            name: "b".to_owned(),
            terms: policy.map(|p| terms(p, "rs-4+2")),
            archive_after_ms: 0,
        };
        cluster.client.set_bucket(bucket).await.unwrap();
        let objects = put_some(&mut cluster, 40).await;
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
        let request = proto::ArchiveRequest { code: "rs-4+2".to_owned(), short: true, ..everything() };
        archive(&mut cluster, request).await.unwrap();
        deletions.await.unwrap();
        let stay = (0..40).filter(|&i| !goes(i)).map(|i| objects[i].clone()).collect::<Vec<_>>();
        all_read(&mut cluster, &stay).await;
    }
}

/// What the wall's clock shows to the one test that moves it.
static WALL_MS: AtomicU64 = AtomicU64::new(1_700_000_000_000);

const HOUR_MS: u64 = 3_600_000;

#[tokio::test(flavor = "multi_thread")]
async fn what_is_old_enough_in_a_bucket_that_says_so_is_archived_unasked() {
    let mut cluster = Cluster::aging(20, HASTY, || WALL_MS.load(Ordering::Relaxed), 50).await;
    let bucket = |name: &str, archive_after_ms| proto::Bucket {
        name: name.to_owned(),
        terms: Some(terms("random", "rs-2+1")),
        archive_after_ms,
    };
    cluster.client.set_bucket(bucket("b", 7 * 24 * HOUR_MS)).await.unwrap();
    cluster.client.set_bucket(bucket("other", 0)).await.unwrap();
    let listed = cluster.client.list_buckets(proto::Empty {}).await.unwrap().into_inner().buckets;
    assert_eq!(listed.iter().map(|b| b.archive_after_ms).collect::<Vec<_>>(), [7 * 24 * HOUR_MS, 0]);
    let objects = put_some(&mut cluster, 4).await;
    for index in 0..2 {
        cluster.put(&format!("other/{index}"), &bytes(9, BLOCK_BYTES as usize)).await.unwrap();
    }
    let task = async |c: &mut Cluster| {
        let tasks = c.status().await.tasks;
        tasks.into_iter().find(|task| task.name == "archive-aged").unwrap()
    };
    // Paused, it begins nothing however old they are; before that they are not old enough.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!((task(&mut cluster).await.done, cluster.status().await.stripes), (0, 0));
    let control = |action: &str| proto::TaskControl {
        name: "archive-aged".to_owned(),
        action: action.to_owned(),
        ..Default::default()
    };
    cluster.client.control_task(control("pause")).await.unwrap();
    WALL_MS.fetch_add(7 * 24 * HOUR_MS + 1, Ordering::Relaxed);
    let young = put_some_more(&mut cluster).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(cluster.status().await.stripes, 0);
    cluster.client.control_task(control("resume")).await.unwrap();
    cluster.until("they are archived", async |c| c.status().await.stripes == 2).await;
    for (name, _) in &objects {
        assert_eq!(cluster.lookup(name).await.unwrap().code, "rs-2+1");
    }
    all_read(&mut cluster, &objects).await;
    // Neither what was put too lately, nor what nobody said it of; and there is nothing more to begin.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(cluster.lookup(&young).await.unwrap().code, "rep-3");
    assert_eq!(cluster.lookup("other/0").await.unwrap().code, "rep-3");
    assert_eq!((task(&mut cluster).await.done, cluster.status().await.stripes), (1, 2));
}

/// An object of a stripe of its own, of the same bucket.
async fn put_some_more(cluster: &mut Cluster) -> String {
    for index in 0..2 {
        cluster.put(&format!("b/young-{index}"), &bytes(7, BLOCK_BYTES as usize / 4)).await.unwrap();
    }
    "b/young-0".to_owned()
}
