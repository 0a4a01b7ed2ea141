//! The nodes: what they hold, and how they compute a flow.

mod fake_node;
mod macs;

pub use fake_node::FakeNode;

use crate::support::holding::Kept;
use flow::Member;
use flow::interpret::{self, Outcome};
use gf::{CHUNK_BYTES, Fingerprint, kernels};
use macs::{mac, secret};
use model::{Cause, Fault, Incarnation, NodeId, Peer, StoreId};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tonic::transport::server::TcpIncoming;
use wire::codec::mac::Identified;
use wire::mac::{Challenge, Secret, Whose};
use wire::proto;
use wire::proto::node_server::NodeServer;

/// A stored block.
#[derive(Clone)]
pub struct Stored {
    pub bytes: Vec<u8>,
    pub generation: u64,
    pub write: proto::BlockWrite,
}

/// Node, block, generation.
type Key = (u32, Vec<u8>, u64);

#[derive(Clone, Default)]
struct State {
    blocks: BTreeMap<Key, Stored>,
    dead: BTreeSet<u32>,
    cluster: BTreeMap<u32, Vec<u8>>,
    /// The last change of the catalog that each heard of.
    heard: BTreeMap<u32, proto::Stamp>,
    /// So many of the next blocks that are written come out wrong.
    lies: u32,
    /// Bytes that a link of the next flow carries beyond those predicted.
    surplus: u64,
    /// The node that says nothing of the next block that it stores.
    silent: Option<u32>,
    corrupt: BTreeSet<Key>,
    /// Copies, and below it folders, that their nodes cannot read.
    unread: BTreeSet<Key>,
    unread_folders: BTreeSet<(u32, u8)>,
    flows: Vec<proto::FlowPlan>,
    /// Flows that were ordered, also those that failed.
    ordered: u64,
    /// Bytes that each of them can store, if it tells; the double stores more.
    capacity: Option<u64>,
    throttles: BTreeMap<u32, u64>,
    /// Folders that were listed, by node.
    listed: Vec<(u32, Vec<u8>)>,
    /// Rounds of its scrub that the node tells of.
    scrub_rounds: BTreeMap<u32, u64>,
    /// Starts of nodes beyond their first, and the words that the last one shows of those before it.
    starts: BTreeMap<u32, (u64, Vec<u64>)>,
    /// What each keeps of the catalog.
    kept: BTreeMap<u32, Kept>,
    /// Nodes whose control ports are unreachable; they still send heartbeats.
    cut_off: BTreeSet<u32>,
    /// Nodes that answer calls as somebody else.
    poses: BTreeMap<u32, (Whose, Secret)>,
    /// Delay before each of these nodes answers a call.
    late: BTreeMap<u32, Duration>,
    /// Whether the driver of the next flow stores nothing and reports that all is stored.
    forges: bool,
}

impl State {
    /// The newest copy of a block on a node.
    fn newest(&self, node: u32, block: &[u8]) -> Option<Key> {
        let copies = (node, block.to_vec(), 0)..=(node, block.to_vec(), u64::MAX);
        self.blocks.range(copies).next_back().map(|(key, _)| key.clone())
    }
}

/// How all nodes stood at some time.
pub struct Saved(State);

/// All nodes together.
pub struct World {
    addresses: BTreeMap<u32, SocketAddr>,
    state: Mutex<State>,
}

/// Additional room for archival: three blocks.
const ARCHIVAL_BYTES: u64 = 12_000;

