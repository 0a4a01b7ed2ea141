//! Each condition of letting go is needed: with it off, something is lost.

use crate::letting_go::{Case, Conditions, Sight, Wait, decide};
use crate::spread::Site;
use model::{BlockCopy, BlockFacts, BlockId, Location, NodeId, Reason, StripeId, StripePlace, Sums};
use std::collections::BTreeSet;

const GRACE_MS: u64 = 1_000;
const NOW_MS: u64 = 5_000;

fn copy(block: u128, node: u32) -> BlockCopy {
    BlockCopy { block: BlockId(block), node: NodeId(node), generation: 1 }
}

fn row(nodes: &[u32]) -> BlockFacts {
    let locations = nodes.iter().map(|&node| Location { node: NodeId(node), generation: 1 }).collect();
    BlockFacts::new(10, Sums::default(), locations)
}

/// What the catalog knows, what nodes said, and how it really is when the order is obeyed.
struct Scene {
    copy: BlockCopy,
    candidate: Option<(u64, Reason)>,
    is_planned: bool,
    block: Option<BlockFacts>,
    members: Vec<(BlockId, BlockFacts)>,
    sight: Sight,
    /// Copies that are on disks then.
    there: BTreeSet<BlockCopy>,
    /// Somebody needs the block, whatever this catalog says.
    is_needed: bool,
    /// Somebody reads just this copy, or is about to count on it.
    is_used: bool,
    /// The stripe gives its virtual block.
    is_given: bool,
}

/// A block of three replicas that live, and a fourth copy on node 4 that was made superfluous long ago.
fn surplus() -> Scene {
    let others = [1, 2, 3].map(|node| copy(7, node));
    Scene {
        copy: copy(7, 4),
        candidate: Some((NOW_MS - GRACE_MS, Reason::Surplus)),
        is_planned: false,
        block: Some(row(&[1, 2, 3])),
        members: Vec::new(),
        sight: Sight {
            sites: (1..=5).map(|node| (NodeId(node), Site { rack: node % 2, host: node })).collect(),
            compared: (1..=5).map(NodeId).collect(),
            attested: others.into(),
            read_back: BTreeSet::new(),
            is_halted: false,
            is_sound: true,
            is_kept: true,
            now_ms: NOW_MS,
            grace_ms: GRACE_MS,
        },
        there: others.into_iter().chain([copy(7, 4)]).collect(),
        is_needed: true,
        is_used: false,
        is_given: true,
    }
}

/// A copy of a block that has no row.
fn gone(reason: Reason) -> Scene {
    let candidate = Some((NOW_MS - GRACE_MS, reason));
    Scene { candidate, block: None, there: [copy(7, 4)].into(), ..surplus() }
}

/// A block of a stripe of two that any one member gives, kept on node 1 beside a parity on node 2; node 4 has a replica left.
fn archived() -> Scene {
    let place = |index| Some(StripePlace { stripe: StripeId(1), index, is_virtual: false });
    let member = |node, index| BlockFacts { stripe: place(index), ..row(&[node]) };
    Scene {
        block: Some(member(1, 0)),
        members: vec![(BlockId(7), member(1, 0)), (BlockId(8), member(2, 1))],
        sight: Sight { attested: [copy(7, 1), copy(8, 2)].into(), ..surplus().sight },
        there: [copy(7, 1), copy(8, 2), copy(7, 4)].into(),
        ..surplus()
    }
}

/// A virtual block of a stripe whose members 8 and 9 are on nodes 1 and 2, either of which gives it; node 4 has a replica left.
fn converted() -> Scene {
    let place = |index, is_virtual| Some(StripePlace { stripe: StripeId(1), index, is_virtual });
    let member = |node, index| BlockFacts { stripe: place(index, false), ..row(&[node]) };
    let both = [copy(8, 1), copy(9, 2)];
    Scene {
        block: Some(BlockFacts { stripe: place(0, true), ..row(&[]) }),
        members: vec![(BlockId(8), member(1, 1)), (BlockId(9), member(2, 2))],
        sight: Sight { attested: both.into(), read_back: both.into(), ..surplus().sight },
        there: both.into_iter().chain([copy(7, 4)]).collect(),
        ..surplus()
    }
}

