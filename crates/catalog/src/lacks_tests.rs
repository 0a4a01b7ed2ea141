//! The index of what lacks copies is what the rows of the blocks say, after each step of any history; so is the tally (`tally_tests.rs`).

use crate::backend::Memory;
use crate::rows::{CATALOG_FORMAT, LackRow, MetaKey, MetaRow, TaskRow};
use crate::table::{Change, Read};
use crate::tally_tests::tally_is_right;
use crate::{
    Catalog, CommittedBlock, FIRST_GENERATION, Lack, NewPut, NewStripe, PlannedBlock, Purpose, PutEnd, Sites,
    Staged,
};
use model::{
    BlockCopy, BlockFacts, BlockId, ClusterId, Flaw, FlowId, MemberState, NodeId, PutId, StripeId, Sums,
    Switch,
};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const BYTES: u64 = 10;
const END: PutEnd = PutEnd { now_ms: 0, created_ms: 0, remembered_until_ms: 0 };

/// Nodes of the random histories.
const NODES: u32 = 6;

pub(crate) fn index_is_right(catalog: &Catalog) {
    let rows = catalog.view(|txn| txn.all::<BlockFacts>(&[])).unwrap();
    let lack = |(block, row): (BlockId, BlockFacts)| Lack { block, copies: row.lacks() as u32 };
    let lacks: Vec<Lack> = rows.into_iter().map(lack).filter(|lack| lack.copies > 0).collect();
    assert_eq!(catalog.lacks(None).unwrap(), (lacks, None));
}

/// One thing that happens, to the block and nodes that these numbers choose.
type Happening = (u8, u8, u8, u8);

struct History {
    catalog: Catalog,
    ids: u128,
}

impl History {
    fn begin() -> History {
        let catalog = Catalog::over(Box::new(Memory::default()), ClusterId(1)).unwrap();
        catalog.begin_term(77, 0).unwrap();
        History { catalog, ids: 0 }
    }

    fn id(&mut self) -> u128 {
        self.ids += 1;
        self.ids
    }

    /// Some block, as it is now.
    fn some_block(&self, choice: u8) -> Option<(BlockId, BlockFacts)> {
        let rows = self.catalog.view(|txn| txn.all::<BlockFacts>(&[])).unwrap();
        let place = usize::from(choice) % rows.len().max(1);
        rows.into_iter().nth(place)
    }

    /// A put of one block or two, in three replicas of which two or three came to be. The names are few: some overwrite others.
    fn put(&mut self, name: u8, first: u8, came: u8) {
        let put = PutId(self.id());
        let name = format!("object-{}", name % 8);
        let new = NewPut { put, name, block_bytes: BYTES, replicas: 3, lease_until_ms: 100, gathers: None };
        self.catalog.begin_put(&new).unwrap();
        let (sums, last) = (Sums::default(), u64::from(came / 2 % 2));
        let block = |index: u64| {
            let (block, flow) = (BlockId(self.id()), FlowId(self.id()));
            let nodes: Vec<NodeId> = (0..3).map(|i| node(first.wrapping_add(i + index as u8))).collect();
            let there = nodes[..2 + usize::from(came % 2)].to_vec();
            let (stored_bytes, last) = (BYTES, index == last);
            let planned = PlannedBlock { block, index, stored_bytes, sums, last, nodes, flow };
            self.catalog.plan_block(put, &planned, 0, 100).unwrap();
            CommittedBlock { block, stored_bytes, sums, nodes: there, by: BTreeMap::new() }
        };
        let blocks: Vec<CommittedBlock> = (0..=last).map(block).collect();
        self.catalog.commit_put(put, &blocks, BYTES * (last + 1), [0; 32], END).unwrap();
    }

    /// A flow that is committed or given up; it may be refused.
    fn flow(&mut self, purpose: &Purpose, writes: &[(BlockId, NodeId)], is_committed: bool) {
        let flow = FlowId(self.id());
        let Ok(intent) = self.catalog.begin(flow, 1, purpose, writes, 0) else { return };
        let copies = intent.copies.iter();
        let staged: Vec<Staged> = copies
            .map(|&copy| Staged { copy, stored_bytes: BYTES, sums: Sums::default(), by: None })
            .collect();
        if !is_committed || self.catalog.commit(&intent, &staged, &all(), 0).is_err() {
            let _ = self.catalog.abort(&intent, 0);
        }
    }

    /// It becomes a member of a stripe, with a parity of its own.
    fn encode(&mut self, block: BlockId, row: &BlockFacts, parity_on: NodeId) {
        let (stripe, parity) = (StripeId(self.id()), BlockId(self.id()));
        let Some(kept) = row.locations.first() else { return };
        let purpose = Purpose::Encode(NewStripe {
            stripe,
            code: "rs-1+1".to_owned(),
            block_bytes: BYTES,
            members: [block, parity].map(MemberState::Stored).into(),
            data: 1,
            kept: vec![kept.copy_of(block)],
        });
        self.flow(&purpose, &[(parity, parity_on)], true);
    }

