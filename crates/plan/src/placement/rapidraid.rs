//! Replicas as the pipeline of a RapidRAID code wants them (RapidRAID §IV, §V): its nodes have all that they need, so that nothing
//! moves besides what passes along it.
//!
//! ```text
//!   rapidraid-4+2     node 0   node 1   node 2   node 3   node 4   node 5     m = 2
//!   first replica       d0       d1       d2       d3
//!   second replica                        d0       d1       d2       d3
//! ```
//!
//! So the first replica of a block goes to the node that has the second one of the block m places before, and its second to a
//! node that is new in the stripe. Both are in different racks, and no rack has more nodes of the pipeline than blocks of a
//! stripe, wherever the racks allow it: racks are drawn for the whole rest of the stripe, and drawn again if two replicas of a
//! block would share one. Further replicas lie beside the pipeline, in other racks if there are any. The spread that the terms ask
//! for does not count.

use super::policy::{Policy, PolicyKind, require_open};
use super::racks::Racks;
use super::stripe::{OpenStripe, Placed};
use super::terms::Rules;
use crate::draw::Draw;
use crate::error::PlanError;
use crate::pipeline::{lag, require_pipeline};
use crate::topology::RackId;
use model::NodeId;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Replicas that a pipeline goes over.
const PIPELINED_REPLICAS: usize = 2;

/// Times that racks are drawn for the rest of a stripe. The first will do unless the racks hardly hold the stripe.
const MOST_DRAFTS: usize = 50;

pub(super) const POLICY: PolicyKind = PolicyKind {
    name: "rapidraid",
    description: "two replicas along the pipeline that makes the stripe's blocks, as RapidRAID codes want it",
    source: "RapidRAID §IV, §V",
    make: |rules| Ok(Box::new(RapidRaid::new(rules)?)),
};

#[derive(Debug)]
struct RapidRaid(Arc<Rules>);

impl RapidRaid {
    fn new(rules: Arc<Rules>) -> Result<RapidRaid, PlanError> {
        let (code, replicas) = (&rules.terms().code, rules.terms().replicas);
        require_pipeline(code)?;
        if replicas < PIPELINED_REPLICAS {
            let (code, needed) = (code.name().to_owned(), PIPELINED_REPLICAS);
            return Err(PlanError::TooFewReplicas { code, needed, replicas });
        }
        Ok(RapidRaid(rules))
    }
}

impl Policy for RapidRaid {
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
        OpenStripe::open(&self.0, core, racks, draw)
    }

    /// If nodes died, so that the stripe cannot have a node for each position any more, replicas go to any nodes.
    fn place(
        &self,
        stripe: &mut OpenStripe,
        racks: &Arc<Racks>,
        draw: &mut Draw,
    ) -> Result<Placed, PlanError> {
        require_open(stripe)?;
        let (block, needed) = (stripe.len(), self.0.terms().replicas);
        let mut chain = Chain::of(stripe, racks);
        let (draft, iterations) = chain.best_draft(block, draw);
        let mut nodes = Vec::with_capacity(needed);
        for position in [block, block + lag(&self.0.terms().code)] {
            nodes.extend(chain.stand(position, &draft, draw));
        }
        while nodes.len() < needed {
            let node = chain.beside(&nodes, draw).ok_or_else(|| {
                let code = format!("rep-{needed}");
                PlanError::NotEnoughNodes { code, needed, alive: racks.roomy_nodes() }
            })?;
            nodes.push(node);
        }
        stripe.push(nodes.clone());
        Ok(Placed { nodes, iterations })
    }
}

/// The pipeline of a stripe, as far as it stands.
struct Chain<'a> {
    rules: &'a Rules,
    racks: &'a Racks,
    /// The living node of each position that has one.
    nodes: Vec<Option<NodeId>>,
    rooms: Vec<Room>,
}

/// What a rack has of the pipeline.
#[derive(Clone, Copy)]
struct Room {
    rack: RackId,
    is_target: bool,
    /// Nodes of the pipeline.
    blocks: usize,
    /// Nodes that can take a block and are not of the pipeline.
    left: usize,
}

/// Racks for the whole pipeline.
struct Draft {
    /// By position, of its node or drawn; `None` where no node is left, or its node died and its block has been placed.
    racks: Vec<Option<RackId>>,
    faults: Faults,
}

/// What is wrong with it, the worst first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
struct Faults {
    /// Blocks in racks beyond what these may hold.
    beyond: usize,
    /// Blocks in racks that are no targets.
    astray: usize,
    /// Blocks of which both replicas are in one rack.
    together: usize,
}

