//! Stripes whose blocks a pipeline makes: where the policy made for it puts replicas, and what others leave it to fetch.

#![allow(clippy::unwrap_used)] // a test may give up

use codes::Code;
use gf::{Field, Matrix};
use model::NodeId;
use plan::placement::{OpenStripe, OpenStripes, Policy, Racks, Rules, Sealed, Spread, Terms, Trial, policy};
use plan::{Draw, PlanError, RackId, Topology, fetched};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Every policy that places for such codes.
const POLICIES: [&str; 4] = ["random", "ear-preliminary", "ear", "rapidraid"];

fn terms(code: &str, rack_capacity: usize) -> Terms {
    let (code, spread) = (Code::parse(code).unwrap(), Spread::TwoRacks);
    Terms { code, rack_capacity, target_racks: None, replicas: 2, spread }
}

/// Racks of so many nodes each, without those that are dead or full.
fn racks_without(sizes: &[u32], dead: &[NodeId], full: &[NodeId]) -> Arc<Racks> {
    let racks = sizes.iter().zip(0..).flat_map(|(&nodes, rack)| (0..nodes).map(move |_| RackId(rack)));
    let topology: Topology = racks.zip(0..).map(|(rack, node)| (NodeId(node), rack)).collect();
    let alive: Vec<NodeId> = topology.nodes().filter(|node| !dead.contains(node)).collect();
    Racks::new(&topology, &alive, &full.iter().copied().collect()).unwrap()
}

fn racks(sizes: &[u32]) -> Arc<Racks> {
    racks_without(sizes, &[], &[])
}

fn stripe(policy: &dyn Policy, racks: &Arc<Racks>, blocks: usize, draw: &mut Draw) -> OpenStripe {
    let core = policy.core(racks, draw).unwrap();
    let mut stripe = policy.open(core, racks, draw).unwrap();
    for _ in 0..blocks {
        policy.place(&mut stripe, racks, draw).unwrap();
    }
    stripe
}

fn lag(code: &Code) -> usize {
    code.stored() - code.k()
}

/// The node of each position of a stripe whose chain never broke; `None` where it has none yet.
fn chain(stripe: &OpenStripe) -> Vec<Option<NodeId>> {
    let (code, replicas) = (&stripe.rules().terms().code, &stripe.state().replicas);
    let mut nodes = vec![None; code.stored()];
    for (block, on) in replicas.iter().enumerate() {
        for (position, node) in [(block, on[0]), (block + lag(code), on[1])] {
            assert!(nodes[position].is_none_or(|other| other == node), "position {position} of {replicas:?}");
            nodes[position] = Some(node);
        }
    }
    nodes
}

/// The most nodes in a rack, and that they are distinct.
fn most_in_a_rack(nodes: &[NodeId], racks: &Racks) -> usize {
    assert_eq!(nodes.iter().collect::<BTreeSet<_>>().len(), nodes.len(), "a node twice: {nodes:?}");
    let mut in_racks = BTreeMap::<RackId, usize>::new();
    nodes.iter().for_each(|&node| *in_racks.entry(racks.rack_of(node).unwrap()).or_default() += 1);
    in_racks.into_values().max().unwrap_or(0)
}

/// How many blocks have all their replicas in one rack.
fn in_one_rack(stripe: &OpenStripe, racks: &Racks) -> usize {
    let lie_in =
        |nodes: &Vec<NodeId>| nodes.iter().map(|&node| racks.rack_of(node)).collect::<BTreeSet<_>>().len();
    stripe.state().replicas.iter().filter(|nodes| lie_in(nodes) == 1).count()
}

