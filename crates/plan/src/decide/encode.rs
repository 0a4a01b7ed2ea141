//! Plans of encodings: which replicas are read, by which scheme parities are made of them, and in which order.

use super::choose::finer;
use super::{
    DecideError, Draft, Network, Planned, Planner, Result, SliceLength, Source, Tokens, World, site,
};
use crate::draw::Draw;
use crate::error::PlanError;
use crate::{Archival, ArchiveRequest, Kept, PipelineRequest};
use codes::Code;
use flow::bound::{BlockWrite, FlowHeader};
use flow::{EncodeRequest, EncodeScheme, Geometry, Helper, Member, Site};
use gf::{Field, Fingerprint};
use model::note::{self, MemberFacts, StripeFacts};
use model::{
    BlockCopy, BlockId, FlowId, Location, MemberState, NodeId, Placement, Stamp, StripeId, Sums, Traffic,
};
use std::collections::{BTreeMap, BTreeSet};

/// An encoding that is to be planned: a stripe, its data blocks, and what was decided about nodes.
#[derive(Debug)]
pub struct EncodePlan<'a> {
    /// Its code.
    pub code: &'a Code,
    /// The stripe.
    pub stripe: StripeId,
    /// Logical length of its blocks.
    pub block_bytes: u64,
    /// n members; parities are new ids.
    pub members: &'a [MemberState<BlockId>],
    /// What is written, parities and data blocks that move.
    pub writes: &'a [BlockCopy],
    /// The flow's id.
    pub flow: FlowId,
    /// Attempt, from 1.
    pub attempt: u32,
    /// The data blocks, of a short stripe fewer than k.
    pub data: &'a [Placement],
    /// Which replicas are read, who drives, who gets the parities.
    pub archival: &'a Archival,
    /// How the parities are made.
    pub scheme: EncodeScheme,
    /// Length of slices; chains of several parities cut them finer.
    pub slices: SliceLength,
    /// The change of the catalog that noted what is written.
    pub birth: Stamp,
}

/// Decides which replica of each data block stays, who encodes, and where the parities go.
///
/// # Errors
/// [`DecideError::NoReplica`], [`DecideError::NoRoom`], [`DecideError::Plan`].
pub fn archival(
    world: &World,
    code: &Code,
    data: &[Placement],
    avoid: &BTreeSet<NodeId>,
    draw: &mut Draw,
) -> Result<Archival> {
    let replicas: Vec<Vec<NodeId>> =
        data.iter().map(|p| p.facts.locations.iter().map(|l| l.node).collect()).collect();
    let bytes = data.iter().map(|p| p.facts.stored_bytes).max().unwrap_or(0);
    let wanted = (code.n() - code.k(), bytes);
    let (alive, tolerance) = (world.usable(avoid), code.tolerance());
    let chosen = match code.virtuals() {
        1.. => codeword(world, (code, &alive), (&replicas, tolerance), bytes, draw),
        0 => chosen(world, (code, &alive), (&replicas, tolerance), wanted, draw),
    };
    chosen.map_err(|error| match error {
        DecideError::Plan(PlanError::NoReplica { block }) => {
            let block = data.get(block).map_or(BlockId(0), |placement| placement.block);
            DecideError::NoReplica { block }
        }
        other => other,
    })
}

/// Who stores which block of the codeword that is made of these replicas, of which none stays: by a pipeline of those nodes, or,
/// for a code that has none, by the one of them that holds most of the replicas.
fn codeword(
    world: &World,
    (code, alive): (&Code, &[NodeId]),
    (replicas, tolerance): (&[Vec<NodeId>], usize),
    bytes: u64,
    draw: &mut Draw,
) -> Result<Archival> {
    let full = full(world, alive, bytes);
    let request = PipelineRequest {
        code,
        topology: &world.topology,
        alive,
        full: &full,
        replicas,
        rack_capacity: tolerance.max(1),
    };
    let nodes = crate::pipeline(&request, draw).map_err(|error| no_room(world, error, &full, bytes))?;
    let lives = |node: &NodeId| alive.contains(node);
    let holds = |node: &NodeId| replicas.iter().filter(|replicas| replicas.contains(node)).count();
    let archiver = match code.pipeline() {
        Some(_) => nodes.first().copied(),
        None => nodes.iter().copied().rev().max_by_key(holds),
    };
    let archiver = archiver.unwrap_or(NodeId(0));
    let read = |replicas: &Vec<NodeId>| match replicas.contains(&archiver) {
        true => Some(archiver),
        false => replicas.iter().copied().find(lives),
    };
    let kept = |node: NodeId| Kept { read_from: node, stored_at: node, is_relocated: false };
    Ok(Archival { archiver, data: replicas.iter().filter_map(read).map(kept).collect(), parities: nodes })
}