impl<'a> Chain<'a> {
    fn of(stripe: &'a OpenStripe, racks: &'a Racks) -> Chain<'a> {
        let (rules, state) = (stripe.rules(), stripe.state());
        let (code, next) = (&rules.terms().code, stripe.len());
        let is_roomy = |node: NodeId, rack| racks.roomy(rack).binary_search(&node).is_ok();
        let mut standing = BTreeSet::new();
        let mut node = |position: usize| {
            let second =
                || position.checked_sub(lag(code)).and_then(|block| state.replicas.get(block)?.get(1));
            let node = *state.replicas.get(position).map_or_else(second, |nodes| nodes.first())?;
            let rack = racks.rack_of(node)?;
            // Who has the position of the next block is given that block. A node that was used twice, as too few were left, has
            // the first of its positions.
            ((position != next || is_roomy(node, rack)) && standing.insert(node)).then_some(node)
        };
        let nodes: Vec<Option<NodeId>> = (0..code.stored()).map(&mut node).collect();
        let mut targets = state.targets.clone();
        targets.sort_unstable();
        let mut rooms: Vec<Room> = racks
            .ids()
            .iter()
            .map(|&rack| Room {
                rack,
                is_target: targets.binary_search(&rack).is_ok(),
                blocks: 0,
                left: racks.roomy(rack).len(),
            })
            .collect();
        for (node, rack) in nodes.iter().flatten().filter_map(|&node| Some((node, racks.rack_of(node)?))) {
            for room in rooms.iter_mut().filter(|room| room.rack == rack) {
                room.blocks += 1;
                room.left -= usize::from(is_roomy(node, rack));
            }
        }
        Chain { rules, racks, nodes, rooms }
    }

    /// The first draft that has no two replicas of a block in one rack, or the best of many; and how many were drawn.
    fn best_draft(&self, block: usize, draw: &mut Draw) -> (Draft, usize) {
        let (mut best, mut drafts) = (self.draft(block, draw), 1);
        while best.faults.together > 0 && drafts < MOST_DRAFTS {
            let another = self.draft(block, draw);
            drafts += 1;
            if another.faults < best.faults {
                best = another;
            }
        }
        (best, drafts)
    }

    /// Draws racks for the positions that get nodes with this block and later ones.
    fn draft(&self, block: usize, draw: &mut Draw) -> Draft {
        let code = &self.rules.terms().code;
        let mut rooms = self.rooms.clone();
        let mut faults = Faults::default();
        let stands = |node: &Option<NodeId>| node.and_then(|node| self.racks.rack_of(node));
        let mut racks: Vec<Option<RackId>> = self.nodes.iter().map(stands).collect();
        for block in block..code.k() {
            if racks[block].is_none() {
                racks[block] = self.choose(&mut rooms, None, &mut faults, draw);
            }
            racks[block + lag(code)] = self.choose(&mut rooms, racks[block], &mut faults, draw);
        }
        Draft { racks, faults }
    }

    /// One more node of the pipeline in a rack that has one left: a random one of those where that is the smallest fault.
    fn choose(
        &self,
        rooms: &mut [Room],
        beside: Option<RackId>,
        faults: &mut Faults,
        draw: &mut Draw,
    ) -> Option<RackId> {
        let fault = |room: &Room| Faults {
            beyond: (room.blocks + 1).saturating_sub(self.rules.per_rack()),
            astray: usize::from(!room.is_target),
            together: usize::from(beside == Some(room.rack)),
        };
        let least = rooms.iter().filter(|room| room.left > 0).map(fault).min()?;
        let is_best = |room: &Room| room.left > 0 && fault(room) == least;
        let best = rooms.iter().filter(|room| is_best(room)).count();
        let place = (0..rooms.len()).filter(|&place| is_best(&rooms[place])).nth(draw.below(best))?;
        (rooms[place].blocks, rooms[place].left) = (rooms[place].blocks + 1, rooms[place].left - 1);
        faults.beyond += least.beyond;
        faults.astray += least.astray;
        faults.together += least.together;
        Some(rooms[place].rack)
    }

    /// The node of a position: the one that stands there, or a new one in the rack that was drawn.
    fn stand(&mut self, position: usize, draft: &Draft, draw: &mut Draw) -> Option<NodeId> {
        if self.nodes[position].is_none() {
            let rack = draft.racks[position]?;
            let vacant: Vec<NodeId> = self.outside(rack).collect();
            self.nodes[position] = draw.pick(&vacant).copied();
        }
        self.nodes[position]
    }

    /// A random node for a further replica of a block that has some: outside the pipeline if there is one, then in a rack that has
    /// none of them.
    fn beside(&self, replicas: &[NodeId], draw: &mut Draw) -> Option<NodeId> {
        let mut racks = self.racks.ids().to_vec();
        draw.shuffle(&mut racks);
        let is_used = |rack: &RackId| replicas.iter().any(|&node| self.racks.rack_of(node) == Some(*rack));
        let (used, unused): (Vec<RackId>, Vec<RackId>) = racks.into_iter().partition(is_used);
        let racks = [unused, used].concat();
        let is_new = |node: &NodeId| !replicas.contains(node);
        let outside = |&rack: &RackId| self.outside(rack).filter(is_new).collect();
        let any = |&rack: &RackId| self.racks.roomy(rack).iter().copied().filter(is_new).collect();
        let some = |nodes: &Vec<NodeId>| !nodes.is_empty();
        let nodes: Option<Vec<NodeId>> = racks.iter().map(outside).find(some);
        let nodes = nodes.or_else(|| racks.iter().map(any).find(some))?;
        draw.pick(&nodes).copied()
    }

    /// Nodes of a rack that can take a block and have no position.
    fn outside(&self, rack: RackId) -> impl Iterator<Item = NodeId> + '_ {
        self.racks.roomy(rack).iter().copied().filter(|&node| !self.nodes.contains(&Some(node)))
    }
}
