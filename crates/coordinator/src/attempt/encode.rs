//! Encoding of a stripe: parities are made by one flow, data blocks that cannot stay where they are are copied before, and the
//! catalog takes all of it at once.

use super::{after, held_or, numbers};
use crate::catalog::rows::{BlockCopy, Location, Sums};
use crate::catalog::{Catalog, NewStripe, PARITY_GENERATION, Placement, StagedParity};
use crate::error::{CoordinatorError, Result};
use crate::health::View;
use crate::jobs::Job;
use crate::planner::{EncodePlan, RepairSpec, SliceLength, expected_parity, is_made, kept};
use crate::shared::{Shared, now_ms};
use codes::Code;
use flow::FlowPlan;
use model::{BlockId, Cause, Fault, FlowId, NodeId, StripeId};
use plan::Archival;
use plan::decide::{Bounds, Course};
use std::collections::BTreeSet;
use std::sync::Arc;
use wire::codec::plan::participants;
use wire::proto;

/// One stripe, in a bounded number of attempts, each around the nodes that failed before.
pub(crate) async fn encode_stripe(
    shared: &Arc<Shared>,
    job: &Arc<Job>,
    code: &Code,
    data: Vec<BlockId>,
    slice_bytes: u32,
) -> Result<()> {
    let mut encoding = Encoding {
        shared,
        job,
        code,
        data,
        slice_bytes: shared.planner.slice_length(slice_bytes)?.of_one_lane,
        stripe: StripeId(rand::random()),
        flow: FlowId(rand::random()),
        attempt: 0,
        course: Course::new(Bounds::ENCODING, false),
    };
    loop {
        encoding.attempt += 1;
        let error = match encoding.run().await {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        let (stripe, now) = (encoding.stripe, now_ms());
        shared.catalog.run(move |catalog| catalog.abort_encoding(stripe, now)).await?;
        let Some(pause) = after(shared, &error, &mut encoding.course).await else { return Err(error) };
        tracing::info!(%stripe, attempt = encoding.attempt, %error, "encoding failed, trying again");
        job.say(format!("attempt {} to encode a stripe failed: {error}", encoding.attempt));
        pause.await;
    }
}

struct Encoding<'a> {
    shared: &'a Arc<Shared>,
    job: &'a Arc<Job>,
    code: &'a Code,
    data: Vec<BlockId>,
    slice_bytes: u32,
    stripe: StripeId,
    flow: FlowId,
    attempt: u32,
    course: Course,
}

