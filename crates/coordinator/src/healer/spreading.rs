//! Blocks that have all of their copies, in one rack or on one host, though there are others: they get another copy elsewhere, and
//! then have one too many. And members of stripes that share a host, or of which a rack holds more than may be lost with
//! it: they move (`plan/src/decide/relocate.rs`). No row tells it, since it depends on who leaves and comes. So all rows are looked
//! at when that has changed, a piece at a time, once more when rows have changed, and each hour.

use super::queue::{Queue, Why};
use super::{Blocked, REST, standing};
use crate::attempt::{Attempts, Outcome, RepairOptions, Wanted};
use crate::cluster::sites;
use crate::error::Result;
use crate::job::Job;
use catalog::{Sites, is_misplaced, would_spread};
use model::{BlockId, NodeId, Placement, StripeId};
use plan::decide::{Relocation, World};
use std::collections::BTreeSet;

/// Rows are looked at at least this often.
const EVERY_MS: u64 = 3_600_000;

/// A put that began while nodes were away may commit after they are back, when the sweep that began with their return has passed its rows. So a
/// changed catalog is swept again, but not sooner than this after the last sweep began …
const CHANGED_MS: u64 = 15_000;

/// … nor than this many times its duration, so that sweeps take at most a hundredth of the time.
const CHANGED_REST: u64 = 100;

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
    /// Something was made since the last sweep began: others of its stripe may follow.
    has_moved: bool,
    /// Another copy of these was made, so that they have too many.
    crowded: Vec<BlockId>,
    rests_until_ms: u64,
    /// How long the last sweep took.
    took_ms: u64,
    /// Changes of the catalog since its start, when the last sweep began.
    changes: u64,
}

#[derive(Debug)]
struct Sweep {
    began_ms: u64,
    at: At,
    found: usize,
    blocked: Blocked,
}

/// Where a sweep goes on: in the blocks, then in the stripes.
#[derive(Clone, Copy, Debug)]
enum At {
    Block(Option<BlockId>),
    Stripe(Option<StripeId>),
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
            let thinned = attempts.records.run(move |c| c.thin_out(&crowded, &known, &stay, now_ms)).await?;
            tell_thinned(attempts, thinned);
        }
        if !self.begin((sites.clone(), takers.clone()), attempts.records.changes(), now_ms) {
            return Ok(false);
        }
        let Some(at) = self.sweep.as_ref().map(|sweep| sweep.at) else { return Ok(false) };
        let next = match at {
            At::Block(from) => {
                let piece = attempts.records.run(move |catalog| {
                    let found = catalog.ill_spread(from, &known)?;
                    let thinned = match found.crowded.is_empty() {
                        true => 0,
                        false => catalog.thin_out(&found.crowded, &known, &stay, now_ms)?,
                    };
                    Ok((catalog.placements(&found.misplaced)?, found.next, thinned))
                });
                let (placements, next, thinned) = piece.await?;
                tell_thinned(attempts, thinned);
                for placement in placements.into_iter().flatten() {
                    self.found(attempts, &placement, (&sites, takers, &living), now_ms);
                }
                Some(next.map_or(At::Stripe(None), |block| At::Block(Some(block))))
            }
            At::Stripe(from) => {
                let piece = attempts.records.run(move |catalog| {
                    let (blocks, next) = catalog.blocks_of_stripes(from)?;
                    Ok((catalog.placements(&blocks)?, next))
                });
                let (placements, next) = piece.await?;
                for placement in placements.into_iter().flatten() {
                    self.found_member(attempts, view, &placement, now_ms);
                }
                next.map(|stripe| At::Stripe(Some(stripe)))
            }
        };
        self.end(next, attempts.cluster.clock.now_ms());
        Ok(true)
    }

    /// Begins a sweep if it is time for one. Whether one is under way.
    fn begin(&mut self, ground: Ground, changes: u64, now_ms: u64) -> bool {
        if self.sweep.is_some() {
            return true;
        }
        let is_new = self.swept.as_ref().is_none_or(|(before, _)| *before != ground);
        let is_old = self.swept.as_ref().is_none_or(|(_, at_ms)| now_ms.saturating_sub(*at_ms) >= EVERY_MS);
        let changed_ms = CHANGED_MS.max(self.took_ms.saturating_mul(CHANGED_REST));
        let is_changed = self.changes != changes
            && self.swept.as_ref().is_some_and(|(_, at_ms)| now_ms.saturating_sub(*at_ms) >= changed_ms);
        let is_more = (self.has_more || self.has_moved) && self.queue.len() == 0;
        if now_ms < self.rests_until_ms || !(is_new || is_old || is_changed || is_more) {
            return false;
        }
        if is_new {
            self.queue.all_may_go();
        }
        self.swept = Some((ground, now_ms));
        self.changes = changes;
        self.has_moved = false;
        self.queue.begin_sweep();
        self.sweep = Some(Sweep { began_ms: now_ms, at: At::Block(None), found: 0, blocked: Blocked::new() });
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

    /// One member of each stripe at most: where the others may go depends on it.
    fn found_member(&mut self, attempts: &Attempts, view: &World, placement: &Placement, now_ms: u64) {
        let Some(sweep) = &mut self.sweep else { return };
        if let Some(Relocation { block, .. }) = relocation(attempts, view, placement) {
            sweep.found += 1;
            let standing = standing(&attempts.planner, placement, &view.living()).unwrap_or_default();
            self.queue.found(block, Why::Lacks, standing, now_ms);
        }
    }

    /// A piece was looked at.
    fn end(&mut self, next: Option<At>, now_ms: u64) {
        let Some(sweep) = &mut self.sweep else { return };
        if let Some(next) = next {
            sweep.at = next;
            return;
        }
        self.queue.end_sweep();
        self.took_ms = now_ms.saturating_sub(sweep.began_ms);
        self.rests_until_ms = now_ms + self.took_ms * REST;
        self.has_more = sweep.found > self.queue.len();
        self.blocked = std::mem::take(&mut sweep.blocked);
        self.sweep = None;
    }

    /// Another copy was made, or the block needs none any more, or is gone.
    pub fn done(&mut self, block: BlockId) {
        self.queue.done(block);
        self.crowded.push(block);
        self.has_moved = true;
    }
}

