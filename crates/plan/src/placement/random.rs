//! Random replication (RR; EAR §2.1, the default of HDFS): the first replica on a node of a random rack, the
//! others on different nodes of one other random rack. Survives the loss of any node and of any rack, and
//! knows nothing of later encoding.

use super::policy::{Policy, PolicyKind, any_rack, require_open};
use super::racks::Racks;
use super::spread::Spread;
use super::stripe::{OpenStripe, Placed};
use super::terms::Rules;
use crate::draw::Draw;
use crate::error::PlanError;
use crate::topology::{RackId, Topology};
use model::NodeId;
use std::collections::BTreeSet;
use std::sync::Arc;

pub(super) const POLICY: PolicyKind = PolicyKind {
    name: "random",
    description: "each block by itself: a random rack, and another one; stripes are consecutive blocks",
    source: "EAR §2.1, the default of HDFS",
    make: |rules| Ok(Box::new(Random(rules))),
};

#[derive(Debug)]
struct Random(Arc<Rules>);

impl Policy for Random {
    fn rules(&self) -> &Arc<Rules> {
        &self.0
    }

    fn core(&self, _: &Racks, _: &mut Draw) -> Result<Option<RackId>, PlanError> {
        Ok(None)
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
        let home = any_rack(&self.0, racks, draw)?;
        let nodes = terms.spread.draw(racks, (home, terms.replicas), None, draw)?;
        stripe.push(nodes.clone());
        Ok(Placed { nodes, iterations: 1 })
    }
}

/// Nodes for `copies` replicas, all of distinct hosts, drawn from `alive`. If no single other rack can take all the
/// further replicas, they go to distinct random nodes, of other racks as long as there are any.
///
/// # Errors
/// [`PlanError::NotEnoughNodes`], [`PlanError::UnknownNode`].
pub fn random(
    topology: &Topology,
    alive: &[NodeId],
    copies: usize,
    draw: &mut Draw,
) -> Result<Vec<NodeId>, PlanError> {
    let racks = Racks::new(topology, &topology.one_per_host(alive, draw), &BTreeSet::new())?;
    let nodes = racks.roomy_nodes();
    match racks.draw(draw) {
        _ if nodes < copies => {
            Err(PlanError::NotEnoughNodes { code: format!("rep-{copies}"), needed: copies, alive: nodes })
        }
        Some(home) if copies > 0 => Spread::TwoRacks.draw(&racks, (home, copies), None, draw),
        _ => Ok(Vec::new()),
    }
}
