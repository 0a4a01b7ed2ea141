//! Puts whose blocks are coded as they are written: which node gets each data block of a stripe, which get its parities, and
//! whether all of it may be acknowledged.
//!
//! ```text
//!   client: b0 … bk−1 ══▶ a node each; adds each to the parities it keeps ══▶ a node each ──▶ commit
//! ```
//!
//! A data block goes to a node as archival would choose one for it, in view of the blocks that its stripe has by then. The client
//! makes the parities; what can be told of them without the data is checked here before a node is asked to take them.

use crate::attempt::token;
use crate::cluster::Cluster;
use crate::config::MAX_OBJECT_PARITIES;
use crate::error::{CoordinatorError, Result};
use crate::gathering::PlacedBlock;
use crate::jobs::{Cost, archival_code, too_dear};
use crate::records::Records;
use catalog::rows::{GatherTerms, PutRow};
use catalog::{Catalog, CatalogError, CodedBlock, CommittedBlock, FIRST_GENERATION, PlannedBlock, PutPlace};
use codes::Code;
use flow::{Geometry, Member};
use model::{
    BlockFacts, BlockId, FlowId, Location, NodeId, Part, Placement, PutId, Stamp, StripeId, StripePlace, Sums,
};
use plan::Draw;
use plan::decide::{
    DecideError, NewParity, ParitiesRequest, Planner, expected_parity, is_made, stripe_nodes,
};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Times that blocks are placed anew because another block of their stripe was placed meanwhile: a client writes fewer at once.
const MAX_TRIES: usize = 8;

/// The part.
#[derive(Debug)]
pub(crate) struct Coded {
    pub records: Records,
    pub cluster: Arc<Cluster>,
    pub planner: Arc<Planner>,
}

/// Parities that a client has made, and where they belong.
pub(crate) struct MadeParities {
    pub put: PutId,
    /// Counted from 0.
    pub stripe: u64,
    /// Nodes that failed.
    pub avoid: BTreeSet<NodeId>,
    /// The data blocks in their order.
    pub data: Vec<BlockId>,
    /// Member, length and sums of each.
    pub parities: Vec<(u16, u64, Sums)>,
    /// The object ends with the stripe.
    pub last: bool,
    /// Whatever room it takes.
    pub short: bool,
}

impl Coded {
    /// The code of such a put.
    ///
    /// # Errors
    /// Those of [`archival_code`]; [`CoordinatorError::Invalid`] for a code that stores no data as they are.
    pub fn check(&self, terms: &GatherTerms) -> Result<Code> {
        let code = archival_code(&self.planner, &self.cluster, &terms.code)?;
        match code.virtuals() {
            0 => Ok(code),
            _ => Err(CoordinatorError::Invalid(format!(
                "{code} stores no data as they are written: put replicas, for a pipeline with --policy rapidraid, and archive then"
            ))),
        }
    }

    fn code(&self, terms: &GatherTerms) -> Result<Code> {
        Ok(self.planner.codes.get(&terms.code).map_err(DecideError::from)?)
    }

