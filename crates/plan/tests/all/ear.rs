//! Encoding-aware replication: what its stripes come to, beside the paper's equations.

#![allow(clippy::unwrap_used)] // a test may give up

use codes::Code;
use model::NodeId;
use plan::placement::ear::iterations_bound;
use plan::placement::ear_preliminary::violation_probability;
use plan::placement::{
    OpenStripe, OpenStripes, Policy, Racks, Rules, Sealed, Spread, Terms, Trial, TrialReport, policies,
    policy,
};
use plan::{Draw, PlanError, RackId, Topology};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

fn terms(code: &str, rack_capacity: usize) -> Terms {
    Terms {
        code: Code::parse(code).unwrap(),
        rack_capacity,
        target_racks: None,
        replicas: 3,
        spread: Spread::TwoRacks,
    }
}

/// Racks of so many nodes each.
fn racks_of(sizes: &[u32]) -> (Topology, Vec<NodeId>) {
    let racks = sizes.iter().zip(0..).flat_map(|(&nodes, rack)| (0..nodes).map(move |_| RackId(rack)));
    let topology: Topology = racks.zip(0..).map(|(rack, node)| (NodeId(node), rack)).collect();
    let nodes = topology.nodes().collect();
    (topology, nodes)
}

fn racks(sizes: &[u32]) -> Arc<Racks> {
    let (topology, alive) = racks_of(sizes);
    Racks::new(&topology, &alive, &BTreeSet::new()).unwrap()
}

/// A stripe of so many blocks.
fn stripe(policy: &dyn Policy, racks: &Arc<Racks>, blocks: usize, draw: &mut Draw) -> OpenStripe {
    let core = policy.core(racks, draw).unwrap();
    let mut stripe = policy.open(core, racks, draw).unwrap();
    for _ in 0..blocks {
        policy.place(&mut stripe, racks, draw).unwrap();
    }
    stripe
}

/// The members of each rack.
fn by_rack(stripe: &OpenStripe, sealed: &Sealed, racks: &Racks) -> BTreeMap<RackId, Vec<usize>> {
    let k = stripe.rules().terms().code.k();
    let data = sealed.data.iter().map(|block| block.stored_at).enumerate();
    let parities = (k..).zip(sealed.parities.iter().copied());
    let mut members = BTreeMap::<RackId, Vec<usize>>::new();
    for (member, node) in data.chain(parities) {
        members.entry(racks.rack_of(node).unwrap()).or_default().push(member);
    }
    members
}

/// The policies for codes that store the data.
fn of_stored_data() -> impl Iterator<Item = &'static str> {
    policies().iter().map(|kind| kind.name).filter(|name| policy(name, terms("rs-3+2", 1)).is_ok())
}

/// All sets of `count` of the items.
fn choose<T: Clone>(items: &[T], count: usize) -> Vec<Vec<T>> {
    if count == 0 {
        return vec![Vec::new()];
    }
    let Some((first, rest)) = items.split_first() else { return Vec::new() };
    let with = choose(rest, count - 1).into_iter().map(|mut set| {
        set.push(first.clone());
        set
    });
    with.chain(choose(rest, count)).collect()
}

/// What EAR promises of a sealed stripe, judged apart from the program: by counting, and by the rank of what is left when racks
/// fail.
fn check(stripe: &OpenStripe, sealed: &Sealed, racks: &Racks) {
    let (rules, state) = (stripe.rules(), stripe.state());
    let Terms { code, rack_capacity, target_racks, .. } = rules.terms();
    let nodes: BTreeSet<NodeId> =
        sealed.data.iter().map(|block| block.stored_at).chain(sealed.parities.clone()).collect();
    assert_eq!(nodes.len(), stripe.len() + code.n() - code.k(), "two blocks on one node");
    let members = by_rack(stripe, sealed, racks);
    assert!(members.values().all(|blocks| blocks.len() <= *rack_capacity), "{members:?}");
    assert!(target_racks.is_none_or(|targets| members.len() <= targets), "{members:?}");
    assert!(sealed.is_obedient);
    for (replicas, block) in state.replicas.iter().zip(&sealed.data) {
        assert!(!block.is_relocated && replicas.contains(&block.stored_at));
        assert!(replicas.contains(&block.read_from));
        assert_eq!(racks.rack_of(block.read_from), state.core, "the encoder reads within its rack");
    }
    assert_eq!(racks.rack_of(sealed.encoder), state.core);
    assert_eq!((sealed.relocated().count(), sealed.cross_rack_downloads(racks)), (0, 0));
    assert!(rules.rack_failures() >= 1);
    let of_racks: Vec<Vec<usize>> = members.into_values().collect();
    for failed in choose(&of_racks, rules.rack_failures().min(of_racks.len())) {
        assert!(code.recoverable(&failed.concat()), "{code}: {failed:?} are lost for good");
    }
}

