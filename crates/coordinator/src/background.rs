//! Workers that run as long as the coordinator, and have no file of their own.

use crate::clock;
use crate::cluster::{Check, Cluster};
use crate::config::tick;
use crate::error::{CoordinatorError, Result};
use crate::records::Records;
use catalog::rows::ClockRow;
use catalog::{PutEnd, Settled};
use model::{BlockCopy, NodeId};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use worker::{Step, Task, Worker};

/// Idle puts are looked for this often, and more often when their lease is shorter.
const PUT_TICK_MS: u64 = 10_000;

/// Turns per call interval. Each turn calls some of the nodes, so that they are not all called at one moment.
const TURNS: u32 = 16;

/// Shortest turn: timers are some milliseconds late on a busy machine.
const MIN_TURN: Duration = Duration::from_millis(5);

/// Puts that are forgotten in one transaction, so that others do not wait long.
const FORGOTTEN_AT_ONCE: usize = 4_096;

/// Notices pauses of this coordinator. While it or its machine is stopped it calls no node, so silence from that time does not make nodes dead.
pub(crate) async fn notice_own_pauses(cluster: Arc<Cluster>) {
    loop {
        tokio::time::sleep(cluster.health.look_every()).await;
        cluster.health.look();
        cluster.lenders.look();
    }
}

/// Calls all living nodes and lenders in turn. A node that answers stays alive.
pub(crate) async fn call_nodes(cluster: Arc<Cluster>) {
    let every = cluster.calls.every();
    loop {
        for due in cluster.health.due(every, TURNS) {
            let cluster = Arc::clone(&cluster);
            tokio::spawn(async move { cluster.call(due).await });
        }
        for due in cluster.lenders.due(every, TURNS) {
            let cluster = Arc::clone(&cluster);
            tokio::spawn(async move { cluster.call_lender(due).await });
        }
        tokio::time::sleep((every / TURNS).max(MIN_TURN)).await;
    }
}

/// Ends this coordinator when a node that does not come to it any more is led by a later life of a coordinator.
pub(crate) async fn notice_successors(
    records: Records,
    cluster: Arc<Cluster>,
    ends: mpsc::Sender<CoordinatorError>,
) {
    let silence = cluster.dead_after();
    loop {
        tokio::time::sleep(silence).await;
        let away = cluster.health.quiet(silence);
        let Ok(own) = records.run(|catalog| catalog.last_change()).await else { return };
        for (node, addr) in away {
            let Some(answer) = cluster.fleet.ask(node, &addr).await else { continue };
            let is_led = answer.led_ms_ago.is_some_and(|ms| u128::from(ms) < silence.as_millis());
            if is_led && answer.heard.term.number > own.term.number {
                let (term, leader) = (answer.heard.term, answer.leader);
                tracing::error!(%node, %term, leader, "another coordinator took over: this one ends");
                let _ = ends.send(CoordinatorError::TakenOver { node, term, leader }).await;
                return;
            }
        }
    }
}

/// Notes the cluster's clock, and when nodes were heard last, every `note_ms`. No task: nobody may pause time.
pub(crate) async fn keep_time(records: Records, cluster: Arc<Cluster>, note_ms: u64) {
    let mut noted_ms = cluster.clock.now_ms();
    loop {
        tokio::time::sleep(clock::LOOK.min(Duration::from_millis(note_ms))).await;
        let now_ms = cluster.clock.now_ms();
        if now_ms.saturating_sub(noted_ms) < note_ms {
            continue;
        }
        match note_time(&records, &cluster).await {
            Ok(()) => noted_ms = now_ms,
            Err(error) => tracing::warn!(%error, "the time cannot be noted; it is tried again"),
        }
    }
}

/// Notes both now.
pub(crate) async fn note_time(records: &Records, cluster: &Cluster) -> Result<()> {
    let row = ClockRow { now_ms: cluster.clock.now_ms(), heard: cluster.heard() };
    records.run(move |catalog| catalog.note_clock(&row)).await
}

/// Gives up puts whose lease has ended, and forgets those that were committed a lease ago.
pub(crate) struct PutReaper {
    pub records: Records,
    pub cluster: Arc<Cluster>,
    pub lease_ms: u64,
    pub wall_ms: fn() -> u64,
}

impl PutReaper {
    /// Puts of an earlier life, in a catalog that was brought from those that keep its records: what their nodes have says
    /// whether they were committed.
    async fn settle(&self) -> Result<()> {
        let unsettled = self.records.run(|catalog| catalog.unsettled_puts()).await?;
        let is_complete = self.records.run(|catalog| catalog.safe_mode()).await?.is_none();
        let view = self.cluster.view();
        let forgotten = self.records.run(|catalog| catalog.forgotten()).await?;
        let being: BTreeSet<NodeId> =
            forgotten.into_iter().filter(|(_, row)| !row.is_over).map(|(_, row)| row.node).collect();
        for (put, copies) in unsettled {
            let (mut seen, mut answered) = (BTreeSet::new(), BTreeSet::new());
            for node in copies.iter().map(|copy| copy.node).collect::<BTreeSet<_>>() {
                let own: Vec<BlockCopy> = copies.iter().copied().filter(|copy| copy.node == node).collect();
                // Who is gone for good is not waited for.
                if being.contains(&node) || view.node(node).is_err() {
                    answered.insert(node);
                    continue;
                }
                let is_living = view.node(node).is_ok_and(|facts| facts.is_living);
                if !is_living {
                    continue;
                }
                if let Ok(there) = self.cluster.fleet.check(&view, node, &own, Check::default()).await {
                    seen.extend(there.into_iter().map(|seen| seen.copy));
                    answered.insert(node);
                }
            }
            let (now_ms, created_ms) = (self.cluster.clock.now_ms(), (self.wall_ms)());
            let remembered_until_ms = now_ms + self.lease_ms;
            let end = PutEnd { now_ms, created_ms, remembered_until_ms };
            let settle = move |catalog: &catalog::Catalog| {
                catalog.settle_put(put, (&seen, &answered), is_complete, remembered_until_ms, end)
            };
            match self.records.run(settle).await? {
                Settled::Committed => {
                    tracing::warn!(%put, "it is whole: it counts as committed before the catalog was lost")
                }
                Settled::Pending => tracing::info!(%put, "it lacks blocks, so it was not committed"),
                Settled::Waits => {}
            }
        }
        Ok(())
    }
}

impl Worker for PutReaper {
    type Error = CoordinatorError;

    fn name(&self) -> &'static str {
        "put-reaper"
    }

    fn pause(&self) -> Duration {
        tick(PUT_TICK_MS, self.lease_ms)
    }

    async fn step(&mut self, task: &Task) -> Result<Step> {
        self.settle().await?;
        let now = self.cluster.clock.now_ms();
        let end = move |catalog: &catalog::Catalog| {
            catalog.forget_ended_puts(now, FORGOTTEN_AT_ONCE)?;
            let expired = catalog.expired_puts(now)?;
            expired.iter().try_for_each(|&put| catalog.abort_put(put, now))?;
            Ok(expired.len() as u64)
        };
        let ended = self.records.run(end).await?;
        if ended > 0 {
            tracing::info!(puts = ended, "given up: their clients are silent, or their bytes do not move");
        }
        task.note(|report| report.done += ended);
        Ok(Step::Wait(self.pause()))
    }
}
