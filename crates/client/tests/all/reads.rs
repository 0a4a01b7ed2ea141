//! Degraded reads of ranges, of codes with several symbols to a block: bytes right, and no more read or sent than planned.

use crate::rig::{Rig, Settings, content};
use client::GetOptions;
use exec::{Delivery, DriverIo, Engine};
use model::NodeId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use wire::proto::coordinator_client::CoordinatorClient;
use wire::proto::{BlockInfo, ByteRange, DriveResult, FlowPlan, PlanReadRequest};

const CHUNK: usize = gf::CHUNK_BYTES;

/// Symbols of three chunks where a block has four of them.
const BLOCK: usize = 12 * CHUNK;

/// As much as a client has.
const ROOM: u64 = 64 << 20;

/// A cluster with an archived object of `code`, of k blocks of which the last is short, and its first block lost.
async fn degraded(code: &str, k: usize, nodes: u32) -> (Rig, Vec<u8>, BlockInfo) {
    let settings = Settings { block_bytes: BLOCK as u64, ..Settings::nodes(nodes) };
    let mut rig = Rig::with(settings).await;
    let bytes = content(7, k * BLOCK - 3 * CHUNK - 5);
    rig.put("a", &bytes).await.unwrap();
    rig.archive("a", code).await.unwrap();
    // A replica that is still there would be counted on again.
    rig.no_garbage().await;
    let info = rig.client.lookup("a", true).await.unwrap();
    let lost = info.blocks[0].clone();
    rig.lose([lost.nodes[0]]).await;
    (rig, bytes, lost)
}

/// Ranges of a block that begin and end everywhere: within slices, symbols, at their edges.
fn ranges() -> Vec<(usize, usize)> {
    let symbol = BLOCK / 4;
    let edges = [0, 1, CHUNK - 1, CHUNK, symbol - 1, symbol, symbol + CHUNK + 7, 3 * symbol - 1, 3 * symbol];
    let ends = [1, CHUNK, symbol, symbol + 1, 2 * symbol + CHUNK + 3, BLOCK - 1, BLOCK];
    edges
        .iter()
        .flat_map(|&from| ends.iter().filter(move |&&to| from < to).map(move |&to| (from, to)))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_range_of_a_lost_block_comes_back_by_any_scheme() {
    for code in ["rotated-4+2-r4", "rs16-4+2", "random-a2-4+2-s1", "rs-4+2"] {
        let (rig, bytes, _) = degraded(code, 4, 8).await;
        for scheme in ["auto", "conventional", "pipeline", "ppr"] {
            for slice_bytes in [0, 4 << 10, 64 << 10, 512 << 10] {
                // Several chunks to a slice, slices longer than a receive buffer, slices shorter than a chunk.
                for (from, to) in ranges().into_iter().step_by(if slice_bytes == 0 { 1 } else { 5 }) {
                    let options = GetOptions {
                        range: Some(format!("{from}-{}", to - 1).parse().unwrap()),
                        scheme: scheme.to_owned(),
                        slice_bytes,
                        ..GetOptions::default()
                    };
                    let got = rig.get_with("a", options).await.unwrap();
                    assert!(got == bytes[from..to], "{code} {scheme} {slice_bytes}: {from}..{to}");
                }
            }
            let options = GetOptions { scheme: scheme.to_owned(), ..GetOptions::default() };
            assert!(rig.get_with("a", options).await.unwrap() == bytes, "{code} {scheme}");
        }
    }
}

/// What one flow of a read did.
struct Done {
    plan: FlowPlan,
    result: DriveResult,
}

impl Done {
    fn read(&self) -> BTreeMap<u32, u64> {
        let mut read = BTreeMap::new();
        for stage in self.result.stages.iter().filter(|s| s.disk_read_bytes > 0) {
            *read.entry(stage.node).or_default() += stage.disk_read_bytes;
        }
        read
    }
}

/// Reads a part of the block by plans, as a client with room does; the bytes, and every flow.
async fn by_plans(
    rig: &Rig,
    block: &BlockInfo,
    (from, to): (usize, usize),
    scheme: &str,
    room_bytes: u64,
) -> (Vec<u8>, Vec<Done>) {
    let mut coordinator = CoordinatorClient::connect(format!("http://{}", rig.address())).await.unwrap();
    let got: Arc<Mutex<Vec<Option<u8>>>> = Arc::new(Mutex::new(vec![None; BLOCK]));
    let mut flows = Vec::new();
    loop {
        let request = {
            let got = got.lock().unwrap();
            let Some(next) = (from..to).find(|&at| got[at].is_none()) else { break };
            let held = (next..to).filter(|&at| got[at].is_some());
            let held = held.map(|at| ByteRange { offset: at as u64, length: 1 }).fold(Vec::new(), joined);
            PlanReadRequest {
                block: block.block.clone(),
                offset: next as u64,
                length: (to - next) as u64,
                scheme: scheme.to_owned(),
                held,
                room_bytes,
                ..Default::default()
            }
        };
        let reply = coordinator.plan_read(request).await.unwrap().into_inner();
        assert!(reply.degraded);
        let plan = reply.plan.unwrap();
        let symbols = plan.stages.iter().flat_map(|s| &s.outputs).find_map(|output| match &output.kind {
            Some(wire::proto::stage_output::Kind::Read(read)) => Some(read.symbols.clone()),
            _ => None,
        });
        let symbols = symbols.unwrap();
        let geometry = plan.header.as_ref().unwrap().geometry.unwrap();
        let symbol_bytes = BLOCK / geometry.alpha as usize;
        let out = Arc::clone(&got);
        let sink: exec::Sink = Box::new(move |delivery: Delivery<'_>| {
            let at = symbols[delivery.row].index as usize * symbol_bytes + delivery.offset as usize;
            let mut out = out.lock().unwrap();
            for i in 0..delivery.room {
                let byte = delivery.bytes.get(i).copied().unwrap_or(0);
                assert!(out[at + i].replace(byte).is_none(), "byte {} came twice", at + i);
            }
            Ok(())
        });
        let io = DriverIo { sink: Some(sink), ..DriverIo::default() };
        let result =
            Engine::client().drive(wire::codec::plan::decode(&plan).unwrap(), io, |_| {}).await.unwrap();
        flows.push(Done { plan, result });
    }
    let bytes = got.lock().unwrap()[from..to].iter().map(|byte| byte.unwrap()).collect();
    (bytes, flows)
}

