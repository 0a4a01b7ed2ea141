//! Choosing from groups of nodes so that the largest load is small.
//!
//! First each group takes its least loaded candidates. Then, as long as it lowers a largest load, choices move along a
//! path: one group takes w for u, the next x for w, until a node has room. If all groups weigh the same, a largest load
//! that no path lowers is the smallest there is (the argument for unit jobs: Harvey, Ladner, Lovász, Tamir,
//! "Semi-matchings for bipartite graphs and load balancing", J. Algorithms 59, 2006).

use std::collections::VecDeque;

/// Searches for a lower largest load, for each group. If groups are equal, each choice moves once or twice in all; if
/// they are not, ever smaller gains could be found for a long time.
const SEARCHES_PER_GROUP: usize = 16;

/// Candidates of a wide group that its first choice looks at, those of the next group further on. The least loaded of
/// so many is about the least loaded of all; the searches, which look at every one, make up for the rest.
const FIRST_LOOK: usize = 64;

/// `count` distinct ones of `candidates` are to be chosen, and each gets `bytes`.
pub(super) struct Group {
    /// Indexes of nodes, distinct, at least `count` of them.
    pub candidates: Vec<u32>,
    pub count: usize,
    pub bytes: u64,
}

/// For each group what it chose, in rising order; `load` comes out with it added.
pub(super) fn spread(groups: &[Group], load: &mut [u64]) -> Vec<Vec<u32>> {
    let mut spread = Spread::new(groups, load);
    // Large ones first: what is left to level out is then small.
    let mut order: Vec<usize> = (0..groups.len()).collect();
    order.sort_by_key(|&group| std::cmp::Reverse(groups[group].bytes));
    order.into_iter().for_each(|group| spread.take_least(group));
    let even = spread.even();
    for _ in 0..SEARCHES_PER_GROUP * groups.len() {
        if !spread.lower_a_largest(even) {
            break;
        }
    }
    let mut chosen = spread.chosen;
    chosen.iter_mut().for_each(|chosen| chosen.sort_unstable());
    chosen
}

struct Spread<'a> {
    groups: &'a [Group],
    load: &'a mut [u64],
    /// What each group has chosen.
    chosen: Vec<Vec<u32>>,
    /// The groups that have chosen each node.
    chosen_by: Vec<Vec<u32>>,
    /// How a search came to a node: the group, which of its choices gives way.
    came: Vec<Option<Step>>,
    /// Load and candidate, for [`take_least`](Self::take_least).
    ranked: Vec<(u64, u32)>,
}

#[derive(Clone, Copy)]
struct Step {
    group: u32,
    leaves: u32,
}

impl<'a> Spread<'a> {
    fn new(groups: &'a [Group], load: &'a mut [u64]) -> Self {
        let (chosen_by, came) = (vec![Vec::new(); load.len()], vec![None; load.len()]);
        let chosen = groups.iter().map(|group| Vec::with_capacity(group.count)).collect();
        Spread { groups, load, chosen, chosen_by, came, ranked: Vec::new() }
    }

    fn take_least(&mut self, index: usize) {
        let Group { candidates, count, bytes } = &self.groups[index];
        let look = candidates.len().min(FIRST_LOOK.max(*count));
        let from = if look < candidates.len() { index.wrapping_mul(look) % candidates.len() } else { 0 };
        let seen = candidates[from..].iter().chain(&candidates[..from]).take(look);
        self.ranked.clear();
        self.ranked.extend(seen.map(|&node| (self.load[node as usize], node)));
        if (1..look).contains(count) {
            self.ranked.select_nth_unstable(count - 1);
        }
        for &(_, node) in &self.ranked[..*count] {
            self.chosen[index].push(node);
            self.chosen_by[node as usize].push(index as u32);
            self.load[node as usize] += bytes;
        }
    }

    /// A lower bound on the largest load, whatever is chosen: all nodes as even as they can be.
    fn even(&self) -> u64 {
        let total: u64 = self.load.iter().sum();
        // If all that is moved has one length and all loads are multiples of it now, they stay so.
        let unit = self.groups.first().map_or(1, |group| group.bytes.max(1));
        let whole = self.groups.iter().all(|group| group.bytes == unit)
            && self.load.iter().all(|load| load.is_multiple_of(unit));
        total.div_ceil(self.load.len().max(1) as u64).next_multiple_of(if whole { unit } else { 1 })
    }

    /// Lowers one node of the largest load, if that is more than `even`, and raises none to it. Each turn leaves fewer nodes
    /// at that load or above, so that turns end.
    fn lower_a_largest(&mut self, even: u64) -> bool {
        let largest = self.load.iter().copied().max().unwrap_or(0);
        if largest <= even {
            return false;
        }
        // One that cannot be lowered bounds them all.
        let full = self.load.iter().position(|&load| load == largest);
        full.is_some_and(|node| match self.room_from(node as u32, largest) {
            Some(end) => {
                self.shift(node as u32, end);
                true
            }
            None => false,
        })
    }

