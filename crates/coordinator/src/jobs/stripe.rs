//! Repair of stripes: all lost blocks of one in one pass, each to a node of its own (RP §4.4). A helper that fails is gone
//! around, as in the repair of one block. Each block is committed by itself; one that failed is repaired alone.

use super::repair::{
    RepairOptions, Repaired, check_staged, is_mendable, kept, repair_block, scheme, throw_away,
};
use super::{Job, RETRY_PAUSE};
use crate::audit;
use crate::catalog::rows::Sums;
use crate::catalog::{Placement, RepairTicket};
use crate::config::{MAX_ATTEMPTS, MAX_MENDS};
use crate::error::{CoordinatorError, Result};
use crate::health::View;
use crate::nodes::blamed;
use crate::planner::{RepairPlan, RepairSpec, SeveralPlan, Target};
use crate::shared::{Receiving, Shared, now_ms};
use model::{BlockId, Cause, Fault, FlowId};
use std::collections::BTreeSet;
use std::sync::Arc;
use wire::codec::plan::participants;
use wire::proto;

/// The job: the stripes of some blocks, one after another; of each what is lost or, to measure, the `members` given.
pub(super) async fn run(
    shared: &Arc<Shared>,
    job: &Arc<Job>,
    blocks: Vec<BlockId>,
    members: Vec<u16>,
    options: RepairOptions,
) -> Result<String> {
    let mut repaired = 0;
    for block in blocks {
        repaired += repair_stripe(shared, job, block, &members, &options).await?;
    }
    Ok(match (repaired, options.discard) {
        (0, _) => "no block is missing: nothing to repair".to_owned(),
        (_, true) => format!("{repaired} blocks were rebuilt, verified and thrown away"),
        (_, false) => format!("{repaired} blocks are whole again"),
    })
}

/// How many blocks were made again.
async fn repair_stripe(
    shared: &Arc<Shared>,
    job: &Arc<Job>,
    block: BlockId,
    members: &[u16],
    options: &RepairOptions,
) -> Result<u64> {
    let (flow, avoid) = (FlowId(rand::random()), BTreeSet::new());
    let mut pass = Pass { shared, job, block, members, options, flow, attempts: 0, avoid };
    let mut tries = 0;
    loop {
        tries += 1;
        let error = match pass.run().await {
            Ok(Outcome { made, alone }) => {
                made.iter().for_each(|_| job.count(true));
                let mut repaired = made.len() as u64;
                for block in alone {
                    let done = repair_block(shared, job, block, options).await;
                    job.count(done.is_ok());
                    repaired += u64::from(done? == Repaired::Yes);
                }
                return Ok(repaired);
            }
            Err(error) => error,
        };
        if tries == MAX_ATTEMPTS {
            return Err(error);
        }
        match &error {
            CoordinatorError::Flow(fault) if fault.cause != Cause::Invalid => pass.learn(fault).await,
            // Chosen from a view that was out of date.
            CoordinatorError::Overtaken(_) => {}
            // Better a suspect than none.
            CoordinatorError::Unrecoverable { .. } | CoordinatorError::Nodes(_) if !pass.avoid.is_empty() => {
                pass.avoid.clear();
            }
            _ => return Err(error),
        }
        let attempt = pass.attempts;
        tracing::info!(%block, attempt, %error, "the repair of a stripe failed, trying again");
        job.say(format!("attempt {attempt} to repair the stripe of block {block} failed: {error}"));
        tokio::time::sleep(RETRY_PAUSE * tries).await;
    }
}

/// What came of one pass.
#[derive(Default)]
struct Outcome {
    made: Vec<BlockId>,
    /// To be repaired alone.
    alone: Vec<BlockId>,
}

/// The repair of a stripe, over all its attempts.
struct Pass<'a> {
    shared: &'a Arc<Shared>,
    job: &'a Arc<Job>,
    block: BlockId,
    members: &'a [u16],
    options: &'a RepairOptions,
    flow: FlowId,
    /// Attempts that were noted so far.
    attempts: u32,
    /// Nodes that failed.
    avoid: BTreeSet<u32>,
}

/// A block to be made, and where.
struct Lost {
    placement: Placement,
    ticket: RepairTicket,
    _receiving: Receiving,
}