/// How the replicas of one block must lie.
fn check_spread(nodes: &[NodeId], racks: &Racks, terms: &Terms, core: Option<RackId>) {
    let in_racks: Vec<RackId> = nodes.iter().map(|&node| racks.rack_of(node).unwrap()).collect();
    assert_eq!(nodes.iter().collect::<BTreeSet<_>>().len(), terms.replicas);
    assert_eq!(in_racks.iter().collect::<BTreeSet<_>>().len(), terms.spread.racks(terms.replicas));
    assert!(core.is_none_or(|core| core == in_racks[0]));
    let second = in_racks.get(1);
    assert!(terms.spread == Spread::EachOwn || in_racks.iter().skip(1).all(|rack| Some(rack) == second));
}

#[test]
fn a_thousand_stripes_encode_without_downloads_from_other_racks_and_without_relocation() {
    let racks = racks(&[20; 20]);
    for (code, capacities) in [("rs-10+4", 1..=4), ("lrc-10+2+2", 1..=4)] {
        for capacity in capacities {
            let mut draw = Draw::seeded(capacity as u64);
            let mut open = OpenStripes::new(policy("ear", terms(code, capacity)).unwrap());
            let mut sealed = 0;
            while sealed < 1_000 {
                let joined = open.place(&racks, &mut draw).unwrap();
                check_spread(&joined.placed.nodes, &racks, open.policy().rules().terms(), joined.core);
                let Some(stripe) = joined.filled else { continue };
                check(&stripe, &stripe.seal(&racks, &mut draw).unwrap(), &racks);
                sealed += 1;
            }
            // Those that are not full yet are sealed short.
            for stripe in open.iter() {
                check(stripe, &stripe.seal(&racks, &mut draw).unwrap(), &racks);
            }
        }
    }
}

const CODES: [&str; 10] = [
    "rs-2+1",
    "rs-3+2",
    "rs-4+3",
    "rs-6+3",
    "rs-10+4",
    "lrc-4+2+2",
    "lrc-7+3+2",
    "lrc-8+4+2",
    "lrc-6+2+3",
    "rep-3",
];

#[test]
fn stripes_of_any_code_on_any_racks_survive_what_they_claim_or_the_error_says_what_is_needed() {
    let mut draw = Draw::seeded(7);
    let (mut placed, mut refused, mut tight) = (0, 0, 0);
    for _ in 0..3_000 {
        let code = Code::parse(CODES[draw.below(CODES.len())]).unwrap();
        let mut terms = terms(code.name(), 1 + draw.below(code.n() - code.k()));
        terms.replicas = 2 + draw.below(3);
        terms.spread = Spread::ALL[draw.below(2)];
        let sizes = vec![1 + draw.below(6) as u32; 2 + draw.below(16)];
        let widest = sizes.len();
        terms.target_racks = [None, Some(1 + draw.below(widest))][draw.below(2)];
        // Replicas that do not fit into one other rack are another matter.
        if terms.spread == Spread::TwoRacks && (sizes[0] as usize) < terms.replicas - 1 {
            continue;
        }
        let racks = racks(&sizes);
        let policy = match policy("ear", terms.clone()) {
            Ok(policy) => policy,
            Err(PlanError::RackCapacity { .. }) => continue,
            Err(other) => panic!("{other}"),
        };
        let core = policy.core(&racks, &mut draw).unwrap();
        let mut stripe = match policy.open(core, &racks, &mut draw) {
            Ok(stripe) => stripe,
            Err(PlanError::TooFewRacks { needed, racks: allowed, .. }) => {
                assert!(needed > allowed && allowed == terms.target_racks.unwrap_or(widest));
                // It is what is needed: as many racks as it says do, one less does not.
                let wider = Terms { target_racks: None, ..terms.clone() };
                let wider = plan::placement::policy("ear", wider).unwrap();
                let open = |count: usize| {
                    wider.open(None, &self::racks(&vec![sizes[0]; count]), &mut Draw::seeded(1))
                };
                assert!(open(needed).is_ok() && open(needed - 1).is_err(), "{terms:?} {needed}");
                refused += 1;
                continue;
            }
            Err(other) => panic!("{other}"),
        };
        let blocks = 1 + draw.below(code.k());
        let mut result = Ok(());
        for _ in 0..blocks {
            match policy.place(&mut stripe, &racks, &mut draw) {
                Ok(placed) => {
                    check_spread(&placed.nodes, &racks, &terms, core);
                    tight += usize::from(placed.iterations > 1);
                }
                Err(error) => result = Err(error),
            }
        }
        match result {
            Ok(()) => check(&stripe, &stripe.seal(&racks, &mut draw).unwrap(), &racks),
            Err(PlanError::NotEnoughRacks { needed, racks: have }) => {
                assert!(needed == terms.replicas && have == widest && terms.spread == Spread::EachOwn);
            }
            Err(other) => panic!("{other}: {terms:?} {sizes:?}"),
        }
        placed += 1;
    }
    assert!(
        placed > 500 && refused > 300 && tight > 150,
        "{placed} placed, {refused} refused, {tight} redrawn"
    );
}

