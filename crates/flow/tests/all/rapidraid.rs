//! The pipeline that makes RapidRAID codes: the bytes are those of the code, over any layout of replicas.

#![allow(clippy::unwrap_used, clippy::panic)] // a test may

use crate::plans::{Noise, Stripe, code, geometry, helpers, is_made};
use codes::Code;
use flow::{Cost, EncodeRequest, EncodeScheme, FlowError, Helper, Member, Output, Proved, Site, encode};
use flow::{interpret, limits, predict};

const BLOCK: u64 = 64 << 20;

fn helper(member: usize, node: u64, stored_bytes: u64) -> Helper {
    Helper { member: Member(member as u16), site: Site(node as u32), stored_bytes, cost: 1 }
}

/// The two replicas where the code wants them: of block i on nodes i and i+m.
fn in_place(code: &Code, lengths: &[u64]) -> Vec<Helper> {
    let nodes = code.stored();
    let at = |node| code.pipeline().unwrap().blocks_at(node).map(move |block| (block, node));
    (0..nodes).flat_map(at).map(|(block, node)| helper(block, node as u64, lengths[block])).collect()
}

/// Node i of the pipeline at site i writes what is made of anything.
fn targets(code: &Code, is_there: impl Fn(usize) -> bool) -> Vec<(Member, Site)> {
    let members = (0..code.stored()).map(|node| (Member((code.k() + node) as u16), Site(node as u32)));
    members.filter(|(member, _)| is_made(code, *member, &is_there)).collect()
}

fn pipeline(code: &Code, slice_bytes: u32) -> (Proved, Cost) {
    let data = in_place(code, &vec![BLOCK; code.k()]);
    let request = EncodeRequest {
        code,
        geometry: geometry(code, BLOCK, slice_bytes),
        data: &data,
        absent: &[],
        empty: &[],
        archiver: Site(99),
        targets: &targets(code, |_| true),
    };
    let flow = encode::build(EncodeScheme::RapidRaid, &request).unwrap();
    let cost = predict(&flow, |_| BLOCK, None);
    (flow, cost)
}

/// Any shape, blocks of any length or none, a second replica or not, wherever they lie.
#[test]
fn codewords_of_random_stripes_are_those_of_the_code() {
    let mut noise = Noise(0x9e37_79b9_7f4a_7c15);
    let (mut transfers, mut short) = (0, 0);
    for round in 0..300 {
        let k = 1 + noise.below(8);
        let m = 1 + noise.below(k.min(4));
        let name = format!("{}-{k}+{m}", ["rapidraid", "rapidraid16"][noise.below(2) as usize]);
        let code = code(&name);
        let block = 1 + noise.below(20_000);
        let g = geometry(&code, block, 1024 << noise.below(4));
        let mut lengths: Vec<u64> =
            (0..k).map(|_| [0, block, noise.below(block + 1)][noise.below(3) as usize]).collect();
        lengths[noise.below(k) as usize] = block;
        let there = |data: usize| lengths[data] > 0;
        let stripe = Stripe::new(&code, g, &lengths);
        // Each replica where it belongs, elsewhere, or nowhere if it is the second one.
        let mut data = Vec::new();
        for (copy, mut helper) in in_place(&code, &lengths).into_iter().enumerate() {
            match noise.below(4) {
                0 => helper.site = Site(noise.below(k + m + 3) as u32),
                1 if copy >= k as usize => continue,
                _ => {}
            }
            data.push(helper);
        }
        for (member, &bytes) in lengths.iter().enumerate() {
            if data.iter().all(|helper| usize::from(helper.member.0) != member) {
                data.push(helper(member, noise.below(k + m + 3), bytes));
            }
        }
        let targets = targets(&code, there);
        for scheme in EncodeScheme::of(&code) {
            let request = EncodeRequest {
                code: &code,
                geometry: g,
                data: &data,
                absent: &[],
                empty: &[],
                archiver: Site(99),
                targets: &targets,
            };
            let flow = encode::build(scheme, &request)
                .unwrap_or_else(|e| panic!("{round}, {name} by {scheme}: {e}"));
            stripe.check(&flow);
            let outcome = interpret::run(&flow, 0..g.slices(), |member| stripe.block(member)).unwrap();
            let cost = predict(&flow, |member| stripe.stored(member), None);
            let carried: u64 = outcome.edge_bytes.iter().flatten().sum();
            assert_eq!(carried, cost.network_bytes(), "{name} by {scheme}");
            if scheme == EncodeScheme::RapidRaid {
                transfers += flow.lanes[0].stages.len() - targets.len();
            }
        }
        short += usize::from(!(0..k as usize).all(there));
    }
    assert!(transfers > 200 && short > 100, "{transfers} transfers, {short} short stripes");
}

