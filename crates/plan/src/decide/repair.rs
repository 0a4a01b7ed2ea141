//! Plans of repairs: a block of a stripe is rebuilt at a requestor, a replica is copied to it. The requestor drives.

use super::choose::{Choice, choose, stored};
use super::why::{Part, parts};
use super::{
    DecideError, Draft, Network, Planned, Planner, Price, Result, SliceLength, Source, Tokens, World, plain,
    site, symbol_cost,
};
use codes::{Code, CodeError};
use flow::bound::{BlockWrite, FlowHeader};
use flow::{FlowError, Geometry, Helper, Member, RepairRequest, Scheme, Sink, Site};
use model::{BlockId, FlowId, MemberState, NodeId, Placement, Stamp, StripePlacement, Traffic};
use std::collections::{BTreeMap, BTreeSet};

/// How a block is to be repaired.
#[derive(Clone, Debug)]
pub struct RepairSpec {
    /// For stripes; `None`: the best one.
    pub scheme: Option<Scheme>,
    /// How long slices are.
    pub slices: SliceLength,
    /// Whether fingerprints travel with the slices and are checked.
    pub verify: bool,
    /// Who gets the block.
    pub requestor: NodeId,
    /// One of many repairs, for which helpers are scheduled: the most preferred ones help.
    pub scheduled: bool,
    /// Generation of the new copy.
    pub generation: u64,
    /// The change of the catalog that noted the new copy.
    pub birth: Stamp,
    /// The flow's id.
    pub flow: FlowId,
    /// Attempt, from 1.
    pub attempt: u32,
    /// A living copy goes to the requestor if there is one, of a stripe's block too.
    pub moves: bool,
    /// Nodes whose blocks are preferred, in this order.
    pub helpers: Vec<NodeId>,
    /// Somebody wants to read why who helps.
    pub explained: bool,
}

/// A block that is to be made: what it is, and how its copy is to be written, by which requestor among others.
pub type Target<'a> = (&'a Placement, RepairSpec);

/// A plan of a repair.
#[derive(Clone, Debug)]
pub struct RepairPlan {
    /// The flow, and its cost.
    pub planned: Planned,
    /// By which scheme.
    pub scheme: String,
    /// Why this scheme, unless it was asked for.
    pub why: Option<String>,
    /// Of a block of a stripe: what it costs.
    pub price: Option<Price>,
    /// … and why who helps, if it is to be explained.
    pub parts: Vec<Part>,
    /// Whether more nodes could help than do: one of them can be gone around.
    pub has_spares: bool,
}

/// The node that gets the block: `asked`, if it may, else one whose host holds nothing of the stripe (or no replica), in the racks
/// with the fewest of it, the least loaded. If every host holds some, a host counts as free if all that it holds will go.
///
/// # Errors
/// [`DecideError::Conflict`] and [`DecideError::Invalid`] if the node that is asked for may not; [`DecideError::Plan`] if
/// none may; [`DecideError::NoRoom`] if those that may have no room.
pub fn requestor(
    world: &World,
    placement: &Placement,
    asked: Option<NodeId>,
    avoid: &BTreeSet<NodeId>,
    load: impl Fn(NodeId) -> u64,
) -> Result<NodeId> {
    let holders: BTreeSet<NodeId> = match &placement.stripe {
        Some(stripe) => stripe.holders.clone(),
        None => placement.facts.there().map(|l| l.node).collect(),
    };
    let bytes = placement.facts.stored_bytes;
    let kept = keepers(world, placement, holders.iter().copied());
    let at = |nodes: &[NodeId]| world.topology.hosts(nodes.iter().copied());
    let (kept_at, held_at) = (at(&kept), at(&holders.iter().copied().collect::<Vec<_>>()));
    let holds = |node: &NodeId| kept_at.contains(&world.topology.host_of(*node));
    let is_free = |node: &NodeId| !held_at.contains(&world.topology.host_of(*node));
    if let Some(asked) = asked {
        if !world.node(asked)?.is_living {
            return Err(DecideError::Conflict(format!("{asked}, the requestor, is dead")));
        }
        if !world.node(asked)?.has_room(bytes) {
            let text = format!("{asked}, the requestor, has no room for {bytes} bytes");
            return Err(DecideError::Conflict(text));
        }
        if world.node(asked)?.is_leaving {
            return Err(DecideError::Conflict(format!("{asked}, the requestor, is decommissioned")));
        }
        if holds(&asked) {
            return Err(DecideError::Invalid(format!(
                "{asked} cannot be the requestor: it, or another node of its host, holds a block of the same stripe"
            )));
        }
        return Ok(asked);
    }
    let mut usable = world.usable(avoid);
    let others = usable.iter().filter(|node| !holds(node)).count();
    usable.retain(|&node| world.nodes.get(node).is_some_and(|node| node.has_room(bytes)));
    if others > 0 && usable.iter().all(holds) {
        return Err(DecideError::NoRoom { roomy: 0, usable: others, needed: 1, bytes });
    }
    let holders: Vec<NodeId> = if usable.iter().any(is_free) { holders.into_iter().collect() } else { kept };
    Ok(crate::requestor(&world.topology, &usable, &holders, &load)?)
}

