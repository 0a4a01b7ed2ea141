//! The schemes that look at the network: who helps, in which order, and what crosses racks.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod support;

use std::collections::BTreeMap;
use support::{BLOCK_BYTES, Cluster, Settings, bytes};
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
