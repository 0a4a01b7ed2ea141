//! Plans of encodings: the archiving node downloads the data blocks of a stripe, makes the parities and uploads them.

use super::{DecideError, Draft, Planned, Planner, Result, Source, Tokens, World, site};
use crate::draw::Draw;
use crate::error::PlanError;
use crate::{Archival, ArchiveRequest};
use codes::Code;
use flow::bound::{BlockWrite, FlowHeader};
use flow::{EncodeRequest, Geometry, Helper, Member};
use gf::{Field, Fingerprint};
use model::note::{self, MemberFacts, StripeFacts};
use model::{BlockCopy, BlockId, FlowId, MemberState, NodeId, Placement, Stamp, StripeId, Sums};
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
    /// Which replicas are read, who encodes, who gets the parities.
    pub archival: &'a Archival,
    /// Length of a slice.
    pub slice_bytes: u32,
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
    let (alive, bytes) = (world.usable(avoid), data.iter().map(|p| p.facts.stored_bytes).max().unwrap_or(0));
    let has_room = |node: &NodeId| world.nodes.get(*node).is_some_and(|node| node.has_room(bytes));
    let full: BTreeSet<NodeId> = alive.iter().copied().filter(|node| !has_room(node)).collect();
    let request = ArchiveRequest {
        code: code.name(),
        topology: &world.topology,
        alive: &alive,
        full: &full,
        replicas: &replicas,
        parities: code.n() - code.k(),
    };
    crate::archive(&request, draw).map_err(|error| match error {
        PlanError::NotEnoughNodes { needed, alive: usable, .. } if usable >= needed => {
            DecideError::NoRoom { roomy: usable - full.len(), usable, needed, bytes }
        }
        PlanError::NoReplica { block } => {
            let block = data.get(block).map_or(BlockId(0), |placement| placement.block);
            DecideError::NoReplica { block }
        }
        other => other.into(),
    })
}

impl Planner {
    /// The encoding star. The archiver drives it.
    ///
    /// # Errors
    /// [`DecideError::Flow`]; [`DecideError::Bug`] if a replica that was decided on does not exist.
    pub fn encode(&self, world: &World, encode: &EncodePlan<'_>, tokens: Tokens<'_>) -> Result<Planned> {
        let EncodePlan { code, members, data, archival, slice_bytes, .. } = *encode;
        let geometry = Geometry { block_bytes: encode.block_bytes, alpha: code.alpha() as u16, slice_bytes };
        let sources = data
            .iter()
            .zip(&archival.data)
            .enumerate()
            .map(|(index, (placement, kept))| {
                let location = placement.facts.on(kept.read_from);
                let location = location.ok_or_else(|| {
                    DecideError::Bug(format!("{} holds no copy of {}", kept.read_from, placement.block))
                })?;
                let member = Member(index as u16);
                Ok(Source { member, block: placement.block, facts: &placement.facts, location })
            })
            .collect::<Result<Vec<_>>>()?;
        let helpers: Vec<Helper> = sources.iter().map(Source::helper).collect();
        let absent: Vec<Member> = (data.len()..code.k()).map(|index| Member(index as u16)).collect();
        let targets: Vec<_> = (code.k()..code.n())
            .zip(&archival.parities)
            .filter(|(index, _)| members.get(*index).is_some_and(|state| state.stored().is_some()))
            .map(|(index, node)| (Member(index as u16), site(*node)))
            .collect();
        let flow = flow::encode::star(&EncodeRequest {
            code,
            geometry,
            data: &helpers,
            absent: &absent,
            archiver: site(archival.archiver),
            targets: &targets,
        })?;
        let header =
            FlowHeader { attempt: encode.attempt, ..FlowHeader::new(encode.flow, code.field(), geometry) };
        let writes = parity_writes(encode, geometry, &sources)?;
        Draft { world, flow, header, sources: &sources, writes, scheme: "encode-star", slices: None }
            .finish(tokens)
    }
}

/// What the parities' sidecars say: with the whole list of members, so that a lost catalog can be rebuilt from them.
fn parity_writes(
    encode: &EncodePlan<'_>,
    geometry: Geometry,
    sources: &[Source<'_>],
) -> Result<BTreeMap<Member, BlockWrite>> {
    let EncodePlan { code, members, writes, data, .. } = *encode;
    let written = |block: BlockId| writes.iter().find(|copy| copy.block == block).map(|copy| copy.generation);
    let data_bytes = |member: Member| sources.get(usize::from(member.0)).map_or(0, |s| s.facts.stored_bytes);
    let stored = |index: usize| flow::stored_bytes(code, geometry, Member(index as u16), data_bytes);
    let fingerprints = expected_parity(code, data);
    let expected = |index: usize| fingerprints.as_ref().and_then(|list| list.get(index - code.k()));
    let sums = |index: usize| Sums { digest: None, fingerprint: expected(index).copied() };
    let member = |index: usize, block: BlockId| match sources.get(index) {
        Some(source) => {
            let generation = written(block).unwrap_or(source.location.generation);
            Ok(MemberFacts { generation, ..source.facts.as_member(block) })
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
fn expected_parity(code: &Code, data: &[Placement]) -> Option<Vec<Fingerprint>> {
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
