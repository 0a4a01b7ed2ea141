//! Plans of reads: from a living copy, or decoded from the rest of the stripe, several symbols at once (`rows`).

use super::choose::{Choice, choose};
use super::repair::survivors;
use super::rows::Wanted;
use super::{CLIENT, Draft, Planned, Planner, SliceLength, Source, plain, site, slice_run};
use crate::config::WATCHED_READ_BYTES;
use crate::error::{CoordinatorError, Result};
use crate::health::View;
use codes::Code;
use flow::bound::FlowHeader;
use flow::{Geometry, Member, RepairRequest, Scheme, Sink, Symbol};
use model::{FlowId, NodeId, Peer, Placement};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use wire::proto;

/// Bytes of a block that a client wants.
#[derive(Clone, Debug)]
pub(crate) struct ReadRequest<'a> {
    pub offset: u64,
    pub length: u64,
    /// What came out of order already.
    pub held: &'a [proto::ByteRange],
    /// How much may come out of order, that included.
    pub room_bytes: u64,
    /// For a degraded read; `None`: the coordinator chooses.
    pub scheme: Option<Scheme>,
    pub avoid: &'a BTreeSet<NodeId>,
    pub slices: SliceLength,
}

impl Planner {
    /// A plan for a prefix of the wanted bytes: all of them, or up to the end of a symbol; and of a degraded read for those
    /// rows of other symbols for which the reader has room.
    pub fn read(
        &self,
        view: &View,
        placement: &Placement,
        request: &ReadRequest<'_>,
    ) -> Result<proto::PlanReply> {
        let stored = placement.facts.stored_bytes;
        let ends = request.offset.checked_add(request.length);
        if ends.is_none_or(|end| end > stored) {
            return Err(CoordinatorError::Invalid(format!(
                "block {} has {stored} bytes; bytes {} to {} do not exist",
                placement.block,
                request.offset,
                request.offset.saturating_add(request.length)
            )));
        }
        let range = request.offset..request.offset + request.length;
        let wanted = Wanted::new(range, request.held, request.room_bytes)?;
        let Some(first) = wanted.first() else {
            let note = "nothing to read".to_owned();
            return Ok(proto::PlanReply { note, offset: request.offset, ..Default::default() });
        };
        match self.healthy(view, placement, first, request)? {
            Some(reply) => Ok(reply),
            None => self.degraded(view, placement, &wanted, request),
        }
    }

    /// `bytes`, from the least loaded living copy.
    fn healthy(
        &self,
        view: &View,
        placement: &Placement,
        bytes: Range<u64>,
        request: &ReadRequest<'_>,
    ) -> Result<Option<proto::PlanReply>> {
        let (row, length) = (&placement.facts, bytes.end - bytes.start);
        let load = |node: NodeId| {
            let node = view.node(node).ok().filter(|n| n.is_living);
            node.map(|n| (n.is_last_resort(), n.status.running_stages))
        };
        let usable: Vec<_> = row.locations.iter().filter(|l| !request.avoid.contains(&l.node)).collect();
        let ids: Vec<_> = usable.iter().map(|l| l.node).collect();
        let by_age = self.recent().preference(&ids).into_iter().map(|i| *usable[i]);
        // `min_by_key` keeps the first of equals: the least recently used.
        let living = by_age.filter_map(|l| load(l.node).map(|load| (load, l)));
        let Some((_, location)) = living.min_by_key(|(load, _)| *load) else { return Ok(None) };
        let code = self.codes.get("rep-1")?;
        let geometry = plain(row.stored_bytes, request.slices.of_one_lane);
        let member = Member(0);
        let wanted = [Symbol { member, index: 0 }];
        let flow = flow::copy::copy(&code, geometry, &wanted, site(location.node), CLIENT, Sink::Read)?;
        self.mark(&flow, Peer::Client);
        let others = usable.len() > 1 || placement.stripe.is_some();
        let planned = Draft {
            view,
            flow,
            header: FlowHeader::new(FlowId(rand::random()), code.field(), geometry),
            sources: &[Source { member, block: placement.block, facts: row, location }],
            writes: BTreeMap::new(),
            scheme: "read",
            slices: Some(slice_run(bytes.start, length, request.slices.of_one_lane)),
        }
        .finish()?;
        let note = format!("from {}", location.node);
        let price =
            self.price_of_read(view, &planned, others, length, |_| row.stored_bytes, row.stored_bytes);
        Ok(Some(proto::PlanReply { price, ..reply(planned, note, bytes.start, length) }))
    }

