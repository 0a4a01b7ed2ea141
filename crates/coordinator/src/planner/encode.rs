//! Plans of encodings: the archiving node downloads the data blocks of a stripe, makes the parities and uploads them.

use super::{Draft, Planned, Planner, Source, site};
use crate::catalog::rows::Location;
use crate::catalog::{NewStripe, PARITY_GENERATION, Placement};
use crate::error::{CoordinatorError, Result};
use crate::health::View;
use codes::Code;
use flow::bound::{BlockWrite, FlowHeader};
use flow::{EncodeRequest, Geometry, Helper, Member};
use gf::{Field, Fingerprint};
use model::note::{self, MemberFacts, StripeFacts};
use model::{BlockId, NodeId, Sums};
use plan::{Archival, ArchiveRequest};
use std::collections::{BTreeMap, BTreeSet};

/// An encoding that is to be planned: a stripe, its data blocks, and what was decided about nodes.
#[derive(Debug)]
pub(crate) struct EncodePlan<'a> {
    pub code: &'a Code,
    pub new: &'a NewStripe,
    pub data: &'a [Placement],
    pub archival: &'a Archival,
    pub slice_bytes: u32,
}

impl Planner {
    /// Decides which replica of each data block stays, who encodes, and where the parities go.
    pub fn archival(
        &self,
        view: &View,
        code: &Code,
        data: &[Placement],
        avoid: &BTreeSet<u32>,
    ) -> Result<Archival> {
        let replicas: Vec<Vec<NodeId>> =
            data.iter().map(|p| p.row.locations.iter().map(|l| NodeId(l.node)).collect()).collect();
        let request = ArchiveRequest {
            code: code.name(),
            topology: &view.topology,
            alive: &view.usable(avoid),
            replicas: &replicas,
            parities: code.n() - code.k(),
        };
        plan::archive(&request, &mut self.draw()).map_err(|error| match error {
            plan::PlanError::NoReplica { block } => {
                let block = data.get(block).map_or(BlockId(0), |placement| placement.block);
                CoordinatorError::NoReplica { block }
            }
            other => other.into(),
        })
    }

    /// The encoding star. The archiver drives it.
    pub fn encode(&self, view: &View, encode: &EncodePlan<'_>) -> Result<Planned> {
        let EncodePlan { code, new, data, archival, slice_bytes } = *encode;
        let geometry = Geometry { block_bytes: new.block_bytes, alpha: code.alpha() as u16, slice_bytes };
        let sources = data
            .iter()
            .zip(&archival.data)
            .enumerate()
            .map(|(index, (placement, kept))| {
                let location = placement.row.on(kept.read_from.0);
                let location = location.ok_or_else(|| {
                    CoordinatorError::Bug(format!("{} holds no copy of {}", kept.read_from, placement.block))
                })?;
                let member = Member(index as u16);
                Ok(Source { member, block: placement.block, row: &placement.row, location })
            })
            .collect::<Result<Vec<_>>>()?;
        let helpers: Vec<Helper> = sources.iter().map(Source::helper).collect();
        let absent: Vec<Member> = (data.len()..code.k()).map(|index| Member(index as u16)).collect();
        let targets: Vec<_> = (code.k()..code.n())
            .zip(&archival.parities)
            .filter(|(index, _)| new.members.get(*index).is_some_and(Option::is_some))
            .map(|(index, node)| (Member(index as u16), site(node.0)))
            .collect();
        let flow = flow::encode::star(&EncodeRequest {
            code,
            geometry,
            data: &helpers,
            absent: &absent,
            archiver: site(archival.archiver.0),
            targets: &targets,
        })?;
        let header = FlowHeader { attempt: new.attempt, ..FlowHeader::new(new.flow, code.field(), geometry) };
        let writes = parity_writes(encode, geometry, &sources)?;
        Draft { view, flow, header, sources: &sources, writes, scheme: "encode-star", slices: None }.finish()
    }
}