#[test]
fn racks_of_different_sizes_hold_what_they_can() {
    let mut draw = Draw::seeded(11);
    let mut opened = 0;
    for _ in 0..1_500 {
        let sizes: Vec<u32> = (0..4 + draw.below(10)).map(|_| 2 + draw.below(4) as u32).collect();
        let racks = racks(&sizes);
        let code = ["rs-6+3", "lrc-4+2+2", "rs-10+4"][draw.below(3)];
        let policy = policy("ear", terms(code, 1 + draw.below(3))).unwrap();
        let core = policy.core(&racks, &mut draw).unwrap();
        let mut stripe = match policy.open(core, &racks, &mut draw) {
            Ok(stripe) => stripe,
            Err(PlanError::TooFewRacks { .. } | PlanError::TooFewNodesInRacks { .. }) => continue,
            Err(other) => panic!("{other}"),
        };
        for _ in 0..stripe.rules().terms().code.k() {
            policy.place(&mut stripe, &racks, &mut draw).unwrap();
        }
        check(&stripe, &stripe.seal(&racks, &mut draw).unwrap(), &racks);
        opened += 1;
    }
    assert!(opened > 500, "{opened} of 1500");
}

#[test]
fn a_stripe_that_is_taken_up_again_goes_on_where_it_was() {
    let racks = racks(&[5; 12]);
    for (code, capacity) in [("rs-6+3", 2), ("lrc-6+2+2", 2), ("lrc-8+4+2", 4)] {
        let policy = policy("ear", Terms { target_racks: Some(8), ..terms(code, capacity) }).unwrap();
        let mut draw = Draw::seeded(3);
        for _ in 0..40 {
            let core = policy.core(&racks, &mut draw).unwrap();
            let mut one = policy.open(core, &racks, &mut draw).unwrap();
            while !one.is_full() {
                policy.place(&mut one, &racks, &mut draw).unwrap();
                one = OpenStripe::resume(policy.rules(), one.state().clone());
            }
            check(&one, &one.seal(&racks, &mut draw).unwrap(), &racks);
        }
    }
}

#[test]
fn blocks_whose_nodes_died_are_the_only_ones_that_move() {
    let (topology, alive) = racks_of(&[4; 12]);
    let whole = Racks::new(&topology, &alive, &BTreeSet::new()).unwrap();
    let mut draw = Draw::seeded(5);
    let (mut moved, mut kept) = (0, 0);
    for round in 0..300 {
        let code = ["rs-6+3", "lrc-6+2+2"][round % 2];
        let policy = policy("ear", terms(code, 2)).unwrap();
        let mut stripe = stripe(&*policy, &whole, 4, &mut draw);
        // A rack dies, which is not the core rack; the stripe is filled without it.
        let dead = topology.rack_of(stripe.state().replicas[0][1]).unwrap();
        let lives: Vec<NodeId> =
            alive.iter().copied().filter(|&node| topology.rack_of(node).unwrap() != dead).collect();
        let left = Racks::new(&topology, &lives, &BTreeSet::new()).unwrap();
        while !stripe.is_full() {
            policy.place(&mut stripe, &left, &mut draw).unwrap();
        }
        let sealed = stripe.seal(&left, &mut draw).unwrap();
        assert!(sealed.is_obedient, "{sealed:?}");
        let nodes: BTreeSet<NodeId> =
            sealed.data.iter().map(|block| block.stored_at).chain(sealed.parities.clone()).collect();
        assert_eq!(nodes.len(), stripe.rules().terms().code.n());
        for place in sealed.relocated() {
            assert!(stripe.state().replicas[place].iter().any(|&node| left.rack_of(node).is_none()));
            moved += 1;
        }
        kept += sealed.data.iter().filter(|block| !block.is_relocated).count();
    }
    assert!(kept > 1_500 && moved < 300, "{kept} kept, {moved} moved");
}

