//! A cluster that exists on paper, of which a node is recovered: how fast a coordinator plans, by the decisions of real
//! recoveries.
//!
//! ```text
//!   stripes on paper ──a batch──▶ candidates ─▶ assigned ──one by one──▶ flow built, proved, priced, bound ─▶ bytes
//! ```
//!
//! What a repair really takes besides, its rows in the catalog and the messages, is not in it. The stop watch, and what plans
//! are written out as, are the caller's.

use crate::decide::{
    BATCH, Candidates, DecideError, InFlight, NodeFacts, Planner, RepairSpec, SliceLength, Takers, World,
    at_once, in_turn,
};
use crate::recovery::Assignment;
use crate::{ByNode, Draw, LeastRecent, RackId, Topology};
use core::time::Duration;
use flow::{FlowPlan, Scheme, limits};
use model::{
    Assign, BlockFacts, BlockId, FlowId, Location, MemberState, NodeId, Part, Placement, StripeId,
    StripePlace, StripePlacement, Sums, Token,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The node that is lost.
const LOST: NodeId = NodeId(1);

/// A cluster of which one node is lost.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Paper {
    /// Nodes, the lost one included.
    pub nodes: u32,
    /// Racks, which they fill in turn.
    pub racks: u32,
    /// The stripes' code, MDS.
    pub code: String,
    /// Bytes of a block.
    pub block_bytes: u64,
    /// Stripes with a block on the lost node, the others anywhere.
    pub stripes: usize,
    /// For chance.
    pub seed: u64,
}

/// How long the planning of a recovery took, step by step.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Planned {
    /// Repairs.
    pub repairs: usize,
    /// Candidates found, helpers and requestors chosen.
    pub chosen: Duration,
    /// Flows built, proved, priced and bound to nodes, blocks and tokens.
    pub built: Duration,
    /// Plans written out as the messages to their requestors.
    pub written: Duration,
    /// Bytes of these.
    pub bytes: u64,
}

/// The cluster, ready to be planned for.
#[derive(Debug)]
pub struct Cluster {
    planner: Planner,
    world: World,
    placements: Vec<Placement>,
}

impl Planned {
    /// Repairs a second, all steps together.
    pub fn repairs_per_s(&self) -> f64 {
        self.repairs as f64 / (self.chosen + self.built + self.written).as_secs_f64()
    }
}

impl Cluster {
    /// Draws the stripes.
    ///
    /// # Errors
    /// [`DecideError::Code`] for a code that is not known, [`DecideError::Invalid`] if there are too few nodes.
    pub fn new(paper: &Paper) -> Result<Cluster, DecideError> {
        let planner = Planner::new(limits::DEFAULT_SLICE_BYTES);
        let code = planner.codes.get(&paper.code)?;
        if code.virtuals() > 0 {
            let text = format!("stripes of {code} have virtual members, which are on no paper");
            return Err(DecideError::Invalid(text));
        }
        let n = code.n();
        if (paper.nodes as usize) <= n || paper.racks == 0 {
            let text =
                format!("{} nodes in {} racks cannot recover stripes of {n}", paper.nodes, paper.racks);
            return Err(DecideError::Invalid(text));
        }
        let mut draw = Draw::seeded(paper.seed);
        let placements = (0..paper.stripes).map(|stripe| placement(paper, n, stripe, &mut draw)).collect();
        Ok(Cluster { planner, world: world(paper), placements })
    }

    /// Plans the recovery of all stripes, in batches as a recovery does, by a scheme (`None`: the best one). `clock` tells the
    /// time since any moment, `write` writes a plan out and tells its bytes.
    ///
    /// # Errors
    /// Whatever the planner says of a stripe.
    pub fn plan(
        &self,
        how: (Assign, Option<Scheme>),
        clock: impl Fn() -> Duration,
        write: impl Fn(&FlowPlan) -> usize,
    ) -> Result<Planned, DecideError> {
        let mut planned = Planned::default();
        let mut world = self.world.clone();
        let mut received: BTreeMap<NodeId, u64> = BTreeMap::new();
        for batch in self.placements.chunks(BATCH) {
            let start = clock();
            let assigned = self.assign(&mut world, how, batch, &mut received)?;
            planned.chosen += clock().saturating_sub(start);
            for (placement, assignment) in batch.iter().zip(assigned) {
                let start = clock();
                let repair = planned.repairs as u128;
                let spec = RepairSpec {
                    scheme: how.1,
                    slices: SliceLength::exactly(limits::DEFAULT_SLICE_BYTES),
                    verify: true,
                    requestor: assignment.requestor,
                    scheduled: true,
                    generation: 2,
                    birth: model::Stamp::default(),
                    flow: FlowId(repair),
                    attempt: 1,
                    moves: false,
                    helpers: assignment.chain,
                    explained: false,
                };
                // Nobody guesses them on paper.
                let mut edges = 0;
                let mut tokens = || {
                    edges += 1;
                    Token(repair << 64 | edges)
                };
                let target = (placement, spec);
                let plan = self.planner.repair(&world, &target, &BTreeSet::new(), &mut tokens)?.planned.plan;
                let built = clock();
                planned.bytes += write(&plan) as u64;
                planned.repairs += 1;
                planned.built += built.saturating_sub(start);
                planned.written += clock().saturating_sub(built);
            }
        }
        Ok(planned)
    }

