//! A flow whose sites are all in this process: the executor's own stages, each in its thread, over sockets without a
//! network and blocks without a disk.

use super::super::{Command, Connect, Connecting, EdgePlan, Stage, StageTask, Strategy, aborted, strategy};
use crate::connection::{Link, Origin};
use crate::engine::{Engine, EngineConfig, StageIo};
use crate::fault_injection::Injection;
use crate::store::{BlockSink, BlockSource, BlockStore};
use codes::Code;
use flow::bound::{Binding, BlockRead, BlockWrite, FlowHeader, NodeStages, Participant, bind};
use flow::{Geometry, Member, Proved, Site, interpret, stored_bytes};
use gf::{CHUNK_BYTES, Fingerprint, kernels};
use model::{BlockId, Fault, FlowId, NodeId, Peer, StoredCopy, Sums, Token};
use std::collections::{BTreeMap, HashMap};
use std::net::TcpStream;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, mpsc};
use wire::codec::plan;
use wire::proto;

/// The blocks of a stripe, as they are stored.
pub struct Stripe {
    pub code: Code,
    pub geometry: Geometry,
    pub blocks: Vec<Vec<u8>>,
    ids: Vec<BlockId>,
}

impl Stripe {
    /// With data blocks of these lengths.
    pub fn new(code: &str, block_bytes: u64, slice_bytes: u32, data_bytes: &[u64]) -> Stripe {
        let code = Code::parse(code).unwrap();
        let geometry = Geometry { block_bytes, alpha: code.alpha() as u16, slice_bytes };
        let length = |member: Member| data_bytes[usize::from(member.0)];
        let mut data: Vec<Vec<u8>> = Vec::new();
        for (member, &stored) in data_bytes.iter().enumerate() {
            for index in 0..geometry.alpha {
                let noise =
                    |i: u64| ((i * 7919 + member as u64 * 104_729 + u64::from(index) * 31) >> 3) as u8 | 1;
                data.push((0..geometry.symbol_extent(index, stored)).map(noise).collect());
            }
        }
        let data: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
        let symbol = |member: u16, index: usize| {
            let row = code.symbol_row(member, index as u16);
            interpret::combine(code.field(), row, &data, geometry.symbol_bytes() as usize)
        };
        let block = |member: u16| {
            let mut block: Vec<u8> = (0..code.alpha()).flat_map(|index| symbol(member, index)).collect();
            block.truncate(stored_bytes(&code, geometry, Member(member), length).unwrap() as usize);
            block
        };
        let blocks: Vec<Vec<u8>> = (0..code.n() as u16).map(block).collect();
        let ids = blocks.iter().map(|_| BlockId(rand::random())).collect();
        Stripe { code, geometry, blocks, ids }
    }

    pub fn stored(&self, member: Member) -> u64 {
        self.block(member).map_or(0, |block| block.len() as u64)
    }

    pub fn block(&self, member: Member) -> Option<&[u8]> {
        self.blocks.get(usize::from(member.0)).map(Vec::as_slice)
    }

    fn binding(&self, flow: &Proved, header: FlowHeader) -> Binding {
        let participant = |site: Site| Participant {
            site,
            peer: node(site),
            // Sockets come from the rig: nobody dials.
            control_addr: "127.0.0.1:9".into(),
            data_addr: "127.0.0.1:9".into(),
            rack: 0,
        };
        let members = || (0..self.blocks.len() as u16).map(Member);
        let copy = |member: Member| StoredCopy {
            block: self.ids[usize::from(member.0)],
            generation: 1,
            stored_bytes: self.stored(member),
        };
        let write = |member: Member| BlockWrite {
            member,
            block: self.ids[usize::from(member.0)],
            generation: 2,
            stored_bytes: self.stored(member),
            sums: Sums::default(),
            part: None,
            note: Vec::new(),
            birth: model::Stamp::default(),
        };
        Binding {
            participants: flow.sites().into_iter().map(participant).collect(),
            blocks: members().map(|member| (member, copy(member).into())).collect(),
            writes: members().map(|member| (member, write(member))).collect(),
            scheme: "test".into(),
            slices: 0..flow.geometry.slices(),
            header,
        }
    }
}

/// The node at a site.
pub fn node(site: Site) -> Peer {
    NodeId(site.0 + 1).into()
}

/// What is planted.
#[derive(Default)]
pub struct Planted {
    /// Byte `.1` of a member's block is read wrong.
    pub misread: Option<(Member, u64)>,
    /// What a site does wrong.
    pub injections: BTreeMap<Site, Arc<Injection>>,
}

/// A stage that ran, and how.
pub struct Ran {
    pub site: Site,
    /// The strategy's name, unless the stage did not get so far.
    pub strategy: Option<&'static str>,
    pub result: Result<(), Fault>,
}

