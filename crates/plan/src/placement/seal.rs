//! What becomes of a stripe's replicas when it is encoded: which one of each block stays, where parities go, who encodes.

use super::racks::Racks;
use super::seal_virtual;
use super::stripe::{OpenStripe, living, occupy, rooms};
use super::stripe_graph::{Room, StripeGraph};
use super::terms::Rules;
use crate::draw::Draw;
use crate::error::PlanError;
use crate::topology::RackId;
use model::NodeId;
use std::collections::BTreeSet;

/// A data block of a sealed stripe. What a pipeline encodes lies nowhere afterwards: its block stays only until then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SealedBlock {
    /// The replica that is read for encoding: in the encoder's rack, if there is one; on a node of the pipeline, likewise.
    pub read_from: NodeId,
    /// Where the block lies afterwards: the replica that stays, unless the block is relocated.
    pub stored_at: NodeId,
    /// Whether no replica can stay, so that the block must move.
    pub is_relocated: bool,
}

/// The layout of a stripe after encoding. All `stored_at` and `parities` are distinct nodes; where a pipeline encodes, all
/// `parities`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sealed {
    /// Who encodes: a random node of the core rack, or of all racks if there is no core rack (EAR §2.1, §3.1).
    /// The first node of a pipeline.
    pub encoder: NodeId,
    /// The data blocks that the stripe has, fewer than k if it is short.
    pub data: Vec<SealedBlock>,
    /// The parities, members k … n−1; the nodes of a pipeline, in its order.
    pub parities: Vec<NodeId>,
    /// What nodes of a pipeline get from others while it runs, since they do not hold it; `None` if there is no pipeline.
    pub fetches: Option<Vec<Fetch>>,
    /// Whether this layout keeps the rules; false only if too few nodes live.
    pub is_obedient: bool,
}

/// A data block that a node of a pipeline needs and does not hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fetch {
    /// The block's place in its stripe.
    pub block: usize,
    /// Who holds a replica: in the rack of `to`, if there is one.
    pub from: NodeId,
    /// The node of the pipeline.
    pub to: NodeId,
}

impl Sealed {
    /// The data blocks that must move, by their places in the stripe.
    pub fn relocated(&self) -> impl Iterator<Item = usize> {
        self.data.iter().enumerate().filter(|(_, block)| block.is_relocated).map(|(place, _)| place)
    }

    /// Data blocks that the encoder reads from other racks (EAR §2.2), or that nodes of the pipeline fetch from other racks.
    pub fn cross_rack_downloads(&self, racks: &Racks) -> usize {
        if let Some(fetches) = &self.fetches {
            return fetches
                .iter()
                .filter(|fetch| racks.rack_of(fetch.from) != racks.rack_of(fetch.to))
                .count();
        }
        let home = racks.rack_of(self.encoder);
        self.data.iter().filter(|block| racks.rack_of(block.read_from) != home).count()
    }

    /// Parities that the encoder sends to other racks; sums, as large as a block, that pass along the pipeline from rack to rack.
    pub fn cross_rack_uploads(&self, racks: &Racks) -> usize {
        if self.fetches.is_some() {
            let hops = self.parities.windows(2);
            return hops.filter(|hop| racks.rack_of(hop[0]) != racks.rack_of(hop[1])).count();
        }
        let home = racks.rack_of(self.encoder);
        self.parities.iter().filter(|&&node| racks.rack_of(node) != home).count()
    }
}

/// Where a block of the stripe will lie, as far as it is decided.
#[derive(Clone, Copy)]
enum Place {
    /// A replica stays.
    Replica(NodeId),
    /// Any node of this rack.
    Rack(RackId),
    /// Wherever there is room.
    Anywhere,
}

