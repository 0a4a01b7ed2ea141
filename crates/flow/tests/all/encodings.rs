//! Encodings by every scheme: the bytes are those of the code, and nobody sends more than the scheme says.

#![allow(clippy::unwrap_used, clippy::panic)] // a test may

use crate::plans::{Noise, Stripe, code, geometry, helpers, is_made};
use codes::Code;
use flow::{
    Cost, Direction, EncodeRequest, EncodeScheme, FlowError, Helper, Member, Proved, Site, encode, interpret,
    limits, predict,
};

const MIB: u64 = 1 << 20;
const BLOCK: u64 = 64 * MIB;

/// Codes of every kind and width, blocks of any length, several of them at a site, parities at sites with data.
#[test]
fn parities_of_random_stripes_are_those_of_the_code() {
    let mut noise = Noise(0x9e37_79b9_7f4a_7c15);
    let mut rounds = 0;
    for round in 0..200 {
        let (k, m, seed) = (2 + noise.below(7), 1 + noise.below(4), noise.below(1000));
        let name = match noise.below(6) {
            0 => format!("rs-{k}+{m}"),
            1 => format!("rs16-{k}+{m}"),
            2 => format!("lrc-{}+2+{m}", 2 * k),
            3 => format!("random-a2-{k}+{m}-s{seed}"),
            4 => format!("random-a3-{k}+{m}-s{seed}"),
            _ => format!("rotated-{k}+{m}-r2"),
        };
        let Ok(code) = Code::parse(&name) else { continue };
        let (k, n) = (code.k() as u16, code.n() as u16);
        let block = 1 + noise.below(20_000);
        let g = geometry(&code, block, 1024 << noise.below(4));
        let lengths: Vec<u64> =
            (0..k).map(|_| [0, block, noise.below(block + 1)][noise.below(3) as usize]).collect();
        let longest = lengths.iter().copied().max().unwrap_or(0);
        let lengths: Vec<u64> =
            lengths.iter().map(|&bytes| if bytes == longest { block } else { bytes }).collect();
        let stripe = Stripe::new(&code, g, &lengths);
        let sites = 1 + noise.below(2 * u64::from(n));
        let mut data = helpers(0..k, 0);
        for helper in &mut data {
            (helper.site, helper.stored_bytes) =
                (Site(noise.below(sites) as u32), stripe.stored(helper.member));
        }
        let wanted = (k..n).map(Member).filter(|&member| is_made(&code, member, |data| lengths[data] > 0));
        let targets: Vec<(Member, Site)> = wanted.map(|m| (m, Site(noise.below(sites) as u32))).collect();
        let archiver = Site(noise.below(sites) as u32);
        for scheme in EncodeScheme::of(&code) {
            let request = EncodeRequest {
                code: &code,
                geometry: g,
                data: &data,
                absent: &[],
                empty: &[],
                archiver,
                targets: &targets,
            };
            let flow = encode::build(scheme, &request)
                .unwrap_or_else(|e| panic!("{round}, {name} by {scheme}: {e}"));
            stripe.check(&flow);
            let outcome = interpret::run(&flow, 0..g.slices(), |member| stripe.block(member)).unwrap();
            let cost = predict(&flow, |member| stripe.stored(member), None);
            let carried: u64 = outcome.edge_bytes.iter().flatten().sum();
            assert_eq!(carried, cost.network_bytes(), "{name} by {scheme}");
            let written: usize = cost.disk_written.len();
            assert!(written > 0 && written <= targets.len());
            // Every block is read once, wherever it is multiplied.
            let read: u64 = cost.disk_read.values().sum();
            assert_eq!(read, lengths.iter().sum::<u64>(), "{name} by {scheme}");
            rounds += 1;
        }
    }
    assert!(rounds > 400, "{rounds} flows only");
}

