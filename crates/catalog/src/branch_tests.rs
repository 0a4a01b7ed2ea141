//! What a lost branch committed comes back, what it removed is listed, and nothing that anybody was told is let go for it.

use crate::aside::{self, Aside};
use crate::backend::Memory;
use crate::{
    Branch, Catalog, CatalogError, Choices, CommittedBlock, FIRST_GENERATION, Findings, FoundBlock, Incoming,
    NewPut, PlannedBlock, PutEnd, Recovered, RecoveredAt,
};
use disk::{CrashDisk, Disk, PowerSwitch};
use model::{
    BlockCopy, BlockId, ClusterId, Contents, FlowId, Location, NodeId, Part, PutId, Reason, Stamp, Sums, Term,
};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

const CLUSTER: ClusterId = ClusterId(9);
const NODES: [NodeId; 2] = [NodeId(1), NodeId(2)];
const END: PutEnd = PutEnd { now_ms: 5, created_ms: 6, remembered_until_ms: 7 };
const AT: RecoveredAt = RecoveredAt { now_ms: 50, created_ms: 60 };

fn catalog() -> Catalog {
    let catalog = Catalog::over(Box::new(Memory::default()), CLUSTER).unwrap();
    catalog.begin_term(77, 0).unwrap();
    catalog
}

/// Another coordinator's copy of the catalog as it is now; it begins its term.
fn copied(catalog: &Catalog) -> Catalog {
    let disk: Arc<dyn Disk> = Arc::new(CrashDisk::new(&PowerSwitch::new()));
    bring(&disk, catalog, None).unwrap();
    let copy = Catalog::open(&disk, ClusterId(1)).unwrap();
    copy.end_safe_mode(100).unwrap();
    copy.begin_term(78, 0).unwrap();
    copy
}

fn bring(disk: &Arc<dyn Disk>, of: &Catalog, aside: Option<Stamp>) -> crate::Result<()> {
    let mut incoming = Incoming::begin(disk)?;
    let (mut at, mut pieces) = (None, Vec::new());
    let send = |piece| {
        pieces.push(piece);
        true
    };
    of.snapshot(1 << 20, |position| at.replace(position).is_none(), send).unwrap();
    pieces.iter().try_for_each(|piece| incoming.take(piece))?;
    incoming.end_snapshot(at.unwrap())?;
    incoming.finish(aside.map_or(crate::Former::Earlier, crate::Former::Branch)).map(|_| ())
}

/// What nodes have: every copy that was ever written.
#[derive(Default)]
struct World {
    found: Vec<FoundBlock>,
    last: u128,
}

impl World {
    /// A put of a version of one block. It is written, and not committed.
    fn begin(&mut self, catalog: &Catalog, name: &str) -> (PutId, CommittedBlock, u64) {
        self.last += 1;
        let (put, block, flow) = (PutId(self.last), BlockId(self.last), FlowId(self.last));
        let new = NewPut {
            put,
            name: name.to_owned(),
            block_bytes: 10,
            replicas: 2,
            lease_until_ms: 100,
            gathers: None,
        };
        let version = catalog.begin_put(&new).unwrap();
        let sums = Sums { digest: Some([self.last as u8; 32]), fingerprint: None };
        let planned =
            PlannedBlock { block, index: 0, stored_bytes: 10, sums, last: true, nodes: NODES.into(), flow };
        let birth = catalog.plan_block(put, &planned, 0, 100).unwrap();
        let part = Some(Part { name: name.to_owned(), version, offset: 0, last: true });
        let facts = Contents { stored_bytes: 10, sums, part };
        self.found.extend(NODES.map(|node| FoundBlock {
            block,
            location: Location { node, generation: FIRST_GENERATION },
            facts: facts.clone(),
            stripe: None,
            birth,
        }));
        (
            put,
            CommittedBlock { block, stored_bytes: 10, sums, nodes: NODES.into(), by: BTreeMap::new() },
            version,
        )
    }

    fn put(&mut self, catalog: &Catalog, name: &str) -> u64 {
        let (put, block, version) = self.begin(catalog, name);
        catalog.commit_put(put, &[block], 10, [self.last as u8; 32], END).unwrap();
        version
    }

    /// What is recovered from the nodes that answer.
    fn recover(&self, history: &Catalog, branch: &Catalog, asked: &[NodeId], is_unasked: bool) -> Recovered {
        let is_asked = |found: &&FoundBlock| asked.contains(&found.location.node);
        let findings = Findings {
            found: self.found.iter().filter(is_asked).cloned().collect(),
            asked: asked.iter().copied().collect(),
            branches: vec![Branch::of(branch, history).unwrap()],
            is_unasked,
        };
        let none = |_: &str, _: &[bool]| Vec::new();
        history.recover(&findings, &Choices::default(), 2, none, AT).unwrap()
    }
}