/// What the parities' sidecars say: with the whole list of members, so that a lost catalog can be rebuilt from them.
fn parity_writes(
    encode: &EncodePlan<'_>,
    geometry: Geometry,
    sources: &[Source<'_>],
) -> Result<BTreeMap<Member, BlockWrite>> {
    let EncodePlan { code, new, data, .. } = *encode;
    let data_bytes = |member: Member| sources.get(usize::from(member.0)).map_or(0, |s| s.row.stored_bytes);
    let stored = |index: usize| flow::stored_bytes(code, geometry, Member(index as u16), data_bytes);
    let fingerprints = expected_parity(code, data);
    let expected = |index: usize| fingerprints.as_ref().and_then(|list| list.get(index - code.k()));
    let member = |index: usize, block: &Option<BlockId>| match (sources.get(index), block) {
        (Some(source), _) => {
            let facts = source.row.facts(source.block);
            Ok(Some(MemberFacts { generation: source.location.generation, ..facts }))
        }
        (None, &Some(block)) => Ok(Some(MemberFacts {
            block,
            generation: PARITY_GENERATION,
            stored_bytes: stored(index)?,
            digest: &[],
            fingerprint: expected(index).map_or(&[], |fingerprint| fingerprint.as_bytes()),
            object: None,
        })),
        (None, None) => Ok(None),
    };
    let members: Vec<_> =
        new.members.iter().enumerate().map(|(i, block)| member(i, block)).collect::<Result<_>>()?;
    let facts = StripeFacts { stripe: new.stripe, code: &new.code, block_bytes: new.block_bytes };
    let mut writes = BTreeMap::new();
    for index in code.k()..code.n() {
        let Some(block) = new.members.get(index).copied().flatten() else { continue };
        let member = Member(index as u16);
        let write = BlockWrite {
            member,
            block,
            generation: PARITY_GENERATION,
            stored_bytes: stored(index)?,
            sums: Sums { digest: None, fingerprint: expected(index).copied() },
            part: None,
            note: note::encode(facts, index as u16, members.iter().copied()),
        };
        writes.insert(member, write);
    }
    Ok(writes)
}

/// Whether member `index` is made of anything. In a short stripe the parity of an absent group is not: it is all zero, and
/// absent like its group.
pub(crate) fn is_made(code: &Code, data: &[Placement], index: usize) -> bool {
    let alpha = code.alpha();
    let there = |column: usize| data.get(column / alpha).is_some_and(|p| p.row.stored_bytes > 0);
    let made = |row: &[u16]| row.iter().enumerate().any(|(column, &c)| c != 0 && there(column));
    (0..alpha).any(|symbol| made(code.generator().row(index * alpha + symbol)))
}

/// The fingerprints that the parities must have, from those of the data blocks, by the rows of the generator: parity i
/// is Σ_j g_ij · data_j, and fingerprints are linear.
///
/// `None` where that cannot be told from whole blocks: with several symbols to a block a parity mixes symbols, of which the
/// catalog keeps no fingerprints. Then the flow's own check at every hop has to do.
pub(crate) fn expected_parity(code: &Code, data: &[Placement]) -> Option<Vec<Fingerprint>> {
    if code.alpha() != 1 || code.field() != Field::Gf256 {
        return None;
    }
    let known: Vec<Fingerprint> = data.iter().map(|p| p.row.sums.fingerprint).collect::<Option<_>>()?;
    let parity = |member: usize| {
        let mut sum = Fingerprint::ZERO;
        for (coefficient, fingerprint) in code.symbol_row(member as u16, 0).iter().zip(&known) {
            sum.add_scaled(u8::try_from(*coefficient).ok()?, fingerprint);
        }
        Some(sum)
    };
    (code.k()..code.n()).map(parity).collect()
}

/// The copies that stay: (block, location after the encoding), in the order of the data.
pub(crate) fn kept(
    data: &[Placement],
    archival: &Archival,
    moved: impl Fn(BlockId) -> Option<Location>,
) -> Result<Vec<(BlockId, Location)>> {
    data.iter()
        .zip(&archival.data)
        .map(|(placement, kept)| {
            let location = moved(placement.block).or_else(|| placement.row.on(kept.stored_at.0));
            let missing = || CoordinatorError::Bug(format!("no copy of {} is kept", placement.block));
            Ok((placement.block, location.ok_or_else(missing)?))
        })
        .collect()
}
