//! Encodings, planned: of stripes that EAR sealed and of any others, by every scheme.

#![allow(clippy::unwrap_used)] // a test may give up

use codes::Code;
use flow::{EncodeScheme, FlowPlan, Member};
use model::{
    BlockFacts, BlockId, FlowId, Location, MemberState, NodeId, Placement, Stamp, StripeId, Sums, Token, note,
};
use plan::decide::{EncodePlan, NodeFacts, Planner, SliceLength, World};
use plan::placement::{OpenStripe, Racks, Spread, Terms, policy};
use plan::{Archival, ByNode, Draw, Kept, RackId, Topology};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const BLOCK: u64 = 1 << 20;

/// Nodes from 1 in racks, as their numbers say; 0 is the client.
fn world(nodes: u32, rack_of: impl Fn(u32) -> u32) -> World {
    let mut world = World::default();
    let mut facts = ByNode::default();
    for node in 1..=nodes {
        facts
            .insert(NodeId(node), NodeFacts { rack: rack_of(node), is_living: true, ..NodeFacts::default() });
    }
    world.nodes = Arc::new(facts);
    let topology: Topology = (1..=nodes).map(|node| (NodeId(node), RackId(rack_of(node)))).collect();
    world.topology = Arc::new(topology);
    world
}

/// A block whose copies have a generation each.
fn placement(index: usize, nodes: &[NodeId]) -> Placement {
    let location =
        |(copy, &node): (usize, &NodeId)| Location { node, generation: (10 * index + copy) as u64 };
    let locations = nodes.iter().enumerate().map(location).collect();
    let facts = BlockFacts::new(BLOCK, Sums::default(), locations);
    Placement { block: BlockId(1 + index as u128), facts, stripe: None }
}

fn plan(
    world: &World,
    code: &Code,
    data: &[Placement],
    archival: &Archival,
    scheme: EncodeScheme,
) -> FlowPlan {
    let stored = data.iter().map(|placement| placement.block);
    let parities = (code.k()..code.n()).map(|member| BlockId(100 + member as u128));
    let members: Vec<MemberState<BlockId>> = stored.chain(parities).map(MemberState::Stored).collect();
    let relocated = data.iter().zip(&archival.data).filter(|(_, kept)| kept.is_relocated);
    let writes: Vec<_> = relocated
        .map(|(placement, kept)| model::BlockCopy {
            block: placement.block,
            node: kept.stored_at,
            generation: 777,
        })
        .collect();
    let encode = EncodePlan {
        code,
        stripe: StripeId(1),
        block_bytes: BLOCK,
        members: &members,
        writes: &writes,
        flow: FlowId(1),
        attempt: 1,
        data,
        archival,
        scheme,
        slices: SliceLength { of_one_lane: 32 << 10, of_several: 8 << 10 },
        birth: Stamp::default(),
    };
    let mut token = || Token(7);
    Planner::new(32 << 10).encode(world, &encode, &mut token).unwrap().plan
}

/// Streams out of, and into, each rack, and bytes between racks.
fn crossings(plan: &FlowPlan, rack_of: impl Fn(u32) -> u32) -> (BTreeMap<u32, usize>, u64) {
    let crossing = plan.predicted.iter().filter(|((from, to), _)| rack_of(from.0) != rack_of(to.0));
    let (mut out, mut bytes) = (BTreeMap::new(), 0);
    for ((from, _), sent) in crossing {
        *out.entry(rack_of(from.0)).or_default() += 1;
        bytes += sent;
    }
    (out, bytes)
}

fn sealed(racks: &Arc<Racks>, code: &Code, draw: &mut Draw) -> (OpenStripe, Archival) {
    let terms = Terms {
        code: code.clone(),
        rack_capacity: 1,
        target_racks: None,
        replicas: 3,
        spread: Spread::TwoRacks,
    };
    let ear = policy("ear", terms).unwrap();
    let core = ear.core(racks, draw).unwrap();
    let mut stripe = ear.open(core, racks, draw).unwrap();
    for _ in 0..code.k() {
        ear.place(&mut stripe, racks, draw).unwrap();
    }
    let archival = stripe.seal(racks, draw).unwrap().into();
    (stripe, archival)
}

