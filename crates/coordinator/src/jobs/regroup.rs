//! Which stripes become which: those that keep much that nobody needs, and those of objects whose code is to be another.
//!
//! ```text
//!   old stripes, whole ──▶ their live blocks ──▶ new stripes ──▶ one change of the catalog
//!                          (dead ones and parities go with the old)
//! ```
//! A block is in one stripe only, and the others of its stripe are decoded with it. So all live blocks of a stripe leave it at
//! once, those of other objects too.

use super::archive::Cost;
use crate::attempt::Regroup;
use crate::error::Result;
use crate::records::Records;
use catalog::StripeContents;
use codes::{Code, Codebook};
use model::{BlockId, NodeId, Placement, StripeId};
use plan::decide::DecideError;
use std::collections::{BTreeMap, BTreeSet};

/// Stripes are made others only if what they take up becomes less by at least this part of it: a stripe of rs-10+4 of which
/// three blocks are dead stays as it is and takes twice what lives, one with four becomes smaller.
const LEAST_SAVED: f64 = 0.25;

/// Blocks that change their stripes in one change of the catalog, but for the last stripe's: what is encoded in vain if one of
/// them is deleted meanwhile.
const MAX_BLOCKS_AT_ONCE: usize = 64;

/// A stripe as it is.
#[derive(Clone, Debug)]
pub(crate) struct Old {
    pub stripe: StripeId,
    pub contents: StripeContents,
}

/// A stripe as the catalog has it; `None` if it is gone.
///
/// # Errors
/// Those of the catalog.
pub(crate) async fn old(records: &Records, stripe: StripeId) -> Result<Option<Old>> {
    let contents = records.run(move |catalog| catalog.stripe_contents(stripe)).await?;
    Ok(contents.map(|contents| Old { stripe, contents }))
}

impl Old {
    /// Whether each of its live blocks is on a node that lives: else it is made again first.
    pub fn has_all(&self, living: &BTreeSet<NodeId>) -> bool {
        let mut live = self.contents.live.iter();
        live.all(|placement| placement.facts.locations.iter().any(|l| living.contains(&l.node)))
    }

    /// Whether its data are kept nowhere, so that none can be moved to another stripe.
    pub fn is_virtual(&self) -> bool {
        self.contents.live.iter().any(|placement| placement.facts.is_virtual())
    }

    fn longest(&self) -> u64 {
        self.contents.live.iter().map(|placement| placement.facts.stored_bytes).max().unwrap_or(0)
    }
}

/// Stripes of one code and of blocks of like length that fit in one.
struct Bin {
    room: usize,
    olds: Vec<Old>,
}

/// Thinned stripes put together, the fullest first, each where the least room is left that it fits in; only those that save
/// enough. Parities are as long as the longest block, so lengths differ by less than half.
///
/// # Errors
/// [`DecideError`] for a code that is not known.
pub(crate) fn compacted(olds: Vec<Old>, codes: &Codebook) -> Result<Vec<Regroup>> {
    let mut kinds: BTreeMap<(String, u32), Vec<Old>> = BTreeMap::new();
    for old in olds.into_iter().filter(|old| !old.contents.live.is_empty()) {
        let class = old.longest().max(1).next_power_of_two().trailing_zeros();
        kinds.entry((old.contents.code.clone(), class)).or_default().push(old);
    }
    let mut regroups = Vec::new();
    for ((code, _), mut olds) in kinds {
        let code = codes.get(&code).map_err(DecideError::from)?;
        olds.sort_by_key(|old| std::cmp::Reverse(old.contents.live.len()));
        for Bin { olds, .. } in bins(olds, code.k()) {
            let live: Vec<Placement> = olds.iter().flat_map(|old| old.contents.live.clone()).collect();
            let before: u64 = olds.iter().map(|old| old.contents.stored_bytes).sum();
            let after = Cost::of(&code, &live).coded;
            if before.saturating_sub(after) as f64 >= LEAST_SAVED * before as f64 && before > after {
                let replaces = olds.iter().map(|old| old.stripe).collect();
                regroups.push(Regroup { replaces, groups: vec![(code.clone(), ids(&live))] });
            }
        }
    }
    Ok(regroups)
}

/// By best fit, in falling order.
fn bins(olds: Vec<Old>, k: usize) -> Vec<Bin> {
    // By the room that is left.
    let mut open: Vec<Vec<Bin>> = (0..=k).map(|_| Vec::new()).collect();
    for old in olds {
        let needed = old.contents.live.len().min(k);
        let fits = (needed..=k).find(|&room| open.get(room).is_some_and(|bins| !bins.is_empty()));
        let found = fits.and_then(|room| open.get_mut(room)?.pop());
        let mut bin = found.unwrap_or(Bin { room: k, olds: Vec::new() });
        bin.room -= needed;
        bin.olds.push(old);
        if let Some(bins) = open.get_mut(bin.room) {
            bins.push(bin);
        }
    }
    open.into_iter().flatten().collect()
}

/// Stripes whose `wanted` blocks are to be of the code `to`: as many together as fill new ones. Blocks of other objects that
/// they share stripes with become stripes of the code that they had.
///
/// # Errors
/// [`DecideError`] for a code that is not known.
pub(crate) fn changed(
    olds: Vec<Old>,
    wanted: &BTreeSet<BlockId>,
    to: &Code,
    codes: &Codebook,
) -> Result<Vec<(Regroup, Cost)>> {
    let (mut regroups, mut batch, mut count) = (Vec::new(), Vec::new(), 0);
    for old in olds {
        count += old.contents.live.iter().filter(|placement| wanted.contains(&placement.block)).count();
        batch.push(old);
        if count % to.k() == 0 || count >= MAX_BLOCKS_AT_ONCE {
            regroups.push(regrouped(&std::mem::take(&mut batch), wanted, to, codes)?);
            count = 0;
        }
    }
    if !batch.is_empty() {
        regroups.push(regrouped(&batch, wanted, to, codes)?);
    }
    Ok(regroups)
}

