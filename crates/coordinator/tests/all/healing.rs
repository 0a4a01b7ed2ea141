//! What lacks copies gets them, nobody asking.

use crate::support::world::World;
use crate::support::{BLOCK_BYTES, Cluster, Settings, bytes, write_request, written};
use coordinator::Config;
use model::Assign;
use std::collections::BTreeMap;
use std::time::Duration;
use wire::proto;

const HASTY: Settings = Settings { dead_after_ms: 600, garbage_grace_ms: 50, put_lease_ms: 60_000 };

/// A put of three replicas of one block, the last of which did not come to be.
async fn put_short(cluster: &mut Cluster, name: &str, bytes: &[u8]) {
    let begin = proto::BeginPutRequest {
        name: name.to_owned(),
        block_bytes: BLOCK_BYTES.max(bytes.len() as u64),
        replicas: 3,
        gathers: None,
    };
    let put = cluster.client.begin_put(begin).await.unwrap().into_inner().put;
    let planned = cluster.client.plan_write(write_request(&put, 0, bytes, true)).await.unwrap().into_inner();
    let staged = cluster.world.run(planned.plan.as_ref().unwrap(), bytes, 0).unwrap().staged;
    cluster.world.lose(staged[2].node, &staged[2].block);
    let commit = proto::CommitPutRequest {
        put,
        blocks: vec![written(&staged[..2])],
        object_bytes: bytes.len() as u64,
        digest: blake3::hash(bytes).as_bytes().to_vec(),
        parities: Vec::new(),
    };
    cluster.client.commit_put(commit).await.unwrap();
}

async fn health(cluster: &mut Cluster) -> proto::HealthReply {
    cluster.client.get_health(proto::Empty {}).await.unwrap().into_inner()
}