    /// Who repairs which block of a batch. What was planned before is under way no more: every batch is as good as the first.
    fn assign(
        &self,
        world: &mut World,
        how: (Assign, Option<Scheme>),
        batch: &[Placement],
        received: &mut BTreeMap<NodeId, u64>,
    ) -> Result<Vec<Assignment>, DecideError> {
        let in_flight = InFlight::new(usize::MAX);
        let mut takers = Takers::new(world, &BTreeSet::new(), 0)?;
        let candidates = batch
            .iter()
            .map(|placement| self.planner.lost_block(world, placement, false, &mut takers))
            .collect::<Result<Vec<Candidates>, _>>()?;
        let known: Vec<&Candidates> = candidates.iter().collect();
        let mut assigned = at_once(how, world, &takers, &known, &in_flight, &BTreeMap::new())?;
        if how.0 == Assign::LeastRecent {
            let recent: &mut LeastRecent = Arc::make_mut(&mut world.recent);
            for (assigned, Candidates { lost, .. }) in assigned.iter_mut().zip(known) {
                let load = |node: NodeId| received.get(&node).copied().unwrap_or(0);
                *assigned = in_turn(lost, &in_flight, load, recent);
                let requestor = assigned.as_ref().map(|assignment| assignment.requestor);
                requestor.into_iter().for_each(|node| *received.entry(node).or_default() += 1);
            }
        }
        let none = || DecideError::Bug("a stripe on paper could not be assigned".to_owned());
        assigned.into_iter().collect::<Option<_>>().ok_or_else(none)
    }
}

/// All nodes but the lost one, which nobody knows any more.
fn world(paper: &Paper) -> World {
    let (mut nodes, mut topology) = (ByNode::default(), Topology::default());
    for node in (1..=paper.nodes).filter(|&node| NodeId(node) != LOST) {
        let ([high, low], rack) = ([node / 250, 1 + node % 250], node % paper.racks);
        let facts = NodeFacts {
            control_addr: format!("10.0.{high}.{low}:7401"),
            data_addr: format!("10.0.{high}.{low}:7402"),
            rack,
            is_living: true,
            was_seen: true,
            ..NodeFacts::default()
        };
        nodes.insert(NodeId(node), facts);
        topology.insert(NodeId(node), RackId(rack));
    }
    World { nodes: Arc::new(nodes), topology: Arc::new(topology), ..World::default() }
}

/// A stripe with a block on the lost node.
fn placement(paper: &Paper, n: usize, stripe: usize, draw: &mut Draw) -> Placement {
    let mut nodes = vec![LOST];
    while nodes.len() < n {
        let node = NodeId(1 + draw.below(paper.nodes as usize) as u32);
        if !nodes.contains(&node) {
            nodes.push(node);
        }
    }
    draw.shuffle(&mut nodes);
    let id = StripeId(1 + stripe as u128);
    let block = |index: usize| BlockId((stripe * n + index) as u128 + 1);
    let row = |index: usize| BlockFacts {
        stored_bytes: paper.block_bytes,
        sums: Sums {
            digest: Some([index as u8; 32]),
            fingerprint: Some(gf::Fingerprint::from_bytes([index as u8; gf::FINGERPRINT_BYTES])),
        },
        last_generation: 1,
        locations: vec![Location { node: nodes[index], generation: 1 }],
        flawed: Vec::new(),
        replicas: 1,
        part: Some(Part {
            name: format!("object-{stripe}"),
            version: 1,
            offset: index as u64 * paper.block_bytes,
            last: false,
        }),
        stripe: Some(StripePlace { stripe: id, index: index as u16, is_virtual: false }),
        dead: false,
    };
    let lost = nodes.iter().position(|&node| node == LOST).unwrap_or(0);
    let members: Vec<_> = (0..n).map(|index| MemberState::Stored((block(index), row(index)))).collect();
    Placement {
        block: block(lost),
        facts: row(lost),
        stripe: Some(StripePlacement {
            id,
            index: lost as u16,
            code: paper.code.clone(),
            block_bytes: paper.block_bytes,
            members,
            holders: nodes.into_iter().collect(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn every_way_of_assigning_plans_every_stripe() {
        let paper = Paper {
            nodes: 40,
            racks: 4,
            code: "rs-6+3".to_owned(),
            block_bytes: 1 << 20,
            stripes: 50,
            seed: 1,
        };
        let cluster = Cluster::new(&paper).unwrap();
        let clock = Cell::new(Duration::ZERO);
        let tick = || clock.replace(clock.get() + Duration::from_secs(1));
        for assign in [Assign::Balanced, Assign::LeastRecent, Assign::MPpr, Assign::LowestIndex] {
            let write = |plan: &FlowPlan| plan.edges.iter().map(Vec::len).sum();
            let planned = cluster.plan((assign, Some(Scheme::Pipeline)), tick, write).unwrap();
            // Six helpers and the requestor: six edges.
            assert_eq!((planned.repairs, planned.bytes), (50, 50 * 6), "{assign:?}");
            assert_eq!([planned.chosen, planned.written].map(|took| took.as_secs()), [1, 50]);
        }
        assert!(Cluster::new(&Paper { nodes: 9, ..paper }).is_err());
    }
}