#[test]
fn full_nodes_keep_what_they_have_and_get_nothing() {
    let (topology, alive) = racks_of(&[4; 10]);
    let mut draw = Draw::seeded(9);
    let policy = policy("ear", terms("rs-6+3", 1)).unwrap();
    let whole = Racks::new(&topology, &alive, &BTreeSet::new()).unwrap();
    for _ in 0..100 {
        let stripe = stripe(&*policy, &whole, 6, &mut draw);
        let full: BTreeSet<NodeId> = stripe.state().replicas.concat().into_iter().collect();
        let racks = Racks::new(&topology, &alive, &full).unwrap();
        let sealed = stripe.seal(&racks, &mut draw).unwrap();
        assert_eq!(sealed.relocated().count(), 0);
        assert!(sealed.parities.iter().all(|node| !full.contains(node)));
        let next = self::stripe(&*policy, &racks, 1, &mut draw);
        assert!(next.state().replicas[0].iter().all(|node| !full.contains(node)));
    }
}

fn trial(policy: &str, terms: Terms, racks: u32, blocks: usize, runs: u64) -> (TrialReport, Rules) {
    let trial = Trial { policy: policy.to_owned(), terms, racks, nodes_per_rack: 20, blocks, runs, seed: 1 };
    (trial.run().unwrap(), trial.rules().unwrap())
}

/// Whether a share seen in `count` trials is one of the probability, within four standard deviations.
fn is_probability(seen: f64, probability: f64, count: f64) -> bool {
    (seen - probability).abs() <= 4.0 * (probability * (1.0 - probability) / count).sqrt()
}

#[test]
fn preliminary_stripes_violate_as_often_as_equation_1_says() {
    // The figures that the text names: 0.97 at k = 12 and 16 racks.
    assert_eq!((100.0 * violation_probability(16, 12)).round(), 97.0);
    for (k, racks) in [(6, 14), (8, 20), (10, 16), (10, 30), (12, 16), (12, 20), (12, 40)] {
        let (report, _) = trial("ear-preliminary", terms(&format!("rs-{k}+2"), 1), racks, 3_000 * k, 1);
        let stripes = report.stripes;
        let expected = violation_probability(racks as usize, k);
        let seen = stripes.per_stripe(stripes.violating);
        assert!(
            is_probability(seen, expected, stripes.stripes as f64),
            "k={k} R={racks}: {seen}, {expected}"
        );
        assert_eq!(stripes.cross_rack_downloads, 0);
        assert!(stripes.relocated >= stripes.violating);
    }
}

/// The chance by counting all ways, as the paper writes it.
#[test]
fn equation_1_is_what_counting_every_choice_of_racks_gives() {
    for (racks, k) in [(4, 2), (5, 3), (5, 4), (6, 4), (4, 5)] {
        let others = racks - 1_usize;
        let ways = others.pow(k);
        let violates = |way: &usize| {
            let chosen: BTreeSet<usize> = (0..k).map(|block| way / others.pow(block) % others).collect();
            chosen.len() + 1 < k as usize
        };
        let counted = (0..ways).filter(violates).count() as f64 / ways as f64;
        assert!((violation_probability(racks, k as usize) - counted).abs() < 1e-12, "R={racks} k={k}");
    }
}