impl Encoding<'_> {
    async fn run(&self) -> Result<()> {
        let Encoding { shared, code, .. } = *self;
        let view = shared.health.view();
        let blocks = self.data.clone();
        let load = move |c: &Catalog| blocks.iter().map(|&b| c.placement(b)).collect();
        let data: Vec<Placement> = shared.catalog.run(load).await?;
        let archival = shared.planner.archival(&view, code, &data, &self.avoid())?;
        let new = self.stripe(&data, &archival);
        let (noted, now) = (new.clone(), now_ms());
        let copies = shared.catalog.run(move |catalog| catalog.begin_encoding(&noted, now)).await?;
        let moves: Vec<BlockCopy> = copies.into_iter().filter(|c| self.data.contains(&c.block)).collect();
        for copy in &moves {
            self.relocate(&view, &data, copy).await?;
        }
        let encode =
            EncodePlan { code, new: &new, data: &data, archival: &archival, slice_bytes: self.slice_bytes };
        let planned = shared.planner.encode(&view, &encode)?;
        let participants = participants(&planned.plan.binding.participants);
        let archiver = archival.archiver.0;
        let progress = |done, total| self.job.task.note(|r| r.detail = format!("{done} of {total} slices"));
        let drive = shared.nodes.drive(&view, archiver, &planned.plan, progress);
        let result = held_or(self.job, drive).await??;
        let parities = self.check(&planned.plan, &result, &new, &data)?;
        self.job.emit(proto::JobEvent {
            state: "running".to_owned(),
            message: format!("stripe {} encoded at node-{archiver}", self.stripe),
            flow: Some(result),
            scheme: planned.plan.binding.scheme.clone(),
            participants,
            ..Default::default()
        });
        let moved = |block: BlockId| {
            let copy = moves.iter().find(|c| c.block == block);
            copy.map(|c| Location { node: c.node, generation: c.generation })
        };
        let kept = kept(&data, &archival, moved)?;
        let now = now_ms();
        shared.catalog.run(move |catalog| catalog.commit_encoding(&new, &kept, &parities, now)).await
    }

    fn avoid(&self) -> BTreeSet<u32> {
        numbers(self.course.around())
    }

    /// The stripe with new parity ids, and what is to be written where.
    fn stripe(&self, data: &[Placement], archival: &Archival) -> NewStripe {
        let code = self.code;
        let parities: Vec<Option<BlockId>> = (code.k()..code.n())
            .map(|index| is_made(code, data, index).then(|| BlockId(rand::random())))
            .collect();
        let moved = data.iter().zip(&archival.data).filter(|(_, kept)| kept.read_from != kept.stored_at);
        let moved = moved.map(|(placement, kept)| (placement.block, kept.stored_at.0));
        let made =
            parities.iter().zip(&archival.parities).filter_map(|(block, node)| Some(((*block)?, node.0)));
        let absent = std::iter::repeat_n(None, code.k() - data.len());
        NewStripe {
            stripe: self.stripe,
            code: code.name().to_owned(),
            block_bytes: data.iter().map(|p| p.row.stored_bytes).max().unwrap_or(0),
            members: self
                .data
                .iter()
                .map(|&block| Some(block))
                .chain(absent)
                .chain(parities.iter().copied())
                .collect(),
            writes: moved.chain(made).collect(),
            flow: self.flow,
            attempt: self.attempt,
        }
    }

    /// Copies a data block of which no replica could stay where it is.
    async fn relocate(&self, view: &View, data: &[Placement], copy: &BlockCopy) -> Result<()> {
        let placement = data.iter().find(|p| p.block == copy.block);
        let placement =
            placement.ok_or_else(|| CoordinatorError::Bug("a move of no data block".to_owned()))?;
        let spec = RepairSpec {
            scheme: None,
            slices: SliceLength::exactly(self.slice_bytes),
            verify: true,
            scheduled: false,
            requestor: copy.node,
            generation: copy.generation,
            flow: FlowId(rand::random()),
            attempt: 1,
            moves: false,
            helpers: Vec::new(),
            explained: false,
        };
        let plan = self.shared.planner.copy(view, placement, &spec, &self.avoid())?.planned.plan;
        let drive = self.shared.nodes.drive(view, copy.node, &plan, |_, _| {});
        let result = held_or(self.job, drive).await??;
        let is_it = |s: &proto::Staged| {
            let sums = Sums::from_wire(&s.digest, &s.fingerprint);
            (s.block.as_slice(), s.generation, s.stored_bytes)
                == (copy.block.to_bytes().as_slice(), copy.generation, placement.row.stored_bytes)
                && sums.is_some_and(|sums| sums.agrees(&placement.row.sums))
        };
        if result.staged.iter().any(is_it) {
            return Ok(());
        }
        let text = format!("node-{} did not store the block that was moved to it", copy.node);
        Err(Fault::new(Cause::WrongDigest, text)
            .suspecting(NodeId(copy.node), NodeId(copy.node))
            .about(copy.block)
            .into())
    }

    /// Every parity must be durable where it was planned, and its fingerprint what the generator makes of the data's.
    fn check(
        &self,
        plan: &FlowPlan,
        result: &proto::DriveResult,
        new: &NewStripe,
        data: &[Placement],
    ) -> Result<Vec<StagedParity>> {
        let expected = expected_parity(self.code, data);
        let planned_bytes = |block: BlockId| {
            plan.binding.writes.values().find(|write| write.block == block).map(|write| write.stored_bytes)
        };
        let parity = |(index, block): (usize, BlockId)| {
            let node = new.writes.iter().find(|(b, _)| *b == block).map_or(0, |(_, node)| *node);
            let lost = |what: &str| {
                let fault = Fault::new(Cause::WrongDigest, format!("node-{node} {what} parity {index}"));
                CoordinatorError::Flow(fault.suspecting(NodeId(node), NodeId(node)).about(block))
            };
            let is_it = |s: &&proto::Staged| s.block == block.to_bytes() && s.node == node;
            let staged = result.staged.iter().find(is_it).ok_or_else(|| lost("did not store"))?;
            let sums = Sums::from_wire(&staged.digest, &staged.fingerprint);
            let sums = sums.filter(|s| s.digest.is_some() && s.fingerprint.is_some());
            let sums = sums.ok_or_else(|| lost("reported no digest of"))?;
            if planned_bytes(block) != Some(staged.stored_bytes) || staged.generation != PARITY_GENERATION {
                return Err(lost("reported another length or generation of"));
            }
            let wanted = expected.as_ref().and_then(|list| list.get(index - self.code.k()).copied());
            if wanted.is_some_and(|wanted| sums.fingerprint != Some(wanted)) {
                let code = self.code.name().to_owned();
                return Err(CoordinatorError::WrongParity { stripe: self.stripe, member: index, code });
            }
            Ok(StagedParity { block, node, stored_bytes: staged.stored_bytes, sums })
        };
        let made = new.members.iter().enumerate().skip(self.code.k());
        made.filter_map(|(index, block)| Some((index, (*block)?))).map(parity).collect()
    }
}
