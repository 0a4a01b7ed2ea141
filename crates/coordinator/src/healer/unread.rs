//! Finds unread copies whose grace is over, so that the healer makes replacements. Blocks that would not survive another loss get theirs
//! after a minute (`urgent_ms`). Nothing is deleted because it is unread.

use super::queue::Standing;
use super::standing;
use crate::attempt::Attempts;
use crate::error::Result;
use crate::unread::UnreadCopies;
use model::{BlockCopy, BlockId, NodeId, Placement};
use plan::decide::World;
use plan::grace::urgent_ms;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Blocks that are looked up at a time.
const AT_ONCE: usize = 1_024;

/// A walk is followed by a rest of at least this many times its duration …
const REST: u64 = 10;

/// … and at least this long …
const MIN_REST_MS: u64 = 500;

/// … but no longer than this, because some blocks have no redundancy left.
const MAX_REST_MS: u64 = 60_000;

/// See the module.
#[derive(Debug)]
pub(super) struct UnreadWalk {
    unread: Arc<UnreadCopies>,
    /// Block at which the walk continues.
    at: Option<BlockId>,
    began_ms: u64,
    rests_until_ms: u64,
}

impl UnreadWalk {
    pub fn new(unread: Arc<UnreadCopies>) -> UnreadWalk {
        UnreadWalk { unread, at: None, began_ms: 0, rests_until_ms: 0 }
    }

    /// Returns some blocks that need a replacement now.
    pub async fn look(&mut self, attempts: &Attempts, view: &World) -> Result<Vec<(BlockId, Standing)>> {
        let (now_ms, grace_ms) = (attempts.cluster.clock.now_ms(), self.unread.grace_ms());
        if now_ms < self.rests_until_ms {
            return Ok(Vec::new());
        }
        let waited = self.next_blocks(now_ms);
        let blocks: Vec<BlockId> = waited.keys().copied().collect();
        if blocks.is_empty() {
            return Ok(Vec::new());
        }
        let living = view.living();
        let placements = attempts.records.run(move |catalog| catalog.placements(&blocks)).await?;
        let due = |placement: Placement| {
            let standing = standing(&attempts.planner, &placement, &living).unwrap_or(Standing::HOPELESS);
            let waited_ms = waited.get(&placement.block).copied().unwrap_or(0);
            let is_due = waited_ms >= grace_ms || standing.margin == 0;
            (is_due && placement.facts.is_in_need(&living)).then_some((placement.block, standing))
        };
        Ok(placements.into_iter().flatten().filter_map(due).collect())
    }

    /// Returns the next blocks of the walk that have waited for the shorter grace, and how long each has waited.
    fn next_blocks(&mut self, now_ms: u64) -> BTreeMap<BlockId, u64> {
        if self.at.is_none() {
            self.began_ms = now_ms;
        }
        let from = BlockCopy { block: self.at.unwrap_or(BlockId(0)), node: NodeId(0), generation: 0 };
        let mut waited: BTreeMap<BlockId, u64> = BTreeMap::new();
        self.at = None;
        for (copy, since_ms) in self.unread.since().range(from..) {
            if waited.len() == AT_ONCE && !waited.contains_key(&copy.block) {
                self.at = Some(copy.block);
                break;
            }
            let waited_ms = waited.entry(copy.block).or_default();
            *waited_ms = now_ms.saturating_sub(*since_ms).max(*waited_ms);
        }
        if self.at.is_none() {
            let rest_ms = (now_ms.saturating_sub(self.began_ms) * REST).clamp(MIN_REST_MS, MAX_REST_MS);
            self.rests_until_ms = now_ms + rest_ms;
        }
        waited.retain(|_, waited_ms| *waited_ms >= urgent_ms(self.unread.grace_ms()));
        waited
    }
}
