//! Every strategy of a stage against [`flow::interpret`]: the same bytes on every edge and at every end, whatever the
//! shape, the lengths and the slices; and no strategy lets a wrong byte pass.

#![allow(clippy::unwrap_used, clippy::panic)] // a test may

mod algebra;
mod rig;

use crate::fault_injection::Injection;
use flow::bound::FlowHeader;
use flow::{
    EncodeRequest, EncodeScheme, Geometry, Helper, Member, MultiBlockRequest, Output, Proved, RepairRequest,
    Scheme, Sink, Site, copy, encode, interpret, multi_block, write,
};
use gf::CHUNK_BYTES;
use model::{Cause, FlowId};
use rig::{Planted, STRATEGIES, Stripe, node, run};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const CHUNK: u64 = CHUNK_BYTES as u64;

/// Slices that are parts of chunks, chunks, several chunks, and taken in parts.
const SLICES: [u32; 5] = [1 << 10, 8 << 10, 32 << 10, 64 << 10, 512 << 10];

struct Shape {
    label: String,
    flow: Proved,
    is_serial: bool,
}

/// All that can be built over a stripe.
fn shapes(stripe: &Stripe) -> Vec<Shape> {
    let Stripe { code, geometry, .. } = stripe;
    let n = code.n() as u16;
    let most = (code.n() - code.k()).min(2) as u16;
    let mut shapes = Vec::new();
    let mut add = |label: String, flow: Result<Proved, flow::FlowError>, is_serial: bool| match flow {
        Ok(flow) => shapes.push(Shape { label, flow, is_serial }),
        // A stripe that stores too little.
        Err(flow::FlowError::WantedIsZero { .. } | flow::FlowError::Code(_)) => {}
        Err(error) => panic!("{label}: {error}"),
    };
    let alive = |lost: u16| helpers(stripe, lost..n);
    for scheme in Scheme::all() {
        let geometry = match scheme.whole_block() {
            true => Geometry { slice_bytes: geometry.whole_slice() as u32, ..*geometry },
            false => *geometry,
        };
        for (lost, sink) in [(1, Sink::Write), (1, Sink::Read), (most, Sink::Write)] {
            let lost_members: Vec<Member> = (0..lost).map(Member).collect();
            let wanted = RepairRequest::whole_blocks(code, &lost_members);
            let helpers = alive(lost);
            let request = repair(code, geometry, wanted, &helpers, sink);
            add(format!("{scheme} of {lost}, {sink:?}"), flow::build(scheme, &request), scheme.serial());
        }
        let wanted = RepairRequest::whole_blocks(code, &[Member(0)]).split_off(code.alpha() - 1);
        let helpers = alive(1);
        let request = repair(code, geometry, wanted, &helpers, Sink::Read);
        add(format!("{scheme} of a symbol"), flow::build(scheme, &request), scheme.serial());
        if multi_block::repairs_several(scheme) && most > 1 {
            let targets = [(Member(0), Site(98)), (Member(1), Site(99))];
            let helpers = alive(2);
            let request = MultiBlockRequest {
                code,
                geometry,
                targets: &targets,
                helpers: &helpers,
                absent: &[],
                empty: &[],
            };
            add(format!("{scheme} to two"), multi_block::build(scheme, &request), scheme.serial());
        }
    }
    if code.name().starts_with("rs-") {
        let wanted = RepairRequest::whole_blocks(code, &[Member(0)]);
        let helpers = alive(1);
        let request = repair(code, *geometry, wanted, &helpers, Sink::Read);
        let lanes = [(vec![Site(1), Site(2), Site(3)], 2), (vec![Site(4), Site(3), Site(2)], 1)];
        add("two paths of unequal shares".into(), flow::paths(&request, &lanes), false);
    }
    let data = helpers(stripe, 0..code.k() as u16);
    let targets: Vec<(Member, Site)> =
        (code.k() as u16..n).map(|m| (Member(m), Site(u32::from(m)))).collect();
    for archiver in [Site(99), targets[0].1] {
        let (data, targets) = (&data, &targets);
        let request =
            EncodeRequest { code, geometry: *geometry, data, absent: &[], empty: &[], archiver, targets };
        for scheme in EncodeScheme::of(code) {
            add(format!("encoding at {archiver} by {scheme}"), encode::build(scheme, &request), false);
        }
    }
    let block = RepairRequest::whole_blocks(code, &[Member(1)]);
    for sink in [Sink::Write, Sink::Read] {
        add(format!("copy, {sink:?}"), copy::copy(code, *geometry, &block, Site(1), Site(2), sink), false);
    }
    if code.k() == 1 {
        let replicas: Vec<(Member, Site)> = (0..n).map(|m| (Member(m), Site(u32::from(m)))).collect();
        add("write".into(), write::chain(code, *geometry, Site(99), &replicas), false);
    }
    shapes
}