/// Returns the nodes of `alive` that lack room for this many bytes of an archival.
fn full(world: &World, alive: &[NodeId], bytes: u64) -> BTreeSet<NodeId> {
    let has_room = |node: &NodeId| world.nodes.get(*node).is_some_and(|node| node.has_room_to_archive(bytes));
    alive.iter().copied().filter(|node| !has_room(node)).collect()
}

/// Enough nodes live, and too few have room.
fn no_room(world: &World, error: PlanError, full: &BTreeSet<NodeId>, bytes: u64) -> DecideError {
    let hosts = |nodes: &mut dyn Iterator<Item = NodeId>| world.topology.hosts(nodes).len();
    match error {
        PlanError::NotEnoughNodes { needed, .. } => {
            let usable = world.usable(&BTreeSet::new());
            let roomy = hosts(&mut usable.iter().copied().filter(|node| !full.contains(node)));
            match hosts(&mut usable.iter().copied()) {
                usable if usable >= needed => DecideError::NoRoom { roomy, usable, needed, bytes },
                _ => error.into(),
            }
        }
        other => other.into(),
    }
}

/// The same for blocks of which only the nodes are known that have them, and how many of a stripe a rack may have; so many parities
/// of so many bytes are to be placed on the nodes `alive`.
pub(super) fn chosen(
    world: &World,
    (code, alive): (&Code, &[NodeId]),
    (replicas, tolerance): (&[Vec<NodeId>], usize),
    (parities, bytes): (usize, u64),
    draw: &mut Draw,
) -> Result<Archival> {
    let full = full(world, alive, bytes);
    let request = ArchiveRequest {
        code: code.name(),
        topology: &world.topology,
        alive,
        full: &full,
        replicas,
        parities,
        tolerance,
    };
    crate::archive(&request, draw).map_err(|error| match error {
        PlanError::NotEnoughNodes { needed, alive: usable, .. } if usable >= needed => {
            DecideError::NoRoom { roomy: usable - full.len(), usable, needed, bytes }
        }
        other => other.into(),
    })
}

impl Planner {
    /// The flow of an encoding by its scheme. The archiver drives it.
    ///
    /// # Errors
    /// [`DecideError::Flow`]; [`DecideError::Bug`] if a replica that was decided on does not exist.
    pub fn encode(&self, world: &World, encode: &EncodePlan<'_>, tokens: Tokens<'_>) -> Result<Planned> {
        let EncodePlan { code, members, data, archival, scheme, .. } = *encode;
        let targets: Vec<_> = (code.k()..code.n())
            .zip(&archival.parities)
            .filter(|(index, _)| members.get(*index).is_some_and(|state| state.stored().is_some()))
            .map(|(index, node)| (Member(index as u16), site(*node)))
            .collect();
        let (geometry, network) = (geometry(encode, targets.len()), Network::of(world));
        let mut sources = Vec::new();
        for (index, (placement, kept)) in data.iter().zip(&archival.data).enumerate() {
            let (facts, member) = (&placement.facts, Member(index as u16));
            let read = match scheme {
                EncodeScheme::RapidRaid => along(placement, kept.read_from, &archival.parities),
                _ => facts.on(kept.read_from).into_iter().collect(),
            };
            if read.is_empty() {
                return Err(no_copy(kept.read_from, placement));
            }
            let block = placement.block;
            sources.extend(read.into_iter().map(|location| Source { member, block, facts, location }));
        }
        let mut helpers: Vec<Helper> = sources.iter().map(Source::helper).collect();
        if scheme.is_chain() {
            helpers = rack_by_rack(helpers, &targets, |site| network.rack_of(site));
        }
        let absent: Vec<Member> = (data.len()..code.k()).map(|index| Member(index as u16)).collect();
        let request = EncodeRequest {
            code,
            geometry,
            data: &helpers,
            absent: &absent,
            empty: &[],
            archiver: site(archival.archiver),
            targets: &targets,
        };
        let flow = flow::encode::build(scheme, &request)?;
        let header = FlowHeader {
            attempt: encode.attempt,
            traffic: Traffic::Archival,
            ..FlowHeader::new(encode.flow, code.field(), geometry)
        };
        let writes = parity_writes(encode, geometry)?;
        let name = format!("encode-{scheme}");
        let draft = Draft { world, flow, header, sources: &sources, writes, scheme: &name, slices: None };
        let mut planned = draft.finish(tokens)?;
        network.set_rate(&mut planned);
        Ok(planned)
    }
}

