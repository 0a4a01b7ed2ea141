//! Changes of several callers share a transaction: few become durable one by one, those that fail leave nothing, and nobody is
//! answered before what he did is durable.

#![allow(clippy::unwrap_used)] // a test may

use super::other_back_end::{BYTES, commit, plan};
use catalog::backend::{Backend, Memory, Rows, RowsMut, Transaction, Visit};
use catalog::{Catalog, CatalogError, NewPut, Result};
use model::{ClusterId, PutId};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// Callers at once.
const CALLERS: u128 = 64;

/// Held shut, commits wait; how many came, and went through; what they end with.
#[derive(Debug, Default)]
struct Gate {
    shut: Mutex<bool>,
    opened: Condvar,
    came: AtomicU64,
    commits: AtomicU64,
    breaks: AtomicU64,
}

impl Gate {
    fn shut(&self, shut: bool) {
        *self.shut.lock().unwrap() = shut;
        self.opened.notify_all();
    }

    fn pass(&self) -> Result<()> {
        self.came.fetch_add(1, Ordering::SeqCst);
        let mut shut = self.shut.lock().unwrap();
        while *shut {
            shut = self.opened.wait(shut).unwrap();
        }
        self.commits.fetch_add(1, Ordering::SeqCst);
        match self.breaks.load(Ordering::SeqCst) {
            0 => Ok(()),
            _ => Err(CatalogError::Failed("the disk is gone".to_owned())),
        }
    }
}

/// A back end whose commits pass the gate.
#[derive(Debug)]
struct Gated(Memory, Arc<Gate>);

struct Passing(Box<dyn Transaction>, Arc<Gate>);

impl Backend for Gated {
    fn view(&self, view: &mut dyn FnMut(&dyn Rows) -> Result<()>) -> Result<()> {
        self.0.view(view)
    }

    fn begin(&self) -> Result<Box<dyn Transaction>> {
        Ok(Box::new(Passing(self.0.begin()?, Arc::clone(&self.1))))
    }

    fn runs_twice(&self) -> bool {
        true
    }

    fn close(&self) {
        self.0.close();
    }
}

impl Rows for Passing {
    fn get(&self, table: &'static str, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.0.get(table, key)
    }

    fn scan(&self, table: &'static str, from: &[u8], visit: &mut Visit<'_>) -> Result<()> {
        self.0.scan(table, from, visit)
    }
}

impl RowsMut for Passing {
    fn put(&self, table: &'static str, key: &[u8], value: &[u8]) -> Result<()> {
        self.0.put(table, key, value)
    }

    fn remove(&self, table: &'static str, key: &[u8]) -> Result<bool> {
        self.0.remove(table, key)
    }
}

impl Transaction for Passing {
    fn commit(self: Box<Self>) -> Result<()> {
        let Passing(below, gate) = *self;
        gate.pass()?;
        below.commit()
    }
}

fn catalog() -> (Catalog, Arc<Gate>) {
    let gate = Arc::new(Gate::default());
    let catalog = Catalog::over(Box::new(Gated(Memory::default(), Arc::clone(&gate))), ClusterId(1)).unwrap();
    gate.commits.store(0, Ordering::SeqCst);
    (catalog, gate)
}

fn begin(catalog: &Catalog, id: u128) -> Result<u64> {
    let put = PutId(id);
    let name = format!("object-{id}");
    catalog.begin_put(&NewPut { put, name, block_bytes: 1, replicas: 3, lease_until_ms: 0, gathers: None })
}

/// What each of many callers gets while the first one's commit is held up. The first one's change is made: what fails alone is
/// answered at once.
fn together<T: Send>(gate: &Gate, call: impl Fn(u128) -> T + Sync) -> Vec<T> {
    let came = gate.came.load(Ordering::SeqCst);
    gate.shut(true);
    std::thread::scope(|scope| {
        let call = &call;
        let spawn = |id| scope.spawn(move || call(id));
        let first = spawn(0);
        while gate.came.load(Ordering::SeqCst) == came && !first.is_finished() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let callers: Vec<_> = std::iter::once(first).chain((1..CALLERS).map(spawn)).collect();
        // Time for all of them to come.
        std::thread::sleep(Duration::from_millis(300));
        let answered = callers.iter().filter(|caller| caller.is_finished()).count();
        gate.shut(false);
        let answers = callers.into_iter().map(|caller| caller.join().unwrap()).collect();
        assert_eq!(answered, 0, "nothing is durable yet");
        answers
    })
}

#[test]
fn changes_that_come_while_one_is_made_durable_become_durable_together() {
    let (catalog, gate) = catalog();
    let mut versions: Vec<u64> =
        together(&gate, |id| begin(&catalog, id)).into_iter().map(Result::unwrap).collect();
    versions.sort_unstable();
    versions.dedup();
    assert_eq!(versions.len(), CALLERS as usize, "each sees what those before it wrote");
    let commits = gate.commits.load(Ordering::SeqCst);
    assert!(commits <= 4, "{commits} commits for {CALLERS} changes");
    assert!((0..CALLERS).all(|id| catalog.pending_put(PutId(id)).is_ok()));
    // Each is a record of its own, and they follow each other.
    let position = catalog.position().unwrap();
    begin(&catalog, CALLERS).unwrap();
    assert_eq!(catalog.records_after(&position, usize::MAX).unwrap().unwrap().len(), 1);
}

#[test]
fn one_that_fails_takes_only_its_own_writes_back() {
    let (catalog, gate) = catalog();
    let name = |id| format!("object-{id}");
    let blocks: Vec<_> = (0..CALLERS).map(|id| plan(&catalog, &name(id), id).unwrap()).collect();
    let changes = catalog.changes();
    // Rows are written before the length of the object is found to be wrong.
    let answers = together(&gate, |id| commit(&catalog, &blocks[id as usize], BYTES + (id % 2) as u64));
    for (id, answer) in (0..).zip(answers) {
        let is_right = id % 2 == 0;
        assert_eq!(answer.is_ok(), is_right, "{id}: {answer:?}");
        assert_eq!(
            (catalog.object(&name(id)).is_ok(), catalog.pending_put(PutId(id)).is_ok()),
            (is_right, !is_right)
        );
    }
    assert_eq!(catalog.changes() - changes, CALLERS as u64 / 2);
    (1..CALLERS).step_by(2).for_each(|id| commit(&catalog, &blocks[id as usize], BYTES).unwrap());
}

#[test]
fn if_it_does_not_become_durable_all_hear_so_and_nothing_follows() {
    let (catalog, gate) = catalog();
    gate.breaks.store(1, Ordering::SeqCst);
    let answers = together(&gate, |id| begin(&catalog, id));
    assert!(answers.iter().all(|answer| matches!(answer, Err(CatalogError::Failed(_)))), "{answers:?}");
    gate.breaks.store(0, Ordering::SeqCst);
    assert!(matches!(begin(&catalog, 1), Err(CatalogError::Failed(_))), "nobody knows what is durable");
    assert!((0..CALLERS).all(|id| catalog.pending_put(PutId(id)).is_err()));
}

#[test]
fn what_writes_nothing_costs_no_commit() {
    let (catalog, gate) = catalog();
    catalog.abort_put(PutId(1), 0).unwrap();
    assert_eq!(gate.commits.load(Ordering::SeqCst), 0);
}
