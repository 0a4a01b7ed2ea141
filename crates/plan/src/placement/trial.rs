//! Many blocks placed by one policy on racks that exist on paper, and what comes of it: how evenly replicas and reads lie, how
//! often a layout was drawn again, what encoding would fetch from other racks and move (EAR §5.3 and equation 1).

use super::open_stripes::OpenStripes;
use super::racks::Racks;
use super::seal::Sealed;
use super::stripe::OpenStripe;
use super::terms::{Rules, Terms};
use crate::draw::Draw;
use crate::error::PlanError;
use crate::topology::{RackId, Topology};
use model::NodeId;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What to place where.
#[derive(Clone, Debug)]
pub struct Trial {
    /// A name of [`policies`](super::policies).
    pub policy: String,
    /// What it is asked for.
    pub terms: Terms,
    /// Racks.
    pub racks: u32,
    /// Nodes in each of them.
    pub nodes_per_rack: u32,
    /// Blocks of each run.
    pub blocks: usize,
    /// Runs, each of which begins with an empty cluster and a seed that is higher by one.
    pub runs: u64,
    /// The seed of the first run.
    pub seed: u64,
}

/// What came of it, over all runs.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct TrialReport {
    /// The share of all replicas that each rack holds: sorted in each run, the largest first, and averaged over runs place by
    /// place, as EAR's figure 18 has it. They sum up to 1.
    pub rack_share: Vec<f64>,
    /// The largest share of reads that a rack has if each block is as likely to be read as another and each rack with a
    /// replica of it as likely to serve it (the index H of EAR §5.3), averaged over runs.
    pub hotness: f64,
    /// Layouts drawn on average for a block, by its place in the stripe; `None` for a place that no block had.
    pub iterations_by_position: Vec<Option<f64>>,
    /// Layouts drawn for one block at most.
    pub most_iterations: usize,
    /// Stripes that got all their data blocks.
    pub stripes: Totals,
    /// Stripes that were still open after the last block, sealed as short as they were.
    pub short_stripes: Totals,
}

/// What was counted of sealed stripes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// How many.
    pub stripes: u64,
    /// Those of which no choice of replicas would keep the rules, so that blocks must be relocated after encoding.
    pub violating: u64,
    /// Data blocks to relocate.
    pub relocated: u64,
    /// Data blocks that the encoder reads from other racks, or that nodes of pipelines fetch from other racks.
    pub cross_rack_downloads: u64,
    /// Data blocks that nodes of pipelines lack, whatever the rack they fetch them from; 0 for codes that one node encodes.
    pub fetched: u64,
    /// Downloads if the rack with a replica of the most blocks encoded, by one of its nodes.
    pub best_rack_downloads: u64,
    /// Parities that the encoder sends to other racks; sums that pass along pipelines from rack to rack.
    pub cross_rack_uploads: u64,
}

impl Totals {
    /// A sum as so many for each stripe; 0 without stripes.
    pub fn per_stripe(&self, sum: u64) -> f64 {
        if self.stripes == 0 { 0.0 } else { sum as f64 / self.stripes as f64 }
    }

    fn count(&mut self, stripe: &OpenStripe, sealed: &Sealed, racks: &Racks) {
        let relocated = sealed.relocated().count() as u64;
        self.stripes += 1;
        self.violating += u64::from(relocated > 0 || !sealed.is_obedient);
        self.relocated += relocated;
        self.cross_rack_downloads += sealed.cross_rack_downloads(racks) as u64;
        self.fetched += sealed.fetches.as_ref().map_or(0, Vec::len) as u64;
        self.best_rack_downloads += best_rack_downloads(stripe, racks) as u64;
        self.cross_rack_uploads += sealed.cross_rack_uploads(racks) as u64;
    }
}

/// One run while it goes on.
struct Run {
    racks: Arc<Racks>,
    /// Replicas in each rack.
    replicas: Vec<u64>,
    /// Expected reads of each rack if each block is read once.
    reads: Vec<f64>,
}

