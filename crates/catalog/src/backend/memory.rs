//! A back end without files, for tests and simulators. It runs each change twice and compares what came of it: a change that
//! depends on anything but the rows is found.

use super::{Backend, Rows, RowsMut, Scan, Visit};
use crate::error::{CatalogError, Result};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

type Tables = BTreeMap<&'static str, BTreeMap<Vec<u8>, Vec<u8>>>;

/// Tables in memory; gone with it.
#[derive(Debug)]
pub struct Memory {
    tables: Mutex<Option<Tables>>,
}

impl Default for Memory {
    fn default() -> Memory {
        Memory { tables: Mutex::new(Some(Tables::new())) }
    }
}

impl Memory {
    fn lock(&self) -> MutexGuard<'_, Option<Tables>> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Backend for Memory {
    fn view(&self, view: &mut dyn FnMut(&dyn Rows) -> Result<()>) -> Result<()> {
        let tables = self.lock().as_ref().ok_or(CatalogError::Closed)?.clone();
        view(&Open(RefCell::new(tables)))
    }

    fn change(&self, change: &mut dyn FnMut(&dyn RowsMut) -> Result<()>) -> Result<()> {
        let mut tables = self.lock();
        let before = tables.as_ref().ok_or(CatalogError::Closed)?;
        let mut run = || {
            let open = Open(RefCell::new(before.clone()));
            change(&open).map(|()| open.0.into_inner())
        };
        let (first, second) = (run(), run());
        if first != second {
            return Err(CatalogError::Bug("a change did something else when it ran again".to_owned()));
        }
        *tables = Some(second?);
        Ok(())
    }

    fn close(&self) {
        self.lock().take();
    }
}

/// Tables within a transaction.
struct Open(RefCell<Tables>);

impl Rows for Open {
    fn get(&self, table: &'static str, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.0.borrow().get(table).and_then(|rows| rows.get(key)).cloned())
    }

    fn scan(&self, table: &'static str, from: &[u8], visit: &mut Visit<'_>) -> Result<()> {
        // A copy, so that whoever visits may read other rows.
        let rows = self.0.borrow().get(table).cloned().unwrap_or_default();
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
        self.0.borrow_mut().entry(table).or_default().insert(key.to_vec(), value.to_vec());
        Ok(())
    }

    fn remove(&self, table: &'static str, key: &[u8]) -> Result<bool> {
        Ok(self.0.borrow_mut().get_mut(table).is_some_and(|rows| rows.remove(key).is_some()))
    }
}
