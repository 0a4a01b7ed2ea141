//! A stripe while it is filled with replicated blocks.

use super::racks::Racks;
use super::stripe_graph::{Room, StripeGraph};
use super::terms::Rules;
use crate::draw::Draw;
use crate::error::PlanError;
use crate::topology::RackId;
use model::NodeId;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Choices of target racks and of racks for global parities that are tried when a stripe is opened. In racks of equal size the
/// first one does.
const MOST_CHOICES: usize = 16;

/// Where the replicas of a block go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Placed {
    /// A node for each replica, the first one's first; all distinct.
    pub nodes: Vec<NodeId>,
    /// Layouts that were drawn until one would do; 1 if the first did.
    pub iterations: usize,
}

/// What is to be kept of an open stripe, so that it can be taken up again after a restart.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StripeState {
    /// The rack in which each data block has a replica; `None` if the policy knows no such rack.
    pub core: Option<RackId>,
    /// Racks where encoded blocks may lie, preferred ones first.
    pub targets: Vec<RackId>,
    /// The rack of each global parity, if they are reserved (EAR for codes of local groups).
    pub globals: Vec<RackId>,
    /// The nodes of each data block's replicas so far, at most k of them.
    pub replicas: Vec<Vec<NodeId>>,
    /// What became of the local groups that are full, in their order; the last one is never among them.
    pub settled: Vec<SettledGroup>,
}

/// A local group that has all its data blocks: where they will lie is decided.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SettledGroup {
    /// The node of each data block; `None` for one that found none because nodes died meanwhile.
    pub kept: Vec<Option<NodeId>>,
    /// The rack of the group's parity, likewise.
    pub parity: Option<RackId>,
}

/// An open stripe. Policies place blocks in it; whoever writes them seals it, full or not.
#[derive(Clone, Debug)]
pub struct OpenStripe {
    rules: Arc<Rules>,
    state: StripeState,
    /// The flow so far, and the racks as they were then; made anew when they change.
    graph: Option<(Arc<Racks>, StripeGraph)>,
}

impl OpenStripe {
    /// A stripe without blocks. Its target racks are drawn, its core rack among them.
    ///
    /// # Errors
    /// [`PlanError::TooManyTargetRacks`], [`PlanError::TooFewRacks`], [`PlanError::TooFewNodesInRacks`].
    pub(super) fn open(
        rules: &Arc<Rules>,
        core: Option<RackId>,
        racks: &Arc<Racks>,
        draw: &mut Draw,
    ) -> Result<OpenStripe, PlanError> {
        let all = racks.ids().len();
        let wanted = rules.terms().target_racks.unwrap_or(all);
        if wanted > all {
            return Err(PlanError::TooManyTargetRacks { targets: wanted, racks: all });
        }
        for _ in 0..MOST_CHOICES {
            let targets = targets(core, racks, wanted, draw);
            let globals = globals(rules, &targets, draw);
            let rooms = rooms(rules, racks, &targets, &globals);
            let graph = StripeGraph::new(rules, 0, &rooms, BTreeSet::new());
            if can_reserve(rules, racks, &globals) && graph.is_content() {
                let state = StripeState { core, targets, globals, ..StripeState::default() };
                let graph = Some((Arc::clone(racks), graph));
                return Ok(OpenStripe { rules: Arc::clone(rules), state, graph });
            }
        }
        Err(too_few(rules, racks, wanted))
    }

    /// A stripe that was open before.
    pub fn resume(rules: &Arc<Rules>, state: StripeState) -> OpenStripe {
        OpenStripe { rules: Arc::clone(rules), state, graph: None }
    }

    /// The same without racks that are kept for global parities.
    pub(super) fn without_reserve(mut self) -> OpenStripe {
        self.state.globals.clear();
        self.graph = None;
        self
    }

    /// What is to be kept of it.
    pub fn state(&self) -> &StripeState {
        &self.state
    }

    /// The rules that it follows.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Data blocks that it has.
    pub fn len(&self) -> usize {
        self.state.replicas.len()
    }

    /// Whether it has no block yet.
    pub fn is_empty(&self) -> bool {
        self.state.replicas.is_empty()
    }

    /// Whether it has all its k data blocks.
    pub fn is_full(&self) -> bool {
        self.len() >= self.rules.k()
    }

    /// Takes a block whose replicas were placed without asking the flow graph.
    pub(super) fn push(&mut self, nodes: Vec<NodeId>) {
        self.state.replicas.push(nodes);
        self.graph = None;
    }

    /// The flow graph with all blocks so far of the group that is being filled.
    pub(super) fn graph(&mut self, racks: &Arc<Racks>) -> &mut StripeGraph {
        let (rules, state) = (&self.rules, &self.state);
        let is_current = |known: &Arc<Racks>| Arc::ptr_eq(known, racks) || known == racks;
        let kept = self.graph.take().filter(|(known, _)| is_current(known)).map(|(_, graph)| graph);
        let graph = kept.unwrap_or_else(|| drawn_anew(rules, state, racks));
        &mut self.graph.insert((Arc::clone(racks), graph)).1
    }

