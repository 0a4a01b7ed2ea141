//! Experiments in small: the program's own daemons on a testbed, every scheme, and what each moves over which link. Times
//! are no matter here. Without root or iproute2 it says so and passes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test may give up

use lab::{ClusterSpec, LabCluster, LabError, LinkRate, RepairOrder, RepairOutcome, Spec, Testbed};
use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::Path;
use std::process::Command;

/// k of the stripe, and hosts: n, and one that holds none of its blocks.
const K: u64 = 3;
const CODE: &str = "rs-3+2";
const HOSTS: usize = 6;
const BLOCK_BYTES: u64 = 256 << 10;
const SLICE_BYTES: u32 = 32 << 10;

/// Takes the testbed down whatever becomes of the test.
struct Down(String);

impl Drop for Down {
    fn drop(&mut self) {
        Testbed::remove(&self.0).unwrap();
    }
}

#[test]
fn schemes_move_over_each_link_what_the_papers_say() {
    let name = format!("s{}", std::process::id() % 1_000_000);
    if let Err(error @ (LabError::NotRoot | LabError::MissingTool(_))) = Testbed::remove(&name) {
        eprintln!("not tested: {error}");
        return;
    }
    let _down = Down(name.clone());
    let testbed = Testbed::up(&Spec::flat(&name, HOSTS, LinkRate::mbit(1000.0))).unwrap();
    let spec = ClusterSpec {
        binary: env!("CARGO_BIN_EXE_stripeline").into(),
        coordinator_host: 0,
        node_hosts: (0..HOSTS).collect(),
        block_bytes: BLOCK_BYTES,
        folder: None,
    };
    let cluster = LabCluster::start(&testbed, &spec).unwrap();
    let bytes: Vec<u8> = (0..K * BLOCK_BYTES).map(|i| (i * 31 + i / 251) as u8).collect();
    cluster.put("object", Cursor::new(bytes), 1).unwrap();
    cluster.archive("object", CODE).unwrap();
    let requestor = spare_node(&cluster);

    let busiest = |scheme: &str| {
        let order = RepairOrder {
            slice_bytes: SLICE_BYTES,
            requestor,
            ..RepairOrder::discarded("object", 0, scheme)
        };
        let outcome = cluster.repair(&order).unwrap();
        assert_eq!(outcome.scheme, scheme);
        // Each helper sends once, whatever the shape: to the byte.
        assert_eq!(outcome.total_bytes(), K * BLOCK_BYTES, "{scheme}: {:?}", outcome.links);
        assert!(outcome.verified_s <= outcome.durable_s, "{scheme}");
        busiest_port(&outcome)
    };
    let measured = ["conventional", "ppr", "ppr-sliced", "pipeline", "pipe-b", "pipe-s"].map(busiest);
    // A star into the requestor; a tree in which it takes two sums; chains in which every port carries one block.
    assert_eq!(measured.map(|port| port.1), [3, 2, 2, 1, 1, 1].map(|blocks| blocks * BLOCK_BYTES));
    assert_eq!(measured[0].0, (requestor, true));
    cluster.shutdown().unwrap();
}

#[test]
fn experiments_are_listed_and_a_wrong_name_is_told() {
    let bench = |arguments: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_stripeline")).arg("bench").args(arguments).output().unwrap()
    };
    let listed = String::from_utf8(bench(&["list"]).stdout).unwrap();
    for experiment in lab::experiments::EXPERIMENTS {
        assert!(listed.contains(experiment.id), "{listed}");
    }
    let wrong = bench(&["rp-99"]);
    assert!(!wrong.status.success());
    assert!(
        String::from_utf8(wrong.stderr).unwrap().contains("there is no experiment 'rp-99'; there are rp-8a")
    );

    // Without records there is a document, and it says what is missing.
    let folder = tempfile::tempdir().unwrap();
    let document = folder.path().join("docs/results.md");
    let (records, target) = (folder.path().join("none"), document.display().to_string());
    let reported = bench(&["report", "--results", &text(&records), "--document", &target]);
    assert!(reported.status.success(), "{reported:?}");
    assert!(std::fs::read_to_string(&document).unwrap().contains("not measured yet"));
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

/// A node without a block of the stripe.
fn spare_node(cluster: &LabCluster) -> u32 {
    let object = cluster.lookup("object").unwrap();
    let members = object.blocks[0].stripe.clone().unwrap().members;
    cluster.node_ids().find(|node| members.iter().all(|member| member.node != *node)).unwrap()
}

/// The side of a node's port with the most payload: (node, receiving), bytes.
fn busiest_port(outcome: &RepairOutcome) -> ((u32, bool), u64) {
    let mut ports: BTreeMap<(u32, bool), u64> = BTreeMap::new();
    for link in &outcome.links {
        *ports.entry((link.from, false)).or_default() += link.bytes;
        *ports.entry((link.to, true)).or_default() += link.bytes;
    }
    ports.into_iter().max_by_key(|&(_, bytes)| bytes).unwrap()
}