impl OpenStripe {
    /// The layout after encoding, of the nodes that live now. As many replicas stay as the rules allow, by maximum matching;
    /// for a code of local groups the groups are matched one after another, as EAR does, which may miss a layout that exists
    /// if the policy is not EAR.
    ///
    /// For a code that a pipeline makes, the pipeline that fetches the fewest blocks ([`pipeline`](crate::pipeline())); for another
    /// one that stores no data block, nodes for those that it stores.
    ///
    /// # Errors
    /// [`PlanError::NoReplica`] if no replica of a block lives; [`PlanError::NotEnoughNodes`].
    pub fn seal(&self, racks: &Racks, draw: &mut Draw) -> Result<Sealed, PlanError> {
        let (rules, state) = (self.rules(), self.state());
        let replicas: Vec<Vec<(NodeId, RackId)>> =
            state.replicas.iter().map(|nodes| living(racks, nodes)).collect();
        if let Some(block) = replicas.iter().position(Vec::is_empty) {
            return Err(PlanError::NoReplica { block });
        }
        if rules.keeps_no_replica() {
            return seal_virtual::seal(self, &replicas, racks, draw);
        }
        let globals = match state.globals.is_empty() {
            true => least_used(rules, &state.targets, &replicas, draw),
            false => state.globals.clone(),
        };
        let layout = Layout::of(self, &replicas, &globals, racks);
        let nodes = layout.nodes(racks, draw).ok_or_else(|| PlanError::NotEnoughNodes {
            code: rules.terms().code.name().to_owned(),
            needed: replicas.len() + rules.terms().code.n() - rules.k(),
            alive: racks.nodes().count(),
        })?;
        let encoder = encoder(state.core, racks, draw).ok_or(PlanError::NoTarget { alive: 0 })?;
        let in_racks = nodes.iter().enumerate().filter_map(|(member, node)| {
            let node = (*node)?;
            Some((member, racks.rack_of(node)?))
        });
        let is_obedient = rules.are_obeyed(in_racks, &state.targets);
        let home = racks.rack_of(encoder);
        let block = |(replicas, stored_at): (&Vec<(NodeId, RackId)>, NodeId)| {
            let is_relocated = replicas.iter().all(|&(node, _)| node != stored_at);
            let near = replicas.iter().find(|&&(_, rack)| Some(rack) == home);
            let far = if is_relocated { replicas[0].0 } else { stored_at };
            SealedBlock { read_from: near.map_or(far, |&(node, _)| node), stored_at, is_relocated }
        };
        let data = replicas.iter().zip(nodes.iter().flatten().copied()).map(block).collect();
        let parities = nodes[rules.k()..].iter().flatten().copied().collect();
        Ok(Sealed { encoder, data, parities, fetches: None, is_obedient })
    }
}

/// What is decided while groups are settled one after another.
struct Layout {
    rooms: Vec<Room>,
    /// By member; `None` for one that the stripe does not have.
    places: Vec<Option<Place>>,
    taken: BTreeSet<NodeId>,
}

impl Layout {
    /// Settles group after group: as it was settled before, or from its replicas that live.
    fn of(
        stripe: &OpenStripe,
        replicas: &[Vec<(NodeId, RackId)>],
        globals: &[RackId],
        racks: &Racks,
    ) -> Layout {
        let (rules, state) = (stripe.rules(), stripe.state());
        let mut layout = Layout {
            rooms: rooms(rules, racks, &state.targets, globals),
            places: vec![None; rules.terms().code.n()],
            taken: BTreeSet::new(),
        };
        for (&member, &rack) in rules.globals().iter().zip(globals) {
            layout.places[member] = Some(Place::Rack(rack));
        }
        for group in 0..rules.groups() {
            let (kept, room) = match state.settled.get(group) {
                Some(settled) => {
                    let lives = |&node: &NodeId| racks.rack_of(node).is_some();
                    let kept = settled.kept.iter().map(|node| node.filter(lives)).collect();
                    (kept, settled.parity.into_iter().collect())
                }
                None => {
                    let mut graph = StripeGraph::new(rules, group, &layout.rooms, layout.taken.clone());
                    for replicas in
                        replicas.iter().take(rules.data_of(group).end).skip(rules.data_of(group).start)
                    {
                        graph.pin(replicas);
                    }
                    (graph.kept(), graph.free_racks())
                }
            };
            layout.settle(rules, group, &kept, room, racks);
        }
        layout
    }