    /// Searches, by the fewest steps, a node that can take over from `start` such that no node on the way comes up to
    /// `largest`, or rises above it.
    fn room_from(&mut self, start: u32, largest: u64) -> Option<u32> {
        self.came.fill(None);
        let mut unseen = self.load.len().saturating_sub(1);
        let mut queue = VecDeque::from([start]);
        while let Some(node) = queue.pop_front() {
            let arrives = self.came[node as usize].map_or(0, |step| self.groups[step.group as usize].bytes);
            for &group in &self.chosen_by[node as usize] {
                let (Group { candidates, bytes, .. }, chosen) =
                    (&self.groups[group as usize], &self.chosen[group as usize]);
                // A node on the way may be as full as the first, but not become so, or fuller.
                let before = self.load[node as usize];
                let after = before + arrives - bytes.min(&before);
                if after >= largest && after > before {
                    continue;
                }
                for &next in candidates {
                    if self.came[next as usize].is_some() || next == start || chosen.contains(&next) {
                        continue;
                    }
                    self.came[next as usize] = Some(Step { group, leaves: node });
                    if self.load[next as usize] + bytes < largest {
                        return Some(next);
                    }
                    unseen -= 1;
                    if unseen == 0 {
                        return None;
                    }
                    queue.push_back(next);
                }
            }
        }
        None
    }

    fn shift(&mut self, start: u32, end: u32) {
        let mut node = end;
        while node != start
            && let Some(Step { group, leaves }) = self.came[node as usize]
        {
            let bytes = self.groups[group as usize].bytes;
            replace(&mut self.chosen[group as usize], leaves, Some(node));
            replace(&mut self.chosen_by[leaves as usize], group, None);
            self.chosen_by[node as usize].push(group);
            self.load[node as usize] += bytes;
            self.load[leaves as usize] -= bytes;
            node = leaves;
        }
    }
}

/// Puts `by` in the place of `what`, or takes it out.
fn replace(list: &mut Vec<u32>, what: u32, by: Option<u32>) {
    let Some(place) = list.iter().position(|&known| known == what) else { return };
    match by {
        Some(by) => list[place] = by,
        None => _ = list.swap_remove(place),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::Draw;
    use crate::recovery::bound::least_largest;

    fn cases(seed: u64, bytes: fn(&mut Draw) -> u64) -> (Vec<Group>, Vec<u64>) {
        let mut draw = Draw::seeded(seed);
        let nodes = 2 + draw.below(12);
        let group = |draw: &mut Draw| {
            let mut candidates: Vec<u32> = (0..nodes as u32).collect();
            draw.shuffle(&mut candidates);
            candidates.truncate(1 + draw.below(nodes));
            let count = draw.below(candidates.len() + 1);
            Group { count, bytes: bytes(draw), candidates }
        };
        let groups = (0..1 + draw.below(40)).map(|_| group(&mut draw)).collect();
        (groups, (0..nodes).map(|_| 0).collect())
    }

    fn check(groups: &[Group], load: &[u64], chosen: &[Vec<u32>]) {
        let mut sum = vec![0; load.len()];
        for (group, chosen) in groups.iter().zip(chosen) {
            assert_eq!(chosen.len(), group.count);
            assert!(chosen.windows(2).all(|pair| pair[0] < pair[1]));
            assert!(chosen.iter().all(|node| group.candidates.contains(node)));
            chosen.iter().for_each(|&node| sum[node as usize] += group.bytes);
        }
        assert_eq!(sum, load);
    }

    /// Two independent ways to the optimum, paths here and cuts in the bound, agree.
    #[test]
    fn of_equal_groups_the_largest_load_is_the_smallest_possible() {
        for seed in 0..3_000 {
            let (groups, mut load) = cases(seed, |_| 1);
            let chosen = spread(&groups, &mut load);
            check(&groups, &load, &chosen);
            assert_eq!(
                load.iter().max().copied(),
                Some(least_largest(&groups, &vec![0; load.len()])),
                "{seed}"
            );
        }
    }

    #[test]
    fn of_unequal_groups_the_largest_load_is_within_one_group_of_the_bound() {
        for seed in 0..3_000 {
            let (groups, mut load) = cases(seed, |draw| 1 + draw.below(1000) as u64);
            let nothing = vec![0; load.len()];
            let chosen = spread(&groups, &mut load);
            check(&groups, &load, &chosen);
            let bound = least_largest(&groups, &nothing);
            let largest = load.iter().max().copied().unwrap_or(0);
            let heaviest = groups.iter().map(|group| group.bytes).max().unwrap_or(0);
            assert!((bound..bound + heaviest).contains(&largest), "{seed}: {largest} for {bound}");
        }
    }
}