fn version(catalog: &Catalog, name: &str) -> Option<u64> {
    catalog.object(name).ok().map(|(row, _)| row.version)
}

fn names(list: &[(String, u64)]) -> Vec<(&str, u64)> {
    list.iter().map(|(name, version)| (name.as_str(), *version)).collect()
}

#[test]
fn what_a_branch_committed_comes_back_and_what_it_removed_is_listed() {
    let (mut world, first) = (World::default(), catalog());
    let kept =
        ["replaced", "replaced in both", "removed", "removed here"].map(|name| world.put(&first, name));
    let (early, early_block, early_version) = world.begin(&first, "begun before");
    let second = copied(&first);
    assert_eq!(Branch::of(&first, &second).unwrap().fork, first.last_change().unwrap());

    let made = world.put(&first, "new");
    let replaced = world.put(&first, "replaced");
    let in_both = world.put(&first, "replaced in both");
    first.delete("removed", 8).unwrap();
    let shortlived = world.put(&first, "put and removed");
    first.delete("put and removed", 8).unwrap();
    let (_, _, pending) = world.begin(&first, "never finished");
    first.commit_put(early, &[early_block], 10, [5; 32], END).unwrap();

    second.abort_put(early, 9).unwrap();
    second.delete("removed here", 9).unwrap();
    let later = world.put(&second, "replaced in both");

    let unasked = world.recover(&second, &first, &NODES, true);
    assert_eq!((unasked.objects, unasked.others), (3, 0), "{unasked:?}");
    assert_eq!(names(&unasked.removed), [("removed", kept[2])]);
    assert_eq!((&unasked.newer, &unasked.incomplete), (&vec![], &vec![]));
    for (name, stands) in [
        ("new", Some(made)),
        ("replaced", Some(replaced)),
        ("replaced in both", Some(later)),
        ("removed", Some(kept[2])),
        ("removed here", None),
        ("put and removed", None),
        ("never finished", None),
        ("begun before", Some(early_version)),
    ] {
        assert_eq!(version(&second, name), stands, "{name}");
    }
    let (row, blocks) = second.object("new").unwrap();
    assert_eq!((row.digest, row.created_ms), (first.object("new").unwrap().0.digest, END.created_ms));
    assert_eq!((blocks[0].facts.replicas, blocks[0].facts.locations.len()), (2, 2));
    assert_eq!(second.object("begun before").unwrap().0.digest, Some([5; 32]));
    let older = world.recover(&second, &first, &NODES, false);
    let listed =
        [("replaced in both", in_both), ("put and removed", shortlived), ("never finished", pending)];
    assert_eq!(names(&older.older).into_iter().collect::<BTreeSet<_>>(), listed.into());
    assert_eq!((older.objects, names(&older.removed).len()), (0, 1), "it is repeatable");
    // What a branch removed may be removed again.
    second.delete("removed", 10).unwrap();
    assert_eq!(world.recover(&second, &first, &NODES, false).removed, []);
}

#[test]
fn what_nodes_that_are_away_may_have_is_waited_for_and_what_differs_is_not_taken() {
    let (mut world, first) = (World::default(), catalog());
    let second = copied(&first);
    let made = world.put(&first, "new");
    let waits = world.recover(&second, &first, &[], true);
    assert_eq!((names(&waits.incomplete), version(&second, "new")), (vec![("new", made)], None));
    let mut spoilt = World { found: world.found.clone(), last: world.last };
    spoilt.found.iter_mut().for_each(|found| found.facts.sums.digest = Some([99; 32]));
    let differs = spoilt.recover(&second, &first, &NODES, true);
    assert_eq!((differs.objects, version(&second, "new")), (0, None), "another block's bytes");
    let one = world.recover(&second, &first, &NODES[..1], true);
    assert_eq!((one.objects, version(&second, "new")), (1, Some(made)));
    assert!(second.safe_mode().unwrap().is_none(), "that is for others to say");
}

