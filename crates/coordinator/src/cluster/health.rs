//! The world that decisions see, kept: which nodes live, where they are, whom flows blame, who helped when, and what is known
//! of the links.

mod answering;

pub(crate) use answering::Due;

use super::Life;
use super::told::{Told, Unreadable};
use catalog::rows::NodeRow;
use flow::Proved;
use model::{BlockCopy, BlockId, Cause, Fault, NodeId, Peer, StoreId};
use plan::decide::{NodeFacts, World, helpers_of};
use plan::{ByNode, Host, LeastRecent, LinkRates, RackId, Topology};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use wire::proto;

/// A node that is suspected on so many edges, by whomever, looks at itself …
const LOOK_EDGES: usize = 2;

/// … and one that flows of nodes suspect on so many is quarantined though it finds nothing: its memory, its processor or its
/// links may be what is wrong. What clients say never does that: nobody knows who they are.
const QUARANTINE_EDGES: usize = 3;

/// Largest age of a view, unless a tenth of the time after which a node is dead is shorter. Views are kept this long because one of a
/// thousand nodes takes a third of a millisecond to make, and every plan asks for one.
const MAX_VIEW_AGE: Duration = Duration::from_millis(50);

/// A node that held up so many repairs …
const SLOW_AFTER: usize = 2;

/// … within this time helps only where others do not suffice: disks and links that are worn out are so for longer, and a
/// node that was merely busy is soon tried again.
const SLOW_FOR: Duration = Duration::from_secs(300);

/// So often within the time after which silent nodes are dead, the coordinator makes sure that it did not stand still itself.
const LOOKS: u32 = 8;

/// It does not look more often: timers are late by some milliseconds on a busy machine.
const MIN_LOOK: Duration = Duration::from_millis(20);

/// Damaged copies that a heartbeat offers again because nothing came of them: each costs a look into the catalog.
const MAX_OFFERED_AGAIN: usize = 64;

/// Suspected edges that are remembered of a node: more add nothing.
const MAX_SUSPECTED_EDGES: usize = 16;

/// The nodes as they are now. Forgotten at a restart: then nodes are dead until they register again, and quarantined
/// ones get another chance.
#[derive(Debug)]
pub(crate) struct Health {
    dead_after: Duration,
    nodes: Mutex<Nodes>,
    /// The last one, and when it was made. Gone when anything but a heartbeat has changed the nodes, which are locked
    /// first.
    view: Mutex<Option<(Instant, World)>>,
    /// Who was selected when.
    recent: Mutex<Arc<LeastRecent>>,
    /// In Mb/s.
    links: Mutex<Arc<LinkRates>>,
}

#[derive(Debug)]
struct Nodes {
    by_id: BTreeMap<NodeId, Node>,
    /// When this process last ran, as far as is known.
    looked: Instant,
}

#[derive(Debug)]
struct Node {
    row: NodeRow,
    /// Time of the last answer to a call of this coordinator.
    last_seen: Option<Instant>,
    /// Time of the last call.
    called: Option<Instant>,
    /// The first call since then that it has not answered yet.
    asked: Option<Instant>,
    /// Time of the last registration or heartbeat.
    reported: Option<Instant>,
    /// Its inventory is known, so its heartbeats count.
    is_registered: bool,
    /// `None` until its first heartbeat.
    status: Option<proto::NodeStatus>,
    /// Edges on which flows that nodes drove suspect it.
    suspected: BTreeSet<(Peer, Peer)>,
    /// Edges on which clients do.
    accused: BTreeSet<(Peer, Peer)>,
    /// It looked at itself, being suspected, and found damage.
    agrees: bool,
    /// It said goodbye, and has not registered since.
    left: Option<Instant>,
    /// Why it did, if its disk failed; else empty.
    ailment: String,
    /// What the log knows.
    told_living: bool,
    /// When it last held up a repair, at most [`SLOW_AFTER`] times.
    held_up: VecDeque<Instant>,
    /// It is decommissioned: it is given no blocks.
    is_leaving: bool,
    /// Its store's folder was set back or swapped when it last registered.
    is_set_back: bool,
    /// Copies that it named, of blocks of which nothing is known.
    /// By the folder that they lie in.
    unknown_copies: BTreeMap<u8, u64>,
    /// Copies that it reported damaged in its last heartbeat, and whether the catalog has that noted: a copy may be damaged
    /// before it is committed.
    damaged: BTreeMap<BlockCopy, bool>,
    /// The last of them that was offered again.
    offered: Option<BlockCopy>,
}

