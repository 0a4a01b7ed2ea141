//! Plans of reads: from a living copy, or decoded from the rest of the stripe, several symbols at once (`wanted`).

use super::choose::{Choice, choose, stored};
use super::repair::Rest;
use super::wanted::{Symbols, Wanted};
use super::{
    CLIENT, DecideError, Draft, Network, Planned, Planner, Price, Result, SliceLength, Source, Tokens, World,
    plain, site, slice_run,
};
use flow::bound::FlowHeader;
use flow::{Geometry, Member, RepairRequest, Scheme, Sink, Symbol};
use model::{BlockId, FlowId, NodeId, Placement, StripePlacement, Traffic};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Reads of at least this many bytes are told what they should cost, so that clients go around nodes that are slow. Setting up
/// a shorter one is most of its time: clients hedge it ([`Hedging`](super::Hedging)).
pub const WATCHED_READ_BYTES: u64 = 1 << 20;

/// Bytes of a block that a client wants.
#[derive(Clone, Debug)]
pub struct ReadRequest<'a> {
    /// The flow's id.
    pub flow: FlowId,
    /// The first byte.
    pub offset: u64,
    /// How many.
    pub length: u64,
    /// What came out of order already.
    pub held: &'a [Range<u64>],
    /// How many bytes may come out of order, those included.
    pub room_bytes: u64,
    /// For a degraded read; `None`: the best one.
    pub scheme: Option<Scheme>,
    /// Nodes not to read from.
    pub avoid: &'a BTreeSet<NodeId>,
    /// How long slices are.
    pub slices: SliceLength,
    /// Whose budget it is charged to.
    pub traffic: Traffic,
}

/// A plan of a read.
#[derive(Clone, Debug, Default)]
pub struct ReadPlan {
    /// The flow, which the client drives; `None` if there is nothing to read.
    pub planned: Option<Planned>,
    /// Where the bytes come from, for people.
    pub note: String,
    /// The first byte that it brings in order …
    pub offset: u64,
    /// … and how many.
    pub length: u64,
    /// Whether they are decoded.
    pub degraded: bool,
    /// What the read should cost, where that is worth knowing.
    pub price: Option<Price>,
}

