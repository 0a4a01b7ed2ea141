//! Looks for what survives no further loss because nodes are dead. That is made after a minute ([`urgent_ms`]), while the rest
//! of these nodes is waited for: the index of lacks does not have it, for a death writes no rows.
//!
//! Whenever other nodes live, all dead ones are gone through anew: who comes back may make possible what was not.

use super::queue::Standing;
use super::standing;
use crate::attempt::Attempts;
use crate::error::Result;
use crate::jobs::too_many_dead;
use model::{BlockId, NodeId, Placement};
use plan::decide::{Planner, World};
use plan::grace::urgent_ms;
use std::collections::BTreeSet;

/// Between two walks there is at least so many times what the last one took …
const REST: u64 = 10;

/// … but no longer than this: what waits has no margin.
const MAX_REST_MS: u64 = 60_000;

/// See the module.
#[derive(Debug)]
pub(super) struct Scout {
    grace_ms: u64,
    /// Nodes that were gone through since nodes changed.
    seen: BTreeSet<NodeId>,
    /// Who is gone through, and from which block on.
    at: Option<(NodeId, Option<BlockId>)>,
    began_ms: u64,
    rests_until_ms: u64,
}

impl Scout {
    /// With the grace of whole nodes.
    pub fn new(usual_ms: u64) -> Scout {
        let (seen, at) = (BTreeSet::new(), None);
        Scout { grace_ms: urgent_ms(usual_ms), seen, at, began_ms: 0, rests_until_ms: 0 }
    }

    /// Other nodes live now.
    pub fn begin_anew(&mut self) {
        (self.seen, self.at) = (BTreeSet::new(), None);
    }

    /// Some blocks that survive no further loss, of those that are looked at next. `None`: nothing is left to look at.
    pub async fn look(
        &mut self,
        attempts: &Attempts,
        view: &World,
    ) -> Result<Option<Vec<(BlockId, Standing)>>> {
        let now_ms = attempts.cluster.clock.now_ms();
        let Some((node, from)) = self.next(attempts, view, now_ms) else { return Ok(None) };
        let piece = attempts.records.run(move |catalog| {
            let (blocks, next) = catalog.blocks_on_from(node, from)?;
            Ok((catalog.placements(&blocks)?, next))
        });
        let (placements, next) = piece.await?;
        let living = view.living();
        let last = |placement: Placement| {
            let standing = last_spare(&attempts.planner, &placement, &living)?;
            Some((placement.block, standing))
        };
        // What is deleted by now is `None`.
        let found = placements.into_iter().flatten().filter_map(last).collect();
        self.at = next.map(|block| (node, Some(block)));
        if next.is_none() {
            self.seen.insert(node);
            let now_ms = attempts.cluster.clock.now_ms();
            self.rests_until_ms = now_ms + (now_ms.saturating_sub(self.began_ms) * REST).min(MAX_REST_MS);
        }
        Ok(Some(found))
    }

    fn next(&mut self, attempts: &Attempts, view: &World, now_ms: u64) -> Option<(NodeId, Option<BlockId>)> {
        if self.at.is_none() {
            if now_ms < self.rests_until_ms || too_many_dead(view) {
                return None;
            }
            let is_due = |node: &NodeId| {
                !self.seen.contains(node)
                    && attempts.cluster.dead_for(*node).as_millis() >= u128::from(self.grace_ms)
            };
            let mut dead = view.nodes.iter().filter(|(_, node)| !node.is_living).map(|(id, _)| id);
            self.at = Some((dead.find(is_due)?, None));
            self.began_ms = now_ms;
        }
        self.at
    }
}

/// How a block stands of which copies are on dead nodes, if it can be made and no further loss is survived.
fn last_spare(planner: &Planner, placement: &Placement, living: &BTreeSet<NodeId>) -> Option<Standing> {
    let is_short = placement.facts.is_in_need(living);
    standing(planner, placement, living).filter(|standing| is_short && standing.margin == 0)
}

/// Whether a block that was found is still in that state: others of its stripe may have been made meanwhile, or be back. A block
/// that is gone is in none.
pub(super) async fn is_still_last(attempts: &Attempts, block: BlockId) -> bool {
    let placement = attempts.records.run(move |catalog| catalog.placement(block)).await;
    let living = attempts.cluster.view().living();
    placement.is_ok_and(|placement| last_spare(&attempts.planner, &placement, &living).is_some())
}
