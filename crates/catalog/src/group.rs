//! Changes share transactions: what callers want while a transaction becomes durable goes together into the next one, so that many
//! callers need few syncs, and one caller waits for nobody.
//!
//! ```text
//!   a change ──its turn──▶ made in the open transaction ──nobody waits for a turn──▶ committed ──▶ all that were in it are answered
//!                              │                           somebody does: it goes on
//!                              └ an error: its own writes are taken back, the others' stay
//! ```
//!
//! Each change sees what those before it in the transaction have written; its caller is answered when all of that is durable, an
//! error of its own too, for that may rest on what others wrote.

use crate::Catalog;
use crate::backend::{Rows, RowsMut, Transaction, Visit};
use crate::error::{CatalogError, Result};
use crate::record::Record;
use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Changes of a transaction at most, so that the first of them is not held up by ever more others.
const MOST: usize = 256;

/// See the module.
#[derive(Default)]
pub(crate) struct Group {
    /// Callers that wait for their turn: one of them ends what is open.
    waiting: AtomicUsize,
    state: Mutex<State>,
    /// Apart from the state, which the next transaction holds: whoever was in one that has ended goes at once.
    ends: Mutex<Ends>,
    ended: Condvar,
}

#[derive(Default)]
struct State {
    open: Option<Open>,
    /// Transactions that were begun.
    begun: u64,
}

#[derive(Default)]
struct Ends {
    /// Transactions that have ended, each before the next begins.
    ended: u64,
    /// Why a transaction failed, from which on none is made: nobody knows what is durable.
    failed: Option<(u64, CatalogError)>,
}

/// A transaction, and what was done in it.
struct Open {
    txn: Box<dyn Transaction>,
    /// Changes, those that came to nothing too.
    changes: usize,
    records: Vec<Record>,
    /// Why it cannot be committed.
    broken: Option<CatalogError>,
}

/// What came of a change, if it did not panic.
type Ran<T> = std::result::Result<Result<(T, Option<Record>)>, Box<dyn Any + Send>>;

impl Group {
    /// Makes a change, and makes it durable, with those of others or alone.
    pub fn run<T>(
        &self,
        catalog: &Catalog,
        change: impl Fn(&dyn RowsMut) -> Result<(T, Option<Record>)>,
    ) -> Result<T> {
        let mut state = self.turn();
        let number = self.begin(&mut state, catalog)?;
        let ran = state.make(catalog.backend.runs_twice(), change);
        let is_full = state.open.as_ref().is_some_and(|open| open.changes >= MOST);
        if is_full || self.waiting.load(Ordering::Acquire) == 0 {
            self.end(&mut state, catalog);
        }
        drop(state);
        self.outcome(number)?;
        match ran {
            Ok(ran) => ran.map(|(result, _)| result),
            Err(panic) => resume_unwind(panic),
        }
    }

    /// Does something while no transaction is open.
    pub fn alone(&self, catalog: &Catalog, what: impl FnOnce()) {
        let mut state = self.turn();
        self.end(&mut state, catalog);
        what();
    }

    /// The number of the transaction that is open now.
    fn begin(&self, state: &mut State, catalog: &Catalog) -> Result<u64> {
        if state.open.is_none() {
            catalog.soundness.may_change()?;
            catalog.has_room()?;
            self.ends().outcome(u64::MAX)?;
            let txn = catalog.backend.begin()?;
            state.open = Some(Open { txn, changes: 0, records: Vec::new(), broken: None });
            state.begun += 1;
        }
        Ok(state.begun)
    }

    /// Ends the open transaction, if there is one.
    fn end(&self, state: &mut State, catalog: &Catalog) {
        let Some(Open { txn, records, broken, .. }) = state.open.take() else { return };
        let done = match broken {
            Some(error) => Err(error),
            // Nothing was written.
            None if records.is_empty() => Ok(()),
            None => catalog.make_durable(txn, records),
        };
        let mut ends = self.ends();
        ends.ended = state.begun;
        if let (Err(error), None) = (done, &ends.failed) {
            ends.failed = Some((state.begun, error));
        }
        self.ended.notify_all();
    }

    /// Waits for the end of transaction `number`: whether it has become durable.
    fn outcome(&self, number: u64) -> Result<()> {
        let mut ends = self.ends();
        while ends.ended < number {
            ends = self.ended.wait(ends).unwrap_or_else(PoisonError::into_inner);
        }
        ends.outcome(number)
    }