    /// Takes a block that is pinned in the graph; settles its group if that was the last one of it.
    pub(super) fn push_pinned(&mut self, nodes: Vec<NodeId>) {
        self.state.replicas.push(nodes);
        let (len, group) = (self.len(), self.rules.group_of(self.len() - 1));
        if len < self.rules.data_of(group).end || group + 1 == self.rules.groups() {
            return;
        }
        // The group's own parity is the one unit that is still free.
        let Some((_, graph)) = self.graph.take() else { return };
        let parity = graph.free_racks().first().copied();
        self.state.settled.push(SettledGroup { kept: graph.kept(), parity });
    }
}

/// `count` random racks, the core rack the first of them if there is one.
fn targets(core: Option<RackId>, racks: &Racks, count: usize, draw: &mut Draw) -> Vec<RackId> {
    let mut others: Vec<RackId> = racks.ids().iter().copied().filter(|&rack| Some(rack) != core).collect();
    draw.shuffle(&mut others);
    core.into_iter().chain(others).take(count).collect()
}

/// Racks for the global parities, as many different ones as there are.
fn globals(rules: &Rules, targets: &[RackId], draw: &mut Draw) -> Vec<RackId> {
    if rules.globals().is_empty() {
        return Vec::new();
    }
    let mut order = targets.to_vec();
    draw.shuffle(&mut order);
    order.iter().copied().cycle().take(rules.globals().len()).collect()
}

/// Whether the racks of global parities can hold these.
fn can_reserve(rules: &Rules, racks: &Racks, globals: &[RackId]) -> bool {
    let reserved = |rack: RackId| globals.iter().filter(|&&other| other == rack).count();
    globals.iter().all(|&rack| reserved(rack) <= rules.per_group().min(racks.living(rack)))
}

/// What the target racks can hold besides the global parities.
pub(super) fn rooms(rules: &Rules, racks: &Racks, targets: &[RackId], globals: &[RackId]) -> Vec<Room> {
    let room = |&rack: &RackId| {
        let reserved = globals.iter().filter(|&&other| other == rack).count();
        let blocks = rules.per_rack().min(racks.living(rack)).saturating_sub(reserved);
        Room { rack, blocks, of_a_group: rules.per_group().saturating_sub(reserved) }
    };
    targets.iter().map(room).collect()
}

/// The flow graph of the group that is being filled, from what is noted of the stripe.
fn drawn_anew(rules: &Rules, state: &StripeState, racks: &Racks) -> StripeGraph {
    let mut rooms = rooms(rules, racks, &state.targets, &state.globals);
    let mut taken = BTreeSet::new();
    for settled in &state.settled {
        let kept = settled.kept.iter().flatten();
        let in_racks = kept.clone().filter_map(|&node| racks.rack_of(node));
        in_racks.chain(settled.parity).for_each(|rack| occupy(&mut rooms, rack));
        taken.extend(kept);
    }
    let group = state.settled.len().min(rules.groups() - 1);
    let mut graph = StripeGraph::new(rules, group, &rooms, taken);
    for replicas in state.replicas.iter().skip(rules.data_of(group).start) {
        graph.pin(&living(racks, replicas));
    }
    graph
}

/// One block less fits into a rack.
pub(super) fn occupy(rooms: &mut [Room], rack: RackId) {
    for room in rooms.iter_mut().filter(|room| room.rack == rack) {
        room.blocks = room.blocks.saturating_sub(1);
    }
}

/// The replicas that live, with their racks.
pub(super) fn living(racks: &Racks, replicas: &[NodeId]) -> Vec<(NodeId, RackId)> {
    replicas.iter().filter_map(|&node| Some((node, racks.rack_of(node)?))).collect()
}

/// What would be needed.
fn too_few(rules: &Rules, racks: &Racks, wanted: usize) -> PlanError {
    let nodes = racks.ids().iter().map(|&rack| racks.living(rack)).max().unwrap_or(0);
    let code = rules.terms().code.name().to_owned();
    let per_rack = rules.per_rack();
    match racks_needed(rules, nodes) {
        Some(needed) if needed <= wanted => PlanError::TooFewNodesInRacks { code, racks: wanted, per_rack },
        needed => PlanError::TooFewRacks {
            code,
            per_rack,
            per_group: (rules.groups() > 1).then(|| rules.per_group()),
            needed: needed.unwrap_or(rules.terms().code.stored()),
            nodes,
            racks: wanted,
        },
    }
}

/// How many racks of so many nodes hold a stripe; `None` if no number does. A stripe whose blocks are all in racks of their own
/// obeys every bound, so as many as are stored suffice.
fn racks_needed(rules: &Rules, nodes: usize) -> Option<usize> {
    let fits = |&count: &usize| {
        let reserved =
            |rack: usize| (0..rules.globals().len()).filter(|global| global % count == rack).count();
        let room = |rack: usize| Room {
            rack: RackId(rack as u32),
            blocks: rules.per_rack().min(nodes).saturating_sub(reserved(rack)),
            of_a_group: rules.per_group().saturating_sub(reserved(rack)),
        };
        let rooms: Vec<Room> = (0..count).map(room).collect();
        let is_reserved = (0..count).all(|rack| reserved(rack) <= rules.per_group().min(nodes));
        is_reserved && StripeGraph::new(rules, 0, &rooms, BTreeSet::new()).is_content()
    };
    (1..=rules.terms().code.stored()).find(fits)
}
