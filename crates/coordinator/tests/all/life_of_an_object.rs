//! Put, read, archive, lose nodes, repair, delete: what a client and an operator see.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use crate::support::{BLOCK_BYTES, Cluster, Settings, bytes, write_request, written};
use model::NodeId;
use std::collections::BTreeSet;
use tonic::Code;
use wire::proto;

/// Nodes die quickly, garbage goes quickly.
const HASTY: Settings = Settings { dead_after_ms: 1_200, garbage_grace_ms: 50, put_lease_ms: 60_000 };

fn by_index(object: &str, index: u64) -> proto::RepairRequest {
    proto::RepairRequest { object: object.to_owned(), index, ..Default::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_put_is_read_and_what_is_deleted_goes() {
    let mut cluster = Cluster::new(5, HASTY).await;
    let (long, short) = (bytes(1, 3 * BLOCK_BYTES as usize + 17), bytes(2, 5));
    let info = cluster.put("long", &long).await.unwrap();
    assert_eq!((info.object_bytes, info.block_count, info.code.as_str()), (12_017, 4, "rep-3"));
    cluster.put("short", &short).await.unwrap();
    cluster.put("empty", &[]).await.unwrap();
    assert_eq!(cluster.get("long").await.unwrap(), (long, 0));
    assert_eq!(cluster.get("empty").await.unwrap(), (vec![], 0));
    let empty = cluster.lookup("empty").await.unwrap();
    assert_eq!((empty.block_count, empty.blocks[0].stored_bytes), (1, 0));
    for block in cluster.lookup("long").await.unwrap().blocks {
        assert_eq!(block.living_nodes.iter().collect::<BTreeSet<_>>().len(), 3, "three distinct nodes");
    }

    // A new version replaces the old one, whose copies go.
    cluster.put("short", b"other").await.unwrap();
    assert_eq!(cluster.get("short").await.unwrap().0, b"other");
    cluster.delete("long").await.unwrap();
    assert_eq!(cluster.lookup("long").await.unwrap_err().code(), Code::NotFound);
    assert_eq!(cluster.delete("long").await.unwrap_err().code(), Code::NotFound);
    cluster.until("garbage goes", async |c| c.status().await.garbage == 0).await;
    cluster.nothing_leaked(&["short", "empty"]).await;

    let mut listed = Vec::new();
    let mut stream = cluster
        .client
        .list_objects(proto::ListObjectsRequest { prefix: "s".to_owned() })
        .await
        .unwrap()
        .into_inner();
    while let Some(object) = stream.message().await.unwrap() {
        listed.push(object.name);
    }
    assert_eq!(listed, ["short"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archived_object_survives_lost_nodes_and_is_repaired() {
    let mut cluster = Cluster::new(8, HASTY).await;
    // Two stripes; of the second one a short data block.
    let object = bytes(3, 5 * BLOCK_BYTES as usize + 123);
    cluster.put("object", &object).await.unwrap();
    let events = cluster.archive("object", "rs-4+2").await.unwrap();
    let end = events.last().unwrap();
    assert_eq!((end.done, end.total, end.failed, end.unit.as_str()), (2, 2, 0, "stripes"));
    assert_eq!(events.iter().filter(|e| e.flow.is_some()).count(), 2);
    let again = cluster.archive("object", "rs-4+2").await.unwrap();
    assert!(again.last().unwrap().message.contains("nothing to do"), "{again:?}");
    assert_eq!(cluster.archive("object", "rs-2+2").await.unwrap_err().code(), Code::FailedPrecondition);

    let info = cluster.lookup("object").await.unwrap();
    assert_eq!(info.code, "rs-4+2");
    let stripe = |index: usize| info.blocks[index].stripe.clone().unwrap();
    for members in [stripe(0).members, stripe(4).members] {
        let nodes: Vec<u32> = members.iter().map(|m| m.node).filter(|&node| node != 0).collect();
        assert_eq!(nodes.iter().collect::<BTreeSet<_>>().len(), nodes.len(), "a node for each block");
    }
    assert_eq!(
        stripe(4).members.iter().filter(|m| m.node == 0).count(),
        2,
        "a short stripe has absent members"
    );
    cluster.until("surplus replicas go", async |c| c.status().await.garbage == 0).await;
    cluster.nothing_leaked(&["object"]).await;
    assert_eq!(cluster.get("object").await.unwrap(), (object.clone(), 0));

    // Two nodes of the first stripe die: its blocks are decoded, then rebuilt.
    let lost = [info.blocks[0].nodes[0], stripe(0).members[5].node];
    cluster.kill(lost[0]).await;
    cluster.kill(lost[1]).await;
    let (read, degraded) = cluster.get("object").await.unwrap();
    assert_eq!(read, object);
    assert!(degraded > 0);
    let status = cluster.status().await;
    assert!(status.missing_blocks >= 2 && status.unrecoverable_blocks == 0, "{status:?}");

    cluster.world.flows();
    let alive = info.blocks.iter().position(|b| !lost.contains(&b.nodes[0])).unwrap() as u64;
    let events = cluster.repair(by_index("object", alive)).await.unwrap();
    assert!(events.last().unwrap().message.contains("nothing to repair"));
    assert!(cluster.world.flows().is_empty());
    for node in lost {
        let request = proto::RepairRequest { node, scheme: "conventional".to_owned(), ..Default::default() };
        let events = cluster.repair(request).await.unwrap();
        let end = events.last().unwrap();
        assert_eq!((end.done, end.failed), (end.total, 0));
    }
    let status = cluster.status().await;
    assert_eq!((status.missing_blocks, status.unrecoverable_blocks), (0, 0));
    for plan in cluster.world.flows() {
        let nodes: Vec<u32> = plan.participants.iter().map(|p| p.node).collect();
        assert_eq!(nodes.iter().collect::<BTreeSet<_>>().len(), nodes.len());
        assert!(!nodes.contains(&lost[0]) && !nodes.contains(&lost[1]), "the dead take no part");
    }
    assert_eq!(cluster.get("object").await.unwrap(), (object.clone(), 0));

    // What the dead nodes still hold is garbage when they come back.
    for node in lost {
        cluster.world.revive(node);
    }
    cluster.until("they are back", async |c| c.status().await.nodes.iter().all(|n| n.living)).await;
    cluster.until("their copies go", async |c| c.status().await.garbage == 0).await;
    cluster.nothing_leaked(&["object"]).await;
    assert_eq!(cluster.get("object").await.unwrap(), (object, 0));
    cluster.delete("object").await.unwrap();
    cluster.until("the stripes go", async |c| c.world.copies().is_empty()).await;
    assert_eq!(cluster.status().await.stripes, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repair_can_be_measured_without_any_loss_and_leaves_nothing() {
    let mut cluster = Cluster::new(7, HASTY).await;
    let object = bytes(4, 4 * BLOCK_BYTES as usize);
    cluster.put("object", &object).await.unwrap();
    cluster.archive("object", "rs-4+2").await.unwrap();
    let before = cluster.lookup("object").await.unwrap();
    cluster.world.flows();
    for scheme in flow::Scheme::all().map(flow::Scheme::name).chain(["auto"]) {
        let request =
            proto::RepairRequest { scheme: scheme.to_owned(), discard: true, ..by_index("object", 1) };
        let events = cluster.repair(request).await.unwrap();
        let event = events.iter().find(|e| e.flow.is_some()).unwrap();
        assert_eq!(event.block, before.blocks[1].block);
        // Of equally fast ones `auto` takes the one that crosses racks less.
        let chosen: &[&str] = if scheme == "auto" { &["pipeline", "rack-aware"] } else { &[scheme] };
        assert!(chosen.contains(&event.scheme.as_str()), "{}", event.scheme);
        let flow = cluster.world.flows().remove(0);
        let own = before.blocks[1].nodes[0];
        assert!(event.participants.iter().all(|p| p.node != own), "its own copy is no helper");
        assert_eq!(event.participants.len(), 5);
        let header = flow.header.unwrap();
        assert!(header.verify);
        assert_eq!(header.serial, scheme == "pipe-s");
        assert_eq!(flow.slice_count, if matches!(scheme, "ppr" | "pipe-b") { 1 } else { 4 }, "{scheme}");
        assert_eq!(event.message.contains("pipeline 1.750"), scheme == "auto", "{}", event.message);
        let sent: u64 = event.flow.as_ref().unwrap().links.iter().map(|l| l.bytes).sum();
        assert_eq!(sent, 4 * BLOCK_BYTES);
    }
    assert_eq!(cluster.lookup("object").await.unwrap(), before);
    cluster.until("garbage goes", async |c| c.status().await.garbage == 0).await;
    cluster.nothing_leaked(&["object"]).await;

    // A requestor of the operator's choice must not hold a block of the stripe.
    let holder = before.blocks[0].nodes[0];
    let request = proto::RepairRequest { discard: true, requestor: holder, ..by_index("object", 1) };
    let refused = cluster.repair(request).await.unwrap_err();
    assert!(refused.message().contains("holds a block"), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_tells_what_a_repair_will_send() {
    let mut cluster = Cluster::new(7, Settings::default()).await;
    cluster.put("object", &bytes(5, 4 * BLOCK_BYTES as usize)).await.unwrap();
    cluster.archive("object", "rs-4+2").await.unwrap();
    cluster.world.flows();
    let reply = cluster
        .client
        .explain(proto::RepairRequest { slice_bytes: 1024, ..by_index("object", 0) })
        .await
        .unwrap()
        .into_inner();
    assert!(cluster.world.flows().is_empty(), "nothing runs");
    let json: serde_json::Value = serde_json::from_str(&reply.json).unwrap();
    let plans = json["plans"].as_array().unwrap();
    let of = |scheme: &str| plans.iter().find(|p| p["scheme"] == scheme).unwrap().clone();
    let (star, chain) = (of("conventional"), of("pipeline"));
    assert_eq!(star["network_bytes"], 4 * BLOCK_BYTES);
    assert_eq!(chain["network_bytes"], 4 * BLOCK_BYTES);
    assert!((star["timeslots"].as_f64().unwrap() - 4.0).abs() < 1e-9);
    // 1 + (k−1)/s with s = 4 slices (RP §3.2).
    assert!((chain["timeslots"].as_f64().unwrap() - 1.75).abs() < 1e-9);
    // ⌈log2(k+1)⌉ for whole blocks, k along a chain of them; streamed, the tree's largest in-degree and a slice (RP §2.2).
    for (scheme, timeslots) in [("ppr", 3.0), ("pipe-b", 4.0), ("ppr-sliced", 2.25), ("pipe-s", 1.75)] {
        assert!((of(scheme)["timeslots"].as_f64().unwrap() - timeslots).abs() < 1e-9, "{scheme}");
    }
    let chosen = json["chosen"]["scheme"].as_str().unwrap();
    let crossing = |scheme: &str| of(scheme)["cross_rack_bytes"].as_u64().unwrap();
    let fewer = crossing("rack-aware") < crossing("pipeline");
    assert_eq!(chosen, if fewer { "rack-aware" } else { "pipeline" });
    assert!(reply.text.contains(&format!("auto takes {chosen}, fewest timeslots")), "{}", reply.text);
    assert!(reply.text.contains("== pipeline") && reply.dot.starts_with("digraph"));
}

#[tokio::test(flavor = "multi_thread")]
async fn lies_are_noticed_blamed_and_worked_around() {
    let mut cluster = Cluster::new(9, HASTY).await;
    let object = bytes(6, 4 * BLOCK_BYTES as usize);
    cluster.put("object", &object).await.unwrap();
    // A parity is spoilt: only the fingerprints can tell, before the replicas go.
    cluster.world.lie();
    let events = cluster.archive("object", "rs-4+2").await.unwrap();
    let said = |what: &str| events.iter().any(|e| e.message.contains(what));
    assert!(said("does not satisfy"), "{events:?}");
    assert_eq!(cluster.get("object").await.unwrap(), (object.clone(), 0));
    cluster.until("surplus replicas and spoilt parities go", async |c| c.status().await.garbage == 0).await;
    cluster.nothing_leaked(&["object"]).await;
    let info = cluster.lookup("object").await.unwrap();
    cluster.kill(info.blocks[2].nodes[0]).await;
    cluster.world.lie();
    let events = cluster.repair(by_index("object", 2)).await.unwrap();
    assert!(events.iter().any(|e| e.message.contains("attempt 1")), "{events:?}");
    assert_eq!(cluster.get("object").await.unwrap(), (object, 0));
    // What remains is the copy on the dead node.
    cluster.until("failed attempts leave nothing", async |c| c.status().await.garbage == 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_copy_is_dropped_and_repaired_unless_it_is_the_last_resort() {
    let mut cluster = Cluster::new(6, HASTY).await;
    let object = bytes(7, 2 * BLOCK_BYTES as usize);
    cluster.put("object", &object).await.unwrap();
    let block = cluster.lookup("object").await.unwrap().blocks[0].clone();
    let bad = block.nodes[0];
    cluster.world.corrupt(bad, &block.block);
    cluster
        .until("the copy is replaced", async |c| {
            let nodes = c.lookup("object").await.unwrap().blocks[0].nodes.clone();
            nodes.len() == 3 && (!nodes.contains(&bad) || c.world.status(bad).corrupt_blocks.is_empty())
        })
        .await;
    // The last copy is kept, however bad: something may be read from it yet.
    cluster.put_with("single", b"only one", BLOCK_BYTES, 1).await.unwrap();
    let single = cluster.lookup("single").await.unwrap().blocks[0].clone();
    let fault = model::Fault::new(model::Cause::CorruptBlock, "test")
        .suspecting(NodeId(single.nodes[0]), NodeId(single.nodes[0]))
        .about(model::BlockId::from_slice(&single.block).unwrap());
    cluster.client.report_fault(proto::Fault::from(fault)).await.unwrap();
    assert_eq!(cluster.lookup("single").await.unwrap().blocks[0].nodes, single.nodes);
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_avoid_choose_and_fail_with_a_clear_word() {
    let mut cluster = Cluster::new(7, HASTY).await;
    let object = bytes(8, 4 * BLOCK_BYTES as usize);
    cluster.put("object", &object).await.unwrap();
    cluster.archive("object", "rs-4+2").await.unwrap();
    let info = cluster.lookup("object").await.unwrap();
    let (block, home) = (info.blocks[1].block.clone(), info.blocks[1].nodes[0]);

    let healthy = cluster.plan_read(&block, 1_500, 100, "", &[]).await.unwrap();
    let plan = healthy.plan.clone().unwrap();
    assert!(!healthy.degraded);
    assert_eq!((plan.first_slice, plan.slice_count), (1, 1));
    assert_eq!(plan.predicted.iter().map(|l| l.bytes).sum::<u64>(), 1024);
    let start = BLOCK_BYTES as usize + 1_500;
    assert_eq!(cluster.world.read(&healthy).unwrap(), object[start..start + 100]);

    for (asked, used) in [("", "conventional"), ("pipeline", "pipeline")] {
        let reply = cluster.plan_read(&block, 1_500, 100, asked, &[home]).await.unwrap();
        assert!(reply.degraded);
        assert_eq!(reply.plan.as_ref().unwrap().scheme, used);
        assert_eq!(cluster.world.read(&reply).unwrap(), object[start..start + 100]);
    }
    let unknown = cluster.plan_read(&block, 0, 1, "magic", &[home]).await.unwrap_err();
    assert_eq!(unknown.code(), Code::InvalidArgument);
    assert!(unknown.message().contains("pipeline"), "the known schemes are named: {unknown:?}");
    assert_eq!(cluster.plan_read(&block, 3_999, 2, "", &[]).await.unwrap_err().code(), Code::InvalidArgument);
    assert_eq!(cluster.plan_read(&[7; 16], 0, 1, "", &[]).await.unwrap_err().code(), Code::NotFound);
    let members = info.blocks[1].stripe.clone().unwrap().members;
    let most: Vec<u32> = members.iter().map(|m| m.node).filter(|&n| n != members[0].node).collect();
    let lost = cluster.plan_read(&block, 0, 1, "", &most).await.unwrap_err();
    assert_eq!(lost.code(), Code::Unavailable);
    assert!(lost.message().contains("1 of the 4"), "{lost:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_put_goes_around_nodes_that_failed_and_leaves_no_trace_when_given_up() {
    let mut cluster = Cluster::new(5, HASTY).await;
    let begin =
        proto::BeginPutRequest { name: "object".to_owned(), block_bytes: 4_000, replicas: 3, gathers: None };
    let begun = cluster.client.begin_put(begin.clone()).await.unwrap().into_inner();
    let request = write_request(&begun.put, 0, b"whole", true);
    let first = cluster.client.plan_write(request.clone()).await.unwrap().into_inner().plan.unwrap();
    let early = cluster.world.run(&first, b"whole", 0).unwrap().staged;
    let used: Vec<u32> = first.participants.iter().map(|p| p.node).filter(|&n| n != 0).collect();
    let request = proto::PlanWriteRequest { avoid: used[..2].to_vec(), ..request };
    let second = cluster.client.plan_write(request.clone()).await.unwrap().into_inner().plan.unwrap();
    assert!(second.participants.iter().all(|p| !used[..2].contains(&p.node)));
    let staged = cluster.world.run(&second, b"whole", 0).unwrap().staged;
    assert_ne!(staged[0].block, early[0].block, "another attempt writes another block");

    // What does not fit what was planned is refused, and changes nothing.
    let commit = proto::CommitPutRequest {
        parities: Vec::new(),
        put: begun.put.clone(),
        blocks: vec![written(&staged)],
        object_bytes: 5,
        digest: vec![1; 32],
    };
    let wrong = [
        proto::CommitPutRequest { object_bytes: 6, ..commit.clone() },
        proto::CommitPutRequest { blocks: vec![], ..commit.clone() },
        proto::CommitPutRequest { blocks: vec![written(&staged); 2], ..commit.clone() },
        proto::CommitPutRequest { digest: vec![1], ..commit.clone() },
        proto::CommitPutRequest {
            blocks: vec![proto::WrittenBlock { nodes: used.clone(), ..written(&staged) }],
            ..commit.clone()
        },
        proto::CommitPutRequest {
            blocks: vec![proto::WrittenBlock { digest: vec![2; 32], ..written(&staged) }],
            ..commit.clone()
        },
    ];
    for commit in wrong {
        assert_eq!(cluster.client.commit_put(commit).await.unwrap_err().code(), Code::InvalidArgument);
    }
    let first = cluster.client.commit_put(commit.clone()).await.unwrap().into_inner();
    // Its answer may have been lost.
    assert_eq!(cluster.client.commit_put(commit.clone()).await.unwrap().into_inner(), first);
    let another = proto::CommitPutRequest { digest: vec![2; 32], ..commit };
    assert_eq!(cluster.client.commit_put(another).await.unwrap_err().code(), Code::NotFound);
    cluster.until("the first copies go", async |c| c.status().await.garbage == 0).await;
    cluster.nothing_leaked(&["object"]).await;

    let begun = cluster.client.begin_put(begin).await.unwrap().into_inner();
    let plan = cluster.client.plan_write(write_request(&begun.put, 0, b"never", true)).await.unwrap();
    cluster.world.run(&plan.into_inner().plan.unwrap(), b"never", 0).unwrap();
    cluster.client.abort_put(proto::AbortPutRequest { put: begun.put }).await.unwrap();
    cluster.until("its copies go", async |c| c.status().await.garbage == 0).await;
    cluster.nothing_leaked(&["object"]).await;
    assert_eq!(cluster.get("object").await.unwrap().0, b"whole");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_put_that_its_client_forgot_ends_with_its_lease() {
    let mut cluster = Cluster::new(3, Settings { put_lease_ms: 200, ..HASTY }).await;
    let begin =
        proto::BeginPutRequest { name: "object".to_owned(), block_bytes: 4_000, replicas: 3, gathers: None };
    let begun = cluster.client.begin_put(begin).await.unwrap().into_inner();
    let plan = cluster.client.plan_write(write_request(&begun.put, 0, b"late", true)).await.unwrap();
    let staged = cluster.world.run(&plan.into_inner().plan.unwrap(), b"late", 0).unwrap().staged;
    cluster.until("its copies go", async |c| c.world.copies().is_empty()).await;
    let commit = proto::CommitPutRequest {
        parities: Vec::new(),
        put: begun.put,
        blocks: vec![written(&staged)],
        object_bytes: 4,
        digest: vec![1; 32],
    };
    assert_eq!(cluster.client.commit_put(commit).await.unwrap_err().code(), Code::NotFound);
    assert_eq!(cluster.lookup("object").await.unwrap_err().code(), Code::NotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_requests_get_one_clear_sentence() {
    let mut cluster = Cluster::new(3, Settings::default()).await;
    for name in ["", "a\nb", &"x".repeat(1025)] {
        assert_eq!(cluster.put(name, b"x").await.unwrap_err().code(), Code::InvalidArgument, "{name:?}");
    }
    cluster.put("object", b"x").await.unwrap();
    let codes = ["rs-10+4", "rs-4", "rep-3", ""];
    let expected =
        [Code::FailedPrecondition, Code::InvalidArgument, Code::InvalidArgument, Code::InvalidArgument];
    for (code, expected) in codes.into_iter().zip(expected) {
        let status = cluster.archive("object", code).await.unwrap_err();
        assert_eq!(status.code(), expected, "{code}: {status:?}");
        assert!(!status.message().contains('\n'));
    }
    let alive = cluster.repair(proto::RepairRequest { node: 2, ..Default::default() }).await.unwrap_err();
    assert!(alive.message().contains("node stop"), "{alive:?}");
    let nothing = cluster.repair(proto::RepairRequest::default()).await.unwrap_err();
    assert_eq!(nothing.code(), Code::InvalidArgument);
    let task = cluster.control("gcc", "pause").await.unwrap_err();
    assert!(task.message().contains("gc, "), "the names are listed: {task:?}");
    assert_eq!(cluster.control("gc", "explode").await.unwrap_err().code(), Code::InvalidArgument);
    assert_eq!(cluster.control("gc", "pause").await.unwrap().state, "paused");
    let control =
        proto::TaskControl { name: "scrub".to_owned(), action: "status".to_owned(), node: 2, version: 0 };
    assert_eq!(cluster.client.control_task(control).await.unwrap().into_inner().name, "scrub of node 2");
    let throttle = proto::Throttle { egress_bytes_per_s: 7, ingress_bytes_per_s: 7 };
    cluster.client.set_throttle(throttle).await.unwrap();
    assert_eq!(cluster.world.throttles().len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_enough_nodes_nothing_is_promised() {
    let world = crate::support::world::World::start(3).await;
    (1..=3).for_each(|node| world.kill(node));
    let mut cluster = Cluster::with(std::sync::Arc::clone(&world), Settings::default()).await.unwrap();
    assert_eq!(cluster.put("object", b"x").await.unwrap_err().code(), Code::FailedPrecondition);
    world.revive(1);
    cluster.join(1).await.unwrap();
    cluster.put("alone", b"x").await.expect("a cluster of one node is all there is");
    world.revive(2);
    cluster.join(2).await.unwrap();
    let info = cluster.put("two", b"x").await.unwrap();
    assert_eq!(info.code, "rep-2");
}