/// What holds of every sealed stripe, whatever its policy: one node for each block, replicas that are read live, and what is
/// fetched comes from where it is.
fn check(stripe: &OpenStripe, sealed: &Sealed, racks: &Racks) {
    let (code, replicas) = (&stripe.rules().terms().code, &stripe.state().replicas);
    assert_eq!(sealed.parities.len(), code.stored());
    let most = most_in_a_rack(&sealed.parities, racks);
    assert_eq!(sealed.is_obedient, most <= stripe.rules().per_rack());
    assert_eq!((sealed.encoder, sealed.data.len()), (sealed.parities[0], stripe.len()));
    for (block, replicas) in sealed.data.iter().zip(replicas) {
        assert!(replicas.contains(&block.read_from) && racks.rack_of(block.read_from).is_some());
        assert!(block.stored_at == block.read_from && !block.is_relocated);
    }
    let fetches = sealed.fetches.as_ref().unwrap();
    assert_eq!(fetches.len(), fetched(code, replicas, &sealed.parities));
    let mut far = 0;
    for fetch in fetches {
        let held = &replicas[fetch.block];
        let position = sealed.parities.iter().position(|&node| node == fetch.to).unwrap();
        assert!([fetch.block, fetch.block + lag(code)].contains(&position));
        assert!(
            held.contains(&fetch.from) && racks.rack_of(fetch.from).is_some() && !held.contains(&fetch.to)
        );
        far += usize::from(held.iter().all(|&node| racks.rack_of(node) != racks.rack_of(fetch.to)));
    }
    assert_eq!(sealed.cross_rack_downloads(racks), far);
}

#[test]
fn replicas_lie_along_a_pipeline_that_fetches_nothing() {
    for (code, capacity, sizes) in [
        ("rapidraid-4+2", 1, &[3; 9][..]),
        ("rapidraid-4+2", 2, &[5; 4][..]),
        ("rapidraid-4+4", 1, &[2; 9][..]),
        ("rapidraid-11+5", 1, &[20; 20][..]),
        ("rapidraid-11+5", 3, &[9; 8][..]),
        ("rapidraid16-11+5", 2, &[9; 11][..]),
    ] {
        let racks = racks(sizes);
        let mut draw = Draw::seeded(capacity as u64);
        let mut open = OpenStripes::new(policy("rapidraid", terms(code, capacity)).unwrap());
        let mut full = 0;
        while full < 200 {
            let joined = open.place(&racks, &mut draw).unwrap();
            assert_eq!((joined.core, joined.placed.nodes.len()), (None, 2));
            let stripe = joined.filled.as_ref().or_else(|| open.iter().next()).unwrap();
            let nodes = chain(stripe);
            let standing: Vec<NodeId> = nodes.iter().flatten().copied().collect();
            assert!(most_in_a_rack(&standing, &racks) <= capacity);
            assert_eq!(in_one_rack(stripe, &racks), 0);
            let sealed = stripe.seal(&racks, &mut draw).unwrap();
            check(stripe, &sealed, &racks);
            assert!(
                sealed.is_obedient && sealed.fetches == Some(Vec::new()),
                "short ones fetch nothing either"
            );
            if let Some(stripe) = joined.filled {
                assert!(nodes.iter().all(Option::is_some));
                let several = lag(&stripe.rules().terms().code)..stripe.len();
                several
                    .for_each(|position| assert_eq!(sealed.parities.get(position), nodes[position].as_ref()));
                full += 1;
            }
        }
    }
}

/// Where a stripe fills its racks to the last place, a draw that does not look ahead would leave two replicas of a block one rack.
#[test]
fn replicas_of_a_block_are_in_two_racks_even_if_a_stripe_fills_them_all() {
    let mut redrawn = 0;
    for (code, capacity, sizes) in [
        ("rapidraid-4+2", 1, &[1; 6][..]),
        ("rapidraid-4+2", 2, &[2; 3][..]),
        ("rapidraid-4+2", 2, &[7; 3][..]),
        ("rapidraid-4+4", 3, &[3, 3, 2][..]),
        ("rapidraid-11+5", 2, &[2; 8][..]),
        ("rapidraid-11+5", 3, &[4; 6][..]),
    ] {
        let (racks, policy) = (racks(sizes), policy("rapidraid", terms(code, capacity)).unwrap());
        let mut draw = Draw::seeded(7);
        for _ in 0..300 {
            let mut stripe = stripe(&*policy, &racks, 0, &mut draw);
            while !stripe.is_full() {
                redrawn += usize::from(policy.place(&mut stripe, &racks, &mut draw).unwrap().iterations > 1);
            }
            let nodes: Vec<NodeId> = chain(&stripe).into_iter().flatten().collect();
            assert!(most_in_a_rack(&nodes, &racks) <= capacity, "{code} {capacity}");
            assert_eq!(in_one_rack(&stripe, &racks), 0, "{code} {capacity} {sizes:?}");
        }
    }
    assert!(redrawn > 100, "the cases were too easy: {redrawn}");
}

