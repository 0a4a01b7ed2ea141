//! Archival of an object: its blocks, k at a time, become stripes; then the surplus replicas go.

use super::{Job, RETRY_PAUSE, in_parallel};
use crate::catalog::rows::{BlockCopy, Location, Sums};
use crate::catalog::{NewStripe, PARITY_GENERATION, Placement, StagedParity};
use crate::config::{MAX_ATTEMPTS, PARALLEL_ENCODINGS};
use crate::error::{CoordinatorError, Result};
use crate::health::View;
use crate::nodes::blamed;
use crate::planner::{EncodePlan, RepairSpec, SliceLength, expected_parity, is_made, kept};
use crate::shared::{Shared, now_ms};
use codes::Code;
use flow::FlowPlan;
use model::{BlockId, Cause, Fault, FlowId, NodeId, StripeId};
use plan::Archival;
use std::collections::BTreeSet;
use std::sync::Arc;
use wire::codec::plan::participants;
use wire::proto;

/// The job.
pub(super) async fn run(
    shared: &Arc<Shared>,
    job: &Arc<Job>,
    name: &str,
    code: &str,
    slice_bytes: u32,
) -> Result<String> {
    let code = archival_code(shared, code)?;
    let object = name.to_owned();
    let (_, blocks) = shared.catalog.run(move |catalog| catalog.object(&object)).await?;
    let groups = groups(&blocks, &code, name)?;
    if groups.is_empty() {
        return Ok(format!("{name:?} is archived as {} already, or empty: nothing to do", code.name()));
    }
    job.expect(groups.len() as u64);
    job.say(format!("{} stripes of {code} to encode", groups.len()));
    let count = groups.len();
    let work = |data: Vec<BlockId>| {
        let (shared, job, code) = (Arc::clone(shared), Arc::clone(job), code.clone());
        async move { encode_stripe(&shared, &job, &code, data, slice_bytes).await }
    };
    let mut failure = None;
    let each = |outcome: Result<()>| {
        job.count(outcome.is_ok());
        if let Err(error) = outcome {
            job.say(format!("a stripe could not be encoded: {error}"));
            failure.get_or_insert(error);
        }
    };
    let whole = in_parallel(&job.task, groups, PARALLEL_ENCODINGS, work, each).await;
    match failure {
        Some(error) => Err(error),
        None if whole => Ok(format!("{count} stripes of {code} encoded")),
        None => Err(CoordinatorError::Conflict(format!("the archival of {name:?} was stopped"))),
    }
}

/// The code of that name, if objects can be archived with it on the nodes that live.
pub(crate) fn archival_code(shared: &Shared, name: &str) -> Result<Code> {
    let code = shared.planner.codes.get(name)?;
    if !code.is_systematic() || code.n() == code.k() || code.name().starts_with("rep-") {
        return Err(CoordinatorError::Invalid(format!(
            "{code} is no code for archival: its first k blocks must be the data, and parities must follow"
        )));
    }
    let alive = shared.health.view().usable(&BTreeSet::new()).len();
    if alive < code.n() {
        return Err(CoordinatorError::CodeTooWide { code: code.to_string(), needed: code.n(), alive });
    }
    Ok(code)
}

/// The object's blocks, k at a time, without the groups that are stripes already.
pub(crate) fn groups(blocks: &[Placement], code: &Code, name: &str) -> Result<Vec<Vec<BlockId>>> {
    for stripe in blocks.iter().filter_map(|p| p.stripe.as_ref()) {
        if stripe.row.code != code.name() {
            return Err(CoordinatorError::Conflict(format!(
                "{name:?} is archived as {} already; get it and put it again to change the code",
                stripe.row.code
            )));
        }
    }
    let open = |group: &&[Placement]| group.iter().any(|p| p.stripe.is_none() && p.row.stored_bytes > 0);
    Ok(blocks.chunks(code.k()).filter(open).map(|g| g.iter().map(|p| p.block).collect()).collect())
}

/// One stripe, in a bounded number of attempts, each around the nodes that failed before.
async fn encode_stripe(
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
        avoid: BTreeSet::new(),
    };
    loop {
        encoding.attempt += 1;
        let error = match encoding.run().await {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        let (stripe, now) = (encoding.stripe, now_ms());
        shared.catalog.run(move |catalog| catalog.abort_encoding(stripe, now)).await?;
        if encoding.attempt == MAX_ATTEMPTS {
            return Err(error);
        }
        match &error {
            CoordinatorError::Flow(fault) if fault.cause != Cause::Invalid => {
                shared.learn(fault).await;
                encoding.avoid.extend(blamed(fault));
            }
            // Too few nodes, or no replica of a block: better a suspect than none.
            CoordinatorError::Nodes(_) | CoordinatorError::Conflict(_) if !encoding.avoid.is_empty() => {
                encoding.avoid.clear();
            }
            CoordinatorError::WrongParity { .. } => {}
            _ => return Err(error),
        }
        tracing::info!(%stripe, attempt = encoding.attempt, %error, "encoding failed, trying again");
        job.say(format!("attempt {} to encode a stripe failed: {error}", encoding.attempt));
        tokio::time::sleep(RETRY_PAUSE * encoding.attempt).await;
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
    avoid: BTreeSet<u32>,
}

impl Encoding<'_> {
    async fn run(&self) -> Result<()> {
        let Encoding { shared, code, .. } = *self;
        let view = shared.health.view();
        let blocks = self.data.clone();
        let load = move |c: &crate::catalog::Catalog| blocks.iter().map(|&b| c.placement(b)).collect();
        let data: Vec<Placement> = shared.catalog.run(load).await?;
        let archival = shared.planner.archival(&view, code, &data, &self.avoid)?;
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
        let result = shared.nodes.drive(&view, archiver, &planned.plan, progress).await?;
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
        let plan = self.shared.planner.copy(view, placement, &spec, &self.avoid)?.planned.plan;
        let result = self.shared.nodes.drive(view, copy.node, &plan, |_, _| {}).await?;
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
