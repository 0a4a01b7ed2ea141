//! Plans of repairs: a block of a stripe is rebuilt at a requestor, a replica is copied to it. The requestor drives.

use super::choose::{Choice, choose};
use super::price::Price;
use super::read::unrecoverable;
use super::why::{Part, parts};
use super::{Draft, Planned, Planner, SliceLength, Source, living_copy, plain, site};
use crate::error::{CoordinatorError, Result};
use crate::health::View;
use flow::bound::{BlockWrite, FlowHeader};
use flow::{Geometry, Member, RepairRequest, Scheme, Sink};
use gf::Field;
use model::{FlowId, NodeId, Placement, StripePlacement};
use std::collections::{BTreeMap, BTreeSet};

/// How a block is to be repaired.
#[derive(Clone, Debug)]
pub(crate) struct RepairSpec {
    /// For stripes; `None`: the coordinator chooses.
    pub scheme: Option<Scheme>,
    pub slices: SliceLength,
    pub verify: bool,
    /// Who gets the block.
    pub requestor: NodeId,
    /// One of many repairs, for which helpers are scheduled: the most preferred ones help.
    pub scheduled: bool,
    /// Generation of the new copy.
    pub generation: u64,
    pub flow: FlowId,
    pub attempt: u32,
    /// A living copy goes to the requestor if there is one, of a stripe's block too.
    pub moves: bool,
    /// Nodes whose blocks are preferred, in this order.
    pub helpers: Vec<NodeId>,
    /// Somebody wants to read why who helps.
    pub explained: bool,
}

/// A plan of a repair.
#[derive(Clone, Debug)]
pub(crate) struct RepairPlan {
    pub planned: Planned,
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

impl Planner {
    /// The node that gets the block: `asked`, if it may, else one that holds nothing of the stripe (or no replica), in
    /// the racks with the fewest of it, the least loaded.
    pub fn requestor(
        &self,
        view: &View,
        placement: &Placement,
        asked: Option<NodeId>,
        avoid: &BTreeSet<NodeId>,
        load: impl Fn(NodeId) -> u64,
    ) -> Result<NodeId> {
        let holders: BTreeSet<NodeId> = match &placement.stripe {
            Some(stripe) => stripe.holders.clone(),
            None => placement.facts.locations.iter().map(|l| l.node).collect(),
        };
        if let Some(asked) = asked {
            if !view.node(asked)?.is_living {
                return Err(CoordinatorError::Conflict(format!("{asked}, the requestor, is dead")));
            }
            if view.node(asked)?.is_leaving {
                return Err(CoordinatorError::Conflict(format!("{asked}, the requestor, is decommissioned")));
            }
            if holders.contains(&asked) {
                return Err(CoordinatorError::Invalid(format!(
                    "{asked} cannot be the requestor: it holds a block of the same stripe"
                )));
            }
            return Ok(asked);
        }
        let holders: Vec<NodeId> = holders.into_iter().collect();
        let chosen = plan::requestor(&view.topology, &view.usable(avoid), &holders, &load)?;
        Ok(chosen)
    }

    /// The flow that makes the block at the requestor. The block's own copies are not used for a stripe member, so that a
    /// repair can be measured while nothing is lost.
    pub fn repair(
        &self,
        view: &View,
        placement: &Placement,
        spec: &RepairSpec,
        avoid: &BTreeSet<NodeId>,
    ) -> Result<RepairPlan> {
        match &placement.stripe {
            Some(stripe) if spec.moves && self.is_movable(view, placement, stripe, avoid)? => {
                self.copy(view, placement, spec, avoid)
            }
            Some(stripe) => self.rebuild(view, placement, stripe, spec, avoid),
            None => self.copy(view, placement, spec, avoid),
        }
    }

    fn rebuild(
        &self,
        view: &View,
        placement: &Placement,
        stripe: &StripePlacement,
        spec: &RepairSpec,
        avoid: &BTreeSet<NodeId>,
    ) -> Result<RepairPlan> {
        let code = self.codes.get(&stripe.code)?;
        let geometry = Geometry {
            block_bytes: stripe.block_bytes,
            alpha: code.alpha() as u16,
            slice_bytes: spec.slices.of_one_lane,
        };
        let member = Member(stripe.index);
        let (sources, absent) = survivors(self, view, stripe, avoid, &spec.helpers);
        let helpers: Vec<_> = sources.iter().map(Source::helper).collect();
        let request = RepairRequest {
            code: &code,
            geometry,
            wanted: RepairRequest::whole_blocks(&code, &[member]),
            helpers: &helpers,
            absent: &absent,
            requestor: site(spec.requestor),
            sink: Sink::Write,
        };
        let network = self.network(view).scheduled(spec.scheduled);
        let Choice { scheme, flow, why } = choose(spec.scheme, spec.slices, &request, None, &network)
            .map_err(|e| unrecoverable(e, placement, helpers.len() + absent.len(), &code))?;
        let stored = |m: Member| helpers.iter().find(|h| h.member == m).map_or(0, |h| h.stored_bytes);
        let parts = match spec.explained {
            true => {
                let cut_off = network.is_cut_off(scheme, &request, &[request.requestor]);
                parts(view, stripe, &sources, &[member], (&flow, scheme), (code.is_mds(), cut_off))
            }
            false => Vec::new(),
        };
        let header = spec.header(code.field(), flow.geometry);
        let header = FlowHeader { serial: scheme.serial(), ..header };
        let writes = BTreeMap::from([(member, spec.write(placement, member, spec.own_info(placement)))]);
        let mut planned =
            Draft { view, flow, header, sources: &sources, writes, scheme: scheme.name(), slices: None }
                .finish()?;
        network.set_rate(&mut planned);
        let price = Some(network.price_of(&planned.plan.flow, &planned.cost, stored));
        let has_spares = planned.plan.flow.sites().len() <= helpers.len();
        Ok(RepairPlan { planned, scheme: scheme.name().to_owned(), why, price, parts, has_spares })
    }

