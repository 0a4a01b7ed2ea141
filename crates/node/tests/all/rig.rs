//! A stripe spread over real nodes in this process: real sockets, real stores, no coordinator.

use codes::Code;
use disk::{CrashDisk, Disk, PowerSwitch};
use exec::{DriverIo, Engine, Injection};
use flow::bound::{Binding, BlockWrite, FlowHeader, NodeStages, Participant, bind};
use flow::{
    EncodeRequest, EncodeScheme, Geometry, Helper, Member, MultiBlockRequest, Proved, RepairRequest, Scheme,
    Site, Symbol, limits,
};
use model::{BlockId, Fault, FlowId, NodeId, Peer, StoredCopy, Sums, Token};
use node::store::{NewBlock, Store, StoreError};
use node::{Config, Node, NodeError};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wire::codec::{part, plan};
use wire::proto;

/// The requestor's node number; member i lives on node i + 1.
pub const REQUESTOR: u32 = 100;

/// Soon enough for a test, and longer than a busy machine lets a thread wait for its turn.
pub const IMPATIENT_MS: u32 = 1_500;

/// Nobody listens there: these nodes have no coordinator.
pub const NO_COORDINATOR: &str = "127.0.0.1:1";

/// One stripe, one node for each member, and a requestor.
pub struct Rig {
    pub code: Code,
    pub geometry: Geometry,
    pub nodes: Vec<Node>,
    pub requestor: Node,
    /// The requestor as site 0, member i's node as site i + 1, also when it is dead.
    participants: Vec<Participant>,
    pub blocks: Vec<Vec<u8>>,
    pub ids: Vec<BlockId>,
    pub injections: Vec<Arc<Injection>>,
    pub disks: Vec<Arc<dyn Disk>>,
    /// A stage that waits longer says so. The usual time; less where somebody is to be found who stands still.
    pub stall_ms: u32,
}

impl Rig {
    /// Data blocks of the given lengths, parities computed by the plainest arithmetic there is.
    pub async fn new(code: &str, lengths: &[u64], slice_bytes: u32) -> Rig {
        let code = Code::parse(code).unwrap();
        assert_eq!(lengths.len(), code.k());
        let block_bytes = lengths.iter().copied().max().unwrap();
        let geometry = Geometry { block_bytes, alpha: code.alpha() as u16, slice_bytes };
        let blocks = encode(&code, geometry, lengths);
        let switch = PowerSwitch::new();
        let (mut nodes, mut ids, mut injections, mut disks) = (vec![], vec![], vec![], vec![]);
        for (member, bytes) in blocks.iter().enumerate() {
            let injection = Arc::new(Injection::default());
            let disk: Arc<dyn Disk> = Arc::new(CrashDisk::new(&switch));
            let node = start(member as u32 + 1, disk.clone(), injection.clone()).await;
            ids.push(BlockId(rand::random()));
            put(&node, ids[member], bytes, geometry);
            nodes.push(node);
            injections.push(injection);
            disks.push(disk);
        }
        let requestor = start(REQUESTOR, Arc::new(CrashDisk::new(&switch)), Arc::default()).await;
        let sites = (0..).zip([&requestor].into_iter().chain(&nodes));
        let participants = sites.map(|(site, node)| participant(site, node)).collect();
        Rig {
            code,
            geometry,
            nodes,
            requestor,
            participants,
            blocks,
            ids,
            injections,
            disks,
            stall_ms: limits::STALL_MS,
        }
    }

    /// A proved repair of several blocks, the first at the requestor, the others each at the node of the member given with
    /// it.
    pub fn plan_several(
        &self,
        scheme: Scheme,
        lost: u16,
        others: &[(u16, u16)],
    ) -> (proto::FlowPlan, flow::Cost) {
        let also = others.iter().map(|&(member, at)| (Member(member), Site(u32::from(at) + 1)));
        let targets: Vec<(Member, Site)> = [(Member(lost), Site(0))].into_iter().chain(also).collect();
        let away: Vec<Member> =
            others.iter().map(|&(_, at)| Member(at)).chain(targets.iter().map(|t| t.0)).collect();
        let helpers = self.helpers(&away);
        let request = MultiBlockRequest {
            code: &self.code,
            geometry: self.sliced(scheme),
            targets: &targets,
            helpers: &helpers,
            absent: &[],
            empty: &[],
        };
        let flow = flow::multi_block::build(scheme, &request).unwrap();
        let slices = (0, flow.geometry.slices());
        let stored = |m: Member| self.blocks[usize::from(m.0)].len() as u64;
        (self.bind(flow.clone(), scheme, true, REQUESTOR, slices), flow::predict(&flow, stored, None))
    }