/// Has failed work tried again if copies went: their nodes may take other members of their stripes now.
fn tell_thinned(attempts: &Attempts, thinned: u64) {
    if thinned > 0 {
        attempts.cluster.something_changed();
    }
}

/// What is to move of a block's stripe.
fn relocation(attempts: &Attempts, view: &World, placement: &Placement) -> Option<Relocation> {
    let load = |node| view.node(node).map_or(0, |facts| facts.blocks) + attempts.cluster.load.of(node);
    attempts.planner.relocation(view, placement.stripe.as_ref()?, load)
}

/// Makes a copy elsewhere, if one is still to be there.
pub(super) async fn spread(attempts: &Attempts, job: &Job, block: BlockId) -> Result<Outcome> {
    let placement = attempts.records.run(move |catalog| catalog.placement(block)).await?;
    let usual = RepairOptions { verify: true, ..RepairOptions::default() };
    let options = match placement.stripe {
        None => RepairOptions { spreads: true, ..usual },
        Some(_) => match relocation(attempts, &attempts.cluster.view(), &placement) {
            Some(Relocation { block: moves, from, to }) if moves == block => {
                RepairOptions { moves: true, replaces: Some(from), requestor: Some(to), ..usual }
            }
            _ => return Ok(Outcome::default()),
        },
    };
    attempts.carry(job, Wanted::Block(block), &options).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_looked_at_again_once_they_have_changed() {
        let mut spreading = Spreading::default();
        let ground = || (Sites::new(), BTreeSet::from([NodeId(1)]));
        let mut looks = |changes, now_ms: u64| {
            let begins = spreading.begin(ground(), changes, now_ms);
            spreading.end(None, now_ms + 200);
            begins
        };
        assert!(looks(1, 0), "the first time");
        assert!(!looks(1, 100_000), "nothing has changed");
        assert!(!looks(2, CHANGED_MS), "that took 200 ms: once in 20 s suffices");
        assert!(looks(2, 20_000) && !looks(3, 39_999) && looks(3, 40_000));
        assert!(looks(3, 40_000 + EVERY_MS), "each hour in any case");
    }
}