    /// Whether a block of a stripe can be copied as it is: a copy lives, and it has one symbol (the sidecar of a block
    /// with more records fingerprints of each, which a flow of plain bytes does not tell apart).
    fn is_movable(
        &self,
        view: &View,
        placement: &Placement,
        stripe: &StripePlacement,
        avoid: &BTreeSet<NodeId>,
    ) -> Result<bool> {
        let plain = self.codes.get(&stripe.code)?.alpha() == 1;
        Ok(plain && living_copy(view, &placement.facts, avoid).is_some())
    }

    /// One edge, from a living replica.
    pub fn copy(
        &self,
        view: &View,
        placement: &Placement,
        spec: &RepairSpec,
        avoid: &BTreeSet<NodeId>,
    ) -> Result<RepairPlan> {
        let row = &placement.facts;
        let location = living_copy(view, row, avoid).ok_or(CoordinatorError::Unrecoverable {
            block: placement.block,
            survivors: 0,
            needed: 1,
        })?;
        let code = self.codes.get("rep-1")?;
        let geometry = plain(row.stored_bytes, spec.slices.of_one_lane);
        let member = Member(0);
        let wanted = RepairRequest::whole_blocks(&code, &[member]);
        let (from, to) = (site(location.node), site(spec.requestor));
        let flow = flow::copy::copy(&code, geometry, &wanted, from, to, Sink::Write)?;
        let header = spec.header(code.field(), geometry);
        let sources = [Source { member, block: placement.block, facts: row, location }];
        let writes = BTreeMap::from([(member, spec.write(placement, member, spec.own_info(placement)))]);
        let planned =
            Draft { view, flow, header, sources: &sources, writes, scheme: "copy", slices: None }.finish()?;
        Ok(RepairPlan {
            planned,
            scheme: "copy".to_owned(),
            why: None,
            price: None,
            parts: Vec::new(),
            has_spares: false,
        })
    }
}

impl RepairSpec {
    pub(super) fn header(&self, field: Field, geometry: Geometry) -> FlowHeader {
        let header = FlowHeader::new(self.flow, field, geometry);
        FlowHeader { attempt: self.attempt, verify: self.verify, keep: true, ..header }
    }

    /// What the new copy's sidecar says of its stripe; nothing if it is in none.
    fn own_info(&self, placement: &Placement) -> Vec<u8> {
        let info = |stripe: &StripePlacement| {
            stripe.note(stripe.index, |member| (member == stripe.index).then_some(self.generation))
        };
        placement.stripe.as_ref().map(info).unwrap_or_default()
    }

    pub(super) fn write(&self, placement: &Placement, member: Member, note: Vec<u8>) -> BlockWrite {
        BlockWrite {
            member,
            block: placement.block,
            generation: self.generation,
            stored_bytes: placement.facts.stored_bytes,
            sums: placement.facts.sums,
            part: placement.facts.part.clone(),
            note,
        }
    }
}

/// Readable members of a stripe other than the one in question: those on the nodes `first` in that order, then the least
/// recently selected (RP §3.3), and those on nodes of last resort last; and the members that are all zero.
pub(super) fn survivors<'a>(
    planner: &Planner,
    view: &View,
    stripe: &'a StripePlacement,
    avoid: &BTreeSet<NodeId>,
    first: &[NodeId],
) -> (Vec<Source<'a>>, Vec<Member>) {
    let mut sources = Vec::new();
    let mut absent = Vec::new();
    for (index, member) in (0..).zip(&stripe.members) {
        match member {
            None => absent.push(Member(index)),
            Some(_) if index == stripe.index => {}
            Some((block, row)) => {
                let copy = living_copy(view, row, avoid);
                sources.extend(copy.map(|location| Source {
                    member: Member(index),
                    block: *block,
                    facts: row,
                    location,
                }));
            }
        }
    }
    let nodes: Vec<NodeId> = sources.iter().map(|s| s.location.node).collect();
    let order = planner.recent().preference(&nodes);
    let mut preferred: Vec<Source<'_>> = order.into_iter().map(|i| sources[i]).collect();
    preferred.sort_by_cached_key(|source| {
        let node = source.location.node;
        let place = first.iter().position(|&named| named == node).unwrap_or(usize::MAX);
        (place, view.last_resort.contains(&node))
    });
    (preferred, absent)
}