    /// A proved encoding: every parity is written where it is stored, but the last one, which the node of block 0 writes. By
    /// a star the requestor makes them; else it only drives.
    pub fn plan_encoding(&self, scheme: EncodeScheme) -> (proto::FlowPlan, flow::Cost) {
        let (k, n) = (self.code.k() as u16, self.code.n() as u16);
        let parities: Vec<Member> = (k..n).map(Member).collect();
        let site = |m: u16| if m + 1 == n { Site(1) } else { Site(u32::from(m) + 1) };
        let targets: Vec<(Member, Site)> = parities.iter().map(|&m| (m, site(m.0))).collect();
        let helpers = self.helpers(&parities);
        let request = EncodeRequest {
            code: &self.code,
            geometry: self.geometry,
            data: &helpers,
            absent: &[],
            empty: &[],
            archiver: Site(0),
            targets: &targets,
        };
        let flow = flow::encode::build(scheme, &request).unwrap();
        let slices = (0, flow.geometry.slices());
        let stored = |m: Member| self.blocks[usize::from(m.0)].len() as u64;
        let cost = flow::predict(&flow, stored, None);
        (self.bind(flow, Scheme::Conventional, true, REQUESTOR, slices), cost)
    }

    /// A proved repair of whole blocks at the requestor by the helpers in that order.
    pub fn plan(&self, scheme: Scheme, lost: &[u16], verify: bool) -> proto::FlowPlan {
        let lost: Vec<Member> = lost.iter().map(|&m| Member(m)).collect();
        let wanted = RepairRequest::whole_blocks(&self.code, &lost);
        let flow = self.flow(scheme, wanted, flow::Sink::Write, &lost);
        let slices = (0, flow.geometry.slices());
        self.bind(flow, scheme, verify, REQUESTOR, slices)
    }

    /// An attempt at the repair of a block, without the help of the members `away`; what it writes is kept when it breaks.
    pub fn attempt(
        &self,
        scheme: Scheme,
        lost: u16,
        away: &[u16],
        flow: FlowId,
        attempt: u32,
    ) -> proto::FlowPlan {
        let members: Vec<Member> = away.iter().chain([&lost]).map(|&m| Member(m)).collect();
        let wanted = RepairRequest::whole_blocks(&self.code, &[Member(lost)]);
        let built = self.flow(scheme, wanted, flow::Sink::Write, &members);
        let slices = (0, built.geometry.slices());
        let mut plan = self.bind(built, scheme, true, REQUESTOR, slices);
        let header = plan.header.as_mut().unwrap();
        (header.flow, header.attempt, header.keep) = (flow.to_vec(), attempt, true);
        plan
    }

    /// A proved repair of a whole block at the requestor, and what it will cost.
    pub fn plan_and_cost(&self, scheme: Scheme, lost: u16) -> (proto::FlowPlan, flow::Cost) {
        let lost = Member(lost);
        let wanted = RepairRequest::whole_blocks(&self.code, &[lost]);
        let flow = self.flow(scheme, wanted, flow::Sink::Write, &[lost]);
        let slices = (0, flow.geometry.slices());
        let stored = |m: Member| self.blocks[usize::from(m.0)].len() as u64;
        (self.bind(flow.clone(), scheme, true, REQUESTOR, slices), flow::predict(&flow, stored, None))
    }

    /// Bytes that each site read from its disk.
    pub fn read_at(&self, result: &proto::DriveResult) -> BTreeMap<Site, u64> {
        let mut read = BTreeMap::new();
        let site = |node: u32| if node == REQUESTOR { Site(0) } else { Site(node) };
        for stage in result.stages.iter().filter(|s| s.disk_read_bytes > 0) {
            *read.entry(site(stage.node)).or_default() += stage.disk_read_bytes;
        }
        read
    }

    /// A proved read of symbols by a client; of the slices asked for, or of all where there is but one.
    pub fn read_plan(&self, scheme: Scheme, symbols: &[(u16, u16)], slices: (u64, u64)) -> proto::FlowPlan {
        let wanted = symbols.iter().map(|&(m, index)| Symbol { member: Member(m), index }).collect();
        let lost: Vec<Member> = symbols.iter().map(|s| Member(s.0)).collect();
        let flow = self.flow(scheme, wanted, flow::Sink::Read, &lost);
        let slices = if scheme.whole_block() { (0, 1) } else { slices };
        self.bind(flow, scheme, true, 0, slices)
    }