impl Planner {
    /// A plan for a prefix of the wanted bytes: all of them, or up to the end of a symbol; and of a degraded read for those
    /// of other symbols for which the reader has room.
    ///
    /// # Errors
    /// [`DecideError::Invalid`] for bytes that do not exist, [`DecideError::Unrecoverable`], [`DecideError::BlockTooLong`].
    pub fn read(
        &self,
        world: &World,
        placement: &Placement,
        request: &ReadRequest<'_>,
        tokens: Tokens<'_>,
    ) -> Result<ReadPlan> {
        let stored = placement.facts.stored_bytes;
        let ends = request.offset.checked_add(request.length);
        if ends.is_none_or(|end| end > stored) {
            return Err(DecideError::Invalid(format!(
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
            return Ok(ReadPlan { note, offset: request.offset, ..ReadPlan::default() });
        };
        match least_loaded(world, placement, request.avoid) {
            Some(source) => self.healthy(world, placement, source, first, request, tokens),
            None => self.degraded(world, placement, &wanted, request, tokens),
        }
    }

    /// The same for virtual blocks of one stripe, which are decoded together: k streams give all of them, where each alone takes
    /// up to k. Bytes are counted block after block, and each takes up the room of its α symbols.
    ///
    /// # Errors
    /// As [`read`](Self::read); [`DecideError::Invalid`] for blocks that are not virtual, of several stripes, or named twice.
    pub fn read_together(
        &self,
        world: &World,
        placements: &[Placement],
        request: &ReadRequest<'_>,
        tokens: Tokens<'_>,
    ) -> Result<ReadPlan> {
        let invalid = |what: &str| DecideError::Invalid(format!("blocks to be read together: {what}"));
        let first = placements.first().ok_or_else(|| invalid("there are none"))?;
        let stripe = first.stripe.as_ref().ok_or_else(|| invalid("the first is in no stripe"))?;
        let mut members = Vec::new();
        for placement in placements {
            let of =
                placement.stripe.as_ref().filter(|of| of.id == stripe.id && placement.facts.is_virtual());
            let member = Member(of.ok_or_else(|| invalid("not all are virtual ones of one stripe"))?.index);
            match members.contains(&member) {
                true => return Err(invalid("one is named twice")),
                false => members.push(member),
            }
        }
        let each = self.room_together(stripe)?;
        let end = request.offset.checked_add(request.length);
        if end.is_none_or(|end| end > each.saturating_mul(members.len() as u64)) {
            return Err(invalid("bytes beyond the last one"));
        }
        let range = request.offset..request.offset + request.length;
        let wanted = Wanted::new(range, request.held, request.room_bytes)?;
        if wanted.first().is_none() {
            let note = "nothing to read".to_owned();
            return Ok(ReadPlan { note, offset: request.offset, ..ReadPlan::default() });
        }
        self.decoded(world, (first, stripe, &members), &wanted, request, tokens)
    }

    /// What each block of a stripe takes up in a read of several together: all of its symbols, in bytes.
    ///
    /// # Errors
    /// [`DecideError::Code`] for a code that is not known.
    pub fn room_together(&self, stripe: &StripePlacement) -> Result<u64> {
        let alpha = self.codes.get(&stripe.code)?.alpha() as u16;
        let geometry = Geometry { block_bytes: stripe.block_bytes, alpha, slice_bytes: 1 };
        Ok(geometry.symbol_bytes() * u64::from(alpha))
    }

    /// `bytes`, from a living copy.
    fn healthy(
        &self,
        world: &World,
        placement: &Placement,
        source: Source<'_>,
        bytes: Range<u64>,
        request: &ReadRequest<'_>,
        tokens: Tokens<'_>,
    ) -> Result<ReadPlan> {
        let (node, length) = (source.location.node, bytes.end - bytes.start);
        let code = self.codes.get("rep-1")?;
        let stored_bytes = source.facts.stored_bytes;
        let geometry = plain(stored_bytes, request.slices.of_one_lane);
        let wanted = [Symbol { member: source.member, index: 0 }];
        let flow = flow::copy::copy(&code, geometry, &wanted, site(node), CLIENT, Sink::Read)?;
        let planned = Draft {
            world,
            flow,
            header: FlowHeader::new(request.flow, code.field(), geometry),
            sources: &[source],
            writes: BTreeMap::new(),
            scheme: "read",
            slices: Some(slice_run(bytes.start, length, request.slices.of_one_lane)),
        }
        .finish(tokens)?;
        let usable = source.facts.locations.iter().filter(|l| !request.avoid.contains(&l.node)).count();
        let others = usable > 1 || placement.stripe.is_some();
        let price = price(Network::of(world), &planned, others, length, |_| stored_bytes);
        let note = format!("from {node}");
        Ok(ReadPlan { planned: Some(planned), note, offset: bytes.start, length, degraded: false, price })
    }

    /// Decoded from the rest of the stripe by some scheme.
    fn degraded(
        &self,
        world: &World,
        placement: &Placement,
        wanted: &Wanted,
        request: &ReadRequest<'_>,
        tokens: Tokens<'_>,
    ) -> Result<ReadPlan> {
        let none = DecideError::Unrecoverable { block: placement.block, survivors: 0, needed: 1 };
        let stripe = placement.stripe.as_ref().ok_or(none)?;
        self.decoded(world, (placement, stripe, &[Member(stripe.index)]), wanted, request, tokens)
    }

    /// Of some members of a stripe, one of them the placement's.
    fn decoded(
        &self,
        world: &World,
        (placement, stripe, members): (&Placement, &StripePlacement, &[Member]),
        wanted: &Wanted,
        request: &ReadRequest<'_>,
        tokens: Tokens<'_>,
    ) -> Result<ReadPlan> {
        let made: Vec<_> = members.iter().map(|&member| (member, CLIENT)).collect();
        let slice_bytes = request.slices.of_one_lane;
        let rest = self.rest(world, stripe, &made, slice_bytes, (request.avoid, &[]))?;
        let whole = request.scheme.is_some_and(Scheme::whole_block);
        let slice_bytes = if whole { rest.geometry.whole_slice() } else { u64::from(slice_bytes) };
        let symbols = wanted.symbols(rest.geometry.symbol_bytes().max(1), slice_bytes);
        let (Some(symbols), Some(first)) = (symbols, wanted.first()) else {
            return Err(DecideError::Bug("a read of nothing".to_owned()));
        };
        let alpha = rest.geometry.alpha.max(1);
        let symbol = |&number: &u16| Symbol {
            member: members.get(usize::from(number / alpha)).copied().unwrap_or(Member(u16::MAX)),
            index: number % alpha,
        };
        let of = symbols.of.iter().map(symbol).collect();
        let decoded = rest.decode(of, (&symbols, first.start), placement.block, request, tokens)?;
        // Of a virtual block nothing is lost as long as all stand for it.
        let living = world.living();
        let is_virtual = placement.facts.is_virtual();
        let degraded = !is_virtual || !stripe.stored().all(|(_, facts)| facts.lives(&living));
        let what = match (is_virtual, degraded) {
            (false, _) => "no living copy",
            (true, false) => "its code stores no data as they are",
            (true, true) => "its code stores no data as they are, and a block of it is away",
        };
        let note = format!("{what}: {}", decoded.note);
        Ok(ReadPlan { note, degraded, ..decoded })
    }

    /// The same bytes of several members of a stripe, abreast: slice by slice, of each member in turn, so that whoever reads has
    /// to keep none. Their own copies are not used. What is beyond a member's end is zero.
    ///
    /// # Errors
    /// As [`read`](Self::read); [`DecideError::Invalid`] for members that there are not, and for a code of several symbols to a
    /// block.
    pub fn read_abreast(
        &self,
        world: &World,
        placement: &Placement,
        members: &[Member],
        request: &ReadRequest<'_>,
        tokens: Tokens<'_>,
    ) -> Result<ReadPlan> {
        let invalid = |what: String| DecideError::Invalid(format!("members to be read abreast: {what}"));
        let stripe = placement.stripe.as_ref().ok_or_else(|| invalid("they are in no stripe".to_owned()))?;
        let made: Vec<_> = members.iter().map(|&member| (member, CLIENT)).collect();
        if made.iter().any(|(member, _)| usize::from(member.0) >= stripe.members.len()) || made.is_empty() {
            return Err(invalid("the stripe does not have them".to_owned()));
        }
        let rest = self.rest(world, stripe, &made, request.slices.of_one_lane, (request.avoid, &[]))?;
        if rest.geometry.alpha != 1 {
            return Err(invalid(format!("{} has several symbols to a block", stripe.code)));
        }
        let end = request.offset.checked_add(request.length).filter(|end| *end <= stripe.block_bytes);
        let bytes = request.offset..end.unwrap_or(0);
        if bytes.is_empty() {
            return Err(invalid(format!("there are {} bytes of each", stripe.block_bytes)));
        }
        let of = members.iter().map(|&member| Symbol { member, index: 0 }).collect();
        let numbers = (0..members.len() as u16).collect();
        let symbols = Symbols { of: numbers, bytes, in_order: request.length };
        rest.decode(of, (&symbols, request.offset), placement.block, request, tokens)
    }
}

impl Rest<'_> {
    /// The plan that brings these symbols to the reader, by some scheme; from `start` on so many bytes of them as they say come
    /// in order.
    fn decode(
        &self,
        wanted: Vec<Symbol>,
        (symbols, start): (&Symbols, u64),
        block: BlockId,
        request: &ReadRequest<'_>,
        tokens: Tokens<'_>,
    ) -> Result<ReadPlan> {
        let Rest { world, code, sources, helpers, .. } = self;
        let repair = RepairRequest { wanted, ..self.request(&[], CLIENT, Sink::Read) };
        let network = Network::of(world);
        let Choice { scheme, flow, why } =
            choose(request.scheme, request.slices, &repair, Some(symbols), network)
                .map_err(|error| self.unrecoverable(error, block))?;
        let asked = flow.sites().len() - 1;
        let header = FlowHeader::new(request.flow, code.field(), flow.geometry);
        let slices = symbols.slices(flow.geometry.slice_bytes);
        let mut planned = Draft {
            world,
            flow,
            header: FlowHeader { serial: scheme.serial(), traffic: request.traffic, ..header },
            sources,
            writes: BTreeMap::new(),
            scheme: scheme.name(),
            slices: Some(slices),
        }
        .finish(tokens)?;
        network.set_rate(&mut planned);
        let why = why.map_or(String::new(), |why| format!(", {why}"));
        let note = format!("decoded from {asked} helpers by {scheme}{why}");
        let (length, others) = (symbols.in_order, asked < helpers.len());
        let price = price(network, &planned, others, length, stored(helpers));
        Ok(ReadPlan { planned: Some(planned), note, offset: start, length, degraded: true, price })
    }
}

impl ReadPlan {
    /// What each node sends for it, in bytes.
    pub fn sent(&self) -> impl Iterator<Item = (NodeId, u64)> {
        let predicted = self.planned.iter().flat_map(|planned| &planned.plan.predicted);
        predicted.filter(|((from, _), _)| *from != CLIENT).map(|((from, _), bytes)| (NodeId(from.0), *bytes))
    }
}

/// The copy on the least loaded of the nodes that live.
fn least_loaded<'a>(world: &World, placement: &'a Placement, avoid: &BTreeSet<NodeId>) -> Option<Source<'a>> {
    let facts = &placement.facts;
    let load = |id: NodeId| {
        let node = world.nodes.get(id).filter(|n| n.is_living);
        node.map(|n| (world.is_last_resort(id, n), n.running_stages))
    };
    let usable: Vec<_> = facts.locations.iter().filter(|l| !avoid.contains(&l.node)).collect();
    let ids: Vec<_> = usable.iter().map(|l| l.node).collect();
    let by_age = world.recent.preference(&ids).into_iter().map(|i| *usable[i]);
    // `min_by_key` keeps the first of equals: the least recently used.
    let living = by_age.filter_map(|l| load(l.node).map(|load| (load, l)));
    let (_, location) = living.min_by_key(|(load, _)| *load)?;
    Some(Source { member: Member(0), block: placement.block, facts, location })
}

/// What a read of so many bytes should cost, where that is worth knowing.
fn price(
    network: Network<'_>,
    planned: &Planned,
    others_could_help: bool,
    bytes: u64,
    stored: impl Fn(Member) -> u64,
) -> Option<Price> {
    let is_watched = others_could_help && bytes >= WATCHED_READ_BYTES;
    is_watched.then(|| network.price_of(&planned.plan.flow, &planned.cost, stored))
}
