//! Repair of one block: choose a requestor, note the attempt, let it run, check what came out, commit. A helper that fails
//! in the middle, or holds all up, is gone around: the next attempt carries what the requestor still lacks.

use super::{Job, RETRY_PAUSE};
use crate::audit;
use crate::catalog::rows::Sums;
use crate::catalog::{Placement, RepairTicket};
use crate::config::{MAX_ATTEMPTS, MAX_MENDS};
use crate::error::{CoordinatorError, Result};
use crate::health::View;
use crate::nodes::blamed;
use crate::pace::Pace;
use crate::planner::{Price, RepairPlan, RepairSpec};
use crate::shared::{Shared, now_ms};
use flow::{Detours, Scheme};
use model::{BlockId, Cause, Fault, FlowId, NodeId};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wire::codec::plan::participants;
use wire::proto;

/// A flow that began when nobody knew what is usual is given up, and begun again where it was, once it has taken so many
/// times what is usual by then: its driver looks for whoever holds it up.
const OVERDUE: u32 = 3;

/// So often that is looked at.
const OVERDUE_EVERY: Duration = Duration::from_millis(500);

/// How a block is to be repaired.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct RepairOptions {
    /// Name of the scheme; empty or `auto` for the coordinator's choice.
    pub scheme: String,
    pub slice_bytes: u32,
    pub verify: bool,
    /// Who gets the block; `None`: the coordinator chooses.
    pub requestor: Option<u32>,
    /// Throw the result away, and do not ask whether the block is missing.
    pub discard: bool,
    /// Of a recovery: the dead node whose copy is to be replaced; `None`: any dead one.
    pub replaces: Option<u32>,
    /// That node lives, and its copy moves.
    pub moves: bool,
    /// Nodes whose blocks are preferred, in the order of the chain.
    pub helpers: Vec<u32>,
    /// Helpers that are slow are waited for.
    pub patient: bool,
}

/// What came of a repair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Repaired {
    /// There is a new copy, or (with `discard`) there was one.
    Yes,
    /// Nothing was missing.
    NotNeeded,
}

/// The scheme of that name; `None` for the coordinator's choice.
pub(crate) fn scheme(name: &str) -> Result<Option<Scheme>> {
    match name {
        "" | "auto" => Ok(None),
        name => Ok(Some(name.parse()?)),
    }
}

/// The job: one block, as often as copies are missing.
pub(super) async fn run(
    shared: &Arc<Shared>,
    job: &Arc<Job>,
    block: BlockId,
    options: RepairOptions,
) -> Result<String> {
    job.expect(1);
    let mut copies = 0;
    loop {
        match repair_block(shared, job, block, &options).await? {
            Repaired::NotNeeded if copies == 0 => {
                job.count(true);
                return Ok(format!("block {block} is not missing: nothing to repair"));
            }
            Repaired::Yes if options.discard => {
                job.count(true);
                return Ok(format!("block {block} was rebuilt, verified and thrown away"));
            }
            Repaired::NotNeeded => {
                job.count(true);
                return Ok(format!("block {block} is whole again"));
            }
            Repaired::Yes => copies += 1,
        }
    }
}

/// Makes one copy, in a bounded number of attempts, each around the nodes that failed before.
pub(super) async fn repair_block(
    shared: &Arc<Shared>,
    job: &Arc<Job>,
    block: BlockId,
    options: &RepairOptions,
) -> Result<Repaired> {
    let mut repair = Repair {
        shared,
        job,
        block,
        options,
        flow: FlowId(rand::random()),
        attempts: 0,
        avoid: BTreeSet::new(),
        slow: Detours::default(),
    };
    let mut tries = 0;
    loop {
        tries += 1;
        let error = match repair.at_one_requestor().await {
            Ok(repaired) => return Ok(repaired),
            Err(error) => error,
        };
        if tries == MAX_ATTEMPTS {
            return Err(error);
        }
        match &error {
            CoordinatorError::Flow(fault) if fault.cause != Cause::Invalid => repair.learn(fault).await,
            // Chosen from a view that was out of date.
            CoordinatorError::Overtaken(_) => {}
            // Better a suspect than none.
            CoordinatorError::Unrecoverable { .. } | CoordinatorError::Nodes(_)
                if !repair.avoid.is_empty() =>
            {
                repair.avoid.clear();
            }
            _ => return Err(error),
        }
        let attempt = repair.attempts;
        tracing::info!(%block, attempt, %error, "repair failed, trying again");
        job.say(format!("attempt {attempt} to repair block {block} failed: {error}"));
        tokio::time::sleep(RETRY_PAUSE * tries).await;
    }
}