/// What came of a flow.
pub struct Outcome {
    pub stages: Vec<Ran>,
    /// By member.
    pub written: BTreeMap<u16, Vec<u8>>,
    /// The rows that were read.
    pub read: Vec<Vec<u8>>,
    /// Payload bytes by lane and edge.
    pub edge_bytes: BTreeMap<(u32, u32), u64>,
}

/// The strategies' names.
pub const STRATEGIES: [&str; 7] = ["first", "between", "last", "stream", "accumulate", "in place", "combine"];

fn name(strategy: Strategy) -> &'static str {
    STRATEGIES[match strategy {
        Strategy::Frame(strategy::Place::First { .. }) => 0,
        Strategy::Frame(strategy::Place::Between(_)) => 1,
        Strategy::Frame(strategy::Place::Last) => 2,
        Strategy::Stream => 3,
        Strategy::Accumulate => 4,
        Strategy::InPlace(_) => 5,
        Strategy::Combine => 6,
    }]
}

/// Runs a flow over its slices, which are granted in runs of at most `run_slices`.
pub fn run(
    stripe: &Stripe,
    flow: &Proved,
    header: FlowHeader,
    run_slices: u64,
    planted: &Planted,
) -> Outcome {
    let binding = stripe.binding(flow, header);
    let bound = bind(flow.clone(), binding, || Token(rand::random())).unwrap();
    let plan = plan::decode(&plan::encode(&bound)).unwrap();
    let memory = Arc::new(Memory::new(stripe, planted));
    let read = Arc::new(Mutex::new(Vec::new()));
    let (mut prepared, mut tasks) = (Vec::new(), Vec::new());
    for (participant, ends) in plan.standing().unwrap() {
        let site = participant.site;
        let NodeStages { header, stages: specs } = plan.part(site, ends).unwrap();
        let store: Arc<dyn BlockStore> = Arc::new(Arc::clone(&memory));
        let mut config = EngineConfig::new(node(site), Arc::default(), Some(store));
        config.injection = planted.injections.get(&site).cloned().unwrap_or_default();
        let source = Some(Arc::new(stripe.blocks[0].clone()));
        let io = StageIo { source, sink: Some(sink(&read, flow.geometry)), ..Default::default() };
        let (part, opened) = Engine::new(config).open(&header, specs, io).unwrap();
        prepared.push(part);
        tasks.extend(opened.into_iter().map(|task| (site, task)));
    }
    let mut deal = flow::deal(flow.geometry, &flow.lane_shares(), std::iter::once(0..flow.geometry.slices()));
    while let Some(run) = deal.next_within(run_slices) {
        let Range { start, end } = run.slices;
        prepared.iter().for_each(|part| part.grant(run.lane as u32, start, end - start).unwrap());
    }
    prepared.iter().for_each(|part| part.finish().unwrap());
    let sockets = Sockets::default();
    let stages = std::thread::scope(|scope| {
        let threads: Vec<_> =
            tasks.into_iter().map(|(site, task)| (site, scope.spawn(|| stage(task, &sockets)))).collect();
        let ran = |(site, thread): (Site, std::thread::ScopedJoinHandle<'_, _>)| {
            let (strategy, result) = thread.join().unwrap();
            Ran { site, strategy, result }
        };
        threads.into_iter().map(ran).collect()
    });
    let mut edge_bytes = BTreeMap::new();
    for part in &mut prepared {
        while let Ok(kind) = part.events.try_recv() {
            if let proto::stage_message::Kind::Done(stats) = kind {
                edge_bytes.extend(stats.sent.iter().map(|s| ((stats.lane, s.edge), s.payload_bytes)));
            }
        }
    }
    let written = std::mem::take(&mut *memory.written.lock().unwrap());
    let read = std::mem::take(&mut *read.lock().unwrap());
    Outcome { stages, written, read, edge_bytes }
}

/// As [`super::super::run`], and says what it chose.
fn stage(mut task: StageTask, sockets: &Sockets) -> (Option<&'static str>, Result<(), Fault>) {
    let abort = Arc::clone(&task.context.abort);
    let first = task.commands.blocking_recv().unwrap();
    let granted = if let Command::Run(_, count) = first { count } else { 0 };
    let mut chosen = None;
    let opened = Stage::open(task, &sockets, granted);
    let result = opened.and_then(|mut stage| {
        chosen = Some(name(stage.strategy));
        stage.carry(first)?;
        stage.finish(&sockets)
    });
    if result.is_err() {
        abort.fire();
    }
    (chosen, result)
}