/// n−1 blocks are sent, one on every link, and all is over one block's time after the first byte, however long the pipeline
/// (RapidRAID §IV, equation 2).
#[test]
fn a_pipeline_over_two_replicas_sends_a_block_on_every_link_and_takes_the_time_of_one() {
    for name in ["rapidraid-4+2", "rapidraid-11+5", "rapidraid16-11+5"] {
        let code = code(name);
        let (flow, cost) = pipeline(&code, 32 << 10);
        let n = code.stored();
        assert_eq!(flow.lanes[0].stages.len(), n);
        let links: Vec<((Site, Site), u64)> = cost.links.into_iter().collect();
        let expected = (0..n as u32 - 1).map(|node| ((Site(node), Site(node + 1)), BLOCK));
        assert_eq!(links, expected.collect::<Vec<_>>(), "{name}");
        // It fills in n−1 slices, of α symbols each.
        let fills = ((n - 1) as u64 * u64::from(32_u32 << 10) * code.alpha() as u64) as f64 / BLOCK as f64;
        assert!(cost.timeslots < 1.0 + 1.1 * fills, "{name}: {}", cost.timeslots);
        let read: u64 = cost.disk_read.values().sum();
        let written: u64 = cost.disk_written.values().sum();
        assert_eq!((read, written), (2 * code.k() as u64 * BLOCK, n as u64 * BLOCK));
    }
}

/// A classical encoding of the same code has one node receive k blocks.
#[test]
fn the_usual_scheme_of_a_code_with_a_pipeline_is_that() {
    let with = code("rapidraid-11+5");
    assert_eq!(EncodeScheme::of(&with).next(), Some(EncodeScheme::RapidRaid));
    let without: Vec<EncodeScheme> = EncodeScheme::of(&code("rs-11+5")).collect();
    assert_eq!(without[0], EncodeScheme::Star);
    assert!(!without.contains(&EncodeScheme::RapidRaid));
}

#[test]
fn what_has_no_pipeline_or_lacks_a_block_is_refused() {
    let rs = code("rs-4+2");
    let (data, targets) = (helpers(0..4, 1000), [(Member(4), Site(4)), (Member(5), Site(5))]);
    let g = geometry(&rs, 1000, limits::MIN_SLICE_BYTES);
    let request = EncodeRequest {
        code: &rs,
        geometry: g,
        data: &data,
        absent: &[],
        empty: &[],
        archiver: Site(9),
        targets: &targets,
    };
    let refused = encode::build(EncodeScheme::RapidRaid, &request).unwrap_err();
    assert_eq!(refused, FlowError::NoPipeline { code: "rs-4+2".to_owned() });
    let raid = code("rapidraid-4+2");
    let data: Vec<Helper> = in_place(&raid, &[1000; 4]).into_iter().filter(|h| h.member.0 != 1).collect();
    let targets = self::targets(&raid, |_| true);
    let request = EncodeRequest { code: &raid, data: &data, targets: &targets, ..request };
    let refused = encode::build(EncodeScheme::RapidRaid, &request).unwrap_err();
    assert_eq!(refused, FlowError::NoCopy { member: Member(1) });
}

/// Each node writes one block, its own.
#[test]
fn every_node_of_a_pipeline_writes_its_block() {
    let (flow, _) = pipeline(&code("rapidraid-4+3"), 32 << 10);
    for (place, stage) in flow.lanes[0].stages.iter().enumerate() {
        let written: Vec<&Output> =
            stage.outputs.iter().filter(|output| matches!(output, Output::Write { .. })).collect();
        assert_eq!(written, [&Output::Write { member: Member(4 + place as u16) }]);
    }
}