/// A repair at site 99.
fn repair<'a>(
    code: &'a codes::Code,
    geometry: Geometry,
    wanted: Vec<flow::Symbol>,
    helpers: &'a [Helper],
    sink: Sink,
) -> RepairRequest<'a> {
    RepairRequest { code, geometry, wanted, helpers, absent: &[], empty: &[], requestor: Site(99), sink }
}

fn helpers(stripe: &Stripe, members: std::ops::Range<u16>) -> Vec<Helper> {
    let helper = |m: u16| {
        let member = Member(m);
        Helper { member, site: Site(u32::from(m)), stored_bytes: stripe.stored(member), cost: 1 }
    };
    members.map(helper).collect()
}

fn header(shape: &Shape, verify: bool) -> FlowHeader {
    let mut header = FlowHeader::new(FlowId(rand::random()), shape.flow.field, shape.flow.geometry);
    (header.verify, header.serial) = (verify, shape.is_serial);
    header
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

/// Runs a shape and compares all that can be seen of it; counts the strategies.
fn check(stripe: &Stripe, shape: &Shape, verify: bool, run_slices: u64, counts: &mut BTreeMap<&str, usize>) {
    let flow = &shape.flow;
    let expected = interpret::run(flow, 0..flow.geometry.slices(), |m| stripe.block(m)).unwrap();
    let outcome = run(stripe, flow, header(shape, verify), run_slices, &Planted::default());
    for stage in &outcome.stages {
        assert_eq!(stage.result, Ok(()), "{}", stage.site);
        *counts.entry(stage.strategy.unwrap()).or_default() += 1;
    }
    for (lane, edges) in (0..).zip(&expected.edge_bytes) {
        for (edge, &bytes) in (0..).zip(edges) {
            assert_eq!(outcome.edge_bytes[&(lane, edge)], bytes, "bytes of edge {edge} of lane {lane}");
        }
    }
    let mut written = BTreeSet::new();
    for output in flow.lanes.iter().flat_map(|lane| &lane.stages).flat_map(|stage| &stage.outputs) {
        match output {
            Output::Edge(_) => {}
            Output::Write { member } => {
                let block = expected.block(*member, stripe.stored(*member)).unwrap();
                assert!(outcome.written[&member.0] == block, "{member}, written");
                assert!(block == stripe.block(*member).unwrap(), "{member}, interpreted");
                written.insert(member.0);
            }
            Output::Read { symbols } => {
                let rows: Vec<&Vec<u8>> = symbols.iter().map(|symbol| &expected.symbols[symbol]).collect();
                assert!(outcome.read.iter().collect::<Vec<_>>() == rows, "{symbols:?}, read");
            }
        }
    }
    assert!(outcome.written.keys().eq(&written), "blocks written");
}

/// Lengths of the data blocks: even ones, ragged ones, and nearly nothing.
fn lengths(k: usize, longest: u64, pattern: usize) -> Vec<u64> {
    let short =
        [[longest, longest, longest], [longest / 3, 1, longest], [longest.saturating_sub(1), 0, longest]];
    let mut lengths: Vec<u64> = (0..k).map(|member| short[pattern % 3][member % 3]).collect();
    if k == 1 {
        lengths[0] = longest;
    }
    lengths
}

fn strategies_agree(code: &str, k: usize) -> BTreeMap<&'static str, usize> {
    let runtime = runtime();
    let _entered = runtime.enter();
    let mut counts = BTreeMap::new();
    let blocks = [1, 1023, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK, 5 * CHUNK + 777, 17 * CHUNK + 5];
    let mut round = 0;
    for block_bytes in blocks {
        for slice_bytes in SLICES {
            // A long block in short slices shows nothing new, and takes long.
            if block_bytes > 6 * CHUNK && slice_bytes < 64 << 10 {
                continue;
            }
            for pattern in [round, round + 1] {
                let lengths = lengths(k, block_bytes, pattern);
                let stripe = Stripe::new(code, block_bytes, slice_bytes, &lengths);
                for shape in shapes(&stripe) {
                    round += 1;
                    let (verify, run_slices) = (!round.is_multiple_of(4), [1, 3, 64][round % 3]);
                    let what = format!(
                        "{code}, {}, {lengths:?} in slices of {slice_bytes}, verified: {verify}, runs of {run_slices}",
                        shape.label
                    );
                    let checked = std::panic::AssertUnwindSafe(|| {
                        check(&stripe, &shape, verify, run_slices, &mut counts);
                    });
                    assert!(std::panic::catch_unwind(checked).is_ok(), "{what}");
                }
            }
        }
    }
    counts
}

