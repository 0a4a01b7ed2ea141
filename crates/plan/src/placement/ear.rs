//! Encoding-aware replication (EAR §3.2–3.5): as [preliminary](super::ear_preliminary), and the layout of each block's replicas is
//! drawn again until one replica of each block of the stripe can stay, at most c in a rack, all in the target racks. So nothing
//! is relocated after encoding.
//!
//! A code of local groups is filled group by group, each within what the whole stripe and what its group may lose.
//!
//! Where a pipeline makes the blocks of a stripe (RapidRAID), no replica stays, so that every layout does: nothing is drawn again,
//! and the policy is the preliminary one.

use super::ear_preliminary::EarPreliminary;
use super::policy::{Policy, PolicyKind, any_rack, require_open};
use super::racks::Racks;
use super::stripe::{OpenStripe, Placed, living};
use super::stripe_graph::{Accepted, StripeGraph};
use super::terms::Rules;
use crate::draw::Draw;
use crate::error::PlanError;
use crate::topology::RackId;
use model::NodeId;
use std::sync::Arc;

/// Layouts drawn for a block before one is made on purpose. With two target racks of a hundred a draw hits one in a hundred
/// times, so that of a thousand one does but once in 20,000 blocks.
const MOST_DRAWS: usize = 1_000;

pub(super) const POLICY: PolicyKind = PolicyKind {
    name: "ear",
    description: "as ear-preliminary, drawn again until no block need be relocated after encoding",
    source: "EAR §3.2–3.5",
    make: |rules| match rules.keeps_no_replica() {
        true => Ok(Box::new(EarPreliminary(rules))),
        false => Ok(Box::new(Ear::new(rules)?)),
    },
};

#[derive(Debug)]
struct Ear(Arc<Rules>);

impl Ear {
    fn new(rules: Arc<Rules>) -> Result<Ear, PlanError> {
        let largest = (0..rules.groups()).map(|group| rules.data_of(group).len()).max().unwrap_or(0);
        let k = rules.k();
        if rules.terms().replicas == 1 && (rules.per_rack() < k || rules.per_group() < largest) {
            let code = rules.terms().code.name().to_owned();
            return Err(PlanError::OneReplica { code, k, capacity: rules.per_rack() });
        }
        Ok(Ear(rules))
    }

    /// Draws until a layout has an accepted node, then makes one that has. The layout, and which one it was.
    fn layout(
        &self,
        home: RackId,
        racks: &Racks,
        is_accepted: impl Fn(NodeId) -> bool,
        draw: &mut Draw,
    ) -> Result<Option<(Vec<NodeId>, usize)>, PlanError> {
        let terms = self.0.terms();
        let replicas = (home, terms.replicas);
        for iteration in 1..=MOST_DRAWS {
            let nodes = terms.spread.draw(racks, replicas, None, draw)?;
            if nodes.iter().any(|&node| is_accepted(node)) {
                return Ok(Some((nodes, iteration)));
            }
        }
        let mut all: Vec<NodeId> = racks
            .ids()
            .iter()
            .flat_map(|&rack| racks.roomy(rack))
            .copied()
            .filter(|&n| is_accepted(n))
            .collect();
        draw.shuffle(&mut all);
        for node in all {
            let nodes = terms.spread.draw(racks, replicas, Some(node), draw)?;
            if nodes.contains(&node) {
                return Ok(Some((nodes, MOST_DRAWS + 1)));
            }
        }
        Ok(None)
    }
}

impl Policy for Ear {
    fn rules(&self) -> &Arc<Rules> {
        &self.0
    }

    fn core(&self, racks: &Racks, draw: &mut Draw) -> Result<Option<RackId>, PlanError> {
        any_rack(&self.0, racks, draw).map(Some)
    }

    fn open(
        &self,
        core: Option<RackId>,
        racks: &Arc<Racks>,
        draw: &mut Draw,
    ) -> Result<OpenStripe, PlanError> {
        OpenStripe::open(&self.0, core, racks, draw)
    }

    fn place(
        &self,
        stripe: &mut OpenStripe,
        racks: &Arc<Racks>,
        draw: &mut Draw,
    ) -> Result<Placed, PlanError> {
        require_open(stripe)?;
        let home = stripe.state().core.map_or_else(|| any_rack(&self.0, racks, draw), Ok)?;
        let none = PlanError::NoLayout { block: stripe.len(), rack: home.0 };
        let graph: &mut StripeGraph = stripe.graph(racks);
        let accepted: Accepted = graph.accepted();
        let is_accepted = |node| racks.rack_of(node).is_some_and(|rack| graph.takes(&accepted, node, rack));
        let (nodes, iterations) = self.layout(home, racks, is_accepted, draw)?.ok_or_else(|| none.clone())?;
        if !graph.pin(&living(racks, &nodes)) {
            return Err(none);
        }
        stripe.push_pinned(nodes.clone());
        Ok(Placed { nodes, iterations })
    }
}

/// How many layouts are drawn on average at most for the block at this place of its stripe, from 0, for replicas in `racks` racks
/// of which `targets` may keep blocks (the bound of EAR's conference version, for R′ = R).
///
/// At worst the blocks before it fill ⌊position/c⌋ racks besides the core rack, and the core rack is full too: then the rack of the
/// further replicas must be one of the other target racks. `None` if no other need be left, so that this tells nothing, or with
/// local groups, for which it does not hold. One layout always does for a code that keeps no replica.
pub fn iterations_bound(rules: &Rules, racks: usize, position: usize) -> Option<f64> {
    if rules.keeps_no_replica() {
        return Some(1.0);
    }
    let terms = rules.terms();
    let targets = terms.target_racks.unwrap_or(racks);
    let open = targets.checked_sub(1 + position / rules.per_rack())?;
    let holds = rules.groups() == 1 && terms.replicas > 1 && open > 0 && racks > 1;
    holds.then(|| (racks - 1) as f64 / open as f64)
}