impl Pass<'_> {
    /// What a fault says of nodes: they are gone around from now on.
    async fn learn(&mut self, fault: &Fault) {
        self.shared.learn(fault).await;
        self.avoid.extend(blamed(fault));
    }

    async fn run(&mut self) -> Result<Outcome> {
        let view = self.shared.health.view();
        let block = self.block;
        let placement = self.shared.catalog.run(move |catalog| catalog.placement(block)).await?;
        if placement.stripe.is_none() {
            self.job.add(1);
            return Ok(Outcome { alone: vec![block], ..Outcome::default() });
        }
        let lost = lost(&placement, &view, self.members)?;
        if self.attempts == 0 {
            self.job.add(lost.len() as u64);
        }
        self.attempts += 1;
        if let [one] = &lost[..] {
            return Ok(Outcome { alone: vec![one.block], ..Outcome::default() });
        }
        if lost.is_empty() {
            return Ok(Outcome::default());
        }
        let mut begun = Vec::new();
        match self.begin(&view, lost, &mut begun).await {
            Ok(()) => self.carry(&view, begun).await,
            Err(error) => {
                self.abort(&begun).await?;
                Err(error)
            }
        }
    }

    /// Chooses a node for each block, no two alike, and notes the attempts.
    async fn begin(&self, view: &View, lost: Vec<Placement>, begun: &mut Vec<Lost>) -> Result<()> {
        let load = |node: u32| {
            let stored = view.node(node).map_or(0, |n| n.status.blocks);
            (self.shared.received_by(node) << 32) + stored.min(u64::from(u32::MAX))
        };
        let nodes = self.shared.planner.requestors(view, &lost, self.options.requestor, &self.avoid, load)?;
        for (placement, node) in lost.into_iter().zip(nodes) {
            let (block, flow, attempt, now) = (placement.block, self.flow, self.attempts, now_ms());
            let begin = move |c: &crate::catalog::Catalog| c.begin_repair(block, flow, attempt, node, now);
            let ticket = self.shared.catalog.run(begin).await?;
            begun.push(Lost { placement, ticket, _receiving: self.shared.receive(node) });
        }
        Ok(())
    }

    /// Plans and runs the flow, and commits what it made.
    async fn carry(&mut self, view: &View, mut begun: Vec<Lost>) -> Result<Outcome> {
        let result = match self.build_mending(&mut begun).await {
            Ok(Some(result)) => result,
            Ok(None) => {
                self.abort(&begun).await?;
                let alone = begun.iter().map(|lost| lost.ticket.block).collect();
                return Ok(Outcome { alone, ..Outcome::default() });
            }
            Err(error) => {
                self.abort(&begun).await?;
                return Err(error);
            }
        };
        let mut outcome = Outcome::default();
        for lost in &begun {
            let block = lost.ticket.block;
            match check_staged(&result, &lost.placement, &lost.ticket) {
                Ok(sums) if !self.options.discard => match self.commit(lost, sums).await {
                    Ok(()) => outcome.made.push(block),
                    // It came back, or was deleted: the copy is garbage already.
                    Err(CoordinatorError::Overtaken(why)) => tracing::info!(%block, why, "not committed"),
                    Err(error) => return Err(error),
                },
                Ok(_) => {
                    self.abort(std::slice::from_ref(lost)).await?;
                    throw_away(self.shared, view, &lost.placement, &lost.ticket).await?;
                    outcome.made.push(block);
                }
                Err(error) => {
                    tracing::warn!(%block, %error, "not made with its stripe; it is repaired alone");
                    self.abort(std::slice::from_ref(lost)).await?;
                    outcome.alone.push(block);
                }
            }
        }
        Ok(outcome)
    }

    /// Lets the blocks be built, around every helper that fails meanwhile. As [`Pass::build`].
    async fn build_mending(&mut self, begun: &mut [Lost]) -> Result<Option<proto::DriveResult>> {
        let requestors: Vec<u32> = begun.iter().map(|lost| lost.ticket.target.node).collect();
        let block = self.block;
        for _ in 0..MAX_MENDS {
            let error = match self.build(&self.shared.health.view(), begun).await {
                Err(CoordinatorError::Flow(fault)) if is_mendable(&fault, &requestors) => fault,
                result => return result,
            };
            self.learn(&error).await;
            let attempt = self.attempts;
            tracing::info!(%block, attempt, %error, "a helper failed: mending");
            self.job.say(format!(
                "attempt {attempt} to repair the stripe of block {block} failed: {error}; the next one mends it"
            ));
            self.attempts += 1;
            for lost in begun.iter_mut() {
                let (broken, block) = (lost.ticket, lost.ticket.block);
                lost.ticket = self.shared.catalog.run(move |catalog| catalog.mend_repair(&broken)).await?;
                // As things are now: a copy that was found damaged is not listed any more.
                lost.placement = self.shared.catalog.run(move |catalog| catalog.placement(block)).await?;
            }
        }
        self.build(&self.shared.health.view(), begun).await
    }

    /// `None`: each block is better repaired alone.
    async fn build(&self, view: &View, begun: &[Lost]) -> Result<Option<proto::DriveResult>> {
        let spec = |lost: &Lost| -> Result<RepairSpec> {
            Ok(RepairSpec {
                scheme: scheme(&self.options.scheme)?,
                slices: self.shared.planner.slice_length(self.options.slice_bytes)?,
                verify: self.options.verify,
                requestor: lost.ticket.target.node,
                scheduled: false,
                moves: false,
                helpers: self.options.helpers.clone(),
                explained: false,
                generation: lost.ticket.target.generation,
                flow: self.flow,
                attempt: lost.ticket.attempt,
            })
        };
        let mut targets: Vec<Target<'_>> = Vec::new();
        for lost in begun {
            targets.push((&lost.placement, spec(lost)?));
        }
        let plan = self.shared.planner.repair_several(view, &targets, &self.avoid)?;
        let plan = match plan {
            SeveralPlan::OnePass(plan) => *plan,
            SeveralPlan::EachAlone { why } => {
                self.job.say(format!("{} blocks are repaired each alone: {why}", begun.len()));
                return Ok(None);
            }
        };
        let driver = targets[0].1.requestor;
        self.shared.planner.mark(&plan.planned.plan.flow, driver);
        let participants = participants(&plan.planned.plan.binding.participants);
        let progress = |done, total| self.job.task.note(|r| r.detail = format!("{done} of {total} slices"));
        let result = self.shared.nodes.drive(view, driver, &plan.planned.plan, progress).await;
        let blocks: Vec<BlockId> = begun.iter().map(|lost| lost.ticket.block).collect();
        audit::note(self.shared, view, &plan, &blocks, result.as_ref()).await?;
        let (result, RepairPlan { scheme, why, .. }) = (result?, plan);
        let why = why.map_or(String::new(), |why| format!("; by {scheme}, {why}"));
        let places = begun.iter().map(|l| format!("{} on node-{}", l.ticket.block, l.ticket.target.node));
        let places = places.collect::<Vec<_>>().join(", ");
        let kept = kept(&result);
        self.job.emit(proto::JobEvent {
            state: "running".to_owned(),
            message: format!("{} blocks are durable: {places}{why}{kept}", begun.len()),
            flow: Some(result.clone()),
            block: begun[0].ticket.block.to_vec(),
            scheme,
            participants,
            ..Default::default()
        });
        Ok(Some(result))
    }

    async fn commit(&self, lost: &Lost, sums: Sums) -> Result<()> {
        let (ticket, living, now_ms) = (lost.ticket, self.shared.health.view().living(), now_ms());
        self.shared.catalog.run(move |c| c.commit_repair(&ticket, &sums, None, &living, now_ms)).await
    }

    async fn abort(&self, begun: &[Lost]) -> Result<()> {
        for ticket in begun.iter().map(|lost| lost.ticket) {
            let now_ms = now_ms();
            self.shared.catalog.run(move |c| c.abort_repair(&ticket, now_ms)).await?;
        }
        Ok(())
    }
}

/// The blocks of a stripe that are to be made: those of which no copy lives, or the `members` given.
pub(crate) fn lost(placement: &Placement, view: &View, members: &[u16]) -> Result<Vec<Placement>> {
    let Some(stripe) = &placement.stripe else { return Ok(Vec::new()) };
    let living = view.living();
    let mut lost = Vec::new();
    for (index, member) in (0..).zip(&stripe.members) {
        let Some((block, row)) = member else { continue };
        if members.contains(&index) || (members.is_empty() && !row.lives(&living)) {
            let stripe = crate::catalog::StripePlacement { index, ..stripe.clone() };
            lost.push(Placement { block: *block, row: row.clone(), stripe: Some(stripe) });
        }
    }
    if !members.is_empty() && lost.len() < members.len() {
        return Err(CoordinatorError::Invalid(format!(
            "the stripe has blocks 0 to {}, and each can be named once; those of a short stripe that are empty cannot",
            stripe.members.len().saturating_sub(1)
        )));
    }
    Ok(lost)
}
