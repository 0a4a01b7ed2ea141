//! Balance: blocks move from nodes that are fuller than the others to emptier ones, new ones mostly, while nothing more important is to
//! be done. What moves is bounded by what is uneven ([`plan::balance`]), two blocks at a time.

use super::{Jobs, in_parallel};
use crate::attempt::{RepairOptions, Wanted};
use crate::clock::Began;
use crate::error::{CoordinatorError, Result};
use crate::healer::Healing;
use crate::job::Job;
use catalog::Catalog;
use model::{BlockId, NodeId, Placement, StripeId};
use plan::balance::{Filled, Share, keeps_apart, shares};
use plan::decide::{NodeFacts, World};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast;
use worker::{Step, Task, Worker};

/// The name of its task.
pub(crate) const NAME: &str = "balance";

/// Between two looks there is at least so many times what the last one took: it goes through all rows of blocks.
const REST: u32 = 20;

/// Blocks that move at once: the least that keeps a link busy while one of them is synced.
const MOVED_AT_ONCE: usize = 2;

/// Blocks of a round; after it things are looked at anew.
const MOVES: usize = 256;

/// Blocks of a node that are looked at for one that may move, in a round.
const LOOKED_AT: usize = 65_536;

/// A block that is to move.
#[derive(Clone, Copy, Debug)]
struct Move {
    block: BlockId,
    from: NodeId,
    to: NodeId,
}

/// The worker.
pub(crate) struct Balancer {
    jobs: Arc<Jobs>,
    healing: Arc<Healing>,
    threshold: f64,
    every: Duration,
    job: Arc<Job>,
}

impl Balancer {
    /// Begins once a node is fuller or emptier than the mean by this part of its capacity. Its task is the one given.
    pub fn new(
        jobs: Arc<Jobs>,
        healing: Arc<Healing>,
        threshold: f64,
        every_ms: u64,
        task: &Arc<Task>,
    ) -> Balancer {
        // Nobody listens: it tells by its task.
        let (events, _) = broadcast::channel(1);
        let job = Arc::new(Job::new(0, events, Arc::clone(task), "blocks"));
        Balancer { jobs, healing, threshold, every: Duration::from_millis(every_ms), job }
    }

    /// What is to move now, and how many bytes are uneven.
    async fn plan(&self, view: &World) -> Result<(Vec<Move>, u64)> {
        let (view, threshold) = (view.clone(), self.threshold);
        let planned = move |catalog: &Catalog| {
            let shares = shares(&filled(&view, &catalog.placed_bytes()?), threshold);
            let bytes = shares.iter().map(|share| share.bytes).sum();
            Ok((moves(catalog, &view, shares)?, bytes))
        };
        self.jobs.attempts.records.run(planned).await
    }

    /// Moves them, as long as nothing more important is to be done. How many were.
    async fn carry(&self, moves: Vec<Move>) -> usize {
        let work = |Move { block, from, to }: Move| {
            let (jobs, healing, job) =
                (Arc::clone(&self.jobs), Arc::clone(&self.healing), Arc::clone(&self.job));
            async move {
                if must_wait(&jobs, &healing, &jobs.attempts.cluster.view()).is_some() {
                    return false;
                }
                let (requestor, replaces) = (Some(to), Some(from));
                let options = RepairOptions {
                    verify: true,
                    moves: true,
                    among_many: true,
                    requestor,
                    replaces,
                    ..RepairOptions::default()
                };
                match jobs.attempts.carry(&job, Wanted::Block(block), &options).await {
                    Ok(outcome) => !outcome.made.is_empty(),
                    Err(CoordinatorError::Paused | CoordinatorError::ShuttingDown) => false,
                    Err(error) => {
                        tracing::info!(%block, %from, %to, %error, "not moved");
                        false
                    }
                }
            }
        };
        let mut moved = 0;
        let each = |is_moved| {
            moved += usize::from(is_moved);
            self.job.task.note(|report| report.done += u64::from(is_moved));
        };
        in_parallel(&self.job.task, moves, MOVED_AT_ONCE, work, each).await;
        moved
    }
}

/// Nodes that may give and take.
fn giving_and_taking(view: &World) -> impl Iterator<Item = (NodeId, &NodeFacts)> {
    view.nodes.iter().filter(|(_, node)| node.takes_blocks() && !node.is_last_resort())
}

/// How full they are, as the catalog has it: what waits to be deleted is as good as gone, but
/// takes part of what fits.
fn filled(view: &World, placed: &BTreeMap<NodeId, u64>) -> Vec<Filled> {
    let one = |(node, facts): (NodeId, &NodeFacts)| {
        let used_bytes = placed.get(&node).copied().unwrap_or(0);
        let capacity_bytes = facts.stored_bytes.saturating_add(facts.free_bytes?);
        Some(Filled { node, used_bytes, capacity_bytes })
    };
    giving_and_taking(view).filter_map(one).collect()
}

