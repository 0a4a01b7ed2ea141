//! What it costs to open a catalog, to check all of its file, to count all of it, and to keep the counts as it changes, beside a
//! bare read of the file: `cargo bench -p catalog --bench tally
//! [-- BLOCKS BLOCKS_OF_AN_OBJECT]`, by default a million blocks of three replicas on five nodes, a hundred to an object (`TMPDIR` says on which disk).

#![allow(clippy::unwrap_used, reason = "a measurement that cannot run should stop")]

use catalog::rows::NodeRow;
use catalog::{Catalog, CommittedBlock, NewPut, PlannedBlock, PutEnd};
use disk::{Disk, RealDisk};
use model::{BlockId, ClusterId, FlowId, Incarnation, NodeId, PutId, StoreId, Sums};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

/// As in the coordinator's process.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const NODES: u64 = 5;
const BYTES: u64 = 4_096;
/// Objects that are put at once while the catalog is filled.
const CALLERS: u64 = 64;
/// Puts, each of which somebody asks about.
const PUTS: u64 = 1_000;

/// Counts in a process of its own, whose memory holds nothing else.
const COUNT: &str = "count";

fn main() {
    let mut arguments = std::env::args();
    if arguments.any(|argument| argument == COUNT) {
        let folder = PathBuf::from(arguments.next().unwrap());
        let began = Instant::now();
        let catalog = open(folder.clone());
        println!("opened: {:.3} s", began.elapsed().as_secs_f64());
        measure(&catalog);
        return check(&catalog, &folder);
    }
    let numbers: Vec<u64> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    let (blocks, each) = (*numbers.first().unwrap_or(&1_000_000), *numbers.get(1).unwrap_or(&100));
    let folder = std::env::temp_dir().join(format!("stripeline-tally-{}", std::process::id()));
    let catalog = open(folder.clone());
    catalog.begin_term(1, 0).unwrap();
    (1..=NODES).for_each(|node| register(&catalog, node));
    std::thread::scope(|scope| {
        for caller in 0..CALLERS {
            let (catalog, objects) = (&catalog, (caller..blocks / each).step_by(CALLERS as usize));
            scope.spawn(move || objects.for_each(|object| put(catalog, object, each)));
        }
    });
    catalog.close();
    let counted = Command::new(std::env::current_exe().unwrap()).arg(COUNT).arg(&folder).status().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(counted.success());
}

fn open(folder: PathBuf) -> Catalog {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::create(folder).unwrap());
    Catalog::open(&disk, ClusterId(1)).unwrap()
}

fn register(catalog: &Catalog, node: u64) {
    let addr = || format!("10.0.0.{node}:7000");
    let row = NodeRow {
        control_addr: addr(),
        data_addr: addr(),
        rack: format!("r{node}"),
        store: StoreId(node.into()),
        incarnation: Incarnation(node),
        host: String::new(),
    };
    catalog.register_node(NodeId(node as u32), &row, None, None).unwrap();
}

/// Twice: the second time nothing comes from the disk.
fn check(catalog: &Catalog, folder: &Path) {
    for round in ["checked", "checked again"] {
        let began = Instant::now();
        let checked = catalog.check(&|_| true).unwrap();
        let seconds = began.elapsed().as_secs_f64();
        assert_eq!(checked.findings, 0);
        let (pages, rows, bytes) = (checked.seen.pages, checked.seen.rows, checked.page_bytes);
        println!("{round}: {seconds:.2} s, {pages} pages ({} MiB), {rows} rows", bytes >> 20);
    }
    let began = Instant::now();
    let mut file = File::open(folder.join("catalog.redb")).unwrap();
    let (mut buffer, mut bytes) = (vec![0; 1 << 20], 0);
    while let read @ 1.. = file.read(&mut buffer).unwrap() {
        bytes += read;
    }
    println!("the file read bare: {:.2} s, {} MiB", began.elapsed().as_secs_f64(), bytes >> 20);
}

fn measure(catalog: &Catalog) {
    let all: BTreeSet<NodeId> = (1..=NODES).map(|node| NodeId(node as u32)).collect();
    let survey = |living: &BTreeSet<NodeId>| {
        let began = Instant::now();
        let survey = catalog.survey(living).unwrap();
        (began.elapsed().as_secs_f64(), survey)
    };
    let before = resident_bytes();
    let (seconds, first) = survey(&all);
    let (blocks, bytes) = (first.counts.blocks, resident_bytes().saturating_sub(before));
    println!("{blocks} blocks, {} objects", first.counts.objects);
    println!("counted at first: {seconds:.2} s, {} bytes of memory a block", bytes / blocks);
    println!("nothing changed: {:.1} us", survey(&all).0 * 1e6);
    let asked = |at| {
        put(catalog, blocks + at, 1);
        survey(&all).0
    };
    let seconds: f64 = (0..PUTS).map(asked).sum();
    println!("after a put: {:.1} us", seconds * 1e6 / PUTS as f64);
    let rest: BTreeSet<NodeId> = all.iter().copied().skip(1).collect();
    let (seconds, after) = survey(&rest);
    println!("after a node's death: {seconds:.3} s, {} short", after.health.short);
    println!("after its return: {:.3} s", survey(&all).0);
}

fn put(catalog: &Catalog, object: u64, blocks: u64) {
    let id = |index: u64| (u128::from(object) << 32) + u128::from(index) + 1;
    let (put, name, sums) = (PutId(id(0)), format!("object-{object}"), Sums::default());
    let new = NewPut { put, name, block_bytes: BYTES, replicas: 3, lease_until_ms: 1, gathers: None };
    catalog.begin_put(&new).unwrap();
    let block = |index: u64| {
        let (block, flow, last) = (BlockId(id(index)), FlowId(id(index)), index + 1 == blocks);
        let nodes: Vec<NodeId> =
            (0..3).map(|at| NodeId(((object + index + at) % NODES) as u32 + 1)).collect();
        let planned =
            PlannedBlock { block, index, stored_bytes: BYTES, sums, last, nodes: nodes.clone(), flow };
        catalog.plan_block(put, &planned, 0, 1).unwrap();
        CommittedBlock { block, stored_bytes: BYTES, sums, nodes, by: BTreeMap::new() }
    };
    let committed: Vec<CommittedBlock> = (0..blocks).map(block).collect();
    let end = PutEnd { now_ms: 0, created_ms: 0, remembered_until_ms: 0 };
    catalog.commit_put(put, &committed, BYTES * blocks, [0; 32], end).unwrap();
}

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    resident.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1_024
}
