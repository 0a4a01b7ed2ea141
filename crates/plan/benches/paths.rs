//! How long path planning takes: `cargo bench -p plan [-- --json] [--seeds N]`.
//!
//! Each case plans once for each seed, over links drawn independently. "Unproven" counts searches that were cut off.

#![allow(clippy::unwrap_used, reason = "a measurement that cannot run should stop")]

use std::time::{Duration, Instant};

use plan::Draw;
use plan::path::{LinkMatrix, SEARCH_STEPS, weighted_path};

const DEFAULT_SEEDS: u64 = 1_000;

/// How the weights of links are drawn.
#[derive(Clone, Copy)]
enum Weights {
    /// Evenly in 0 … 1.
    Uniform,
    /// One of three values: ties everywhere.
    Ties,
}

struct Case {
    name: &'static str,
    weights: Weights,
    n: usize,
    k: usize,
    times: Vec<Duration>,
    unproven: usize,
}

impl Case {
    fn new(name: &'static str, weights: Weights, [n, k]: [usize; 2]) -> Self {
        Case { name, weights, n, k, times: Vec::new(), unproven: 0 }
    }

    fn run(&mut self, seed: u64) {
        let mut draw = Draw::seeded(seed);
        let mut weight = |_| match self.weights {
            Weights::Uniform => draw.below(1 << 40) as f64 / (1_u64 << 40) as f64,
            Weights::Ties => 1.0 + draw.below(3) as f64,
        };
        let rows: Vec<Vec<f64>> = (0..self.n).map(|_| (0..self.n).map(&mut weight).collect()).collect();
        let links = LinkMatrix::from_rows(&rows).unwrap();
        // As many helpers as the case has nodes but one; with k of them, scheduling chose them all.
        let helpers: Vec<usize> = (1..self.n).collect();
        let start = Instant::now();
        let found = weighted_path(&links, &helpers, self.k, 0, SEARCH_STEPS).unwrap();
        self.times.push(start.elapsed());
        self.unproven += usize::from(!found.proven);
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
    let mut cases = [
        Case::new("weighted", Weights::Uniform, [14, 10]),
        Case::new("weighted, ties", Weights::Ties, [14, 10]),
        Case::new("weighted, chosen helpers", Weights::Uniform, [11, 10]),
        Case::new("weighted", Weights::Uniform, [40, 32]),
        Case::new("weighted, ties", Weights::Ties, [40, 32]),
    ];
    // Interleaved, so that a disturbance of the machine meets all cases alike.
    (0..seeds).for_each(|seed| cases.iter_mut().for_each(|case| case.run(seed)));
    let json = arguments.iter().any(|argument| argument == "--json");
    if !json {
        println!("{seeds} seeds; µs\n");
        println!("{:<28}{:>10}{:>12}{:>12}{:>12}{:>10}", "", "(n,k)", "median", "p99", "max", "unproven");
    }
    for case in &cases {
        let ([median, p99, max], shape) = (case.summary(), format!("({},{})", case.n, case.k));
        if json {
            println!(
                "{{\"name\":\"{}\",\"n\":{},\"k\":{},\"seeds\":{seeds},\"us\":{{\"median\":{median:.1},\
                 \"p99\":{p99:.1},\"max\":{max:.1}}},\"unproven\":{}}}",
                case.name, case.n, case.k, case.unproven
            );
        } else {
            let unproven = case.unproven;
            println!("{:<28}{shape:>10}{median:>12.1}{p99:>12.1}{max:>12.1}{unproven:>10}", case.name);
        }
    }
}