/// Returns the holders of a block's stripe, or of its replicas, that keep their copies: all but leaving nodes, and dead nodes with a copy of the
/// block itself. The others take no blocks, but other nodes of their hosts may.
pub(super) fn keepers(
    world: &World,
    placement: &Placement,
    holders: impl Iterator<Item = NodeId>,
) -> Vec<NodeId> {
    let is_own = |node: NodeId| placement.facts.on(node).is_some();
    let keeps = |node: &NodeId| {
        let facts = world.nodes.get(*node);
        facts.is_none_or(|facts| !facts.is_leaving && (facts.is_living || !is_own(*node)))
    };
    holders.filter(keeps).collect()
}

/// A node for each lost block of a stripe, no two alike. The one that is asked for decodes and drives; the others are chosen.
///
/// # Errors
/// As [`requestor`].
pub fn requestors<'a>(
    world: &World,
    lost: impl Iterator<Item = &'a Placement>,
    asked: Option<NodeId>,
    avoid: &BTreeSet<NodeId>,
    load: impl Fn(NodeId) -> u64,
) -> Result<Vec<NodeId>> {
    let mut taken: Vec<NodeId> = Vec::new();
    for placement in lost {
        if taken.is_empty() {
            taken.push(requestor(world, placement, asked, avoid, &load)?);
            continue;
        }
        let mut known = placement.clone();
        if let Some(stripe) = &mut known.stripe {
            stripe.holders.extend(&taken);
        }
        taken.push(requestor(world, &known, None, avoid, &load)?);
    }
    Ok(taken)
}

impl Planner {
    /// The flow that makes the block at the requestor. The block's own copies are not used for a stripe member, so that a
    /// repair can be measured while nothing is lost.
    ///
    /// # Errors
    /// [`DecideError::Unrecoverable`], [`DecideError::BlockTooLong`]; others if the stripe makes no sense.
    pub fn repair(
        &self,
        world: &World,
        target: &Target<'_>,
        avoid: &BTreeSet<NodeId>,
        tokens: Tokens<'_>,
    ) -> Result<RepairPlan> {
        let (placement, spec) = target;
        match &placement.stripe {
            Some(stripe) if !(spec.moves && self.is_movable(world, placement, stripe, avoid)?) => {
                self.rebuild(world, target, stripe, avoid, tokens)
            }
            _ => self.copy(world, target, avoid, tokens),
        }
    }

    fn rebuild(
        &self,
        world: &World,
        target: &Target<'_>,
        stripe: &StripePlacement,
        avoid: &BTreeSet<NodeId>,
        tokens: Tokens<'_>,
    ) -> Result<RepairPlan> {
        let (placement, spec) = target;
        let made = [(Member(stripe.index), site(spec.requestor))];
        let rest = self.rest(world, stripe, &made, spec.slices.of_one_lane, (avoid, &spec.helpers))?;
        let request = rest.request(&[made[0].0], made[0].1, Sink::Write);
        let network = Network::of(world).scheduled(spec.scheduled);
        let choice = choose(spec.scheme, spec.slices, &request, None, network)
            .map_err(|error| rest.unrecoverable(error, placement.block))?;
        let is_cut_off = || network.is_cut_off(choice.scheme, &request, &[request.requestor]);
        let cut_off = spec.explained && is_cut_off();
        rest.plan(network, choice, std::slice::from_ref(target), &made, cut_off, tokens)
    }

    /// Whether a block of a stripe can be copied as it is: a copy lives, and it has one symbol (the sidecar of a block
    /// with more records fingerprints of each, which a flow of plain bytes does not tell apart).
    fn is_movable(
        &self,
        world: &World,
        placement: &Placement,
        stripe: &StripePlacement,
        avoid: &BTreeSet<NodeId>,
    ) -> Result<bool> {
        let plain = self.codes.get(&stripe.code)?.alpha() == 1;
        Ok(plain && world.living_copy(&placement.facts, avoid, &[]).is_some())
    }

