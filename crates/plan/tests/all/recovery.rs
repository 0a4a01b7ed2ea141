//! The assignment of a whole recovery against its lower bound, and beside helpers picked one stripe after another.

#![allow(clippy::unwrap_used, clippy::panic)] // a test may

use model::NodeId;
use plan::recovery::{Assignment, Leaving, LostBlock, NodeLoad, balanced, busiest_bound, leaving, loads_of};
use plan::{Draw, LeastRecent, PlanError};
use std::collections::{BTreeMap, BTreeSet};

fn nodes(ids: impl IntoIterator<Item = usize>) -> Vec<NodeId> {
    ids.into_iter().map(|id| NodeId(id as u32)).collect()
}

/// Stripes of (n, k) on nodes 0 … `nodes`−1, all with a block on node `nodes`, which is lost.
fn lost_node(
    draw: &mut Draw,
    of: usize,
    n: usize,
    k: usize,
    stripes: usize,
    bytes: fn(&mut Draw) -> u64,
) -> Vec<LostBlock> {
    let lost = |draw: &mut Draw| {
        let mut all: Vec<usize> = (0..of).collect();
        draw.shuffle(&mut all);
        let requestors = nodes(all.split_off(n - 1));
        LostBlock { survivors: nodes(all), needed: k, requestors, bytes: bytes(draw) }
    };
    (0..stripes).map(|_| lost(draw)).collect()
}

/// The largest number of bytes that a node sends or receives, after a look at whether the assignment is one.
fn busiest(blocks: &[LostBlock], assignments: &[Assignment]) -> u64 {
    assert_eq!(blocks.len(), assignments.len());
    for (block, Assignment { chain, requestor }) in blocks.iter().zip(assignments) {
        let distinct: BTreeSet<&NodeId> = chain.iter().collect();
        assert_eq!((chain.len(), distinct.len()), (block.needed, block.needed));
        assert!(chain.iter().all(|helper| block.survivors.contains(helper)));
        assert!(block.requestors.contains(requestor) && !block.survivors.contains(requestor));
    }
    let loads = loads_of(assignments.iter().zip(blocks.iter().map(|block| block.bytes)));
    loads.values().map(|load| load.sent.max(load.received)).max().unwrap_or(0)
}

fn assign(blocks: &[LostBlock]) -> Vec<Assignment> {
    balanced(blocks, &BTreeMap::new()).into_iter().map(Result::unwrap).collect()
}

#[test]
fn the_busiest_link_is_within_a_block_of_the_bound() {
    let (mut at_bound, mut cases) = (0, 0);
    for seed in 0..1_500 {
        let mut draw = Draw::seeded(seed);
        let k = 1 + draw.below(10);
        let n = k + 1 + draw.below(4);
        let (of, stripes) = (n + draw.below(30), 1 + draw.below(80));
        let mut blocks = lost_node(&mut draw, of, n, k, stripes, |_| 1);
        // One requestor, few, or all that may be.
        for block in &mut blocks {
            let keep = [1, 3, usize::MAX][seed as usize % 3];
            block.requestors.truncate(keep);
        }
        let bound = busiest_bound(&blocks, &BTreeMap::new());
        let busiest = busiest(&blocks, &assign(&blocks));
        assert!((bound..=bound + 1).contains(&busiest), "seed {seed}: {busiest} blocks, bound {bound}");
        at_bound += usize::from(busiest == bound);
        cases += 1;
    }
    assert!(at_bound * 100 >= cases * 90, "{at_bound} of {cases} at the bound");
}

#[test]
fn of_blocks_of_several_lengths_the_busiest_link_is_within_the_longest_two_of_the_bound() {
    for seed in 0..600 {
        let mut draw = Draw::seeded(seed);
        let k = 1 + draw.below(10);
        let (n, stripes) = (k + 1 + draw.below(4), 1 + draw.below(80));
        let of = n + draw.below(30);
        let blocks = lost_node(&mut draw, of, n, k, stripes, |draw| 1 + draw.below(1 << 20) as u64);
        let longest = blocks.iter().map(|block| block.bytes).max().unwrap();
        let bound = busiest_bound(&blocks, &BTreeMap::new());
        let busiest = busiest(&blocks, &assign(&blocks));
        assert!((bound..bound + 2 * longest).contains(&busiest), "seed {seed}: {busiest} B, bound {bound} B");
    }
}

/// RS(14,10), 64 stripes on 16 nodes as in RP Figure 8(e): what the balanced assignment is for.
#[test]
fn picking_one_stripe_after_another_loads_the_busiest_link_more() {
    let (mut even, mut greedy) = (0, 0);
    for seed in 0..50 {
        let mut draw = Draw::seeded(seed);
        let blocks = lost_node(&mut draw, 16, 14, 10, 64, |_| 1);
        even += busiest(&blocks, &assign(&blocks));
        let mut recent = LeastRecent::default();
        let mut received: BTreeMap<NodeId, u64> = BTreeMap::new();
        let mut one_by_one = |block: &LostBlock| {
            let chosen = recent.select(&block.survivors, block.needed).unwrap();
            let chain = chosen.into_iter().map(|index| block.survivors[index]).collect();
            let free = |node: &&NodeId| received.get(node).copied().unwrap_or(0);
            let requestor = *block.requestors.iter().min_by_key(free).unwrap();
            *received.entry(requestor).or_default() += 1;
            Assignment { chain, requestor }
        };
        greedy += busiest(&blocks, &blocks.iter().map(&mut one_by_one).collect::<Vec<_>>());
    }
    assert!(even * 110 < greedy * 100, "{even} and {greedy} blocks in all");
}

