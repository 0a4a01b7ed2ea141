//! Predictions against the papers' formulas and against sums done by hand.

#![allow(clippy::unwrap_used, clippy::panic)] // a test may

use crate::plans::{code, geometry, helpers, request};
use flow::cost::{Bottleneck, Direction};
use flow::render::{dot, explain};
use flow::{
    Cost, EdgeId, FlowError, Input, Member, MultiBlockRequest, Proved, Rates, Scheme, Sink, Site, Time,
    build, busiest, multi_block, predict, time, write,
};

const MIB: u64 = 1 << 20;

fn repair(scheme: Scheme, name: &str, block: u64, slice: u32) -> (Proved, Cost) {
    let code = code(name);
    let all = helpers(1..code.n() as u16, block);
    let g = geometry(&code, block, slice);
    let flow = build(scheme, &request(&code, g, &[0], &all, &[], Sink::Write)).unwrap();
    let cost = predict(&flow, |_| block, None);
    (flow, cost)
}

/// RP §2.2 and §3.2: k timeslots, and 1 + (k−1)/s.
#[test]
fn timeslots_are_those_of_the_paper() {
    for (name, k) in [("rs-4+2", 4), ("rs-6+3", 6), ("rs-10+4", 10)] {
        for (block, slice) in [(64 * MIB, 32 << 10), (6 * MIB, 1 << 20), (MIB, 1 << 20)] {
            let slots = |scheme| repair(scheme, name, block, slice).1.timeslots;
            assert_eq!(slots(Scheme::Conventional), f64::from(k));
            let s = block as f64 / f64::from(slice);
            assert_eq!(slots(Scheme::Pipeline), 1.0 + f64::from(k - 1) / s);
        }
    }
}

/// RP §2.2: whole combined blocks go up the tree in ⌈log2(k+1)⌉ timeslots, and along the chain in k. Streamed, the
/// tree is limited by its largest in-degree, and drains in the one slice that its root receives after that.
#[test]
fn a_tree_takes_a_logarithm_of_timeslots_or_its_largest_in_degree() {
    const SLICE: u32 = 32 << 10;
    let s = f64::from((64 * MIB) as u32 / SLICE);
    for k in 1..=40_u32 {
        let name = format!("rs-{k}+2");
        let code = code(&name);
        let whole = geometry(&code, 64 * MIB, SLICE).whole_slice() as u32;
        for scheme in Scheme::all().filter(|scheme| scheme.whole_block()) {
            let slots = if scheme == Scheme::Ppr { (k + 1).next_power_of_two().ilog2() } else { k };
            assert_eq!(repair(scheme, &name, 64 * MIB, whole).1.timeslots, f64::from(slots), "{scheme} {k}");
        }
        let (flow, cost) = repair(Scheme::PprSliced, &name, 64 * MIB, SLICE);
        let lane = &flow.lanes[0];
        let into = |stage| lane.edges.iter().filter(|edge| usize::from(edge.to.0) == stage).count();
        let degree = (0..lane.stages.len()).map(into).max().unwrap();
        let most = (k + 1).next_power_of_two().ilog2();
        assert!((f64::from(degree as u32)..=degree as f64 + f64::from(most) / s).contains(&cost.timeslots));
        match k {
            6 => assert_eq!((degree, cost.timeslots), (2, 2.0 + 1.0 / s)),
            8..=12 => assert_eq!((degree, cost.timeslots), (3, 3.0 + 1.0 / s)),
            _ => {}
        }
    }
}

/// RP §2.2, Fig. 2(b): N1 → N2 and N3 → N4, then N2 → N4, then N4 → R; each stage takes its streams in that order.
#[test]
fn the_tree_is_that_of_the_paper() {
    let (flow, _) = repair(Scheme::Ppr, "rs-4+2", MIB, 1 << 20);
    let lane = &flow.lanes[0];
    let edges: Vec<(u16, u16)> = lane.edges.iter().map(|edge| (edge.from.0, edge.to.0)).collect();
    assert_eq!(edges, [(0, 1), (2, 3), (1, 3), (3, 4)]);
    let taken: Vec<&Input> = lane.stages[3].inputs.iter().collect();
    assert_eq!(taken[..2], [&Input::Edge(EdgeId(1)), &Input::Edge(EdgeId(2))]);
}