/// What is read lies in the encoder's rack; what stays lies elsewhere, and parities' sidecars name that copy.
#[test]
fn a_sealed_stripe_is_encoded_from_its_core_rack_and_notes_the_copies_that_stay() {
    let rack_of = |node: u32| (node - 1) / 6;
    let world = world(60, rack_of);
    let alive: Vec<NodeId> = world.topology.nodes().collect();
    let racks = Racks::new(&world.topology, &alive, &BTreeSet::new()).unwrap();
    let code = Code::parse("rs-4+2").unwrap();
    let mut draw = Draw::seeded(11);
    let mut read_elsewhere = 0;
    for _ in 0..50 {
        let (stripe, archival) = sealed(&racks, &code, &mut draw);
        let replicas = stripe.state().replicas.iter().enumerate();
        let data: Vec<Placement> = replicas.map(|(index, nodes)| placement(index, nodes)).collect();
        for scheme in EncodeScheme::of(&code) {
            let plan = plan(&world, &code, &data, &archival, scheme);
            let writes = &plan.binding.writes;
            assert_eq!(writes.keys().copied().collect::<Vec<_>>(), [Member(4), Member(5)]);
            for write in writes.values() {
                let noted = note::decode(&write.note).unwrap();
                for ((placement, kept), member) in data.iter().zip(&archival.data).zip(noted.stored()) {
                    assert!(!kept.is_relocated, "EAR relocates nothing");
                    let stays = placement.facts.on(kept.stored_at).unwrap().generation;
                    assert_eq!((member.block, member.generation), (placement.block, stays));
                    read_elsewhere += usize::from(kept.read_from != kept.stored_at);
                }
            }
            // No data block leaves the core rack, only parities do. (A chain carries both of them along.)
            let home = rack_of(archival.archiver.0);
            let uploads = archival.parities.iter().filter(|node| rack_of(node.0) != home).count() as u64;
            assert_eq!(crossings(&plan, rack_of).1, uploads * BLOCK, "{scheme}");
        }
    }
    assert!(read_elsewhere > 100, "{read_elsewhere}");
}

/// Data blocks in three racks, taken in turn, and parities in the second of them.
fn spread_stripe() -> (Vec<Placement>, Archival) {
    let nodes: Vec<NodeId> = (1..=9).map(NodeId).collect();
    let data: Vec<Placement> = nodes.iter().enumerate().map(|(i, node)| placement(i, &[*node])).collect();
    let kept = |&node: &NodeId| Kept { read_from: node, stored_at: node, is_relocated: false };
    let parities = [10, 13, 16].map(NodeId).into();
    (data, Archival { archiver: NodeId(17), data: nodes.iter().map(kept).collect(), parities })
}

#[test]
fn the_chain_leaves_each_rack_once_and_ends_where_parities_are_written() {
    let rack_of = |node: u32| node % 3;
    let world = world(18, rack_of);
    let code = Code::parse("rs-9+3").unwrap();
    let (data, archival) = spread_stripe();
    let plan = plan(&world, &code, &data, &archival, EncodeScheme::Pipeline);
    // Three partial parities out of two racks; the third has the rest and all that write.
    assert_eq!(crossings(&plan, rack_of), (BTreeMap::from([(0, 1), (2, 1)]), 6 * BLOCK));
    assert_eq!(plan.binding.scheme, "encode-pipeline");
    // Cut by three, and a power of two.
    assert_eq!(plan.flow.geometry.slice_bytes, 8 << 10);
    let star = self::plan(&world, &code, &data, &archival, EncodeScheme::Star);
    assert_eq!((crossings(&star, rack_of).1, star.flow.geometry.slice_bytes), (9 * BLOCK, 32 << 10));
}

/// The archiver has no data, and takes no part in a chain: it only drives.
#[test]
fn no_data_pass_an_archiver_that_has_none_but_in_a_star() {
    let world = world(18, |node| node % 3);
    let code = Code::parse("rs-9+3").unwrap();
    let (data, archival) = spread_stripe();
    for scheme in EncodeScheme::of(&code) {
        let plan = plan(&world, &code, &data, &archival, scheme);
        let takes_part = plan.binding.participants.iter().any(|p| p.site.0 == archival.archiver.0);
        assert_eq!(takes_part, scheme == EncodeScheme::Star, "{scheme}");
    }
}

/// A block that must move is read where it is, and noted as the copy that is written.
#[test]
fn a_relocated_block_is_noted_where_it_goes() {
    let world = world(12, |node| node % 3);
    let code = Code::parse("rs-2+2").unwrap();
    let nodes = [NodeId(1), NodeId(2)];
    let data = [placement(0, &nodes), placement(1, &nodes)];
    let kept = |read_from, stored_at, is_relocated| Kept { read_from, stored_at, is_relocated };
    let archival = Archival {
        archiver: NodeId(5),
        // The first is read at one copy and stays at the other; the second moves.
        data: vec![kept(NodeId(1), NodeId(2), false), kept(NodeId(1), NodeId(6), true)],
        parities: vec![NodeId(7), NodeId(8)],
    };
    let plan = plan(&world, &code, &data, &archival, EncodeScheme::Pipeline);
    for write in plan.binding.writes.values() {
        let noted = note::decode(&write.note).unwrap();
        let generations: Vec<u64> = noted.stored().take(2).map(|member| member.generation).collect();
        assert_eq!(generations, [1, 777]);
    }
}
