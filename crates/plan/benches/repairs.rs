//! How fast repairs are planned in a cluster of a thousand nodes, on one core:
//! `cargo bench -p plan --bench repairs [-- --json]`.
//!
//! RS(14,10), stripes on 14 nodes drawn evenly, one block lost of each. "least recent" picks the k helpers and the
//! requestor one stripe after another (RP §3.3), "m-ppr" weighs sources and destinations (PPR §5, §7.6), "balanced" assigns
//! batches of 1,024 stripes. Only choosing is timed, not making the flow. Rates are the median of several rounds, with the
//! least and the greatest. Then what the assignments are worth: the busiest link of a recovery beside its bound.

#![allow(clippy::unwrap_used, reason = "a measurement that cannot run should stop")]

use model::NodeId;
use plan::m_ppr::{Coefficients, LostChunk, MPpr};
use plan::recovery::{Assignment, LostBlock, balanced, busiest_bound, loads_of};
use plan::{Draw, LeastRecent, RackId, Requestors, Topology};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Instant;

const NODES: u32 = 1_000;
const RACKS: u32 = 50;
const N: usize = 14;
const K: usize = 10;
const CHUNK_BYTES: u64 = 64 << 20;
const REPAIRS: usize = 8 * 1_024;
const ROUNDS: usize = 11;
const SEEDS: u64 = 20;

/// Plans all repairs; how many a second.
type Case = fn(&World) -> f64;

struct World {
    topology: Topology,
    alive: Vec<NodeId>,
    /// The survivors of each stripe.
    stripes: Vec<Vec<NodeId>>,
}

fn world() -> World {
    let topology = (0..NODES).map(|node| (NodeId(node), RackId(node % RACKS))).collect();
    let mut draw = Draw::seeded(1);
    let stripe = |_| {
        let mut picked = Vec::new();
        while picked.len() < N - 1 {
            let node = NodeId(draw.below(NODES as usize) as u32);
            if !picked.contains(&node) {
                picked.push(node);
            }
        }
        picked
    };
    World { topology, alive: (0..NODES).map(NodeId).collect(), stripes: (0..REPAIRS).map(stripe).collect() }
}

fn least_recent(world: &World) -> f64 {
    let mut recent = LeastRecent::default();
    let mut requestors = Requestors::new(&world.topology, &world.alive).unwrap();
    let mut received = vec![0.0; NODES as usize];
    let start = Instant::now();
    for survivors in &world.stripes {
        black_box(recent.select(survivors, K).unwrap());
        let chosen = requestors.cheapest(survivors, |node| received[node]).unwrap();
        received[chosen] += 1.0;
    }
    REPAIRS as f64 / start.elapsed().as_secs_f64()
}

fn m_ppr(world: &World) -> f64 {
    let user = |node: NodeId| u64::from(node.0 % 7) << 20;
    let mut plan = MPpr::new(&world.topology, &world.alive, user, Coefficients::default()).unwrap();
    let chunk = |survivors: &Vec<NodeId>| LostChunk {
        survivors: survivors.iter().map(|&node| (node, node.0.is_multiple_of(5))).collect(),
        needed: K,
        holders: survivors.clone(),
        bytes: CHUNK_BYTES,
    };
    let chunks: Vec<LostChunk> = world.stripes.iter().map(chunk).collect();
    let start = Instant::now();
    for chunk in &chunks {
        black_box(plan.plan(chunk).unwrap());
    }
    REPAIRS as f64 / start.elapsed().as_secs_f64()
}

fn all_at_once(world: &World) -> f64 {
    let mut requestors = Requestors::new(&world.topology, &world.alive).unwrap();
    let lost = |survivors: &Vec<NodeId>| {
        let requestors = requestors.allowed(survivors, 0, NODES as usize).unwrap();
        LostBlock { survivors: survivors.clone(), needed: K, requestors, bytes: CHUNK_BYTES }
    };
    let blocks: Vec<LostBlock> = world.stripes.iter().map(lost).collect();
    let start = Instant::now();
    for batch in blocks.chunks(1_024) {
        assert!(balanced(batch, &BTreeMap::new()).iter().all(Result::is_ok));
    }
    REPAIRS as f64 / start.elapsed().as_secs_f64()
}

