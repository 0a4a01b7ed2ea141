//! Lanes where links have limits: column generation. The linear program over the paths known so far yields a
//! price for each limit; a path that costs less than 1 at these prices improves it; if the cheapest of all paths
//! costs c, then prices divided by c are a solution of the dual program, so Σ limit·price / c bounds the rate,
//! whatever the prices are (weak duality).
//!
//! Any path that costs less than 1 will do to go on, so a quick search looks for some first; all paths are compared
//! only when it finds none. On networks of regions, where many links are alike and rounds are many, that takes
//! milliseconds instead of hundreds.

use super::cheapest::{Cheapest, LinkCosts};
use super::packing::Packing;
use super::{Bandwidth, RatedLane};
use crate::path::links::LinkMatrix;
use crate::path::weighted::weighted_path;

/// Prices computed before the best lanes so far are the answer. (14,10) takes about a hundred.
const ROUNDS: usize = 400;

/// Pivots of all rounds together. Each is linear in the square of the rows.
const PIVOTS: usize = 10_000;

/// With more limits than this (about 44 helpers), whose square the linear program would keep in memory, the
/// widest paths are the answer.
const MOST_ROWS: usize = 2_000;

/// The bound counts as reached when no more than this part of it is missing.
const GAP: f64 = 1e-6;

/// Steps for each widest path to begin with: any will do.
const WIDEST_STEPS: usize = 2_000;

/// The part of the surplus lanes that is dropped each time.
const DROPS: usize = 4;

/// One limit of the program; helpers by their places.
#[derive(Clone, Copy)]
enum Row {
    Total,
    Up(usize),
    Down(usize),
    Link(usize, usize),
}

struct Program<'a> {
    bandwidth: &'a Bandwidth,
    /// The helpers, then the requestor.
    nodes: Vec<usize>,
    k: usize,
    /// Limits that matter, in units of the bound on the rate.
    rows: Vec<(Row, f64)>,
    unit: f64,
}

/// Lanes, without the requestor, and a bound on their rates that is at most `bound`.
pub(super) fn lanes(
    bandwidth: &Bandwidth,
    helpers: &[usize],
    k: usize,
    requestor: usize,
    bound: f64,
    most_lanes: usize,
) -> (Vec<RatedLane>, f64) {
    let nodes: Vec<usize> = helpers.iter().copied().chain([requestor]).collect();
    let program = Program::new(bandwidth, nodes, k, bound);
    let widest = program.widest(most_lanes);
    let (lanes, part) = if program.rows.len() <= MOST_ROWS {
        let widest: Vec<Vec<usize>> = widest.into_iter().map(|(path, _)| path).collect();
        let (paths, part) = program.generate(widest.clone());
        ([paths, widest].map(|paths| program.best_of(paths, most_lanes)), part)
    } else {
        ([widest, Vec::new()], 1.0)
    };
    let rate = |lanes: &Vec<(Vec<usize>, f64)>| lanes.iter().map(|(_, rate)| rate).sum::<f64>();
    // If lanes are few, those that were wide to begin with can be the better ones.
    let lanes = lanes.into_iter().max_by(|a, b| rate(a).total_cmp(&rate(b))).unwrap_or_default();
    let lane = |(path, rate): (Vec<usize>, f64)| RatedLane {
        path: path.into_iter().map(|place| program.nodes[place]).collect(),
        rate: rate * program.unit,
    };
    (lanes.into_iter().map(lane).collect(), part * bound)
}

/// Those of the paths, given with their costs, that improve the program.
fn worth_using(paths: Vec<(f64, Vec<usize>)>) -> Vec<Vec<usize>> {
    paths.into_iter().filter(|(cost, _)| *cost < 1.0 - GAP).map(|(_, path)| path).collect()
}

impl<'a> Program<'a> {
    fn new(bandwidth: &'a Bandwidth, nodes: Vec<usize>, k: usize, unit: f64) -> Self {
        let helpers = nodes.len() - 1;
        let mut rows = vec![(Row::Total, 1.0)];
        // No lane uses a limit twice, so those of `unit` and more never matter, nor does a link's between
        // slower nodes.
        let mut row = |row, limit: f64, others: f64| {
            if limit > 0.0 && limit < unit && limit < others {
                rows.push((row, limit / unit));
            }
        };
        for (from, &node) in nodes[..helpers].iter().enumerate() {
            row(Row::Up(from), bandwidth.up[node], f64::INFINITY);
            row(Row::Down(from), bandwidth.down[node], f64::INFINITY);
            for (to, &other) in nodes.iter().enumerate().filter(|&(to, _)| to != from) {
                let link = bandwidth.links.as_ref().map_or(f64::INFINITY, |links| links.get(node, other));
                row(Row::Link(from, to), link, bandwidth.up[node].min(bandwidth.down[other]));
            }
        }
        Program { bandwidth, nodes, k, rows, unit }
    }

    fn helpers(&self) -> usize {
        self.nodes.len() - 1
    }