    /// The places of a group, of which these blocks stay and these racks have room: parities get it before blocks that move.
    fn settle(
        &mut self,
        rules: &Rules,
        group: usize,
        kept: &[Option<NodeId>],
        room: Vec<RackId>,
        racks: &Racks,
    ) {
        let mut room = room.into_iter();
        let parities = rules.parities_of(group).iter().map(|&member| (member, None));
        let data = rules.data_of(group).zip(kept.iter().copied());
        for (member, kept) in parities.chain(data) {
            let place = match kept {
                Some(node) => Place::Replica(node),
                None => room.next().map_or(Place::Anywhere, Place::Rack),
            };
            let rack = match place {
                Place::Replica(node) => racks.rack_of(node),
                Place::Rack(rack) => Some(rack),
                Place::Anywhere => None,
            };
            rack.into_iter().for_each(|rack| occupy(&mut self.rooms, rack));
            self.taken.extend(kept);
            self.places[member] = Some(place);
        }
    }

    /// A node for each member that the stripe has; `None` if there are too few.
    fn nodes(mut self, racks: &Racks, draw: &mut Draw) -> Option<Vec<Option<NodeId>>> {
        let mut nodes = vec![None; self.places.len()];
        for (node, place) in nodes.iter_mut().zip(self.places.clone()) {
            *node = match place {
                None => continue,
                Some(Place::Replica(node)) => Some(node),
                Some(Place::Rack(rack)) => {
                    Some(self.vacant_in(rack, racks, draw).or_else(|| self.vacant(racks, draw))?)
                }
                Some(Place::Anywhere) => Some(self.vacant(racks, draw)?),
            };
            self.taken.extend(*node);
        }
        Some(nodes)
    }

    fn vacant_in(&self, rack: RackId, racks: &Racks, draw: &mut Draw) -> Option<NodeId> {
        let vacant = racks.roomy(rack).iter().filter(|node| !self.taken.contains(node));
        draw.pick(&vacant.copied().collect::<Vec<NodeId>>()).copied()
    }

    /// A node of a target rack with room left, else of the rack with the most room.
    fn vacant(&mut self, racks: &Racks, draw: &mut Draw) -> Option<NodeId> {
        let mut order: Vec<(usize, RackId)> =
            self.rooms.iter().map(|room| (room.blocks, room.rack)).collect();
        let others = racks.ids().iter().filter(|rack| order.iter().all(|(_, other)| other != *rack));
        let others: Vec<(usize, RackId)> = others.map(|&rack| (0, rack)).collect();
        order.extend(others);
        order.sort_by_key(|&(room, _)| std::cmp::Reverse(room));
        let (node, rack) =
            order.iter().find_map(|&(_, rack)| Some((self.vacant_in(rack, racks, draw)?, rack)))?;
        occupy(&mut self.rooms, rack);
        Some(node)
    }
}

/// Racks for the global parities of a stripe that reserved none: those with the fewest replicas.
fn least_used(
    rules: &Rules,
    targets: &[RackId],
    replicas: &[Vec<(NodeId, RackId)>],
    draw: &mut Draw,
) -> Vec<RackId> {
    if rules.globals().is_empty() {
        return Vec::new();
    }
    let mut order = targets.to_vec();
    draw.shuffle(&mut order);
    order.sort_by_key(|&rack| replicas.iter().flatten().filter(|&&(_, other)| other == rack).count());
    order.iter().copied().cycle().take(rules.globals().len()).collect()
}

/// A random living node of the core rack; of all if there is none, or nobody lives there.
pub(super) fn encoder(core: Option<RackId>, racks: &Racks, draw: &mut Draw) -> Option<NodeId> {
    let in_core = core.and_then(|core| draw.pick(racks.roomy(core)).copied());
    in_core.or_else(|| racks.nodes().nth(draw.below(racks.nodes().count())))
}