#[test]
fn a_pipeline_within_one_rack_or_with_too_few_nodes_is_placed_all_the_same() {
    let policy = policy("rapidraid", terms("rapidraid-4+2", 2)).unwrap();
    let (mut draw, mut sealed) = (Draw::seeded(3), 0);
    for nodes in [8, 4] {
        for _ in 0..60 {
            // Of the racks that the stripe was opened in all but one have died.
            let (before, after) = (racks(&[nodes, 4, 4]), racks(&[nodes]));
            let mut stripe = stripe(&*policy, &before, 1, &mut draw);
            while !stripe.is_full() {
                let placed = policy.place(&mut stripe, &after, &mut draw).unwrap();
                assert_eq!(placed.nodes.iter().collect::<BTreeSet<_>>().len(), 2);
            }
            match stripe.seal(&after, &mut draw) {
                Ok(layout) => {
                    check(&stripe, &layout, &after);
                    assert!(nodes == 8 && !layout.is_obedient);
                    sealed += 1;
                }
                Err(PlanError::NoReplica { block }) => assert_eq!(block, 0),
                Err(error) => {
                    assert!(nodes == 4 && matches!(error, PlanError::NotEnoughNodes { alive: 4, .. }));
                }
            }
        }
    }
    assert!(sealed > 10, "{sealed}");
}

#[test]
fn a_node_that_dies_or_fills_up_is_replaced_in_the_pipeline() {
    let (sizes, policy) = ([4; 20], policy("rapidraid", terms("rapidraid-11+5", 1)).unwrap());
    let mut draw = Draw::seeded(9);
    let (mut total, mut broken) = (0, 0);
    for round in 0..400 {
        let whole = racks(&sizes);
        let blocks = 6 + draw.below(4);
        let mut stripe = stripe(&*policy, &whole, blocks, &mut draw);
        // The node that the next block's first replica would go to.
        let next = stripe.state().replicas[blocks - 5][1];
        let is_dead = round % 2 == 0;
        let gone = [next];
        let after =
            if is_dead { racks_without(&sizes, &gone, &[]) } else { racks_without(&sizes, &[], &gone) };
        let before = chain(&stripe);
        let placed = policy.place(&mut stripe, &after, &mut draw).unwrap();
        assert!(!placed.nodes.contains(&next));
        assert!(placed.nodes.iter().all(|node| !before.contains(&Some(*node))), "both are new");
        while !stripe.is_full() {
            policy.place(&mut stripe, &after, &mut draw).unwrap();
        }
        let sealed = stripe.seal(&after, &mut draw).unwrap();
        check(&stripe, &sealed, &after);
        assert!(sealed.is_obedient && !sealed.parities.contains(&next), "it writes nothing");
        let fetches = sealed.fetches.unwrap().len();
        // The position needs one block that only the node beside it has.
        assert!(fetches <= 1);
        total += fetches;
        broken += 1;
    }
    assert_eq!(total, broken, "one for each");
}

#[test]
fn further_replicas_lie_beside_the_pipeline_in_other_racks() {
    let mut draw = Draw::seeded(4);
    for sizes in [&[20; 20][..], &[3; 9][..]] {
        let racks = racks(sizes);
        let policy = policy("rapidraid", Terms { replicas: 4, ..terms("rapidraid-4+2", 1) }).unwrap();
        for _ in 0..200 {
            let mut stripe = stripe(&*policy, &racks, 0, &mut draw);
            while !stripe.is_full() {
                let nodes = policy.place(&mut stripe, &racks, &mut draw).unwrap().nodes;
                assert_eq!(most_in_a_rack(&nodes, &racks), 1, "{nodes:?}");
                let chain = chain(&stripe);
                assert!(nodes[2..].iter().all(|&node| !chain.contains(&Some(node))));
            }
            let sealed = stripe.seal(&racks, &mut draw).unwrap();
            check(&stripe, &sealed, &racks);
            assert_eq!(sealed.fetches, Some(Vec::new()));
        }
    }
    // Six nodes are the pipeline: its own must do.
    let racks = racks(&[1; 6]);
    let policy = policy("rapidraid", Terms { replicas: 3, ..terms("rapidraid-4+2", 1) }).unwrap();
    for _ in 0..50 {
        let stripe = stripe(&*policy, &racks, 4, &mut draw);
        assert!(stripe.state().replicas.iter().all(|nodes| most_in_a_rack(nodes, &racks) == 1));
        assert_eq!(stripe.seal(&racks, &mut draw).unwrap().fetches, Some(Vec::new()));
    }
}