/// The repair of one block, over all its attempts.
struct Repair<'a> {
    shared: &'a Arc<Shared>,
    job: &'a Arc<Job>,
    block: BlockId,
    options: &'a RepairOptions,
    flow: FlowId,
    /// Attempts that were noted so far.
    attempts: u32,
    /// Nodes that failed.
    avoid: BTreeSet<u32>,
    /// Nodes that only hold it up.
    slow: Detours,
}

/// What is wrong with a block.
enum Lack {
    Nothing,
    /// A copy is missing; the one on this node (dead) goes.
    Copy(Option<u32>),
    /// There are enough copies without the one on this dead node.
    Surplus(u32),
}

impl Repair<'_> {
    /// What a fault says of nodes: they are gone around from now on.
    async fn learn(&mut self, fault: &Fault) {
        self.shared.learn(fault).await;
        self.avoid.extend(blamed(fault));
    }

    /// Attempts with one requestor, until it has the block or somebody but a helper failed.
    async fn at_one_requestor(&mut self) -> Result<Repaired> {
        let Repair { shared, block, options, .. } = *self;
        let view = shared.health.view();
        let placement = match shared.catalog.run(move |catalog| catalog.placement(block)).await {
            // Deleted: nothing to do, unless it was asked for by id.
            Err(CoordinatorError::NoSuchBlock(_)) if options.replaces.is_some() => {
                return Ok(Repaired::NotNeeded);
            }
            placement => placement?,
        };
        let replaces = match lack(&placement, &view, options) {
            _ if options.discard => None,
            Lack::Nothing => return Ok(Repaired::NotNeeded),
            Lack::Surplus(node) => {
                let now_ms = now_ms();
                shared.catalog.run(move |c| c.drop_damaged(block, node, |_| true, now_ms)).await?;
                return Ok(Repaired::NotNeeded);
            }
            Lack::Copy(replaces) => replaces,
        };
        let load = |node: u32| {
            let stored = view.node(node).map_or(0, |n| n.status.blocks);
            // A repair under way counts for more than any number of blocks stored.
            (shared.received_by(node) << 32) + stored.min(u64::from(u32::MAX))
        };
        let requestor = shared.planner.requestor(&view, &placement, options.requestor, &self.avoid, load)?;
        let _receiving = shared.receive(requestor);
        self.attempts += 1;
        let (flow, attempt, now) = (self.flow, self.attempts, now_ms());
        let mut ticket =
            shared.catalog.run(move |c| c.begin_repair(block, flow, attempt, requestor, now)).await?;
        match self.build_mending(&mut ticket).await {
            Ok(sums) if !options.discard => {
                let living = options.without_leaver(&shared.health.view());
                let now_ms = now_ms();
                let commit = move |c: &crate::catalog::Catalog| {
                    c.commit_repair(&ticket, &sums, replaces, &living, now_ms)
                };
                match shared.catalog.run(commit).await {
                    Ok(()) => Ok(Repaired::Yes),
                    // It came back, or was deleted: the copy is garbage already.
                    Err(CoordinatorError::Overtaken(_)) => Ok(Repaired::NotNeeded),
                    Err(error) => Err(error),
                }
            }
            result => {
                let now_ms = now_ms();
                shared.catalog.run(move |c| c.abort_repair(&ticket, now_ms)).await?;
                result?;
                throw_away(shared, &view, &placement, &ticket).await?;
                Ok(Repaired::Yes)
            }
        }
    }

    /// Lets the block be built, around every helper that fails meanwhile. What the new copy turned out to be.
    async fn build_mending(&mut self, ticket: &mut RepairTicket) -> Result<Sums> {
        let (shared, block) = (self.shared, self.block);
        for _ in 0..MAX_MENDS {
            // As things are now: a copy that was found damaged is not listed any more.
            let view = shared.health.view();
            let placement = shared.catalog.run(move |catalog| catalog.placement(block)).await?;
            let era = self.pace().era();
            let error = match self.build(&view, &placement, ticket).await {
                Err(CoordinatorError::Flow(fault))
                    if fault.cause == Cause::Slow || is_mendable(&fault, &[ticket.target.node]) =>
                {
                    fault
                }
                // Better slowly than not at all. Nothing was begun: it is still the same attempt.
                Err(CoordinatorError::Unrecoverable { .. }) if self.slow.give_up() => continue,
                result => return result,
            };
            let attempt = self.attempts;
            if error.cause == Cause::Slow && self.pace().era() != era {
                tracing::info!(%block, attempt, %error, "rates were changed meanwhile: nobody is to blame");
            } else if error.cause == Cause::Slow {
                let slow =
                    error.suspect.and_then(|link| self.slow.note(link, NodeId(ticket.target.node).into()));
                if let Some(node) = slow {
                    self.shared.health.held_up(node.0);
                }
                tracing::info!(%block, attempt, %error, "a helper is slow: going around it");
            } else {
                self.learn(&error).await;
                tracing::info!(%block, attempt, %error, "a helper failed: mending");
            }
            self.job.say(format!(
                "attempt {attempt} to repair block {block} failed: {error}; the next one mends it"
            ));
            let broken = *ticket;
            *ticket = shared.catalog.run(move |catalog| catalog.mend_repair(&broken)).await?;
            self.attempts = ticket.attempt;
        }
        let view = shared.health.view();
        let placement = shared.catalog.run(move |catalog| catalog.placement(block)).await?;
        self.build(&view, &placement, ticket).await
    }

    /// Plans and runs the flow. What the new copy turned out to be.
    async fn build(&self, view: &View, placement: &Placement, ticket: &RepairTicket) -> Result<Sums> {
        let spec = RepairSpec {
            scheme: scheme(&self.options.scheme)?,
            slices: self.shared.planner.slice_length(self.options.slice_bytes)?,
            verify: self.options.verify,
            requestor: ticket.target.node,
            scheduled: self.options.is_one_of_many(),
            generation: ticket.target.generation,
            flow: self.flow,
            attempt: ticket.attempt,
            moves: self.options.moves,
            helpers: self.options.helpers.clone(),
            explained: false,
        };
        let avoid = self.avoid.iter().copied().chain(self.slow.nodes().map(|node| node.0)).collect();
        let mut plan = self.shared.planner.repair(view, placement, &spec, &avoid)?;
        let block_bytes = plan.planned.plan.flow.geometry.block_bytes;
        // Where others could help, a flow is not to take much longer than usual.
        let watched =
            plan.price.filter(|_| plan.has_spares && !self.options.patient && self.slow.may_go_on());
        let expected = watched.and_then(|price| self.pace().expected(&price, block_bytes));
        plan.planned.plan.expected = expected;
        self.shared.planner.mark(&plan.planned.plan.flow, ticket.target.node);
        let participants = participants(&plan.planned.plan.binding.participants);
        let progress = |done, total| self.job.slices(done, total);
        let drive = self.shared.nodes.drive(view, ticket.target.node, &plan.planned.plan, progress);
        let result = tokio::select! {
            result = drive => result,
            // A recovery that is paused stops at once: its blocks begin again.
            () = self.job.task.held(), if self.options.is_one_of_many() => {
                return Err(CoordinatorError::Paused);
            }
            () = self.overdue(watched, block_bytes), if expected.is_none() => {
                let what = "it takes far longer than others, and began before that was known";
                Err(Fault::new(Cause::Slow, what))
            }
        };
        audit::note(self.shared, view, &plan, &[self.block], result.as_ref()).await?;
        let (result, RepairPlan { scheme, why, price, .. }) = (result?, plan);
        let sums = check_staged(&result, placement, ticket)?;
        if let Some(price) = price.filter(|_| result.kept_slices == 0) {
            self.pace().note(&price, block_bytes, Duration::from_micros(result.verified_us));
        }
        let why = why.map_or(String::new(), |why| format!("; by {scheme}, {why}"));
        let kept = kept(&result);
        self.job.emit(proto::JobEvent {
            state: "running".to_owned(),
            message: format!("block {} is durable on node-{}{why}{kept}", self.block, ticket.target.node),
            flow: Some(result),
            block: self.block.to_vec(),
            scheme,
            participants,
            ..Default::default()
        });
        Ok(sums)
    }

    /// What is usual for a repair like this one.
    fn pace(&self) -> &Pace {
        match self.options.is_one_of_many() {
            true => &self.shared.pace_among_many,
            false => &self.shared.pace,
        }
    }

    /// Ends when a flow of this price, which begins now, has taken far longer than what has become usual meanwhile. Of
    /// one without a price never.
    async fn overdue(&self, price: Option<Price>, block_bytes: u64) {
        let Some(price) = price else { return std::future::pending().await };
        let began = Instant::now();
        loop {
            tokio::time::sleep(OVERDUE_EVERY).await;
            let expected = self.pace().expected(&price, block_bytes);
            if expected.is_some_and(|expected| began.elapsed() > expected * OVERDUE) {
                return;
            }
        }
    }
}

