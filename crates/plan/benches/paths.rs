//! How long path planning takes: `cargo bench -p plan [-- --json] [--seeds N]`.
//!
//! Each case plans once for each seed. Weighted paths are planned over links drawn independently, and "unproven" counts
//! searches that were cut off. Multi-path repairs are planned over limits of nodes or links drawn evenly in 100 … 1000,
//! and come with the least rate, as part of the bound, and the most lanes of any seed.

#![allow(clippy::unwrap_used, reason = "a measurement that cannot run should stop")]

use std::time::{Duration, Instant};

use plan::Draw;
use plan::path::{Bandwidth, LinkMatrix, MAX_LANES, SEARCH_STEPS, multi_path, weighted_path};

const DEFAULT_SEEDS: u64 = 1_000;

/// What is planned.
#[derive(Clone, Copy)]
enum Problem {
    /// One path; weights evenly in 0 … 1.
    Weighted,
    /// One path; weights of three values, so ties everywhere.
    Ties,
    /// Several paths, with limits of nodes, or else of links.
    MultiPath { links: bool },
    /// … with a limit for each two of four regions, and of each node the fastest of its region's (RP §6.2).
    Regions,
}

struct Case {
    name: &'static str,
    problem: Problem,
    n: usize,
    k: usize,
    times: Vec<Duration>,
    unproven: usize,
    least_rate: f64,
    most_lanes: usize,
}

impl Case {
    fn new(name: &'static str, problem: Problem, [n, k]: [usize; 2]) -> Self {
        Case { name, problem, n, k, times: Vec::new(), unproven: 0, least_rate: 1.0, most_lanes: 0 }
    }

    fn run(&mut self, seed: u64) {
        let mut draw = Draw::seeded(seed);
        let mut number = |_| match self.problem {
            Problem::Weighted => draw.below(1 << 40) as f64 / (1_u64 << 40) as f64,
            Problem::Ties => 1.0 + draw.below(3) as f64,
            Problem::MultiPath { .. } | Problem::Regions => 100.0 + draw.below(900_000) as f64 / 1e3,
        };
        let mut rows: Vec<Vec<f64>> = (0..self.n).map(|_| (0..self.n).map(&mut number).collect()).collect();
        if let Problem::Regions = self.problem {
            let regions = rows.clone();
            for (from, row) in rows.iter_mut().enumerate() {
                row.iter_mut().enumerate().for_each(|(to, rate)| *rate = regions[from % 4][to % 4]);
            }
        }
        // With k of them, scheduling chose them all.
        let helpers: Vec<usize> = (1..self.n).collect();
        let links = LinkMatrix::from_rows(&rows).unwrap();
        if let Problem::Weighted | Problem::Ties = self.problem {
            let start = Instant::now();
            let found = weighted_path(&links, &helpers, self.k, 0, SEARCH_STEPS).unwrap();
            self.times.push(start.elapsed());
            self.unproven += usize::from(!found.proven);
            return;
        }
        let fastest = |node: &Vec<f64>| node.iter().copied().fold(0.0, f64::max);
        let ports: Vec<f64> = rows.iter().map(fastest).collect();
        let bandwidth = match self.problem {
            Problem::MultiPath { links: false } => {
                Bandwidth::of_nodes(rows[0].clone(), rows[1].clone()).unwrap()
            }
            Problem::Regions => Bandwidth::of_nodes(ports.clone(), ports).unwrap().and_links(links).unwrap(),
            _ => Bandwidth::of_links(links),
        };
        let start = Instant::now();
        let found = multi_path(&bandwidth, &helpers, self.k, 0, MAX_LANES).unwrap();
        self.times.push(start.elapsed());
        self.least_rate = self.least_rate.min(found.rate / found.bound);
        self.most_lanes = self.most_lanes.max(found.lanes.len());
    }

    fn quality(&self, json: bool) -> String {
        let (unproven, rate, lanes) = (self.unproven, self.least_rate, self.most_lanes);
        match (self.problem, json) {
            (Problem::MultiPath { .. } | Problem::Regions, true) => {
                format!("\"least_rate_of_bound\":{rate:.4},\"most_lanes\":{lanes}")
            }
            (Problem::MultiPath { .. } | Problem::Regions, false) => {
                format!("at least {rate:.4} of the bound, at most {lanes} lanes")
            }
            (_, true) => format!("\"unproven\":{unproven}"),
            (_, false) => format!("{unproven} unproven"),
        }
    }

    /// Median, 99th percentile and largest time in µs.
    fn summary(&self) -> [f64; 3] {
        let mut sorted: Vec<f64> = self.times.iter().map(|time| time.as_secs_f64() * 1e6).collect();
        sorted.sort_by(f64::total_cmp);
        [sorted[sorted.len() / 2], sorted[sorted.len() * 99 / 100], sorted[sorted.len() - 1]]
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let seeds = arguments.iter().skip_while(|argument| *argument != "--seeds").nth(1);
    let seeds = seeds.map_or(DEFAULT_SEEDS, |count| count.parse().unwrap()).max(1);
    let [nodes, links] = [false, true].map(|links| Problem::MultiPath { links });
    let mut cases = [
        Case::new("weighted", Problem::Weighted, [14, 10]),
        Case::new("weighted, ties", Problem::Ties, [14, 10]),
        Case::new("weighted, chosen helpers", Problem::Weighted, [11, 10]),
        Case::new("weighted", Problem::Weighted, [40, 32]),
        Case::new("weighted, ties", Problem::Ties, [40, 32]),
        Case::new("multi-path, nodes", nodes, [14, 10]),
        Case::new("multi-path, nodes", nodes, [40, 32]),
        Case::new("multi-path, links", links, [14, 10]),
        Case::new("multi-path, links", links, [17, 12]),
        Case::new("multi-path, regions", Problem::Regions, [17, 12]),
    ];
    // Interleaved, so that a disturbance of the machine meets all cases alike.
    (0..seeds).for_each(|seed| cases.iter_mut().for_each(|case| case.run(seed)));
    let json = arguments.iter().any(|argument| argument == "--json");
    if !json {
        println!("{seeds} seeds; µs\n");
        println!("{:<28}{:>10}{:>12}{:>12}{:>12}", "", "(n,k)", "median", "p99", "max");
    }
    for case in &cases {
        let ([median, p99, max], shape) = (case.summary(), format!("({},{})", case.n, case.k));
        let (name, quality) = (case.name, case.quality(json));
        if json {
            println!(
                "{{\"name\":\"{name}\",\"n\":{},\"k\":{},\"seeds\":{seeds},\
                 \"us\":{{\"median\":{median:.1},\"p99\":{p99:.1},\"max\":{max:.1}}},{quality}}}",
                case.n, case.k
            );
        } else {
            println!("{name:<28}{shape:>10}{median:>12.1}{p99:>12.1}{max:>12.1}   {quality}");
        }
    }
}
