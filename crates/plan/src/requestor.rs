//! Where a repaired block goes (RP §3.3 leaves it to deployment): never a second block of a stripe on a node, nor on
//! another of its host, racks kept even, then least load.

use crate::error::PlanError;
use crate::numbers::Numbers;
use crate::topology::{Host, RackId, Topology};
use model::NodeId;
use std::collections::BTreeMap;

/// A live node whose host holds none of the stripe's blocks: of those in racks with the fewest blocks of the stripe
/// the least loaded, then the lowest. `stripe` lists the nodes of all surviving blocks and of repairs under
/// way; `load` is in any unit, blocks or bytes stored or repairs running.
///
/// # Errors
/// [`PlanError::NoTarget`], [`PlanError::UnknownNode`] for a live node without rack.
pub fn requestor(
    topology: &Topology,
    alive: &[NodeId],
    stripe: &[NodeId],
    load: impl Fn(NodeId) -> u64,
) -> Result<NodeId, PlanError> {
    let mut requestors = Requestors::new(topology, alive)?;
    let least =
        requestors.allowed(stripe, 0, alive.len())?.into_iter().min_by_key(|&node| (load(node), node));
    least.ok_or(PlanError::NoTarget { alive: alive.len() })
}

/// The live nodes, numbered, for many choices of requestors among them: a choice looks into flat lists.
#[derive(Clone, Debug)]
pub struct Requestors {
    /// In rising order.
    nodes: Vec<NodeId>,
    rack_of: Vec<u32>,
    /// Places in `nodes`.
    places: Numbers,
    /// Racks of all nodes, live or not.
    racks: Numbers,
    of_rack: Vec<Rack>,
    /// Whether each node, or another of its host, holds a block of the stripe; all false between two choices.
    holds: Vec<bool>,
    /// Hosts of nodes that share theirs, live or not.
    hosts: Numbers,
    /// The places of the live nodes of each of these.
    of_host: Vec<Vec<u32>>,
}

/// A rack.
#[derive(Clone, Copy, Debug, Default)]
struct Rack {
    /// Live nodes.
    nodes: u32,
    /// Nodes among them that may not get another block of the stripe; 0 between two choices.
    holders: u32,
    /// Blocks of the stripe; 0 between two choices.
    blocks: u32,
}

impl Requestors {
    /// Over live nodes.
    ///
    /// # Errors
    /// [`PlanError::UnknownNode`] for one without rack.
    pub fn new(topology: &Topology, alive: &[NodeId]) -> Result<Requestors, PlanError> {
        let mut numbers: BTreeMap<RackId, u32> = BTreeMap::new();
        let mut racks = Numbers::default();
        for node in topology.nodes() {
            let count = numbers.len() as u32;
            racks.set(node, *numbers.entry(topology.rack_of(node)?).or_insert(count));
        }
        let mut nodes = alive.to_vec();
        nodes.sort_unstable();
        nodes.dedup();
        let mut places = Numbers::default();
        (0..).zip(&nodes).for_each(|(place, &node)| places.set(node, place));
        let rack = |&node: &NodeId| racks.get(node).ok_or(PlanError::UnknownNode { node });
        let rack_of = nodes.iter().map(rack).collect::<Result<Vec<u32>, _>>()?;
        let mut of_rack = vec![Rack::default(); numbers.len()];
        rack_of.iter().for_each(|&rack| of_rack[rack as usize].nodes += 1);
        let holds = vec![false; nodes.len()];
        let (hosts, of_host) = shared_hosts(topology, &places);
        Ok(Requestors { nodes, rack_of, places, racks, of_rack, holds, hosts, of_host })
    }

    /// Nodes whose hosts hold none of the stripe's blocks, in the racks with the fewest of them: the first `most`, looked for
    /// from the live node of number `from` on (modulo their number), in rising order. `stripe` as in [`requestor`].
    ///
    /// # Errors
    /// [`PlanError::NoTarget`].
    pub fn allowed(&mut self, stripe: &[NodeId], from: usize, most: usize) -> Result<Vec<NodeId>, PlanError> {
        self.note(stripe);
        let from = from.checked_rem(self.nodes.len()).unwrap_or(0);
        let fewest = self.fewest();
        let open = |place: &usize| !self.holds[*place] && Some(self.blocks_beside(*place)) == fewest;
        let places = (from..self.nodes.len()).chain(0..from);
        let mut allowed: Vec<NodeId> = Vec::with_capacity(most.min(self.nodes.len()));
        allowed.extend(places.filter(open).take(most).map(|place| self.nodes[place]));
        self.forget(stripe);
        if !allowed.is_sorted() {
            allowed.sort_unstable();
        }
        if allowed.is_empty() { Err(self.none()) } else { Ok(allowed) }
    }

