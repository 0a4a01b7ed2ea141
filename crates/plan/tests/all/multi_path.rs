//! Several paths at once: within all limits, at the optimum of the linear program where that is claimed.

#![allow(clippy::unwrap_used)] // a test may

use microlp::{ComparisonOp, OptimizationDirection, Problem};
use plan::path::{Bandwidth, LinkMatrix, MAX_LANES, MultiPath, SEARCH_STEPS, multi_path, weighted_path};
use plan::{Draw, PlanError};

/// A network, with what the tests must know of it. Node 0 is the requestor, all others help.
struct Network {
    up: Vec<f64>,
    down: Vec<f64>,
    links: Option<Vec<Vec<f64>>>,
}

impl Network {
    /// What its nodes and links carry is drawn in one of a few ways: evenly, over two decades, few values, much
    /// alike; some carry nothing.
    fn random(nodes: usize, with_nodes: bool, with_links: bool, draw: &mut Draw) -> Self {
        let kind = draw.below(5);
        let mut limit = |unlimited: bool| {
            let part = draw.below(1 << 40) as f64 / (1_u64 << 40) as f64;
            let value = match kind {
                0 => 100.0 + 900.0 * part,
                1 => 100.0_f64.powf(0.5 + part),
                2 => [100.0, 300.0, 1000.0][draw.below(3)],
                3 => 900.0 + 100.0 * part,
                _ if draw.below(8) == 0 => 0.0,
                _ => 1000.0 * part,
            };
            if unlimited { f64::INFINITY } else { value }
        };
        let [up, down] = [(); 2].map(|()| (0..nodes).map(|_| limit(!with_nodes)).collect());
        let links = (0..nodes).map(|_| (0..nodes).map(|_| limit(false)).collect()).collect();
        Network { up, down, links: with_links.then_some(links) }
    }

    fn bandwidth(&self) -> Bandwidth {
        let nodes = Bandwidth::of_nodes(self.up.clone(), self.down.clone()).unwrap();
        match &self.links {
            Some(rows) => nodes.and_links(LinkMatrix::from_rows(rows).unwrap()).unwrap(),
            None => nodes,
        }
    }

    fn plan(&self, k: usize, most_lanes: usize) -> Result<MultiPath, PlanError> {
        multi_path(&self.bandwidth(), &self.helpers(), k, 0, most_lanes)
    }

    fn helpers(&self) -> Vec<usize> {
        (1..self.up.len()).collect()
    }

    fn link(&self, from: usize, to: usize) -> f64 {
        self.links.as_ref().map_or(f64::INFINITY, |rows| rows[from][to])
    }

    /// That lanes are paths of k helpers to node 0 within all limits, and their rates what is claimed.
    fn check(&self, found: &MultiPath, k: usize) {
        let nodes = self.up.len();
        let (mut up, mut down) = (vec![0.0; nodes], vec![0.0; nodes]);
        let mut links = vec![vec![0.0; nodes]; nodes];
        for lane in &found.lanes {
            assert!(lane.rate > 0.0);
            assert_eq!((lane.path.len(), lane.path[k]), (k + 1, 0));
            let mut once = lane.path.clone();
            once.sort_unstable();
            once.dedup();
            assert_eq!(once.len(), k + 1);
            for link in lane.path.windows(2) {
                up[link[0]] += lane.rate;
                down[link[1]] += lane.rate;
                links[link[0]][link[1]] += lane.rate;
            }
        }
        // Rates are added up in another order here: a few units in the last place may differ.
        let within = |load: f64, limit: f64| load <= limit * (1.0 + 1e-12);
        for node in 0..nodes {
            assert!(within(up[node], self.up[node]) && within(down[node], self.down[node]));
            assert!((0..nodes).all(|to| within(links[node][to], self.link(node, to))));
        }
        let sum: f64 = found.lanes.iter().map(|lane| lane.rate).sum();
        assert!((sum - found.rate).abs() <= 1e-9 * sum && within(found.rate, found.bound));
    }