fn by_margin(counts: &[proto::MarginCount]) -> Vec<(u64, u64)> {
    counts.iter().map(|counted| (counted.losses, counted.count)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_short_when_it_was_put_gets_its_copies_unasked() {
    let mut cluster = Cluster::new(5, Settings::default()).await;
    cluster.control("healer", "pause").await.unwrap();
    put_short(&mut cluster, "short", b"bytes").await;
    cluster.put("whole", b"bytes").await.unwrap();
    // Nothing that was in memory is there any more.
    let mut cluster = cluster.restart().await;
    cluster.until("all nodes are back", async |c| c.status().await.nodes.iter().all(|n| n.living)).await;
    let before = health(&mut cluster).await;
    assert_eq!((by_margin(&before.objects), before.short_blocks), (vec![(1, 1), (2, 1)], 1), "{before:?}");
    assert_eq!((before.unreadable_objects, before.missing_copies, before.damaged_copies), (0, 0, 0));
    assert_eq!((before.short_bytes, before.healed_bytes_per_s), (5, None));
    cluster.control("healer", "resume").await.unwrap();
    cluster.until("it has three", async |c| health(c).await.short_blocks == 0).await;
    assert_eq!(by_margin(&health(&mut cluster).await.objects), [(2, 2)]);
    assert_eq!(cluster.lookup("short").await.unwrap().blocks[0].nodes.len(), 3);
    assert_eq!(cluster.get("short").await.unwrap().0, b"bytes");
}

/// Its node tells of the damage while the catalog knows nothing of the copy: that is not the last word on it.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_damaged_before_its_put_was_committed_is_noted_afterwards() {
    let mut cluster = Cluster::new(5, Settings::default()).await;
    cluster.control("healer", "pause").await.unwrap();
    let begin = proto::BeginPutRequest {
        name: "object".to_owned(),
        block_bytes: BLOCK_BYTES,
        replicas: 3,
        gathers: None,
    };
    let put = cluster.client.begin_put(begin).await.unwrap().into_inner().put;
    let planned =
        cluster.client.plan_write(write_request(&put, 0, b"bytes", true)).await.unwrap().into_inner();
    let staged = cluster.world.run(planned.plan.as_ref().unwrap(), b"bytes", 0).unwrap().staged;
    let bad = staged[1].node;
    cluster.world.corrupt(bad, &staged[1].block);
    let is_told = async |c: &mut Cluster| {
        let mut nodes = c.status().await.nodes.into_iter();
        let status = nodes.find(|node| node.node == bad).unwrap().status;
        status.is_some_and(|status| !status.corrupt_blocks.is_empty())
    };
    cluster.until("the damage is told", is_told).await;
    let commit = proto::CommitPutRequest {
        put,
        blocks: vec![written(&staged)],
        object_bytes: 5,
        digest: blake3::hash(b"bytes").as_bytes().to_vec(),
        parities: Vec::new(),
    };
    cluster.client.commit_put(commit).await.unwrap();
    cluster.until("it is noted", async |c| health(c).await.damaged_copies == 1).await;
    let nodes = &cluster.lookup("object").await.unwrap().blocks[0].nodes;
    assert!(nodes.len() == 2 && !nodes.contains(&bad), "nobody counts on it: {nodes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn helpers_are_assigned_to_many_blocks_as_the_operator_wants_it() {
    const MANY: usize = 40;
    let world = World::start(6).await;
    let set = |config: &mut Config| config.assign = Assign::LowestIndex;
    let mut cluster = Cluster::set(world, Settings::default(), set).await;
    cluster.control("healer", "pause").await.unwrap();
    let mut lowest: BTreeMap<Vec<u8>, u32> = BTreeMap::new();
    for block in 0..MANY {
        let name = format!("short-{block}");
        put_short(&mut cluster, &name, b"bytes").await;
        let block = cluster.lookup(&name).await.unwrap().blocks.remove(0);
        lowest.insert(block.block, block.nodes.into_iter().min().unwrap());
    }
    cluster.world.flows();
    cluster.control("healer", "resume").await.unwrap();
    cluster.until("they have three", async |c| health(c).await.short_blocks == 0).await;
    // Of two copies the least recently used one would have been read, or the one with less to do.
    let mut written: BTreeMap<u32, usize> = BTreeMap::new();
    for flow in cluster.world.flows() {
        let read = flow.stages.iter().flat_map(|stage| stage.inputs.iter().map(move |input| (stage, input)));
        for (stage, input) in read {
            if let Some(proto::stage_input::Kind::Local(read)) = &input.kind {
                assert_eq!(stage.site, lowest[&read.block.as_ref().unwrap().block]);
            }
        }
        let writes = |stage: &&proto::Stage| {
            stage.outputs.iter().any(|o| matches!(o.kind, Some(proto::stage_output::Kind::Write(_))))
        };
        flow.stages.iter().filter(writes).for_each(|stage| *written.entry(stage.site).or_default() += 1);
    }
    assert_eq!(written.values().sum::<usize>(), MANY, "{written:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_node_is_there_for_is_told_and_made_once_one_comes() {
    let world = World::start(4).await;
    world.kill(4);
    let mut cluster = Cluster::with(std::sync::Arc::clone(&world), HASTY).await.unwrap();
    put_short(&mut cluster, "short", b"bytes").await;
    cluster.until("it has three", async |c| health(c).await.short_blocks == 0).await;
    let block = cluster.lookup("short").await.unwrap().blocks[0].clone();
    let node = block.nodes[0];
    cluster.kill(node).await;
    let lost = cluster.lookup("short").await.unwrap().blocks[0].nodes.clone();
    assert!(lost.contains(&node), "it is noted yet: its node may return");
    let told = health(&mut cluster).await;
    assert_eq!((told.short_blocks, told.waiting_for_nodes), (1, 1), "no lack, but what a recovery is for");
    let forget = proto::ForgetNodeRequest { node, accept_loss: true };
    cluster.client.forget_node(forget).await.unwrap();
    cluster
        .until("it is told why it gets none", async |c| {
            health(c)
                .await
                .hindrances
                .iter()
                .any(|told| told.why.contains("every node that takes blocks has a copy"))
        })
        .await;
    world.revive(4);
    cluster.join(4).await.unwrap();
    cluster.until("it has three again", async |c| health(c).await.short_blocks == 0).await;
    assert!(cluster.lookup("short").await.unwrap().blocks[0].nodes.contains(&4));
    cluster.until("nothing hinders", async |c| health(c).await.hindrances.is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_node_has_room_for_is_made_once_one_has() {
    let mut cluster = Cluster::new(4, Settings::default()).await;
    cluster.control("healer", "pause").await.unwrap();
    put_short(&mut cluster, "short", b"bytes").await;
    cluster.world.hold(0);
    cluster
        .until("no node has room", async |c| {
            let nodes = c.status().await.nodes;
            nodes.iter().all(|node| node.status.as_ref().is_some_and(|status| status.free_bytes == Some(0)))
        })
        .await;
    // Decisions see nodes as they were a moment ago.
    tokio::time::sleep(Duration::from_millis(500)).await;
    cluster.control("healer", "resume").await.unwrap();
    let why = "have room for";
    cluster
        .until("it is told why it gets none", async |c| {
            health(c).await.hindrances.iter().any(|told| told.why.contains(why))
        })
        .await;
    // Far sooner than it would be tried again by itself.
    cluster.world.hold(1 << 40);
    cluster.until("it has three", async |c| health(c).await.short_blocks == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_survives_no_further_loss_is_made_long_before_its_node_is_given_up() {
    // A fifteenth of it is waited for then: two seconds.
    let mut cluster = Cluster::waiting(8, HASTY, 30_000).await;
    let content = bytes(1, 3 * BLOCK_BYTES as usize);
    cluster.put("coded", &content).await.unwrap();
    cluster.archive("coded", "rs-3+2").await.unwrap();
    cluster.until("surplus replicas go", async |c| c.status().await.garbage == 0).await;
    let blocks = cluster.lookup("coded").await.unwrap().blocks;
    let margins = async |cluster: &mut Cluster| by_margin(&health(cluster).await.stripes);
    assert_eq!(margins(&mut cluster).await, [(2, 1)]);
    cluster.kill(blocks[0].nodes[0]).await;
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(margins(&mut cluster).await, [(1, 1)], "it is waited for: others stand in");
    // The first one has been dead for long enough: it would be made before anybody looks.
    cluster.control("healer", "pause").await.unwrap();
    cluster.kill(blocks[1].nodes[0]).await;
    assert_eq!(margins(&mut cluster).await, [(0, 1)]);
    cluster.control("healer", "resume").await.unwrap();
    cluster.until("one is made", async |c| margins(c).await == [(1, 1)]).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(margins(&mut cluster).await, [(1, 1)], "the other one is waited for");
    assert_eq!(health(&mut cluster).await.short_blocks, 1);
    assert_eq!(cluster.get("coded").await.unwrap().0, content);
    let status = cluster.status().await;
    let recovery = status.tasks.iter().find(|task| task.name == "auto-recovery").unwrap();
    assert_eq!((recovery.done, recovery.detail.matches("is dead; its recovery begins in").count()), (0, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn members_in_racks_that_hold_too_many_move_once_there_are_others() {
    let world = World::start(8).await;
    // Nodes 2 and 3 share a rack, and 4 and 5.
    const LATER: [u32; 4] = [1, 6, 7, 8];
    LATER.iter().for_each(|&node| world.kill(node));
    let mut cluster = Cluster::with(world, HASTY).await.unwrap();
    let content = bytes(1, 3 * BLOCK_BYTES as usize);
    cluster.put("coded", &content).await.unwrap();
    cluster.archive("coded", "rs-3+1").await.unwrap();
    let racks = |cluster: &Cluster| {
        let mut racks: Vec<u32> = cluster.world.copies().iter().map(|(node, _)| node / 2).collect();
        racks.sort_unstable();
        racks
    };
    cluster.until("surplus replicas go", async |c| c.status().await.garbage == 0).await;
    assert_eq!(racks(&cluster), [1, 1, 2, 2], "there are no others");
    for node in LATER {
        cluster.world.revive(node);
        cluster.join(node).await.unwrap();
    }
    let spread = |c: &Cluster| {
        let mut apart = racks(c);
        apart.dedup();
        apart.len() == 4 && racks(c).len() == 4
    };
    cluster.until("no rack has two", async |c| spread(c)).await;
    assert_eq!(cluster.get("coded").await.unwrap(), (content, 0));
    assert_eq!(by_margin(&health(&mut cluster).await.stripes), [(1, 1)]);
    // Nothing goes on moving.
    cluster.world.flows();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(cluster.world.flows().len(), 0);
}