    /// One edge, from a living replica.
    ///
    /// # Errors
    /// [`DecideError::Unrecoverable`] if no replica lives.
    pub fn copy(
        &self,
        world: &World,
        target: &Target<'_>,
        avoid: &BTreeSet<NodeId>,
        tokens: Tokens<'_>,
    ) -> Result<RepairPlan> {
        let (placement, spec) = target;
        let facts = &placement.facts;
        let none = DecideError::Unrecoverable { block: placement.block, survivors: 0, needed: 1 };
        let location = world.living_copy(facts, avoid, &spec.helpers).ok_or(none)?;
        let code = self.codes.get("rep-1")?;
        let geometry = plain(facts.stored_bytes, spec.slices.of_one_lane);
        let member = Member(0);
        let wanted = RepairRequest::whole_blocks(&code, &[member]);
        let (from, to) = (site(location.node), site(spec.requestor));
        let flow = flow::copy::copy(&code, geometry, &wanted, from, to, Sink::Write)?;
        let header = spec.header(&code, geometry);
        let sources = [Source { member, block: placement.block, facts, location }];
        let note = placement.stripe.as_ref().map(|stripe| {
            stripe.note(stripe.index, |index| (index == stripe.index).then_some(spec.generation))
        });
        let writes = BTreeMap::from([(member, spec.write(placement, member, note.unwrap_or_default()))]);
        let draft = Draft { world, flow, header, sources: &sources, writes, scheme: "copy", slices: None };
        let (scheme, parts) = ("copy".to_owned(), Vec::new());
        let planned = draft.finish(tokens)?;
        Ok(RepairPlan { planned, scheme, why: None, price: None, parts, has_spares: false })
    }

    /// What is left of a stripe when the members to be made are not used, with slices of that length: as
    /// [`survivors`] has it.
    pub(super) fn rest<'a>(
        &self,
        world: &'a World,
        stripe: &'a StripePlacement,
        made: &[(Member, Site)],
        slice_bytes: u32,
        (avoid, first): (&BTreeSet<NodeId>, &[NodeId]),
    ) -> Result<Rest<'a>> {
        let code = self.codes.get(&stripe.code)?;
        let geometry = Geometry { block_bytes: stripe.block_bytes, alpha: code.alpha() as u16, slice_bytes };
        let is_made = |index: Member| made.iter().any(|&(member, _)| member == index);
        let (sources, Zero { absent, empty }) = survivors(world, stripe, is_made, avoid, first);
        let helpers = symbol_cost::helpers(world, &sources);
        Ok(Rest { world, stripe, code, geometry, sources, helpers, absent, empty })
    }
}

/// What is left of a stripe, from which others of its blocks are decoded.
pub(super) struct Rest<'a> {
    pub world: &'a World,
    pub stripe: &'a StripePlacement,
    pub code: Code,
    pub geometry: Geometry,
    /// Copies that can be read, as they are preferred.
    pub sources: Vec<Source<'a>>,
    /// The same, as flows know them.
    pub helpers: Vec<Helper>,
    /// Members that a short stripe does not have.
    pub absent: Vec<Member>,
    /// Lost members of which nothing was stored.
    pub empty: Vec<Member>,
}

