//! The states of docs/data-model.md against what the catalog's calls do: each is run, and every change of state is noted.

mod stripes;

use crate::backend::{Backend, Memory, Redb};
use crate::error::Result;
use crate::rows::{
    CandidateRow, GatherTerms, GatheredBlock, GatheringRow, IntentRow, NodeRow, ObjectRow, PlannedRow,
    PutRow, StripeRow,
};
use crate::soundness::{Condition, Soundness};
use crate::table::{Change, Read, Snapshot};
use crate::{
    Branch, Catalog, Choices, CommittedBlock, FIRST_GENERATION, Fate, Findings, FoundBlock, Intent, Join,
    Loss, Made, NewPut, NewStripe, ON_WRITE, Pass, PlannedBlock, Purpose, PutEnd, PutPlace, Recoding,
    RecoveredAt, Sight, Sites, Staged, lacks_tests, tally_tests,
};
use disk::{CrashDisk, Disk, PowerSwitch};
use model::note::{NotedMember, StripeNote};
use model::{
    BlockCopy, BlockFacts, BlockId, ClusterId, Contents, Flaw, Flawed, FlowId, Incarnation, Location,
    MemberState, NodeId, Part, PutId, Reason, Stamp, StoreId, StripeId, Sums,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use stripes::{coded, compactions, deaths, encodings, gatherings};

const PAGE: &str = include_str!("../../../docs/data-model.md");

const BYTES: u64 = 10;
const FLOW: FlowId = FlowId(1);
const NOW: u64 = 0;
const END: PutEnd = PutEnd { now_ms: NOW, created_ms: 0, remembered_until_ms: 100 };
/// Nodes that hold the replicas of a put.
const REPLICAS: [NodeId; 3] = [NodeId(1), NodeId(2), NodeId(3)];
const PARITY_NODE: NodeId = NodeId(4);
const FREE: NodeId = NodeId(5);

/// What has states; the names head the sections of the page.
const KINDS: [&str; 5] = ["copy", "block", "stripe", "put", "intent"];

/// The state of each thing by kind and key; what has no row is not listed.
type States = BTreeMap<(&'static str, String), &'static str>;

fn states(txn: &Snapshot) -> Result<States> {
    let mut states = States::new();
    let mut copy = |copy: BlockCopy, state| {
        let before = states.insert(("copy", format!("{copy:?}")), state);
        assert_eq!(before, None, "{copy:?} is in two states");
    };
    txn.all::<PlannedRow>(&[])?.into_iter().for_each(|(key, _)| copy(key, "planned"));
    for (key, row) in txn.all::<CandidateRow>(&[])? {
        copy(key, if row.is_ordered { "ordered" } else { "candidate" });
    }
    let blocks = txn.all::<BlockFacts>(&[])?;
    let locations = blocks.iter().flat_map(|(block, row)| row.locations.iter().map(|l| l.copy_of(*block)));
    locations.for_each(|key| copy(key, "location"));
    for (block, row) in &blocks {
        for flawed in &row.flawed {
            let state = match flawed.flaw {
                Flaw::Unread => unreachable!("no row says that"),
                Flaw::Missing => "missing",
                Flaw::Damaged => "damaged",
            };
            copy(flawed.location.copy_of(*block), state);
        }
    }
    for (block, row) in blocks {
        let state = match row.stripe {
            _ if row.dead => "dead",
            Some(_) => "coded",
            None => "replicated",
        };
        states.insert(("block", block.to_string()), state);
    }
    for (stripe, _) in txn.all::<StripeRow>(&[])? {
        states.insert(("stripe", stripe.to_string()), "encoded");
    }
    for (stripe, row) in txn.all::<GatheringRow>(&[])? {
        let state = if row.sealed_ms.is_some() { "sealed" } else { "open" };
        assert_eq!(states.insert(("stripe", stripe.to_string()), state), None, "{stripe} is in two states");
    }
    for (flow, row) in txn.all::<IntentRow>(&[])? {
        states.insert(("intent", flow.to_string()), if row.attempt == 1 { "begun" } else { "mended" });
    }
    for (put, _) in txn.all::<PutRow>(&[])? {
        states.insert(("put", put.to_string()), "pending");
    }
    Ok(states)
}

/// A catalog under observation.
struct Watched {
    catalog: Catalog,
    /// Kind, from, to, call.
    seen: BTreeSet<(&'static str, &'static str, &'static str, &'static str)>,
    ids: u128,
}

impl Watched {
    fn over(backend: Box<dyn Backend>) -> Watched {
        let catalog = Catalog::over(backend, ClusterId(1)).unwrap();
        Watched { catalog, seen: BTreeSet::new(), ids: 100 }
    }

    /// Runs a call and notes what changed, even if it ends with an error: some changes are made then.
    fn act<T>(&mut self, name: &'static str, call: impl FnOnce(&Catalog) -> Result<T>) -> Result<T> {
        let before = self.catalog.view(states).unwrap();
        let result = call(&self.catalog);
        let after = self.catalog.view(states).unwrap();
        lacks_tests::index_is_right(&self.catalog);
        tally_tests::tally_is_right(&self.catalog);
        self.is_consistent(name);
        for key in before.keys().chain(after.keys()) {
            let state = |all: &States| all.get(key).copied().unwrap_or("none");
            if state(&before) != state(&after) {
                self.seen.insert((key.0, state(&before), state(&after), name));
            }
        }
        result
    }

    /// Rows refer to each other both ways after every call. These tests place blocks on nodes that never registered.
    fn is_consistent(&self, name: &str) {
        let soundness = Soundness::new(false);
        let checked = self.catalog.check_into(&soundness, &|_| true).unwrap();
        let Condition::Damaged(damage) = soundness.condition() else { return };
        let others: Vec<&String> =
            damage.findings.iter().filter(|told| !told.starts_with("row nodes ")).collect();
        assert!(others.is_empty() && checked.is_complete, "after {name}: {others:#?}");
    }

    fn id(&mut self) -> u128 {
        self.ids += 1;
        self.ids
    }

    /// A put of one block that was planned but not committed.
    fn planned(&mut self, name: &str) -> (PutId, BlockId) {
        let (put, block) = (PutId(self.id()), BlockId(self.id()));
        let name = name.to_owned();
        let new = NewPut { put, name, block_bytes: BYTES, replicas: 3, lease_until_ms: 100, gathers: None };
        self.act("begin_put", |c| c.begin_put(&new)).unwrap();
        let planned = PlannedBlock {
            block,
            index: 0,
            stored_bytes: BYTES,
            sums: Sums::default(),
            last: true,
            nodes: REPLICAS.into(),
            flow: FLOW,
        };
        self.act("plan_block", |c| c.plan_block(put, &planned, NOW, 100)).unwrap();
        (put, block)
    }

    fn commit(&mut self, (put, block): (PutId, BlockId), nodes: &[NodeId]) -> BlockId {
        let block = CommittedBlock {
            block,
            stored_bytes: BYTES,
            sums: Sums::default(),
            nodes: nodes.into(),
            by: BTreeMap::new(),
        };
        let blocks = [block.clone()];
        self.act("commit_put", |c| c.commit_put(put, &blocks, BYTES, [0; 32], END)).unwrap();
        block.block
    }

    fn put(&mut self, name: &str) -> BlockId {
        let planned = self.planned(name);
        self.commit(planned, &REPLICAS)
    }

    /// A put of one block that waits in the stripe.
    fn gathered(&mut self, stripe: StripeId, name: &str) -> (PutId, BlockId) {
        let (put, block) = (PutId(self.id()), BlockId(self.id()));
        let [policy, code, spread] = ["ear", "rs-1+1", "two-racks"].map(str::to_owned);
        let terms = GatherTerms { policy, code, rack_capacity: 1, target_racks: 0, spread };
        let (name, gathers) = (name.to_owned(), Some(terms.clone()));
        let new = NewPut { put, name, block_bytes: BYTES, replicas: 3, lease_until_ms: 100, gathers };
        self.act("begin_put", |c| c.begin_put(&new)).unwrap();
        let planned = PlannedBlock {
            block,
            index: 0,
            stored_bytes: BYTES,
            sums: Sums::default(),
            last: true,
            nodes: REPLICAS.into(),
            flow: FLOW,
        };
        let after = GatheringRow {
            terms,
            replicas: 3,
            size_class: 4,
            since_ms: NOW,
            sealed_ms: None,
            core: None,
            targets: Vec::new(),
            globals: Vec::new(),
            blocks: vec![GatheredBlock { block, nodes: REPLICAS.into() }],
            settled: Vec::new(),
        };
        let join = Join { stripe, before: None, after };
        self.act("plan_gathered", |c| c.plan_gathered(put, &planned, Some(&join), NOW, 100)).unwrap();
        (put, block)
    }

    /// A stripe of blocks that stay on these nodes, and one parity if somebody writes it; begun.
    fn encoding(&mut self, data: &[(BlockId, NodeId)], parity: Option<NodeId>) -> Intent {
        let stripe = StripeId(self.id());
        self.encoding_of(stripe, data, parity)
    }

    fn encoding_of(
        &mut self,
        stripe: StripeId,
        data: &[(BlockId, NodeId)],
        parity: Option<NodeId>,
    ) -> Intent {
        let new = BlockId(self.id());
        let kept = data.iter().map(|&(block, node)| BlockCopy { block, node, generation: FIRST_GENERATION });
        let members =
            data.iter().map(|&(block, _)| block).chain(parity.map(|_| new)).map(MemberState::Stored);
        let purpose = Purpose::Encode(NewStripe {
            stripe,
            code: format!("rs-{}+1", data.len()),
            block_bytes: BYTES,
            members: members.collect(),
            data: data.len() as u16,
            kept: kept.collect(),
        });
        let writes: Vec<_> = parity.map(|node| (new, node)).into_iter().collect();
        self.act("begin", |c| c.begin(FLOW, 1, &purpose, &writes, NOW)).unwrap()
    }

    fn commit_all(&mut self, intent: &Intent, living: &[NodeId]) -> Vec<(BlockId, Fate)> {
        let staged =
            |copy: &BlockCopy| Staged { copy: *copy, stored_bytes: BYTES, sums: Sums::default(), by: None };
        let staged: Vec<Staged> = intent.copies.iter().map(staged).collect();
        let living = living.iter().copied().collect();
        self.act("commit", |c| c.commit(intent, &staged, &living, NOW)).unwrap()
    }

    fn encode(&mut self, data: BlockId) {
        let intent = self.encoding(&[(data, REPLICAS[0])], Some(PARITY_NODE));
        self.commit_all(&intent, &[REPLICAS[0], PARITY_NODE]);
    }

    fn repair(&mut self, block: BlockId) -> Intent {
        let purpose = Purpose::Repair { replaces: Some(REPLICAS[0]) };
        self.act("begin", |c| c.begin(FLOW, 1, &purpose, &[(block, FREE)], NOW)).unwrap()
    }
}

fn puts_and_deletes(w: &mut Watched) {
    let aborted = w.planned("aborted");
    w.act("abort_put", |c| c.abort_put(aborted.0, NOW)).unwrap();
    let planned = w.planned("a");
    w.commit(planned, &REPLICAS[..2]);
    w.put("a");
    // The put that began earlier commits later: it counts as overwritten.
    let earlier = w.planned("a");
    w.put("a");
    w.commit(earlier, &REPLICAS);
    w.act("delete", |c| c.delete("a", NOW)).unwrap();
    let copies = w.catalog.due_candidates(&REPLICAS.into(), NOW, 100, &BTreeSet::new()).unwrap();
    let sight = Sight { is_kept: true, compared: REPLICAS.into(), ..Sight::default() };
    let orders = w.act("order", |c| c.order(&copies, &sight)).unwrap();
    assert_eq!((orders.go, orders.wait.len()), (copies.clone(), 0));
    let (refused, gone) = copies.split_first().unwrap();
    w.act("refused", |c| c.refused(&[*refused])).unwrap();
    w.act("deleted", |c| c.deleted(gone)).unwrap();
}

fn repairs(w: &mut Watched) {
    let block = w.put("e");
    let intent = w.repair(block);
    let intent = w.act("mend", |c| c.mend(&intent)).unwrap();
    let fates = w.commit_all(&intent, &[REPLICAS[1], REPLICAS[2], FREE]);
    assert_eq!(fates, [(block, Fate::Unconfirmed)], "nobody says under which start");
    let block = w.put("f");
    let intent = w.repair(block);
    w.act("abort", |c| c.abort(&intent, NOW)).unwrap();
    let intent = w.repair(block);
    let intent = w.act("mend", |c| c.mend(&intent)).unwrap();
    w.act("abort", |c| c.abort(&intent, NOW)).unwrap();
    // The replica that is to be replaced is back.
    let intent = w.repair(block);
    assert!(matches!(w.commit_all(&intent, &REPLICAS)[0].1, Fate::Refused(_)));
    let intent = w.repair(block);
    w.act("mend", |c| c.mend(&intent)).unwrap();
    w.repair(block);
    let intent = w.repair(block);
    w.act("mend", |c| c.mend(&intent)).unwrap();
    w.act("give_up_flows", |c| c.give_up_flows(NOW)).unwrap();
    w.repair(block);
    w.act("give_up_flows", |c| c.give_up_flows(NOW)).unwrap();
    // Whoever drove it broke off by a mistake, and nobody knows at which attempt.
    let intent = w.repair(block);
    w.act("give_up_flow", |c| c.give_up_flow(intent.flow, NOW)).unwrap();
    let intent = w.repair(block);
    w.act("mend", |c| c.mend(&intent)).unwrap();
    w.act("give_up_flow", |c| c.give_up_flow(intent.flow, NOW)).unwrap();
    w.act("give_up_flow", |c| c.give_up_flow(intent.flow, NOW)).unwrap();
    let (another, purpose) = (FlowId(77), intent.purpose.clone());
    let intent = w.act("begin", |c| c.begin(another, 1, &purpose, &[(block, FREE)], NOW)).unwrap();
    w.act("abort", |c| c.abort(&intent, NOW)).unwrap();
    flaws(w);
    a_copy_comes_back_beside_a_new_one(w);
}

fn flaws(w: &mut Watched) {
    let at = |block, node| BlockCopy { block, node, generation: FIRST_GENERATION };
    for flaw in [Flaw::Damaged, Flaw::Missing] {
        let block = w.put("e");
        let copy = at(block, REPLICAS[1]);
        assert_eq!(w.act("note_flaws", |c| c.note_flaws(&[copy], flaw, NOW)).unwrap(), [copy]);
        // It is whole after all, or comes back.
        assert!(w.act("take_back", |c| c.take_back(&copy, &[], false, &REPLICAS.into(), NOW)).unwrap());
        w.act("note_flaws", |c| c.note_flaws(&[copy], flaw, NOW)).unwrap();
        // Another copy takes its place.
        let intent =
            w.act("begin", |c| c.begin(FLOW, 1, &Purpose::Repair { replaces: None }, &[(block, FREE)], NOW));
        w.commit_all(&intent.unwrap(), &REPLICAS);
        let block = w.put("f");
        w.act("note_flaws", |c| c.note_flaws(&[at(block, REPLICAS[1])], flaw, NOW)).unwrap();
        w.act("delete", |c| c.delete("f", NOW)).unwrap();
        let block = w.put("f");
        w.act("note_flaws", |c| c.note_flaws(&[at(block, REPLICAS[1])], flaw, NOW)).unwrap();
        w.put("f");
    }
    // A copy was made while another could not be read. Once it is lost or damaged, its block has enough copies without it.
    for flaw in [Flaw::Damaged, Flaw::Missing] {
        let block = w.put("e");
        let one_more =
            w.act("begin", |c| c.begin(FLOW, 1, &Purpose::Repair { replaces: None }, &[(block, FREE)], NOW));
        w.commit_all(&one_more.unwrap(), &REPLICAS);
        let row = w.catalog.view(|txn| txn.get::<BlockFacts>(&block)).unwrap().unwrap();
        let copy = row.on(FREE).unwrap().copy_of(block);
        assert_eq!(w.act("note_flaws", |c| c.note_flaws(&[copy], flaw, NOW)).unwrap(), [copy]);
        let candidate = w.catalog.view(|txn| txn.get::<CandidateRow>(&copy)).unwrap();
        assert_eq!(candidate.map(|row| row.reason), Some(Reason::Surplus));
        // Catalogs of before keep such a one noted.
        let of_before = |txn: &Change<'_>| {
            txn.remove::<CandidateRow>(&copy)?;
            let flawed = vec![Flawed { location: copy.location(), flaw }];
            let facts = txn.get::<BlockFacts>(&block)?.map(|row| BlockFacts { flawed, ..row });
            txn.set_block(block, &facts.unwrap())
        };
        w.catalog.change(of_before).unwrap();
        let living = BTreeSet::from([REPLICAS[0], REPLICAS[1], REPLICAS[2], FREE]);
        let result = w.act("reconcile", |c| c.reconcile(&[copy], &living, NOW)).unwrap();
        assert_eq!((result.surplus, result.needed), (1, vec![]));
    }
    // A dead node had a copy, and there are enough others.
    let block = w.put("e");
    let intent =
        w.act("begin", |c| c.begin(FLOW, 1, &Purpose::Repair { replaces: None }, &[(block, FREE)], NOW));
    w.commit_all(&intent.unwrap(), &REPLICAS);
    let (surplus, living) = (at(block, REPLICAS[0]), BTreeSet::from([REPLICAS[1], REPLICAS[2], FREE]));
    assert!(w.act("drop_surplus", |c| c.drop_surplus(&surplus, &living, NOW)).unwrap());
    assert!(!w.act("drop_surplus", |c| c.drop_surplus(&surplus, &living, NOW)).unwrap());
    // Another copy was made elsewhere, and is one too many.
    let intent = w.act("begin", |c| {
        c.begin(FLOW, 1, &Purpose::Repair { replaces: None }, &[(block, REPLICAS[0])], NOW)
    });
    w.commit_all(&intent.unwrap(), &REPLICAS);
    let living = BTreeSet::from([REPLICAS[0], REPLICAS[1], REPLICAS[2], FREE]);
    let mut thin_out = || w.act("thin_out", |c| c.thin_out(&[block], &Sites::new(), &living, NOW)).unwrap();
    assert_eq!([thin_out(), thin_out()], [1, 0]);
}

/// A damaged copy is whole after all while another one is written beside it, on the same node: the first one counts.
fn a_copy_comes_back_beside_a_new_one(w: &mut Watched) {
    let block = w.put("e");
    let copy = BlockCopy { block, node: REPLICAS[1], generation: FIRST_GENERATION };
    w.act("note_flaws", |c| c.note_flaws(&[copy], Flaw::Damaged, NOW)).unwrap();
    let again = Purpose::Repair { replaces: None };
    let intent = w.act("begin", |c| c.begin(FLOW, 1, &again, &[(block, REPLICAS[1])], NOW)).unwrap();
    assert!(w.act("take_back", |c| c.take_back(&copy, &[], false, &REPLICAS.into(), NOW)).unwrap());
    let fates = w.commit_all(&intent, &REPLICAS);
    assert!(matches!(&fates[..], [(_, Fate::Refused(why))] if why.contains("is sound again")), "{fates:?}");
}

fn inventories(w: &mut Watched) {
    let block = w.put("g");
    let strangers = [BlockId(1), block].map(|block| BlockCopy { block, node: NodeId(9), generation: 7 });
    // Replica 3 is dead, so the block is in need of what another node has of it.
    let living = BTreeSet::from([1, 2, 9].map(NodeId));
    let found = w.act("reconcile", |c| c.reconcile(&strangers, &living, NOW)).unwrap();
    assert_eq!((&found.unknown[..], &found.needed[..]), (&strangers[..1], &strangers[1..]));
    // An operator names one that no row names.
    let unknown = w.act("let_unknown_go", |c| c.let_unknown_go(&strangers, NOW)).unwrap();
    assert_eq!(unknown, &strangers[..1], "the other one's block is known");
    assert!(w.act("take_back", |c| c.take_back(&strangers[1], &[], false, &living, NOW)).unwrap());
}

/// A catalog that is made again from the nodes.
fn rebuilds(w: &mut Watched) {
    w.catalog = Catalog::over(Box::new(Memory::default()), ClusterId(1)).unwrap();
    let part = |name: &str| Part { name: name.to_owned(), version: 1, offset: 0, last: true };
    let facts = |part| Contents { stored_bytes: BYTES, sums: Sums::default(), part };
    let location = Location { node: NodeId(1), generation: FIRST_GENERATION };
    let (alone, data, parity) = (BlockId(1), BlockId(2), BlockId(3));
    let generation = FIRST_GENERATION;
    let member = |block, contents| MemberState::Stored(NotedMember { block, generation, contents });
    let stripe = StripeNote {
        stripe: StripeId(4),
        code: "rs-1+1".to_owned(),
        index: 0,
        block_bytes: BYTES,
        members: vec![member(data, facts(Some(part("coded")))), member(parity, facts(None))],
    };
    let birth = Stamp::default();
    let copy = |block, facts, stripe| FoundBlock { block, location, facts, stripe, birth };
    let found = vec![
        copy(alone, facts(Some(part("alone"))), None),
        copy(data, facts(Some(part("coded"))), Some(stripe.clone())),
        copy(parity, facts(None), Some(stripe)),
    ];
    recover(w, &found, &Choices::default());
}

fn recover(w: &mut Watched, found: &[FoundBlock], choices: &Choices) {
    let at = RecoveredAt { now_ms: NOW, created_ms: 0 };
    let all = |_: &str, usable: &[bool]| vec![true; usable.len()];
    let findings = Findings { found: found.to_vec(), ..Findings::default() };
    w.act("recover", |c| c.recover(&findings, choices, 3, all, at)).unwrap();
}

/// What an operator says of versions that are left out.
fn choices(w: &mut Watched) {
    w.catalog = Catalog::over(Box::new(Memory::default()), ClusterId(1)).unwrap();
    let found = |version: u64, node: u32| FoundBlock {
        block: BlockId(version.into()),
        location: Location { node: NodeId(node), generation: FIRST_GENERATION },
        facts: Contents {
            stored_bytes: BYTES,
            sums: Sums::default(),
            part: Some(Part { name: "i".to_owned(), version, offset: 0, last: true }),
        },
        stripe: None,
        birth: Stamp::default(),
    };
    recover(w, &[found(1, 1)], &Choices::default());
    let [second, third] = [2, 3].map(|version| ("i".to_owned(), version));
    let choices = Choices { take: [second].into(), drop: [third].into() };
    recover(w, &[found(2, 2), found(3, 3)], &choices);
    // A stripe that is no more when its only object is replaced.
    w.catalog = Catalog::over(Box::new(Memory::default()), ClusterId(1)).unwrap();
    let data = w.put("i");
    w.encode(data);
    let (newer, choice) = (found(1 << 20, 2), ("i".to_owned(), 1 << 20));
    recover(w, &[newer], &Choices { take: [choice].into(), ..Choices::default() });
}

/// A lost branch committed a put that was given up here.
fn branches(w: &mut Watched) {
    w.catalog = Catalog::over(Box::new(Memory::default()), ClusterId(1)).unwrap();
    let (put, block) = w.planned("o");
    let version = w.catalog.pending_put(put).unwrap().version;
    w.act("abort_put", |c| c.abort_put(put, NOW)).unwrap();
    let part = Some(Part { name: "o".to_owned(), version, offset: 0, last: true });
    let location = Location { node: REPLICAS[0], generation: FIRST_GENERATION };
    let blocks = vec![block];
    let row =
        ObjectRow { version, object_bytes: BYTES, digest: None, block_bytes: BYTES, blocks, created_ms: 0 };
    let facts = BlockFacts::new(BYTES, Sums::default(), vec![location]);
    let mut branch = Branch::default();
    branch.made.insert("o".to_owned(), Made { row, blocks: [(block, facts)].into() });
    let contents = Contents { stored_bytes: BYTES, sums: Sums::default(), part };
    let found = FoundBlock { block, location, facts: contents, stripe: None, birth: Stamp::default() };
    let findings = Findings { found: vec![found], branches: vec![branch], ..Findings::default() };
    let at = RecoveredAt { now_ms: NOW, created_ms: 0 };
    let all = |_: &str, usable: &[bool]| vec![true; usable.len()];
    w.act("recover", |c| c.recover(&findings, &Choices::default(), 3, all, at)).unwrap();
}

/// A store is gone for good that has copies in each state.
fn forgetting(w: &mut Watched) {
    w.catalog = Catalog::over(Box::new(Memory::default()), ClusterId(1)).unwrap();
    let (gone, store, incarnation) = (REPLICAS[1], StoreId(7), Incarnation(8));
    let (addr, rack) = ("10.0.0.7:7000".to_owned(), "r1".to_owned());
    let host = String::new();
    let row = NodeRow { control_addr: addr.clone(), data_addr: addr, rack, store, incarnation, host };
    w.act("register_node", |c| c.register_node(gone, &row, None, None)).unwrap();
    let blocks = ["j", "k", "l", "m", "n"].map(|name| w.put(name));
    let copy = |at: usize| BlockCopy { block: blocks[at], node: gone, generation: FIRST_GENERATION };
    w.act("note_flaws", |c| c.note_flaws(&[copy(1)], Flaw::Missing, NOW)).unwrap();
    w.act("note_flaws", |c| c.note_flaws(&[copy(2)], Flaw::Damaged, NOW)).unwrap();
    w.act("delete", |c| c.delete("m", NOW)).unwrap();
    w.act("delete", |c| c.delete("n", NOW)).unwrap();
    let sight = Sight { is_kept: true, compared: [gone].into(), ..Sight::default() };
    assert_eq!(w.act("order", |c| c.order(&[copy(4)], &sight)).unwrap().go, [copy(4)]);
    let loss = Loss::default();
    w.act("begin_forgetting", |c| c.begin_forgetting(gone, (store, incarnation), &loss, NOW)).unwrap();
    let mut pass = Pass::Waits;
    while pass != Pass::Over {
        pass = w.act("forget_some", |c| c.forget_some(store, &pass)).unwrap();
    }
}

/// `from --> to : calls` in the diagrams of the page, section by section.
fn shown() -> BTreeSet<(String, String, String, String)> {
    let mut shown = BTreeSet::new();
    for kind in KINDS {
        let section =
            PAGE.split("\n## ").find(|part| part.lines().next().is_some_and(|head| head.ends_with(kind)));
        let diagram = section.and_then(|part| part.split("```").nth(1)).unwrap_or_default();
        for (arrow, calls) in diagram.lines().filter_map(|line| line.split_once(" : ")) {
            let (from, to) = arrow.trim().split_once(" --> ").unwrap();
            for call in calls.split(", ") {
                shown.insert((kind.to_owned(), from.to_owned(), to.to_owned(), call.to_owned()));
            }
        }
    }
    shown
}

fn all_that_happens(backend: Box<dyn Backend>) -> BTreeSet<(String, String, String, String)> {
    let mut watched = Watched::over(backend);
    for run in [
        puts_and_deletes,
        encodings,
        gatherings,
        coded,
        deaths,
        compactions,
        repairs,
        inventories,
        rebuilds,
        choices,
        branches,
        forgetting,
    ] {
        run(&mut watched);
    }
    let owned = |(kind, from, to, call): &(&str, &str, &str, &str)| {
        (kind.to_string(), from.to_string(), to.to_string(), call.to_string())
    };
    watched.seen.iter().map(owned).collect()
}

#[test]
fn the_states_are_those_of_the_page() {
    let disk: Arc<dyn Disk> = Arc::new(CrashDisk::new(&PowerSwitch::new()));
    let seen = all_that_happens(Box::new(Redb::open(&disk).unwrap()));
    let only = |a: &BTreeSet<_>, b: &BTreeSet<_>| a.difference(b).cloned().collect::<Vec<_>>();
    let (undrawn, untrue) = (only(&seen, &shown()), only(&shown(), &seen));
    assert!(
        undrawn.is_empty() && untrue.is_empty(),
        "seen, but not drawn: {undrawn:#?}\ndrawn, but not seen: {untrue:#?}"
    );
}

/// The back end in memory runs each change twice and refuses one that does something else then.
#[test]
fn every_change_may_run_again() {
    assert_eq!(all_that_happens(Box::new(Memory::default())), shown());
}