/// Whole recoveries balance their ports by it.
#[test]
fn what_a_scheme_says_that_its_stages_receive_is_what_its_flow_has_them_receive() {
    for scheme in Scheme::all() {
        let slice = if scheme.whole_block() { MIB as u32 } else { 32 << 10 };
        for k in 1..=16 {
            let (flow, _) = repair(scheme, &format!("rs-{k}+2"), MIB, slice);
            // Several lanes count as one chain.
            let [lane] = &flow.lanes[..] else { continue };
            let into =
                |stage: usize| lane.edges.iter().filter(|edge| usize::from(edge.to.0) == stage).count();
            let received: Vec<usize> = (0..lane.stages.len()).map(into).collect();
            assert_eq!(scheme.received(k), received, "{scheme}, {k} helpers");
        }
    }
}

/// RP §4.4: f rows side by side, f(1 + (k−1)/s), for a hop waits for all rows of a slice.
#[test]
fn several_blocks_take_their_number_of_timeslots() {
    let code = code("rs-10+4");
    let g = geometry(&code, 64 * MIB, 32 << 10);
    let all = helpers(2..14, 64 * MIB);
    let flow = build(Scheme::Pipeline, &request(&code, g, &[0, 1], &all, &[], Sink::Write)).unwrap();
    assert_eq!(predict(&flow, |_| 64 * MIB, None).timeslots, 2.0 * (1.0 + 9.0 / 2048.0));
}

/// RP §4.4: to f requestors the chain takes f(1 + (k−1)/s) timeslots, with slices cut f times as fine f + (k−1)/s, and
/// every helper reads its block once. Whole blocks take f·k. Conventionally the decoder's k blocks come in while f−1 go
/// out.
#[test]
fn several_blocks_go_to_as_many_requestors() {
    let code = code("rs-10+4");
    let block = 64 * MIB;
    for f in [2_u16, 4] {
        let helpers = helpers(f..14, block);
        let targets: Vec<(Member, Site)> = (0..f).map(|m| (Member(m), Site(90 + u32::from(m)))).collect();
        let cost = |scheme, slice_bytes| {
            let geometry = geometry(&code, block, slice_bytes);
            let request = MultiBlockRequest {
                code: &code,
                geometry,
                targets: &targets,
                helpers: &helpers,
                absent: &[],
                empty: &[],
            };
            predict(&multi_block::build(scheme, &request).unwrap(), |_| block, None)
        };
        let (blocks, s) = (f64::from(f), 2048.0);
        let chain = cost(Scheme::Pipeline, 32 << 10);
        assert_eq!(chain.timeslots, blocks * (1.0 + 9.0 / s));
        let fine = cost(Scheme::Pipeline, (32 << 10) / u32::from(f));
        assert_eq!(fine.timeslots, blocks + 9.0 / s);
        assert_eq!(cost(Scheme::PipeB, 64 << 20).timeslots, blocks * 10.0);
        let star = cost(Scheme::Conventional, 64 << 20);
        assert_eq!(star.timeslots, 10.0 + blocks - 1.0);
        assert!((10.0..10.1).contains(&cost(Scheme::Conventional, 32 << 10).timeslots));
        for cost in [&chain, &star] {
            assert_eq!(cost.disk_read.values().copied().collect::<Vec<_>>(), [block; 10]);
            assert_eq!(cost.disk_written.len(), usize::from(f));
        }
        let into = |cost: &Cost, to| {
            let links = cost.links.iter().filter(|((_, end), _)| *end == Site(to));
            links.map(|(_, &bytes)| bytes).collect::<Vec<_>>()
        };
        for requestor in 90..90 + u32::from(f) {
            assert_eq!(into(&chain, requestor), [block]);
            assert_eq!(into(&star, requestor), if requestor == 90 { vec![block; 10] } else { vec![block] });
        }
        let inner = chain.links.iter().filter(|((_, to), _)| to.0 < 90).map(|(_, &bytes)| bytes);
        assert_eq!(inner.collect::<Vec<_>>(), vec![u64::from(f) * block; 9]);
    }
    let geometry = geometry(&code, block, 32 << 10);
    let helpers = helpers(2..14, block);
    let request = |targets| MultiBlockRequest {
        code: &code,
        geometry,
        targets,
        helpers: &helpers,
        absent: &[],
        empty: &[],
    };
    let targets = [(Member(0), Site(90)), (Member(1), Site(91))];
    let refused = multi_block::build(Scheme::Ppr, &request(&targets));
    assert_eq!(refused, Err(FlowError::OneRequestor { scheme: Scheme::Ppr }));
    let twice = [(Member(0), Site(90)), (Member(0), Site(91))];
    assert!(multi_block::build(Scheme::Pipeline, &request(&twice)).is_err());
    assert_eq!(multi_block::build(Scheme::Pipeline, &request(&[])), Err(FlowError::NothingWanted));
}

