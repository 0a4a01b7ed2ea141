//! The states of docs/data-model.md against what the catalog's calls do: each is run, and every change of state is noted.

use super::rows::{
    BlockCopy, BlockRow, GarbageRow, Location, PartRow, PlannedRow, PutRow, StripeRow, StripeState, Sums,
};
use super::table::{Read, Snapshot};
use super::{
    Catalog, CommittedBlock, FIRST_GENERATION, Facts, FoundBlock, FoundStripe, NewPut, NewStripe,
    PARITY_GENERATION, PlannedBlock, RepairTicket, StagedParity,
};
use crate::error::Result;
use disk::{CrashDisk, Disk, PowerSwitch};
use model::{BlockId, FlowId, PutId, StripeId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const PAGE: &str = include_str!("../../../../docs/data-model.md");

const BYTES: u64 = 10;
const FLOW: FlowId = FlowId(1);
const NOW: u64 = 0;
/// Nodes that hold the replicas of a put.
const REPLICAS: [u32; 3] = [1, 2, 3];
const PARITY_NODE: u32 = 4;
const FREE: u32 = 5;

/// What has states; the names head the sections of the page.
const KINDS: [&str; 4] = ["copy", "block", "stripe", "put"];

/// The state of each thing by kind and key; what has no row is not listed.
type States = BTreeMap<(&'static str, String), &'static str>;

fn states(txn: &Snapshot) -> Result<States> {
    let mut states = States::new();
    let mut copy = |copy: BlockCopy, state| {
        let before = states.insert(("copy", format!("{copy:?}")), state);
        assert_eq!(before, None, "{copy:?} is in two states");
    };
    txn.all::<PlannedRow>(&[])?.into_iter().for_each(|(key, _)| copy(key, "planned"));
    txn.all::<GarbageRow>(&[])?.into_iter().for_each(|(key, _)| copy(key, "garbage"));
    let blocks = txn.all::<BlockRow>(&[])?;
    let locations = blocks.iter().flat_map(|(block, row)| row.locations.iter().map(|l| l.copy_of(*block)));
    locations.for_each(|key| copy(key, "location"));
    for (block, row) in blocks {
        let state = match row.stripe {
            _ if row.dead => "dead",
            Some(_) => "coded",
            None => "replicated",
        };
        states.insert(("block", block.to_string()), state);
    }
    for (stripe, row) in txn.all::<StripeRow>(&[])? {
        let encoded = row.state == StripeState::Encoded;
        states.insert(("stripe", stripe.to_string()), if encoded { "encoded" } else { "encoding" });
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
    fn new() -> Watched {
        Watched { catalog: empty(), seen: BTreeSet::new(), ids: 100 }
    }

    /// Runs a call and notes what changed, even if it ends with an error: some changes are made then.
    fn act<T>(&mut self, name: &'static str, call: impl FnOnce(&Catalog) -> Result<T>) -> Result<T> {
        let before = self.catalog.view(states).unwrap();
        let result = call(&self.catalog);
        let after = self.catalog.view(states).unwrap();
        for key in before.keys().chain(after.keys()) {
            let state = |all: &States| all.get(key).copied().unwrap_or("none");
            if state(&before) != state(&after) {
                self.seen.insert((key.0, state(&before), state(&after), name));
            }
        }
        result
    }

    fn id(&mut self) -> u128 {
        self.ids += 1;
        self.ids
    }

    /// A put of one block that was planned but not committed.
    fn planned(&mut self, name: &str) -> (PutId, BlockId) {
        let (put, block) = (PutId(self.id()), BlockId(self.id()));
        let name = name.to_owned();
        let new = NewPut { put, name, block_bytes: BYTES, replicas: 3, lease_until_ms: 100 };
        self.act("begin_put", |c| c.begin_put(new)).unwrap();
        let planned = PlannedBlock {
            block,
            index: 0,
            stored_bytes: BYTES,
            sums: Sums::default(),
            last: true,
            nodes: REPLICAS.into(),
            flow: FLOW,
        };
        self.act("plan_block", |c| c.plan_block(put, planned, NOW, 100)).unwrap();
        (put, block)
    }

    fn commit(&mut self, (put, block): (PutId, BlockId), nodes: &[u32]) -> BlockId {
        let block = CommittedBlock { block, stored_bytes: BYTES, sums: Sums::default(), nodes: nodes.into() };
        let blocks = [block.clone()];
        self.act("commit_put", |c| c.commit_put(put, &blocks, BYTES, [0; 32], NOW)).unwrap();
        block.block
    }

    fn put(&mut self, name: &str) -> BlockId {
        let planned = self.planned(name);
        self.commit(planned, &REPLICAS)
    }

    /// A stripe of the block and one parity, begun.
    fn encoding(&mut self, data: BlockId) -> NewStripe {
        let (stripe, parity) = (StripeId(self.id()), BlockId(self.id()));
        let new = NewStripe {
            stripe,
            code: "rs-1+1".to_owned(),
            block_bytes: BYTES,
            members: vec![Some(data), Some(parity)],
            writes: vec![(parity, PARITY_NODE)],
            flow: FLOW,
            attempt: 1,
        };
        self.act("begin_encoding", |c| c.begin_encoding(&new, NOW)).unwrap();
        new
    }

    fn encode(&mut self, data: BlockId) {
        let new = self.encoding(data);
        let kept = [(data, Location { node: 1, generation: FIRST_GENERATION })];
        let block = new.members[1].unwrap();
        let parity = StagedParity { block, node: PARITY_NODE, stored_bytes: BYTES, sums: Sums::default() };
        self.act("commit_encoding", |c| c.commit_encoding(&new, &kept, &[parity], NOW)).unwrap();
    }

    fn repair(&mut self, block: BlockId) -> RepairTicket {
        self.act("begin_repair", |c| c.begin_repair(block, FLOW, 1, FREE, NOW)).unwrap()
    }

    fn commit_repair(&mut self, ticket: RepairTicket, replaces: u32, living: &[u32]) -> Result<()> {
        let living = living.iter().copied().collect();
        let sums = Sums::default();
        self.act("commit_repair", |c| c.commit_repair(&ticket, &sums, Some(replaces), &living, NOW))
    }
}

fn empty() -> Catalog {
    let disk: Arc<dyn Disk> = Arc::new(CrashDisk::new(&PowerSwitch::new()));
    Catalog::open(&disk).unwrap()
}

fn puts_and_deletes(w: &mut Watched) {
    let aborted = w.planned("aborted");
    w.act("abort_put", |c| c.abort_put(aborted.0, NOW)).unwrap();
    let planned = w.planned("a");
    w.commit(planned, &[1, 2]);
    w.put("a");
    // The put that began earlier commits later: it counts as overwritten.
    let earlier = w.planned("a");
    w.put("a");
    w.commit(earlier, &REPLICAS);
    w.act("delete", |c| c.delete("a", NOW)).unwrap();
    let garbage = w.catalog.due_garbage(&[1, 2, 3].into(), NOW, 100).unwrap();
    let copies: Vec<BlockCopy> = garbage.into_values().flatten().collect();
    w.act("garbage_deleted", |c| c.garbage_deleted(&copies)).unwrap();
}

fn encodings(w: &mut Watched) {
    let data = w.put("b");
    let new = w.encoding(data);
    let again = NewStripe { attempt: 2, writes: vec![(new.writes[0].0, FREE)], ..new };
    w.act("begin_encoding", |c| c.begin_encoding(&again, NOW)).unwrap();
    w.act("abort_encoding", |c| c.abort_encoding(again.stripe, NOW)).unwrap();
    w.encoding(data);
    w.act("give_up_flows", |c| c.give_up_flows(NOW)).unwrap();
    w.encode(data);
    w.act("delete", |c| c.delete("b", NOW)).unwrap();
    let data = w.put("b");
    w.encode(data);
    w.put("b");
}

/// Two objects share a stripe: the first one's block dies with it and stays.
fn deaths(w: &mut Watched) {
    for overwrite in [false, true] {
        let blocks = [w.put("c"), w.put("d")];
        let stripe = NewStripe {
            stripe: StripeId(w.id()),
            code: "rs-2+1".to_owned(),
            block_bytes: BYTES,
            members: blocks.map(Some).into(),
            writes: Vec::new(),
            flow: FLOW,
            attempt: 1,
        };
        w.act("begin_encoding", |c| c.begin_encoding(&stripe, NOW)).unwrap();
        let kept = [(blocks[0], 1), (blocks[1], 2)]
            .map(|(block, node)| (block, Location { node, generation: FIRST_GENERATION }));
        w.act("commit_encoding", |c| c.commit_encoding(&stripe, &kept, &[], NOW)).unwrap();
        for name in ["c", "d"] {
            if overwrite {
                w.put(name);
            } else {
                w.act("delete", |c| c.delete(name, NOW)).unwrap();
            }
        }
    }
}

fn repairs(w: &mut Watched) {
    let block = w.put("e");
    let ticket = w.repair(block);
    let ticket = w.act("mend_repair", |c| c.mend_repair(&ticket)).unwrap();
    w.commit_repair(ticket, 1, &[2, 3, FREE]).unwrap();
    let block = w.put("f");
    let ticket = w.repair(block);
    w.act("abort_repair", |c| c.abort_repair(&ticket, NOW)).unwrap();
    let ticket = w.repair(block);
    w.commit_repair(ticket, 1, &[1, 2, 3]).unwrap_err();
    w.repair(block);
    w.act("give_up_flows", |c| c.give_up_flows(NOW)).unwrap();
    assert!(w.act("drop_damaged", |c| c.drop_damaged(block, 2, |_| true, NOW)).unwrap());
    let lost = [BlockCopy { block, node: 3, generation: FIRST_GENERATION }];
    assert_eq!(w.act("forget_missing", |c| c.forget_missing(&lost)).unwrap(), 1);
}

fn inventories(w: &mut Watched) {
    let block = w.put("g");
    let strangers = [BlockId(1), block].map(|block| BlockCopy { block, node: 9, generation: 7 });
    // Replica 3 is dead, so the block is in need of what another node has of it.
    let living = BTreeSet::from([1, 2, 9]);
    let found = w.act("reconcile", |c| c.reconcile(&strangers, &living, NOW)).unwrap();
    assert_eq!((found.unknown, &found.needed[..]), (1, &strangers[1..]));
    assert!(w.act("take_back", |c| c.take_back(&strangers[1], &[], &living, NOW)).unwrap());
}

/// A catalog that is made again from the nodes.
fn rebuilds(w: &mut Watched) {
    w.catalog = empty();
    let part = |name: &str| PartRow { name: name.to_owned(), version: 1, offset: 0, last: true };
    let facts = |part| Facts { stored_bytes: BYTES, sums: Sums::default(), part };
    let location = Location { node: 1, generation: PARITY_GENERATION };
    let (alone, data, parity) = (BlockId(1), BlockId(2), BlockId(3));
    let stripe = FoundStripe {
        stripe: StripeId(4),
        code: "rs-1+1".to_owned(),
        block_bytes: BYTES,
        members: vec![Some((data, facts(Some(part("coded"))))), Some((parity, facts(None)))],
    };
    let copy = |block, facts, stripe| FoundBlock { block, location, facts, stripe };
    let found = vec![
        copy(alone, facts(Some(part("alone"))), None),
        copy(data, facts(Some(part("coded"))), Some(stripe.clone())),
        copy(parity, facts(None), Some(stripe)),
    ];
    w.act("rebuild", |c| c.rebuild(found, 3, |_, usable| vec![true; usable.len()], NOW)).unwrap();
}

/// `from --> to : calls` in the diagrams of the page, section by section.
fn shown() -> BTreeSet<(String, String, String, String)> {
    let mut shown = BTreeSet::new();
    for kind in KINDS {
        let section = PAGE.split("## States of a ").find(|part| part.starts_with(&format!("{kind}\n")));
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

#[test]
fn the_states_are_those_of_the_page() {
    let mut watched = Watched::new();
    for run in [puts_and_deletes, encodings, deaths, repairs, inventories, rebuilds] {
        run(&mut watched);
    }
    let owned = |(kind, from, to, call): &(&str, &str, &str, &str)| {
        (kind.to_string(), from.to_string(), to.to_string(), call.to_string())
    };
    let seen: BTreeSet<_> = watched.seen.iter().map(owned).collect();
    let only = |a: &BTreeSet<_>, b: &BTreeSet<_>| a.difference(b).cloned().collect::<Vec<_>>();
    let (undrawn, untrue) = (only(&seen, &shown()), only(&shown(), &seen));
    assert!(
        undrawn.is_empty() && untrue.is_empty(),
        "seen, but not drawn: {undrawn:#?}\ndrawn, but not seen: {untrue:#?}"
    );
}