impl Scene {
    fn decided(&self, on: Conditions) -> Result<(), Wait> {
        let case = Case {
            copy: self.copy,
            candidate: self.candidate,
            is_planned: self.is_planned,
            block: self.block.as_ref(),
            members: &self.members,
            is_given: self.is_given,
        };
        decide(&case, &self.sight, on)
    }

    /// Whether something is lost once the copy is gone: a block that is needed has no copy left, its own or, in a stripe,
    /// another member, or whoever uses the copy misses it.
    fn loses(&self) -> bool {
        let is_left = self.there.iter().any(|there| *there != self.copy);
        self.is_used || (self.is_needed && !is_left)
    }
}

#[test]
fn what_is_superfluous_goes() {
    for scene in [surplus(), archived(), converted()] {
        assert_eq!(scene.decided(Conditions::ALL), Ok(()));
        assert!(!scene.loses());
    }
    let deleted = Scene { is_needed: false, ..gone(Reason::Deleted) };
    assert_eq!(deleted.decided(Conditions::ALL), Ok(()));
    assert!(!deleted.loses());
}

/// A condition by name, all but it, what its copy waits for with it, and what is so then.
type Trial = (&'static str, Conditions, Wait, Scene);

const ALL: Conditions = Conditions::ALL;

/// Conditions on the copy itself.
fn of_the_copy() -> Vec<Trial> {
    // A copy that another history wrote, and is about to count on, of a block that is known here too.
    let stranger = Scene { candidate: None, is_used: true, ..surplus() };
    // A reader whose plan is older than the change that made it superfluous.
    let read =
        Scene { candidate: Some((NOW_MS - GRACE_MS + 1, Reason::Surplus)), is_used: true, ..surplus() };
    // Once its flow has ended well it is counted on.
    let planned = Scene { is_planned: true, is_used: true, ..surplus() };
    let counted = BlockFacts { replicas: 3, ..row(&[1, 2, 3, 4]) };
    let counted = Scene { block: Some(counted), is_used: true, ..surplus() };
    // One bit of the key of its block's row flipped: the row is not found, and the candidate is of another matter.
    let no_word = gone(Reason::Surplus);
    vec![
        ("word", Conditions { word: false, ..ALL }, Wait::NoWord, no_word),
        ("reason", Conditions { reason: false, ..ALL }, Wait::NoReason, stranger),
        ("grace", Conditions { grace: false, ..ALL }, Wait::Grace, read),
        ("not_planned", Conditions { not_planned: false, ..ALL }, Wait::Planned, planned),
        ("not_counted_on", Conditions { not_counted_on: false, ..ALL }, Wait::CountedOn, counted),
    ]
}

/// Conditions on the cluster: in each scene this copy is all that is left.
fn of_the_cluster() -> Vec<Trial> {
    let alone: BTreeSet<BlockCopy> = [copy(7, 4)].into();
    let unseen = || Sight { attested: BTreeSet::new(), ..surplus().sight };
    // The catalog was set back: it forgot a block that was acknowledged since.
    let sight = Sight { is_halted: true, ..surplus().sight };
    let halted = Scene { sight, ..gone(Reason::Deleted) };
    // A page of its file holds what it held before: the block was taken back from the deletion that it tells of.
    let sight = Sight { is_sound: false, ..surplus().sight };
    let not_sound = Scene { sight, ..gone(Reason::Deleted) };
    // The coordinator's disk is lost, and who kept its records brings back the block that was deleted.
    let sight = Sight { is_kept: false, ..surplus().sight };
    let not_kept = Scene { sight, ..gone(Reason::Deleted) };
    // Its node is away and obeys when it is back: by then the others are gone.
    let sight = Sight { compared: [1, 2, 3].map(NodeId).into(), ..surplus().sight };
    let away = Scene { sight, there: alone.clone(), ..surplus() };
    // The others are on nodes that say nothing, for they are gone.
    let replicas = Scene { sight: unseen(), there: alone.clone(), ..surplus() };
    let members = Scene { sight: unseen(), there: alone.clone(), ..archived() };
    // Both were written, and what came to the disks was something else.
    let sight = Sight { read_back: [copy(8, 1)].into(), ..converted().sight };
    let unread = Scene { sight, there: alone.clone(), ..converted() };
    // They are there, and another block is what they give.
    let foreign = Scene { is_given: false, there: alone, ..converted() };
    vec![
        ("sound", Conditions { sound: false, ..ALL }, Wait::NotSound, not_sound),
        ("not_halted", Conditions { not_halted: false, ..ALL }, Wait::Halted, halted),
        ("kept", Conditions { kept: false, ..ALL }, Wait::NotKept, not_kept),
        ("compared", Conditions { compared: false, ..ALL }, Wait::NotCompared, away),
        ("replicas", Conditions { replicas: false, ..ALL }, Wait::Replicas, replicas),
        ("members", Conditions { members: false, ..ALL }, Wait::Members, members),
        ("read_back", Conditions { read_back: false, ..ALL }, Wait::ReadBack, unread),
        ("given", Conditions { given: false, ..ALL }, Wait::Given, foreign),
    ]
}

#[test]
fn with_any_condition_off_something_is_lost() {
    for (name, off, wait, scene) in of_the_copy().into_iter().chain(of_the_cluster()) {
        assert_eq!(scene.decided(ALL), Err(wait), "{name} on: it waits");
        assert_eq!(scene.decided(off), Ok(()), "{name} off: it goes");
        assert!(scene.loses(), "{name} off: and something is lost");
    }
}

/// Absence is not proof: without its block's row a copy goes only if its own row says that it was let go with the block, or never counted.
#[test]
fn a_missing_row_is_no_word() {
    use Reason::{Archived, Deleted, Found, GivenUp, LetGo, Operator, Surplus, Unfinished};
    for reason in [Surplus, Archived, Found, LetGo, Unfinished] {
        assert_eq!(gone(reason).decided(Conditions::ALL), Err(Wait::NoWord), "{reason}");
    }
    for reason in [Deleted, GivenUp, Operator] {
        assert_eq!(gone(reason).decided(Conditions::ALL), Ok(()), "{reason}");
    }
}

#[test]
fn replicas_wait_for_as_many_others_as_there_are_nodes_for_and_for_two_racks() {
    let mut scene = surplus();
    scene.sight.attested.remove(&copy(7, 3));
    assert_eq!(scene.decided(Conditions::ALL), Err(Wait::Replicas), "two of three");
    // The cluster has three nodes that blocks can be kept at, one of which has this copy, and no other.
    scene.sight.sites.retain(|node, _| node.0 < 3);
    assert_eq!(scene.decided(Conditions::ALL), Ok(()), "two are all that there can be");
    let mut scene = surplus();
    let site = |node: u32| (NodeId(node), Site { rack: u32::from(node == 4), host: node });
    scene.sight.sites = (1..=5).map(site).collect();
    assert_eq!(scene.decided(Conditions::ALL), Err(Wait::Replicas), "the others share a rack");
    let mut scene = surplus();
    let site = |node: u32| (NodeId(node), Site { rack: node % 2, host: node.max(2) });
    scene.sight.sites = (1..=5).map(site).collect();
    assert_eq!(scene.decided(Conditions::ALL), Err(Wait::Replicas), "two of the others share a host");
    let mut scene = surplus();
    scene.sight.sites = (1..=5).map(|node| (NodeId(node), Site { rack: 0, host: 0 })).collect();
    assert_eq!(scene.decided(Conditions::ALL), Ok(()), "on the one host that there is, three of three");
    scene.sight.attested.remove(&copy(7, 3));
    assert_eq!(
        scene.decided(Conditions::ALL),
        Err(Wait::Replicas),
        "two of three, on the one host that there is"
    );
}

#[test]
fn a_stripe_waits_for_each_of_its_members_and_candidates_vouch_for_nobody() {
    let mut scene = archived();
    scene.sight.attested.remove(&copy(8, 2));
    assert_eq!(scene.decided(Conditions::ALL), Err(Wait::Members));
    // Another copy of the member is there, and no location.
    scene.sight.attested.insert(copy(8, 3));
    assert_eq!(scene.decided(Conditions::ALL), Err(Wait::Members));
}
