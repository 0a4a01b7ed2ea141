//! What travels stays as it is: messages with all fields set, against bytes that an earlier program of these versions wrote.

#![allow(clippy::unwrap_used, missing_docs)]

use model::FlowId;
use prost::Message;
use std::fmt::Debug;
use wire::call::{HEAD_BYTES, Head};
use wire::frame::{HEADER_BYTES, Header, Kind, Reply};
use wire::proto;

/// A name and bytes on each line.
const GOLDEN: &str = include_str!("../../golden/messages-v4.txt");

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().map(|c| (c as char).to_digit(16).unwrap() as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn golden(name: &str) -> &'static str {
    let line = GOLDEN.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or("no such line")
}

/// Neither what is written nor what is read of it has changed.
fn check<M: Message + Default + PartialEq + Debug>(name: &str, message: &M) {
    let why = "fields keep their numbers and types, new ones get new numbers; anything else is a new version";
    assert_eq!(hex(&message.encode_to_vec()), golden(name), "{name}: {why}");
    assert_eq!(M::decode(from_hex(golden(name)).as_slice()).as_ref(), Ok(message), "{name}: {why}");
}

fn header() -> proto::FlowHeader {
    proto::FlowHeader {
        flow: vec![1; 16],
        attempt: 2,
        field: 8,
        geometry: Some(proto::Geometry { block_bytes: 64 << 20, alpha: 1, slice_bytes: 32 << 10 }),
        verify: true,
        lease_ms: 10_000,
        stall_ms: 5_000,
        window_slices: 1024,
        serial: true,
        keep: true,
        frame_slices: 4,
        lane_window_slices: 22,
        traffic: 2,
    }
}

fn stages() -> Vec<proto::Stage> {
    use proto::stage_input::Kind as In;
    use proto::stage_output::Kind as Out;
    let block = proto::BlockRef {
        block: vec![3; 16],
        generation: 300,
        stored_bytes: 70_000,
        digest: Vec::new(),
        fingerprint: Vec::new(),
        permit: None,
    };
    let local = proto::LocalInput { member: 1, symbols: vec![0, 300], block: Some(block) };
    let inputs = [In::Local(local), In::Edge(5), In::SourceMember(6)];
    let write = proto::BlockWrite {
        member: 2,
        block: vec![4; 16],
        generation: 301,
        stored_bytes: 70_001,
        digest: vec![5; 32],
        fingerprint: vec![6; 128],
        object: Some(part()),
        stripe: vec![7; 3],
        birth: Some(proto::Stamp { term: 3, word: u64::MAX, change: 301 }),
    };
    let read = proto::SymbolRead { symbols: vec![proto::SymbolRef { member: 3, index: 1 }] };
    let outputs = [Out::Edge(0), Out::Write(write), Out::Read(read)];
    vec![proto::Stage {
        lane: 1,
        stage: 2,
        site: 3,
        inputs: inputs.map(|kind| proto::StageInput { kind: Some(kind) }).into(),
        outputs: outputs.map(|kind| proto::StageOutput { kind: Some(kind) }).into(),
        matrix: Some(proto::Matrix { rows: 1, cols: 2, elements: vec![1, 0, 2, 0] }),
    }]
}

fn part() -> proto::ObjectPart {
    proto::ObjectPart { name: "höhe/x".to_owned(), version: 300, offset: 1 << 40, last: true }
}

fn prepare() -> proto::Prepare {
    proto::Prepare {
        header: Some(header()),
        stages: stages(),
        ends: vec![proto::EdgeEnd {
            lane: 1,
            edge: 2,
            rows: 3,
            token: vec![8; 16],
            sender: true,
            dial: "10.0.0.7:7001".to_owned(),
            peer_node: 7,
            extents: vec![70_000, 0, 300],
            bytes_per_s: 1 << 20,
        }],
        grants: vec![proto::Grant { lane: 1, first: 2, count: 300 }],
        finish: true,
    }
}

#[test]
fn plans_are_stable() {
    let plan = proto::FlowPlan {
        header: Some(header()),
        participants: vec![proto::Participant {
            site: 1,
            node: 7,
            control_addr: "10.0.0.7:7000".to_owned(),
            data_addr: "10.0.0.7:7001".to_owned(),
            rack: 2,
        }],
        stages: stages(),
        edges: vec![proto::Edge {
            lane: 1,
            edge: 2,
            from: 3,
            to: 4,
            rows: 5,
            token: vec![8; 16],
            extents: vec![70_000, 0, 300],
        }],
        scheme: "pipeline".to_owned(),
        first_slice: 6,
        slice_count: 2048,
        predicted: vec![proto::LinkBytes { from: 1, to: 2, bytes: 64 << 20 }],
        shares: vec![2, 1],
        expected_us: 1_350_000,
        symbol_bytes_per_s: 119_000_000,
    };
    check("FlowPlan", &plan);
}

#[test]
fn what_a_driver_prepares_is_stable() {
    check("Prepare", &prepare());
}

#[test]
fn faults_are_stable() {
    let fault = proto::Fault {
        cause: 5,
        detail: "a sentence".to_owned(),
        flow: vec![1; 16],
        attempt: 2,
        lane: 3,
        slice: 300,
        reporter: 7,
        suspect_from: Some(0),
        suspect_to: Some(8),
        block: vec![3; 16],
    };
    check("Fault", &fault);
}

#[test]
fn answers_on_data_connections_are_stable() {
    for (name, bytes) in [("Accepted", Reply::Accepted.encode()), ("Refused", Reply::Refused.encode())] {
        assert_eq!(hex(&bytes), golden(name), "{name}");
    }
    for (name, head) in [("Call", Head::Call), ("Done", Head::Done), ("Failed", Head::Failed)] {
        assert_eq!(hex(&head.seal(&prepare())[..HEAD_BYTES]), golden(name), "{name}");
    }
}

/// One slice in a verified frame is `frame-v1.hex`; these are the other kinds.
#[test]
fn frames_of_every_kind_are_stable() {
    let slice = Header {
        kind: Kind::Slice,
        flow: FlowId(0x0123_4567_89ab_cdef_0011_2233_4455_6677),
        attempt: 2,
        lane: 3,
        edge: 4,
        row: 1,
        verified: true,
        slice: 96,
        slices: 4,
        payload_bytes: 128 << 10,
        payload_crc: 0,
    };
    let unverified = Header {
        verified: false,
        slice: 99,
        slices: 1,
        payload_bytes: 32 << 10,
        payload_crc: 0xdead_beef,
        ..slice
    };
    let end = Header { kind: Kind::End, slice: 2048, slices: 1, payload_bytes: 0, ..slice };
    for (name, header) in [("Shared", slice), ("Unverified", unverified), ("End", end)] {
        let mut frame = vec![0x5a; HEADER_BYTES + header.fingerprint_bytes()];
        header.seal(&mut frame);
        assert_eq!(hex(&frame[..HEADER_BYTES]), golden(name), "{name}");
        let head = frame.first_chunk().unwrap();
        assert_eq!(Header::parse(head, header.payload_bytes), Ok(header), "{name}");
        assert_eq!(header.check(&frame), Ok(()), "{name}");
    }
}