    /// Decoded from the rest of the stripe by some scheme.
    fn degraded(
        &self,
        view: &View,
        placement: &Placement,
        wanted: &Wanted,
        request: &ReadRequest<'_>,
    ) -> Result<proto::PlanReply> {
        let Some(stripe) = &placement.stripe else {
            return Err(CoordinatorError::Unrecoverable { block: placement.block, survivors: 0, needed: 1 });
        };
        let code = self.codes.get(&stripe.code)?;
        let geometry = Geometry {
            block_bytes: stripe.block_bytes,
            alpha: code.alpha() as u16,
            slice_bytes: request.slices.of_one_lane,
        };
        let whole = request.scheme.is_some_and(Scheme::whole_block);
        let slice_bytes = if whole { geometry.whole_slice() } else { u64::from(geometry.slice_bytes) };
        let rows = wanted.rows(geometry.symbol_bytes().max(1), slice_bytes);
        let (Some(rows), Some(first)) = (rows, wanted.first()) else {
            return Err(CoordinatorError::Bug("a read of nothing".to_owned()));
        };
        let member = Member(stripe.index);
        let (sources, absent) = survivors(self, view, stripe, request.avoid, &[]);
        let helpers: Vec<_> = sources.iter().map(Source::helper).collect();
        let repair = RepairRequest {
            code: &code,
            geometry,
            wanted: rows.symbols.iter().map(|&index| Symbol { member, index }).collect(),
            helpers: &helpers,
            absent: &absent,
            requestor: CLIENT,
            sink: Sink::Read,
        };
        let network = self.network(view);
        let Choice { scheme, flow, why } =
            choose(request.scheme, request.slices, &repair, Some(&rows), &network)
                .map_err(|e| unrecoverable(e, placement, helpers.len() + absent.len(), &code))?;
        self.mark(&flow, Peer::Client);
        let asked = flow.sites().len() - 1;
        let slices = rows.slices(flow.geometry.slice_bytes);
        let mut planned = Draft {
            view,
            header: FlowHeader {
                serial: scheme.serial(),
                ..FlowHeader::new(FlowId(rand::random()), code.field(), flow.geometry)
            },
            flow,
            sources: &sources,
            writes: BTreeMap::new(),
            scheme: scheme.name(),
            slices: Some(slices),
        }
        .finish()?;
        network.set_rate(&mut planned);
        let why = why.map_or(String::new(), |why| format!(", {why}"));
        let note = format!("no living copy: decoded from {asked} helpers by {scheme}{why}");
        let stored = |m: Member| helpers.iter().find(|h| h.member == m).map_or(0, |h| h.stored_bytes);
        let others = asked < helpers.len();
        let price = self.price_of_read(view, &planned, others, rows.in_order, stored, geometry.block_bytes);
        let reply = reply(planned, note, first.start, rows.in_order);
        Ok(proto::PlanReply { degraded: true, price, ..reply })
    }

    /// What a read should cost, where that is worth knowing.
    fn price_of_read(
        &self,
        view: &View,
        planned: &Planned,
        others_could_help: bool,
        bytes: u64,
        stored: impl Fn(Member) -> u64,
        block_bytes: u64,
    ) -> Option<proto::Price> {
        let is_watched = others_could_help && bytes >= WATCHED_READ_BYTES;
        let price =
            is_watched.then(|| self.network(view).price_of(&planned.plan.flow, &planned.cost, stored))?;
        Some(proto::Price { slot_bytes: price.timeslots * block_bytes as f64, seconds: price.seconds })
    }
}

/// A stripe that cannot be decoded is a matter of nodes, not of the flow.
pub(super) fn unrecoverable(
    error: CoordinatorError,
    placement: &Placement,
    survivors: usize,
    code: &Code,
) -> CoordinatorError {
    // Fewer may do, if they are the right ones.
    let needed = code.n() - code.tolerance();
    match error {
        CoordinatorError::Plan(flow::FlowError::Code(codes::CodeError::NotRecoverable { .. })) => {
            CoordinatorError::Unrecoverable { block: placement.block, survivors, needed }
        }
        other => other,
    }
}

fn reply(planned: Planned, note: String, offset: u64, length: u64) -> proto::PlanReply {
    proto::PlanReply {
        plan: Some(wire::codec::plan::encode(&planned.plan)),
        note,
        offset,
        length,
        ..Default::default()
    }
}