fn joined(mut ranges: Vec<ByteRange>, next: ByteRange) -> Vec<ByteRange> {
    match ranges.last_mut() {
        Some(last) if last.offset + last.length == next.offset => last.length += next.length,
        _ => ranges.push(next),
    }
    ranges
}

/// Bytes on every link are the predicted ones. A star's helpers send what they read; what a chain reads is the same.
fn as_predicted(done: &Done, what: &str) {
    let links = |links: &[wire::proto::LinkBytes]| -> BTreeMap<(u32, u32), u64> {
        links.iter().filter(|l| l.bytes > 0).map(|l| ((l.from, l.to), l.bytes)).collect()
    };
    let predicted = links(&done.plan.predicted);
    assert_eq!(links(&done.result.links), predicted, "{what}");
    if done.plan.scheme == "conventional" {
        let sent: BTreeMap<u32, u64> = predicted.iter().map(|(&(from, _), &bytes)| (from, bytes)).collect();
        let slice_bytes = done.plan.header.as_ref().unwrap().geometry.unwrap().slice_bytes;
        if slice_bytes as usize >= gf::CHUNK_BYTES {
            assert_eq!(done.read(), sent, "{what}");
        } else {
            // Chunks are read whole, to be checked.
            let read = done.read();
            assert!(sent.iter().all(|(node, bytes)| read[node] >= *bytes), "{what}: {read:?} for {sent:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn links_and_disks_of_a_read_carry_what_was_predicted() {
    for code in ["rotated-4+2-r4", "rs16-4+2", "random-a2-4+2-s1"] {
        let (rig, bytes, lost) = degraded(code, 4, 8).await;
        for (from, to) in ranges().into_iter().step_by(3) {
            for scheme in ["conventional", "pipeline"] {
                let what = format!("{code} {scheme} {from}..{to}");
                let (got, flows) = by_plans(&rig, &lost, (from, to), scheme, ROOM).await;
                assert!(got == bytes[from..to], "{what}");
                assert!(flows.len() <= 3, "{what}: {} flows", flows.len());
                flows.iter().for_each(|done| as_predicted(done, &what));
            }
        }
    }
}

/// A lost block of (9,6), r = 4, is read like it is repaired: from 16 quarters of blocks, not from 24, and not from more
/// than symbol by symbol in any range. A code over GF(2^16) reads each helper once, and not once for each half.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn symbols_of_a_lost_block_share_what_they_are_decoded_from() {
    for (code, k, together, alone) in [("rotated-6+3-r4", 6, 16, 24), ("rs16-4+2", 4, 16, 32)] {
        let (rig, bytes, lost) = degraded(code, k, 10).await;
        let quarter = (BLOCK / 4) as u64;
        // The last data block is so much short, and what is not stored is not read: it depends on who helps.
        let missing = (3 * CHUNK + 5) as u64;
        let read = async |range: (usize, usize), scheme: &str, room: u64| {
            let (got, flows) = by_plans(&rig, &lost, range, scheme, room).await;
            assert!(got == bytes[range.0..range.1], "{code} {range:?}");
            (flows.len(), flows.iter().flat_map(|done| done.read().into_values()).sum::<u64>())
        };
        for scheme in ["conventional", "pipeline"] {
            let alpha = if code == "rs16-4+2" { 2 } else { 4 };
            let (shared, by_all) = read((0, BLOCK), scheme, ROOM).await;
            let (each, by_each) = read((0, BLOCK), scheme, 0).await;
            assert_eq!((shared, each), (1, alpha), "{code} {scheme}");
            let bounded = by_all <= together * quarter && by_each <= alone * quarter;
            assert!(
                bounded && by_all * 5 < by_each * 4,
                "{code} {scheme}: {by_all} B, {by_each} B one by one"
            );
        }
        for range in ranges().into_iter().step_by(4) {
            let (together, alone) =
                (read(range, "pipeline", ROOM).await.1, read(range, "pipeline", 0).await.1);
            assert!(together <= alone + missing, "{code} {range:?}: {together} instead of {alone}");
        }
    }
}

/// Long enough for a read of it to be watched.
const LONG: usize = 1 << 20;

fn long_block(index: usize) -> GetOptions {
    let range = Some(format!("{}-{}", index * LONG, (index + 1) * LONG - 1).parse().unwrap());
    GetOptions { range, ..GetOptions::default() }
}

/// A node that sends a block in a minute is read around, be it a helper or where the block itself is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_go_around_a_node_that_is_slow() {
    let mut rig = Rig::with(Settings { block_bytes: LONG as u64, ..Settings::nodes(7) }).await;
    let bytes = content(3, 12 * LONG);
    rig.put("a", &bytes).await.unwrap();
    rig.archive("a", "rs-2+2").await.unwrap();
    rig.no_garbage().await;
    let info = rig.client.lookup("a", true).await.unwrap();
    let holder = |index: usize| info.blocks[index].nodes[0];
    rig.lose([holder(0)]).await;
    // What is usual.
    assert!(rig.get("a").await.unwrap() == bytes);

    // The stripe's other data block helps to decode the first.
    let slow = holder(1);
    rig.node(slow).engine().throttle().set(LONG as u64 / 60, 0);
    let started = Instant::now();
    for index in [0, 1] {
        let mut around = BTreeSet::new();
        // Not everybody helps every time.
        for _ in 0..4 {
            let (got, report) = rig.read("a", long_block(index)).await.unwrap();
            assert!(got == bytes[index * LONG..(index + 1) * LONG], "{index}");
            let degraded = index == 0 || report.around.contains(&NodeId(slow));
            assert_eq!(report.degraded_blocks > 0, degraded, "{report:?}");
            around.extend(report.around);
        }
        assert!(around.contains(&NodeId(slow)), "block {index}: {around:?}");
    }
    assert!(started.elapsed() < Duration::from_secs(50), "it was waited for");

    // Who asks for patience gets what the node has, however long it takes.
    rig.node(slow).engine().throttle().set(LONG as u64 / 4, 0);
    let started = Instant::now();
    let patient = GetOptions { patient: true, ..long_block(1) };
    let (got, report) = rig.read("a", patient).await.unwrap();
    assert!(got == bytes[LONG..2 * LONG]);
    assert!(report.around.is_empty() && report.degraded_blocks == 0, "{report:?}");
    assert!(started.elapsed() > Duration::from_secs(2), "it was not slow");
}