/// Blocks that make up these shares, one of a stripe at most: what the others then have to keep apart from is known.
fn moves(catalog: &Catalog, view: &World, shares: Vec<Share>) -> catalog::Result<Vec<Move>> {
    let (mut moves, mut stripes): (Vec<Move>, BTreeSet<StripeId>) = Default::default();
    for Share { from, to, bytes } in shares {
        let (mut left, mut at, mut looked_at) = (bytes, None, 0);
        while left > 0 && moves.len() < MOVES && looked_at < LOOKED_AT {
            let (blocks, next) = catalog.blocks_on_from(from, at)?;
            looked_at += blocks.len();
            for placement in catalog.placements(&blocks)?.into_iter().flatten() {
                let (block, bytes) = (placement.block, placement.facts.stored_bytes);
                let stripe = placement.stripe.as_ref().map(|stripe| stripe.id);
                let is_free = moves.iter().all(|other| other.block != block)
                    && stripe.is_none_or(|stripe| !stripes.contains(&stripe));
                if moves.len() < MOVES
                    && (1..=left).contains(&bytes)
                    && is_free
                    && may_move(catalog, view, &placement, from, to)?
                {
                    left -= bytes;
                    stripes.extend(stripe);
                    moves.push(Move { block, from, to });
                }
            }
            match next {
                Some(_) => at = next,
                None => break,
            }
        }
    }
    Ok(moves)
}

/// Whether nothing is lacking of the block and it lies as well on the other node. Blocks that wait to be encoded lie where that
/// wants them.
fn may_move(
    catalog: &Catalog,
    view: &World,
    placement: &Placement,
    from: NodeId,
    to: NodeId,
) -> catalog::Result<bool> {
    let row = &placement.facts;
    let holders: BTreeSet<NodeId> = match &placement.stripe {
        Some(stripe) => stripe.holders.clone(),
        None => row.locations.iter().map(|l| l.node).collect(),
    };
    let lives = |node: &NodeId| view.nodes.get(*node).is_some_and(|node| node.is_living);
    Ok(row.lacks() == 0
        && holders.iter().all(lives)
        && keeps_apart(&view.topology, &holders, from, to)
        && (placement.stripe.is_some() || catalog.gathering_of(placement.block)?.is_none()))
}

/// What is more important now, if anything is.
fn must_wait(jobs: &Jobs, healing: &Healing, view: &World) -> Option<&'static str> {
    let all_live = view.nodes.iter().all(|(_, node)| node.is_living);
    let is_settled = all_live || !jobs.attempts.cluster.has_just_started();
    match () {
        () if !is_settled => Some("waits for nodes to register"),
        () if giving_and_taking(view).any(|(_, node)| node.free_bytes.is_none()) => {
            Some("waits for all nodes to tell what fits on their disks")
        }
        // What cannot be made now waits for something else; it does not hold this up for good.
        () if healing.told().due > 0 => Some("waits for what lacks copies"),
        () if jobs.move_blocks() => Some("waits for jobs that move blocks"),
        () if jobs.reads.degraded_lately() => Some("waits for degraded reads"),
        () => None,
    }
}

impl Worker for Balancer {
    type Error = CoordinatorError;

    fn name(&self) -> &'static str {
        NAME
    }

    fn pause(&self) -> Duration {
        self.every
    }

    async fn step(&mut self, task: &Task) -> Result<Step> {
        let view = self.jobs.attempts.cluster.view();
        let tell = |text: String| task.note(|report| report.detail = text);
        if let Some(why) = must_wait(&self.jobs, &self.healing, &view) {
            tell(why.to_owned());
            return Ok(Step::Wait(self.every));
        }
        // What moves leaves its old copy behind, and none goes as long as that is so.
        if self.jobs.attempts.records.run(|catalog| catalog.safe_mode()).await?.is_some() {
            tell("waits until the catalog's history is no longer in doubt".to_owned());
            return Ok(Step::Wait(self.every));
        }
        let began = Began::now();
        let (moves, bytes) = self.plan(&view).await?;
        let rest = Step::Wait(self.every.max(began.elapsed() * REST));
        if moves.is_empty() {
            tell(if bytes == 0 {
                String::new()
            } else {
                format!("{bytes} bytes are uneven, and no block may move")
            });
            return Ok(rest);
        }
        tell(format!("{bytes} bytes are uneven; {} blocks of them are moving", moves.len()));
        let moved = self.carry(moves).await;
        tell(format!("{bytes} bytes were uneven; {moved} blocks were moved since"));
        Ok(if moved > 0 { Step::Again } else { rest })
    }
}
