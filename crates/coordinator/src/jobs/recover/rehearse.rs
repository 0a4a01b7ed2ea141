//! A recovery that is planned and prepared, and not run: whether it could be, and how fast plans are made and distributed.

use super::{lost_on, terms, whose};
use crate::assigning::{Lost, Pending, assign};
use crate::attempt::{Attempts, scheme, token};
use crate::error::{CoordinatorError, Result};
use crate::job::Job;
use crate::reads::Reads;
use catalog::rows::RecoveryRow;
use model::{Fault, FlowId, NodeId};
use plan::decide::{BATCH, InFlight, Planner, RepairSpec, World, requestor};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Flows that are being prepared at once: each costs a stage on every node that takes part, and half of what a node has
/// is for others.
const AT_ONCE: usize = 128;

/// Plans that wait to be distributed.
const MAX_WAITING: usize = 256;

/// A plan, and who gets it.
type Ready = (NodeId, flow::FlowPlan);

/// The job: plans the repair of every block of the nodes, and has everybody who would take part prepare.
pub(in crate::jobs) async fn rehearse(
    with: &Attempts,
    reads: &Reads,
    job: &Job,
    row: &RecoveryRow,
) -> Result<String> {
    let started = Instant::now();
    let lost = lost_on(with, row).await?;
    job.expect(lost.len() as u64);
    let view = with.cluster.view();
    let (plans, mut planned) = tokio::sync::mpsc::channel(MAX_WAITING);
    let mut planning = std::pin::pin!(plan_all(with, reads, row, &view, lost, plans));
    let mut took = None;
    let mut preparing: JoinSet<std::result::Result<(), Fault>> = JoinSet::new();
    let (mut done, mut failure) = (0_u64, None);
    loop {
        tokio::select! {
            spent = &mut planning, if took.is_none() => took = Some(spent?),
            goes_on = job.task.may_go_on(), if !job.task.is_on() => {
                if !goes_on {
                    return Err(CoordinatorError::Paused);
                }
            }
            Some((requestor, plan)) = planned.recv(), if preparing.len() < AT_ONCE && job.task.is_on() => {
                let (cluster, view) = (Arc::clone(&with.cluster), view.clone());
                preparing.spawn(async move { cluster.fleet.rehearse(&view, requestor, &plan).await });
            }
            Some(ended) = preparing.join_next() => {
                let ended = ended.map_err(|_| CoordinatorError::ShuttingDown)?;
                job.count(ended.is_ok());
                match ended {
                    Ok(()) => done += 1,
                    Err(fault) => _ = failure.get_or_insert(fault),
                }
            }
            else => break,
        }
    }
    let (planning, all) = (took.unwrap_or_default(), started.elapsed());
    match failure {
        Some(fault) => Err(fault.into()),
        None => Ok(format!(
            "{done} repairs of {} planned in {:.3} s and prepared by all who would take part {:.3} s after the order; \
             nothing moved",
            whose(row),
            planning.as_secs_f64(),
            all.as_secs_f64()
        )),
    }
}

/// Plans batch by batch and hands the plans on. The time that planning took, waiting for room not included.
async fn plan_all(
    with: &Attempts,
    reads: &Reads,
    row: &RecoveryRow,
    view: &World,
    lost: Vec<Lost>,
    plans: tokio::sync::mpsc::Sender<Ready>,
) -> Result<Duration> {
    let mut took = Duration::ZERO;
    let (terms, in_flight) = (terms(row)?, InFlight::new(usize::MAX));
    for batch in lost.chunks(BATCH) {
        let start = Instant::now();
        let pending = assign(with, reads, &terms, batch.to_vec(), &in_flight).await?;
        let (cluster, planner) = (Arc::clone(&with.cluster), Arc::clone(&with.planner));
        let (row, view) = (row.clone(), view.clone());
        let made = with.records.decide(move |catalog| {
            let in_flight = InFlight::new(usize::MAX);
            let plan = |mut pending: Pending| {
                pending.choose(&cluster, row.assign, &in_flight);
                let placement = catalog.placement(pending.lost.block)?;
                plan_one(&planner, &row, &view, &pending, &placement)
            };
            pending.into_iter().map(plan).collect::<Result<Vec<Ready>>>()
        });
        let made = made.await?;
        took += start.elapsed();
        for ready in made {
            if plans.send(ready).await.is_err() {
                return Err(CoordinatorError::ShuttingDown);
            }
        }
    }
    Ok(took)
}

fn plan_one(
    planner: &Planner,
    row: &RecoveryRow,
    view: &World,
    pending: &Pending,
    placement: &model::Placement,
) -> Result<Ready> {
    let nobody = BTreeSet::new();
    let asked = pending.assignment().map(|assignment| assignment.requestor);
    let requestor = requestor(view, placement, asked, &nobody, |_| 0)?;
    let chain = pending.assignment().into_iter().flat_map(|assignment| &assignment.chain);
    let spec = RepairSpec {
        scheme: scheme(&row.scheme)?,
        slices: planner.slice_length(row.slice_bytes)?,
        verify: row.verify,
        requestor,
        scheduled: true,
        // As the copy's would be; nothing is written.
        generation: placement.facts.last_generation + 1,
        birth: model::Stamp::default(),
        flow: FlowId(rand::random()),
        attempt: 1,
        moves: false,
        helpers: chain.copied().collect(),
        explained: false,
    };
    Ok((requestor, planner.repair(view, &(placement, spec), &nobody, &mut token)?.planned.plan))
}
