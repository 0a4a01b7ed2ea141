//! Blocks that have all of their copies, in one rack or on one host, though there are others: they get another copy elsewhere, and
//! then have one too many. No row tells it, since it depends on who leaves and comes. So all rows are looked at when that
//! has changed, a piece at a time, and each hour.

use super::queue::{Queue, Why};
use super::{Blocked, REST, standing};
use crate::attempt::Attempts;
use crate::cluster::sites;
use crate::error::Result;
use catalog::{Sites, is_misplaced, would_spread};
use model::{BlockId, NodeId, Placement};
use plan::decide::World;
use std::collections::BTreeSet;

/// Rows are looked at at least this often.
const EVERY_MS: u64 = 3_600_000;

/// Where nodes stand, and which of them take blocks.
type Ground = (Sites, BTreeSet<NodeId>);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Spreading {
    pub queue: Queue,
    /// Blocks for which no node is there, as the last sweep found it.
    pub blocked: Blocked,
    sweep: Option<Sweep>,
    /// As it was when the last sweep began, and when that was.
    swept: Option<(Ground, u64)>,
    /// More were found than are kept in order.
    has_more: bool,
    /// Another copy of these was made, so that they have too many.
    crowded: Vec<BlockId>,
    rests_until_ms: u64,
}

#[derive(Debug)]
struct Sweep {
    began_ms: u64,
    from: Option<BlockId>,
    found: usize,
    blocked: Blocked,
}

impl Spreading {
    /// Goes on through the rows, a piece at a time. Whether it looked at any.
    pub async fn sweep(
        &mut self,
        attempts: &Attempts,
        view: &World,
        takers: &BTreeSet<NodeId>,
    ) -> Result<bool> {
        let now_ms = attempts.cluster.clock.now_ms();
        let (sites, living) = (sites(view), view.living());
        let (known, stay) = (sites.clone(), living.clone());
        let crowded = std::mem::take(&mut self.crowded);
        if !crowded.is_empty() {
            let (known, stay) = (known.clone(), stay.clone());
            attempts.records.run(move |c| c.thin_out(&crowded, &known, &stay, now_ms)).await?;
        }
        if !self.begin((sites.clone(), takers.clone()), now_ms) {
            return Ok(false);
        }
        let from = self.sweep.as_ref().and_then(|sweep| sweep.from);
        let piece = attempts.records.run(move |catalog| {
            let found = catalog.ill_spread(from, &known)?;
            if !found.crowded.is_empty() {
                catalog.thin_out(&found.crowded, &known, &stay, now_ms)?;
            }
            Ok((catalog.placements(&found.misplaced)?, found.next))
        });
        let (placements, next) = piece.await?;
        for placement in placements.into_iter().flatten() {
            self.found(attempts, &placement, (&sites, takers, &living), now_ms);
        }
        self.end(next, attempts.cluster.clock.now_ms());
        Ok(true)
    }

    /// Begins a sweep if it is time for one. Whether one is under way.
    fn begin(&mut self, ground: Ground, now_ms: u64) -> bool {
        if self.sweep.is_some() {
            return true;
        }
        let is_new = self.swept.as_ref().is_none_or(|(before, _)| *before != ground);
        let is_old = self.swept.as_ref().is_none_or(|(_, at_ms)| now_ms.saturating_sub(*at_ms) >= EVERY_MS);
        let is_more = self.has_more && self.queue.len() == 0;
        if now_ms < self.rests_until_ms || !(is_new || is_old || is_more) {
            return false;
        }
        if is_new {
            self.queue.all_may_go();
        }
        self.swept = Some((ground, now_ms));
        self.queue.begin_sweep();
        self.sweep = Some(Sweep { began_ms: now_ms, from: None, found: 0, blocked: Blocked::new() });
        true
    }

    fn found(
        &mut self,
        attempts: &Attempts,
        placement: &Placement,
        (sites, takers, living): (&Sites, &BTreeSet<NodeId>, &BTreeSet<NodeId>),
        now_ms: u64,
    ) {
        let row = &placement.facts;
        // Copies on dead nodes are the recovery's, which makes them where they lie best.
        if !is_misplaced(row, sites) || !row.locations.iter().all(|l| living.contains(&l.node)) {
            return;
        }
        let Some(sweep) = &mut self.sweep else { return };
        if !takers.iter().any(|&node| would_spread(row, node, sites)) {
            let why = "its copies share a rack or a host, and no node elsewhere takes blocks";
            sweep.blocked.entry(why).or_insert((0, placement.block)).0 += 1;
            return;
        }
        sweep.found += 1;
        let standing = standing(&attempts.planner, placement, living).unwrap_or_default();
        self.queue.found(placement.block, Why::Lacks, standing, now_ms);
    }

    /// A piece was looked at.
    fn end(&mut self, next: Option<BlockId>, now_ms: u64) {
        let Some(sweep) = &mut self.sweep else { return };
        sweep.from = next;
        if next.is_some() {
            return;
        }
        self.queue.end_sweep();
        self.rests_until_ms = now_ms + now_ms.saturating_sub(sweep.began_ms) * REST;
        self.has_more = sweep.found > self.queue.len();
        self.blocked = std::mem::take(&mut sweep.blocked);
        self.sweep = None;
    }

    /// Another copy was made, or the block needs none any more, or is gone.
    pub fn done(&mut self, block: BlockId) {
        self.queue.done(block);
        self.crowded.push(block);
    }
}
