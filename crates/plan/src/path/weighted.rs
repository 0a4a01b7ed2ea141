//! The path whose largest link weight is smallest (RP §4.3, Algorithm 2): the slowest link bounds the rate of a
//! chain of slices.
//!
//! The paper searches depth first and drops a link that is no better than the best path so far. That takes seconds if
//! links are equal and helpers are tried in the order of their numbers. Here the largest weight is found by
//! bisection: is there a path that uses only links up to this weight? A search answers it, almost always after about
//! k steps, because nodes that cannot reach the requestor any more and links that too many nodes depend on show
//! early. The answer is as exact.

use super::links::LinkMatrix;
use super::node_set::NodeSet;
use super::search::{Outcome, Search};
use super::{MAX_NODES, check_helpers};
use crate::error::PlanError;

/// Nodes tried in all before the best path so far is the answer. Whether a path exists is NP-complete (k = n−1 asks
/// for a Hamiltonian path), so there must be a bound. This one is a fraction of a second, and of random weights at
/// (40,32) it leaves two in a thousand unproven, at (14,10) none.
pub const SEARCH_STEPS: usize = 400_000;

/// A path of helpers to a requestor.
#[derive(Clone, PartialEq, Debug)]
pub struct WeightedPath {
    /// The helpers in the order of the path, then the requestor.
    pub path: Vec<usize>,
    /// The largest weight on it.
    pub max_weight: f64,
    /// Whether it is proven that no path has a smaller one. If not, the search was cut off.
    pub proven: bool,
}

/// A path through `k` of `helpers` to `requestor` whose largest link weight is as small as that of any such path.
/// With exactly k helpers, chosen by whoever schedules repairs (RP §4.3, remarks), it is their best order. A weight
/// is the time that a link takes, such as the inverse of its bandwidth; infinity is no link. `steps` bounds the
/// search, usually [`SEARCH_STEPS`].
///
/// # Errors
/// [`PlanError::NotEnoughHelpers`], [`PlanError::NoHelpers`], [`PlanError::NoSuchNode`],
/// [`PlanError::RepeatedNode`], [`PlanError::TooManyNodes`]; [`PlanError::NoPath`] if missing links leave none;
/// [`PlanError::SearchCutOff`] if `steps` did not suffice to find any.
pub fn weighted_path(
    weights: &LinkMatrix,
    helpers: &[usize],
    k: usize,
    requestor: usize,
    steps: usize,
) -> Result<WeightedPath, PlanError> {
    check_helpers(helpers, k, requestor, weights.nodes())?;
    let bisection = Bisection { weights, helpers, requestor, k, steps };
    // A word of bits for each 64 nodes: most stripes need one.
    if helpers.len() < 64 { bisection.run::<1>() } else { bisection.run::<{ MAX_NODES / 64 }>() }
}

struct Bisection<'a> {
    weights: &'a LinkMatrix,
    helpers: &'a [usize],
    requestor: usize,
    k: usize,
    steps: usize,
}

impl Bisection<'_> {
    fn run<const W: usize>(&self) -> Result<WeightedPath, PlanError> {
        let candidates = self.distinct();
        let no_path = PlanError::NoPath { helpers: self.k, requestor: self.requestor };
        let Some(&largest) = candidates.last() else { return Err(no_path) };
        let mut left = self.steps;
        let mut best = match self.within::<W>(largest, &mut left) {
            (_, Some(path)) => path,
            (Outcome::Unknown, None) => return Err(PlanError::SearchCutOff { steps: self.steps }),
            (_, None) => return Err(no_path),
        };
        let place = |weight: f64| candidates.partition_point(|&other| other < weight);
        // Candidates before `refuted` are too small for any path, those before `given_up` at least for a search.
        let (mut refuted, mut given_up) = (0, 0);
        let mut found = place(best.max_weight);
        while given_up < found {
            let middle = given_up.midpoint(found);
            match self.within::<W>(candidates[middle], &mut left) {
                (_, Some(better)) => {
                    found = place(better.max_weight);
                    best = better;
                }
                (outcome, None) => {
                    given_up = middle + 1;
                    if outcome == Outcome::Refuted {
                        refuted = given_up;
                    }
                }
            }
        }
        best.proven = refuted == found;
        Ok(best)
    }

    /// The weights of links that a path can use, each once, in rising order.
    fn distinct(&self) -> Vec<f64> {
        let into = |&to: &usize| {
            let others = self.helpers.iter().filter(move |&&from| from != to);
            others.map(move |&from| self.weights.get(from, to))
        };
        let mut distinct: Vec<f64> =
            self.helpers.iter().chain([&self.requestor]).flat_map(into).filter(|w| w.is_finite()).collect();
        distinct.sort_unstable_by(f64::total_cmp);
        distinct.dedup();
        distinct
    }

    /// A path over links of at most this weight. Takes at most half of the steps that are left: larger weights
    /// are still to be tried if this one cannot be decided.
    fn within<const W: usize>(&self, most: f64, left: &mut usize) -> (Outcome, Option<WeightedPath>) {
        // In the search, helpers have their places in the list as numbers and the requestor comes after them.
        let mut into = vec![NodeSet::<W>::EMPTY; self.helpers.len() + 1];
        let mut all = NodeSet::EMPTY;
        for (from, &helper) in self.helpers.iter().enumerate() {
            all.insert(from);
            for (to, &node) in self.helpers.iter().chain([&self.requestor]).enumerate() {
                if from != to && self.weights.get(helper, node) <= most {
                    into[to].insert(from);
                }
            }
        }
        let steps = left.div_ceil(2);
        let mut search = Search { into: &into, steps, path: Vec::with_capacity(self.k) };
        let outcome = search.extend(self.helpers.len(), &all, self.k);
        *left -= steps - search.steps;
        let path = (outcome == Outcome::Found).then(|| self.measured(&search.path));
        (outcome, path)
    }

    fn measured(&self, backwards: &[usize]) -> WeightedPath {
        let helpers = backwards.iter().rev().map(|&place| self.helpers[place]);
        let path: Vec<usize> = helpers.chain([self.requestor]).collect();
        let max_weight = path.windows(2).map(|link| self.weights.get(link[0], link[1])).fold(0.0, f64::max);
        WeightedPath { path, max_weight, proven: false }
    }
}
