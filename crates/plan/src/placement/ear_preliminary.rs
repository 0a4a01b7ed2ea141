//! The preliminary encoding-aware replication (EAR §3.1): a stripe has a core rack, which holds a replica of each of its data
//! blocks, so that its encoding downloads nothing from other racks. Nobody looks at where the other replicas are, so that
//! blocks must often be relocated afterwards.
//!
//! Of codes that keep no replica, as RapidRAID, none is relocated. A stripe's first replicas lie in its core rack all the same, and
//! what its pipeline fetches is what the other replicas leave it to.

use super::policy::{Policy, PolicyKind, any_rack, require_open};
use super::racks::Racks;
use super::stripe::{OpenStripe, Placed};
use super::terms::Rules;
use crate::draw::Draw;
use crate::error::PlanError;
use crate::topology::RackId;
use std::sync::Arc;

pub(super) const POLICY: PolicyKind = PolicyKind {
    name: "ear-preliminary",
    description: "a replica of each block of a stripe in its core rack, the others as with random",
    source: "EAR §3.1",
    make: |rules| Ok(Box::new(EarPreliminary(rules))),
};

#[derive(Debug)]
pub(super) struct EarPreliminary(pub(super) Arc<Rules>);

impl Policy for EarPreliminary {
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
        Ok(OpenStripe::open(&self.0, core, racks, draw)?.without_reserve())
    }

    fn place(
        &self,
        stripe: &mut OpenStripe,
        racks: &Arc<Racks>,
        draw: &mut Draw,
    ) -> Result<Placed, PlanError> {
        require_open(stripe)?;
        let terms = self.0.terms();
        let home = stripe.state().core.map_or_else(|| any_rack(&self.0, racks, draw), Ok)?;
        let nodes = terms.spread.draw(racks, (home, terms.replicas), None, draw)?;
        stripe.push(nodes.clone());
        Ok(Placed { nodes, iterations: 1 })
    }
}

/// The probability that blocks of a stripe must be relocated (EAR, equation 1): k data blocks in a core rack and each in one of
/// the other `racks`−1, at most one block of a stripe to stay in a rack.
///
/// The racks of the k further replicas must be k different ones, or k−1: one block can stay in the core rack.
pub fn violation_probability(racks: usize, k: usize) -> f64 {
    let others = racks.saturating_sub(1) as f64;
    // The chance that the first `count` of all draws fall on different racks.
    let different =
        |count: usize| (0..count).map(|drawn| (1.0 - drawn as f64 / others).max(0.0)).product::<f64>();
    // One pair of blocks shares a rack, which is as likely as any other: C(k,2) pairs.
    let pairs = (k * k.saturating_sub(1) / 2) as f64;
    1.0 - different(k) - pairs * different(k.saturating_sub(1)) / others
}
