//! Full-node recovery (RP §3.3): every block that a dead node held is made again elsewhere, several stripes at once, the
//! most endangered first.

use super::repair::{RepairOptions, Repaired, repair_block};
use super::{Job, in_parallel};
use crate::catalog::Placement;
use crate::error::{CoordinatorError, Result};
use crate::shared::Shared;
use codes::Code;
use plan::{Damaged, by_urgency};
use std::sync::Arc;
use std::time::Duration;
use wire::BlockId;

/// The job.
pub(super) async fn run(
    shared: &Arc<Shared>,
    job: &Arc<Job>,
    node: u32,
    options: RepairOptions,
    parallel: usize,
) -> Result<String> {
    check_dead(shared, node)?;
    let blocks = by_need(shared, node).await?;
    job.expect(blocks.len() as u64);
    job.say(format!("{} blocks of node-{node} to rebuild", blocks.len()));
    let work = |block: BlockId| {
        let (shared, job, options) = (Arc::clone(shared), Arc::clone(job), options.clone());
        async move { (block, repair_block(&shared, &job, block, &options).await) }
    };
    let mut failure = None;
    let mut failed = 0;
    let each = |(block, outcome): (BlockId, Result<Repaired>)| {
        job.count(outcome.is_ok());
        if let Err(error) = outcome {
            tracing::warn!(%block, %error, "not rebuilt");
            job.say(format!("block {block} could not be rebuilt: {error}"));
            failed += 1;
            failure.get_or_insert(error);
        }
    };
    let total = blocks.len();
    let whole = in_parallel(&job.task, blocks, parallel, work, each).await;
    match failure {
        Some(CoordinatorError::ShuttingDown) => Err(CoordinatorError::ShuttingDown),
        Some(first) => {
            let text =
                format!("{failed} of {total} blocks of node-{node} could not be rebuilt; the first: {first}");
            Err(CoordinatorError::Conflict(text))
        }
        None if whole => Ok(format!("{total} blocks of node-{node} rebuilt")),
        None => Err(CoordinatorError::Conflict(format!("the recovery of node-{node} was stopped"))),
    }
}

/// A node whose blocks are all made again must not be one that only nobody has heard of yet.
pub(crate) fn check_dead(shared: &Shared, node: u32) -> Result<()> {
    let view = shared.health.view();
    let state = view.node(node)?;
    if state.is_living {
        return Err(CoordinatorError::Conflict(format!(
            "node-{node} is alive; stop it first (`stripeline node stop`), then repair it"
        )));
    }
    if state.last_seen.is_none()
        && shared.started.elapsed() < Duration::from_millis(shared.config.dead_after_ms)
    {
        return Err(CoordinatorError::Conflict(format!(
            "the coordinator has just started and does not know yet whether node-{node} is alive; \
             try again in {} s",
            shared.config.dead_after_ms.div_ceil(1_000)
        )));
    }
    Ok(())
}

/// The blocks of the node, those with the least margin first.
async fn by_need(shared: &Arc<Shared>, node: u32) -> Result<Vec<BlockId>> {
    let living = shared.health.view().living();
    let context = Arc::clone(shared);
    shared
        .catalog
        .run(move |catalog| {
            let mut damaged = Vec::new();
            for block in catalog.blocks_on(node)? {
                let Placement { row, stripe, .. } = catalog.placement(block)?;
                let (survivors, needed) = match &stripe {
                    Some(stripe) => {
                        margin(&context.planner.codes.get(&stripe.row.code)?, &stripe.usable(&living))
                    }
                    None => (row.locations.iter().filter(|l| living.contains(&l.node)).count(), 1),
                };
                damaged.push(Damaged { stripe: block, survivors, needed });
            }
            by_urgency(&mut damaged);
            Ok(damaged.into_iter().map(|d| d.stripe).collect())
        })
        .await
}

/// Blocks that survive, and how many of them are needed: so many that any would do, or, where fewer happen to suffice, those.
fn margin(code: &Code, usable: &[bool]) -> (usize, usize) {
    let lost: Vec<usize> = (0..usable.len()).filter(|&member| !usable[member]).collect();
    let survivors = usable.len() - lost.len();
    let needed = code.n() - code.tolerance();
    (survivors, if code.recoverable(&lost) { needed.min(survivors) } else { needed.max(survivors + 1) })
}