    /// The optimum of the linear program with a variable for every path, by a solver that knows nothing of paths.
    fn optimum(&self, k: usize) -> f64 {
        let mut paths = Vec::new();
        every_path(&self.helpers(), k, &mut vec![0], &mut paths);
        let mut problem = Problem::new(OptimizationDirection::Maximize);
        let rates: Vec<_> = paths.iter().map(|_| problem.add_var(1.0, (0.0, f64::INFINITY))).collect();
        let mut limit = |limit: f64, uses: &dyn Fn(usize, usize) -> bool| {
            let used = |path: &Vec<usize>| path.windows(2).any(|link| uses(link[0], link[1]));
            let terms = paths.iter().zip(&rates).filter(|(path, _)| used(path)).map(|(_, rate)| (*rate, 1.0));
            let terms: Vec<_> = terms.collect();
            if limit.is_finite() && !terms.is_empty() {
                problem.add_constraint(&terms[..], ComparisonOp::Le, limit);
            }
        };
        for node in 0..self.up.len() {
            limit(self.up[node], &|from, _| from == node);
            limit(self.down[node], &|_, to| to == node);
            for other in (0..self.up.len()).filter(|&other| other != node) {
                limit(self.link(node, other), &|from, to| (from, to) == (node, other));
            }
        }
        problem.solve().unwrap().into_solution().unwrap().objective()
    }
}

/// Every path over k of the helpers to the node that `path` ends with; paths are built backwards.
fn every_path(helpers: &[usize], k: usize, path: &mut Vec<usize>, into: &mut Vec<Vec<usize>>) {
    if path.len() == k + 1 {
        into.push(path.iter().rev().copied().collect());
        return;
    }
    for &helper in helpers {
        if !path.contains(&helper) {
            path.push(helper);
            every_path(helpers, k, path, into);
            path.pop();
        }
    }
}

#[test]
fn bounds_and_rates_are_the_optimum_of_the_linear_program() {
    let mut draw = Draw::seeded(2);
    let (mut solved, mut zero) = ([0; 3], 0);
    for case in 0..360 {
        let kind = case % 3;
        let nodes = 2 + draw.below(5);
        let k = 1 + draw.below(nodes - 1);
        let network = Network::random(nodes, kind != 1, kind != 0, &mut draw);
        let optimum = network.optimum(k);
        match network.plan(k, 1_000) {
            Ok(found) => {
                network.check(&found, k);
                let near = |value: f64| (value / optimum - 1.0).abs() < 1e-5;
                assert!(near(found.bound) && near(found.rate), "case {case}: {found:?}, optimum {optimum}");
                solved[kind] += 1;
            }
            Err(error) => {
                assert_eq!(error, PlanError::NoPath { helpers: k, requestor: 0 });
                assert!(optimum.abs() < 1e-9, "case {case}: {optimum}");
                zero += 1;
            }
        }
    }
    assert!(solved.iter().all(|&cases| cases > 90) && zero > 5, "{solved:?} {zero}");
}

/// The bound is reached, not only nearly: with fewer lanes than are allowed.
#[test]
fn limits_of_nodes_are_filled_whatever_they_are() {
    let mut draw = Draw::seeded(1977);
    let mut beyond_one_path = 0;
    for case in 0..3_000 {
        let nodes = 2 + draw.below(40);
        let k = 1 + draw.below(nodes - 1);
        let network = Network::random(nodes, true, false, &mut draw);
        let Ok(found) = network.plan(k, MAX_LANES) else { continue };
        network.check(&found, k);
        assert!(found.rate >= found.bound * (1.0 - 1e-6), "case {case}: {} of {}", found.rate, found.bound);
        let most_lanes = found.lanes.len();
        let fewer = network.plan(k, most_lanes.div_ceil(2)).unwrap();
        network.check(&fewer, k);
        assert!(fewer.lanes.len() <= most_lanes.div_ceil(2));
        beyond_one_path += usize::from(found.rate > 1.2 * best_single(&network, k));
    }
    assert!(beyond_one_path > 500, "{beyond_one_path}");
}

/// The closed form and the columns agree where both apply.
#[test]
fn limits_of_nodes_come_out_alike_when_links_could_have_some() {
    let mut draw = Draw::seeded(14);
    for _ in 0..40 {
        let mut network = Network::random(12, true, false, &mut draw);
        let Ok(direct) = network.plan(8, MAX_LANES) else { continue };
        network.links = Some(vec![vec![f64::INFINITY; 12]; 12]);
        let generated = network.plan(8, MAX_LANES).unwrap();
        network.check(&generated, 8);
        assert!((generated.bound / direct.bound - 1.0).abs() < 1e-5);
        assert!(generated.rate >= 0.95 * direct.bound, "{} of {}", generated.rate, direct.bound);
    }
}