    /// Paths that are worth using, found from the given ones on, and the bound in units of `unit`.
    fn generate(&self, mut paths: Vec<Vec<usize>>) -> (Vec<Vec<usize>>, f64) {
        let mut master = self.master(&paths);
        let mut cheapest = Cheapest::new(self.helpers(), self.k);
        let (mut bound, mut pivots) = (1.0_f64, PIVOTS);
        for _ in 0..ROUNDS {
            if !master.maximise(&mut pivots) {
                break;
            }
            let rate: f64 = master.amounts().iter().sum();
            if rate >= bound * (1.0 - GAP) {
                break;
            }
            // Rounding may leave a price just below 0, where no bound would follow from it.
            let prices: Vec<f64> = master.prices().iter().map(|price| price.max(0.0)).collect();
            let costs = self.costs(&prices);
            let mut found = worth_using(cheapest.some(&costs));
            if found.is_empty()
                && let Some(all) = cheapest.of_all(&costs)
            {
                let least = all.iter().map(|(cost, _)| *cost).fold(f64::INFINITY, f64::min);
                let worth: f64 = self.rows.iter().zip(&prices).map(|((_, limit), price)| limit * price).sum();
                if least > 0.0 {
                    bound = bound.min(worth / least);
                }
                found = worth_using(all);
            }
            if found.is_empty() {
                break;
            }
            for path in found {
                master.add(self.column(&path));
                paths.push(path);
            }
        }
        let used = paths.into_iter().zip(master.amounts()).filter(|(_, amount)| *amount > 0.0);
        (used.map(|(path, _)| path).collect(), bound)
    }

    /// At most `most_lanes` of `paths` with good rates: the slowest are dropped a few at a time, so that those
    /// that are left can make up for them.
    fn best_of(&self, mut paths: Vec<Vec<usize>>, most_lanes: usize) -> Vec<(Vec<usize>, f64)> {
        loop {
            let mut master = self.master(&paths);
            // The rates are within the limits even if the method was cut off.
            master.maximise(&mut { PIVOTS });
            let mut rated: Vec<_> =
                paths.into_iter().zip(master.amounts()).filter(|(_, amount)| *amount > 0.0).collect();
            if rated.len() <= most_lanes {
                return rated;
            }
            rated.sort_by(|a, b| b.1.total_cmp(&a.1));
            let excess = rated.len() - most_lanes;
            rated.truncate(rated.len() - excess.div_ceil(DROPS));
            paths = rated.into_iter().map(|(path, _)| path).collect();
        }
    }

    fn master(&self, paths: &[Vec<usize>]) -> Packing {
        let limits: Vec<f64> = self.rows.iter().map(|(_, limit)| *limit).collect();
        let mut master = Packing::new(&limits);
        paths.iter().for_each(|path| master.add(self.column(path)));
        master
    }

    /// The rows that a path uses.
    fn column(&self, path: &[usize]) -> Vec<usize> {
        let uses = |row: Row| match row {
            Row::Total => true,
            Row::Up(helper) => path.contains(&helper),
            Row::Down(helper) => path[1..].contains(&helper),
            Row::Link(from, to) if to == self.helpers() => path.last() == Some(&from),
            Row::Link(from, to) => path.windows(2).any(|link| link == [from, to]),
        };
        (0..self.rows.len()).filter(|&row| uses(self.rows[row].0)).collect()
    }

    /// What each link costs at `prices` of the rows, its ends included.
    fn costs(&self, prices: &[f64]) -> LinkCosts {
        let helpers = self.helpers();
        let mut costs = vec![vec![0.0; helpers + 1]; helpers];
        for (from, row) in costs.iter_mut().enumerate() {
            for (to, cost) in row.iter_mut().enumerate() {
                if from == to || self.bandwidth.link(self.nodes[from], self.nodes[to]) == 0.0 {
                    *cost = f64::INFINITY;
                }
            }
        }
        for ((row, _), price) in self.rows.iter().zip(prices) {
            match *row {
                Row::Total => costs.iter_mut().for_each(|row| row[helpers] += price),
                Row::Up(from) => costs[from].iter_mut().for_each(|cost| *cost += price),
                Row::Down(to) => costs.iter_mut().for_each(|row| row[to] += price),
                Row::Link(from, to) => costs[from][to] += price,
            }
        }
        LinkCosts(costs)
    }

    /// Paths to begin with: again and again the one whose slowest link is fastest, over what the ones before it have
    /// left. Returns them with the rates that this leaves them.
    fn widest(&self, most: usize) -> Vec<(Vec<usize>, f64)> {
        let helpers = self.helpers();
        let mut left: Vec<f64> = self.rows.iter().map(|(_, limit)| *limit).collect();
        let mut paths = Vec::new();
        while paths.len() < most {
            let mut times = vec![vec![1.0; helpers + 1]; helpers + 1];
            for (from, row) in self.costs(&vec![0.0; left.len()]).0.into_iter().enumerate() {
                times[from].iter_mut().zip(row).for_each(|(time, cost)| *time += cost);
            }
            for ((row, _), left) in self.rows.iter().zip(&left) {
                let slow = |time: &mut f64| *time = time.max(1.0 / left);
                match *row {
                    Row::Total => times.iter_mut().for_each(|row| slow(&mut row[helpers])),
                    Row::Up(from) => times[from].iter_mut().for_each(slow),
                    Row::Down(to) => times.iter_mut().for_each(|row| slow(&mut row[to])),
                    Row::Link(from, to) => slow(&mut times[from][to]),
                }
            }
            let Ok(links) = LinkMatrix::from_rows(&times) else { break };
            let all: Vec<usize> = (0..helpers).collect();
            let Ok(found) = weighted_path(&links, &all, self.k, helpers, WIDEST_STEPS) else { break };
            let path = found.path[..self.k].to_vec();
            let rows = self.column(&path);
            let rate = rows.iter().map(|&row| left[row]).fold(f64::INFINITY, f64::min);
            if rate < GAP {
                break;
            }
            // Exactly nothing is left of the tightest limit, whose link is then infinitely slow.
            rows.iter().for_each(|&row| left[row] = if left[row] > rate { left[row] - rate } else { 0.0 });
            paths.push((path, rate));
        }
        paths
    }
}
