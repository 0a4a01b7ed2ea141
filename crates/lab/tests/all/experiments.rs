//! Experiments in small: the program's own daemons on a testbed, every scheme, and what each moves over which link. Times
//! are no matter here. Without root or iproute2 it says so and passes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test may give up

use client::PutOptions;
use lab::{ClusterSpec, LabCluster, LabError, LinkRate, Racks, RepairOrder, RepairOutcome, Spec, Testbed};
use model::{BlockId, NodeId, Peer};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Cursor;
use std::path::{Path, PathBuf};
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
        binary: stripeline(),
        node_hosts: (0..HOSTS).collect(),
        block_bytes: BLOCK_BYTES,
        folder: None,
        cache_bytes: 0,
    };
    let cluster = LabCluster::start(&testbed, &spec).unwrap();
    let bytes: Vec<u8> = (0..K * BLOCK_BYTES).map(|i| (i * 31 + i / 251) as u8).collect();
    cluster.put("object", Cursor::new(bytes), one_replica()).unwrap();
    cluster.archive("object", CODE).unwrap();
    let requestor = spare_node(&cluster);
    let stored = cluster.lookup("object").unwrap().blocks;
    let mut files: BTreeSet<String> =
        stored.iter().map(|block| BlockId::from_slice(&block.block).unwrap().to_string()).collect();
    cluster.recall_files(&files).unwrap();
    files.insert(BlockId(0).to_string());
    assert!(matches!(cluster.recall_files(&files), Err(LabError::BadSpec(_))));

    let busiest = |scheme: &str| {
        let order = RepairOrder {
            slice_bytes: SLICE_BYTES,
            requestor: Some(requestor),
            ..RepairOrder::discarded("object", scheme)
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
    assert_eq!(measured[0].0, (Peer::Node(requestor), true));
    cluster.shutdown().unwrap();
}

/// Three racks of two blocks' holders and of one node that holds none.
#[test]
fn racks_links_and_several_blocks_move_what_the_papers_say() {
    let name = format!("u{}", std::process::id() % 1_000_000);
    if let Err(error @ (LabError::NotRoot | LabError::MissingTool(_))) = Testbed::remove(&name) {
        eprintln!("not tested: {error}");
        return;
    }
    let _down = Down(name.clone());
    let racks = Some(Racks { count: 3, core_rate: LinkRate::mbit(500.0) });
    let testbed = Testbed::up(&Spec { racks, ..Spec::flat(&name, 9, LinkRate::mbit(1000.0)) }).unwrap();
    let spec = ClusterSpec {
        binary: stripeline(),
        node_hosts: (0..6).collect(),
        block_bytes: BLOCK_BYTES,
        folder: None,
        cache_bytes: 0,
    };
    let mut cluster = LabCluster::start(&testbed, &spec).unwrap();
    let bytes: Vec<u8> = (0..4 * BLOCK_BYTES).map(|i| (i * 29 + i / 253) as u8).collect();
    cluster.put("object", Cursor::new(bytes), one_replica()).unwrap();
    cluster.archive("object", "rs-4+2").unwrap();
    let spares: Vec<NodeId> = (6..9).map(|host| cluster.add_node(host).unwrap()).collect();
    assert_eq!(spares, [7, 8, 9].map(NodeId));
    let info = cluster.lookup("object").unwrap();
    let members: Vec<NodeId> =
        info.blocks[0].stripe.clone().unwrap().members.iter().map(|member| NodeId(member.node)).collect();
    let rack = |node: NodeId| cluster.host_of(node).unwrap().rack;
    let near = *spares.iter().find(|node| rack(**node) == rack(members[0])).unwrap();
    let order = |scheme: &str| RepairOrder {
        slice_bytes: SLICE_BYTES,
        requestor: Some(near),
        ..RepairOrder::discarded("object", scheme)
    };
    let blocks = |bytes: u64| bytes as f64 / BLOCK_BYTES as f64;

    // RP §4.2: one helper is near, the other three are in two racks: two blocks cross, whoever is named first.
    let named: Vec<NodeId> = [3, 1, 5, 2].map(|member: usize| members[member]).to_vec();
    for helpers in [Vec::new(), named.clone()] {
        let outcome = cluster.repair(&RepairOrder { helpers, ..order("rack-aware") }).unwrap();
        let crossing = outcome.links.iter().filter(|link| {
            let [from, to] = [link.from, link.to].map(|end| rack(end.node().unwrap()));
            from != to
        });
        assert_eq!(blocks(crossing.map(|link| link.bytes).sum()), 2.0, "{:?}", outcome.links);
        assert_eq!(blocks(outcome.total_bytes()), 4.0);
    }
    // A plain chain takes helpers as they are named.
    let outcome = cluster.repair(&RepairOrder { helpers: named.clone(), ..order("pipeline") }).unwrap();
    let way: Vec<Peer> = named.iter().copied().chain([near]).map(Peer::Node).collect();
    for hop in way.windows(2) {
        assert!(outcome.links.iter().any(|l| (l.from, l.to) == (hop[0], hop[1])), "{:?}", outcome.links);
    }
    // RP §4.4: three hops of two blocks and two deliveries; or four blocks to the one that decodes, and one further.
    for (scheme, moved) in [("pipeline", 8.0), ("conventional", 5.0)] {
        let outcome = cluster.repair(&RepairOrder { members: vec![0, 1], ..order(scheme) }).unwrap();
        assert_eq!(blocks(outcome.total_bytes()), moved, "{scheme}: {:?}", outcome.links);
        let read: Vec<u64> = outcome.stages.iter().map(|s| s.disk_read_bytes).filter(|&b| b > 0).collect();
        assert_eq!(read, [BLOCK_BYTES; 4], "{scheme}: each helper reads its block once");
    }
    // RP §4.3: the helper whose links are slow is left out.
    let slow = members[4].0;
    let rate = |from: u32, to: u32| if from == slow || to == slow { 10 } else { 500 };
    let rows: Vec<Vec<u32>> = (1..=9).map(|from| (1..=9).map(|to| rate(from, to)).collect()).collect();
    cluster.set_links(&serde_json::json!({ "bandwidth": rows }).to_string()).unwrap();
    let outcome = cluster.repair(&order("weighted")).unwrap();
    assert!(outcome.links.iter().all(|link| link.from.number() != slow), "{:?}", outcome.links);
    cluster.shutdown().unwrap();
}

#[test]
fn experiments_are_listed_and_a_wrong_name_is_told() {
    let bench =
        |arguments: &[&str]| Command::new(stripeline()).arg("bench").args(arguments).output().unwrap();
    let listed = String::from_utf8(bench(&["list"]).stdout).unwrap();
    for experiment in lab::experiments::EXPERIMENTS {
        assert!(listed.contains(experiment.id), "{listed}");
    }
    let wrong = bench(&["rp-99"]);
    assert!(!wrong.status.success());
    assert!(
        String::from_utf8(wrong.stderr).unwrap().contains("there is no experiment 'rp-99'; there are rp-8a")
    );

    let help = String::from_utf8(bench(&["--help"]).stdout).unwrap();
    assert!(help.contains("Usage: stripeline bench [OPTIONS] [ID]"), "{help}");
    let json = bench(&["list", "--json"]).stdout;
    let listed: Vec<serde_json::Value> = serde_json::from_slice(&json).unwrap();
    assert_eq!(listed.len(), lab::experiments::EXPERIMENTS.len());

    // Without records there is a document, and it says what is missing.
    let folder = tempfile::tempdir().unwrap();
    let document = folder.path().join("docs/results.md");
    let (records, target) = (folder.path().join("none"), document.display().to_string());
    let reported = bench(&["report", "--results", &text(&records), "--document", &target]);
    assert!(reported.status.success(), "{reported:?}");
    assert!(std::fs::read_to_string(&document).unwrap().contains("not measured yet"));
}

/// The product's program, which a run of all crates' tests builds beside this crate's own.
fn stripeline() -> PathBuf {
    let program = Path::new(env!("CARGO_BIN_EXE_stripeline-lab")).with_file_name("stripeline");
    assert!(program.is_file(), "{} is not built: cargo build -p cli", program.display());
    program
}

fn one_replica() -> PutOptions {
    PutOptions { replicas: 1, ..PutOptions::default() }
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

/// A node without a block of the stripe.
fn spare_node(cluster: &LabCluster) -> NodeId {
    let object = cluster.lookup("object").unwrap();
    let members = object.blocks[0].stripe.clone().unwrap().members;
    cluster.nodes().find(|node| members.iter().all(|member| member.node != node.0)).unwrap()
}

/// The side of a node's port with the most payload: (node, receiving), bytes.
fn busiest_port(outcome: &RepairOutcome) -> ((Peer, bool), u64) {
    let mut ports: BTreeMap<(Peer, bool), u64> = BTreeMap::new();
    for link in &outcome.links {
        *ports.entry((link.from, false)).or_default() += link.bytes;
        *ports.entry((link.to, true)).or_default() += link.bytes;
    }
    ports.into_iter().max_by_key(|&(_, bytes)| bytes).unwrap()
}