/// These stripes become others; and what the wanted blocks cost then.
fn regrouped(
    olds: &[Old],
    wanted: &BTreeSet<BlockId>,
    to: &Code,
    codes: &Codebook,
) -> Result<(Regroup, Cost)> {
    let mut by_code: BTreeMap<&str, Vec<Placement>> = BTreeMap::new();
    for old in olds {
        for placement in &old.contents.live {
            let is_wanted = wanted.contains(&placement.block);
            let code = if is_wanted { to.name() } else { old.contents.code.as_str() };
            by_code.entry(code).or_default().push(placement.clone());
        }
    }
    let (mut groups, mut cost) = (Vec::new(), Cost::default());
    for (name, mut blocks) in by_code {
        let code = codes.get(name).map_err(DecideError::from)?;
        blocks.sort_by_key(|placement| std::cmp::Reverse(placement.facts.stored_bytes));
        for group in blocks.chunks(code.k()) {
            if name == to.name() {
                cost.add(Cost::of(&code, group));
            }
            groups.push((code.clone(), ids(group)));
        }
    }
    Ok((Regroup { replaces: olds.iter().map(|old| old.stripe).collect(), groups }, cost))
}

fn ids(placements: &[Placement]) -> Vec<BlockId> {
    placements.iter().map(|placement| placement.block).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{BlockFacts, Sums};

    /// A stripe of rs-10+4 of which the first so many blocks live, each of 100 bytes.
    fn old(number: u128, live: usize) -> Old {
        let placement = |index: usize| {
            let facts = BlockFacts::new(100, Sums::default(), Vec::new());
            Placement { block: BlockId(number * 100 + index as u128), facts, stripe: None }
        };
        let contents = StripeContents {
            code: "rs-10+4".to_owned(),
            live: (0..live).map(placement).collect(),
            stored_bytes: 1_400,
        };
        Old { stripe: StripeId(number), contents }
    }

    fn sizes(regroups: &[Regroup]) -> Vec<(usize, Vec<usize>)> {
        let size = |regroup: &Regroup| {
            (regroup.replaces.len(), regroup.groups.iter().map(|(_, blocks)| blocks.len()).collect())
        };
        regroups.iter().map(size).collect()
    }

    #[test]
    fn stripes_with_few_live_blocks_are_put_together_and_those_with_many_stay() {
        let codes = Codebook::default();
        let lives = [1, 9, 8, 2, 1, 1, 7, 3, 10];
        let olds = lives.iter().zip(1..).map(|(&live, number)| old(number, live)).collect();
        let mut found = sizes(&compacted(olds, &codes).unwrap());
        found.sort();
        // 9 + 1, 8 + 2, 7 + 3; of ten live ones nothing is saved, and two single ones are left, which make a short stripe.
        assert_eq!(found, [(2, vec![2]), (2, vec![10]), (2, vec![10]), (2, vec![10])]);
    }

    #[test]
    fn alone_a_stripe_becomes_smaller_only_if_it_saves_a_quarter() {
        let codes = Codebook::default();
        for live in 1..=10 {
            let regroups = compacted(vec![old(1, live)], &codes).unwrap();
            assert_eq!(regroups.len(), usize::from(live <= 6), "{live} live blocks");
            // Never more than twice what lives, but for the few blocks that nothing else is left to be put together with.
            let takes = if regroups.is_empty() { 14 } else { live + 4 };
            assert!(live < 4 || takes <= 2 * live, "{live} live blocks take {takes}");
        }
    }

    #[test]
    fn thousands_of_stripes_with_one_block_each_take_little_more_than_the_code_does() {
        let codes = Codebook::default();
        let olds: Vec<Old> = (0..1_000).map(|number| old(number, usize::from(number % 3 > 0))).collect();
        let live: usize = olds.iter().map(|old| old.contents.live.len()).sum();
        let regroups = compacted(olds, &codes).unwrap();
        let blocks: usize = regroups.iter().flat_map(|r| &r.groups).map(|(_, blocks)| blocks.len()).sum();
        let parities = 4 * regroups.iter().map(|r| r.groups.len()).sum::<usize>();
        assert_eq!(blocks, live);
        assert!((blocks + parities) as f64 <= 1.41 * live as f64, "{blocks} and {parities}");
    }

    #[test]
    fn a_change_of_code_takes_as_many_stripes_as_fill_new_ones_and_their_neighbours_keep_their_code() {
        let codes = Codebook::default();
        let to = codes.get("rs-6+3").unwrap();
        let olds: Vec<Old> = (1..=4).map(|number| old(number, 10)).collect();
        // All but the last block of the fourth.
        let mut wanted: BTreeSet<BlockId> =
            olds.iter().flat_map(|old| &old.contents.live).map(|placement| placement.block).collect();
        wanted.remove(&BlockId(409));
        let regroups: Vec<Regroup> =
            changed(olds, &wanted, &to, &codes).unwrap().into_iter().map(|(regroup, _)| regroup).collect();
        assert_eq!(sizes(&regroups), [(3, vec![6; 5]), (1, vec![1, 6, 3])]);
        let (code, alone) = &regroups[1].groups[0];
        assert_eq!((code.name(), alone.as_slice()), ("rs-10+4", [BlockId(409)].as_slice()));
    }
}