/// On equal links, time is timeslots. On others, a chain goes at the rate of its slowest link, and fills over all.
#[test]
fn time_is_that_of_the_slowest_link_or_side() {
    const FREE: f64 = f64::INFINITY;
    let block = 64 * MIB;
    let disk = &|_| FREE;
    for scheme in Scheme::all() {
        let (flow, cost) = repair(scheme, "rs-4+2", block, 32 << 10);
        let even = Rates { link: &|_, _| 2.0, side: &|_, _| 2.0, disk };
        let seconds = time(&flow, &cost, |_| block, even).whole();
        assert!((seconds - cost.timeslots * block as f64 / 2.0).abs() < 1.0, "{scheme}");
        let free = Rates { link: &|_, _| FREE, side: &|_, _| FREE, disk };
        assert_eq!(time(&flow, &cost, |_| block, free).whole(), 0.0);
    }
    let rate = |from: Site, _: Site| if from == Site(2) { 1.0 } else { 10.0 };
    let (chain, cost) = repair(Scheme::Pipeline, "rs-4+2", block, 32 << 10);
    let links = Rates { link: &rate, side: &|_, _| FREE, disk };
    let slice = f64::from(32 << 10);
    assert_eq!(time(&chain, &cost, |_| block, links).whole(), block as f64 + 3.0 * slice / 10.0);
    // Links that do not share a side work at the same time; a side that they share takes their sum.
    let (star, cost) = repair(Scheme::Conventional, "rs-4+2", block, 32 << 10);
    assert_eq!(time(&star, &cost, |_| block, links).whole(), block as f64);
    let side = |site: Site, side| if (site, side) == (Site(99), Direction::In) { 2.0 } else { FREE };
    assert_eq!(time(&star, &cost, |_| block, Rates { side: &side, ..links }).whole(), 2.0 * block as f64);
    let cut = Rates { link: &|_, _| 0.0, side: &side, disk };
    assert_eq!(time(&star, &cost, |_| block, cut).whole(), FREE);
}

/// Disks read while links carry: the slower of them decides, and a disk reads no more than the symbols that are asked of it.
#[test]
fn time_is_that_of_the_busiest_disk_if_links_are_faster() {
    let block = 24 * MIB;
    let rates = Rates { link: &|_, _| 10.0, side: &|_, _| 10.0, disk: &|_| 1.0 };
    for (scheme, links) in
        [(Scheme::Conventional, 0.75 * 6.0), (Scheme::FirstParity, 6.0), (Scheme::Pipeline, 1.0)]
    {
        let (flow, cost) = repair(scheme, "rdp-7", block, 32 << 10);
        let Time { links: took, disks } = time(&flow, &cost, |_| block, rates);
        let most = cost.disk_read.values().copied().max().unwrap();
        assert_eq!(disks, most as f64, "{scheme}");
        let expected = links * block as f64 / 10.0;
        assert!((took - expected).abs() < 0.06 * expected, "{scheme}: {took} and {expected}");
        let of_both = Time { links: took, disks };
        assert_eq!(of_both.whole(), took.max(disks), "{scheme}");
        assert_eq!(
            busiest(&cost, rates),
            disks.max(cost.bottleneck().unwrap().bytes as f64 / 10.0),
            "{scheme}"
        );
    }
}

#[test]
fn every_link_of_a_chain_carries_one_block_and_the_star_fills_the_requestor() {
    let (_, chain) = repair(Scheme::Pipeline, "rs-10+4", 64 * MIB, 32 << 10);
    assert_eq!(chain.links.len(), 10);
    assert!(chain.links.values().all(|&bytes| bytes == 64 * MIB));
    let (_, star) = repair(Scheme::Conventional, "rs-10+4", 64 * MIB, 32 << 10);
    assert_eq!(
        star.bottleneck(),
        Some(Bottleneck { site: Site(99), direction: Direction::In, bytes: 640 * MIB })
    );
    for cost in [chain, star] {
        assert_eq!(cost.network_bytes(), 640 * MIB);
        assert_eq!(cost.disk_read.values().sum::<u64>(), 640 * MIB);
        assert_eq!(cost.disk_written.iter().collect::<Vec<_>>(), [(&Site(99), &(64 * MIB))]);
    }
}

