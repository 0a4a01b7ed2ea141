//! A flow is planned and driven; helpers that fail or hold it up are gone around while the requestors keep what they have.

use super::outcome::{Flown, Made};
use super::{Attempt, Noted, Wanted, held_or, lacks_nodes, scheme, token};
use crate::cluster::Word;
use crate::error::{CoordinatorError, Result};
use catalog::{Intent, Purpose};
use gf::CHUNK_BYTES;
use model::{BlockCopy, BlockFacts, BlockId, Cause, Fault, Flaw, NodeId, Peer, Placement};
use plan::decide::{DecideError, InTheory, Next, Price, RepairPlan, RepairSpec, SeveralPlan, Usual, World};
use std::collections::BTreeSet;
use std::sync::MutexGuard;
use std::time::{Duration, Instant};
use wire::codec::plan::participants;
use wire::proto;

/// A flow that began when nobody knew what is usual is given up, and begun again where it was, once it has taken so many
/// times what is usual by then: its driver looks for whoever holds it up.
const OVERDUE: u32 = 3;

/// So often that is looked at.
const OVERDUE_EVERY: Duration = Duration::from_millis(500);

impl Attempt<'_> {
    /// Lets the blocks be built, around every helper that fails meanwhile. `None`: each is better made by itself.
    pub(super) async fn build_mending(&mut self, noted: &mut Noted) -> Result<Option<Made>> {
        if let Wanted::Coded(_) = self.wanted {
            return self.encode(noted).await.map(Some);
        }
        let driver = noted.order.writes.first().map_or(NodeId(0), |&(_, node)| node);
        let requestors: Vec<Peer> = noted.order.writes.iter().map(|&(_, node)| node.into()).collect();
        loop {
            let era = self.usual().era();
            let flown = self.build(noted, driver, |view| self.plan(view, noted)).await;
            let fault = match flown.map(|flown| flown.map(Made::from)) {
                Err(CoordinatorError::Flow(fault)) if self.course.is_mendable(&fault, &requestors) => fault,
                // Nothing was begun: it is still the same attempt.
                Err(error)
                    if lacks_nodes(&error) && (self.course.wait_for_slow() || self.course.pardon()) =>
                {
                    continue;
                }
                result => return result,
            };
            self.note_fault(fault, &requestors, era).await;
            self.mend(noted).await?;
        }
    }

    /// Whom to go around from now on.
    async fn note_fault(&mut self, mut fault: Fault, requestors: &[Peer], era: u64) {
        let (wanted, noted, is_slow) = (self.wanted, self.noted, fault.cause == Cause::Slow);
        let is_void = is_slow && self.usual().era() != era;
        let what = match is_slow {
            false => "a helper failed: mending",
            true if is_void => "rates were changed meanwhile: nobody is to blame",
            true => "a helper is slow: going around it",
        };
        tracing::info!(%wanted, noted, error = %fault, "{what}");
        self.job.say(format!("attempt {noted} to {wanted} failed: {fault}; the next one mends it"));
        if !is_slow {
            self.with.looks.learn(&fault, Word::Flow);
        }
        fault.suspect = fault.suspect.filter(|_| !is_void);
        if let Next::Mend { slow: Some(node) } = self.course.broke(&fault, requestors) {
            self.with.cluster.health.held_up(node);
            // Whichever end of a link is slow is the one that is met twice.
            let other = fault.suspect.and_then(|(_, to)| to.node()).filter(|to| *to != node);
            if let Some(other) = other.filter(|to| self.course.doubted().contains(to)) {
                self.with.cluster.health.held_up(other);
            }
        }
    }

    /// Notes the next attempt, for the same copies at the same requestors.
    async fn mend(&mut self, noted: &mut Noted) -> Result<()> {
        let intent = noted.intent.clone();
        noted.intent = self.with.records.run(move |catalog| catalog.mend(&intent)).await?;
        self.noted = noted.intent.attempt;
        // As things are now: a copy that was found damaged is not listed any more.
        let blocks: Vec<BlockId> = noted.order.writes.iter().map(|&(block, _)| block).collect();
        let look = move |c: &catalog::Catalog| blocks.iter().map(|&block| c.placement(block)).collect();
        noted.order.blocks = self.with.records.run(look).await?;
        Ok(())
    }

    /// Plans a flow and runs it.
    pub(super) async fn build(
        &self,
        noted: &Noted,
        driver: NodeId,
        plan: impl Fn(&World) -> Result<Option<RepairPlan>>,
    ) -> Result<Option<Flown>> {
        let view = self.with.cluster.view();
        let Some(mut plan) = plan(&view)? else { return Ok(None) };
        let block_bytes = plan.planned.plan.flow.geometry.block_bytes;
        // Where others could help, a flow is not to take much longer than usual.
        let watched = plan.price.filter(|_| plan.has_spares && self.course.watches());
        let expected = watched.and_then(|price| self.usual().expected(in_theory(&price, block_bytes)));
        plan.planned.plan.expected = expected;
        self.with.cluster.health.mark(&plan.planned.plan.flow, driver.into());
        // Where many run, each says little.
        let mut progress = |done, total| {
            if !self.options.among_many {
                self.job.slices(done, total);
            }
        };
        let drive = self.with.cluster.fleet.drive(&view, driver, &plan.planned.plan, &mut progress);
        let in_time = async {
            tokio::select! {
                result = drive => result,
                () = self.overdue(watched, block_bytes), if expected.is_none() => {
                    let what = "it takes far longer than others, and began before that was known";
                    Err(Fault::new(Cause::Slow, what))
                }
            }
        };
        let result = held_or(self.job, in_time).await?;
        if let Purpose::Repair { .. } = noted.intent.purpose {
            let blocks: Vec<BlockId> = noted.order.writes.iter().map(|&(block, _)| block).collect();
            self.with.audit.note(&view, &plan, &blocks, result.as_ref()).await?;
        }
        let result = result?;
        if let Some(price) = plan.price.filter(|_| result.kept_slices == 0) {
            self.usual().note(in_theory(&price, block_bytes), Duration::from_micros(result.verified_us));
        }
        self.tell((&plan, driver), noted, &result);
        Ok(Some(Flown { plan: plan.planned.plan, cost: plan.planned.cost, result }))
    }

    /// Around those who are slow or failed, and where others suffice around those who are only doubted.
    fn plan(&self, view: &World, noted: &Noted) -> Result<Option<RepairPlan>> {
        let (around, doubted) = (self.course.around(), self.course.doubted());
        if !doubted.is_subset(&around)
            && let Ok(plan) = self.plan_around(view, noted, &around.union(doubted).copied().collect())
        {
            return Ok(plan);
        }
        self.plan_around(view, noted, &around)
    }

    fn plan_around(
        &self,
        view: &World,
        noted: &Noted,
        avoid: &BTreeSet<NodeId>,
    ) -> Result<Option<RepairPlan>> {
        match self.plan_of_sound_copies(view, noted, avoid) {
            Err(CoordinatorError::Decide(DecideError::Unrecoverable { .. })) if self.may_salvage(noted) => {
                self.plan_of_damaged_copies(view, noted, avoid).map(Some)
            }
            // Each block may still be assembled alone.
            Err(CoordinatorError::Decide(DecideError::Unrecoverable { .. }))
                if noted.order.blocks.len() > 1 && noted.order.blocks.iter().any(has_damaged_copies) =>
            {
                Ok(None)
            }
            planned => planned,
        }
    }

    /// Whether the block may be assembled from the sound parts of damaged copies: its digest and fingerprint are known, so the result can be
    /// verified.
    fn may_salvage(&self, noted: &Noted) -> bool {
        let [block] = &noted.order.blocks[..] else { return false };
        block.facts.sums.digest.is_some() && block.facts.sums.fingerprint.is_some()
    }

    /// Plans a repair that also reads damaged copies of the block and of its stripe, in slices of one chunk. A helper that meets a damaged chunk
    /// is replaced. When none is left, all are asked again for the chunks that follow.
    fn plan_of_damaged_copies(
        &self,
        view: &World,
        noted: &Noted,
        avoid: &BTreeSet<NodeId>,
    ) -> Result<RepairPlan> {
        let planner = &self.with.planner;
        let (Some(block), Some(&copy)) = (noted.order.blocks.first(), noted.intent.copies.first()) else {
            return Err(CoordinatorError::Bug("an order without a block".to_owned()));
        };
        let placement = block.in_the_last_resort();
        let slices = planner.slice_length(CHUNK_BYTES as u32)?;
        let spec = RepairSpec { slices, scheme: None, moves: true, ..self.spec(&noted.intent, copy)? };
        Ok(planner.repair(view, &(&placement, spec), avoid, &mut token)?)
    }

    fn plan_of_sound_copies(
        &self,
        view: &World,
        noted: &Noted,
        avoid: &BTreeSet<NodeId>,
    ) -> Result<Option<RepairPlan>> {
        let planner = &self.with.planner;
        let specs = noted.intent.copies.iter().map(|copy| self.spec(&noted.intent, *copy));
        let specs = noted.order.blocks.iter().zip(specs.collect::<Result<Vec<_>>>()?).collect::<Vec<_>>();
        if let [target] = &specs[..] {
            return Ok(Some(planner.repair(view, target, avoid, &mut token)?));
        }
        match planner.repair_several(view, &specs, avoid, &mut token)? {
            SeveralPlan::OnePass(plan) => Ok(Some(*plan)),
            SeveralPlan::EachAlone { why } => {
                self.job.say(format!("{} blocks are repaired each alone: {why}", specs.len()));
                Ok(None)
            }
        }
    }

    fn spec(&self, intent: &Intent, copy: BlockCopy) -> Result<RepairSpec> {
        Ok(RepairSpec {
            scheme: scheme(&self.options.scheme)?,
            slices: self.with.planner.slice_length(self.options.slice_bytes)?,
            verify: self.options.verify,
            requestor: copy.node,
            scheduled: self.options.among_many,
            generation: copy.generation,
            birth: intent.birth,
            flow: self.flow,
            attempt: intent.attempt,
            moves: self.options.copies(),
            helpers: self.options.helpers.clone(),
            explained: false,
        })
    }

    /// Says what is durable where, by which scheme and why.
    fn tell(&self, (plan, driver): (&RepairPlan, NodeId), noted: &Noted, result: &proto::DriveResult) {
        let why = plan.why.as_ref().map_or(String::new(), |why| format!("; by {}, {why}", plan.scheme));
        let kept = match result.kept_slices {
            0 => String::new(),
            slices => format!("; {slices} slices were kept from broken attempts"),
        };
        let copies = &noted.intent.copies;
        let written = plan.planned.plan.binding.writes.values().next().map(|write| write.block);
        let encoded = written.and_then(|block| noted.intent.purpose.stripe_of(block));
        let places = match (encoded, &copies[..]) {
            (Some(new), _) => format!("stripe {} encoded at {driver}", new.stripe),
            (_, [only]) => format!("block {} is durable on {}", only.block, only.node),
            (_, several) => {
                let places: Vec<String> =
                    several.iter().map(|copy| format!("{} on {}", copy.block, copy.node)).collect();
                format!("{} blocks are durable: {}", several.len(), places.join(", "))
            }
        };
        let repaired = copies.first().filter(|_| matches!(noted.intent.purpose, Purpose::Repair { .. }));
        self.job.emit(proto::JobEvent {
            state: "running".to_owned(),
            message: format!("{places}{why}{kept}"),
            flow: Some(result.clone()),
            block: repaired.map(|copy| copy.block.to_vec()).unwrap_or_default(),
            scheme: plan.scheme.clone(),
            participants: participants(&plan.planned.plan.binding.participants),
            ..Default::default()
        });
    }

    /// What is usual for a repair like this one.
    fn usual(&self) -> MutexGuard<'_, Usual> {
        self.with.usual.of(self.options.among_many)
    }

    /// Ends when a flow of this price, which begins now, has taken far longer than what has become usual meanwhile. Never
    /// ends if the flow has no price.
    async fn overdue(&self, price: Option<Price>, block_bytes: u64) {
        let Some(price) = price else { return std::future::pending().await };
        let began = Instant::now();
        loop {
            tokio::time::sleep(OVERDUE_EVERY).await;
            let expected = self.usual().expected(in_theory(&price, block_bytes));
            if expected.is_some_and(|expected| began.elapsed() > expected * OVERDUE) {
                return;
            }
        }
    }
}

/// Whether copies of the block, or of its stripe, are damaged and may be partly sound.
fn has_damaged_copies(placement: &Placement) -> bool {
    let is_damaged = |facts: &BlockFacts| facts.flawed.iter().any(|flawed| flawed.flaw == Flaw::Damaged);
    let of_stripe = placement.stripe.iter().flat_map(|stripe| stripe.stored()).map(|(_, facts)| facts);
    of_stripe.chain([&placement.facts]).any(is_damaged)
}

fn in_theory(price: &Price, block_bytes: u64) -> InTheory {
    InTheory { seconds: price.seconds(), slot_bytes: price.timeslots * block_bytes as f64 }
}