/// Data block m at site m, parity m at site m, the archiver elsewhere.
fn encoding(scheme: EncodeScheme, code: &Code, slice_bytes: u32) -> (Proved, Cost) {
    let (k, n) = (code.k() as u16, code.n() as u16);
    let data = helpers(0..k, BLOCK);
    let targets: Vec<(Member, Site)> = (k..n).map(|m| (Member(m), Site(u32::from(m)))).collect();
    let request = EncodeRequest {
        code,
        geometry: geometry(code, BLOCK, slice_bytes),
        data: &data,
        absent: &[],
        empty: &[],
        archiver: Site(99),
        targets: &targets,
    };
    let flow = encode::build(scheme, &request).unwrap();
    let cost = predict(&flow, |_| BLOCK, None);
    (flow, cost)
}

/// The most, in blocks, that a site of `sites` sends, or receives.
fn most(cost: &Cost, direction: Direction, sites: std::ops::Range<u32>) -> f64 {
    let sides = cost.sides().into_iter();
    let of_these = sides.filter(|((site, side), _)| *side == direction && sites.contains(&site.0));
    of_these.map(|(_, bytes)| bytes).max().unwrap_or(0) as f64 / BLOCK as f64
}

/// With s slices and m parities: k + (m−1)/s by a star, m + (k−1)/s along a chain whose slices are cut by m, m along
/// rotated chains, 1 + (m−1)/L by L stars, each but for the first slices.
#[test]
fn encodings_take_the_timeslots_of_their_scheme() {
    for (name, k, m) in [("rs-4+2", 4, 2), ("rs-6+3", 6, 3), ("rs-10+4", 10, 4), ("rs-20+4", 20, 4)] {
        let code = code(name);
        let (s, slice) = (BLOCK as f64 / 32_768.0, 32 << 10);
        let slots = |scheme, slice| encoding(scheme, &code, slice).1.timeslots;
        let (blocks, parities) = (f64::from(k), f64::from(m));
        let star = slots(EncodeScheme::Star, slice);
        assert!((blocks..=blocks + (blocks + parities) / s).contains(&star), "{name}: {star}");
        let chain = slots(EncodeScheme::Pipeline, slice);
        assert_eq!(chain, parities * (1.0 + (blocks - 1.0) / s), "{name}");
        let lanes = blocks.min(limits::ENCODE_LANES as f64);
        let fill = 2.0 * (blocks + parities) * parities * 8.0 / 32.0 / s;
        let rotated = slots(EncodeScheme::PipelineLanes, 8 << 10);
        assert!((parities * 0.99..parities * 1.01 + fill).contains(&rotated), "{name}: {rotated}");
        let stars = slots(EncodeScheme::StarLanes, 8 << 10);
        let expected = 1.0 + (parities - 1.0) / lanes;
        assert!(
            (expected * 0.99..expected * 1.01 + fill).contains(&stars),
            "{name}: {stars}, not {expected}"
        );
    }
}

#[test]
fn nobody_sends_more_than_the_scheme_says() {
    let code = code("rs-10+4");
    let near = |found: f64, expected: f64| (found - expected).abs() < 0.01;
    let (_, star) = encoding(EncodeScheme::Star, &code, 32 << 10);
    assert_eq!([most(&star, Direction::Out, 0..10), most(&star, Direction::Out, 99..100)], [1.0, 4.0]);
    assert_eq!(most(&star, Direction::In, 99..100), 10.0);
    let (_, chain) = encoding(EncodeScheme::Pipeline, &code, 8 << 10);
    assert_eq!([most(&chain, Direction::Out, 0..10), most(&chain, Direction::In, 0..10)], [4.0, 4.0]);
    let (_, rotated) = encoding(EncodeScheme::PipelineLanes, &code, 8 << 10);
    assert!(near(most(&rotated, Direction::Out, 0..10), 4.0));
    assert!(near(most(&rotated, Direction::In, 0..10), 3.6));
    let (_, stars) = encoding(EncodeScheme::StarLanes, &code, 8 << 10);
    assert!(near(most(&stars, Direction::Out, 0..10), 1.3));
    assert!(near(most(&stars, Direction::In, 0..10), 0.9));
    for cost in [&star, &chain, &rotated, &stars] {
        // Every parity arrives once, and every block is read once.
        assert_eq!(most(cost, Direction::In, 10..14), 1.0);
        assert_eq!(cost.disk_read.values().copied().collect::<Vec<_>>(), [BLOCK; 10]);
    }
    // Of several lanes no link to a parity carries more than a part of it.
    for cost in [&rotated, &stars] {
        let links = cost.links.iter().filter(|((_, to), _)| (10..14).contains(&to.0));
        assert!(links.map(|(_, &bytes)| bytes as f64 / BLOCK as f64).all(|part| near(part, 0.1)));
    }
}

