//! The back end of daemons: one `redb` file on a [`Disk`].

use super::{Backend, Rows, RowsMut, Scan, Transaction, Visit};
use crate::error::{CatalogError, Result};
use disk::Disk;
use redb::{
    Database, DatabaseError, ReadTransaction, ReadableDatabase, ReadableTable, TableDefinition, TableError,
    WriteTransaction,
};
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

/// A database in one file.
#[derive(Debug)]
pub struct Redb {
    /// `None` once closed, so that the lock goes at a known moment and not with the last stray handle.
    database: RwLock<Option<Database>>,
}

impl Redb {
    /// File of the catalog on its disk.
    pub(crate) const FILE: &str = "catalog.redb";

    /// Opens the file, or makes an empty one.
    ///
    /// # Errors
    /// [`CatalogError::InUse`] if another process has it, [`CatalogError::Failed`].
    pub fn open(disk: &Arc<dyn Disk>) -> Result<Redb> {
        Redb::open_at(disk, Path::new(Redb::FILE))
    }

    /// The same at another name.
    pub(crate) fn open_at(disk: &Arc<dyn Disk>, path: &Path) -> Result<Redb> {
        let database = disk::open_database(disk, path).map_err(|error| match error {
            DatabaseError::DatabaseAlreadyOpen => CatalogError::InUse,
            other => failed(other),
        })?;
        Ok(Redb { database: RwLock::new(Some(database)) })
    }
}

impl Backend for Redb {
    fn view(&self, view: &mut dyn FnMut(&dyn Rows) -> Result<()>) -> Result<()> {
        let database = self.database.read().unwrap_or_else(PoisonError::into_inner);
        let txn = database.as_ref().ok_or(CatalogError::Closed)?.begin_read().map_err(failed)?;
        view(&txn)
    }

    fn begin(&self) -> Result<Box<dyn Transaction>> {
        let database = self.database.read().unwrap_or_else(PoisonError::into_inner);
        Ok(Box::new(database.as_ref().ok_or(CatalogError::Closed)?.begin_write().map_err(failed)?))
    }

    fn close(&self) {
        self.database.write().unwrap_or_else(PoisonError::into_inner).take();
    }
}

type Raw = TableDefinition<'static, &'static [u8], &'static [u8]>;

fn raw(table: &'static str) -> Raw {
    TableDefinition::new(table)
}

impl Rows for ReadTransaction {
    fn get(&self, table: &'static str, key: &[u8]) -> Result<Option<Vec<u8>>> {
        match self.open_table(raw(table)) {
            Ok(table) => get(&table, key),
            Err(TableError::TableDoesNotExist(_)) => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }

    fn scan(&self, table: &'static str, from: &[u8], visit: &mut Visit<'_>) -> Result<()> {
        match self.open_table(raw(table)) {
            Ok(table) => scan(&table, from, visit),
            Err(TableError::TableDoesNotExist(_)) => Ok(()),
            Err(error) => Err(failed(error)),
        }
    }
}

impl Rows for WriteTransaction {
    fn get(&self, table: &'static str, key: &[u8]) -> Result<Option<Vec<u8>>> {
        get(&self.open_table(raw(table)).map_err(failed)?, key)
    }

    fn scan(&self, table: &'static str, from: &[u8], visit: &mut Visit<'_>) -> Result<()> {
        scan(&self.open_table(raw(table)).map_err(failed)?, from, visit)
    }
}

impl RowsMut for WriteTransaction {
    fn put(&self, table: &'static str, key: &[u8], value: &[u8]) -> Result<()> {
        let mut table = self.open_table(raw(table)).map_err(failed)?;
        table.insert(key, value).map(|_| ()).map_err(failed)
    }

    fn remove(&self, table: &'static str, key: &[u8]) -> Result<bool> {
        let mut table = self.open_table(raw(table)).map_err(failed)?;
        let removed = table.remove(key).map_err(failed)?;
        Ok(removed.is_some())
    }
}

impl Transaction for WriteTransaction {
    fn commit(self: Box<Self>) -> Result<()> {
        WriteTransaction::commit(*self).map_err(failed)
    }
}

fn get(table: &impl ReadableTable<&'static [u8], &'static [u8]>, key: &[u8]) -> Result<Option<Vec<u8>>> {
    Ok(table.get(key).map_err(failed)?.map(|guard| guard.value().to_vec()))
}

fn scan(
    table: &impl ReadableTable<&'static [u8], &'static [u8]>,
    from: &[u8],
    visit: &mut Visit<'_>,
) -> Result<()> {
    for entry in table.range(from..).map_err(failed)? {
        let (key, value) = entry.map_err(failed)?;
        if visit(key.value(), value.value())? == Scan::Stop {
            break;
        }
    }
    Ok(())
}

fn failed(error: impl Into<redb::Error>) -> CatalogError {
    CatalogError::Failed(error.into().to_string())
}