#[test]
fn what_nodes_do_already_counts() {
    let free = LostBlock { survivors: nodes(0..3), needed: 2, requestors: nodes(3..5), bytes: 10 };
    let loads = BTreeMap::from([
        (NodeId(1), NodeLoad { sent: 50, received: 0 }),
        (NodeId(3), NodeLoad { sent: 0, received: 50 }),
    ]);
    let [Ok(Assignment { chain, requestor })] = &balanced(std::slice::from_ref(&free), &loads)[..] else {
        panic!()
    };
    assert_eq!(
        (chain.iter().collect::<BTreeSet<_>>(), *requestor),
        (nodes([0, 2]).iter().collect(), NodeId(4))
    );
    assert_eq!(busiest_bound(&[free], &loads), 50);
}

#[test]
fn what_cannot_be_repaired_is_said_and_stops_nothing() {
    let good = LostBlock { survivors: nodes(0..3), needed: 2, requestors: nodes(3..5), bytes: 1 };
    let blocks = [
        LostBlock { needed: 4, ..good.clone() },
        LostBlock { requestors: nodes(0..2), ..good.clone() },
        LostBlock { needed: 0, ..good.clone() },
        LostBlock { survivors: nodes([0, 0, 1]), needed: 3, ..good.clone() },
        good,
    ];
    let answers = balanced(&blocks, &BTreeMap::new());
    assert_eq!(answers[0], Err(PlanError::NotEnoughHelpers { needed: 4, available: 3 }));
    assert_eq!(answers[1], Err(PlanError::NoTarget { alive: 2 }));
    assert_eq!(answers[2], Err(PlanError::NoHelpers));
    assert_eq!(answers[3], Err(PlanError::NotEnoughHelpers { needed: 3, available: 2 }));
    busiest(&blocks[4..], &[answers[4].clone().unwrap()]);
    assert!(balanced::<LostBlock>(&[], &BTreeMap::new()).is_empty());
}

/// The same blocks, copied from the node that leaves.
fn copies(blocks: &[LostBlock], leaver: NodeId) -> Vec<LostBlock> {
    let copied = |block: &LostBlock| LostBlock { survivors: vec![leaver], needed: 1, ..block.clone() };
    blocks.iter().map(copied).collect()
}

fn leave(blocks: &[LostBlock], leaver: NodeId) -> (usize, u64) {
    let copied = copies(blocks, leaver);
    let both = copied.iter().zip(blocks).map(|(copied, block)| Leaving { copied, rebuilt: Some(block) });
    let assigned = leaving(&both.collect::<Vec<_>>(), &BTreeMap::new());
    let assigned: Vec<Assignment> = assigned.into_iter().map(Result::unwrap).collect();
    let chosen = assigned.iter().zip(copied.iter().zip(blocks));
    let chosen = chosen.map(|(a, (copied, block))| if a.chain == [leaver] { copied } else { block }.clone());
    let rebuilt = assigned.iter().filter(|a| a.chain != [leaver]).count();
    (rebuilt, busiest(&chosen.collect::<Vec<_>>(), &assigned))
}

#[test]
fn a_node_that_leaves_and_its_stripes_end_together() {
    for seed in 0..150 {
        let mut draw = Draw::seeded(seed);
        let k = 2 + draw.below(9);
        // So many that there is a choice of helpers and requestors.
        let n = 2 * k + draw.below(4);
        let (of, stripes) = (2 * n + draw.below(30), 1 + draw.below(120));
        let blocks = lost_node(&mut draw, of, n, k, stripes, |_| 1);
        let leaver = NodeId(of as u32);
        // What any assignment to `of` nodes must send and receive, with so many rebuilt.
        let least = |rebuilt: usize| {
            let (sent, received) = (rebuilt * k, rebuilt * k + stripes - rebuilt);
            (stripes - rebuilt).max(sent.div_ceil(of)).max(received.div_ceil(of))
        };
        let bound = (0..=stripes).map(least).min().unwrap() as u64;
        let (rebuilt, busiest) = leave(&blocks, leaver);
        assert!(
            busiest <= bound + 1,
            "seed {seed}: {busiest}, bound {bound}, {rebuilt} of {stripes} rebuilt"
        );
        assert!(stripes < 2 || bound == stripes as u64 || rebuilt > 0);
    }
}

#[test]
fn where_one_node_receives_all_a_node_that_leaves_sends_all() {
    let mut draw = Draw::seeded(3);
    let mut blocks = lost_node(&mut draw, 20, 9, 6, 40, |_| 1);
    blocks.iter_mut().for_each(|block| block.requestors = vec![NodeId(99)]);
    assert_eq!(leave(&blocks, NodeId(20)), (0, 40));
    // Nothing else can be done for stripes that are too short.
    blocks.iter_mut().for_each(|block| block.survivors.truncate(5));
    assert_eq!(leave(&blocks, NodeId(20)), (0, 40));
}