#[test]
fn stripes_of_every_policy_become_codewords_that_keep_the_rack_rule() {
    let racks = racks(&[6; 18]);
    let mut fetches = BTreeMap::<&str, usize>::new();
    for code in ["rapidraid-4+2", "rapidraid-11+5"] {
        for (name, capacity, replicas) in POLICIES.into_iter().flat_map(|name| {
            [(1, 2), (2, 2), (1, 3), (2, 3)].map(|(capacity, replicas)| (name, capacity, replicas))
        }) {
            let mut draw = Draw::seeded(capacity as u64);
            let terms = Terms { replicas, ..terms(code, capacity) };
            let mut open = OpenStripes::new(policy(name, terms).unwrap());
            let mut full = 0;
            while full < 40 {
                let joined = open.place(&racks, &mut draw).unwrap();
                assert_eq!(joined.core.is_some(), name.starts_with("ear"));
                assert!(name == "rapidraid" || joined.placed.iterations == 1);
                let Some(stripe) = joined.filled else { continue };
                let sealed = stripe.seal(&racks, &mut draw).unwrap();
                check(&stripe, &sealed, &racks);
                assert!(sealed.is_obedient);
                *fetches.entry(name).or_default() += sealed.fetches.as_ref().unwrap().len();
                full += 1;
            }
            for stripe in open.iter() {
                let sealed = stripe.seal(&racks, &mut draw).unwrap();
                check(stripe, &sealed, &racks);
                assert!(sealed.is_obedient);
            }
        }
    }
    assert_eq!(fetches.remove("rapidraid"), Some(0));
    assert!(fetches.len() == 3 && fetches.values().all(|&fetches| fetches > 500), "{fetches:?}");
}

#[test]
fn codewords_lie_in_the_target_racks_while_these_can_hold_them() {
    let (sizes, mut draw) = ([3; 12], Draw::seeded(6));
    let whole = racks(&sizes);
    for name in POLICIES {
        let policy = policy(name, Terms { target_racks: Some(3), ..terms("rapidraid-4+2", 2) }).unwrap();
        for _ in 0..50 {
            let stripe = stripe(&*policy, &whole, 4, &mut draw);
            let targets = &stripe.state().targets;
            let sealed = stripe.seal(&whole, &mut draw).unwrap();
            check(&stripe, &sealed, &whole);
            assert!(sealed.parities.iter().all(|&node| targets.contains(&whole.rack_of(node).unwrap())));
            assert!(name != "rapidraid" || sealed.fetches == Some(Vec::new()));
            // One target rack is full: a rack that is none takes its place, rather than that others take more.
            let full: Vec<NodeId> = whole.roomy(targets[0]).to_vec();
            let after = racks_without(&sizes, &[], &full);
            let sealed = stripe.seal(&after, &mut draw).unwrap();
            assert!(!sealed.is_obedient && most_in_a_rack(&sealed.parities, &after) <= 2);
        }
    }
}

#[test]
fn a_trial_of_ten_thousand_blocks_fetches_nothing_and_violates_nothing() {
    let trial = |policy: &str| {
        let terms = terms("rapidraid-11+5", 1);
        let policy = policy.to_owned();
        Trial { policy, terms, racks: 20, nodes_per_rack: 20, blocks: 10_000, runs: 1, seed: 1 }
            .run()
            .unwrap()
    };
    let report = trial("rapidraid");
    let full = report.stripes;
    assert_eq!((full.stripes, full.violating, full.relocated), (909, 0, 0));
    assert_eq!((full.fetched, full.cross_rack_downloads), (0, 0));
    assert_eq!((report.short_stripes.stripes, report.short_stripes.violating), (1, 0));
    assert_eq!(report.short_stripes.fetched, 0);
    // Each of the sixteen nodes is in a rack of its own, so that every sum crosses.
    assert_eq!(full.cross_rack_uploads, 15 * full.stripes);
    assert_eq!(report.most_iterations, 1);
    // A twentieth is 5 %; the racks of 909 stripes of 22 replicas differ by some tenths.
    assert!(report.rack_share.iter().all(|share| (0.045..0.055).contains(share)), "{:?}", report.rack_share);
    for other in ["random", "ear"] {
        let report = trial(other).stripes;
        assert_eq!((report.violating, report.relocated), (0, 0));
        assert!(report.fetched > 3 * report.stripes && report.fetched >= report.cross_rack_downloads);
    }
}