/// What a result owes to broken attempts, as the end of a sentence.
pub(super) fn kept(result: &proto::DriveResult) -> String {
    match result.kept_slices {
        0 => String::new(),
        slices => format!("; {slices} slices were kept from broken attempts"),
    }
}

/// Whether a fault leaves what the requestors have of use: somebody else is to blame, and nobody says that the bytes are
/// wrong.
pub(super) fn is_mendable(fault: &Fault, requestors: &[u32]) -> bool {
    let others = blamed(fault);
    !matches!(fault.cause, Cause::Invalid | Cause::WrongDigest | Cause::Bug)
        && !others.is_empty()
        && !others.iter().any(|node| requestors.contains(node))
}

/// Deletes the copy at once instead of after the grace: nothing refers to it.
pub(super) async fn throw_away(
    shared: &Arc<Shared>,
    view: &View,
    placement: &Placement,
    ticket: &RepairTicket,
) -> Result<()> {
    let cluster = shared.catalog.run(|catalog| catalog.meta()).await?.cluster;
    let copy = ticket.target.copy_of(ticket.block);
    let reference = proto::BlockRef::from(placement.row.copy_at(ticket.block, ticket.target));
    match shared.nodes.delete(view, copy.node, cluster, vec![reference]).await {
        Ok(_) => shared.catalog.run(move |c| c.garbage_deleted(&[copy])).await,
        Err(error) => {
            tracing::info!(%error, "a discarded copy stays until it is collected as garbage");
            Ok(())
        }
    }
}

