//! A 10-hop chain over unlimited loopback links, ours beside a bare helper chain: `cargo bench -p node --bench chain`.
//!
//! Both read one 64 MiB file per hop from the page cache, combine slice by slice and relay over TCP; the bare chain
//! XORs, checks nothing, and knows when to stop. Rounds alternate; printed are medians, the best, and processor
//! seconds of the whole process. What is compared ends with the last byte in the receiver's hands.

// A benchmark may fail loudly.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use codes::Code;
use disk::{Disk, RealDisk};
use exec::{DriverIo, Engine};
use flow::bound::{Binding, FlowHeader, Participant, bind};
use flow::{Flow, FlowPlan, Geometry, Helper, Member, RepairRequest, Scheme, Site, Symbol};
use model::{BlockId, FlowId, NodeId, Peer, StoredCopy, Token};
use node::store::NewBlock;
use node::{Config, Node};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

const HOPS: usize = 10;
const BLOCK_BYTES: u64 = 64 << 20;
const ROUNDS: usize = 9;

struct Cost {
    seconds: f64,
    processor_seconds: f64,
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (nodes, ids) = runtime.block_on(cluster(folder.path()));
    let engine = runtime.block_on(async { Engine::client() });
    println!(
        "{HOPS} hops, {} MiB, loopback, {} cores",
        BLOCK_BYTES >> 20,
        std::thread::available_parallelism().unwrap()
    );
    println!("{:<34} {:>9} {:>9} {:>9} {:>11}", "chain", "median s", "best s", "cpu s", "of bare");
    for slice_bytes in [32 * 1024, 256 * 1024, 1024 * 1024] {
        let mut bare = Vec::new();
        let mut verified = Vec::new();
        let mut unverified = Vec::new();
        for _ in 0..ROUNDS {
            bare.push(measure(|| bare_chain(folder.path(), slice_bytes as usize)));
            for (verify, costs) in [(true, &mut verified), (false, &mut unverified)] {
                let plan = plan(&nodes, &ids, slice_bytes, verify);
                let sink: exec::Sink = Box::new(|d| {
                    std::hint::black_box(d.bytes);
                    Ok(())
                });
                let io = DriverIo { sink: Some(sink), ..DriverIo::default() };
                costs.push(measure(|| {
                    runtime.block_on(engine.drive(plan, io, |_| {})).unwrap();
                }));
            }
        }
        let reference = median(&bare);
        for (name, costs) in [
            ("bare: pread, xor, relay", &bare),
            ("ours, verified", &verified),
            ("ours, CRC only", &unverified),
        ] {
            let (m, best) = (median(costs), costs.iter().map(|c| c.seconds).fold(f64::MAX, f64::min));
            println!(
                "{:<34} {:>9.4} {:>9.4} {:>9.3} {:>5.2} x cpu {:>4.2}",
                format!("{name}, {} KiB", slice_bytes / 1024),
                m.seconds,
                best,
                m.processor_seconds,
                reference.seconds / m.seconds,
                m.processor_seconds / reference.processor_seconds,
            );
        }
    }
}

async fn cluster(folder: &Path) -> (Vec<Node>, Vec<BlockId>) {
    let mut nodes = Vec::new();
    let mut ids = Vec::new();
    for hop in 0..HOPS {
        let root = folder.join(format!("node-{hop}"));
        let disk: Arc<dyn Disk> = Arc::new(RealDisk::create(&root).unwrap());
        let node =
            node::start(Config::new(NodeId(hop as u32 + 1), "127.0.0.1:1".into(), disk)).await.unwrap();
        let id = BlockId(rand::random());
        let bytes: Vec<u8> = (0..BLOCK_BYTES)
            .map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15 + hop as u64) >> 56) as u8)
            .collect();
        std::fs::write(folder.join(format!("bare-{hop}")), &bytes).unwrap();
        let mut writer = node.flows().store.writer(id, 1, BLOCK_BYTES).unwrap();
        writer.write(0, &bytes, None).unwrap();
        let facts = NewBlock {
            birth: model::Stamp::default(),
            stored_bytes: BLOCK_BYTES,
            alpha: 1,
            symbol_bytes: BLOCK_BYTES,
            part: None,
            note: Vec::new(),
        };
        writer.finish(facts, None).unwrap();
        nodes.push(node);
        ids.push(id);
    }
    (nodes, ids)
}