/// How blocks are cut: for a chain as many times as fine as it carries `parities`, so that it fills as fast as with one.
fn geometry(encode: &EncodePlan<'_>, parities: usize) -> Geometry {
    let EncodePlan { slices, scheme, .. } = *encode;
    let slice_bytes = match (scheme.has_lanes(), scheme.is_chain()) {
        (true, _) => slices.of_several,
        (false, true) => finer(slices.of_one_lane, parities),
        (false, false) => slices.of_one_lane,
    };
    Geometry { block_bytes: encode.block_bytes, alpha: encode.code.alpha() as u16, slice_bytes }
}

/// The data blocks in the order of a chain that enters and leaves each rack at most once: racks as they come, last of all
/// the one in which most parities are written, and in each rack those sites last that write some.
fn rack_by_rack<R: PartialEq + Copy>(
    mut helpers: Vec<Helper>,
    targets: &[(Member, Site)],
    rack_of: impl Fn(Site) -> R,
) -> Vec<Helper> {
    let mut racks: Vec<R> = Vec::new();
    for helper in &helpers {
        let rack = rack_of(helper.site);
        if !racks.contains(&rack) {
            racks.push(rack);
        }
    }
    let parities = |rack: &R| targets.iter().filter(|(_, site)| rack_of(*site) == *rack).count();
    if let Some(last) = (0..racks.len()).max_by_key(|&place| parities(&racks[place])) {
        let rack = racks.remove(last);
        racks.push(rack);
    }
    let place = |site: Site| racks.iter().position(|&rack| rack == rack_of(site));
    helpers.sort_by_key(|helper| {
        let writes = targets.iter().any(|&(_, site)| site == helper.site);
        (place(helper.site), writes)
    });
    helpers
}

/// The copies of a block that a pipeline over these nodes reads: those on them, or else the one on `other`. A plan names one
/// generation of a block, so all are of the one that most have.
fn along(placement: &Placement, other: NodeId, nodes: &[NodeId]) -> Vec<Location> {
    let is_there = |l: &&Location| nodes.contains(&l.node) || l.node == other;
    let there: Vec<Location> = placement.facts.locations.iter().filter(is_there).copied().collect();
    let same = |generation: u64| there.iter().filter(move |l| l.generation == generation).copied();
    let most = there.iter().map(|l| l.generation).max_by_key(|&generation| same(generation).count());
    most.map_or(Vec::new(), |generation| same(generation).collect())
}

fn no_copy(node: NodeId, placement: &Placement) -> DecideError {
    DecideError::Bug(format!("{node} holds no copy of {}", placement.block))
}

