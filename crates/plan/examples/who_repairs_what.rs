//! A node of 30 is lost, and with it a block of each of 60 stripes of RS(9,6): who helps and who receives, so that the
//! busiest link carries little. Chance is an argument, so each run prints the same.
//!
//! `cargo run -p plan --example who_repairs_what`

use model::NodeId;
use plan::recovery::{LostBlock, balanced, busiest_bound, loads_of};
use plan::{Draw, LeastRecent, PlanError};
use std::collections::BTreeMap;

const MIB: u64 = 1 << 20;

fn main() -> Result<(), PlanError> {
    let mut draw = Draw::seeded(7);
    let lost: Vec<LostBlock> = (0..60).map(|_| lost_block(&mut draw)).collect();
    let idle = BTreeMap::new();
    let assignments = balanced(&lost, &idle).into_iter().collect::<Result<Vec<_>, PlanError>>()?;
    let loads = loads_of(assignments.iter().zip(lost.iter().map(|block| block.bytes)));
    let busiest = loads.values().map(|load| load.sent.max(load.received)).max().unwrap_or(0);

    // What each stripe would choose by itself (RP §3.3).
    let (mut recent, mut sent) = (LeastRecent::default(), BTreeMap::new());
    for block in &lost {
        for place in recent.select(&block.survivors, block.needed)? {
            *sent.entry(block.survivors[place]).or_insert(0) += block.bytes;
        }
    }
    let least_recent = sent.into_values().max().unwrap_or(0);
    println!("the busiest link carries, in MiB:");
    println!("  at least     {:>4}", busiest_bound(&lost, &idle) / MIB);
    println!("  balanced     {:>4}", busiest / MIB);
    println!("  least recent {:>4}, counting helpers only", least_recent / MIB);
    Ok(())
}

/// Eight surviving nodes of a stripe, six of which help; any node without a block of it may receive.
fn lost_block(draw: &mut Draw) -> LostBlock {
    let mut nodes: Vec<NodeId> = (0..29).map(NodeId).collect();
    draw.shuffle(&mut nodes);
    let requestors = nodes.split_off(8);
    LostBlock { survivors: nodes, needed: 6, requestors, bytes: MIB }
}

#[test]
fn it_runs() -> Result<(), PlanError> {
    main()
}