/// Who says that something is wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Word {
    /// A flow that a node drove for this coordinator.
    Flow,
    /// A client, who may be anybody.
    Client,
}

/// What a node says of itself, for people.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    pub rack: String,
    pub host: String,
    pub last_seen: Option<Instant>,
    pub status: proto::NodeStatus,
    pub is_set_back: bool,
    pub ailment: String,
}

impl Health {
    /// With the nodes of the catalog, all dead until they register.
    pub fn new(
        dead_after: Duration,
        known: Vec<(NodeId, NodeRow)>,
        leaving: &[NodeId],
        links: LinkRates,
    ) -> Health {
        let node =
            |(id, row): (NodeId, NodeRow)| (id, Node { is_leaving: leaving.contains(&id), ..Node::new(row) });
        Health {
            dead_after,
            nodes: Mutex::new(Nodes { by_id: known.into_iter().map(node).collect(), looked: Instant::now() }),
            view: Mutex::default(),
            recent: Mutex::default(),
            links: Mutex::new(Arc::new(links)),
        }
    }

    /// The nodes, with no silence held against them that is this process's own: whoever looks first after a pause, be it the
    /// loop, a heartbeat that waited or a plan, finds it out.
    fn nodes(&self) -> MutexGuard<'_, Nodes> {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pause) = nodes.look(Instant::now(), self.dead_after, self.look_every()) {
            tracing::warn!(ms = pause.as_millis() as u64, "stood still: nobody is dead for that");
            *self.last_view() = None;
        }
        nodes
    }

    /// How often somebody has to [`look`](Self::look).
    pub fn look_every(&self) -> Duration {
        (self.dead_after / LOOKS).max(MIN_LOOK)
    }

    /// Makes sure that this process did not stand still, and that the log tells of who died.
    pub fn look(&self) {
        let mut nodes = self.nodes();
        for (node, state) in &mut nodes.by_id {
            let lives = state.is_living(self.dead_after);
            if state.told_living && !lives && state.left.is_none() {
                let silent_ms = state.last_seen.map_or(0, |seen| seen.elapsed().as_millis() as u64);
                tracing::warn!(%node, silent_ms, "dead: it does not answer");
            }
            state.told_living = lives;
        }
    }

    fn last_view(&self) -> MutexGuard<'_, Option<(Instant, World)>> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The nodes, to be changed such that the next plan knows it.
    fn nodes_to_change(&self) -> MutexGuard<'_, Nodes> {
        let nodes = self.nodes();
        *self.last_view() = None;
        nodes
    }

    /// A node has registered; `is_set_back`: its store does not know the start that was accepted before this one.
    pub fn registered(&self, node: NodeId, row: NodeRow, is_set_back: bool) {
        let mut nodes = self.nodes_to_change();
        let entry = nodes.by_id.entry(node).or_insert_with(|| Node::new(row.clone()));
        if let Some(seen) = entry.last_seen.filter(|_| !entry.is_living(self.dead_after)) {
            tracing::info!(%node, away_ms = seen.elapsed().as_millis() as u64, "it is back");
        }
        (entry.left, entry.told_living) = (None, true);
        entry.ailment.clear();
        // The same process may register again.
        entry.is_set_back = is_set_back || (entry.is_set_back && entry.row.incarnation == row.incarnation);
        entry.row = row;
        entry.is_registered = true;
        let now = Some(now());
        (entry.last_seen, entry.called, entry.reported) = (now, now, now);
        entry.asked = None;
    }

    /// A node leaves, by its own word, and from where it registered. Whether it lived until now. `ailment`: what its disk failed with; empty if it did not.
    pub fn goodbye(&self, node: NodeId, control_addr: &str, ailment: &str) -> bool {
        let mut nodes = self.nodes_to_change();
        let own = nodes.by_id.get_mut(&node).filter(|own| own.row.control_addr == control_addr);
        let Some(own) = own.filter(|own| own.is_living(self.dead_after)) else { return false };
        (own.is_registered, own.left) = (false, Some(Instant::now()));
        own.ailment = ailment.to_owned();
        true
    }

    /// The catalog knows a store no longer: its node is none, unless another store has its number.
    pub fn forget(&self, node: NodeId, store: StoreId) {
        let mut nodes = self.nodes_to_change();
        if nodes.by_id.get(&node).is_some_and(|known| known.row.store == store) {
            nodes.by_id.remove(&node);
        }
    }

    /// What a node said of itself when it registered last.
    pub fn row(&self, node: NodeId) -> Option<NodeRow> {
        self.nodes().by_id.get(&node).map(|node| node.row.clone())
    }

    /// A node is in this rack, as somebody who knows says.
    pub fn moved(&self, node: NodeId, rack: &str) {
        let mut nodes = self.nodes();
        if let Some(node) = nodes.by_id.get_mut(&node).filter(|node| node.row.rack != rack) {
            rack.clone_into(&mut node.row.rack);
            *self.last_view() = None;
        }
    }

    /// Returns when a node last answered; `None` if it never did.
    pub fn heard(&self, node: NodeId) -> Option<Instant> {
        self.nodes().by_id.get(&node)?.last_seen
    }

    /// Returns whether a node lives; `None` if the node is unknown.
    pub fn life(&self, node: NodeId) -> Option<Life> {
        let nodes = self.nodes();
        let node = nodes.by_id.get(&node)?;
        Some(match node.last_seen {
            _ if node.is_living(self.dead_after) => Life::Living,
            _ if !node.ailment.is_empty() => Life::Failed(node.ailment.clone()),
            _ if node.left.is_some() => Life::Left,
            Some(seen) => Life::Dead(seen.elapsed()),
            None => Life::Unheard,
        })
    }

    /// Returns what nodes report that they cannot read now.
    pub fn unreadable(&self) -> Vec<Unreadable> {
        let nodes = self.nodes();
        let of = |(&node, known): (&NodeId, &Node)| unreadable(node, known.status.as_ref()?);
        nodes.by_id.iter().filter_map(of).collect()
    }

    /// Returns the time since the last answer, for each node that ever answered.
    pub fn silences(&self) -> Vec<(NodeId, Duration)> {
        let nodes = self.nodes();
        let silence = |(id, node): (&NodeId, &Node)| Some((*id, node.last_seen?.elapsed()));
        nodes.by_id.iter().filter_map(silence).collect()
    }

    /// How long a node has been dead; `None` if it was never heard.
    pub fn dead_for(&self, node: NodeId) -> Option<Duration> {
        let nodes = self.nodes();
        let node = nodes.by_id.get(&node)?;
        let silent = || node.last_seen.map(|seen| seen.elapsed().saturating_sub(self.dead_after));
        node.left.map(|left| left.elapsed()).or_else(silent)
    }

    /// So many copies in these folders of a node are of blocks of which nothing is known.
    pub fn found_unknown(&self, node: NodeId, by_folder: &BTreeMap<u8, u64>) {
        if let Some(node) = self.nodes().by_id.get_mut(&node) {
            node.unknown_copies.extend(by_folder);
        }
    }

    /// The same of all nodes, as each was compared last.
    pub fn unknown_copies(&self) -> u64 {
        self.nodes().by_id.values().flat_map(|node| node.unknown_copies.values()).sum()
    }

    /// The same of one node.
    pub fn unknown_copies_of(&self, node: NodeId) -> u64 {
        self.nodes().by_id.get(&node).map_or(0, |node| node.unknown_copies.values().sum())
    }

    /// A node is decommissioned, or no longer.
    pub fn set_leaving(&self, node: NodeId, leaves: bool) {
        if let Some(node) = self.nodes_to_change().by_id.get_mut(&node) {
            node.is_leaving = leaves;
        }
    }

    /// Another node id that has this address, if that node lives.
    pub fn holder_of(&self, data_addr: &str, node: NodeId) -> Option<NodeId> {
        let nodes = self.nodes();
        let mut others =
            nodes.by_id.iter().filter(|(id, other)| **id != node && other.row.data_addr == data_addr);
        others.find(|(_, other)| other.lives(self.dead_after)).map(|(id, _)| *id)
    }

    /// Takes a heartbeat, which is a report and keeps no node alive. Returns the damaged copies that are reported for the first time, and some
    /// reported earlier that the catalog has not noted yet ([`dealt_with`](Self::dealt_with)). Returns `None` if the node must register (again).
    pub fn heartbeat(&self, status: proto::NodeStatus) -> Option<Told> {
        let mut nodes = self.nodes();
        let node = nodes.by_id.get_mut(&NodeId(status.node))?;
        let is_of_it =
            status.store == node.row.store.to_bytes() && status.incarnation == node.row.incarnation.0;
        if !is_of_it {
            return None;
        }
        // A node that was taken for dead may have missed deletions and repairs: its inventory is wanted again.
        node.is_registered &= node.lives(self.dead_after);
        if !node.is_registered {
            *self.last_view() = None;
            return None;
        }
        node.reported = Some(Instant::now());
        let told = node.damaged_now(&status);
        node.status = Some(status);
        Some(told)
    }

    /// The catalog has these damaged copies noted: they are not offered again while their node reports them.
    pub fn dealt_with(&self, copies: &[BlockCopy]) {
        let mut nodes = self.nodes();
        for copy in copies {
            let damaged = nodes.by_id.get_mut(&copy.node).and_then(|node| node.damaged.get_mut(copy));
            if let Some(is_noted) = damaged {
                *is_noted = true;
            }
        }
    }

    /// Notes whom a fault suspects. Only wrong bytes count: a node that dies is not suspicious, it is dead. Returns the nodes
    /// that are to look at themselves.
    pub fn suspect(&self, fault: &Fault, word: Word) -> Vec<NodeId> {
        let wrong_bytes = matches!(fault.cause, Cause::CorruptSlice | Cause::WrongDigest);
        let Some((from, to)) = fault.suspect.filter(|_| wrong_bytes) else { return Vec::new() };
        let mut nodes = self.nodes_to_change();
        let mut looking = Vec::new();
        for id in BTreeSet::from([from, to]).into_iter().filter_map(Peer::node) {
            let Some(node) = nodes.by_id.get_mut(&id) else { continue };
            let was = node.is_quarantined();
            let edges = match word {
                Word::Flow => &mut node.suspected,
                Word::Client => &mut node.accused,
            };
            let is_new = edges.len() < MAX_SUSPECTED_EDGES && edges.insert((from, to));
            if is_new && node.is_suspicious() {
                looking.push(id);
            }
            if !was && node.is_quarantined() {
                tracing::warn!(node = %id, "quarantined: flows go on suspecting it");
            }
        }
        looking
    }

    /// A node looked at what it was suspected with, and found it damaged.
    pub fn agrees(&self, id: NodeId) {
        if let Some(node) = self.nodes_to_change().by_id.get_mut(&id).filter(|node| node.is_suspicious()) {
            node.agrees = true;
            tracing::warn!(node = %id, "quarantined: it was suspected, and found damage itself");
        }
    }

    /// Notes that a node held up a repair, which went around it.
    pub fn held_up(&self, node: NodeId) {
        if let Some(node) = self.nodes_to_change().by_id.get_mut(&node) {
            node.held_up.truncate(SLOW_AFTER - 1);
            node.held_up.push_front(Instant::now());
        }
    }

    /// Gives quarantined and slow nodes another chance.
    pub fn forgive(&self) {
        for node in self.nodes_to_change().by_id.values_mut() {
            node.suspected.clear();
            node.accused.clear();
            node.agrees = false;
            node.held_up.clear();
        }
    }

    /// What is known of the links from now on, in Mb/s.
    pub fn set_links(&self, rates: LinkRates) {
        *self.links.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(rates);
    }

    /// Notes that the helpers of a flow were selected; its driver is none.
    pub fn mark(&self, flow: &Proved, driver: Peer) {
        self.change_recent(|recent| recent.mark(helpers_of(flow, driver)));
    }

    /// Lets helpers be selected. Worlds that were given out do not change.
    pub fn change_recent<T>(&self, change: impl FnOnce(&mut LeastRecent) -> T) -> T {
        change(Arc::make_mut(&mut self.recent.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// The world: nodes as they are now, or were a moment ago.
    pub fn view(&self) -> World {
        let recent = Arc::clone(&self.recent.lock().unwrap_or_else(PoisonError::into_inner));
        let links = Arc::clone(&self.links.lock().unwrap_or_else(PoisonError::into_inner));
        World { recent, links, ..self.nodes_lately() }
    }

    fn nodes_lately(&self) -> World {
        let nodes = self.nodes();
        let mut last = self.last_view();
        let max_age = MAX_VIEW_AGE.min(self.dead_after / 10);
        if let Some((made, world)) = last.as_ref()
            && made.elapsed() < max_age
        {
            return world.clone();
        }
        let world = self.make_view(&nodes.by_id);
        *last = Some((Instant::now(), world.clone()));
        world
    }

    fn make_view(&self, nodes: &BTreeMap<NodeId, Node>) -> World {
        let mut racks: BTreeMap<&str, u32> = nodes.values().map(|node| (node.row.rack.as_str(), 0)).collect();
        (0..).zip(racks.values_mut()).for_each(|(number, rack)| *rack = number);
        let mut hosts: BTreeMap<&str, u32> = nodes.values().map(|node| (node.row.host.as_str(), 0)).collect();
        (0..).zip(hosts.values_mut()).for_each(|(number, host)| *host = number);
        let (mut facts, mut topology, mut last_resort) =
            (ByNode::default(), Topology::default(), BTreeSet::new());
        for (&id, node) in nodes.iter() {
            let rack = racks.get(node.row.rack.as_str()).copied().unwrap_or(0);
            let host = match node.row.host.as_str() {
                "" => Host::Own(id),
                name => hosts.get(name).map_or(Host::Own(id), |&number| Host::Shared(number)),
            };
            topology.insert_on(id, RackId(rack), host);
            let node = node.facts(rack, self.dead_after);
            if node.is_last_resort() {
                last_resort.insert(id);
            }
            facts.insert(id, node);
        }
        let (nodes, topology, last_resort) = (Arc::new(facts), Arc::new(topology), Arc::new(last_resort));
        let rack_names = Arc::new(racks.into_keys().map(str::to_owned).collect());
        World { nodes, topology, rack_names, last_resort, ..World::default() }
    }

    /// What the nodes say of themselves.
    pub fn reports(&self) -> BTreeMap<NodeId, Report> {
        let report = |node: &Node| {
            let (rack, host) = (node.row.rack.clone(), node.row.host.clone());
            let (status, ailment) = (node.status.clone().unwrap_or_default(), node.ailment.clone());
            Report { rack, host, last_seen: node.last_seen, status, is_set_back: node.is_set_back, ailment }
        };
        self.nodes().by_id.iter().map(|(&id, node)| (id, report(node))).collect()
    }
}

/// Returns what the status reports as unreadable; `None` if that is nothing.
fn unreadable(node: NodeId, status: &proto::NodeStatus) -> Option<Unreadable> {
    let (copies, folders) = (named(node, &status.unread_blocks).collect(), status.unread_folders.clone());
    let told = Unreadable { node, copies, folders, why: status.unread_why.clone() };
    (!(told.copies.is_empty() && told.folders.is_empty())).then_some(told)
}

/// Returns the copies that a node names. Invalid ids are left out.
fn named(node: NodeId, blocks: &[proto::BlockRef]) -> impl Iterator<Item = BlockCopy> {
    let copy = move |copy: &proto::BlockRef| {
        let block = BlockId::from_slice(&copy.block).ok()?;
        Some(BlockCopy { block, node, generation: copy.generation })
    };
    blocks.iter().filter_map(copy)
}

/// A time on the clock that measures silence.
type Moment = Instant;

/// Returns the time on that clock.
fn now() -> Moment {
    Instant::now()
}

impl Nodes {
    /// A process that looks less often than every `every` stood still, or its machine did, and heard nobody: for that time
    /// nobody was silent. Whoever was dead before stays so. Returns how long it was.
    fn look(&mut self, now: Instant, dead_after: Duration, every: Duration) -> Option<Duration> {
        let before = std::mem::replace(&mut self.looked, now);
        let pause = now.saturating_duration_since(before).saturating_sub(every);
        if pause < every {
            return None;
        }
        for node in self.by_id.values_mut().filter(|node| !node.is_silent(before, dead_after)) {
            for moment in [&mut node.last_seen, &mut node.asked].into_iter().flatten() {
                *moment = (*moment + pause).min(now);
            }
        }
        Some(pause)
    }
}

impl Node {
    fn new(row: NodeRow) -> Node {
        Node {
            row,
            last_seen: None,
            called: None,
            asked: None,
            reported: None,
            is_registered: false,
            status: None,
            suspected: BTreeSet::new(),
            accused: BTreeSet::new(),
            agrees: false,
            left: None,
            ailment: String::new(),
            told_living: false,
            held_up: VecDeque::new(),
            is_leaving: false,
            is_set_back: false,
            unknown_copies: BTreeMap::new(),
            damaged: BTreeMap::new(),
            offered: None,
        }
    }

    /// Takes what it says to be damaged. Returns what is new of it, and the next ones of which nothing came.
    fn damaged_now(&mut self, status: &proto::NodeStatus) -> Told {
        let told: BTreeSet<BlockCopy> = named(NodeId(status.node), &status.corrupt_blocks).collect();
        let cleared = self.damaged.keys().filter(|copy| !told.contains(copy)).copied().collect();
        self.damaged.retain(|copy, _| told.contains(copy));
        // In turn: the first of many are not to keep the others from being noted.
        let (until, after): (Vec<_>, Vec<_>) = self
            .damaged
            .iter()
            .filter(|(_, is_noted)| !**is_noted)
            .map(|(copy, _)| *copy)
            .partition(|copy| Some(*copy) <= self.offered);
        let mut offered: Vec<BlockCopy> = after.into_iter().chain(until).take(MAX_OFFERED_AGAIN).collect();
        self.offered = offered.last().copied();
        for copy in told {
            self.damaged.entry(copy).or_insert_with(|| {
                offered.push(copy);
                false
            });
        }
        Told { damaged: offered, cleared }
    }

    fn facts(&self, rack: u32, dead_after: Duration) -> NodeFacts {
        let status = self.status.as_ref();
        let cached = status.iter().flat_map(|status| &status.cached_blocks);
        NodeFacts {
            control_addr: self.row.control_addr.clone(),
            data_addr: self.row.data_addr.clone(),
            store: Some((self.row.store, self.row.incarnation)),
            rack,
            is_living: self.is_living(dead_after),
            was_seen: self.last_seen.is_some(),
            is_quarantined: self.is_quarantined(),
            is_slow: self.is_slow(),
            is_leaving: self.is_leaving,
            running_stages: status.map_or(0, |status| status.running_stages),
            blocks: status.map_or(0, |status| status.blocks),
            stored_bytes: status.map_or(0, |status| status.stored_bytes),
            free_bytes: status.and_then(|status| status.free_bytes),
            archival_free_bytes: status.and_then(|status| status.archival_free_bytes),
            cached_blocks: cached.filter_map(|block| BlockId::from_slice(block).ok()).collect(),
        }
    }

    fn is_slow(&self) -> bool {
        self.held_up.iter().filter(|at| at.elapsed() < SLOW_FOR).count() >= SLOW_AFTER
    }

    fn is_suspicious(&self) -> bool {
        self.suspected.union(&self.accused).count() >= LOOK_EDGES
    }

    fn is_quarantined(&self) -> bool {
        self.agrees || self.suspected.len() >= QUARANTINE_EDGES
    }
}

#[cfg(test)]
mod tests;
