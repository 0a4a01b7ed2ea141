//! A back end without files, for tests and simulators. It has each change run twice, and what came of it compared: a change
//! that depends on anything but the rows is found.

use super::{Backend, Rows, RowsMut, Scan, Transaction, Visit};
use crate::error::{CatalogError, Result};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

type Tables = BTreeMap<&'static str, BTreeMap<Vec<u8>, Vec<u8>>>;

/// `None` once closed.
type Shared = Arc<Mutex<Option<Tables>>>;

/// Tables in memory; gone with it.
#[derive(Debug)]
pub struct Memory {
    tables: Shared,
}

impl Default for Memory {
    fn default() -> Memory {
        Memory { tables: Arc::new(Mutex::new(Some(Tables::new()))) }
    }
}

fn lock(tables: &Shared) -> MutexGuard<'_, Option<Tables>> {
    tables.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Backend for Memory {
    fn view(&self, view: &mut dyn FnMut(&dyn Rows) -> Result<()>) -> Result<()> {
        view(&*self.open()?)
    }

    fn begin(&self) -> Result<Box<dyn Transaction>> {
        Ok(self.open()?)
    }

    fn runs_twice(&self) -> bool {
        true
    }

    fn close(&self) {
        lock(&self.tables).take();
    }
}

impl Memory {
    fn open(&self) -> Result<Box<Open>> {
        let tables = lock(&self.tables).clone().ok_or(CatalogError::Closed)?;
        Ok(Box::new(Open { tables: RefCell::new(tables), shared: Arc::clone(&self.tables) }))
    }
}

/// Tables within a transaction.
struct Open {
    tables: RefCell<Tables>,
    shared: Shared,
}

impl Rows for Open {
    fn get(&self, table: &'static str, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.tables.borrow().get(table).and_then(|rows| rows.get(key)).cloned())
    }

    fn scan(&self, table: &'static str, from: &[u8], visit: &mut Visit<'_>) -> Result<()> {
        // A copy, so that whoever visits may read other rows.
        let rows = self.tables.borrow().get(table).cloned().unwrap_or_default();
        for (key, value) in rows.range(from.to_vec()..) {
            if visit(key, value)? == Scan::Stop {
                break;
            }
        }
        Ok(())
    }
}

impl RowsMut for Open {
    fn put(&self, table: &'static str, key: &[u8], value: &[u8]) -> Result<()> {
        self.tables.borrow_mut().entry(table).or_default().insert(key.to_vec(), value.to_vec());
        Ok(())
    }

    fn remove(&self, table: &'static str, key: &[u8]) -> Result<bool> {
        Ok(self.tables.borrow_mut().get_mut(table).is_some_and(|rows| rows.remove(key).is_some()))
    }
}

impl Transaction for Open {
    fn commit(self: Box<Self>) -> Result<()> {
        let mut tables = lock(&self.shared);
        let now = tables.as_mut().ok_or(CatalogError::Closed)?;
        *now = self.tables.into_inner();
        Ok(())
    }
}
