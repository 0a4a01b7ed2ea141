//! Tracks copies that living nodes cannot read now (HEALING.md, "States of a copy": *unread*).
//!
//! Nodes report such copies in heartbeats. A background loop turns the reports into one set and hands it to the catalog, which then leaves these
//! copies out of everything it reports. The loop is not a task: an operator who pauses healing still gets true margins. The healer
//! re-creates overdue copies (`healer/unread.rs`). A copy leaves the set when its node stops reporting it.

use crate::clock;
use crate::cluster::{Cluster, Unreadable};
use crate::error::Result;
use crate::records::Records;
use model::{BlockCopy, NodeId, Unread};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Time between two looks at the reports.
const LOOK: Duration = Duration::from_millis(500);

/// Reported folders are expanded into copies again after this time, because blocks come and go.
const EXPAND_MS: u64 = 60_000;

/// The unread copies of one node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct UnreadOf {
    pub node: NodeId,
    /// Copies that blocks count on.
    pub copies: u64,
    /// The reason for one of them.
    pub why: String,
    /// Time until replacements are made; blocks without redundancy do not wait that long.
    pub grace_left_ms: u64,
}

/// For each unread copy the time of its first report, on the cluster's clock.
pub(crate) type Since = BTreeMap<BlockCopy, u64>;

/// See the module.
#[derive(Debug)]
pub(crate) struct UnreadCopies {
    grace_ms: u64,
    heard: Mutex<Heard>,
}

#[derive(Debug, Default)]
struct Heard {
    reports: Vec<Unreadable>,
    since: Arc<Since>,
    /// Number of copies and time of the first report, by node.
    counts: BTreeMap<NodeId, (u64, u64)>,
    expand_at_ms: u64,
}

impl UnreadCopies {
    /// Starts empty. `grace_ms`: how long unread copies wait for replacements.
    pub fn new(grace_ms: u64) -> UnreadCopies {
        UnreadCopies { grace_ms, heard: Mutex::default() }
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the grace of unread copies.
    pub fn grace_ms(&self) -> u64 {
        self.grace_ms
    }

    /// Returns the unread copies.
    pub fn since(&self) -> Arc<Since> {
        Arc::clone(&self.heard().since)
    }

    /// Returns the counts per node.
    pub fn by_node(&self, now_ms: u64) -> Vec<UnreadOf> {
        let heard = self.heard();
        let of = |report: &Unreadable| {
            let &(copies, first_ms) = heard.counts.get(&report.node)?;
            let grace_left_ms = first_ms.saturating_add(self.grace_ms).saturating_sub(now_ms);
            Some(UnreadOf { node: report.node, copies, why: report.why.clone(), grace_left_ms })
        };
        heard.reports.iter().filter_map(of).collect()
    }

    /// Takes the reports of the nodes that live.
    async fn hear(&self, records: &Records, cluster: &Cluster) -> Result<()> {
        let (now_ms, view) = (cluster.clock.now_ms(), cluster.view());
        let mut reports = cluster.health.unreadable();
        reports.retain(|report| view.node(report.node).is_ok_and(|node| node.is_living));
        {
            let heard = self.heard();
            let is_stale = !reports.is_empty() && now_ms >= heard.expand_at_ms;
            if reports == heard.reports && !is_stale {
                return Ok(());
            }
        }
        let asked = reports.clone();
        let copies = records.run(move |catalog| counted(catalog, &asked)).await?;
        let before = self.since();
        let since: Since =
            copies.iter().map(|copy| (*copy, before.get(copy).copied().unwrap_or(now_ms))).collect();
        if before.keys().ne(since.keys()) {
            tracing::warn!(now = since.len(), before = before.len(), "copies on living nodes cannot be read");
            let unread: Unread = copies.into_iter().collect();
            let set = move |catalog: &catalog::Catalog| {
                catalog.set_unread(unread);
                Ok(())
            };
            records.run(set).await?;
            cluster.something_changed();
        }
        let mut counts = BTreeMap::new();
        for (copy, since_ms) in &since {
            let (copies, first_ms) = counts.entry(copy.node).or_insert((0, u64::MAX));
            (*copies, *first_ms) = (*copies + 1, (*first_ms).min(*since_ms));
        }
        let (since, expand_at_ms) = (Arc::new(since), now_ms + EXPAND_MS);
        *self.heard() = Heard { reports, since, counts, expand_at_ms };
        Ok(())
    }
}

/// Returns those copies in the reports, and in reported folders, that blocks count on.
fn counted(catalog: &catalog::Catalog, reports: &[Unreadable]) -> catalog::Result<BTreeSet<BlockCopy>> {
    let mut counted = BTreeSet::new();
    for Unreadable { node, copies, folders, .. } in reports {
        counted.extend(catalog.counted_and_known(copies)?.0);
        for folder in folders {
            counted.extend(catalog.held_in(*node, *folder)?);
        }
    }
    Ok(counted)
}

/// Follows the nodes' reports for as long as the coordinator runs.
pub(crate) async fn follow_reports(unread: Arc<UnreadCopies>, records: Records, cluster: Arc<Cluster>) {
    loop {
        clock::rest(LOOK).await;
        if let Err(error) = unread.hear(&records, &cluster).await {
            tracing::warn!(%error, "reports of unread copies are not processed; trying again");
        }
    }
}
