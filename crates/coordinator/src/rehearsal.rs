//! How fast a coordinator plans: the recovery of a node of a cluster that exists on paper, by the planner that real
//! recoveries use.
//!
//! ```text
//!   stripes on paper ──a batch──▶ candidates ─▶ assigned ──one by one──▶ flow built, proved, priced, bound ─▶ bytes
//! ```
//!
//! What a repair really takes besides, its rows in the catalog and the messages, is not in it.

use crate::attempt::scheme;
use crate::error::{CoordinatorError, Result};
use crate::health::Health;
use crate::jobs::{BATCH, InFlight, assign_named, at_once};
use crate::planner::{Candidates, Planner, RepairSpec, SliceLength, Takers};
use flow::limits;
use model::{
    Assign, BlockFacts, BlockId, FlowId, Location, NodeId, Part, Placement, StripeId, StripePlace,
    StripePlacement, Sums,
};
use plan::Draw;
use plan::recovery::Assignment;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use wire::{Message, proto};

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
pub struct Rehearsal {
    planner: Planner,
    health: Health,
    placements: Vec<Placement>,
}

impl Planned {
    /// Repairs a second, all steps together.
    pub fn repairs_per_s(&self) -> f64 {
        self.repairs as f64 / (self.chosen + self.built + self.written).as_secs_f64()
    }
}

impl Rehearsal {
    /// Draws the stripes.
    ///
    /// # Errors
    /// [`CoordinatorError::Code`] for a code that is not known, [`CoordinatorError::Invalid`] if there are too few nodes.
    pub fn new(paper: &Paper) -> Result<Rehearsal> {
        let planner = Planner::new(limits::DEFAULT_SLICE_BYTES, paper.seed);
        let n = planner.codes.get(&paper.code)?.n();
        if (paper.nodes as usize) <= n || paper.racks == 0 {
            let text =
                format!("{} nodes in {} racks cannot recover stripes of {n}", paper.nodes, paper.racks);
            return Err(CoordinatorError::Invalid(text));
        }
        let health = Health::new(Duration::from_secs(3_600), Vec::new(), &[]);
        for node in (1..=paper.nodes).filter(|&node| NodeId(node) != LOST) {
            let [high, low] = [node / 250, 1 + node % 250];
            let row = catalog::rows::NodeRow {
                control_addr: format!("10.0.{high}.{low}:7401"),
                data_addr: format!("10.0.{high}.{low}:7402"),
                rack: format!("rack-{}", node % paper.racks),
            };
            health.registered(NodeId(node), row);
        }
        let mut draw = Draw::seeded(paper.seed);
        let placements = (0..paper.stripes).map(|stripe| placement(paper, n, stripe, &mut draw)).collect();
        Ok(Rehearsal { planner, health, placements })
    }

    /// Plans the recovery of all stripes, in batches as a recovery does. `assign` and `scheme_name` as in a request for
    /// a repair.
    ///
    /// # Errors
    /// [`CoordinatorError::Invalid`] for another assignment; whatever the planner says of a stripe.
    pub fn plan(&self, assign: &str, scheme_name: &str) -> Result<Planned> {
        let (assign, scheme) = (assign_named(assign)?, scheme(scheme_name)?);
        let mut planned = Planned::default();
        // What was planned before is under way no more: every batch is as good as the first.
        let in_flight = InFlight::new(usize::MAX);
        let mut received: BTreeMap<NodeId, u64> = BTreeMap::new();
        for batch in self.placements.chunks(BATCH) {
            let start = Instant::now();
            let view = self.health.view();
            let mut takers = Takers::new(&view, &BTreeSet::new())?;
            let candidates = batch
                .iter()
                .map(|placement| self.planner.lost_block(&view, placement, false, &mut takers))
                .collect::<Result<Vec<Candidates>>>()?;
            let known: Vec<&Candidates> = candidates.iter().collect();
            let mut assigned =
                at_once((assign, scheme), &view, &takers, &known, &in_flight, &BTreeMap::new())?;
            for (assigned, candidates) in assigned.iter_mut().zip(&candidates) {
                if assign == Assign::LeastRecent {
                    *assigned = Some(self.one_by_one(candidates, &mut received)?);
                }
            }
            planned.chosen += start.elapsed();
            for (placement, assignment) in batch.iter().zip(assigned.into_iter().flatten()) {
                let start = Instant::now();
                let spec = RepairSpec {
                    scheme,
                    slices: SliceLength::exactly(limits::DEFAULT_SLICE_BYTES),
                    verify: true,
                    requestor: assignment.requestor,
                    scheduled: true,
                    generation: 2,
                    flow: FlowId(rand::random()),
                    attempt: 1,
                    moves: false,
                    helpers: assignment.chain.clone(),
                    explained: false,
                };
                let plan = self.planner.repair(&view, placement, &spec, &BTreeSet::new())?.planned.plan;
                let built = Instant::now();
                let message =
                    proto::DriveRequest { plan: Some(wire::codec::plan::encode(&plan)), rehearse: false }
                        .encode_to_vec();
                planned.repairs += 1;
                planned.bytes += message.len() as u64;
                planned.built += built - start;
                planned.written += built.elapsed();
            }
        }
        if planned.repairs != self.placements.len() {
            return Err(CoordinatorError::Bug("a stripe on paper could not be assigned".to_owned()));
        }
        Ok(planned)
    }

    /// The least recently selected helpers, and the requestor that has received least (RP §3.3).
    fn one_by_one(
        &self,
        candidates: &Candidates,
        received: &mut BTreeMap<NodeId, u64>,
    ) -> Result<Assignment> {
        let lost = &candidates.lost;
        let chain = self.planner.select(&lost.survivors, lost.needed)?;
        let load = |node: &&NodeId| received.get(node).copied().unwrap_or(0);
        let none = CoordinatorError::Nodes(plan::PlanError::NoTarget { alive: received.len() });
        let requestor = *lost.requestors.iter().min_by_key(load).ok_or(none)?;
        *received.entry(requestor).or_default() += 1;
        Ok(Assignment { chain, requestor })
    }
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
        replicas: 1,
        part: Some(Part {
            name: format!("object-{stripe}"),
            version: 1,
            offset: index as u64 * paper.block_bytes,
            last: false,
        }),
        stripe: Some(StripePlace { stripe: id, index: index as u16 }),
        dead: false,
    };
    let lost = nodes.iter().position(|&node| node == LOST).unwrap_or(0);
    let members: Vec<_> = (0..n).map(|index| Some((block(index), row(index)))).collect();
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
        let rehearsal = Rehearsal::new(&paper).unwrap();
        for assign in ["balanced", "least-recent", "m-ppr", "lowest-index"] {
            let planned = rehearsal.plan(assign, "pipeline").unwrap();
            assert_eq!(planned.repairs, 50, "{assign}");
            // Seven participants, six edges with their tokens, nine members with digest and fingerprint.
            assert!(planned.bytes > 50 * 9 * (32 + 128), "{assign}");
        }
        assert!(rehearsal.plan("by-chance", "pipeline").is_err());
        assert!(Rehearsal::new(&Paper { nodes: 9, ..paper }).is_err());
    }
}
