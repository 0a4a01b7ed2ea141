//! The attempt: whatever the coordinator orders is noted, planned, driven, checked and committed here, and in no other place.
//!
//! ```text
//!   what lacks ─▶ who will write ─▶ noted ─▶ planned ─▶ driven ─▶ checked ─▶ committed
//!       ▲                            ▲                    │ a helper fails, or holds all up
//!       │                            └──── mended ◀───────┤
//!       └──── again, around who failed ◀──────────────────┘ anything else
//! ```
//!
//! One block and several blocks of a stripe (RP §4.4) differ in how many are wanted, and in nothing else. A pause ends the
//! flow at once: what was noted is given up, and the work begins again when it may go on.

mod build;
mod encode;
mod lacking;
mod outcome;

pub(crate) use encode::encode_stripe;
pub(crate) use lacking::lost;

use crate::catalog::{Catalog, Placement, RepairTicket};
use crate::error::{CoordinatorError, Result};
use crate::health::View;
use crate::jobs::Job;
use crate::shared::{Receiving, Shared, now_ms};
use flow::Scheme;
use lacking::Lacking;
use model::{BlockId, Cause, FlowId, NodeId};
use plan::decide::{Bounds, Course, Next};
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::time::Sleep;

/// How blocks are to be repaired.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct RepairOptions {
    /// Name of the scheme; empty or `auto` for the coordinator's choice.
    pub scheme: String,
    pub slice_bytes: u32,
    pub verify: bool,
    /// Who gets the block, of several the first; `None`: the coordinator chooses.
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

/// What is to be made again.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wanted<'a> {
    /// A copy of this block.
    Block(BlockId),
    /// Of this block's stripe what is lost or, to measure, these members.
    Stripe(BlockId, &'a [u16]),
}

/// What came of it.
#[derive(Default, Debug)]
pub(crate) struct Outcome {
    /// New copies of these blocks are there or, with `discard`, were.
    pub made: Vec<BlockId>,
    /// These are better, or have to be, made each by itself.
    pub alone: Vec<BlockId>,
}

/// Makes what is wanted, in a bounded number of attempts, each around the nodes that failed before.
///
/// # Errors
/// [`CoordinatorError::Paused`] if the job's task was paused or stopped meanwhile; nothing is left of it then.
pub(crate) async fn carry(
    shared: &Arc<Shared>,
    job: &Arc<Job>,
    wanted: Wanted<'_>,
    options: &RepairOptions,
) -> Result<Outcome> {
    let (flow, course) = (FlowId(rand::random()), Course::new(Bounds::REPAIR, options.patient));
    let mut attempt = Attempt { shared, job, wanted, options, flow, noted: 0, course };
    loop {
        let error = match attempt.once().await {
            Ok(outcome) => return Ok(outcome),
            Err(error) => error,
        };
        let Some(pause) = after(shared, &error, &mut attempt.course).await else { return Err(error) };
        let noted = attempt.noted;
        tracing::info!(%wanted, noted, %error, "failed, trying again");
        job.say(format!("attempt {noted} to repair {wanted} failed: {error}"));
        pause.await;
    }
}

/// The pause after an attempt that ended with this error, and of which nothing is left; `None` if no other follows.
async fn after(shared: &Arc<Shared>, error: &CoordinatorError, course: &mut Course) -> Option<Sleep> {
    let next = match error {
        CoordinatorError::Flow(fault) => {
            if !matches!(fault.cause, Cause::Invalid | Cause::Slow) {
                shared.learn(fault).await;
            }
            course.broke(fault, &[])
        }
        // Chosen from a view that was out of date, or made of what is not what was planned with.
        CoordinatorError::Overtaken(_) | CoordinatorError::WrongParity { .. } => course.again(),
        error if lacks_nodes(error) => course.refused(),
        _ => Next::GiveUp,
    };
    next.pause().map(tokio::time::sleep)
}

/// Whether nodes that are gone around may be what is lacking.
fn lacks_nodes(error: &CoordinatorError) -> bool {
    use CoordinatorError::{NoReplica, Nodes, Unrecoverable};
    matches!(error, Unrecoverable { .. } | Nodes(_) | NoReplica { .. })
}

/// These nodes by number.
fn numbers(nodes: impl IntoIterator<Item = NodeId>) -> BTreeSet<u32> {
    nodes.into_iter().map(|node| node.0).collect()
}