/// The busiest link of a recovery in blocks, over stripes of one size: least recent helpers and requestors one after
/// another, all at once, and the bound; sums over seeds.
fn busiest(nodes: usize, stripes: usize) -> [u64; 3] {
    let mut sums = [0; 3];
    for seed in 0..SEEDS {
        let mut draw = Draw::seeded(seed);
        let mut recent = LeastRecent::default();
        let mut received = vec![0_u64; nodes];
        let (mut blocks, mut one_by_one) = (Vec::new(), Vec::new());
        for _ in 0..stripes {
            let mut all: Vec<NodeId> = (0..nodes as u32).map(NodeId).collect();
            draw.shuffle(&mut all);
            let requestors = all.split_off(N - 1);
            let chain = recent.select(&all, K).unwrap().into_iter().map(|index| all[index]).collect();
            let requestor = *requestors.iter().min_by_key(|node| received[node.0 as usize]).unwrap();
            received[requestor.0 as usize] += 1;
            one_by_one.push(Assignment { chain, requestor });
            blocks.push(LostBlock { survivors: all, needed: K, requestors, bytes: 1 });
        }
        let nothing = BTreeMap::new();
        let at_once: Vec<Assignment> = balanced(&blocks, &nothing).into_iter().map(Result::unwrap).collect();
        for (sum, assignments) in sums.iter_mut().zip([one_by_one, at_once]) {
            let loads = loads_of(assignments.iter().map(|assignment| (assignment, 1)));
            *sum += loads.values().map(|load| load.sent.max(load.received)).max().unwrap_or(0);
        }
        sums[2] += busiest_bound(&blocks, &nothing);
    }
    sums
}

fn main() {
    let json = std::env::args().any(|argument| argument == "--json");
    let world = world();
    let cases: [(&str, Case); 3] =
        [("least recent", least_recent), ("m-ppr", m_ppr), ("balanced", all_at_once)];
    let mut rates = [const { Vec::new() }; 3];
    // Interleaved, so that a disturbance of the machine meets all cases alike.
    for _ in 0..ROUNDS {
        cases.iter().zip(&mut rates).for_each(|((_, run), rates)| rates.push(run(&world)));
    }
    if !json {
        println!(
            "{NODES} nodes in {RACKS} racks, RS({N},{K}), {REPAIRS} repairs, {ROUNDS} rounds; repairs/s\n"
        );
        println!("{:<16}{:>12}{:>12}{:>12}", "", "median", "least", "greatest");
    }
    for ((name, _), rates) in cases.iter().zip(&mut rates) {
        rates.sort_by(f64::total_cmp);
        let [median, least, greatest] = [rates[ROUNDS / 2], rates[0], rates[ROUNDS - 1]];
        match json {
            true => println!(
                "{{\"name\":\"{name}\",\"nodes\":{NODES},\"repairs_per_s\":\
                 {{\"median\":{median:.0},\"least\":{least:.0},\"greatest\":{greatest:.0}}}}}"
            ),
            false => println!("{name:<16}{median:>12.0}{least:>12.0}{greatest:>12.0}"),
        }
    }
    if !json {
        println!("\nbusiest link, blocks, mean of {SEEDS} draws\n");
        println!("{:<28}{:>12}{:>12}{:>12}", "", "least recent", "balanced", "bound");
    }
    for (nodes, stripes) in [(16, 64), (40, 128), (100, 1_000)] {
        let [greedy, even, bound] = busiest(nodes, stripes).map(|sum| sum as f64 / SEEDS as f64);
        match json {
            true => println!(
                "{{\"name\":\"busiest link\",\"nodes\":{nodes},\"stripes\":{stripes},\
                 \"blocks\":{{\"least_recent\":{greedy:.2},\"balanced\":{even:.2},\"bound\":{bound:.2}}}}}"
            ),
            false => {
                let name = format!("{nodes} nodes, {stripes} stripes");
                println!("{name:<28}{greedy:>12.2}{even:>12.2}{bound:>12.2}");
            }
        }
    }
}