    /// The flow of a scheme, its slices as long as the scheme wants them.
    pub fn flow(&self, scheme: Scheme, wanted: Vec<Symbol>, sink: flow::Sink, lost: &[Member]) -> Proved {
        let helpers = self.helpers(lost);
        let request = RepairRequest {
            code: &self.code,
            geometry: self.sliced(scheme),
            wanted,
            helpers: &helpers,
            absent: &[],
            empty: &[],
            requestor: Site(0),
            sink,
        };
        flow::build(scheme, &request).unwrap()
    }

    fn helpers(&self, without: &[Member]) -> Vec<Helper> {
        (0..self.blocks.len())
            .filter(|&m| !without.contains(&Member(m as u16)))
            .map(|m| Helper {
                member: Member(m as u16),
                site: Site(m as u32 + 1),
                stored_bytes: self.blocks[m].len() as u64,
                cost: 1,
            })
            .collect()
    }

    fn sliced(&self, scheme: Scheme) -> Geometry {
        match scheme.whole_block() {
            true => Geometry { slice_bytes: self.geometry.whole_slice() as u32, ..self.geometry },
            false => self.geometry,
        }
    }

    fn bind(
        &self,
        flow: Proved,
        scheme: Scheme,
        verify: bool,
        driver: u32,
        slices: (u64, u64),
    ) -> proto::FlowPlan {
        let mut header = FlowHeader::new(FlowId(rand::random()), self.code.field(), flow.geometry);
        header.verify = verify;
        header.serial = scheme.serial();
        header.stall_ms = self.stall_ms;
        let mut participants = self.participants.clone();
        if driver == 0 {
            participants[0] = Participant {
                site: Site(0),
                peer: Peer::Client,
                control_addr: String::new(),
                data_addr: String::new(),
                rack: 0,
            };
        }
        let blocks = (0..self.blocks.len())
            .map(|m| {
                let stored_bytes = self.blocks[m].len() as u64;
                let block = StoredCopy { block: self.ids[m], generation: 1, stored_bytes };
                (Member(m as u16), block.into())
            })
            .collect();
        let writes: BTreeMap<_, _> =
            (0..self.blocks.len()).map(|m| (Member(m as u16), self.write(m))).collect();
        let slices = slices.0..slices.0 + slices.1;
        let binding = Binding { header, participants, blocks, writes, scheme: "test".into(), slices };
        plan::encode(&bind(flow, binding, || Token(rand::random())).unwrap())
    }

    fn write(&self, member: usize) -> BlockWrite {
        BlockWrite {
            member: Member(member as u16),
            block: self.ids[member],
            generation: WRITTEN,
            stored_bytes: self.blocks[member].len() as u64,
            sums: Sums { digest: Some(blake3::hash(&self.blocks[member]).into()), fingerprint: None },
            part: None,
            note: Vec::new(),
            birth: model::Stamp::default(),
        }
    }

    /// Runs a repair with the requestor as its driver.
    pub async fn repair(&self, plan: proto::FlowPlan) -> Result<proto::DriveResult, Fault> {
        self.requestor.engine().drive(plan::decode(&plan)?, DriverIo::default(), |_| {}).await
    }

    /// Ends the node of a member and starts it anew, at the same address.
    pub async fn restart(&mut self, member: usize) {
        let number = member as u32 + 1;
        let old = self.nodes.remove(member);
        let addr = old.control_addr();
        old.shutdown().await;
        let again = || start_at(addr, number, self.disks[member].clone(), self.injections[member].clone());
        let mut node = again().await;
        // Something of the old one may hold the store a moment longer.
        for _ in 0..100 {
            let Err(NodeError::Store(StoreError::InUse)) = node else { break };
            tokio::time::sleep(Duration::from_millis(20)).await;
            node = again().await;
        }
        let node = node.unwrap();
        self.participants[number as usize] = participant(number, &node);
        self.nodes.insert(member, node);
    }

    /// Whether the requestor now stores the block, byte for byte.
    pub fn repaired(&self, member: usize) -> bool {
        self.stores(&self.requestor, member)
    }

    /// The same of any node.
    pub fn stores(&self, node: &Node, member: usize) -> bool {
        let store = &node.flows().store;
        let stored = [WRITTEN, STORED].into_iter().find_map(|g| store.reader(self.ids[member], g).ok());
        let Some(reader) = stored else { return false };
        let mut bytes = vec![0; reader.stored_bytes() as usize];
        reader.read_verified(0, &mut bytes).unwrap();
        bytes == self.blocks[member]
    }
}

/// Generation of the copies that the rig stores.
pub const STORED: u64 = 1;

/// Generation of the copies that its repairs write.
pub const WRITTEN: u64 = 2;

