//! The cheapest paths over k helpers at given prices: what column generation asks for.

use crate::path::node_set::NodeSet;

/// Up to so many helpers the cheapest path is found exactly, by dynamic programming over all sets of helpers:
/// 2^16 sets of 16 helpers take some ten milliseconds and 8 MiB.
pub const EXACT_HELPERS: usize = 16;

/// Partial paths that are carried on with more helpers: beyond this they differ in little.
const BEAM: usize = 96;

/// The room that the search needs, for use again and again.
pub(super) struct Cheapest {
    helpers: usize,
    k: usize,
    /// For a set of helpers and the one that the path over it ends with: its cost.
    costs: Vec<f64>,
}

/// Costs of links: `0[from][to]`, helpers by their places, the requestor after the last one. Infinity is no link.
pub(super) struct LinkCosts(pub(super) Vec<Vec<f64>>);

impl Cheapest {
    pub(super) fn new(helpers: usize, k: usize) -> Self {
        let sets = if helpers <= EXACT_HELPERS { 1 << helpers } else { 0 };
        Cheapest { helpers, k, costs: vec![0.0; sets * helpers] }
    }

    /// The cheapest of all paths for each helper that it can end with, with their costs. `None` if there are too many.
    pub(super) fn of_all(&mut self, links: &LinkCosts) -> Option<Vec<(f64, Vec<usize>)>> {
        (self.helpers <= EXACT_HELPERS).then(|| self.by_sets(links))
    }

    /// Cheap paths, in a fraction of that time: there may be cheaper ones.
    pub(super) fn some(&self, links: &LinkCosts) -> Vec<(f64, Vec<usize>)> {
        self.by_beam(links)
    }

    fn by_sets(&mut self, LinkCosts(links): &LinkCosts) -> Vec<(f64, Vec<usize>)> {
        let n = self.helpers;
        self.costs.fill(f64::INFINITY);
        (0..n).for_each(|helper| self.costs[(1 << helper) * n + helper] = 0.0);
        let mut best = vec![(f64::INFINITY, 0); n];
        for set in 1_usize..1 << n {
            let size = set.count_ones() as usize;
            for last in (0..n).filter(|last| size <= self.k && set >> last & 1 == 1) {
                let cost = self.costs[set * n + last];
                if size == self.k {
                    if cost + links[last][n] < best[last].0 {
                        best[last] = (cost + links[last][n], set);
                    }
                    continue;
                }
                for next in (0..n).filter(|next| set >> next & 1 == 0) {
                    let longer = &mut self.costs[(set | 1 << next) * n + next];
                    *longer = longer.min(cost + links[last][next]);
                }
            }
        }
        let ends = best.into_iter().enumerate().filter(|(_, (cost, _))| cost.is_finite());
        ends.map(|(last, (cost, set))| (cost, self.trace(links, set, last))).collect()
    }

    /// The path over `set` that ends with `last`.
    fn trace(&self, links: &[Vec<f64>], mut set: usize, mut last: usize) -> Vec<usize> {
        let n = self.helpers;
        let mut path = vec![last];
        while path.len() < self.k {
            set &= !(1 << last);
            let cost = |from: usize| self.costs[set * n + from] + links[from][last];
            let before =
                (0..n).filter(|from| set >> from & 1 == 1).min_by(|&a, &b| cost(a).total_cmp(&cost(b)));
            let Some(before) = before else { break };
            last = before;
            path.push(last);
        }
        path.reverse();
        path
    }

    /// Backwards from the requestor, keeping the cheapest partial paths of each length.
    fn by_beam(&self, LinkCosts(links): &LinkCosts) -> Vec<(f64, Vec<usize>)> {
        let mut beam = vec![(0.0, vec![self.helpers], NodeSet::<4>::EMPTY)];
        for _ in 0..self.k {
            let mut longer: Vec<(f64, usize, usize)> = Vec::new();
            for (parent, (cost, path, used)) in beam.iter().enumerate() {
                let head = path[path.len() - 1];
                let fresh = (0..self.helpers).filter(|&helper| !used.contains(helper));
                let costs = fresh.map(|helper| (cost + links[helper][head], parent, helper));
                longer.extend(costs.filter(|(cost, ..)| cost.is_finite()));
            }
            longer.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then((a.1, a.2).cmp(&(b.1, b.2))));
            longer.truncate(BEAM);
            let grown = longer.into_iter().map(|(cost, parent, helper)| {
                let (_, path, used) = &beam[parent];
                let (mut path, mut used) = (path.clone(), *used);
                path.push(helper);
                used.insert(helper);
                (cost, path, used)
            });
            beam = grown.collect();
        }
        let mut ends = NodeSet::<4>::EMPTY;
        let mut paths = Vec::new();
        for (cost, path, _) in beam {
            if !ends.contains(path[1]) {
                ends.insert(path[1]);
                paths.push((cost, path[1..].iter().rev().copied().collect()));
            }
        }
        paths
    }
}
