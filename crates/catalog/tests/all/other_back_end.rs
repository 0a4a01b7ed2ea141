//! A back end that the catalog does not know: rows in one sorted vector, and a journal of changes that makes them again. It
//! lives the same life as the back ends of the catalog itself, and ends alike.

#![allow(clippy::unwrap_used)] // a test may

use catalog::backend::{Backend, Memory, Redb, Rows, RowsMut, Scan, Transaction, Visit};
use catalog::rows::ObjectRow;
use catalog::{
    Catalog, CatalogError, CommittedBlock, Counts, FIRST_GENERATION, NewPut, NewStripe, PlannedBlock,
    Purpose, PutEnd, Result, Sight, Staged, Survey, Waiting, restore,
};
use disk::{CrashDisk, Disk, PowerSwitch};
use model::{BlockCopy, BlockId, ClusterId, FlowId, MemberState, NodeId, PutId, StripeId, Sums};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

/// Table and key.
type Place = (&'static str, Vec<u8>);

/// A place and what was written there; `None` if its row was removed.
type Write = (Place, Option<Vec<u8>>);

/// The writes of each change, in order. It outlives the back end, as a file would.
type Journal = Arc<Mutex<Vec<Vec<Write>>>>;

/// Rows in the order of their places.
#[derive(Clone, Debug, Default)]
struct Sorted(Vec<(Place, Vec<u8>)>);

impl Sorted {
    /// Where the row is, or where it would be.
    fn find(&self, table: &'static str, key: &[u8]) -> std::result::Result<usize, usize> {
        self.0.binary_search_by(|((t, k), _)| (*t, k.as_slice()).cmp(&(table, key)))
    }

    /// Whether there was a row at that place.
    fn write(&mut self, (place, value): Write) -> bool {
        let found = self.find(place.0, &place.1);
        match (found, value) {
            (Ok(at), Some(value)) => self.0[at].1 = value,
            (Ok(at), None) => drop(self.0.remove(at)),
            (Err(at), Some(value)) => self.0.insert(at, (place, value)),
            (Err(_), None) => {}
        }
        found.is_ok()
    }
}

/// The back end.
#[derive(Debug)]
struct Journaled {
    rows: Shared,
    journal: Journal,
}

/// `None` once closed.
type Shared = Arc<Mutex<Option<Sorted>>>;

impl Journaled {
    /// The rows that the journal tells of.
    fn reopen(journal: &Journal) -> Journaled {
        let mut rows = Sorted::default();
        for write in journal.lock().unwrap().iter().flatten() {
            rows.write(write.clone());
        }
        Journaled { rows: Arc::new(Mutex::new(Some(rows))), journal: Arc::clone(journal) }
    }

    fn open(&self) -> Result<Open> {
        let rows = self.rows.lock().unwrap().clone().ok_or(CatalogError::Closed)?;
        let (shared, journal) = (Arc::clone(&self.rows), Arc::clone(&self.journal));
        Ok(Open { rows: RefCell::new(rows), writes: RefCell::default(), shared, journal })
    }
}

impl Backend for Journaled {
    fn view(&self, view: &mut dyn FnMut(&dyn Rows) -> Result<()>) -> Result<()> {
        view(&self.open()?)
    }

    fn begin(&self) -> Result<Box<dyn Transaction>> {
        Ok(Box::new(self.open()?))
    }

    fn close(&self) {
        self.rows.lock().unwrap().take();
    }
}

/// Rows within a transaction, and what it wrote.
struct Open {
    rows: RefCell<Sorted>,
    writes: RefCell<Vec<Write>>,
    shared: Shared,
    journal: Journal,
}

impl Transaction for Open {
    fn commit(self: Box<Self>) -> Result<()> {
        self.journal.lock().unwrap().push(self.writes.into_inner());
        *self.shared.lock().unwrap() = Some(self.rows.into_inner());
        Ok(())
    }
}

impl Open {
    fn write(&self, table: &'static str, key: &[u8], value: Option<&[u8]>) -> bool {
        let write: Write = ((table, key.to_vec()), value.map(<[u8]>::to_vec));
        self.writes.borrow_mut().push(write.clone());
        self.rows.borrow_mut().write(write)
    }
}

impl Rows for Open {
    fn get(&self, table: &'static str, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let rows = self.rows.borrow();
        Ok(rows.find(table, key).ok().map(|at| rows.0[at].1.clone()))
    }

    fn scan(&self, table: &'static str, from: &[u8], visit: &mut Visit<'_>) -> Result<()> {
        let rows = self.rows.borrow();
        let (Ok(first) | Err(first)) = rows.find(table, from);
        for ((_, key), value) in rows.0[first..].iter().take_while(|((t, _), _)| *t == table) {
            if visit(key, value)? == Scan::Stop {
                break;
            }
        }
        Ok(())
    }
}

impl RowsMut for Open {
    fn put(&self, table: &'static str, key: &[u8], value: &[u8]) -> Result<()> {
        self.write(table, key, Some(value));
        Ok(())
    }

    fn remove(&self, table: &'static str, key: &[u8]) -> Result<bool> {
        Ok(self.write(table, key, None))
    }
}

const CLUSTER: ClusterId = ClusterId(1);
pub(crate) const BYTES: u64 = 10;
const NOW_MS: u64 = 0;
const END: PutEnd = PutEnd { now_ms: NOW_MS, created_ms: 0, remembered_until_ms: 0 };
const LEASE_UNTIL_MS: u64 = 100;
/// Nodes that hold the replicas of a put.
const REPLICAS: [NodeId; 3] = [NodeId(1), NodeId(2), NodeId(3)];
const PARITY_NODE: NodeId = NodeId(4);
const FREE: NodeId = NodeId(5);

fn over(backend: impl Backend + 'static) -> Catalog {
    Catalog::over(Box::new(backend), CLUSTER).unwrap()
}

fn empty_disk() -> Arc<dyn Disk> {
    Arc::new(CrashDisk::new(&PowerSwitch::new()))
}

/// The catalog over each back end there is.
fn every_back_end() -> [Catalog; 3] {
    let journaled = Journaled::reopen(&Journal::default());
    [over(journaled), over(Memory::default()), over(Redb::open(&empty_disk()).unwrap())]
}

/// A put of one block whose plan is out.
pub(crate) fn plan(catalog: &Catalog, name: &str, id: u128) -> Result<CommittedBlock> {
    let (put, block, name) = (PutId(id), BlockId(id), name.to_owned());
    let new =
        NewPut { put, name, block_bytes: BYTES, replicas: 3, lease_until_ms: LEASE_UNTIL_MS, gathers: None };
    catalog.begin_put(&new)?;
    let (sums, nodes) = (Sums::default(), REPLICAS.to_vec());
    let committed =
        CommittedBlock { block, stored_bytes: BYTES, sums, nodes: nodes.clone(), by: BTreeMap::new() };
    let planned =
        PlannedBlock { block, index: 0, stored_bytes: BYTES, sums, last: true, nodes, flow: FlowId(id) };
    catalog.plan_block(put, &planned, NOW_MS, LEASE_UNTIL_MS)?;
    Ok(committed)
}

/// Makes the object visible, which is said to have `object_bytes`.
pub(crate) fn commit(catalog: &Catalog, block: &CommittedBlock, object_bytes: u64) -> Result<()> {
    let blocks = [block.clone()];
    catalog.commit_put(PutId(block.block.0), &blocks, object_bytes, [0; 32], END).map(|_| ())
}

fn put(catalog: &Catalog, name: &str, id: u128) -> Result<BlockId> {
    let block = plan(catalog, name, id)?;
    commit(catalog, &block, BYTES)?;
    Ok(block.block)
}

/// A stripe of two blocks, whose first and second replica stay, and a new parity.
fn encode(catalog: &Catalog, data: [BlockId; 2], parity: BlockId) -> Result<()> {
    let kept = data.iter().zip(REPLICAS);
    let kept = kept.map(|(&block, node)| BlockCopy { block, node, generation: FIRST_GENERATION });
    let purpose = Purpose::Encode(NewStripe {
        stripe: StripeId(parity.0),
        code: "rs-2+1".to_owned(),
        block_bytes: BYTES,
        members: data.into_iter().chain([parity]).map(MemberState::Stored).collect(),
        data: 2,
        kept: kept.collect(),
    });
    let intent = catalog.begin(FlowId(parity.0), 1, &purpose, &[(parity, PARITY_NODE)], NOW_MS)?;
    let staged = |&copy: &BlockCopy| Staged { copy, stored_bytes: BYTES, sums: Sums::default(), by: None };
    let staged: Vec<Staged> = intent.copies.iter().map(staged).collect();
    let living = REPLICAS.into_iter().chain([PARITY_NODE]).collect();
    catalog.commit(&intent, &staged, &living, NOW_MS).map(|_| ())
}

/// Puts, an encoding, a delete, candidates that go and those that stay, a repair and a put that have not ended.
fn live(catalog: &Catalog) -> Result<()> {
    let data = [put(catalog, "a", 1)?, put(catalog, "b", 2)?];
    encode(catalog, data, BlockId(3))?;
    put(catalog, "c", 4)?;
    catalog.delete("c", NOW_MS)?;
    let gone = candidates(catalog, &[REPLICAS[0]])?;
    let sight = Sight {
        is_kept: true,
        compared: REPLICAS.into(),
        attested: catalog.witnesses(&gone)?.seen,
        ..Sight::default()
    };
    catalog.deleted(&catalog.order(&gone, &sight)?.go)?;
    let block = put(catalog, "d", 5)?;
    let purpose = Purpose::Repair { replaces: Some(REPLICAS[0]) };
    catalog.begin(FlowId(6), 1, &purpose, &[(block, FREE)], NOW_MS)?;
    plan(catalog, "e", 7).map(|_| ())
}

fn candidates(catalog: &Catalog, nodes: &[NodeId]) -> Result<Vec<BlockCopy>> {
    catalog.due_candidates(&nodes.iter().copied().collect(), NOW_MS, 100, &BTreeSet::new())
}

fn backup(catalog: &Catalog) -> Result<Vec<u8>> {
    let mut backup = Vec::new();
    catalog.backup(16, |piece| {
        backup.extend(piece);
        true
    })?;
    Ok(backup)
}

/// All that somebody outside can ask for.
#[derive(PartialEq, Debug)]
struct Seen {
    survey: Survey,
    objects: Vec<ObjectRow>,
    /// Of each block of the objects, its facts and its stripe.
    placements: String,
    candidates: Vec<BlockCopy>,
    backup: Vec<u8>,
}

fn seen(catalog: &Catalog) -> Seen {
    let living = BTreeSet::from([REPLICAS[1], REPLICAS[2], PARITY_NODE]);
    let names = catalog.list_objects("", None, 100).unwrap();
    let found: Vec<_> = names.iter().map(|name| catalog.object(name).unwrap()).collect();
    let (objects, placements): (Vec<_>, Vec<_>) = found.into_iter().unzip();
    Seen {
        survey: catalog.survey(&living).unwrap(),
        objects,
        placements: format!("{placements:?}"),
        candidates: candidates(catalog, &REPLICAS).unwrap(),
        backup: backup(catalog).unwrap(),
    }
}

#[test]
fn a_back_end_from_outside_lives_the_same_life() {
    let [journaled, memory, redb] = every_back_end().map(|catalog| {
        live(&catalog).unwrap();
        seen(&catalog)
    });
    // Candidates: two replicas of each block of the stripe and three of the deleted one, without the two of these on node 1.
    // That node is dead, and with it the first block of the stripe, which two others give.
    let candidates = Waiting { copies: 5, bytes: 5 * BYTES };
    let counts = Counts {
        objects: 3,
        object_bytes: journaled.survey.counts.object_bytes,
        blocks: 4,
        stripes: 1,
        candidates,
        in_flight: 4,
        missing: 1,
        ..Counts::default()
    };
    assert_eq!(journaled.survey.counts, counts);
    assert_eq!(journaled, memory);
    assert_eq!(journaled, redb);
}

#[test]
fn the_journal_alone_brings_everything_back() {
    let journal = Journal::default();
    let catalog = over(Journaled::reopen(&journal));
    live(&catalog).unwrap();
    let before = seen(&catalog);
    catalog.close();
    let again = over(Journaled::reopen(&journal));
    assert_eq!(seen(&again), before);
    // It goes on from there: the put that was pending ends.
    let sums = Sums::default();
    let pending = CommittedBlock {
        block: BlockId(7),
        stored_bytes: BYTES,
        sums,
        nodes: REPLICAS.into(),
        by: BTreeMap::new(),
    };
    commit(&again, &pending, BYTES).unwrap();
    assert_eq!(again.list_objects("", None, 100).unwrap(), ["a", "b", "d", "e"]);
}

/// The block's row is written before the length of the object is found to be wrong.
#[test]
fn a_change_that_fails_midway_leaves_nothing_in_any_back_end() {
    for catalog in every_back_end() {
        let block = plan(&catalog, "a", 1).unwrap();
        let before = seen(&catalog);
        assert!(matches!(commit(&catalog, &block, BYTES + 1), Err(CatalogError::Invalid(_))), "{catalog:?}");
        assert_eq!(seen(&catalog), before, "{catalog:?}");
        commit(&catalog, &block, BYTES).unwrap();
    }
}

#[test]
fn once_closed_every_back_end_says_so() {
    for catalog in every_back_end() {
        live(&catalog).unwrap();
        catalog.close();
        assert_eq!(put(&catalog, "late", 8), Err(CatalogError::Closed), "{catalog:?}");
        assert_eq!(backup(&catalog), Err(CatalogError::Closed), "{catalog:?}");
        catalog.close();
    }
}

#[test]
fn a_backup_from_outside_is_restored_to_a_disk() {
    let catalog = over(Journaled::reopen(&Journal::default()));
    live(&catalog).unwrap();
    let disk = empty_disk();
    restore(&disk, &backup(&catalog).unwrap()).unwrap();
    let restored = Catalog::open(&disk, CLUSTER).unwrap();
    assert_eq!(seen(&restored).objects, seen(&catalog).objects);
}