#[test]
fn of_histories_without_a_common_term_only_names_without_a_version_are_taken() {
    let (mut world, first) = (World::default(), catalog());
    let second = Catalog::over(Box::new(Memory::default()), CLUSTER).unwrap();
    second.begin_term(1, 4).unwrap();
    let theirs = world.put(&first, "in both");
    let made = world.put(&first, "new");
    // An older one of this history, by its number.
    let third = Catalog::over(Box::new(Memory::default()), CLUSTER).unwrap();
    third.begin_term(5, 0).unwrap();
    let ours = world.put(&third, "in both");
    let taken = world.recover(&third, &first, &NODES, true);
    assert_eq!((version(&third, "in both"), version(&third, "new")), (Some(ours), Some(made)));
    assert!(theirs >= ours && taken.removed.is_empty());
    assert_eq!(Branch::of(&first, &second).unwrap().fork, Stamp::default());
}

/// A few steps of a random walk.
struct Walk(u64);

impl Walk {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }

    /// Changes some names; the versions that stand afterwards.
    fn go(&mut self, world: &mut World, catalog: &Catalog, names: &[&'static str]) -> BTreeSet<&'static str> {
        let mut touched = BTreeSet::new();
        for _ in 0..self.next(7) {
            let name = names[self.next(names.len() as u64) as usize];
            if self.next(3) > 0 {
                world.put(catalog, name);
                touched.insert(name);
            } else if catalog.delete(name, 8).is_ok() {
                touched.insert(name);
            }
        }
        touched
    }
}

#[test]
fn whatever_two_coordinators_did_nothing_that_either_acknowledged_is_let_go_unlisted() {
    const NAMES: [&str; 4] = ["a", "b", "c", "d"];
    let stands = |catalog: &Catalog| {
        NAMES.map(|name| (name, version(catalog, name))).into_iter().collect::<BTreeMap<_, _>>()
    };
    for seed in 0..400 {
        let (mut world, mut walk, first) = (World::default(), Walk(seed), catalog());
        walk.go(&mut world, &first, &NAMES);
        let (at_fork, second) = (stands(&first), copied(&first));
        let there = walk.go(&mut world, &first, &NAMES);
        let here = walk.go(&mut world, &second, &NAMES);
        let (branch, history) = (stands(&first), stands(&second));
        let recovered = world.recover(&second, &first, &NODES, true);
        let now = stands(&second);
        for name in NAMES {
            let (theirs, ours) = (branch[name], history[name]);
            let expected = match (there.contains(name), here.contains(name)) {
                (false, false) => at_fork[name],
                (false, true) => ours,
                // It is listed, and stays, if the branch has removed it.
                (true, false) => theirs.or(at_fork[name]),
                (true, true) => ours.or(theirs),
            };
            assert_eq!(now[name], expected, "seed {seed}, {name}: {at_fork:?} {branch:?} {history:?}");
            let is_listed = recovered.removed.iter().any(|(listed, _)| listed == name);
            let was_removed = theirs.is_none() && !here.contains(name) && at_fork[name].is_some();
            assert_eq!(is_listed, was_removed, "seed {seed}, {name}");
        }
        for (name, made) in branch.into_iter().filter_map(|(name, made)| Some((name, made?))) {
            if there.contains(name) && now[name] != Some(made) {
                let listed = world.recover(&second, &first, &NODES, false);
                assert!(listed.older.contains(&(name.to_owned(), made)), "seed {seed}, {name}: {listed:?}");
                let of_it = |found: &&FoundBlock| {
                    found.facts.part.as_ref().is_some_and(|part| part.name == name && part.version == made)
                };
                for found in world.found.iter().filter(of_it) {
                    let copy = found.location.copy_of(found.block);
                    assert_eq!(second.candidate(&copy).unwrap(), None, "seed {seed}, {name}: it would go");
                }
            }
        }
        let again = world.recover(&second, &first, &NODES, true);
        assert_eq!((again.objects, stands(&second)), (0, now), "seed {seed}: it is repeatable");
    }
}

#[test]
fn a_copy_of_a_put_that_only_the_history_gave_up_is_taken_unless_it_was_ordered_to_go() {
    let (mut world, first) = (World::default(), catalog());
    let (put, block, _) = world.begin(&first, "a");
    let second = copied(&first);
    first.commit_put(put, std::slice::from_ref(&block), 10, [1; 32], END).unwrap();
    second.abort_put(put, 9).unwrap();
    let copies = NODES.map(|node| BlockCopy { block: block.block, node, generation: FIRST_GENERATION });
    assert!(copies.iter().all(|copy| second.candidate(copy).unwrap().unwrap().reason == Reason::GivenUp));
    let sight = crate::Sight { is_kept: true, compared: NODES.into(), now_ms: 1_000, ..Default::default() };
    // The nodes of these tests never registered, which a check would find.
    second.soundness.passed();
    assert_eq!(second.order(&copies[..1], &sight).unwrap().go, copies[..1]);
    assert_eq!(world.recover(&second, &first, &NODES, true).objects, 1);
    let (_, blocks) = second.object("a").unwrap();
    assert_eq!(blocks[0].facts.locations, [copies[1].location()]);
    assert!(
        second.candidate(&copies[0]).unwrap().is_some() && second.candidate(&copies[1]).unwrap().is_none()
    );
}

#[test]
fn a_power_cut_leaves_the_own_catalog_or_the_one_that_was_brought_beside_it() {
    let (mut world, theirs) = (World::default(), catalog());
    world.put(&theirs, "theirs");
    let (mut own_stays, mut brought, mut undone) = (0, 0, 0);
    for calls in 0.. {
        let power = PowerSwitch::new();
        let disk = CrashDisk::new(&power);
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let own = Catalog::open(&shared, CLUSTER).unwrap();
        own.begin_term(5, 0).unwrap();
        world.put(&own, "own");
        let last = own.last_change().unwrap();
        own.close();
        power.cut_after(calls);
        let outcome = bring(&shared, &theirs, Some(last));
        power.restart();
        let shared: Arc<dyn Disk> = Arc::new(disk.reopen());
        undone += u32::from(aside::undo(shared.as_ref()).unwrap());
        let asides = aside::asides(shared.as_ref()).unwrap();
        let there = Catalog::open(&shared, ClusterId(2)).unwrap();
        if there.object("own").is_ok() {
            own_stays += 1;
            assert_eq!(asides, [], "{calls}");
            assert!(outcome.is_err(), "it was acknowledged");
            continue;
        }
        brought += 1;
        assert!(there.object("theirs").is_ok(), "{calls}");
        assert_eq!(asides, [Aside { last, is_settled: false }], "{calls}");
        let aside = aside::open(&shared, &asides[0]).unwrap();
        assert!(aside.object("own").is_ok() && aside.last_change().unwrap() == last, "{calls}");
        aside.close();
        if outcome.is_ok() {
            break;
        }
    }
    assert!(own_stays > 5 && brought > 0 && undone > 0, "{own_stays} {brought} {undone}");
}

#[test]
fn nothing_takes_the_place_of_a_catalog_that_is_kept_aside() {
    let (disk, theirs) = (CrashDisk::new(&PowerSwitch::new()), catalog());
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let own = Catalog::open(&shared, CLUSTER).unwrap();
    own.begin_term(5, 0).unwrap();
    let last = own.last_change().unwrap();
    assert_eq!(bring(&shared, &theirs, Some(last)), Err(CatalogError::InUse), "it is open");
    own.close();
    bring(&shared, &theirs, Some(last)).unwrap();
    assert!(matches!(bring(&shared, &theirs, Some(last)), Err(CatalogError::Invalid(_))));
    let aside = Aside { last, is_settled: false };
    aside::settle(shared.as_ref(), &aside).unwrap();
    assert_eq!(aside::asides(shared.as_ref()).unwrap(), [Aside { last, is_settled: true }]);
    assert!(matches!(bring(&shared, &theirs, Some(last)), Err(CatalogError::Invalid(_))));
    disk.create_new(Path::new("catalog.redb.branch-x")).unwrap();
    assert_eq!(aside::asides(shared.as_ref()).unwrap().len(), 1, "what is named otherwise is none");
    assert!(!aside::undo(shared.as_ref()).unwrap(), "the catalog has its name");
}

#[test]
fn nothing_goes_from_the_change_on_that_begins_safe_mode() {
    let (mut world, catalog) = (World::default(), catalog());
    let (put, block, _) = world.begin(&catalog, "a");
    catalog.abort_put(put, 9).unwrap();
    let copies = NODES.map(|node| BlockCopy { block: block.block, node, generation: FIRST_GENERATION });
    // What the caller saw was before it.
    let sight = crate::Sight { is_kept: true, compared: NODES.into(), now_ms: 1_000, ..Default::default() };
    let unknown = Stamp { term: Term { number: 99, word: 1 }, change: 1 };
    assert!(catalog.hear(NODES[0], unknown, 5).unwrap());
    let orders = catalog.order(&copies, &sight).unwrap();
    assert!(orders.go.is_empty() && orders.wait.iter().all(|(_, wait)| *wait == crate::Wait::Halted));
    catalog.end_safe_mode(0).unwrap();
    assert_eq!(catalog.order(&copies, &sight).unwrap().go, copies);
}