/// The suspected edge, by the numbers of its ends.
pub fn suspect(fault: &Fault) -> Option<(u32, u32)> {
    fault.suspect.map(|(from, to)| (from.number(), to.number()))
}

/// What a site is told to run, as its message.
pub fn prepare(plan: &proto::FlowPlan, site: u32) -> proto::Prepare {
    let plan = plan::decode(plan).unwrap();
    let (_, ends) = plan.standing().unwrap().find(|(participant, _)| participant.site == Site(site)).unwrap();
    part::encode(&plan, Site(site), &ends)
}

/// What a site is told to run.
pub fn stages_at(plan: &proto::FlowPlan, site: u32) -> NodeStages {
    part::decode(&prepare(plan, site)).unwrap()
}

/// Runs a read with a client as its driver; the bytes of each row, from the first slice asked for.
pub async fn read(plan: proto::FlowPlan, rows: usize, slice_bytes: u32) -> Result<Vec<Vec<u8>>, Fault> {
    let got = Arc::new(Mutex::new(vec![Vec::new(); rows]));
    let first = plan.first_slice * u64::from(slice_bytes);
    let sink: exec::Sink = Box::new({
        let got = got.clone();
        move |d: exec::Delivery<'_>| {
            let mut rows = got.lock().unwrap();
            rows[d.row].resize((d.offset - first) as usize, 0);
            rows[d.row].extend_from_slice(d.bytes);
            Ok(())
        }
    });
    let io = DriverIo { sink: Some(sink), ..DriverIo::default() };
    Engine::client().drive(plan::decode(&plan)?, io, |_| {}).await?;
    let rows = std::mem::take(&mut *got.lock().unwrap());
    Ok(rows)
}

async fn start(number: u32, disk: Arc<dyn Disk>, injection: Arc<Injection>) -> Node {
    start_at("127.0.0.1:0".parse().unwrap(), number, disk, injection).await.unwrap()
}

async fn start_at(
    listen_control: SocketAddr,
    number: u32,
    disk: Arc<dyn Disk>,
    injection: Arc<Injection>,
) -> Result<Node, NodeError> {
    let mut config = Config::new(NodeId(number), NO_COORDINATOR.into(), disk);
    (config.listen_control, config.injection) = (listen_control, injection);
    node::start(config).await
}

fn participant(site: u32, node: &Node) -> Participant {
    Participant {
        site: Site(site),
        peer: node.number().into(),
        control_addr: node.control_addr().to_string(),
        data_addr: node.data_addr().to_string(),
        rack: 0,
    }
}

fn put(node: &Node, id: BlockId, bytes: &[u8], geometry: Geometry) {
    let mut writer = node.flows().store.writer(id, STORED, bytes.len() as u64).unwrap();
    writer.write(0, bytes, None).unwrap();
    let facts = NewBlock {
        birth: model::Stamp::default(),
        stored_bytes: bytes.len() as u64,
        alpha: geometry.alpha,
        symbol_bytes: geometry.symbol_bytes(),
        part: None,
        note: Vec::new(),
    };
    writer.finish(facts, None).unwrap();
}

/// The stripe, by field arithmetic one byte at a time.
fn encode(code: &Code, geometry: Geometry, lengths: &[u64]) -> Vec<Vec<u8>> {
    let (alpha, symbol) = (code.alpha(), geometry.symbol_bytes() as usize);
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut symbols: Vec<Vec<u8>> = Vec::new();
    let mut blocks: Vec<Vec<u8>> = Vec::new();
    for &length in lengths {
        let mut block: Vec<u8> = (0..length)
            .map(|_| {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                (state >> 56) as u8
            })
            .collect();
        blocks.push(block.clone());
        block.resize(symbol * alpha, 0);
        symbols.extend(block.chunks(symbol.max(1)).take(alpha).map(<[u8]>::to_vec));
    }
    for member in code.k()..code.n() {
        let mut parity = Vec::new();
        for index in 0..alpha {
            let row = code.symbol_row(member as u16, index as u16);
            let mut sum = vec![0u8; symbol];
            for (coefficient, data) in row.iter().zip(&symbols) {
                sum.iter_mut()
                    .zip(data)
                    .for_each(|(s, d)| *s ^= code.field().mul(*coefficient, u16::from(*d)) as u8);
            }
            parity.extend(sum);
        }
        blocks.push(parity);
    }
    blocks
}

/// Removes whatever copy of the block is there.
pub fn remove(store: &Store, block: BlockId) {
    for generation in [STORED, WRITTEN] {
        store.delete(block, generation).unwrap();
    }
}
