//! How fast a recovery is planned in a cluster of a thousand nodes, on one core, from who may help to the message that
//! has only to be sent: `cargo bench -p coordinator --bench planning [-- --json]`.
//!
//! RS(14,10) by a pipeline, one block lost of each stripe; flows are built, proved, priced, bound and written out. Rates
//! are the median of several rounds, with the least and the greatest; the steps are those of the median round.

#![allow(clippy::unwrap_used, reason = "a measurement that cannot run should stop")]

use flow::{FlowPlan, Scheme};
use model::Assign;
use plan::paper::{Cluster, Paper, Planned};
use std::time::Instant;
use wire::Message;
use wire::codec::plan::order;

/// As in the coordinator's process.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const REPAIRS: usize = 8 * 1_024;
const ROUNDS: usize = 7;
const ASSIGNMENTS: [(&str, Assign); 3] =
    [("balanced", Assign::Balanced), ("least-recent", Assign::LeastRecent), ("m-ppr", Assign::MPpr)];

fn main() {
    let json = std::env::args().any(|argument| argument == "--json");
    let paper = Paper {
        nodes: 1_000,
        racks: 50,
        code: "rs-10+4".to_owned(),
        block_bytes: 64 << 20,
        stripes: REPAIRS,
        seed: 1,
    };
    let cluster = Cluster::new(&paper).unwrap();
    let mut rounds = ASSIGNMENTS.map(|_| Vec::new());
    // Interleaved, so that a disturbance of the machine meets all cases alike.
    for _ in 0..ROUNDS {
        for ((_, assign), rounds) in ASSIGNMENTS.iter().zip(&mut rounds) {
            let start = Instant::now();
            let written = |plan: &FlowPlan| order(plan, false).encode_to_vec().len();
            let planned = cluster.plan((*assign, Some(Scheme::Pipeline)), || start.elapsed(), written);
            rounds.push(planned.unwrap());
        }
    }
    if !json {
        println!("1000 nodes in 50 racks, rs-10+4, {REPAIRS} repairs, {ROUNDS} rounds; repairs/s\n");
        println!(
            "{:<14}{:>10}{:>10}{:>10}   µs a repair: chosen, built, written",
            "", "median", "least", "greatest"
        );
    }
    for ((assign, _), mut rounds) in ASSIGNMENTS.into_iter().zip(rounds) {
        rounds.sort_by(|a, b| a.repairs_per_s().total_cmp(&b.repairs_per_s()));
        let [median, least, greatest] =
            [&rounds[ROUNDS / 2], &rounds[0], &rounds[ROUNDS - 1]].map(Planned::repairs_per_s);
        let Planned { chosen, built, written, .. } = rounds[ROUNDS / 2];
        let [chosen, built, written] =
            [chosen, built, written].map(|step| step.as_secs_f64() * 1e6 / REPAIRS as f64);
        match json {
            true => println!(
                "{{\"name\":\"{assign}\",\"repairs_per_s\":{{\"median\":{median:.0},\"least\":{least:.0},\
                 \"greatest\":{greatest:.0}}},\"us\":{{\"chosen\":{chosen:.2},\"built\":{built:.2},\
                 \"written\":{written:.2}}}}}"
            ),
            false => println!(
                "{assign:<14}{median:>10.0}{least:>10.0}{greatest:>10.0}   {chosen:.2}, {built:.2}, {written:.2}"
            ),
        }
    }
}