/// k − 2k/R for a random encoder (EAR §2.2); the best rack needs fewer.
#[test]
fn random_replication_downloads_what_the_paper_expects() {
    for (spread, replicas) in [(Spread::TwoRacks, 3), (Spread::EachOwn, 3), (Spread::TwoRacks, 1)] {
        let terms = Terms { spread, replicas, ..terms("rs-10+4", 1) };
        let (report, _) = trial("random", terms, 20, 60_000, 1);
        let totals = report.stripes;
        let expected = 10.0 - 10.0 * spread.racks(replicas) as f64 / 20.0;
        let seen = totals.per_stripe(totals.cross_rack_downloads);
        assert!((seen - expected).abs() < 0.06, "{seen} for {expected}");
        assert!(totals.per_stripe(totals.best_rack_downloads) < expected - 1.0);
    }
}

/// The bound of the conference version, which the journal's §3.3 refers to.
#[test]
fn layouts_are_drawn_no_oftener_than_the_bound_says() {
    for (capacity, targets) in [(1, None), (2, None), (4, None), (4, Some(5)), (2, Some(10))] {
        let terms = Terms { target_racks: targets, ..terms("rs-10+4", capacity) };
        let (report, rules) = trial("ear", terms, 20, 40_000, 1);
        let mut bounds = 0;
        for (position, seen) in report.iterations_by_position.iter().enumerate() {
            let Some(bound) = iterations_bound(&rules, 20, position) else { continue };
            assert!(
                seen.unwrap() <= bound * 1.05,
                "c={capacity} {targets:?}: {seen:?} at {position}, {bound}"
            );
            bounds += 1;
        }
        assert!(bounds >= 9);
        assert_eq!((report.stripes.violating, report.short_stripes.violating), (0, 0));
    }
    let lrc = Rules::new(terms("lrc-10+2+2", 2)).unwrap();
    assert_eq!(iterations_bound(&lrc, 20, 3), None);
}