    fn ends(&self) -> MutexGuard<'_, Ends> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn turn(&self) -> MutexGuard<'_, State> {
        self.waiting.fetch_add(1, Ordering::AcqRel);
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        self.waiting.fetch_sub(1, Ordering::AcqRel);
        state
    }
}

impl State {
    /// Makes a change in the open transaction. What fails leaves nothing in it.
    fn make<T>(
        &mut self,
        twice: bool,
        change: impl Fn(&dyn RowsMut) -> Result<(T, Option<Record>)>,
    ) -> Ran<T> {
        let Some(open) = &mut self.open else {
            return Ok(Err(CatalogError::Bug("a change without a transaction".to_owned())));
        };
        open.changes += 1;
        let first = if twice { Some(open.make(&change, false)) } else { None };
        let ran = open.make(&change, true);
        match (first, &ran) {
            (Some(Ok(first)), Ok(second)) if !is_same(&first, second) => {
                let text = "a change did something else when it ran again".to_owned();
                open.broken = Some(CatalogError::Bug(text));
            }
            _ => {}
        }
        ran
    }
}

impl Ends {
    /// Whether transaction `number` has become durable.
    fn outcome(&self, number: u64) -> Result<()> {
        match &self.failed {
            Some((failed, error)) if number >= *failed => Err(error.clone()),
            _ => Ok(()),
        }
    }
}

impl Open {
    /// Makes a change; `stays`: unless it fails.
    fn make<T>(
        &mut self,
        change: impl Fn(&dyn RowsMut) -> Result<(T, Option<Record>)>,
        stays: bool,
    ) -> Ran<T> {
        let rows = Undoable { rows: &*self.txn, before: RefCell::default() };
        let ran = catch_unwind(AssertUnwindSafe(|| change(&rows)));
        let undone = match &ran {
            Ok(Ok((_, record))) if stays => {
                self.records.extend(record.clone());
                Ok(())
            }
            // The database itself failed: what is in the transaction is anybody's guess.
            Ok(Err(error @ (CatalogError::Failed(_) | CatalogError::DamagedFile(_)))) => Err(error.clone()),
            _ => rows.undo(),
        };
        self.broken = self.broken.take().or(undone.err());
        ran
    }
}

fn is_same<T>(first: &Result<(T, Option<Record>)>, second: &Result<(T, Option<Record>)>) -> bool {
    match (first, second) {
        (Ok((_, first)), Ok((_, second))) => first == second,
        (Err(first), Err(second)) => first == second,
        _ => false,
    }
}

/// A row as it was before a change wrote it.
struct Before {
    table: &'static str,
    key: Vec<u8>,
    value: Option<Vec<u8>>,
}

/// Rows of a transaction, and what a change of it found in those that it wrote.
struct Undoable<'a> {
    rows: &'a dyn RowsMut,
    before: RefCell<Vec<Before>>,
}

impl Undoable<'_> {
    fn note(&self, table: &'static str, key: &[u8]) -> Result<()> {
        let value = self.rows.get(table, key)?;
        self.before.borrow_mut().push(Before { table, key: key.to_vec(), value });
        Ok(())
    }

    /// Everything is as it was before.
    fn undo(self) -> Result<()> {
        for Before { table, key, value } in self.before.into_inner().into_iter().rev() {
            match value {
                Some(value) => self.rows.put(table, &key, &value)?,
                None => drop(self.rows.remove(table, &key)?),
            }
        }
        Ok(())
    }
}

impl Rows for Undoable<'_> {
    fn get(&self, table: &'static str, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.rows.get(table, key)
    }

    fn scan(&self, table: &'static str, from: &[u8], visit: &mut Visit<'_>) -> Result<()> {
        self.rows.scan(table, from, visit)
    }
}

impl RowsMut for Undoable<'_> {
    fn put(&self, table: &'static str, key: &[u8], value: &[u8]) -> Result<()> {
        self.note(table, key)?;
        self.rows.put(table, key, value)
    }

    fn remove(&self, table: &'static str, key: &[u8]) -> Result<bool> {
        self.note(table, key)?;
        self.rows.remove(table, key)
    }
}

impl std::fmt::Debug for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Group")
    }
}
