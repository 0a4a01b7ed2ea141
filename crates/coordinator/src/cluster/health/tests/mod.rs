use super::*;
use model::{Incarnation, StoreId};

fn row(n: u32) -> NodeRow {
    NodeRow {
        control_addr: format!("10.0.0.{n}:1"),
        data_addr: format!("10.0.0.{n}:2"),
        rack: "r".to_owned(),
        host: String::new(),
        store: StoreId(u128::from(n)),
        incarnation: Incarnation(100 + u64::from(n)),
    }
}

fn health(dead_after_ms: u64) -> Health {
    let health = Health::new(
        Duration::from_millis(dead_after_ms),
        (1..=4).map(|n| (NodeId(n), row(n))).collect(),
        &[],
        LinkRates::default(),
    );
    (1..=4).for_each(|n| health.registered(NodeId(n), row(n), false));
    health
}

fn status(node: u32) -> proto::NodeStatus {
    let NodeRow { store, incarnation, .. } = row(node);
    proto::NodeStatus { node, store: store.to_vec(), incarnation: incarnation.0, ..Default::default() }
}

fn copy(generation: u64) -> proto::BlockRef {
    proto::BlockRef { block: vec![7; 16], generation, ..Default::default() }
}

#[test]
fn a_heartbeat_of_another_start_or_store_keeps_nobody_alive() {
    let health = health(30);
    let clone = proto::NodeStatus { incarnation: 7, ..status(1) };
    let other = proto::NodeStatus { store: StoreId(9).to_vec(), ..status(2) };
    while !health.view().living().is_empty() {
        assert_eq!(health.heartbeat(clone.clone()), None, "it is told to register");
        assert_eq!(health.heartbeat(other.clone()), None);
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn heartbeats_keep_nobody_alive_and_answers_of_the_start_that_registered_do() {
    let health = health(60);
    let word = |n: u32| row(n).incarnation;
    while health.view().living().len() > 1 {
        (1..=4).for_each(|n| _ = health.heartbeat(status(n)));
        health.answered(NodeId(1), word(1));
        health.answered(NodeId(2), Incarnation(7));
        std::thread::sleep(Duration::from_millis(2));
    }
    health.answered(NodeId(3), word(3));
    assert_eq!(
        health.view().living(),
        BTreeSet::from([NodeId(1)]),
        "one that was taken for dead registers first"
    );
}

#[test]
fn each_living_node_is_called_in_its_turn_and_a_silent_one_over_a_new_connection() {
    let health = health(60_000);
    let called = |every: u64, turns| {
        let due = health.due(Duration::from_millis(every), turns);
        due.iter().map(|due| (due.node.0, due.is_silent)).collect::<Vec<_>>()
    };
    assert_eq!(called(30_000, 1), [], "they have just registered");
    health.goodbye(NodeId(4), "10.0.0.4:1", "");
    std::thread::sleep(Duration::from_millis(2));
    assert_eq!(called(1, 4), [(1, false), (2, false)], "no more than their part of a turn");
    health.answered(NodeId(1), row(1).incarnation);
    std::thread::sleep(Duration::from_millis(2));
    let long_ago = |node| {
        let mut nodes = health.nodes();
        let asked = &mut nodes.by_id.get_mut(&NodeId(node)).unwrap().asked;
        *asked = asked.map(|at| at.checked_sub(Duration::from_millis(30_000)).unwrap());
    };
    (1..=3).for_each(long_ago);
    assert_eq!(called(1, 1), [(3, false), (1, false), (2, true)], "the longest first");
    long_ago(3);
    assert!(
        health.due_now(NodeId(4)).is_none() && health.due_now(NodeId(3)).is_some_and(|due| due.is_silent)
    );
}

/// A coordinator that is short of processor time calls late: no node is dead of that.
#[test]
fn a_node_is_dead_once_a_call_has_waited_and_in_any_case_after_twice_the_time() {
    let (dead_after, start) = (Duration::from_secs(10), Instant::now());
    let node = |asked: Option<u64>| Node {
        last_seen: Some(start),
        asked: asked.map(|at| start + Duration::from_secs(at)),
        ..Node::new(row(1))
    };
    let is_silent = |asked, at| node(asked).is_silent(start + Duration::from_secs(at), dead_after);
    assert!(!is_silent(Some(0), 9) && is_silent(Some(0), 10) && is_silent(Some(5), 10), "called in time");
    assert!(!is_silent(Some(9), 13) && is_silent(Some(9), 14), "called late");
    assert!(!is_silent(None, 19) && is_silent(None, 20) && is_silent(Some(19), 20), "hardly called");
}

#[test]
fn a_store_that_was_set_back_is_shown_until_its_next_start() {
    let health = health(60_000);
    let shown = || health.reports()[&NodeId(1)].is_set_back;
    health.registered(NodeId(1), row(1), true);
    assert!(shown());
    health.registered(NodeId(1), row(1), false);
    assert!(shown(), "the same process registers again");
    health.registered(NodeId(1), NodeRow { incarnation: Incarnation(8), ..row(1) }, false);
    assert!(!shown());
}

#[test]
fn a_silent_node_dies_and_must_register_before_it_counts_again() {
    let health = health(30);
    assert_eq!(health.view().living(), BTreeSet::from([1, 2, 3, 4].map(NodeId)));
    // Looks that are frequent enough see silence, not a pause.
    while !health.view().living().is_empty() {
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(health.heartbeat(status(1)), None);
    assert!(health.view().living().is_empty());
    assert_eq!(health.heartbeat(status(9)), None, "a node that nobody knows");
}

#[test]
fn nobody_dies_of_a_pause_of_the_coordinator_and_nobody_comes_back_by_it() {
    let health = health(10_000);
    let (dead_after, every) = (Duration::from_secs(10), health.look_every());
    let mut nodes = health.nodes();
    let start = nodes.looked;
    let at = |ms: u64| start + Duration::from_millis(ms);
    let living = |nodes: &Nodes, now: Instant| {
        let silent = |n: &Node| now.saturating_duration_since(n.last_seen.unwrap());
        nodes.by_id.values().filter(|n| silent(n) < dead_after).count()
    };
    nodes.by_id.values_mut().for_each(|node| (node.last_seen, node.asked) = (Some(start), Some(start)));
    assert_eq!(nodes.look(at(1_250), dead_after, every), None);
    assert_eq!(nodes.look(at(2_600), dead_after, every), None, "late, as timers are");
    assert_eq!(nodes.look(at(32_600), dead_after, every), Some(Duration::from_millis(28_750)));
    assert_eq!(living(&nodes, at(32_600)), 4);
    assert_eq!(living(&nodes, at(40_000)), 0, "silence before and after the pause counts");
    for look in 0..8 {
        assert_eq!(nodes.look(at(33_000 + look * 1_000), dead_after, every), None);
    }
    assert!(nodes.look(at(70_000), dead_after, every).is_some());
    assert_eq!(living(&nodes, at(70_000)), 0, "who was dead before the pause is dead after it");
    nodes.by_id.values_mut().for_each(|node| node.last_seen = Some(at(69_999)));
    assert!(nodes.look(at(80_000), dead_after, every).is_some());
    assert!(nodes.by_id.values().all(|node| node.last_seen <= Some(at(80_000))));
}

#[test]
fn a_heartbeat_that_waited_during_a_pause_counts() {
    let health = health(200);
    let long_ago = Instant::now().checked_sub(Duration::from_millis(5_000)).unwrap();
    {
        let mut nodes = health.nodes.lock().unwrap();
        nodes.looked = long_ago;
        nodes.by_id.values_mut().for_each(|node| node.last_seen = Some(long_ago));
    }
    assert_eq!(health.heartbeat(status(1)), Some(Told::default()), "it need not register");
    assert_eq!(health.view().living().len(), 4);
}

#[test]
fn a_node_that_is_suspected_looks_at_itself_and_is_quarantined_if_flows_go_on_suspecting_it() {
    let health = health(60_000);
    let wrong = |from, to| Fault::new(Cause::CorruptSlice, "").suspecting(NodeId(from), NodeId(to));
    let suspect = |fault: &Fault| health.suspect(fault, Word::Flow);
    let quarantined = || health.view().nodes.iter().filter(|(_, node)| node.is_quarantined).count();
    assert!(suspect(&wrong(1, 2)).is_empty());
    assert!(suspect(&wrong(1, 2)).is_empty(), "the same edge again says nothing new");
    let lost = Fault::new(Cause::Disconnected, "").suspecting(NodeId(1), NodeId(3));
    assert!(suspect(&lost).is_empty());
    assert_eq!(suspect(&wrong(1, 3)), [NodeId(1)], "it looks at itself");
    assert_eq!(quarantined(), 0);
    assert_eq!(suspect(&wrong(1, 4)), [NodeId(1)]);
    assert_eq!(health.view().usable(&BTreeSet::from([NodeId(4)])), [NodeId(2), NodeId(3)]);
    health.forgive();
    assert_eq!(health.view().usable(&BTreeSet::new()).len(), 4);
}

#[test]
fn a_node_that_finds_what_it_is_suspected_of_is_quarantined() {
    let health = health(60_000);
    health.agrees(NodeId(1));
    assert!(health.view().last_resort.is_empty(), "damage that it was not suspected with is no suspicion");
    for to in [2, 3] {
        let wrong = Fault::new(Cause::CorruptSlice, "").suspecting(NodeId(1), NodeId(to));
        health.suspect(&wrong, Word::Client);
    }
    health.agrees(NodeId(1));
    assert_eq!(*health.view().last_resort, BTreeSet::from([NodeId(1)]));
}

#[test]
fn no_number_of_clients_quarantines_anybody() {
    let health = health(60_000);
    for (from, to) in (1..=4).flat_map(|from| (0..=9).map(move |to| (from, to))) {
        let wrong = Fault::new(Cause::CorruptSlice, "").suspecting(NodeId(from), NodeId(to));
        health.suspect(&wrong, Word::Client);
    }
    assert_eq!(health.view().usable(&BTreeSet::new()).len(), 4);
}

#[test]
fn a_node_that_says_goodbye_is_dead_at_once_and_an_earlier_life_of_it_cannot_say_so() {
    let health = health(60_000);
    assert!(!health.goodbye(NodeId(1), "10.0.0.1:7", ""));
    assert_eq!(health.view().living().len(), 4);
    assert!(health.goodbye(NodeId(1), "10.0.0.1:1", ""));
    assert_eq!(health.view().living(), BTreeSet::from([2, 3, 4].map(NodeId)));
    assert!(health.dead_for(NodeId(1)).is_some_and(|dead| dead < Duration::from_secs(10)));
    assert_eq!(health.heartbeat(status(1)), None, "whoever lives on must register");
    assert!(!health.goodbye(NodeId(1), "10.0.0.1:1", ""));
}

#[test]
fn who_holds_up_several_repairs_helps_only_in_need() {
    let health = health(60_000);
    health.held_up(NodeId(2));
    assert!(health.view().last_resort.is_empty());
    health.held_up(NodeId(2));
    let view = health.view();
    assert_eq!(*view.last_resort, BTreeSet::from([NodeId(2)]));
    assert!(view.node(NodeId(2)).is_ok_and(|node| node.is_slow && node.takes_blocks()));
    health.forgive();
    assert!(health.view().last_resort.is_empty());
}

#[test]
fn a_damaged_copy_is_offered_until_it_is_noted_or_the_node_no_longer_lists_it() {
    let health = health(60_000);
    let of =
        |generation| BlockCopy { block: BlockId::from_slice(&[7; 16]).unwrap(), node: NodeId(2), generation };
    let lists = |copies: &[u64]| {
        let corrupt_blocks = copies.iter().map(|generation| copy(*generation)).collect();
        let told = health.heartbeat(proto::NodeStatus { corrupt_blocks, ..status(2) }).unwrap();
        (told.damaged, told.cleared)
    };
    assert_eq!(lists(&[1]), (vec![of(1)], vec![]));
    assert_eq!(lists(&[1]), (vec![of(1)], vec![]), "nothing came of it: it may not be committed yet");
    health.dealt_with(&[of(1)]);
    assert_eq!(lists(&[1]), (vec![], vec![]));
    assert_eq!(lists(&[1, 2]), (vec![of(2)], vec![]), "another copy of it");
    assert_eq!(lists(&[]), (vec![], vec![of(1), of(2)]), "it may have read them again, and found them whole");
    assert_eq!(lists(&[1]), (vec![of(1)], vec![]));
}

#[test]
fn of_many_damaged_copies_of_which_nothing_comes_each_is_offered_in_turn() {
    let health = health(60_000);
    let count = 2 * MAX_OFFERED_AGAIN as u64 + 1;
    let all: Vec<proto::BlockRef> = (0..count).map(copy).collect();
    let offered = || {
        let told = proto::NodeStatus { corrupt_blocks: all.clone(), ..status(2) };
        health.heartbeat(told).unwrap().damaged.into_iter().map(|copy| copy.generation).collect::<Vec<_>>()
    };
    assert_eq!(offered(), (0..count).collect::<Vec<_>>(), "what is new is offered at once");
    let turns = [offered(), offered(), offered()];
    assert!(turns.iter().all(|turn| turn.len() == MAX_OFFERED_AGAIN));
    assert_eq!(turns.concat().into_iter().collect::<BTreeSet<_>>(), (0..count).collect());
}