impl RepairOptions {
    /// Whether it is part of a recovery: helpers are scheduled, a pause ends it, links are shared with others like it.
    fn is_one_of_many(&self) -> bool {
        self.replaces.is_some()
    }

    /// Nodes that live, but for the one that is left.
    fn without_leaver(&self, view: &View) -> BTreeSet<u32> {
        view.living().into_iter().filter(|&node| !self.moves || Some(node) != self.replaces).collect()
    }
}

fn lack(placement: &Placement, view: &View, options: &RepairOptions) -> Lack {
    let living = options.without_leaver(view);
    let row = &placement.row;
    let is_listed = |node: u32| row.on(node).is_some();
    if let Some(node) = options.replaces
        && (!is_listed(node) || living.contains(&node))
    {
        return Lack::Nothing;
    }
    if placement.stripe.is_some() {
        return if row.lives(&living) { Lack::Nothing } else { Lack::Copy(None) };
    }
    let alive = row.locations.iter().filter(|l| living.contains(&l.node)).count();
    let dead = row.locations.iter().map(|l| l.node).find(|node| !living.contains(node));
    match options.replaces {
        Some(node) if alive >= row.replicas as usize => Lack::Surplus(node),
        Some(node) => Lack::Copy(Some(node)),
        None if alive >= row.replicas as usize => Lack::Nothing,
        None => Lack::Copy(dead),
    }
}

/// The requestor must say that it holds just the block that was lost.
pub(super) fn check_staged(
    result: &proto::DriveResult,
    placement: &Placement,
    ticket: &RepairTicket,
) -> Result<Sums> {
    let node = ticket.target.node;
    let wrong = |what: &str| {
        let fault = Fault::new(Cause::WrongDigest, format!("node-{node} {what}"));
        CoordinatorError::Flow(fault.suspecting(NodeId(node), NodeId(node)).about(ticket.block))
    };
    let is_it = |s: &&proto::Staged| s.block == ticket.block.to_bytes() && s.node == node;
    let staged = result.staged.iter().find(is_it).ok_or_else(|| wrong("did not store the block"))?;
    let sums = Sums::from_wire(&staged.digest, &staged.fingerprint);
    let sums = sums.ok_or_else(|| wrong("reported a digest of another length"))?;
    let right = staged.generation == ticket.target.generation
        && staged.stored_bytes == placement.row.stored_bytes
        && sums.digest.is_some()
        && sums.agrees(&placement.row.sums);
    if right { Ok(sums) } else { Err(wrong("stored something else than what was lost")) }
}
