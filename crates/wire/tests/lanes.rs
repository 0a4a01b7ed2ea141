//! How fast lanes begin.

#![allow(clippy::unwrap_used, missing_docs)]

use flow::limits::MIN_LANE_BYTES_PER_S;
use wire::proto;
use wire::spec::{decode_prepare, prepares};

/// Chains 1 → 2 → 3, with these shares.
fn chains(shares: &[u32], symbol_bytes_per_s: u64) -> proto::FlowPlan {
    let stage = |lane: u32, stage: u32| {
        let kind = match stage {
            0 => proto::stage_input::Kind::Local(proto::LocalInput::default()),
            edge => proto::stage_input::Kind::Edge(edge - 1),
        };
        let inputs = vec![proto::StageInput { kind: Some(kind) }];
        proto::Stage { lane, stage, site: stage + 1, inputs, ..Default::default() }
    };
    let edge = |lane: u32, edge: u32| proto::Edge {
        lane,
        edge,
        from: edge,
        to: edge + 1,
        rows: 2,
        token: model::Token(rand::random()).to_vec(),
        extents: vec![100; 2],
    };
    let lanes = 0..shares.len() as u32;
    proto::FlowPlan {
        participants: (1..4).map(|site| proto::Participant { site, ..Default::default() }).collect(),
        stages: lanes.clone().flat_map(|lane| (0..3).map(move |s| stage(lane, s))).collect(),
        edges: lanes.flat_map(|lane| (0..2).map(move |e| edge(lane, e))).collect(),
        shares: shares.to_vec(),
        symbol_bytes_per_s,
        ..Default::default()
    }
}

/// What each end of an edge may send, by site, lane and edge.
fn paces(plan: &proto::FlowPlan) -> Vec<(u32, u32, u32, u64)> {
    let ends = |(site, prepare): (u32, proto::Prepare)| {
        prepare.ends.into_iter().map(move |end| (site, end.lane, end.edge, end.bytes_per_s))
    };
    prepares(plan).unwrap().into_iter().flat_map(ends).filter(|end| end.3 > 0).collect()
}

#[test]
fn each_lane_begins_with_its_share_of_what_links_carry() {
    let plan = chains(&[3, 1], 8_000_000);
    // Two rows of each slice.
    assert_eq!(paces(&plan), [(1, 0, 0, 12_000_000), (1, 1, 0, 4_000_000)]);
    assert!(paces(&chains(&[3, 1], 0)).is_empty(), "nobody knows how fast");
    let slow = [(1, 0, 0, 1_998_001), (1, 1, 0, MIN_LANE_BYTES_PER_S)];
    assert_eq!(paces(&chains(&[1000, 1], 1_000_000)), slow);
    assert_eq!(paces(&chains(&[u32::MAX], u64::MAX)), [(1, 0, 0, u64::MAX)]);
}

#[test]
fn no_node_is_made_to_send_as_good_as_nothing() {
    let plan = chains(&[1], 8_000_000);
    for (pace, refused) in [(1, true), (MIN_LANE_BYTES_PER_S - 1, true), (MIN_LANE_BYTES_PER_S, false)] {
        let mut prepare = prepares(&plan).unwrap().remove(&1).unwrap();
        prepare.header = Some(proto::FlowHeader {
            flow: model::FlowId(rand::random()).to_vec(),
            attempt: 1,
            field: 8,
            geometry: Some(proto::Geometry { block_bytes: 100, alpha: 2, slice_bytes: 1024 }),
            lease_ms: 1,
            stall_ms: 1,
            window_slices: 1,
            ..Default::default()
        });
        prepare.ends[0].bytes_per_s = pace;
        let fault = decode_prepare(&prepare).unwrap_err();
        assert_eq!(fault.to_string().contains("pace"), refused, "{pace}: {fault}");
    }
}