    /// The cheapest of these nodes, the lowest among equals, by its number in [`nodes`](Self::nodes).
    ///
    /// # Errors
    /// [`PlanError::NoTarget`].
    pub fn cheapest(&mut self, stripe: &[NodeId], cost: impl Fn(usize) -> f64) -> Result<usize, PlanError> {
        self.note(stripe);
        let fewest = self.fewest();
        let open = |place: &usize| !self.holds[*place] && Some(self.blocks_beside(*place)) == fewest;
        let costs = (0..self.nodes.len()).filter(open).map(|place| (cost(place), place));
        // The first among equals.
        let best = costs.reduce(|best, next| if next.0 < best.0 { next } else { best });
        self.forget(stripe);
        best.map(|(_, place)| place).ok_or_else(|| self.none())
    }

    /// Blocks of the stripe in the rack of the node at a place.
    fn blocks_beside(&self, place: usize) -> u32 {
        self.of_rack[self.rack_of[place] as usize].blocks
    }

    /// The fewest blocks of the stripe in a rack where some live node holds none.
    fn fewest(&self) -> Option<u32> {
        self.of_rack.iter().filter(|rack| rack.holders < rack.nodes).map(|rack| rack.blocks).min()
    }

    /// The live nodes, in rising order.
    pub fn nodes(&self) -> &[NodeId] {
        &self.nodes
    }

    fn note(&mut self, stripe: &[NodeId]) {
        for &node in stripe {
            // A survivor on a node that the topology has forgotten counts for no rack.
            let Some(rack) = self.racks.get(node) else { continue };
            self.of_rack[rack as usize].blocks += 1;
            self.mark(node, true);
        }
    }

    fn forget(&mut self, stripe: &[NodeId]) {
        for &node in stripe {
            let Some(rack) = self.racks.get(node) else { continue };
            self.of_rack[rack as usize].blocks = 0;
            self.mark(node, false);
        }
    }

    /// Marks a node, and with it those of its host, as holding a block of the stripe or as holding none.
    fn mark(&mut self, node: NodeId, holds: bool) {
        let Requestors { hosts, of_host, places, .. } = self;
        match hosts.get(node) {
            Some(host) => {
                for &place in &of_host[host as usize] {
                    mark_place(&mut self.holds, &mut self.of_rack, &self.rack_of, place, holds);
                }
            }
            None => {
                if let Some(place) = places.get(node) {
                    mark_place(&mut self.holds, &mut self.of_rack, &self.rack_of, place, holds);
                }
            }
        }
    }

    fn none(&self) -> PlanError {
        PlanError::NoTarget { alive: self.nodes.len() }
    }
}

fn mark_place(all: &mut [bool], of_rack: &mut [Rack], rack_of: &[u32], place: u32, holds: bool) {
    let (before, rack) = (&mut all[place as usize], &mut of_rack[rack_of[place as usize] as usize]);
    match (*before, holds) {
        (false, true) => rack.holders += 1,
        (true, false) => rack.holders -= 1,
        _ => {}
    }
    *before = holds;
}

/// The hosts that several nodes share, numbered, and the places of the live ones of each.
fn shared_hosts(topology: &Topology, places: &Numbers) -> (Numbers, Vec<Vec<u32>>) {
    let (mut hosts, mut of_host) = (Numbers::default(), Vec::new());
    let mut numbers: BTreeMap<u32, u32> = BTreeMap::new();
    for node in topology.nodes() {
        let Host::Shared(host) = topology.host_of(node) else { continue };
        let number = *numbers.entry(host).or_insert_with(|| {
            of_host.push(Vec::new());
            of_host.len() as u32 - 1
        });
        hosts.set(node, number);
        if let Some(place) = places.get(node) {
            of_host[number as usize].push(place);
        }
    }
    (hosts, of_host)
}
