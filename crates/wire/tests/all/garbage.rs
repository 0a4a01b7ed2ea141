//! Whatever arrives, parsing it ends in a value or in a typed error: nothing from outside can panic a daemon.

#![allow(missing_docs)]

use flow::bound::InputSpec;
use proptest::prelude::*;
use prost::Message;
use wire::codec::part;
use wire::frame::{HEADER_BYTES, HELLO_BYTES, Header, Hello, REPLY_BYTES, Reply};
use wire::proto;

/// A message that is nearly right: what a newer, an older or a broken peer would send.
fn nearly_right() -> impl Strategy<Value = proto::Prepare> {
    let header =
        (any::<u64>(), 0u32..2000, any::<u32>(), 0u32..3, prop::collection::vec(any::<u8>(), 15..18));
    let matrix = (0u32..5, 0u32..5, prop::collection::vec(any::<u8>(), 0..40));
    let end =
        (0u32..3, any::<u32>(), any::<bool>(), "[0-9.:]{0,20}", prop::collection::vec(any::<u64>(), 0..3));
    (header, matrix, prop::collection::vec(end, 0..4), 0u32..3, any::<u64>()).prop_map(
        |(
            (block_bytes, alpha, slice_bytes, attempt, flow),
            (rows, cols, elements),
            ends,
            edge,
            stored_bytes,
        )| {
            use proto::stage_input::Kind as In;
            use proto::stage_output::Kind as Out;
            let geometry = Some(proto::Geometry { block_bytes, alpha, slice_bytes: slice_bytes % (1 << 20) });
            let block = Some(proto::BlockRef {
                block: flow.clone(),
                generation: 1,
                stored_bytes,
                digest: Vec::new(),
                fingerprint: Vec::new(),
                permit: None,
            });
            let local = proto::LocalInput { member: 0, symbols: vec![alpha % 3], block };
            let stage = proto::Stage {
                inputs: vec![
                    proto::StageInput { kind: Some(In::Local(local)) },
                    proto::StageInput { kind: Some(In::Edge(edge)) },
                ],
                outputs: vec![proto::StageOutput { kind: Some(Out::Edge(edge)) }],
                matrix: Some(proto::Matrix { rows, cols, elements }),
                ..Default::default()
            };
            let ends = ends
                .into_iter()
                .map(|(edge, rows, sender, dial, extents)| proto::EdgeEnd {
                    edge,
                    rows: rows % 4,
                    token: flow.clone(),
                    sender,
                    dial,
                    extents,
                    ..Default::default()
                })
                .collect();
            let header = proto::FlowHeader {
                flow,
                attempt,
                field: 8,
                geometry,
                lease_ms: 1,
                stall_ms: 1,
                window_slices: 1,
                ..Default::default()
            };
            proto::Prepare {
                header: Some(header),
                stages: vec![stage],
                ends,
                grants: Vec::new(),
                finish: false,
            }
        },
    )
}

proptest! {
    #[test]
    fn random_bytes_are_no_message(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        if let Ok(prepare) = proto::Prepare::decode(&bytes[..]) {
            let _ = part::decode(&prepare);
        }
    }

    #[test]
    fn random_headers_are_refused(bytes in any::<[u8; HEADER_BYTES]>(), hello in any::<[u8; HELLO_BYTES]>(), reply in any::<[u8; REPLY_BYTES]>()) {
        prop_assert!(Header::parse(&bytes, 1 << 20).is_err());
        prop_assert!(Hello::decode(&hello).is_err());
        prop_assert!(Reply::decode(&reply).is_err());
    }

    #[test]
    fn a_header_that_parses_is_within_its_bounds(mut bytes in any::<[u8; HEADER_BYTES]>(), max in 0u32..1 << 20) {
        bytes[..4].copy_from_slice(&[0x53, 0x51, 1, 0]);
        if let Ok(header) = Header::parse(&bytes, max) {
            prop_assert!(header.payload_bytes <= max);
            prop_assert!(header.check(&bytes).is_err(), "a random checksum held");
        }
    }

    #[test]
    fn nearly_right_messages_end_in_a_stage_or_an_error(prepare in nearly_right()) {
        if let Ok(flow::bound::NodeStages { header, stages }) = part::decode(&prepare) {
            prop_assert!(flow::limits::slice_bytes_ok(header.geometry.slice_bytes));
            prop_assert_eq!(stages.len(), 1);
            prop_assert_eq!(stages[0].matrix.cols(), stages[0].inputs.iter().map(InputSpec::rows).sum::<usize>());
        }
    }
}
