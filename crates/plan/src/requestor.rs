//! Where a repaired block goes (RP §3.3 leaves it to deployment): never a second block of a stripe on a node,
//! racks kept even, then least load.

use crate::error::PlanError;
use crate::topology::{NodeId, RackId, Topology};
use std::collections::BTreeMap;

/// A live node that holds none of the stripe's blocks: of those in racks with the fewest blocks of the stripe
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
    let least = requestors.allowed(stripe)?.min_by_key(|&node| (load(node), node));
    least.ok_or(PlanError::NoTarget { alive: alive.len() })
}

/// The live nodes, numbered, for many choices of requestors among them: a choice is one pass over flat lists.
#[derive(Clone, Debug)]
pub struct Requestors {
    /// In rising order.
    nodes: Vec<NodeId>,
    rack_of: Vec<usize>,
    /// Racks of all nodes, live or not.
    racks: BTreeMap<NodeId, usize>,
    /// Blocks of the stripe in each rack; all zero between two choices.
    in_rack: Vec<u32>,
    /// Whether each node holds a block of the stripe; all false between two choices.
    holds: Vec<bool>,
}

impl Requestors {
    /// Over live nodes.
    ///
    /// # Errors
    /// [`PlanError::UnknownNode`] for one without rack.
    pub fn new(topology: &Topology, alive: &[NodeId]) -> Result<Requestors, PlanError> {
        let mut numbers: BTreeMap<RackId, usize> = BTreeMap::new();
        let mut racks = BTreeMap::new();
        for node in topology.nodes() {
            let count = numbers.len();
            racks.insert(node, *numbers.entry(topology.rack_of(node)?).or_insert(count));
        }
        let mut nodes = alive.to_vec();
        nodes.sort_unstable();
        nodes.dedup();
        let rack = |&node: &NodeId| racks.get(&node).copied().ok_or(PlanError::UnknownNode { node });
        let rack_of = nodes.iter().map(rack).collect::<Result<_, _>>()?;
        let (in_rack, holds) = (vec![0; numbers.len()], vec![false; nodes.len()]);
        Ok(Requestors { nodes, rack_of, racks, in_rack, holds })
    }

    /// Nodes that hold none of the stripe's blocks, in the racks with the fewest of them; `stripe` as in [`requestor`].
    ///
    /// # Errors
    /// [`PlanError::NoTarget`].
    pub fn allowed(&mut self, stripe: &[NodeId]) -> Result<impl Iterator<Item = NodeId>, PlanError> {
        self.note(stripe);
        let mut fewest = u32::MAX;
        let mut allowed = Vec::with_capacity(self.nodes.len());
        for at in (0..self.nodes.len()).filter(|&at| !self.holds[at]) {
            let in_rack = self.in_rack[self.rack_of[at]];
            if in_rack < fewest {
                fewest = in_rack;
                allowed.clear();
            }
            if in_rack == fewest {
                allowed.push(self.nodes[at]);
            }
        }
        self.forget(stripe);
        if allowed.is_empty() { Err(self.none()) } else { Ok(allowed.into_iter()) }
    }

    /// Of these nodes the one that costs least, then the lowest, by its number in [`nodes`](Self::nodes).
    ///
    /// # Errors
    /// [`PlanError::NoTarget`].
    pub fn cheapest(&mut self, stripe: &[NodeId], cost: impl Fn(usize) -> f64) -> Result<usize, PlanError> {
        self.note(stripe);
        let mut best: Option<(u32, f64, usize)> = None;
        for at in (0..self.nodes.len()).filter(|&at| !self.holds[at]) {
            let in_rack = self.in_rack[self.rack_of[at]];
            // The cost is looked at only where the rack does not decide.
            if best.is_some_and(|(fewest, ..)| in_rack > fewest) {
                continue;
            }
            let cost = cost(at);
            if best.is_none_or(|(fewest, least, _)| (in_rack, cost) < (fewest, least)) {
                best = Some((in_rack, cost, at));
            }
        }
        self.forget(stripe);
        best.map(|(_, _, at)| at).ok_or_else(|| self.none())
    }

    /// The live nodes, in rising order.
    pub fn nodes(&self) -> &[NodeId] {
        &self.nodes
    }

    fn note(&mut self, stripe: &[NodeId]) {
        for node in stripe {
            // A survivor on a node that the topology has forgotten counts for no rack.
            if let Some(&rack) = self.racks.get(node) {
                self.in_rack[rack] += 1;
            }
            if let Ok(at) = self.nodes.binary_search(node) {
                self.holds[at] = true;
            }
        }
    }

    fn forget(&mut self, stripe: &[NodeId]) {
        for node in stripe {
            if let Some(&rack) = self.racks.get(node) {
                self.in_rack[rack] = 0;
            }
            if let Ok(at) = self.nodes.binary_search(node) {
                self.holds[at] = false;
            }
        }
    }

    fn none(&self) -> PlanError {
        PlanError::NoTarget { alive: self.nodes.len() }
    }
}