/// What the parities' sidecars say: with the whole list of members, so that a lost catalog can be rebuilt from them.
fn parity_writes(encode: &EncodePlan<'_>, geometry: Geometry) -> Result<BTreeMap<Member, BlockWrite>> {
    let EncodePlan { code, members, writes, data, archival, .. } = *encode;
    let written = |block: BlockId| writes.iter().find(|copy| copy.block == block).map(|copy| copy.generation);
    let data_bytes = |member: Member| data.get(usize::from(member.0)).map_or(0, |p| p.facts.stored_bytes);
    let stored = |index: usize| flow::stored_bytes(code, geometry, Member(index as u16), data_bytes);
    let fingerprints = expected_parity(code, data);
    let expected = |index: usize| fingerprints.as_ref().and_then(|list| list.get(index - code.k()));
    let sums = |index: usize| Sums { digest: None, fingerprint: expected(index).copied() };
    // Of a data block the copy that stays counts, which need not be the one that is read.
    let staying = |placement: &Placement, kept: &Kept| match kept.is_relocated {
        true => written(placement.block),
        false => placement.facts.on(kept.stored_at).map(|location| location.generation),
    };
    let member = |index: usize, block: BlockId| match data.get(index).zip(archival.data.get(index)) {
        Some((placement, _)) if members.get(index).is_some_and(MemberState::is_virtual) => {
            Ok(placement.facts.as_member(block))
        }
        Some((placement, kept)) => {
            let generation = staying(placement, kept).ok_or_else(|| no_copy(kept.stored_at, placement))?;
            Ok(MemberFacts { generation, ..placement.facts.as_member(block) })
        }
        None => Ok(MemberFacts {
            block,
            generation: written(block).unwrap_or(0),
            stored_bytes: stored(index)?,
            sums: sums(index),
            part: None,
        }),
    };
    let noted: Vec<_> = members
        .iter()
        .enumerate()
        .map(|(index, state)| state.try_map(|&block| member(index, block)))
        .collect::<Result<_>>()?;
    let facts = StripeFacts { stripe: encode.stripe, code: code.name(), block_bytes: encode.block_bytes };
    let mut made = BTreeMap::new();
    for index in code.k()..code.n() {
        let Some(MemberState::Stored(block)) = members.get(index).copied() else { continue };
        let member = Member(index as u16);
        let write = BlockWrite {
            member,
            block,
            generation: written(block).unwrap_or(0),
            stored_bytes: stored(index)?,
            sums: sums(index),
            part: None,
            note: note::encode(facts, index as u16, noted.iter().copied()),
            birth: encode.birth,
        };
        made.insert(member, write);
    }
    Ok(made)
}

/// Whether member `index` is made of anything. In a short stripe the parity of an absent group is not: it is all zero, and
/// absent like its group.
pub fn is_made(code: &Code, data: &[Placement], index: usize) -> bool {
    let alpha = code.alpha();
    let there = |column: usize| data.get(column / alpha).is_some_and(|p| p.facts.stored_bytes > 0);
    let made = |row: &[u16]| row.iter().enumerate().any(|(column, &c)| c != 0 && there(column));
    (0..alpha).any(|symbol| made(code.generator().row(index * alpha + symbol)))
}

/// The fingerprints that the parities must have, from those of the data blocks, by the rows of the generator: parity i
/// is Σ_j g_ij · data_j, and fingerprints are linear.
///
/// `None` where that cannot be told from whole blocks: with several symbols to a block a parity mixes symbols, of which the
/// catalog keeps no fingerprints. Then the flow's own check at every hop has to do.
pub fn expected_parity(code: &Code, data: &[Placement]) -> Option<Vec<Fingerprint>> {
    if code.alpha() != 1 || code.field() != Field::Gf256 {
        return None;
    }
    let known: Vec<Fingerprint> = data.iter().map(|p| p.facts.sums.fingerprint).collect::<Option<_>>()?;
    let parity = |member: usize| {
        let mut sum = Fingerprint::ZERO;
        for (coefficient, fingerprint) in code.symbol_row(member as u16, 0).iter().zip(&known) {
            sum.add_scaled(u8::try_from(*coefficient).ok()?, fingerprint);
        }
        Some(sum)
    };
    (code.k()..code.n()).map(parity).collect()
}