    fn happens(&mut self, (what, which, other, more): Happening) {
        if what % 10 == 0 {
            return self.put(which, other, more);
        }
        let Some((block, row)) = self.some_block(which) else { return };
        let catalog = &self.catalog;
        let location = row.locations.get(usize::from(other) % row.locations.len().max(1)).copied();
        match (what % 10, location) {
            (1, Some(location)) => {
                let flaw = if more % 2 == 0 { Flaw::Damaged } else { Flaw::Missing };
                catalog.note_flaws(&[location.copy_of(block)], flaw, 0).unwrap();
            }
            (2, _) => {
                for flawed in &row.flawed {
                    let copy = flawed.location.copy_of(block);
                    catalog.take_back(&copy, &[], false, &all(), 0).unwrap();
                }
            }
            (3 | 4, _) => {
                self.flow(&Purpose::Repair { replaces: None }, &[(block, node(other))], what % 10 == 3);
            }
            (5, Some(location)) => {
                let purpose = Purpose::Repair { replaces: Some(location.node) };
                self.flow(&purpose, &[(block, node(more))], true);
            }
            (6, _) => self.encode(block, &row, node(other)),
            (7, _) => _ = catalog.delete(&format!("object-{}", which % 8), 0),
            (8, Some(location)) => {
                let living: BTreeSet<NodeId> = all().into_iter().filter(|n| *n != location.node).collect();
                catalog.drop_surplus(&location.copy_of(block), &living, 0).unwrap();
            }
            (9, _) => _ = catalog.thin_out(&[block], &Sites::new(), &all(), 0).unwrap(),
            _ => {}
        }
    }
}

fn node(choice: u8) -> NodeId {
    NodeId(u32::from(choice) % NODES + 1)
}

fn all() -> BTreeSet<NodeId> {
    (1..=NODES).map(NodeId).collect()
}

proptest! {
    #[test]
    fn the_tally_is_what_a_walk_counts_after_each_step_of_any_history_whoever_lives(
        history in prop::collection::vec(any::<Happening>(), 1..120),
    ) {
        let mut there = History::begin();
        for happening in history {
            there.happens(happening);
            if happening.3 % 16 == 0 {
                there.catalog.begin_term(there.ids as u64, 0).unwrap();
            }
            // Sometimes several changes are followed at once.
            if happening.3 % 3 > 0 {
                tally_is_right(&there.catalog);
            }
        }
        tally_is_right(&there.catalog);
    }

    #[test]
    fn the_index_of_lacks_is_what_the_rows_say_after_each_step_of_any_history(
        history in prop::collection::vec(any::<Happening>(), 1..120),
    ) {
        let mut there = History::begin();
        for happening in history {
            there.happens(happening);
            index_is_right(&there.catalog);
        }
    }
}

#[test]
fn what_lacks_is_listed_in_pieces() {
    let mut there = History::begin();
    (0..3).for_each(|name| there.put(name, 0, 0));
    let (first, _) = there.some_block(0).unwrap();
    let copy = BlockCopy { block: first, node: node(0), generation: FIRST_GENERATION };
    assert_eq!(there.catalog.note_flaws(&[copy], Flaw::Missing, 0).unwrap(), [copy]);
    let (lacks, next) = there.catalog.lacks(None).unwrap();
    assert_eq!((lacks.iter().map(|lack| lack.copies).collect::<Vec<_>>(), next), (vec![2, 1, 1], None));
    assert_eq!(there.catalog.lacks(Some(lacks[1].block)).unwrap(), (lacks[1..].to_vec(), None));
}

#[test]
fn a_catalog_of_before_there_was_an_index_gets_it_when_it_is_opened() {
    let mut there = History::begin();
    there.put(0, 0, 0);
    let (lacks, _) = there.catalog.lacks(None).unwrap();
    let of_before = |txn: &Change<'_>| {
        for lack in &lacks {
            assert!(txn.remove::<LackRow>(&lack.block)?);
        }
        txn.put(&"lacks".to_owned(), &TaskRow { switch: Switch::Pause })?;
        txn.put(&MetaKey, &MetaRow { format: 6, ..crate::meta(txn)? })
    };
    there.catalog.change(of_before).unwrap();
    assert_eq!(there.catalog.lacks(None).unwrap().0.len(), 0);
    there.catalog.change(crate::renewed).unwrap();
    assert_eq!(there.catalog.lacks(None).unwrap().0.len(), 1);
    index_is_right(&there.catalog);
    assert_eq!(there.catalog.meta().unwrap().format, CATALOG_FORMAT);
    // What an operator paused stays so under its new name.
    assert_eq!(there.catalog.switches().unwrap(), [("healer".to_owned(), Switch::Pause)].into());
}