fn best_single(network: &Network, k: usize) -> f64 {
    let nodes = network.up.len();
    let time =
        |from: usize, to: usize| 1.0 / network.up[from].min(network.down[to]).min(network.link(from, to));
    let rows: Vec<Vec<f64>> = (0..nodes).map(|from| (0..nodes).map(|to| time(from, to)).collect()).collect();
    let links = LinkMatrix::from_rows(&rows).unwrap();
    weighted_path(&links, &network.helpers(), k, 0, SEARCH_STEPS).map_or(0.0, |found| 1.0 / found.max_weight)
}

#[test]
fn limits_of_links_are_nearly_filled_in_stripes_of_the_papers_size() {
    let mut draw = Draw::seeded(1410);
    let mut even = 0;
    for case in 0..12 {
        let network = Network::random(14, case % 2 == 0, true, &mut draw);
        let Ok(found) = network.plan(10, MAX_LANES) else { continue };
        network.check(&found, 10);
        assert!(found.lanes.len() <= MAX_LANES);
        assert!(found.rate >= 0.9 * found.bound, "case {case}: {} of {}", found.rate, found.bound);
        assert!(found.rate >= best_single(&network, 10) * (1.0 - 1e-6));
        even += usize::from(found.rate < 1.2 * best_single(&network, 10));
    }
    assert!(even < 10);
}

#[test]
fn wide_stripes_get_rates_within_the_limits_too() {
    let mut draw = Draw::seeded(40);
    for (nodes, k, part) in [(24, 16, 0.8), (70, 60, 0.5)] {
        let mut network = Network::random(nodes, true, true, &mut draw);
        network.links.iter_mut().flatten().flatten().for_each(|link| *link += 10.0);
        network.up.iter_mut().chain(&mut network.down).for_each(|limit| *limit += 10.0);
        let found = network.plan(k, MAX_LANES).unwrap();
        network.check(&found, k);
        assert!(found.rate >= part * found.bound, "({nodes},{k}): {} of {}", found.rate, found.bound);
    }
}

/// Nothing is to be gained there, so nothing is split.
#[test]
fn an_even_network_needs_one_lane() {
    let even = Network { up: vec![125.0; 14], down: vec![125.0; 14], links: None };
    let found = even.plan(10, MAX_LANES).unwrap();
    assert_eq!((found.lanes.len(), found.rate, found.bound), (1, 125.0, 125.0));
}

#[test]
fn nonsense_is_told_apart() {
    let plan = |bandwidth: &Bandwidth, k| multi_path(bandwidth, &[1, 2], k, 0, MAX_LANES).map(|_| ());
    let nodes = |up: &[f64], down: &[f64]| Bandwidth::of_nodes(up.to_vec(), down.to_vec());
    let good = nodes(&[1.0; 3], &[1.0; 3]).unwrap();
    assert_eq!(plan(&good, 2), Ok(()));
    assert_eq!(plan(&good, 0), Err(PlanError::NoHelpers));
    assert_eq!(plan(&good, 3), Err(PlanError::NotEnoughHelpers { needed: 3, available: 2 }));
    let unlimited = nodes(&[f64::INFINITY; 3], &[f64::INFINITY; 3]).unwrap();
    assert_eq!(plan(&unlimited, 2), Err(PlanError::NoLimit));
    assert_eq!(
        plan(&nodes(&[1.0; 3], &[0.0; 3]).unwrap(), 2),
        Err(PlanError::NoPath { helpers: 2, requestor: 0 })
    );
    assert_eq!(nodes(&[1.0; 3], &[1.0; 2]), Err(PlanError::WrongNodeCount { given: 2, nodes: 3 }));
    assert_eq!(nodes(&[1.0, f64::NAN], &[1.0; 2]), Err(PlanError::BadNode { node: 1 }));
    let small = LinkMatrix::from_rows(&[[1.0]]).unwrap();
    assert_eq!(good.and_links(small), Err(PlanError::WrongNodeCount { given: 3, nodes: 1 }));
}
