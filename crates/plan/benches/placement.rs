//! What it costs to place a block of three replicas, on one core: `cargo bench -p plan --bench placement [-- --json]`.
//!
//! Open stripes as a cluster has them, one for each core rack, each sealed when it is full: sealing is in the figures. Nanoseconds
//! for a block, the median of several rounds of so many blocks, with the least and the greatest; rounds of all cases take turns.

#![allow(clippy::unwrap_used, reason = "a measurement that cannot run should stop")]

use codes::Code;
use model::NodeId;
use plan::placement::{OpenStripes, Racks, Spread, Terms, policy};
use plan::{Draw, RackId, Topology};
use std::collections::BTreeSet;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

const BLOCKS: usize = 20_000;
const ROUNDS: usize = 11;

struct Case {
    policy: &'static str,
    code: &'static str,
    racks: u32,
    nodes_per_rack: u32,
    rack_capacity: usize,
    target_racks: Option<usize>,
}

const CASES: [Case; 11] = [
    case("random", "rs-10+4", 20, 20, 1, None),
    case("ear-preliminary", "rs-10+4", 20, 20, 1, None),
    case("ear", "rs-10+4", 20, 20, 1, None),
    case("ear", "rs-10+4", 20, 20, 4, None),
    case("ear", "rs-10+4", 20, 20, 4, Some(4)),
    case("ear", "lrc-10+2+2", 20, 20, 1, None),
    case("ear", "lrc-10+2+2", 20, 20, 4, Some(4)),
    case("ear", "rs-10+4", 100, 40, 1, None),
    case("ear", "rs-10+4", 1000, 40, 1, None),
    case("rapidraid", "rapidraid-11+5", 20, 20, 1, None),
    case("rapidraid", "rapidraid-11+5", 1000, 40, 1, None),
];

const fn case(
    policy: &'static str,
    code: &'static str,
    racks: u32,
    nodes_per_rack: u32,
    rack_capacity: usize,
    target_racks: Option<usize>,
) -> Case {
    Case { policy, code, racks, nodes_per_rack, rack_capacity, target_racks }
}

impl Case {
    fn racks(&self) -> Arc<Racks> {
        let nodes = 0..self.racks * self.nodes_per_rack;
        let topology: Topology =
            nodes.map(|node| (NodeId(node), RackId(node / self.nodes_per_rack))).collect();
        Racks::new(&topology, &topology.nodes().collect::<Vec<_>>(), &BTreeSet::new()).unwrap()
    }

    fn name(&self) -> String {
        let targets = self.target_racks.map_or(String::new(), |targets| format!(", R'={targets}"));
        let Case { policy, code, racks, nodes_per_rack, rack_capacity, .. } = self;
        format!("{policy} {code}, {racks} x {nodes_per_rack}, c={rack_capacity}{targets}")
    }

    /// Nanoseconds for a block.
    fn run(&self, racks: &Arc<Racks>, seed: u64) -> f64 {
        let terms = Terms {
            code: Code::parse(self.code).unwrap(),
            rack_capacity: self.rack_capacity,
            target_racks: self.target_racks,
            replicas: 3,
            spread: Spread::TwoRacks,
        };
        let mut open = OpenStripes::new(policy(self.policy, terms).unwrap());
        let mut draw = Draw::seeded(seed);
        let start = Instant::now();
        for _ in 0..BLOCKS {
            if let Some(stripe) = open.place(racks, &mut draw).unwrap().filled {
                black_box(stripe.seal(racks, &mut draw).unwrap());
            }
        }
        start.elapsed().as_secs_f64() * 1e9 / BLOCKS as f64
    }
}

fn main() {
    let json = std::env::args().any(|argument| argument == "--json");
    let racks: Vec<Arc<Racks>> = CASES.iter().map(Case::racks).collect();
    let mut times = vec![Vec::new(); CASES.len()];
    for round in 0..ROUNDS {
        for ((case, racks), times) in CASES.iter().zip(&racks).zip(&mut times) {
            times.push(case.run(racks, round as u64));
        }
    }
    if !json {
        println!("{BLOCKS} blocks, {ROUNDS} rounds; ns a block, stripes sealed\n");
        println!("{:<44}{:>12}{:>12}{:>12}", "", "median", "least", "greatest");
    }
    for (case, times) in CASES.iter().zip(&mut times) {
        times.sort_by(f64::total_cmp);
        let [median, least, greatest] = [times[ROUNDS / 2], times[0], times[ROUNDS - 1]];
        match json {
            true => println!(
                "{{\"name\":\"{}\",\"ns_per_block\":\
                 {{\"median\":{median:.0},\"least\":{least:.0},\"greatest\":{greatest:.0}}}}}",
                case.name()
            ),
            false => println!("{:<44}{median:>12.0}{least:>12.0}{greatest:>12.0}", case.name()),
        }
    }
}
