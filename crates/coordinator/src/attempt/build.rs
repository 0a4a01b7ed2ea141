//! A flow is planned and driven; helpers that fail or hold it up are gone around while the requestors keep what they have.

use super::{Attempt, Target, held_or, lacks_nodes, numbers, scheme};
use crate::audit;
use crate::error::{CoordinatorError, Result};
use crate::planner::{Price, RepairPlan, RepairSpec, SeveralPlan};
use model::{BlockId, Cause, Fault, NodeId, Peer};
use plan::decide::{InTheory, Next, Usual};
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
    pub(super) async fn build_mending(
        &mut self,
        targets: &mut [Target],
    ) -> Result<Option<proto::DriveResult>> {
        let requestors = targets.iter().map(|target| NodeId(target.ticket.target.node).into());
        let requestors: Vec<Peer> = requestors.collect();
        loop {
            let era = self.usual().era();
            let fault = match self.build(targets).await {
                Err(CoordinatorError::Flow(fault)) if self.course.is_mendable(&fault, &requestors) => fault,
                // Nothing was begun: it is still the same attempt.
                Err(error) if lacks_nodes(&error) && self.course.wait_for_slow() => continue,
                result => return result,
            };
            self.note_fault(fault, &requestors, era).await;
            self.mend(targets).await?;
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
        self.job.say(format!("attempt {noted} to repair {wanted} failed: {fault}; the next one mends it"));
        if !is_slow {
            self.shared.learn(&fault).await;
        }
        fault.suspect = fault.suspect.filter(|_| !is_void);
        if let Next::Mend { slow: Some(node) } = self.course.broke(&fault, requestors) {
            self.shared.health.held_up(node.0);
        }
    }

    /// Notes the next attempt, for the same copies at the same requestors.
    async fn mend(&mut self, targets: &mut [Target]) -> Result<()> {
        for target in targets {
            let (broken, block) = (target.ticket, target.ticket.block);
            target.ticket = self.shared.catalog.run(move |catalog| catalog.mend_repair(&broken)).await?;
            // As things are now: a copy that was found damaged is not listed any more.
            target.placement = self.shared.catalog.run(move |catalog| catalog.placement(block)).await?;
            self.noted = target.ticket.attempt;
        }
        Ok(())
    }

    /// Plans and runs the flow.
    async fn build(&self, targets: &[Target]) -> Result<Option<proto::DriveResult>> {
        let view = self.shared.health.view();
        let Some(mut plan) = self.plan(&view, targets)? else { return Ok(None) };
        let driver = targets.first().map_or(0, |target| target.ticket.target.node);
        let block_bytes = plan.planned.plan.flow.geometry.block_bytes;
        // Where others could help, a flow is not to take much longer than usual.
        let watched = plan.price.filter(|_| plan.has_spares && self.course.watches());
        let expected = watched.and_then(|price| self.usual().expected(in_theory(&price, block_bytes)));
        plan.planned.plan.expected = expected;
        self.shared.planner.mark(&plan.planned.plan.flow, driver);
        // Where many run, each says little.
        let progress = |done, total| {
            if !self.options.is_one_of_many() {
                self.job.slices(done, total);
            }
        };
        let drive = self.shared.nodes.drive(&view, driver, &plan.planned.plan, progress);
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
        let blocks: Vec<BlockId> = targets.iter().map(|target| target.ticket.block).collect();
        audit::note(self.shared, &view, &plan, &blocks, result.as_ref()).await?;
        let result = result?;
        if let Some(price) = plan.price.filter(|_| result.kept_slices == 0) {
            self.usual().note(in_theory(&price, block_bytes), Duration::from_micros(result.verified_us));
        }
        self.tell(plan, targets, &result);
        Ok(Some(result))
    }

    fn plan(&self, view: &crate::health::View, targets: &[Target]) -> Result<Option<RepairPlan>> {
        let avoid = numbers(self.course.around());
        let planner = &self.shared.planner;
        if let [target] = targets {
            return Ok(Some(planner.repair(view, &target.placement, &self.spec(target)?, &avoid)?));
        }
        let specs = targets.iter().map(|target| Ok((&target.placement, self.spec(target)?)));
        match planner.repair_several(view, &specs.collect::<Result<Vec<_>>>()?, &avoid)? {
            SeveralPlan::OnePass(plan) => Ok(Some(*plan)),
            SeveralPlan::EachAlone { why } => {
                self.job.say(format!("{} blocks are repaired each alone: {why}", targets.len()));
                Ok(None)
            }
        }
    }

    fn spec(&self, target: &Target) -> Result<RepairSpec> {
        Ok(RepairSpec {
            scheme: scheme(&self.options.scheme)?,
            slices: self.shared.planner.slice_length(self.options.slice_bytes)?,
            verify: self.options.verify,
            requestor: target.ticket.target.node,
            scheduled: self.options.is_one_of_many(),
            generation: target.ticket.target.generation,
            flow: self.flow,
            attempt: target.ticket.attempt,
            moves: self.options.moves,
            helpers: self.options.helpers.clone(),
            explained: false,
        })
    }

    /// Says what is durable where, by which scheme and why.
    fn tell(&self, plan: RepairPlan, targets: &[Target], result: &proto::DriveResult) {
        let RepairPlan { planned, scheme, why, .. } = plan;
        let why = why.map_or(String::new(), |why| format!("; by {scheme}, {why}"));
        let kept = match result.kept_slices {
            0 => String::new(),
            slices => format!("; {slices} slices were kept from broken attempts"),
        };
        let places = match targets {
            [only] => format!("block {} is durable on node-{}", only.ticket.block, only.ticket.target.node),
            several => {
                let place = |t: &Target| format!("{} on node-{}", t.ticket.block, t.ticket.target.node);
                let places: Vec<String> = several.iter().map(place).collect();
                format!("{} blocks are durable: {}", several.len(), places.join(", "))
            }
        };
        self.job.emit(proto::JobEvent {
            state: "running".to_owned(),
            message: format!("{places}{why}{kept}"),
            flow: Some(result.clone()),
            block: targets.first().map(|target| target.ticket.block.to_vec()).unwrap_or_default(),
            scheme,
            participants: participants(&planned.plan.binding.participants),
            ..Default::default()
        });
    }

    /// What is usual for a repair like this one.
    fn usual(&self) -> MutexGuard<'_, Usual> {
        self.shared.usual(self.options.is_one_of_many())
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

fn in_theory(price: &Price, block_bytes: u64) -> InTheory {
    InTheory { seconds: price.seconds, slot_bytes: price.timeslots * block_bytes as f64 }
}