/// A local parity leaves the chain behind its group, so that it takes no room on the links that follow.
#[test]
fn a_local_parity_leaves_the_chain_where_it_is_complete() {
    let (flow, cost) = encoding(EncodeScheme::Pipeline, &code("lrc-10+2+2"), 32 << 10);
    assert_eq!(cost.links[&(Site(4), Site(10))], BLOCK);
    assert_eq!(cost.links[&(Site(9), Site(11))], BLOCK);
    // Two global parities and one local one.
    assert_eq!(most(&cost, Direction::Out, 0..10), 3.0);
    let widths: Vec<u16> = flow.lanes[0].edges.iter().map(|edge| edge.rows).collect();
    assert_eq!(widths.iter().filter(|&&rows| rows == 3).count(), 8, "{widths:?}");
    assert_eq!(cost.links[&(Site(4), Site(5))], 2 * BLOCK);
}

/// Groups that share no parity share no link.
#[test]
fn groups_without_a_common_parity_are_chains_of_their_own() {
    let generator = [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [1, 1, 0, 0], [0, 0, 1, 1]];
    let generator = gf::Matrix::from_rows(gf::Field::Gf256, &generator).unwrap();
    let code = Code::from_generator("two groups", 6, 4, 1, generator).unwrap();
    let (flow, cost) = encoding(EncodeScheme::Pipeline, &code, 32 << 10);
    let links: Vec<(u32, u32)> = cost.links.keys().map(|(from, to)| (from.0, to.0)).collect();
    assert_eq!((links, flow.lanes[0].edges.len()), (vec![(0, 1), (1, 4), (2, 3), (3, 5)], 4));
}

#[test]
fn senseless_encodings_are_refused() {
    let code = code("rs-4+2");
    let g = geometry(&code, 1000, 1024);
    let data = helpers(0..4, 1000);
    let targets = [(Member(4), Site(4)), (Member(5), Site(5))];
    for scheme in EncodeScheme::of(&code) {
        let refused = |data: &[Helper], absent: &[Member], targets: &[(Member, Site)]| {
            let archiver = Site(9);
            encode::build(
                scheme,
                &EncodeRequest { code: &code, geometry: g, data, absent, empty: &[], archiver, targets },
            )
            .unwrap_err()
        };
        assert_eq!(refused(&data, &[], &[]), FlowError::NothingWanted, "{scheme}");
        assert!(matches!(refused(&data[1..], &[], &targets), FlowError::Code(_)), "{scheme}");
        assert!(matches!(refused(&data, &[], &[targets[0]; 2]), FlowError::WantedTwice { .. }));
        let all: Vec<Member> = (0..4).map(Member).collect();
        assert!(matches!(refused(&[], &all, &targets), FlowError::WantedIsZero { .. }), "{scheme}");
        assert_eq!(scheme.to_string().parse::<EncodeScheme>(), Ok(scheme));
    }
    let unknown = "pipelined".parse::<EncodeScheme>().unwrap_err().to_string();
    assert_eq!(
        unknown,
        "unknown encoding scheme \"pipelined\"; known: star, pipeline, pipeline-lanes, star-lanes, rapidraid"
    );
}

/// The widest code there is: a lane has no more stages and a flow no more lanes than there may be.
#[test]
fn a_stripe_of_512_blocks_can_be_encoded() {
    let code = code("rs16-500+12");
    for scheme in EncodeScheme::of(&code) {
        let (flow, _) = encoding(scheme, &code, 32 << 10);
        assert!(flow.lanes.len() <= limits::ENCODE_LANES);
    }
}
