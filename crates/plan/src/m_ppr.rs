//! m-PPR (PPR §5): many repairs at once, each with the servers that are least busy and, where it helps, have the block in
//! memory.
//!
//! ```text
//!   source weight      =  a1·hasCache − a2·(repairs it serves)   − a3·(user load)
//!   destination weight = −(            b1·(repairs it receives)  + b2·(user load))
//! ```
//!
//! All terms are in bytes, so that the coefficients say how much they count beside bytes that users read lately. One
//! more repair at a server is C·⌈log2(k+1)⌉ bytes, the most that a server moves in a reduction tree of k sources and
//! chunks of C bytes; a cached chunk is worth a part of that ([`Coefficients::cache_gain`]). Repairs are taken in the
//! order given, each gets what is best for it then, and the loads are those after all decisions before (greedy).
//! As another repair costs a whole one and a cache hit saves a part, disjoint servers go before cached ones (PPR §6.3).

use crate::error::PlanError;
use crate::numbers::Numbers;
use crate::requestor::Requestors;
use crate::topology::Topology;
use model::NodeId;

/// How much the parts of a weight count.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Coefficients {
    /// a1, in repairs: which part of a repair's time a cached chunk saves. It is below 1, or sources would pile up
    /// where the cache is.
    pub cache_gain: f64,
    /// a2 and b1, in repairs: 1 counts a repair as the bytes that it moves.
    pub repair: f64,
    /// a3 and b2: 1 counts a byte for users as a byte of repair.
    pub user_load: f64,
}

impl Default for Coefficients {
    /// A chunk in memory saves the disk's part of a repair, the smaller one where the network is what is short: a quarter
    /// of it, so that no number of cache hits outweighs another repair.
    fn default() -> Self {
        Coefficients { cache_gain: 0.25, repair: 1.0, user_load: 1.0 }
    }
}

/// A chunk to repair.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LostChunk {
    /// Surviving chunks of the stripe by their nodes, distinct, and whether each is in its node's cache.
    pub survivors: Vec<(NodeId, bool)>,
    /// Sources needed, k.
    pub needed: usize,
    /// All nodes that hold a chunk of the stripe or are about to, survivors among them: none may be the destination.
    pub holders: Vec<NodeId>,
    /// Length of a chunk.
    pub bytes: u64,
}

/// The servers that repair a chunk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Servers {
    /// The sources, best first.
    pub sources: Vec<NodeId>,
    /// Who gets the chunk.
    pub destination: NodeId,
}

/// The loads that m-PPR decides by. Made from the cluster as it is; decisions are added, ended repairs are taken off.
#[derive(Clone, Debug)]
pub struct MPpr {
    coefficients: Coefficients,
    destinations: Requestors,
    /// For each destination, in their order: the repairs that it receives and its user load, in bytes.
    receives: Vec<Load>,
    /// For every node, by its number: the repairs that it serves and its user load, in bytes.
    serves: Vec<Load>,
    sources: Numbers,
}

#[derive(Clone, Copy, Debug, Default)]
struct Load {
    repairs: f64,
    user: f64,
}

impl MPpr {
    /// Over the nodes of `topology`; of these `destinations` may get chunks. `user_bytes` is what each served to users in
    /// the last interval.
    ///
    /// # Errors
    /// [`PlanError::UnknownNode`].
    pub fn new(
        topology: &Topology,
        destinations: &[NodeId],
        user_bytes: impl Fn(NodeId) -> u64,
        coefficients: Coefficients,
    ) -> Result<MPpr, PlanError> {
        let destinations = Requestors::new(topology, destinations)?;
        let load = |node: NodeId| Load { repairs: 0.0, user: user_bytes(node) as f64 };
        let receives = destinations.nodes().iter().map(|&node| load(node)).collect();
        let serves = topology.nodes().map(load).collect();
        let mut sources = Numbers::default();
        (0..).zip(topology.nodes()).for_each(|(number, node)| sources.set(node, number));
        Ok(MPpr { coefficients, destinations, receives, serves, sources })
    }

    /// Chooses the k sources of the greatest weight and the destination of the greatest weight, among those in racks
    /// with the fewest chunks of the stripe, and adds the repair to their loads. The lower node is taken among equal
    /// weights. O(N + n log n) for N nodes and n survivors.
    ///
    /// # Errors
    /// [`PlanError::NotEnoughHelpers`], [`PlanError::NoTarget`], [`PlanError::UnknownNode`] for a survivor that the
    /// topology does not have; then no load has changed.
    pub fn plan(&mut self, chunk: &LostChunk) -> Result<Servers, PlanError> {
        let repair = repair_bytes(chunk.bytes, chunk.needed);
        let sources = self.sources(chunk, repair)?;
        let Coefficients { repair: per_repair, user_load, .. } = self.coefficients;
        let cost = |at: usize| per_repair * self.receives[at].repairs + user_load * self.receives[at].user;
        let destination = self.destinations.cheapest(&chunk.holders, cost)?;
        let destination = self.destinations.nodes()[destination];
        let servers = Servers { sources, destination };
        self.change(&servers, repair);
        Ok(servers)
    }

    /// Adds a repair that is under way, whoever planned it.
    pub fn add(&mut self, servers: &Servers, bytes: u64) {
        self.change(servers, repair_bytes(bytes, servers.sources.len()));
    }

    /// A repair has ended.
    pub fn end(&mut self, servers: &Servers, bytes: u64) {
        self.change(servers, -repair_bytes(bytes, servers.sources.len()));
    }

    fn change(&mut self, servers: &Servers, bytes: f64) {
        for &node in &servers.sources {
            if let Some(number) = self.sources.get(node) {
                self.serves[number as usize].repairs += bytes;
            }
        }
        if let Ok(at) = self.destinations.nodes().binary_search(&servers.destination) {
            self.receives[at].repairs += bytes;
        }
    }

    fn sources(&self, chunk: &LostChunk, repair: f64) -> Result<Vec<NodeId>, PlanError> {
        let available = chunk.survivors.len();
        if chunk.needed == 0 {
            return Err(PlanError::NoHelpers);
        }
        if available < chunk.needed {
            return Err(PlanError::NotEnoughHelpers { needed: chunk.needed, available });
        }
        let Coefficients { cache_gain, repair: per_repair, user_load } = self.coefficients;
        let mut weighed = Vec::with_capacity(available);
        for &(node, is_cached) in &chunk.survivors {
            let number = self.sources.get(node).ok_or(PlanError::UnknownNode { node })?;
            let Load { repairs, user } = self.serves[number as usize];
            let cached = if is_cached { cache_gain * repair } else { 0.0 };
            weighed.push((cached - per_repair * repairs - user_load * user, node));
        }
        weighed.sort_unstable_by(|(a, i), (b, j)| b.total_cmp(a).then(i.cmp(j)));
        weighed.truncate(chunk.needed);
        Ok(weighed.into_iter().map(|(_, node)| node).collect())
    }
}

/// The most that a server moves for a repair: C·⌈log2(k+1)⌉ (PPR §4.2).
fn repair_bytes(chunk: u64, needed: usize) -> f64 {
    let timeslots = usize::BITS - needed.leading_zeros();
    chunk as f64 * f64::from(timeslots)
}