fn plan(nodes: &[Node], ids: &[BlockId], slice_bytes: u32, verify: bool) -> FlowPlan<Flow> {
    let code = Code::parse("rs-10+4").unwrap();
    let geometry = Geometry { block_bytes: BLOCK_BYTES, alpha: 1, slice_bytes };
    let helpers: Vec<Helper> = (0..HOPS)
        .map(|h| Helper {
            member: Member(h as u16 + 1),
            site: Site(h as u32 + 1),
            stored_bytes: BLOCK_BYTES,
            cost: 1,
        })
        .collect();
    let request = RepairRequest {
        code: &code,
        geometry,
        wanted: vec![Symbol { member: Member(0), index: 0 }],
        helpers: &helpers,
        absent: &[],
        empty: &[],
        requestor: Site(0),
        sink: flow::Sink::Read,
    };
    let flow = flow::build(Scheme::Pipeline, &request).unwrap();
    let mut header = FlowHeader::new(FlowId(rand::random()), code.field(), geometry);
    header.verify = verify;
    let participant = |number: u32, control_addr: String, data_addr: String| {
        let (site, peer) = (Site(number), Peer::from_number(number));
        Participant { site, peer, control_addr, data_addr, rack: 0 }
    };
    let mut participants = vec![participant(0, String::new(), String::new())];
    participants.extend(nodes.iter().zip(1..).map(|(node, number)| {
        participant(number, node.control_addr().to_string(), node.data_addr().to_string())
    }));
    let block = |h: usize| StoredCopy { block: ids[h], generation: 1, stored_bytes: BLOCK_BYTES };
    let blocks = (0..HOPS).map(|h| (Member(h as u16 + 1), block(h).into())).collect();
    let slices = 0..geometry.slices();
    let binding = Binding {
        header,
        participants,
        blocks,
        writes: Default::default(),
        scheme: "pipeline".into(),
        slices,
    };
    let plan = bind(flow, binding, || Token(rand::random())).unwrap();
    wire::codec::plan::decode(&wire::codec::plan::encode(&plan)).unwrap()
}

/// `HOPS` threads that relay, and this one that receives.
fn bare_chain(folder: &Path, slice_bytes: usize) {
    let mut threads = Vec::new();
    let mut previous: Option<TcpStream> = None;
    for hop in 0..HOPS {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut next = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        next.set_nodelay(true).unwrap();
        let (incoming, _) = listener.accept().unwrap();
        let mut from = previous.replace(incoming);
        let file = std::fs::File::open(folder.join(format!("bare-{hop}"))).unwrap();
        threads.push(std::thread::spawn(move || {
            let (mut local, mut slice) = (vec![0; slice_bytes], vec![0; slice_bytes]);
            for at in (0..BLOCK_BYTES).step_by(slice_bytes) {
                file.read_exact_at(&mut local, at).unwrap();
                match &mut from {
                    Some(from) => {
                        from.read_exact(&mut slice).unwrap();
                        gf::kernels().xor(&local, &mut slice);
                        next.write_all(&slice).unwrap();
                    }
                    None => next.write_all(&local).unwrap(),
                }
            }
        }));
    }
    let mut last = previous.unwrap();
    let mut slice = vec![0; slice_bytes];
    for _ in (0..BLOCK_BYTES).step_by(slice_bytes) {
        last.read_exact(&mut slice).unwrap();
        std::hint::black_box(&slice);
    }
    threads.into_iter().for_each(|t| t.join().unwrap());
}

fn measure(run: impl FnOnce()) -> Cost {
    let (before, started) = (process_cpu(), Instant::now());
    run();
    Cost { seconds: started.elapsed().as_secs_f64(), processor_seconds: process_cpu() - before }
}

fn process_cpu() -> f64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    t.tv_sec as f64 + t.tv_nsec as f64 / 1e9
}

fn median(costs: &[Cost]) -> Cost {
    let middle = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    Cost {
        seconds: middle(costs.iter().map(|c| c.seconds).collect()),
        processor_seconds: middle(costs.iter().map(|c| c.processor_seconds).collect()),
    }
}