    /// Chooses the node of a data block and notes it, as `planned` but for the nodes.
    pub async fn place(
        &self,
        put: PutId,
        terms: &GatherTerms,
        planned: &PlannedBlock,
        avoid: &BTreeSet<NodeId>,
        lease_until_ms: u64,
    ) -> Result<PlacedBlock> {
        let code = self.code(terms)?;
        let (stripe, member) = (planned.index / code.k() as u64, (planned.index % code.k() as u64) as u16);
        let mut last = None;
        for _ in 0..MAX_TRIES {
            let mut others = self.data(put, &code, stripe).await?;
            others.retain(|block| block.member != member);
            let more = code.n() - others.len();
            let nodes = self.nodes(&code, (&others, more), planned.stored_bytes, avoid)?;
            let planned = PlannedBlock { nodes: nodes.into_iter().take(1).collect(), ..planned.clone() };
            let nodes = planned.nodes.clone();
            match self.note(put, &code, vec![planned], &others, lease_until_ms).await {
                Ok(birth) => return Ok(PlacedBlock { nodes, birth }),
                Err(error @ CoordinatorError::Catalog(CatalogError::Overtaken(_))) => last = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(last.unwrap_or_else(|| CoordinatorError::Bug("a block was never placed".to_owned())))
    }

    /// Checks the parities of a stripe, chooses their nodes, notes them, and plans a flow for each.
    pub async fn plan_parities(
        &self,
        made: MadeParities,
        lease_until_ms: u64,
    ) -> Result<Vec<plan::decide::Planned>> {
        let put = made.put;
        let pending = self.records.run(move |catalog| catalog.pending_put(put)).await?;
        let terms = pending.gathers.as_ref().filter(|terms| terms.is_on_write());
        let terms = terms.ok_or_else(|| invalid("this put has no parities"))?;
        let code = self.code(terms)?;
        if made.stripe.saturating_add(1).saturating_mul(made.parities.len() as u64) > MAX_OBJECT_PARITIES {
            let what =
                format!("an object has at most {MAX_OBJECT_PARITIES} parities; put it with longer blocks");
            return Err(CoordinatorError::Invalid(what));
        }
        let blocks = self.data(put, &code, made.stripe).await?;
        let known = blocks.iter().map(|block| block.block);
        if blocks.is_empty() || !known.eq(made.data.iter().copied()) {
            return Err(invalid("the data blocks are not those that were planned for the stripe"));
        }
        let id = catalog::stripe_of_put(put, made.stripe);
        let first = made.stripe.saturating_mul(code.k() as u64);
        let data = placements(id, &pending, first, &blocks);
        check_parities(&code, id, &data, &made.parities)?;
        if made.last && !made.short {
            self.check_cost(&code, &pending, &made, &data).await?;
        }
        let longest = made.parities.iter().map(|&(_, stored_bytes, _)| stored_bytes).max().unwrap_or(0);
        let nodes = self.nodes(&code, (&blocks, made.parities.len()), longest, &made.avoid)?;
        let new = |(&(member, stored_bytes, sums), node): (&(u16, u64, Sums), NodeId)| NewParity {
            flow: FlowId(rand::random()),
            member,
            block: BlockId(rand::random()),
            generation: FIRST_GENERATION,
            node,
            stored_bytes,
            sums,
        };
        let parities: Vec<NewParity> = made.parities.iter().zip(nodes).map(new).collect();
        let planned = parities.iter().map(|parity| planned_parity(made.stripe, parity)).collect();
        let birth = self.note(put, &code, planned, &blocks, lease_until_ms).await?;
        let request = ParitiesRequest { code: &code, stripe: id, data: &data, parities: &parities, birth };
        Ok(self.planner.write_parities(&self.cluster.view(), &request, &mut token)?)
    }

    /// Whether what a put has written may be acknowledged: each stripe must outlive one more loss, as replicas do of which two are
    /// durable. All were; of nodes that have died since nobody knows when they come back. `None`: it is not coded.
    ///
    /// # Errors
    /// [`CoordinatorError::Conflict`].
    pub async fn check_margin(
        &self,
        put: PutId,
        pending: &PutRow,
        blocks: &[CommittedBlock],
    ) -> Result<Option<Code>> {
        let terms = pending.gathers.as_ref().filter(|terms| terms.is_on_write());
        let Some(terms) = terms else { return Ok(None) };
        let (code, living) = (self.code(terms)?, self.cluster.view().living());
        if blocks.iter().flat_map(|block| &block.nodes).all(|node| living.contains(node)) {
            return Ok(Some(code));
        }
        let k = code.k();
        let lost: BTreeSet<BlockId> = blocks
            .iter()
            .filter(|block| !block.nodes.iter().any(|node| living.contains(node)))
            .map(|block| block.block)
            .collect();
        let members = self.records.run(move |catalog| catalog.coded_members(put, k, &lost)).await?;
        for (stripe, lost) in members {
            let outlives = |other: usize| {
                let lost: Vec<usize> = lost.iter().copied().chain([other]).collect();
                code.recoverable(&lost)
            };
            if !(0..code.n()).filter(|member| !lost.contains(member)).all(outlives) {
                return Err(CoordinatorError::Conflict(format!(
                    "{} of the {} nodes that were written to died meanwhile, and stripe {stripe} of '{}' would not outlive the next one: \
                     put it again",
                    lost.len(),
                    code.n(),
                    pending.name
                )));
            }
        }
        Ok(Some(code))
    }

    async fn data(&self, put: PutId, code: &Code, stripe: u64) -> Result<Vec<CodedBlock>> {
        let k = code.k();
        self.records.run(move |catalog| catalog.coded_data(put, k, stripe)).await
    }

    /// Nodes for so many more blocks of a stripe that has these.
    fn nodes(
        &self,
        code: &Code,
        (blocks, more): (&[CodedBlock], usize),
        bytes: u64,
        avoid: &BTreeSet<NodeId>,
    ) -> Result<Vec<NodeId>> {
        let (view, mut draw) = (self.cluster.view(), Draw::seeded(rand::random()));
        let placed: Vec<NodeId> = blocks.iter().flat_map(|block| block.nodes.iter().copied()).collect();
        Ok(stripe_nodes(&view, code, (&placed, more), bytes, avoid, &mut draw)?)
    }

    async fn note(
        &self,
        put: PutId,
        code: &Code,
        planned: Vec<PlannedBlock>,
        seen: &[CodedBlock],
        lease_until_ms: u64,
    ) -> Result<Stamp> {
        let (k, now_ms) = (code.k(), self.cluster.clock.now_ms());
        let seen = seen.iter().map(|block| block.block).collect();
        let noted =
            move |catalog: &Catalog| catalog.plan_coded(put, k, &planned, &seen, (now_ms, lease_until_ms));
        self.records.run(noted).await
    }

    /// Refuses an object that takes more room than replicas would, once its last stripe is known.
    async fn check_cost(
        &self,
        code: &Code,
        pending: &PutRow,
        made: &MadeParities,
        data: &[Placement],
    ) -> Result<()> {
        let mut cost = Cost::of(code, data);
        if made.stripe > 0 {
            // All stripes but the last are like the first one.
            let first = self.data(made.put, code, 0).await?;
            let first = placements(StripeId(0), pending, 0, &first);
            cost.add(Cost::of(code, &first).times(made.stripe));
        }
        match cost.is_waste() {
            true => Err(CoordinatorError::Conflict(format!(
                "nothing of {:?} was put: {}",
                pending.name,
                too_dear(made.stripe as usize + 1, "", cost)
            ))),
            false => Ok(()),
        }
    }
}

fn planned_parity(stripe: u64, parity: &NewParity) -> PlannedBlock {
    let NewParity { flow, member, block, node, stored_bytes, sums, .. } = *parity;
    let index = PutPlace::Parity { stripe, member }.index();
    PlannedBlock { block, index, stored_bytes, sums, last: false, nodes: vec![node], flow }
}

/// Data blocks as they will be placed, the first of them block `first` of the object.
fn placements(id: StripeId, pending: &PutRow, first: u64, blocks: &[CodedBlock]) -> Vec<Placement> {
    let placement = |(number, block): (u64, &CodedBlock)| {
        let location = |&node: &NodeId| Location { node, generation: FIRST_GENERATION };
        let locations = block.nodes.iter().map(location).collect();
        let part = Part {
            name: pending.name.clone(),
            version: pending.version,
            offset: number.saturating_mul(pending.block_bytes),
            last: block.last,
        };
        let facts = BlockFacts {
            part: Some(part),
            replicas: pending.replicas,
            stripe: Some(StripePlace { stripe: id, index: block.member, is_virtual: false }),
            ..BlockFacts::new(block.stored_bytes, block.sums, locations)
        };
        Placement { block: block.block, facts, stripe: None }
    };
    (first..).zip(blocks).map(placement).collect()
}

/// Whether these are all parities that the code makes of the data, as far as lengths and fingerprints tell.
fn check_parities(
    code: &Code,
    stripe: StripeId,
    data: &[Placement],
    parities: &[(u16, u64, Sums)],
) -> Result<()> {
    let wanted = (code.k()..code.n()).filter(|&index| is_made(code, data, index));
    if !wanted.eq(parities.iter().map(|&(member, ..)| usize::from(member))) {
        return Err(invalid("these are not the parities of the stripe"));
    }
    let block_bytes = data.iter().map(|placement| placement.facts.stored_bytes).max().unwrap_or(0);
    let geometry = Geometry { block_bytes, alpha: code.alpha() as u16, slice_bytes: 0 };
    let length = |member: Member| data.get(usize::from(member.0)).map_or(0, |p| p.facts.stored_bytes);
    let fingerprints = expected_parity(code, data);
    for &(member, stored_bytes, sums) in parities {
        let expected =
            flow::stored_bytes(code, geometry, Member(member), length).map_err(DecideError::from)?;
        if stored_bytes != expected {
            return Err(invalid("a parity of the stripe has a wrong length"));
        }
        let index = usize::from(member) - code.k();
        let expected = fingerprints.as_ref().and_then(|list| list.get(index)).copied();
        if expected.is_some() && sums.fingerprint != expected {
            let code = code.name().to_owned();
            return Err(CoordinatorError::WrongParity { stripe, member: usize::from(member), code });
        }
    }
    Ok(())
}

fn invalid(what: &str) -> CoordinatorError {
    CoordinatorError::Invalid(what.to_owned())
}