/// EAR §5.3, figures 18 and 19: 4.1 to 5.9 %, and equal H.
#[test]
fn replicas_and_reads_lie_as_evenly_as_with_random_replication() {
    for (capacity, points) in [(1, 0.15), (2, 0.05), (4, 0.05)] {
        let [(rr, _), (ear, _)] =
            ["random", "ear"].map(|name| trial(name, terms("rs-10+4", capacity), 20, 1_000, 300));
        let differs = rr.rack_share.iter().zip(&ear.rack_share).map(|(rr, ear)| 100.0 * (rr - ear).abs());
        let most = differs.fold(0.0, f64::max);
        assert!(most < points, "c={capacity}: {most} points");
        assert!((ear.rack_share.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        assert!(ear.rack_share[0] <= rr.rack_share[0] + 0.0003);
        assert!((0.98..1.01).contains(&(ear.hotness / rr.hotness)), "{} {}", ear.hotness, rr.hotness);
    }
}

#[test]
fn both_conditions_of_local_groups_follow_from_the_rack_failures() {
    let rules = |code: &str, capacity| {
        let rules = Rules::new(terms(code, capacity)).unwrap();
        (rules.rack_failures(), rules.per_rack(), rules.per_group())
    };
    // The paper's: one rack, 4 of the stripe and 3 of a group.
    assert_eq!(rules("lrc-10+2+2", 4), (1, 4, 3));
    assert_eq!(rules("lrc-10+2+2", 3), (1, 3, 3));
    assert_eq!(rules("lrc-10+2+2", 2), (2, 2, 1));
    assert_eq!(rules("lrc-10+2+2", 1), (3, 1, 1));
    // Of four groups, a rack with 5 blocks could take 3 of one and 2 of another, which 2 global parities do not bring back.
    assert_eq!(rules("lrc-8+4+2", 4), (1, 4, 3));
    assert_eq!(rules("lrc-8+4+2", 2), (2, 2, 1));
    assert!(Rules::new(terms("lrc-8+4+2", 5)).is_err());
    let code = Code::parse("lrc-8+4+2").unwrap();
    assert!(!code.recoverable(&[0, 1, 8, 2, 3]) && code.recoverable(&[0, 1, 8, 2]));
    assert_eq!(rules("rs-10+4", 2), (2, 2, 2));
    assert_eq!(rules("rs-10+4", 3), (1, 3, 3));
}

#[test]
fn what_is_impossible_is_refused_with_what_is_needed() {
    let refused = |name: &str, terms: Terms, sizes: &[u32]| {
        let placed = policy(name, terms)
            .and_then(|policy| OpenStripes::new(policy).place(&racks(sizes), &mut Draw::seeded(1)));
        placed.map(drop).unwrap_err()
    };
    let rs = || terms("rs-10+4", 1);
    assert_eq!(of_stored_data().collect::<Vec<_>>(), ["random", "ear-preliminary", "ear"]);
    for name in of_stored_data() {
        let few = refused(name, rs(), &[20; 13]);
        assert!(matches!(few, PlanError::TooFewRacks { needed: 14, racks: 13, .. }), "{few}");
        assert!(!few.to_string().contains("local group"), "{few}");
        assert!(few.to_string().contains("needs 14 racks"), "{few}");
        let targets = refused(name, Terms { target_racks: Some(5), rack_capacity: 2, ..rs() }, &[20; 20]);
        assert!(matches!(targets, PlanError::TooFewRacks { needed: 7, racks: 5, .. }), "{targets}");
        let nodes = refused(name, terms("rs-10+4", 4), &[1; 12]);
        assert!(matches!(nodes, PlanError::TooFewRacks { needed: 14, nodes: 1, .. }), "{nodes}");
        let uneven = refused(name, terms("rs-10+4", 4), &[4, 1, 1, 1, 1]);
        assert!(matches!(uneven, PlanError::TooFewNodesInRacks { racks: 5, .. }), "{uneven}");
        let many = refused(name, Terms { target_racks: Some(21), ..rs() }, &[20; 20]);
        assert_eq!(many, PlanError::TooManyTargetRacks { targets: 21, racks: 20 });
        assert_eq!(
            refused(name, Terms { target_racks: Some(0), ..rs() }, &[20; 20]),
            PlanError::NoTargetRacks
        );
        assert_eq!(refused(name, Terms { replicas: 0, ..rs() }, &[20; 20]), PlanError::NoReplicas);
        for capacity in [0, 5] {
            let error = refused(name, terms("rs-10+4", capacity), &[20; 20]);
            assert!(matches!(error, PlanError::RackCapacity { most: 4, .. }), "{error}");
        }
        let own = refused(name, Terms { replicas: 15, spread: Spread::EachOwn, ..rs() }, &[20; 14]);
        assert_eq!(own, PlanError::NotEnoughRacks { needed: 15, racks: 14 });
        let copies = refused(name, Terms { replicas: 30, ..rs() }, &[2; 14]);
        assert!(matches!(copies, PlanError::NotEnoughNodes { needed: 30, alive: 28, .. }), "{copies}");
    }
    let one = refused("ear", Terms { replicas: 1, ..rs() }, &[20; 20]);
    assert!(matches!(one, PlanError::OneReplica { k: 10, capacity: 1, .. }), "{one}");
    let unknown = policy("round-robin", rs()).map(drop).unwrap_err();
    assert!(unknown.to_string().contains("random, ear-preliminary, ear"), "{unknown}");
}

/// With one replica a block stays where it is, and so must all fit into the core rack.
#[test]
fn one_replica_does_where_the_core_rack_may_keep_all_data() {
    let racks = racks(&[8; 6]);
    let policy = policy("ear", Terms { replicas: 1, ..terms("rs-3+3", 3) }).unwrap();
    let mut draw = Draw::seeded(2);
    for _ in 0..50 {
        let stripe = stripe(&*policy, &racks, 3, &mut draw);
        check(&stripe, &stripe.seal(&racks, &mut draw).unwrap(), &racks);
    }
}

#[test]
fn a_full_stripe_takes_no_block() {
    let racks = racks(&[4; 6]);
    let mut draw = Draw::seeded(2);
    for name in of_stored_data() {
        let policy = policy(name, terms("rs-3+2", 1)).unwrap();
        let mut stripe = stripe(&*policy, &racks, 3, &mut draw);
        let before = stripe.state().clone();
        assert_eq!(policy.place(&mut stripe, &racks, &mut draw), Err(PlanError::StripeFull { k: 3 }));
        assert_eq!(*stripe.state(), before);
    }
}

#[test]
fn a_seed_places_the_same_again() {
    for name in of_stored_data() {
        let once = |seed| {
            let trial = Trial {
                policy: name.to_owned(),
                terms: terms("lrc-4+2+2", 2),
                racks: 10,
                nodes_per_rack: 4,
                blocks: 300,
                runs: 1,
                seed,
            };
            trial.run().unwrap()
        };
        assert_eq!(once(4), once(4));
        assert_ne!(once(4), once(5));
    }
}