/// A flow's end, unless the job's task is told to pause or to stop before. The flow is let go at once then: what it has
/// carried is little beside what the operator wants of the links.
async fn held_or<T>(job: &Job, flow: impl Future<Output = T>) -> Result<T> {
    tokio::select! {
        ended = flow => Ok(ended),
        () = job.task.held() => Err(CoordinatorError::Paused),
    }
}

/// One order, over all its attempts.
struct Attempt<'a> {
    shared: &'a Arc<Shared>,
    job: &'a Arc<Job>,
    wanted: Wanted<'a>,
    options: &'a RepairOptions,
    flow: FlowId,
    /// Attempts that were noted so far.
    noted: u32,
    course: Course,
}

/// A block that is being made, and where.
struct Target {
    placement: Placement,
    /// The copy on this node goes; of a stripe's block all that are dead do.
    replaces: Option<u32>,
    ticket: RepairTicket,
    _receiving: Receiving,
}

impl Attempt<'_> {
    /// With requestors that are chosen once, until they have the blocks or somebody but a helper failed.
    async fn once(&mut self) -> Result<Outcome> {
        let view = self.shared.health.view();
        let lacking = self.lacking(&view).await?;
        if let (0, Wanted::Stripe(..)) = (self.noted, self.wanted) {
            self.job.add(lacking.count());
        }
        let lacking = match lacking {
            Lacking::Nothing => return Ok(Outcome::default()),
            Lacking::Alone(block) => return Ok(Outcome { alone: vec![block], ..Outcome::default() }),
            Lacking::These(lacking) => lacking,
        };
        self.noted += 1;
        let mut targets = Vec::new();
        let built = match self.begin(&view, lacking, &mut targets).await {
            Ok(()) => self.build_mending(&mut targets).await,
            Err(error) => Err(error),
        };
        match built {
            Ok(Some(result)) => self.settle(&view, targets, &result).await,
            Ok(None) => {
                self.abort(&targets).await?;
                let alone = targets.iter().map(|target| target.ticket.block).collect();
                Ok(Outcome { alone, ..Outcome::default() })
            }
            Err(error) => {
                self.abort(&targets).await?;
                Err(error)
            }
        }
    }

    /// Chooses a node for each block, no two alike, and notes the attempt.
    async fn begin(
        &self,
        view: &View,
        lacking: Vec<(Placement, Option<u32>)>,
        targets: &mut Vec<Target>,
    ) -> Result<()> {
        let load = |node: u32| {
            let stored = view.node(node).map_or(0, |n| n.status.blocks);
            // A repair under way counts for more than any number of blocks stored.
            (self.shared.received_by(node) << 32) + stored.min(u64::from(u32::MAX))
        };
        let placements = lacking.iter().map(|(placement, _)| placement);
        let asked = self.options.requestor;
        // Who is slow to send may well receive.
        let avoid = numbers(self.course.failed().iter().copied());
        let nodes = self.shared.planner.requestors(view, placements, asked, &avoid, load)?;
        for ((placement, replaces), node) in lacking.into_iter().zip(nodes) {
            let _receiving = self.shared.receive(node);
            let (block, flow, attempt, now) = (placement.block, self.flow, self.noted, now_ms());
            let begin = move |c: &Catalog| c.begin_repair(block, flow, attempt, node, now);
            let ticket = self.shared.catalog.run(begin).await?;
            targets.push(Target { placement, replaces, ticket, _receiving });
        }
        Ok(())
    }

    async fn abort(&self, targets: &[Target]) -> Result<()> {
        for ticket in targets.iter().map(|target| target.ticket) {
            let now_ms = now_ms();
            self.shared.catalog.run(move |c| c.abort_repair(&ticket, now_ms)).await?;
        }
        Ok(())
    }
}

impl std::fmt::Display for Wanted<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Wanted::Block(block) => write!(f, "block {block}"),
            Wanted::Stripe(block, _) => write!(f, "the stripe of block {block}"),
        }
    }
}

impl RepairOptions {
    /// Whether it is part of a recovery: helpers are scheduled, and links are shared with others like it.
    fn is_one_of_many(&self) -> bool {
        self.replaces.is_some()
    }

    /// Nodes that live, but for the one that is left.
    fn without_leaver(&self, view: &View) -> BTreeSet<u32> {
        view.living().into_iter().filter(|&node| !self.moves || Some(node) != self.replaces).collect()
    }
}

/// The scheme of that name; `None` for the coordinator's choice.
pub(crate) fn scheme(name: &str) -> Result<Option<Scheme>> {
    match name {
        "" | "auto" => Ok(None),
        name => Ok(Some(name.parse()?)),
    }
}