#[test]
fn every_strategy_does_what_the_interpreter_does() {
    let counts = strategies_agree("rs-3+2", 3);
    for strategy in STRATEGIES {
        assert!(counts.get(strategy).is_some_and(|&count| count > 20), "{strategy} of {counts:?}");
    }
}

#[test]
fn stages_with_several_symbols_do_what_the_interpreter_does() {
    let [rotated, random] = ["rotated-3+2-r2", "random-a2-3+2-s1"].map(|code| strategies_agree(code, 3));
    for strategy in ["stream", "accumulate", "combine", "in place"] {
        assert!(rotated.get(strategy).is_some_and(|&count| count > 20), "{strategy} of {rotated:?}");
    }
    assert!(random["stream"] > 20 && random["accumulate"] > 20 && random["combine"] > 20, "{random:?}");
}

#[test]
fn writes_and_copies_do_what_the_interpreter_does() {
    assert!(strategies_agree("rep-3", 1)["combine"] > 20);
}

/// The strategies that noticed something of `cause` in one of the ways that `plant` makes of each site.
fn noticed(
    code: &str,
    cause: Cause,
    plant: impl Fn(&Stripe, &Shape, Site) -> Option<Planted>,
) -> BTreeSet<&'static str> {
    let runtime = runtime();
    let _entered = runtime.enter();
    let mut noticed = BTreeSet::new();
    for slice_bytes in SLICES {
        let stripe = Stripe::new(code, 2 * CHUNK + 500, slice_bytes, &[2 * CHUNK + 500; 3]);
        for shape in shapes(&stripe) {
            for site in shape.flow.sites() {
                let Some(planted) = plant(&stripe, &shape, site) else { continue };
                let what = format!("{code}, {}, slices of {slice_bytes}, {site}", shape.label);
                let outcome = run(&stripe, &shape.flow, header(&shape, true), 64, &planted);
                let found: Vec<_> = outcome
                    .stages
                    .iter()
                    .filter_map(|stage| Some((stage, stage.result.as_ref().err()?)))
                    .filter(|(_, fault)| fault.cause == cause)
                    .collect();
                assert!(!found.is_empty(), "{what}: unnoticed");
                for (stage, fault) in found {
                    // Either it is the site's own block, or arithmetic, or an edge that comes from it.
                    let (from, to) = fault.suspect.unwrap();
                    assert_eq!((from, to), (node(site), node(stage.site)), "{what}: {fault}");
                    noticed.insert(stage.strategy.unwrap());
                }
            }
        }
    }
    noticed
}

#[test]
fn every_strategy_that_reads_notices_a_wrong_byte_of_its_own_block() {
    let misread = |stripe: &Stripe, shape: &Shape, site: Site| {
        let takes = |stage: &&flow::Stage| stage.site == site;
        let inputs = shape.flow.lanes[0].stages.iter().filter(takes).flat_map(|stage| &stage.inputs);
        let member = inputs.into_iter().find_map(|input| match input {
            flow::Input::Local { member, .. } => Some(*member),
            _ => None,
        })?;
        Some(Planted { misread: Some((member, stripe.stored(member) / 3)), ..Default::default() })
    };
    let seen = noticed("rs-3+2", Cause::CorruptBlock, misread);
    assert_eq!(seen, ["accumulate", "between", "combine", "first", "in place", "stream"].into());
}

#[test]
fn every_strategy_that_receives_notices_a_wrong_byte_that_was_sent() {
    let flip = |_: &Stripe, shape: &Shape, site: Site| {
        let sends = |lane: &flow::Lane| {
            lane.edges.iter().any(|edge| lane.stages[usize::from(edge.from.0)].site == site)
        };
        // Slice 0 is carried by the first lane.
        let injection = Arc::new(Injection::default());
        injection.flip_wire(0);
        sends(&shape.flow.lanes[0])
            .then(|| Planted { injections: [(site, injection)].into(), ..Default::default() })
    };
    let seen = noticed("rs-3+2", Cause::CorruptSlice, flip);
    assert_eq!(seen, ["accumulate", "between", "combine", "in place", "last"].into());
}