impl Trial {
    /// Places all blocks, and seals every stripe.
    ///
    /// # Errors
    /// Those of [`policy`](super::policy) and [`OpenStripes::place`]; [`PlanError::NothingToPlace`] without racks, nodes, blocks
    /// or runs.
    pub fn run(&self) -> Result<TrialReport, PlanError> {
        let nodes = self.racks.checked_mul(self.nodes_per_rack).unwrap_or(0);
        if nodes == 0 || self.blocks == 0 || self.runs == 0 {
            return Err(PlanError::NothingToPlace);
        }
        let topology: Topology =
            (0..nodes).map(|node| (NodeId(node), RackId(node / self.nodes_per_rack))).collect();
        let alive: Vec<NodeId> = topology.nodes().collect();
        let racks = Racks::new(&topology, &alive, &BTreeSet::new())?;
        let k = self.terms.code.k();
        let mut report = TrialReport { rack_share: vec![0.0; self.racks as usize], ..TrialReport::default() };
        // Blocks and layouts by place in the stripe.
        let mut drawn = vec![(0_u64, 0_u64); k];
        for run in 0..self.runs {
            let mut draw = Draw::seeded(self.seed.wrapping_add(run));
            self.once(&racks, &mut draw, &mut drawn, &mut report)?;
        }
        let mean = |&(blocks, layouts): &(u64, u64)| (blocks > 0).then(|| layouts as f64 / blocks as f64);
        report.iterations_by_position = drawn.iter().map(mean).collect();
        report.rack_share.iter_mut().for_each(|share| *share /= self.runs as f64);
        report.hotness /= self.runs as f64;
        Ok(report)
    }

    /// What the terms come to.
    ///
    /// # Errors
    /// Those of [`Rules::new`].
    pub fn rules(&self) -> Result<Rules, PlanError> {
        Rules::new(self.terms.clone())
    }

    fn once(
        &self,
        racks: &Arc<Racks>,
        draw: &mut Draw,
        drawn: &mut [(u64, u64)],
        report: &mut TrialReport,
    ) -> Result<(), PlanError> {
        let mut open = OpenStripes::new(super::policy(&self.policy, self.terms.clone())?);
        let count = self.racks as usize;
        let mut run = Run { racks: Arc::clone(racks), replicas: vec![0; count], reads: vec![0.0; count] };
        for _ in 0..self.blocks {
            let joined = open.place(racks, draw)?;
            run.add(&joined.placed.nodes);
            let (blocks, layouts) = &mut drawn[joined.position];
            *blocks += 1;
            *layouts += joined.placed.iterations as u64;
            report.most_iterations = report.most_iterations.max(joined.placed.iterations);
            if let Some(stripe) = joined.filled {
                report.stripes.count(&stripe, &stripe.seal(racks, draw)?, racks);
            }
        }
        for stripe in open.iter() {
            report.short_stripes.count(stripe, &stripe.seal(racks, draw)?, racks);
        }
        let all = (self.blocks * self.terms.replicas) as f64;
        run.replicas.sort_unstable_by_key(|&replicas| std::cmp::Reverse(replicas));
        let shares = run.replicas.iter().map(|&replicas| replicas as f64 / all);
        report.rack_share.iter_mut().zip(shares).for_each(|(sum, share)| *sum += share);
        report.hotness += run.reads.iter().copied().fold(0.0, f64::max) / self.blocks as f64;
        Ok(())
    }
}

impl Run {
    fn add(&mut self, nodes: &[NodeId]) {
        let racks: BTreeSet<u32> =
            nodes.iter().filter_map(|&node| self.racks.rack_of(node)).map(|rack| rack.0).collect();
        for rack in nodes.iter().filter_map(|&node| self.racks.rack_of(node)) {
            self.replicas[rack.0 as usize] += 1;
        }
        for &rack in &racks {
            self.reads[rack as usize] += 1.0 / racks.len() as f64;
        }
    }
}

/// Data blocks without a replica in the rack that has one of the most.
fn best_rack_downloads(stripe: &OpenStripe, racks: &Racks) -> usize {
    let has = |nodes: &Vec<NodeId>, rack| nodes.iter().any(|&node| racks.rack_of(node) == Some(rack));
    let blocks = &stripe.state().replicas;
    let held = |&rack: &RackId| blocks.iter().filter(|nodes| has(nodes, rack)).count();
    blocks.len() - racks.ids().iter().map(held).max().unwrap_or(0)
}
