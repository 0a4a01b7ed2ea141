//! The cluster as a whole: status, tasks, throttles, backup, rebuild.

use crate::error::Result;
use crate::health::Report;
use crate::shared::{Shared, now_ms};
use catalog::FoundBlock;
use model::{BlockId, Contents, Location, NodeId, Switch, note};
use plan::decide::{DecideError, NodeFacts};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use wire::proto;

/// Bytes of a piece of a backup.
const BACKUP_PIECE_BYTES: usize = 256 << 10;

/// A receiver of a backup that takes nothing for this long is gone: meanwhile the catalog cannot be closed.
const BACKUP_PATIENCE: Duration = Duration::from_secs(20);

/// Pieces of a backup that wait for a slow receiver.
const BACKUP_PIECES: usize = 4;

/// The task by which quarantined and slow nodes get another chance.
const QUARANTINE: &str = "quarantine";

/// Everything that an operator wants to know at once.
pub(crate) async fn status(shared: &Arc<Shared>) -> Result<proto::ClusterStatus> {
    let view = shared.health.view();
    let living = view.living();
    let context = Arc::clone(shared);
    let (meta, counts) = shared
        .catalog
        .run(move |catalog| {
            let recoverable = |code: &str, usable: &[bool]| context.planner.codes.recoverable(code, usable);
            Ok((catalog.meta()?, catalog.counts(&living, recoverable)?))
        })
        .await?;
    let mut reports = shared.health.reports();
    let node = |(id, node): (NodeId, &NodeFacts)| {
        let Report { rack, last_seen, status } = reports.remove(&id)?;
        Some(proto::NodeInfo {
            node: id.0,
            rack,
            living: node.is_living,
            last_seen_ms_ago: last_seen.map_or(u64::MAX, |seen| seen.elapsed().as_millis() as u64),
            control_addr: node.control_addr.clone(),
            data_addr: node.data_addr.clone(),
            status: Some(status),
            leaving: node.is_leaving,
            slow: node.is_slow,
        })
    };
    let quarantined = view.nodes.iter().filter(|(_, node)| node.is_quarantined);
    Ok(proto::ClusterStatus {
        cluster: meta.cluster.to_vec(),
        nodes: view.nodes.iter().filter_map(node).collect(),
        objects: counts.objects,
        blocks: counts.blocks,
        stripes: counts.stripes,
        garbage: counts.garbage,
        in_flight: counts.in_flight,
        missing_blocks: counts.missing,
        unrecoverable_blocks: counts.unrecoverable,
        tasks: shared.tasks.statuses(),
        quarantined: quarantined.map(|(id, _)| format!("node-{id}")).collect(),
    })
}

/// A command for a task, here or on a node.
pub(crate) async fn control_task(
    shared: &Arc<Shared>,
    control: proto::TaskControl,
) -> Result<proto::TaskStatus> {
    if control.node != 0 {
        let view = shared.health.view();
        let node = NodeId(control.node);
        return shared.nodes.control_task(&view, node, proto::TaskControl { node: 0, ..control }).await;
    }
    let task = shared.tasks.find(&control.name)?;
    if let Some(switch) = Switch::of(&control.action)? {
        // Noted first: what an operator was told to be paused stays so.
        if task.lasts() {
            let name = control.name.clone();
            shared.catalog.run(move |catalog| catalog.set_switch(&name, switch)).await?;
        }
        task.obey(switch);
    }
    if control.name == QUARANTINE && control.action == "resume" {
        shared.health.forgive();
    }
    Ok(task.status())
}

/// Adds the tasks that have no loop of their own.
pub(crate) fn add_tasks(shared: &Shared) {
    let task = shared.tasks.add(QUARANTINE);
    task.note(|report| report.detail = "resume to use quarantined and slow nodes again".to_owned());
}

/// The same limits on every living node. All are tried; the first failure is reported.
pub(crate) async fn throttle(shared: &Arc<Shared>, throttle: proto::Throttle) -> Result<()> {
    let view = shared.health.view();
    let mut outcome = Ok(());
    for node in view.living() {
        let set = shared.nodes.throttle(&view, node, throttle).await;
        outcome = outcome.and(set);
    }
    shared.forget_usual();
    outcome
}

/// A backup of the catalog, in pieces.
pub(crate) fn backup(
    shared: &Arc<Shared>,
) -> mpsc::Receiver<std::result::Result<proto::CatalogChunk, tonic::Status>> {
    let (pieces, receiver) = mpsc::channel(BACKUP_PIECES);
    let context = Arc::clone(shared);
    shared.group.spawn(async move {
        let end = pieces.clone();
        let runtime = tokio::runtime::Handle::current();
        let send = move |bytes| {
            let sent = tokio::time::timeout(BACKUP_PATIENCE, pieces.send(Ok(proto::CatalogChunk { bytes })));
            matches!(runtime.block_on(sent), Ok(Ok(())))
        };
        if let Err(error) = context.catalog.run(move |c| c.backup(BACKUP_PIECE_BYTES, send)).await {
            let _ = end.send(Err(error.into())).await;
        }
    });
    receiver
}

/// Restores a catalog without objects from the sidecars of all living nodes.
pub(crate) async fn rebuild(shared: &Arc<Shared>) -> Result<proto::RebuildReply> {
    let view = shared.health.view();
    let living = view.living();
    if living.is_empty() {
        return Err(DecideError::NotEnoughNodes { alive: 0, needed: 1 }.into());
    }
    let mut found = Vec::new();
    for node in living {
        let listed = shared.nodes.list(&view, node, true).await?;
        let total = listed.len();
        found.extend(listed.into_iter().filter_map(|stored| found_block(node, stored)));
        tracing::info!(%node, blocks = total, "sidecars read");
    }
    let context = Arc::clone(shared);
    let replicas = shared.config.replicas;
    let rebuilt = shared
        .catalog
        .run(move |catalog| {
            let recoverable = |code: &str, usable: &[bool]| context.planner.codes.recoverable(code, usable);
            catalog.rebuild(found, replicas, recoverable, now_ms())
        })
        .await?;
    Ok(proto::RebuildReply {
        objects: rebuilt.objects,
        blocks: rebuilt.blocks,
        stripes: rebuilt.stripes,
        incomplete: rebuilt.incomplete,
    })
}

/// A block whose sidecar makes sense; others are left out, as if they were lost.
fn found_block(node: NodeId, stored: proto::StoredBlock) -> Option<FoundBlock> {
    if stored.damaged {
        return None;
    }
    let stripe = match stored.stripe.as_slice() {
        [] => None,
        note => Some(note::decode(note).ok()?),
    };
    Some(FoundBlock {
        block: BlockId::from_slice(&stored.block).ok()?,
        location: Location { node, generation: stored.generation },
        facts: Contents {
            stored_bytes: stored.stored_bytes,
            sums: wire::codec::block::sums(&stored.digest, &stored.fingerprint)?,
            part: stored.object.map(Into::into),
        },
        stripe,
    })
}
