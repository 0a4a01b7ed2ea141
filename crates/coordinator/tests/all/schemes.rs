//! The schemes that look at the network: who helps, in which order, and what crosses racks.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use crate::support::{BLOCK_BYTES, Cluster, Settings, bytes};
use std::collections::BTreeMap;
use wire::proto;

fn measured(scheme: &str) -> proto::RepairRequest {
    proto::RepairRequest {
        object: "object".to_owned(),
        index: 1,
        scheme: scheme.to_owned(),
        slice_bytes: 1024,
        discard: true,
        ..Default::default()
    }
}

/// A cluster with one stripe of rs-4+4 on ten nodes, two to a rack.
async fn cluster() -> Cluster {
    let mut cluster = Cluster::new(10, Settings::default()).await;
    cluster.put("object", &bytes(1, 4 * BLOCK_BYTES as usize)).await.unwrap();
    cluster.archive("object", "rs-4+4").await.unwrap();
    cluster.world.flows();
    cluster
}

/// Bytes between racks, and the most streams that enter or leave a rack.
fn crossings(plan: &proto::FlowPlan) -> (u64, usize) {
    let racks: BTreeMap<u32, u32> = plan.participants.iter().map(|p| (p.site, p.rack)).collect();
    let crossing: Vec<_> = plan.predicted.iter().filter(|l| racks[&l.from] != racks[&l.to]).collect();
    let mut streams: BTreeMap<(bool, u32), usize> = BTreeMap::new();
    for link in &crossing {
        *streams.entry((false, racks[&link.from])).or_default() += 1;
        *streams.entry((true, racks[&link.to])).or_default() += 1;
    }
    (crossing.iter().map(|l| l.bytes).sum(), streams.into_values().max().unwrap_or(0))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rack_aware_repair_crosses_racks_as_rarely_as_any() {
    let mut cluster = cluster().await;
    // The requestor is alone in its rack or has one helper there; other racks have at most two. So four helpers
    // need two streams between racks, never fewer.
    cluster.repair(measured("rack-aware")).await.unwrap();
    let plan = cluster.world.flows().remove(0);
    assert_eq!((plan.scheme.as_str(), plan.participants.len()), ("rack-aware", 5));
    let (bytes, streams) = crossings(&plan);
    assert_eq!((bytes, streams), (2 * BLOCK_BYTES, 1));
    let reply = cluster.client.explain(measured("rack-aware")).await.unwrap().into_inner();
    let json: serde_json::Value = serde_json::from_str(&reply.json).unwrap();
    assert_eq!(json["plans"][0]["cross_rack_bytes"], 2 * BLOCK_BYTES);
    assert_eq!(json["plans"][0]["network_bytes"], 4 * BLOCK_BYTES);
}

#[tokio::test(flavor = "multi_thread")]
async fn lanes_run_ahead_by_what_is_under_way_in_them() {
    let mut cluster = cluster().await;
    let mut window = async |scheme| {
        cluster.repair(measured(scheme)).await.unwrap();
        cluster.world.flows().remove(0).header.unwrap().lane_window_slices
    };
    // Lanes over four helpers to the requestor, and two slices in each of a lane's stages.
    assert_eq!(window("cyclic").await, 5 * 2);
    assert_eq!(window("pipeline").await, 32 << 10);
}

/// Several lanes share ports: on links that are known none begins faster than all of them can go on.
#[tokio::test(flavor = "multi_thread")]
async fn lanes_begin_as_fast_as_links_carry_their_payload() {
    let mut cluster = cluster().await;
    cluster.repair(measured("cyclic")).await.unwrap();
    assert_eq!(cluster.world.flows().remove(0).symbol_bytes_per_s, 0, "nothing is known");
    // Ports of 250 Mb/s, links of 100.
    let (nodes, rows) = (vec![250.0; 10], vec![vec![100.0; 10]; 10]);
    let table = serde_json::json!({ "bandwidth": rows, "up": nodes, "down": nodes }).to_string();
    cluster.client.set_links(proto::LinkTable { json: table }).await.unwrap();
    cluster.repair(measured("weighted")).await.unwrap();
    assert_eq!(cluster.world.flows().remove(0).symbol_bytes_per_s, 0, "one lane meets nobody");
    for scheme in ["cyclic", "multi-path"] {
        cluster.repair(measured(scheme)).await.unwrap();
        let plan = cluster.world.flows().remove(0);
        assert!(plan.shares.len() > 1, "{scheme}");
        let mut ports: BTreeMap<(bool, u32), u64> = BTreeMap::new();
        for link in &plan.predicted {
            *ports.entry((false, link.from)).or_default() += link.bytes;
            *ports.entry((true, link.to)).or_default() += link.bytes;
        }
        let slowest = |bytes: Option<u64>, mbit: f64| bytes.unwrap() as f64 / (mbit * 125e3);
        let seconds = slowest(plan.predicted.iter().map(|link| link.bytes).max(), 100.0)
            .max(slowest(ports.into_values().max(), 250.0));
        // Headers take a twentieth.
        let expected = 0.95 * BLOCK_BYTES as f64 / seconds;
        let ratio = plan.symbol_bytes_per_s as f64 / expected;
        assert!((ratio - 1.0).abs() < 1e-3, "{scheme}: {} for {expected}", plan.symbol_bytes_per_s);
    }
}

/// A table in which every link is 1000 Mb/s but those that touch `slow`.
fn links(slow: &[u32]) -> proto::LinkTable {
    let rate = |from: u32, to: u32| if slow.contains(&from) || slow.contains(&to) { 10.0 } else { 1000.0 };
    let rows: Vec<Vec<f64>> = (1..=10).map(|from| (1..=10).map(|to| rate(from, to)).collect()).collect();
    proto::LinkTable { json: serde_json::json!({ "bandwidth": rows }).to_string() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_weighted_repair_goes_around_slow_links_that_the_coordinator_remembers() {
    let mut cluster = cluster().await;
    let info = cluster.lookup("object").await.unwrap();
    let members = info.blocks[1].stripe.clone().unwrap().members;
    // Three of the seven survivors are slow: the other four help, whoever helped last.
    let slow: Vec<u32> = [0, 3, 6].map(|member: usize| members[member].node).to_vec();
    for wrong in
        [r#"{"bandwidth": [[1]], "up": [1, 2]}"#, r#"{"bandwidth": [[1, -1], [1, 1]]}"#, "[", r#"{"x": 1}"#]
    {
        let refused =
            cluster.client.set_links(proto::LinkTable { json: wrong.to_owned() }).await.unwrap_err();
        assert_eq!(refused.code(), tonic::Code::InvalidArgument, "{wrong}: {refused:?}");
    }
    cluster.client.set_links(links(&slow)).await.unwrap();
    let kept = cluster.client.get_links(proto::Empty {}).await.unwrap().into_inner();
    assert_eq!(kept, links(&slow));
    cluster.again().await.unwrap();
    for _ in 0..3 {
        cluster.repair(measured("weighted")).await.unwrap();
    }
    for plan in cluster.world.flows() {
        assert_eq!((plan.scheme.as_str(), plan.participants.len()), ("weighted", 5));
        assert!(plan.participants.iter().all(|p| !slow.contains(&p.node)), "{:?}", plan.participants);
        assert!(plan.predicted.iter().all(|l| l.bytes == BLOCK_BYTES));
    }
}

/// Helpers that are named stand on the chain in that order, also where others would have been due; the rest follow them.
#[tokio::test(flavor = "multi_thread")]
async fn named_helpers_are_preferred_in_their_order() {
    let mut cluster = cluster().await;
    let info = cluster.lookup("object").await.unwrap();
    let members = info.blocks[1].stripe.clone().unwrap().members;
    let named: Vec<u32> = [7, 0, 5, 2].map(|member: usize| members[member].node).to_vec();
    let chain = |plan: &proto::FlowPlan| {
        let next = |from: u32| plan.predicted.iter().find(|l| l.from == from).map(|l| l.to);
        let to: Vec<u32> = plan.predicted.iter().map(|l| l.to).collect();
        let first = plan.predicted.iter().map(|l| l.from).find(|from| !to.contains(from));
        std::iter::successors(first, |&from| next(from)).collect::<Vec<u32>>()
    };
    for _ in 0..2 {
        let request = proto::RepairRequest { helpers: named.clone(), ..measured("pipeline") };
        cluster.repair(request).await.unwrap();
        assert_eq!(chain(&cluster.world.flows()[0])[..4], named);
    }
    let request = proto::RepairRequest { helpers: named[..2].to_vec(), ..of_stripe("pipeline", &[1, 6]) };
    cluster.repair(request).await.unwrap();
    assert_eq!(chain(&cluster.world.flows()[0])[..2], named[..2]);
    let of_node = proto::RepairRequest { node: named[0], helpers: named, ..Default::default() };
    let refused = cluster.repair(of_node).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::InvalidArgument, "{refused:?}");
}

fn of_stripe(scheme: &str, members: &[u32]) -> proto::RepairRequest {
    proto::RepairRequest {
        stripe: true,
        members: members.to_vec(),
        discard: !members.is_empty(),
        ..measured(scheme)
    }
}

/// RP §4.4: one pass makes f blocks at f requestors, and every helper reads once.
#[tokio::test(flavor = "multi_thread")]
async fn several_blocks_of_a_stripe_are_measured_in_one_pass() {
    let mut cluster = cluster().await;
    let before = cluster.lookup("object").await.unwrap();
    let members = before.blocks[1].stripe.clone().unwrap().members;
    for scheme in ["pipeline", "conventional", "rack-aware", "weighted", "pipe-b", "auto"] {
        let events = cluster.repair(of_stripe(scheme, &[1, 6])).await.unwrap();
        assert_eq!(events.last().unwrap().message, "2 blocks were rebuilt, verified and thrown away");
        let flows = cluster.world.flows();
        assert_eq!(flows.len(), 1);
        let plan = &flows[0];
        let writers: Vec<u32> = plan
            .stages
            .iter()
            .filter(|s| s.outputs.iter().any(|o| matches!(o.kind, Some(proto::stage_output::Kind::Write(_)))))
            .map(|s| s.site)
            .collect();
        assert_eq!(writers.len(), 2);
        assert!(
            writers.iter().all(|node| members.iter().all(|m| m.node != *node)),
            "no second block of a stripe"
        );
        let helpers = plan.participants.iter().filter(|p| !writers.contains(&p.node));
        assert!(helpers.clone().all(|p| p.node != members[1].node && p.node != members[6].node));
        assert_eq!(helpers.count(), 4);
        let to =
            |node: u32| plan.predicted.iter().filter(|l| l.to == node).map(|l| l.bytes).collect::<Vec<_>>();
        let into: Vec<usize> = writers.iter().map(|&node| to(node).len()).collect();
        if scheme == "conventional" {
            assert_eq!(into, [4, 1]);
            assert_eq!(plan.slice_count, 4);
        } else {
            assert_eq!(into, [1, 1]);
            // Slices of 1 KiB are the shortest there are, or they would be cut in two.
            assert_eq!(plan.slice_count, if scheme == "pipe-b" { 1 } else { 4 }, "{scheme}");
            assert_eq!(plan.predicted.iter().map(|l| l.bytes).sum::<u64>(), 8 * BLOCK_BYTES);
        }
    }
    let long = proto::RepairRequest { slice_bytes: 2048, ..of_stripe("pipeline", &[0, 1]) };
    let mut events = cluster.client.repair(long).await.unwrap().into_inner();
    while events.message().await.unwrap().is_some() {}
    assert_eq!(cluster.world.flows()[0].slice_count, 4, "slices of 2 KiB are cut in two");
    assert_eq!(cluster.lookup("object").await.unwrap(), before);
    for (scheme, members, why) in [
        ("ppr", vec![0, 1], "one requestor"),
        ("pipeline", vec![0, 8], "blocks 0 to 7"),
        ("pipeline", vec![0, 0], "once"),
    ] {
        let refused = cluster.repair(of_stripe(scheme, &members)).await.unwrap_err();
        assert!(refused.message().contains(why), "{refused:?}");
    }
    let nothing = cluster.repair(of_stripe("pipeline", &[])).await.unwrap();
    assert!(nothing.last().unwrap().message.contains("nothing to repair"));
    assert!(cluster.world.flows().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_blocks_of_a_stripe_are_committed_each_by_itself() {
    let settings = Settings { dead_after_ms: 1_200, ..Settings::default() };
    let mut cluster = Cluster::new(12, settings).await;
    let object = bytes(2, 4 * BLOCK_BYTES as usize);
    cluster.put("object", &object).await.unwrap();
    cluster.archive("object", "rs-4+4").await.unwrap();
    let members = cluster.lookup("object").await.unwrap().blocks[0].stripe.clone().unwrap().members;
    let free: Vec<u32> = (1..=12).filter(|node| members.iter().all(|m| m.node != *node)).collect();
    for lost in [0, 2, 5] {
        cluster.kill(members[lost].node).await;
    }
    cluster.world.flows();
    // A node makes its block and says nothing of it: the other two blocks count, that one is made again, alone.
    cluster.world.hush(free[1]);
    let request =
        proto::RepairRequest { object: "object".to_owned(), whole_object: true, ..Default::default() };
    let events = cluster.repair(request).await.unwrap();
    let end = events.last().unwrap();
    assert_eq!((end.done, end.total, end.failed), (3, 3, 0), "{events:?}");
    let flows = cluster.world.flows();
    let writes = |plan: &proto::FlowPlan| {
        let outputs = plan.stages.iter().flat_map(|s| &s.outputs);
        outputs.filter(|o| matches!(o.kind, Some(proto::stage_output::Kind::Write(_)))).count()
    };
    assert_eq!(flows.iter().map(writes).collect::<Vec<_>>(), [3, 1]);
    assert_eq!(cluster.get("object").await.unwrap(), (object.clone(), 0));
    assert_eq!(cluster.status().await.missing_blocks, 0);

    // Of the nine that live one holds no block: two blocks find no two nodes, and nothing is begun.
    let refused = cluster.repair(of_stripe("pipeline", &[4, 7])).await.unwrap_err();
    assert!(refused.message().contains("hold a block"), "{refused:?}");
    assert!(cluster.world.flows().is_empty());
    cluster.repair(proto::RepairRequest { index: 3, ..measured("pipeline") }).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_says_why_who_helps_and_how_long_it_takes() {
    let mut cluster = cluster().await;
    let members = cluster.lookup("object").await.unwrap().blocks[1].stripe.clone().unwrap().members;
    let explained = async |cluster: &mut Cluster, scheme: &str| -> (serde_json::Value, String) {
        let reply = cluster.client.explain(measured(scheme)).await.unwrap().into_inner();
        (serde_json::from_str(&reply.json).unwrap(), reply.text)
    };
    let (json, _) = explained(&mut cluster, "pipeline").await;
    assert!(json["plans"][0]["seconds"].is_null(), "nothing is known of links");
    let slow = members[6].node;
    cluster.client.set_links(links(&[slow])).await.unwrap();
    let (json, text) = explained(&mut cluster, "auto").await;
    let plans = json["plans"].as_array().unwrap();
    let of = |scheme: &str| plans.iter().find(|p| p["scheme"] == scheme).unwrap();
    // 4000 B over 1 Gb/s, and three hops of 1000 B more.
    assert!((of("weighted")["seconds"].as_f64().unwrap() - 56e-6).abs() < 1e-9);
    assert!((of("conventional")["seconds"].as_f64().unwrap()) >= 4.0 * 32e-6 - 1e-9);
    let parts = of("weighted")["helpers"].as_array().unwrap();
    assert_eq!(parts.len(), 7);
    assert_eq!(parts.iter().filter(|part| part["helps"] == true).count(), 4);
    let passed = parts.iter().find(|part| part["node"] == slow).unwrap();
    assert_eq!((&passed["helps"], &passed["why"]), (&false.into(), &"no path through it is faster".into()));
    assert!(
        text.contains("s on the links as they are known") && text.contains("is passed over: it helped"),
        "{text}"
    );
    assert!(text.contains("auto takes") && text.contains("least time on the links"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn repairs_are_recorded_and_bytes_that_were_not_predicted_are_noticed() {
    let mut cluster = cluster().await;
    cluster.repair(measured("pipeline")).await.unwrap();
    cluster.world.waste(7);
    cluster.repair(of_stripe("pipeline", &[0, 3])).await.unwrap();
    cluster.world.lie();
    cluster.repair(measured("conventional")).await.unwrap();
    let audit = async |cluster: &mut Cluster, last: u32| -> Vec<serde_json::Value> {
        let reply = cluster.client.get_audit(proto::AuditRequest { last }).await.unwrap().into_inner();
        reply.entries.iter().map(|entry| serde_json::from_str(entry).unwrap()).collect()
    };
    let entries = audit(&mut cluster, 0).await;
    let of = |key: &str| entries.iter().map(|entry| entry[key].clone()).collect::<Vec<_>>();
    assert_eq!(of("scheme"), ["pipeline", "pipeline", "conventional", "conventional"]);
    assert_eq!(of("attempt"), [1, 1, 1, 2]);
    let block = BLOCK_BYTES;
    assert_eq!(of("predicted_bytes"), [4 * block, 8 * block, 4 * block, 4 * block]);
    assert_eq!(of("moved_bytes"), [4 * block, 8 * block + 7, 0, 4 * block]);
    assert_eq!(of("fault").iter().filter(|fault| fault.is_string()).count(), 1);
    assert_eq!(entries[1]["blocks"].as_array().unwrap().len(), 2);
    assert_eq!(entries[1]["helpers"].as_array().unwrap().len(), 4);
    let differing: Vec<usize> = entries.iter().map(|e| e["differing"].as_array().unwrap().len()).collect();
    assert_eq!(differing, [0, 1, 0, 0]);
    let task = cluster.control("audit", "status").await.unwrap();
    assert_eq!((task.done, task.errors), (4, 1));
    assert_eq!(audit(&mut cluster, 2).await, entries[2..]);
    // The record outlives the coordinator.
    cluster.again().await.unwrap();
    cluster.repair(measured("pipeline")).await.unwrap();
    let later = audit(&mut cluster, 0).await;
    assert_eq!((later.len(), &later[..4]), (5, &entries[..]));
}
