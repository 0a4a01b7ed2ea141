//! Choosing from groups of nodes so that the largest load is small.
//!
//! First each group takes its least loaded candidates. Then, as long as it lowers a largest load, choices move along a
//! path: one group takes w for u, the next x for w, until a node has room. If all groups weigh the same, a largest load
//! that no path lowers is the smallest there is (the argument for unit jobs: Harvey, Ladner, Lovász, Tamir,
//! "Semi-matchings for bipartite graphs and load balancing", J. Algorithms 59, 2006).

use std::collections::VecDeque;

/// Searches for a lower largest load, for each group. Of equal groups each choice moves once or twice in all; of unequal
/// ones ever smaller gains could be found for a long time.
const SEARCHES_PER_GROUP: usize = 16;

/// `count` distinct ones of `candidates` are to be chosen, and each gets `bytes`.
pub(super) struct Group {
    /// Indexes of nodes, distinct, at least `count` of them.
    pub candidates: Vec<usize>,
    pub count: usize,
    pub bytes: u64,
}

/// For each group what it chose, in rising order; `load` comes out with it added.
pub(super) fn spread(groups: &[Group], load: &mut [u64]) -> Vec<Vec<usize>> {
    let mut spread = Spread::new(groups, load);
    // Large ones first: what is left to level out is then small.
    let mut order: Vec<usize> = (0..groups.len()).collect();
    order.sort_by_key(|&group| std::cmp::Reverse(groups[group].bytes));
    order.into_iter().for_each(|group| spread.take_least(group));
    for _ in 0..SEARCHES_PER_GROUP * groups.len() {
        if !spread.lower_a_largest() {
            break;
        }
    }
    let chosen = |(group, taken): (&Group, &Vec<bool>)| {
        let mut chosen: Vec<usize> =
            group.candidates.iter().zip(taken).filter(|(_, taken)| **taken).map(|(&node, _)| node).collect();
        chosen.sort_unstable();
        chosen
    };
    groups.iter().zip(&spread.taken).map(chosen).collect()
}

struct Spread<'a> {
    groups: &'a [Group],
    load: &'a mut [u64],
    /// Which candidates each group has chosen.
    taken: Vec<Vec<bool>>,
    /// Of each node, the groups whose candidate it is, and as which one.
    member_of: Vec<Vec<(usize, usize)>>,
    /// How a search came to a node: the group, its candidate that gives way, the node that is that candidate.
    came: Vec<Option<Step>>,
}

#[derive(Clone, Copy)]
struct Step {
    group: usize,
    leaves: usize,
    enters: usize,
    from: usize,
}

impl<'a> Spread<'a> {
    fn new(groups: &'a [Group], load: &'a mut [u64]) -> Self {
        let mut member_of = vec![Vec::new(); load.len()];
        for (index, group) in groups.iter().enumerate() {
            for (place, &node) in group.candidates.iter().enumerate() {
                member_of[node].push((index, place));
            }
        }
        let taken = groups.iter().map(|group| vec![false; group.candidates.len()]).collect();
        let came = vec![None; load.len()];
        Spread { groups, load, taken, member_of, came }
    }

    fn take_least(&mut self, index: usize) {
        let Group { candidates, count, bytes } = &self.groups[index];
        let mut ranked: Vec<(u64, usize)> =
            candidates.iter().enumerate().map(|(place, &node)| (self.load[node], place)).collect();
        if (1..ranked.len()).contains(count) {
            ranked.select_nth_unstable(count - 1);
        }
        for &(_, place) in ranked.iter().take(*count) {
            self.taken[index][place] = true;
            self.load[candidates[place]] += bytes;
        }
    }

    /// Lowers one node of the largest load and raises none to it. Each turn leaves fewer nodes at that load or above,
    /// so that turns end.
    fn lower_a_largest(&mut self) -> bool {
        let largest = self.load.iter().copied().max().unwrap_or(0);
        let full: Vec<usize> = (0..self.load.len()).filter(|&node| self.load[node] == largest).collect();
        // One that cannot be lowered bounds them all.
        full.first().is_some_and(|&node| match self.room_from(node, largest) {
            Some(end) => {
                self.shift(node, end);
                true
            }
            None => false,
        })
    }

    /// Searches, by the fewest steps, a node that can take over from `start` such that no node on the way comes up to
    /// `largest`.
    fn room_from(&mut self, start: usize, largest: u64) -> Option<usize> {
        self.came.fill(None);
        let mut queue = VecDeque::from([start]);
        while let Some(node) = queue.pop_front() {
            let arrives = self.came[node].map_or(0, |step| self.groups[step.group].bytes);
            for &(group, leaves) in &self.member_of[node] {
                let Group { candidates, bytes, .. } = &self.groups[group];
                if !self.taken[group][leaves]
                    || self.load[node] + arrives - bytes.min(&self.load[node]) >= largest
                {
                    continue;
                }
                for (enters, &next) in candidates.iter().enumerate() {
                    if next == start || self.taken[group][enters] || self.came[next].is_some() {
                        continue;
                    }
                    self.came[next] = Some(Step { group, leaves, enters, from: node });
                    if self.load[next] + bytes < largest {
                        return Some(next);
                    }
                    queue.push_back(next);
                }
            }
        }
        None
    }

    fn shift(&mut self, start: usize, end: usize) {
        let mut node = end;
        while node != start
            && let Some(Step { group, leaves, enters, from }) = self.came[node]
        {
            let bytes = self.groups[group].bytes;
            self.taken[group][leaves] = false;
            self.taken[group][enters] = true;
            self.load[node] += bytes;
            self.load[from] -= bytes;
            node = from;
        }
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
            let mut candidates: Vec<usize> = (0..nodes).collect();
            draw.shuffle(&mut candidates);
            candidates.truncate(1 + draw.below(nodes));
            let count = draw.below(candidates.len() + 1);
            Group { count, bytes: bytes(draw), candidates }
        };
        let groups = (0..1 + draw.below(40)).map(|_| group(&mut draw)).collect();
        (groups, (0..nodes).map(|_| 0).collect())
    }

    fn check(groups: &[Group], load: &[u64], chosen: &[Vec<usize>]) {
        let mut sum = vec![0; load.len()];
        for (group, chosen) in groups.iter().zip(chosen) {
            assert_eq!(chosen.len(), group.count);
            assert!(chosen.windows(2).all(|pair| pair[0] < pair[1]));
            assert!(chosen.iter().all(|node| group.candidates.contains(node)));
            chosen.iter().for_each(|&node| sum[node] += group.bytes);
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