#[test]
fn a_stripe_that_is_taken_up_again_goes_on_where_its_pipeline_was() {
    let (racks, mut draw) = (racks(&[3; 20]), Draw::seeded(8));
    let policy = policy("rapidraid", terms("rapidraid-11+5", 1)).unwrap();
    let mut before = stripe(&*policy, &racks, 7, &mut draw);
    let mut after = OpenStripe::resume(policy.rules(), before.state().clone());
    let mut other = draw.clone();
    while !before.is_full() {
        policy.place(&mut before, &racks, &mut draw).unwrap();
        policy.place(&mut after, &racks, &mut other).unwrap();
    }
    assert_eq!(before.state(), after.state());
    assert!(chain(&after).iter().all(Option::is_some));
}

#[test]
fn a_replica_that_died_is_read_elsewhere_and_a_block_without_one_is_named() {
    let (sizes, mut draw) = ([3; 20], Draw::seeded(10));
    let whole = racks(&sizes);
    let policy = policy("rapidraid", terms("rapidraid-11+5", 1)).unwrap();
    let stripe = stripe(&*policy, &whole, 11, &mut draw);
    for (block, replicas) in stripe.state().replicas.iter().enumerate() {
        let after = racks_without(&sizes, &replicas[..1], &[]);
        let sealed = stripe.seal(&after, &mut draw).unwrap();
        check(&stripe, &sealed, &after);
        assert_eq!(sealed.data[block].read_from, replicas[1]);
        // Its node had one block, or one and another: that many a new one fetches.
        assert_eq!(sealed.fetches.unwrap().len(), if block < 5 { 1 } else { 2 });
        let lost = racks_without(&sizes, replicas, &[]);
        assert_eq!(stripe.seal(&lost, &mut draw), Err(PlanError::NoReplica { block }));
    }
    let few = racks_without(&sizes, &[], &whole.nodes().skip(15).collect::<Vec<NodeId>>());
    assert!(matches!(
        stripe.seal(&few, &mut draw),
        Err(PlanError::NotEnoughNodes { needed: 16, alive: 15, .. })
    ));
}

#[test]
fn what_such_a_code_needs_is_told() {
    let refused = |name: &str, terms: Terms| policy(name, terms).map(drop).unwrap_err();
    let systematic = refused("rapidraid", terms("rs-4+2", 1));
    assert_eq!(systematic, PlanError::NoPipeline { code: "rs-4+2".to_owned() });
    let one = refused("rapidraid", Terms { replicas: 1, ..terms("rapidraid-4+2", 1) });
    assert!(matches!(one, PlanError::TooFewReplicas { needed: 2, replicas: 1, .. }), "{one}");
    for name in POLICIES {
        let tolerance = Code::parse("rapidraid-11+5").unwrap().tolerance();
        let many = refused(name, terms("rapidraid-11+5", tolerance + 1));
        assert!(matches!(many, PlanError::RackCapacity { most, .. } if most == tolerance), "{many}");
        // Sixteen blocks lie in racks, and not 27 members.
        for (capacity, needed) in [(1, 16), (2, 8), (3, 6)] {
            let open = |count: usize| {
                let racks = racks(&vec![4; count]);
                let mut open = OpenStripes::new(policy(name, terms("rapidraid-11+5", capacity)).unwrap());
                open.place(&racks, &mut Draw::seeded(1)).map(drop)
            };
            assert_eq!(open(needed), Ok(()));
            let few = open(needed - 1);
            assert!(matches!(few, Err(PlanError::TooFewRacks { needed: n, .. }) if n == needed), "{few:?}");
        }
    }
    // Neither data nor what a pipeline makes of them.
    let rows: Vec<[u16; 2]> = vec![[1, 1], [1, 2], [1, 3], [1, 4]];
    let generator = Matrix::from_rows(Field::Gf256, &rows).unwrap();
    let code = Code::from_generator("odd", 4, 2, 1, generator).unwrap();
    for name in POLICIES {
        let odd = refused(name, Terms { code: code.clone(), ..terms("rs-2+2", 1) });
        assert_eq!(odd, PlanError::NotSystematic { code: "odd".to_owned() });
    }
    let rules = Rules::new(terms("rapidraid-11+5", 1)).unwrap();
    assert_eq!((rules.groups(), rules.per_rack(), rules.per_group()), (1, 1, 1));
}