/// Partial sums along the chain grow only as long as the longest block so far; slices are cut at it.
#[test]
fn short_blocks_send_only_what_they_have() {
    let code = code("rs-3+2");
    let g = geometry(&code, 1000, 300);
    let stored = |member: Member| [1000, 250, 400, 1000, 1000][usize::from(member.0)];
    let mut all = helpers([1, 2, 3], 0);
    all.iter_mut().for_each(|helper| helper.stored_bytes = stored(helper.member));
    let repair = request(&code, g, &[0], &all, &[], Sink::Write);
    let chain = build(Scheme::Pipeline, &repair).unwrap();
    let links = |cost: &Cost| cost.links.values().copied().collect::<Vec<_>>();
    assert_eq!(links(&predict(&chain, stored, None)), [250, 400, 1000]);
    // Slices 1 and 2 are bytes 300 … 899.
    let part = predict(&chain, stored, Some(1..3));
    assert_eq!(links(&part), [0, 100, 600]);
    assert_eq!(part.disk_read.values().copied().collect::<Vec<_>>(), [0, 100, 600]);
    assert_eq!(part.disk_written[&Site(99)], 600);
    // The last slice is short; beyond it there is nothing.
    assert_eq!(links(&predict(&chain, stored, Some(3..9))), [0, 0, 100]);
    let star = build(Scheme::Conventional, &repair).unwrap();
    assert_eq!(links(&predict(&star, stored, None)), [250, 400, 1000]);
    let racks = |site: Site| site.0 == 2;
    assert_eq!(predict(&chain, stored, None).cross_rack_bytes(racks), 250 + 400);
}

/// Two symbols of ⌈100000/2⌉ bytes, in whole chunks 65536 each: the second one has 34464 bytes.
#[test]
fn symbols_travel_side_by_side() {
    let code = code("random-a2-4+2-s1");
    let g = geometry(&code, 100_000, 32 << 10);
    let all = helpers(1..6, 100_000);
    let repair = request(&code, g, &[0], &all, &[], Sink::Write);
    let star = predict(&build(Scheme::Conventional, &repair).unwrap(), |_| 100_000, None);
    assert!(star.links.values().all(|&bytes| bytes == 65_536 + 34_464));
    let chain = predict(&build(Scheme::Pipeline, &repair).unwrap(), |_| 100_000, None);
    // A sum of both symbols is as long as the longer one.
    assert!(chain.links.values().all(|&bytes| bytes == 2 * 65_536));
    assert_eq!(chain.disk_written[&Site(99)], 100_000);
}

#[test]
fn a_chain_write_sends_the_block_once_to_each_replica() {
    let code = code("rep-3");
    let g = geometry(&code, MIB, 32 << 10);
    let replicas = [0, 1, 2].map(|i| (Member(i), Site(u32::from(i))));
    let flow = write::chain(&code, g, Site(99), &replicas).unwrap();
    let cost = predict(&flow, |_| 700_001, None);
    assert_eq!(cost.links.values().copied().collect::<Vec<_>>(), [700_001; 3]);
    assert_eq!(cost.disk_written.values().copied().collect::<Vec<_>>(), [700_001; 3]);
    assert!(cost.disk_read.is_empty());
}

/// Lanes share the slices; together they carry what one lane would.
#[test]
fn lanes_share_the_slices() {
    let (flow, cost) = repair(Scheme::Pipeline, "rs-4+2", 1000, 90);
    let mut three = flow.into_inner();
    three.lanes = vec![three.lanes[0].clone(); 3];
    assert_eq!(predict(&three, |_| 1000, None), cost);
}

#[test]
fn a_person_can_read_it() {
    let (flow, cost) = repair(Scheme::Pipeline, "rs-2+1", 1000, 100);
    let name = |site: Site| if site.0 == 99 { "node-99".to_owned() } else { format!("n{}", site.0) };
    assert_eq!(
        explain(&flow, &cost, name),
        "\
blocks of 1000 B, 1 symbol each, 10 slices of 100 B, gf256

lane 0
  site     takes               makes
  n1       b1                  1 row to n2
  n2       1 row from n1 + b2  1 row to node-99
  node-99  1 row from n2       write b0

network
  from  to       bytes
  n1    n2        1000
  n2    node-99   1000

disks
  site     read bytes  written bytes
  n1             1000              0
  n2             1000              0
  node-99           0           1000

2000 B over the network, most out of n1: 1000 B
1.100 timeslots
"
    );
    assert_eq!(
        dot(&flow, name),
        r#"digraph flow {
  rankdir=LR;
  node [shape=box];
  subgraph cluster_0 {
    label="lane 0";
    l0s0 [label="n1\nb1"];
    l0s1 [label="n2\nb2"];
    l0s2 [label="node-99\nwrite b0"];
    l0s0 -> l0s1 [label="1"];
    l0s1 -> l0s2 [label="1"];
  }
}
"#
    );
}