impl Rest<'_> {
    /// For whole blocks at one requestor.
    pub fn request(&self, members: &[Member], requestor: Site, sink: Sink) -> RepairRequest<'_> {
        RepairRequest {
            code: &self.code,
            geometry: self.geometry,
            wanted: RepairRequest::whole_blocks(&self.code, members),
            helpers: &self.helpers,
            absent: &self.absent,
            empty: &self.empty,
            requestor,
            sink,
        }
    }

    /// A stripe that cannot be decoded is a matter of nodes, not of the flow.
    pub fn unrecoverable(&self, error: DecideError, block: BlockId) -> DecideError {
        match error {
            DecideError::Flow(FlowError::Code(CodeError::NotRecoverable { .. })) => {
                // Fewer may do, if they are the right ones.
                let needed = self.code.stored() - self.code.tolerance();
                DecideError::Unrecoverable {
                    block,
                    survivors: self.helpers.len() + self.absent.len() + self.empty.len(),
                    needed,
                }
            }
            other => other,
        }
    }

    /// The plan by which the flow that was chosen makes all `targets`, members at sites as `made` has them. The first one
    /// says as which flow. `cut_off`: the search for a path was.
    pub fn plan(
        &self,
        network: Network<'_>,
        choice: Choice,
        targets: &[Target<'_>],
        made: &[(Member, Site)],
        cut_off: bool,
        tokens: Tokens<'_>,
    ) -> Result<RepairPlan> {
        let Rest { world, stripe, code, sources, helpers, .. } = self;
        let Choice { scheme, flow, why } = choice;
        let none = || DecideError::Bug("a repair of no blocks of a stripe".to_owned());
        let (_, spec) = targets.first().ok_or_else(none)?;
        let parts = match targets.iter().any(|(_, spec)| spec.explained) {
            true => {
                let members: Vec<Member> = made.iter().map(|&(member, _)| member).collect();
                parts(world, stripe, sources, &members, (&flow, scheme), (code, cut_off))
            }
            false => Vec::new(),
        };
        let remade = |index: u16| {
            let target = made.iter().zip(targets).find(|((member, _), _)| member.0 == index);
            target.map(|(_, (_, spec))| spec.generation)
        };
        let write = |(&(member, _), (placement, spec)): (&(Member, Site), &Target<'_>)| {
            (member, spec.write(placement, member, stripe.note(member.0, remade)))
        };
        let writes = made.iter().zip(targets).map(write).collect();
        let header = FlowHeader { serial: scheme.serial(), ..spec.header(code, flow.geometry) };
        let mut planned = Draft { world, flow, header, sources, writes, scheme: scheme.name(), slices: None }
            .finish(tokens)?;
        network.set_rate(&mut planned);
        let price = Some(network.price_of(&planned.plan.flow, &planned.cost, stored(helpers)));
        let has_spares = planned.plan.flow.sites().len() - made.len() < helpers.len();
        Ok(RepairPlan { planned, scheme: scheme.name().to_owned(), why, price, parts, has_spares })
    }
}

impl RepairSpec {
    fn header(&self, code: &Code, geometry: Geometry) -> FlowHeader {
        let header = FlowHeader::new(self.flow, code.field(), geometry);
        let traffic = Traffic::Healing;
        FlowHeader { attempt: self.attempt, verify: self.verify, keep: true, traffic, ..header }
    }

    fn write(&self, placement: &Placement, member: Member, note: Vec<u8>) -> BlockWrite {
        BlockWrite {
            member,
            block: placement.block,
            generation: self.generation,
            stored_bytes: placement.facts.stored_bytes,
            sums: placement.facts.sums,
            part: placement.facts.part.clone(),
            note,
            birth: self.birth,
        }
    }
}

/// Members that are all zero, and that no node need have.
#[derive(Default)]
pub(super) struct Zero {
    /// Those that a short stripe does not have.
    pub absent: Vec<Member>,
    /// Lost ones of which nothing was stored.
    pub empty: Vec<Member>,
}

/// Readable members of a stripe (virtual ones if they have a copy left) but for those to be made: those on the nodes `first` in that order, then the least recently
/// selected (RP §3.3), and those on nodes of last resort last; and the members that are all zero.
pub(super) fn survivors<'a>(
    world: &World,
    stripe: &'a StripePlacement,
    is_made: impl Fn(Member) -> bool,
    avoid: &BTreeSet<NodeId>,
    first: &[NodeId],
) -> (Vec<Source<'a>>, Zero) {
    let mut sources = Vec::new();
    let mut zero = Zero::default();
    for (index, member) in (0..).zip(&stripe.members) {
        match member {
            MemberState::Zero => zero.absent.push(Member(index)),
            _ if is_made(Member(index)) => {}
            MemberState::Stored((block, facts)) | MemberState::Virtual((block, facts)) => {
                let copy = world.living_copy(facts, avoid, &[]);
                let source = |location| Source { member: Member(index), block: *block, facts, location };
                match copy {
                    Some(location) => sources.push(source(location)),
                    None if member.stored().is_some() && facts.stored_bytes == 0 => {
                        zero.empty.push(Member(index));
                    }
                    None => {}
                }
            }
        }
    }
    let nodes: Vec<NodeId> = sources.iter().map(|s| s.location.node).collect();
    let order = world.recent.preference(&nodes);
    let mut preferred: Vec<Source<'_>> = order.into_iter().map(|i| sources[i]).collect();
    preferred.sort_by_cached_key(|source| {
        let node = source.location.node;
        let place = first.iter().position(|&named| named == node).unwrap_or(usize::MAX);
        (place, world.last_resort.contains(&node))
    });
    (preferred, zero)
}
