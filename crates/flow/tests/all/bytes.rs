//! Plans run on bytes: what is lost comes back, for every pattern of losses, whatever lengths are stored.

#![allow(clippy::unwrap_used, clippy::panic)] // a test may

use crate::plans::{Stripe, code, geometry, helpers, plans, request};
use codes::Code;
use flow::{
    EncodeRequest, FlowError, Geometry, Helper, Member, MultiBlockRequest, RepairRequest, Scheme, Sink, Site,
    build, copy, encode, interpret, multi_block, predict,
};

#[test]
fn every_plan_gives_the_bytes_of_the_stripe() {
    for plan in plans() {
        let mut lengths = vec![1000; plan.code.k()];
        plan.absent.iter().for_each(|member| lengths[usize::from(member.0)] = 0);
        let stripe = Stripe::new(&plan.code, plan.flow.geometry, &lengths);
        stripe.check(&plan.flow);
        let all = 0..plan.flow.geometry.slices();
        let outcome = interpret::run(&plan.flow, all, |member| stripe.block(member)).unwrap();
        let carried: u64 = outcome.edge_bytes.iter().flatten().sum();
        let predicted = predict(&plan.flow, |member| stripe.stored(member), None);
        assert_eq!(carried, predicted.network_bytes(), "{}", plan.label);
    }
}

#[test]
fn what_is_not_known_or_would_be_lost_is_no_result() {
    let code = code("rs-4+2");
    let g = geometry(&code, 500, 100);
    let stripe = Stripe::new(&code, g, &[500; 4]);
    let flow =
        build(Scheme::Pipeline, &request(&code, g, &[0], &helpers(1..6, 500), &[], Sink::Write)).unwrap();
    let run =
        |slices, blocks: &dyn Fn(Member) -> Option<&'static [u8]>| interpret::run(&flow, slices, blocks);
    assert_eq!(run(0..5, &|_| None), Err(FlowError::UnknownBlock { member: Member(1) }));
    assert_eq!(run(0..5, &|_| Some(&[0; 501])), Err(FlowError::UnknownBlock { member: Member(1) }));
    let part = interpret::run(&flow, 1..2, |member| stripe.block(member)).unwrap();
    let block = part.block(Member(0), 200).unwrap();
    assert_eq!((&block[..100], &block[100..]), (&[0; 100][..], &stripe.blocks[0][100..200]));
    assert_eq!(part.block(Member(0), 199), Err(FlowError::LostBytes { member: Member(0) }));
    assert_eq!(part.block(Member(1), 500), Err(FlowError::UnknownBlock { member: Member(1) }));
}

#[test]
fn every_pattern_of_losses_is_repaired() {
    for (name, bytes) in [
        ("rs-4+2", 501),
        ("rs-3+3", 97),
        ("lrc-4+2+2", 203),
        ("rotated-3+2-r2", 40_000),
        ("random-a2-4+2-s1", 40_000),
    ] {
        let code = code(name);
        let g = geometry(&code, bytes, 100);
        let stripe = Stripe::new(&code, g, &[vec![bytes; code.k() - 1], vec![bytes / 3]].concat());
        for pattern in 1_u32..1 << code.n() {
            if pattern.count_ones() as usize > code.tolerance() {
                continue;
            }
            let lost: Vec<u16> = (0..code.n() as u16).filter(|m| pattern >> m & 1 == 1).collect();
            let alive = survivors(&code, &stripe, &lost);
            for scheme in Scheme::all() {
                stripe.check(&build(scheme, &request(&code, g, &lost, &alive, &[], Sink::Write)).unwrap());
            }
            let targets: Vec<(Member, Site)> =
                lost.iter().map(|&m| (Member(m), Site(90 + u32::from(m)))).collect();
            for scheme in Scheme::all().filter(|&scheme| multi_block::repairs_several(scheme)) {
                let request = MultiBlockRequest {
                    code: &code,
                    geometry: g,
                    targets: &targets,
                    helpers: &alive,
                    absent: &[],
                    empty: &[],
                };
                stripe.check(&multi_block::build(scheme, &request).unwrap());
            }
        }
    }
}

/// A star of a rotated code carries, and its disks read, only the symbols of the equation: 16 of 24 quarters.
#[test]
fn a_star_reads_only_the_symbols_it_needs() {
    let code = code("rotated-6+3-r4");
    let bytes = 4 * gf::CHUNK_BYTES as u64;
    let g = geometry(&code, bytes, 1024);
    let alive = helpers(1..9, bytes);
    let flow = build(Scheme::Conventional, &request(&code, g, &[0], &alive, &[], Sink::Write)).unwrap();
    let cost = predict(&flow, |_| bytes, None);
    assert_eq!(cost.network_bytes(), 4 * bytes);
    assert_eq!(cost.disk_read.values().sum::<u64>(), 4 * bytes);
    assert!(cost.links.values().any(|&sent| sent < bytes));
}