fn sink(read: &Arc<Mutex<Vec<Vec<u8>>>>, geometry: Geometry) -> crate::Sink {
    let read = Arc::clone(read);
    Box::new(move |delivery| {
        let mut rows = read.lock().unwrap();
        if rows.len() <= delivery.row {
            rows.resize(delivery.row + 1, vec![0xee; geometry.symbol_bytes() as usize]);
        }
        let from = delivery.offset as usize;
        let part = &mut rows[delivery.row][from..from + delivery.room];
        part.fill(0);
        part[..delivery.bytes.len()].copy_from_slice(delivery.bytes);
        Ok(())
    })
}

/// Both ends of every edge: who asks first makes them.
#[derive(Default)]
struct Sockets(Mutex<HashMap<(u16, u16, bool), TcpStream>>);

impl Connect for &Sockets {
    fn begin(&self, plan: EdgePlan, sends: bool) -> Connecting {
        let end = plan.end().clone();
        let mut sockets = self.0.lock().unwrap();
        let stream = sockets.remove(&(end.lane, end.edge, sends)).unwrap_or_else(|| {
            let (here, there) = UnixStream::pair().unwrap();
            sockets.insert((end.lane, end.edge, !sends), OwnedFd::from(there).into());
            OwnedFd::from(here).into()
        });
        let (arrive, arrives) = mpsc::sync_channel(1);
        arrive.send(Link::new(Arc::new(stream), Origin::Accepted)).unwrap();
        Connecting::Arriving(end, sends, arrives)
    }

    fn complete(&self, begun: Connecting) -> Result<Link, Fault> {
        match begun {
            Connecting::Arriving(_, _, arrives) => arrives.recv().map_err(|_| aborted()),
            Connecting::Dialling(_) => unreachable!("nobody dials"),
        }
    }

    fn give_back(&self, _: Link) {}
}

/// Blocks in memory, each chunk with the fingerprint that it ought to have.
struct Memory {
    blocks: HashMap<BlockId, (Vec<u8>, Vec<Fingerprint>)>,
    written: Mutex<BTreeMap<u16, Vec<u8>>>,
}

impl Memory {
    fn new(stripe: &Stripe, planted: &Planted) -> Memory {
        let mut blocks = HashMap::new();
        for (member, (bytes, &id)) in (0..).zip(stripe.blocks.iter().zip(&stripe.ids)) {
            let fingerprints = bytes.chunks(CHUNK_BYTES).map(|chunk| kernels().fingerprint(chunk)).collect();
            let mut bytes = bytes.clone();
            if let Some((_, at)) = planted.misread.filter(|(misread, _)| *misread == Member(member)) {
                bytes[at as usize] ^= 4;
            }
            blocks.insert(id, (bytes, fingerprints));
        }
        Memory { blocks, written: Mutex::default() }
    }
}

struct Source(Arc<Memory>, BlockId);

impl BlockStore for Arc<Memory> {
    fn open(&self, read: &BlockRead, _: FlowId) -> Result<Box<dyn BlockSource>, Fault> {
        Ok(Box::new(Source(Arc::clone(self), read.copy.block)))
    }

    fn create(&self, write: &BlockWrite, _: &FlowHeader) -> Result<Box<dyn BlockSink>, Fault> {
        let bytes = vec![0xee; write.stored_bytes as usize];
        Ok(Box::new(Target { memory: Arc::clone(self), member: write.member.0, bytes }))
    }

    fn report_corrupt(&self, _: BlockId, _: u64) {}
}

impl BlockSource for Source {
    fn stored_bytes(&self) -> u64 {
        self.0.blocks[&self.1].0.len() as u64
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), Fault> {
        let from = offset as usize;
        out.copy_from_slice(&self.0.blocks[&self.1].0[from..from + out.len()]);
        Ok(())
    }

    fn fingerprints(&self, first: u64, out: &mut [Fingerprint]) -> Result<(), Fault> {
        let from = first as usize;
        out.copy_from_slice(&self.0.blocks[&self.1].1[from..from + out.len()]);
        Ok(())
    }

    fn will_need(&self, _: Range<u64>) {}
}

struct Target {
    memory: Arc<Memory>,
    member: u16,
    bytes: Vec<u8>,
}

impl BlockSink for Target {
    fn write(&mut self, offset: u64, bytes: &[u8], given: Option<&[Fingerprint]>) -> Result<(), Fault> {
        let from = offset as usize;
        self.bytes[from..from + bytes.len()].copy_from_slice(bytes);
        for (chunk, given) in bytes.chunks(CHUNK_BYTES).zip(given.into_iter().flatten()) {
            assert!(kernels().fingerprint(chunk) == *given, "the fingerprint that goes to the sidecar");
        }
        Ok(())
    }

    fn resume(&mut self) -> Vec<Range<u64>> {
        Vec::new()
    }

    fn finish(self: Box<Self>) -> Result<proto::Staged, Fault> {
        self.memory.written.lock().unwrap().insert(self.member, self.bytes);
        Ok(proto::Staged::default())
    }
}