impl World {
    /// Nodes 1 … `nodes`, listening.
    pub async fn start(nodes: u32) -> Arc<World> {
        let mut listeners = Vec::new();
        for node in 1..=nodes {
            listeners.push((node, tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port")));
        }
        let addresses =
            listeners.iter().map(|(node, l)| (*node, l.local_addr().expect("an address"))).collect();
        let world = Arc::new(World { addresses, state: Mutex::default() });
        for (node, listener) in listeners {
            let service = NodeServer::new(world.node(node));
            tokio::spawn(
                tonic::transport::Server::builder()
                    .add_service(service)
                    .serve_with_incoming(TcpIncoming::from(listener).with_nodelay(Some(true))),
            );
        }
        world
    }

    /// Nodes 1 … `nodes`, which nothing listens for: who wants them calls [`node`](Self::node).
    pub fn unserved(nodes: u32) -> Arc<World> {
        let addresses = (1..=nodes).map(|node| (node, SocketAddr::from(([127, 0, 0, 1], node as u16))));
        Arc::new(World { addresses: addresses.collect(), state: Mutex::default() })
    }

    /// What answers calls to a node.
    pub fn node(self: &Arc<Self>, node: u32) -> FakeNode {
        FakeNode { node, world: Arc::clone(self) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no test thread panicked")
    }

    pub fn living(&self) -> Vec<u32> {
        let state = self.state();
        self.addresses.keys().copied().filter(|node| !state.dead.contains(node)).collect()
    }

    pub fn lives(&self, node: u32) -> bool {
        !self.state().dead.contains(&node)
    }

    pub fn kill(&self, node: u32) {
        self.state().dead.insert(node);
    }

    /// Whether calls reach the node.
    pub fn is_reached(&self, node: u32) -> bool {
        self.lives(node) && !self.state().cut_off.contains(&node)
    }

    /// Makes the node's control port unreachable; the node still sends heartbeats.
    pub fn cut_off(&self, node: u32) {
        self.state().cut_off.insert(node);
    }

    /// Makes the node's control port reachable again.
    pub fn reconnect(&self, node: u32) {
        self.state().cut_off.remove(&node);
    }

    /// Makes the process at the node's address answer as this start, with this secret.
    pub fn pose(&self, node: u32, whose: Whose, secret: Secret) {
        self.state().poses.insert(node, (whose, secret));
    }

    /// Returns the node's start and its store.
    pub fn whose(&self, node: u32) -> Whose {
        Whose { node: NodeId(node), store: store(node), incarnation: Incarnation(self.word(node)) }
    }

    /// Returns the secret of the node's start.
    pub fn secret(&self, node: u32) -> Secret {
        secret(node, self.word(node))
    }

    /// Delays the node's answers to calls from now on.
    pub fn delay(&self, node: u32, late: Duration) {
        self.state().late.insert(node, late);
    }

    /// Returns the delay of the node's answers.
    pub fn delay_of(&self, node: u32) -> Duration {
        self.state().late.get(&node).copied().unwrap_or_default()
    }

    /// Makes the driver of the next flow store nothing and report that all is stored.
    pub fn forge(&self) {
        self.state().forges = true;
    }

    pub fn revive(&self, node: u32) {
        self.state().dead.remove(&node);
    }

    /// No node has joined a cluster.
    pub fn is_new(&self) -> bool {
        self.state().cluster.is_empty()
    }

    /// How they stand now.
    pub fn save(&self) -> Saved {
        Saved(self.state().clone())
    }

    /// They stand as they did then.
    pub fn restore(&self, saved: &Saved) {
        *self.state() = saved.0.clone();
    }

    /// The nodes lose what they keep of the catalog.
    pub fn forget_records(&self) {
        self.state().kept.clear();
    }

    /// The next block that any node writes comes out wrong.
    pub fn lie(&self) {
        self.state().lies = 1;
    }

    /// The node says nothing of the next block that it stores.
    pub fn hush(&self, node: u32) {
        self.state().silent = Some(node);
    }

    /// The node finds its copy damaged.
    pub fn corrupt(&self, node: u32, block: &[u8]) {
        let mut state = self.state();
        let copy = state.newest(node, block).expect("the copy");
        state.corrupt.insert(copy);
    }

    /// Ends the report of a damaged copy: the node has read it again and found it whole.
    pub fn clear(&self, node: u32, block: &[u8]) {
        self.state().corrupt.retain(|(at, of, _)| (*at, of.as_slice()) != (node, block));
    }

    /// Sets whether the node can read its copy now.
    pub fn set_unread(&self, node: u32, block: &[u8], is_unread: bool) {
        let mut state = self.state();
        let copy = state.newest(node, block).expect("the copy");
        if is_unread {
            state.unread.insert(copy)
        } else {
            state.unread.remove(&copy)
        };
    }

    /// Sets whether the node can read anything in a folder now.
    pub fn set_unread_folder(&self, node: u32, folder: u8, is_unread: bool) {
        let mut state = self.state();
        let key = (node, folder);
        if is_unread {
            state.unread_folders.insert(key)
        } else {
            state.unread_folders.remove(&key)
        };
    }

    /// The node loses its copy.
    pub fn lose(&self, node: u32, block: &[u8]) -> Stored {
        let mut state = self.state();
        let copy = state.newest(node, block).expect("the copy");
        state.blocks.remove(&copy).expect("the copy")
    }

    pub fn store(&self, node: u32, block: &[u8], stored: Stored) {
        self.state().blocks.insert((node, block.to_vec(), stored.generation), stored);
    }

    /// Empties all nodes; they live, and belong to no cluster.
    pub fn wipe(&self) {
        *self.state() = State::default();
    }

    /// Node and block of each copy: a block that lies on a node in two generations is there twice.
    pub fn copies(&self) -> Vec<(u32, Vec<u8>)> {
        self.state().blocks.keys().map(|(node, block, _)| (*node, block.clone())).collect()
    }

    /// The word of a node's start.
    pub fn word(&self, node: u32) -> u64 {
        word(&self.state(), node)
    }

    /// The node's process ends and another begins over the same store, which knows these words of its starts.
    pub fn restart(&self, node: u32, tried: Vec<u64>) {
        let mut state = self.state();
        let start = state.starts.entry(node).or_default();
        *start = (start.0 + 1, tried);
    }

    pub fn stored(&self, node: u32, block: &[u8]) -> Option<Stored> {
        let state = self.state();
        state.newest(node, block).map(|copy| state.blocks[&copy].clone())
    }

    /// The folders that were listed, by node, and forgets them.
    pub fn listed(&self) -> Vec<(u32, Vec<u8>)> {
        std::mem::take(&mut self.state().listed)
    }

    /// The node has read everything that it has once more.
    pub fn scrub(&self, node: u32) {
        *self.state().scrub_rounds.entry(node).or_default() += 1;
    }

    /// The flows that ran, and forgets them.
    pub fn flows(&self) -> Vec<proto::FlowPlan> {
        std::mem::take(&mut self.state().flows)
    }

    pub fn throttles(&self) -> BTreeMap<u32, u64> {
        self.state().throttles.clone()
    }

    pub fn hello(&self, node: u32) -> proto::NodeHello {
        let address = self.addresses[&node].to_string();
        let incarnation = self.word(node);
        let state = self.state();
        proto::NodeHello {
            node,
            cluster: state.cluster.get(&node).cloned().unwrap_or_default(),
            control_addr: address.clone(),
            data_addr: address,
            rack: format!("rack-{}", node / 2),
            protocol: wire::PROTOCOL_VERSION,
            store: store(node).to_vec(),
            accepted: Vec::new(),
            tried: state.starts.get(&node).map(|start| start.1.clone()).unwrap_or_default(),
            incarnation,
            heard: state.heard.get(&node).copied(),
            host: String::new(),
            secret: secret(node, incarnation).to_vec(),
        }
    }

    /// From now on nodes tell how much they can store.
    pub fn hold(&self, capacity: u64) {
        self.state().capacity = Some(capacity);
    }

    /// Flows that were ordered, also those that failed.
    pub fn ordered(&self) -> u64 {
        self.state().ordered
    }

    /// The number of the last change of the catalog that any of them heard of.
    pub fn last_change(&self) -> u64 {
        self.last_heard().map_or(0, |stamp| stamp.change)
    }

    /// The same with its term.
    pub fn last_heard(&self) -> Option<proto::Stamp> {
        self.state().heard.values().max_by_key(|stamp| stamp.change).copied()
    }

    /// A coordinator has answered the node.
    pub fn hear(&self, node: u32, now: Option<proto::Stamp>) {
        if let Some(now) = now {
            self.state().heard.insert(node, now);
        }
    }

    pub fn joined(&self, node: u32, cluster: Vec<u8>) {
        self.state().cluster.insert(node, cluster);
    }

    pub fn inventory(&self, node: u32) -> proto::BlockInventory {
        let state = self.state();
        let own = state.blocks.iter().filter(|((at, ..), _)| *at == node);
        let reference = |((_, block, _), stored): (&Key, &Stored)| proto::BlockRef {
            block: block.clone(),
            generation: stored.generation,
            stored_bytes: stored.bytes.len() as u64,
            ..Default::default()
        };
        proto::BlockInventory { blocks: own.map(reference).collect(), complete: true, unjudged: Vec::new() }
    }

    pub fn status(&self, node: u32) -> proto::NodeStatus {
        let incarnation = self.word(node);
        let state = self.state();
        let own = state.blocks.iter().filter(|((at, ..), _)| *at == node);
        let stored: u64 = own.map(|(_, stored)| stored.bytes.len() as u64).sum();
        let named = |copies: &BTreeSet<Key>| -> Vec<proto::BlockRef> {
            let own = copies.iter().filter(|(at, ..)| *at == node);
            own.map(|(_, block, generation)| proto::BlockRef {
                block: block.clone(),
                generation: *generation,
                ..Default::default()
            })
            .collect()
        };
        let folders = state.unread_folders.iter().filter(|(at, _)| *at == node);
        proto::NodeStatus {
            node,
            stored_bytes: stored,
            free_bytes: state.capacity.map(|capacity| capacity.saturating_sub(stored)),
            archival_free_bytes: state.capacity.map(|room| (room + ARCHIVAL_BYTES).saturating_sub(stored)),
            corrupt_blocks: named(&state.corrupt),
            unread_blocks: named(&state.unread),
            unread_folders: folders.map(|(_, folder)| *folder).collect(),
            unread_why: "a permission".to_owned(),
            store: store(node).to_vec(),
            incarnation,
            heard: state.heard.get(&node).copied(),
            held: state.kept.get(&node).and_then(Kept::told),
            scrub_rounds: state.scrub_rounds.get(&node).copied().unwrap_or_default(),
            ..Default::default()
        }
    }

    /// Returns the answer of the process at the node's address to a challenge.
    pub fn identify(&self, node: u32, challenge: Challenge) -> Identified {
        let pose = self.state().poses.get(&node).copied();
        let (whose, secret) = pose.unwrap_or_else(|| (self.whose(node), self.secret(node)));
        Identified { whose, mac: secret.of_start(&challenge, &whose) }
    }

    /// The node keeps what was sent of the catalog; `None` if that broke off and it keeps nothing.
    pub fn keep(&self, node: u32, messages: Vec<proto::RecordsMessage>) -> Option<proto::HeldRecords> {
        let mut state = self.state();
        let kept = state.kept.entry(node).or_default();
        kept.take(messages);
        kept.told()
    }

    /// Runs a plan of a read and cuts out the bytes that its reply promises.
    pub fn read(&self, reply: &proto::PlanReply) -> Result<Vec<u8>, Fault> {
        let plan = reply.plan.as_ref().expect("a plan");
        let (flow, outcome) = self.compute(plan, &[])?;
        assert_eq!(outcome.symbols.len(), 1, "a read wants one symbol");
        let (symbol, row) = outcome.symbols.first_key_value().expect("a row");
        let start = reply.offset - u64::from(symbol.index) * flow.geometry.symbol_bytes();
        let slice = u64::from(flow.geometry.slice_bytes);
        let granted = plan.first_slice * slice..(plan.first_slice + plan.slice_count) * slice;
        assert!(
            granted.start <= start && start + reply.length <= granted.end,
            "slices cover what is promised"
        );
        Ok(row[start as usize..(start + reply.length) as usize].to_vec())
    }

    /// Runs a plan that writes; `driver` is the node that drives it (0: the client, whose bytes are `source`).
    pub fn run(
        &self,
        plan: &proto::FlowPlan,
        source: &[u8],
        driver: u32,
    ) -> Result<proto::DriveResult, Fault> {
        self.state().ordered += 1;
        // Only an encoding may be driven by a node that has no block of the stripe.
        let is_driven_from_within = plan.participants.iter().any(|p| p.node == driver);
        assert!(is_driven_from_within || plan.scheme.starts_with("encode-"), "the driver takes part");
        for participant in plan.participants.iter().filter(|p| p.node != 0) {
            if !self.lives(participant.node) {
                return Err(Fault::new(Cause::Unreachable, "dead")
                    .suspecting(Peer::from_number(driver), NodeId(participant.node)));
            }
        }
        self.compute(plan, source)?;
        let mut state = self.state();
        state.flows.push(plan.clone());
        let written = plan.stages.iter().flat_map(|s| s.outputs.iter().map(move |o| (s, o)));
        let flow = &plan.header.as_ref().expect("a header").flow;
        let staged = written.filter_map(|(stage, output)| match &output.kind {
            Some(proto::stage_output::Kind::Write(write)) => {
                let stored = &state.blocks[&(stage.site, write.block.clone(), write.generation)];
                Some(proto::Staged {
                    mac: mac(flow, stored, (stage.site, word(&state, stage.site))).to_vec(),
                    lane: stage.lane,
                    stage: stage.stage,
                    member: write.member,
                    node: stage.site,
                    block: write.block.clone(),
                    generation: write.generation,
                    stored_bytes: write.stored_bytes,
                    digest: blake3::hash(&stored.bytes).as_bytes().to_vec(),
                    fingerprint: fingerprint(&stored.bytes).as_bytes().to_vec(),
                    store: store(stage.site).to_vec(),
                    incarnation: word(&state, stage.site),
                    ..Default::default()
                })
            }
            _ => None,
        });
        let mut staged: Vec<proto::Staged> = staged.collect();
        if std::mem::take(&mut state.forges) {
            for made_up in &mut staged {
                state.blocks.remove(&(made_up.node, made_up.block.clone(), made_up.generation));
                made_up.mac = vec![7; 16];
            }
        }
        let told = staged.len();
        staged.retain(|s| state.silent != Some(s.node));
        if staged.len() < told {
            state.silent = None;
        }
        Ok(proto::DriveResult { staged, links: self.links(plan, &mut state), ..Default::default() })
    }

    /// What a plan predicts, unless a link is to carry more.
    fn links(&self, plan: &proto::FlowPlan, state: &mut State) -> Vec<proto::LinkBytes> {
        let mut links = plan.predicted.clone();
        if let Some(link) = links.first_mut() {
            link.bytes += std::mem::take(&mut state.surplus);
        }
        links
    }

    /// So many bytes more than predicted cross a link of the next flow.
    pub fn waste(&self, bytes: u64) {
        self.state().surplus = bytes;
    }

    /// Runs the plan on what its nodes store, and writes what it makes.
    fn compute(&self, plan: &proto::FlowPlan, source: &[u8]) -> Result<(flow::Flow, Outcome), Fault> {
        let flow = wire::codec::plan::decode(plan)?.flow;
        let mut blocks: BTreeMap<Member, Vec<u8>> = BTreeMap::new();
        for (stage, input) in plan.stages.iter().flat_map(|s| s.inputs.iter().map(move |i| (s, i))) {
            match input.kind.as_ref().expect("an input") {
                proto::stage_input::Kind::Edge(_) => {}
                proto::stage_input::Kind::SourceMember(member) => {
                    blocks.insert(Member(*member as u16), source.to_vec());
                }
                proto::stage_input::Kind::Local(local) => {
                    let bytes = self.local(stage.site, local.block.as_ref().expect("a block"))?;
                    blocks.insert(Member(local.member as u16), bytes);
                }
            }
        }
        let slices = plan.first_slice..plan.first_slice + plan.slice_count;
        let block = |member| blocks.get(&member).map(Vec::as_slice);
        let outcome = interpret::run(&flow, slices, block).expect("a plan that can run");
        for (stage, output) in plan.stages.iter().flat_map(|s| s.outputs.iter().map(move |o| (s, o))) {
            if let Some(proto::stage_output::Kind::Write(write)) = &output.kind {
                let bytes = outcome.block(Member(write.member as u16), write.stored_bytes);
                self.write(stage.site, write, bytes.expect("a block as long as it is to be stored"))?;
            }
        }
        Ok((flow, outcome))
    }

    fn local(&self, node: u32, wanted: &proto::BlockRef) -> Result<Vec<u8>, Fault> {
        let state = self.state();
        if state.dead.contains(&node) {
            return Err(Fault::new(Cause::Unreachable, "dead").suspecting(NodeId(node), NodeId(node)));
        }
        let stored = state.blocks.get(&(node, wanted.block.clone(), wanted.generation));
        let stored = stored.ok_or_else(|| {
            Fault::new(Cause::NotFound, "no such copy").suspecting(NodeId(node), NodeId(node))
        })?;
        assert_eq!(stored.bytes.len() as u64, wanted.stored_bytes);
        Ok(stored.bytes.clone())
    }

    fn write(&self, node: u32, write: &proto::BlockWrite, mut bytes: Vec<u8>) -> Result<(), Fault> {
        let mut state = self.state();
        if state.lies > 0 {
            state.lies -= 1;
            bytes[0] ^= 1;
        }
        let expected = !write.digest.is_empty();
        if expected && write.digest != blake3::hash(&bytes).as_bytes() {
            return Err(
                Fault::new(Cause::WrongDigest, "not what was lost").suspecting(NodeId(node), NodeId(node))
            );
        }
        let stored = Stored { bytes, generation: write.generation, write: write.clone() };
        state.blocks.insert((node, write.block.clone(), write.generation), stored);
        Ok(())
    }
}

/// The word of a node's present start.
fn word(state: &State, node: u32) -> u64 {
    1000 * u64::from(node) + state.starts.get(&node).map_or(0, |start| start.0)
}

/// The store of a node.
fn store(node: u32) -> StoreId {
    StoreId(u128::from(node))
}

pub fn fingerprint(bytes: &[u8]) -> Fingerprint {
    let mut block = Fingerprint::ZERO;
    for (index, chunk) in bytes.chunks(CHUNK_BYTES).enumerate() {
        block.fold(index as u64, &kernels().fingerprint(chunk));
    }
    block
}