/// The widest code there is fits a flow, its repair and its encoding.
#[test]
fn a_stripe_of_512_blocks_can_be_planned() {
    let code = code("rs16-500+12");
    let g = geometry(&code, 100_000, 32 << 10);
    let alive = helpers((1..512).rev(), 100_000);
    for scheme in [Scheme::Conventional, Scheme::Pipeline] {
        build(scheme, &request(&code, g, &[0], &alive, &[], Sink::Write)).unwrap();
    }
    let (data, absent) = (helpers(0..500, 100_000), []);
    let targets: Vec<(Member, Site)> = (500..512).map(|m| (Member(m), Site(u32::from(m)))).collect();
    let archiver = Site(1000);
    let request = EncodeRequest {
        code: &code,
        geometry: g,
        data: &data,
        absent: &absent,
        empty: &[],
        archiver,
        targets: &targets,
    };
    encode::star(&request).unwrap();
}

fn survivors(code: &Code, stripe: &Stripe, lost: &[u16]) -> Vec<Helper> {
    alive(stripe, (0..code.n() as u16).filter(|m| !lost.contains(m)).map(Member))
}

#[test]
fn short_stripes_need_only_what_they_store() {
    let code = code("rs-10+4");
    let g = geometry(&code, 300, 64);
    let lengths = [300, 300, 120, 0, 0, 0, 0, 0, 0, 0];
    let stripe = Stripe::new(&code, g, &lengths);
    let absent: Vec<Member> = (3..10).map(Member).collect();
    let alive: Vec<Helper> = survivors(&code, &stripe, &[1]);
    for scheme in Scheme::all() {
        // Absent blocks may be named as such, or be listed as helpers that store nothing.
        for absent in [&absent[..], &[]] {
            let flow = build(scheme, &request(&code, g, &[1], &alive, absent, Sink::Write)).unwrap();
            assert_eq!(flow.lanes[0].stages.len(), 4, "three helpers and the requestor");
            stripe.check(&flow);
        }
    }
    let data = &alive[..2];
    let targets = [(Member(1), Site(50)), (Member(10), Site(51))];
    let request = EncodeRequest {
        code: &code,
        geometry: g,
        data,
        absent: &absent,
        empty: &[],
        archiver: Site(7),
        targets: &targets,
    };
    assert!(
        matches!(encode::star(&request), Err(FlowError::Code(_))),
        "block 1 is neither stored nor absent"
    );
}

/// A short stripe of an X-Code: its members that store nothing, although members that contribute to them are not zero, and the others.
fn short_stripe_of_x_code() -> (Code, Geometry, Stripe, [Vec<Member>; 2]) {
    let code = code("xcode-5");
    let g = geometry(&code, 300, 64);
    let mut lengths = vec![0; code.virtuals()];
    (lengths[0], lengths[1]) = (60, 30);
    let stripe = Stripe::new(&code, g, &lengths);
    let stored: Vec<Member> = (code.virtuals()..code.n()).map(|m| Member(m as u16)).collect();
    let (empty, full): (Vec<Member>, Vec<Member>) = stored.into_iter().partition(|m| stripe.stored(*m) == 0);
    assert!(!empty.is_empty());
    (code, g, stripe, [empty, full])
}

/// Helpers of these members, as long as they are.
fn alive(stripe: &Stripe, members: impl Iterator<Item = Member>) -> Vec<Helper> {
    let mut alive = helpers(members.map(|member| member.0), 0);
    alive.iter_mut().for_each(|helper| helper.stored_bytes = stripe.stored(helper.member));
    alive
}

#[test]
fn members_that_store_nothing_help_and_are_rebuilt() {
    let (code, g, stripe, [empty, full]) = short_stripe_of_x_code();
    for wanted in (0..2).map(Member).chain(empty.iter().copied()) {
        let alive = alive(&stripe, empty.iter().chain(&full).copied().filter(|member| *member != wanted));
        let request = request(&code, g, &[wanted.0], &alive, &[], Sink::Write);
        stripe.check(&build(Scheme::Conventional, &request).unwrap());
    }
}

/// A member of which nothing was stored is zero, wherever its copy has gone. It helps like a block that is there.
#[test]
fn lost_members_that_store_nothing_help_like_others() {
    let (code, g, stripe, [empty, full]) = short_stripe_of_x_code();
    let (mut with, mut without) = (0, 0);
    for lost in full.iter().flat_map(|a| full.iter().map(move |b| [*a, *b])).filter(|[a, b]| a < b) {
        let alive = alive(&stripe, full.iter().copied().filter(|member| !lost.contains(member)));
        let request = request(&code, g, &[0, 1], &alive, &[], Sink::Write);
        without += u32::from(build(Scheme::Conventional, &request).is_ok());
        let flow = build(Scheme::Conventional, &RepairRequest { empty: &empty, ..request }).unwrap();
        stripe.check(&flow);
        with += 1;
    }
    assert!(with > without, "{empty:?}: {with} and {without}");
}

/// Zero members of a short stripe can prove that single symbols of other members are zero. Flows do not read those, and read and rebuild all
/// data after any two losses.
#[test]
fn every_short_stripe_of_a_vertical_code_is_read_and_rebuilt() {
    for name in ["xcode-5", "hdp-5"] {
        let code = code(name);
        let g = geometry(&code, 64 * code.alpha() as u64, 64);
        let k = code.virtuals();
        for lengths in (1..=k).flat_map(|blocks| [1, 30, g.block_bytes].map(|last| (blocks, last))) {
            let (blocks, last) = lengths;
            let mut data = vec![0; k];
            data[..blocks].fill(g.block_bytes);
            data[blocks - 1] = last;
            let stripe = Stripe::new(&code, g, &data);
            let absent: Vec<Member> = (blocks..k).map(|m| Member(m as u16)).collect();
            let stored: Vec<Member> = (k..code.n()).map(|m| Member(m as u16)).collect();
            let nothing = |member: &Member| stripe.stored(*member) == 0;
            let pairs = stored.iter().flat_map(|a| stored.iter().map(move |b| vec![*a, *b]));
            for lost in pairs.filter(|pair| pair[0] <= pair[1]).chain([Vec::new()]) {
                let alive = alive(&stripe, stored.iter().copied().filter(|member| !lost.contains(member)));
                let empty: Vec<Member> = lost.iter().copied().filter(nothing).collect();
                let wanted: Vec<u16> = (0..blocks as u16).collect();
                let each = wanted.iter().map(std::slice::from_ref).chain([&wanted[..]]);
                for wanted in each {
                    for scheme in [Scheme::Conventional, Scheme::Pipeline] {
                        let request = request(&code, g, wanted, &alive, &absent, Sink::Write);
                        let flow = build(scheme, &RepairRequest { empty: &empty, ..request });
                        let flow =
                            flow.unwrap_or_else(|e| panic!("{name} {lengths:?} {lost:?} {wanted:?}: {e}"));
                        stripe.check(&flow);
                    }
                }
            }
        }
    }
}

/// A local parity of absent blocks is zero: it is made without sending a byte, beside one that is not.
#[test]
fn a_parity_of_nothing_costs_nothing() {
    let generator = [[1, 0], [0, 1], [0, 1], [1, 1]];
    let generator = gf::Matrix::from_rows(gf::Field::Gf256, &generator).unwrap();
    let code = Code::from_generator("local", 4, 2, 1, generator).unwrap();
    let g = geometry(&code, 300, 64);
    let data = helpers([0], 300);
    let targets = [(Member(2), Site(2)), (Member(3), Site(3))];
    let mut request = EncodeRequest {
        code: &code,
        geometry: g,
        data: &data,
        absent: &[Member(1)],
        empty: &[],
        archiver: Site(7),
        targets: &targets,
    };
    let flow = encode::star(&request).unwrap();
    let stripe = Stripe::new(&code, g, &[300, 0]);
    stripe.check(&flow);
    let links: Vec<u64> = predict(&flow, |m| stripe.stored(m), None).links.into_values().collect();
    assert_eq!(links, [300, 0, 300]);
    request.targets = &targets[..1];
    assert_eq!(encode::star(&request), Err(FlowError::WantedIsZero { member: Member(2) }));
}

#[test]
fn senseless_requests_are_refused() {
    let code = code("rs-4+2");
    let g = geometry(&code, 1000, 64);
    let all = helpers(1..6, 1000);
    let good = request(&code, g, &[0], &all, &[], Sink::Write);
    for scheme in Scheme::all() {
        let refused = |request| build(scheme, &request).unwrap_err();
        let mut twice = good.clone();
        twice.wanted.push(twice.wanted[0]);
        assert!(matches!(refused(twice), FlowError::WantedTwice { .. }));
        let mut nothing = good.clone();
        nothing.wanted.clear();
        assert_eq!(refused(nothing), FlowError::NothingWanted);
        let mut zero = good.clone();
        zero.absent = &[Member(0)];
        assert_eq!(refused(zero), FlowError::WantedIsZero { member: Member(0) });
        let mut few = good.clone();
        few.helpers = &all[..3];
        assert!(matches!(refused(few), FlowError::Code(_)));
        let mut unknown = good.clone();
        unknown.wanted[0].member = Member(6);
        assert!(matches!(refused(unknown), FlowError::Code(_)));
        assert_eq!(scheme.to_string().parse::<Scheme>(), Ok(scheme));
    }
    assert!("no-such-scheme".parse::<Scheme>().unwrap_err().to_string().contains("pipeline"));
    let alpha2 = crate::plans::code("random-a2-4+2-s1");
    let half = &good.wanted[..1];
    let g = geometry(&alpha2, 1000, 64);
    assert_eq!(
        copy::copy(&alpha2, g, half, Site(0), Site(1), Sink::Write),
        Err(FlowError::PartialWrite { member: Member(0) })
    );
}
