//! The back end of daemons: one `redb` file on a [`Disk`].

use super::guard::{guarded, scan_guarded};
use super::{Backend, Rows, RowsMut, Scan, Transaction, Visit};
use crate::error::{CatalogError, Result};
use disk::{Disk, LastCommit, Opened, PageDamage, PageReport, PageVisitor};
use redb::{
    Database, DatabaseError, ReadTransaction, ReadableDatabase, ReadableTable, TableDefinition, TableError,
    WriteTransaction,
};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// A database in one file.
#[derive(Debug)]
pub struct Redb {
    /// `None` once closed, so that the lock goes at a known moment and not with the last stray handle.
    database: RwLock<Option<Database>>,
    /// The earliest commit that the file's header may name. A header with an earlier one has lost a write.
    last_commit: Mutex<LastCommit>,
    disk: Arc<dyn Disk>,
    path: PathBuf,
    was_rolled_back: bool,
}

impl Redb {
    /// File of the catalog on its disk.
    pub(crate) const FILE: &str = "catalog.redb";

    /// Opens the file, or makes an empty one.
    ///
    /// # Errors
    /// [`CatalogError::InUse`] if another process has it, [`CatalogError::DamagedFile`], [`CatalogError::Failed`].
    pub fn open(disk: &Arc<dyn Disk>) -> Result<Redb> {
        Redb::open_at(disk, Path::new(Redb::FILE))
    }

    /// The same at another name.
    pub(crate) fn open_at(disk: &Arc<dyn Disk>, path: &Path) -> Result<Redb> {
        let Opened { database, last_commit, rolled_back } = open(disk, path)?;
        let (database, last_commit) = (RwLock::new(Some(database)), Mutex::new(last_commit));
        let (disk, path) = (Arc::clone(disk), path.to_owned());
        Ok(Redb { database, last_commit, disk, path, was_rolled_back: rolled_back })
    }
}

fn open(disk: &Arc<dyn Disk>, path: &Path) -> Result<Opened> {
    guarded(|| {
        disk::open_database_noting(disk, path).map_err(|error| match error {
            DatabaseError::DatabaseAlreadyOpen => CatalogError::InUse,
            other => failed(other),
        })
    })
}

impl Drop for Redb {
    /// In a damaged file closing may break off, too.
    fn drop(&mut self) {
        self.close();
    }
}

impl Backend for Redb {
    fn view(&self, view: &mut dyn FnMut(&dyn Rows) -> Result<()>) -> Result<()> {
        let database = self.database.read().unwrap_or_else(PoisonError::into_inner);
        let database = database.as_ref().ok_or(CatalogError::Closed)?;
        let txn = guarded(|| database.begin_read().map_err(failed))?;
        let viewed = view(&txn);
        guarded(|| {
            drop(txn);
            viewed
        })
    }

    fn begin(&self) -> Result<Box<dyn Transaction>> {
        let database = self.database.read().unwrap_or_else(PoisonError::into_inner);
        let database = database.as_ref().ok_or(CatalogError::Closed)?;
        Ok(Box::new(Writing(Some(guarded(|| database.begin_write().map_err(failed))?))))
    }

    fn close(&self) {
        let database = self.database.write().unwrap_or_else(PoisonError::into_inner).take();
        let _ = guarded(|| {
            drop(database);
            Ok(())
        });
    }

    fn replace(&self, exchange: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        let mut slot = self.database.write().unwrap_or_else(PoisonError::into_inner);
        let database = slot.take();
        guarded(|| {
            drop(database);
            Ok(())
        })
        .ok();
        let exchanged = exchange();
        // Without the file nothing is made in its place.
        if !self.disk.exists(&self.path).is_ok_and(|exists| exists) {
            return exchanged.and(Err(CatalogError::Failed("the catalog's file is gone".to_owned())));
        }
        let Opened { database, last_commit, .. } = open(&self.disk, &self.path)?;
        *self.last_commit.lock().unwrap_or_else(PoisonError::into_inner) = last_commit;
        *slot = Some(database);
        exchanged
    }

    fn was_rolled_back(&self) -> bool {
        self.was_rolled_back
    }

    fn disk(&self) -> Option<&Arc<dyn Disk>> {
        Some(&self.disk)
    }

    fn look_at_pages(&self, visit: &mut dyn PageVisitor) -> Result<Option<PageReport>> {
        let due = self.last_commit.lock().unwrap_or_else(PoisonError::into_inner).transaction();
        let walked = disk::walk_pages(self.disk.as_ref(), &self.path, visit);
        let report = walked.map_err(|error| CatalogError::Failed(error.to_string()))?;
        if report.is_complete && report.transaction < due {
            let why = "it tells of an older commit than the last one: a write was lost";
            visit.damage(PageDamage { offset: 0, bytes: 0, tree: "header".to_owned(), why });
        }
        Ok(Some(report))
    }
}

type Raw = TableDefinition<'static, &'static [u8], &'static [u8]>;

fn raw(table: &'static str) -> Raw {
    TableDefinition::new(table)
}

impl Rows for ReadTransaction {
    fn get(&self, table: &'static str, key: &[u8]) -> Result<Option<Vec<u8>>> {
        guarded(|| match self.open_table(raw(table)) {
            Ok(table) => get(&table, key),
            Err(TableError::TableDoesNotExist(_)) => Ok(None),
            Err(error) => Err(failed(error)),
        })
    }

    fn scan(&self, table: &'static str, from: &[u8], visit: &mut Visit<'_>) -> Result<()> {
        scan_guarded(visit, |visit| match self.open_table(raw(table)) {
            Ok(table) => scan(&table, from, visit),
            Err(TableError::TableDoesNotExist(_)) => Ok(()),
            Err(error) => Err(failed(error)),
        })
    }
}

/// A transaction of the database. What is dropped in a damaged file may break off, too.
struct Writing(Option<WriteTransaction>);

impl Writing {
    fn txn(&self) -> Result<&WriteTransaction> {
        self.0.as_ref().ok_or_else(|| CatalogError::Bug("a transaction that has ended".to_owned()))
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        let txn = self.0.take();
        let _ = guarded(|| {
            drop(txn);
            Ok(())
        });
    }
}

impl Rows for Writing {
    fn get(&self, table: &'static str, key: &[u8]) -> Result<Option<Vec<u8>>> {
        guarded(|| get(&self.txn()?.open_table(raw(table)).map_err(failed)?, key))
    }

    fn scan(&self, table: &'static str, from: &[u8], visit: &mut Visit<'_>) -> Result<()> {
        scan_guarded(visit, |visit| scan(&self.txn()?.open_table(raw(table)).map_err(failed)?, from, visit))
    }
}

impl RowsMut for Writing {
    fn put(&self, table: &'static str, key: &[u8], value: &[u8]) -> Result<()> {
        guarded(|| {
            let mut table = self.txn()?.open_table(raw(table)).map_err(failed)?;
            table.insert(key, value).map(|_| ()).map_err(failed)
        })
    }

    fn remove(&self, table: &'static str, key: &[u8]) -> Result<bool> {
        guarded(|| {
            let mut table = self.txn()?.open_table(raw(table)).map_err(failed)?;
            let removed = table.remove(key).map_err(failed)?;
            Ok(removed.is_some())
        })
    }
}

impl Transaction for Writing {
    fn commit(mut self: Box<Self>) -> Result<()> {
        let txn =
            self.0.take().ok_or_else(|| CatalogError::Bug("a transaction that has ended".to_owned()))?;
        guarded(|| txn.commit().map_err(failed))
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
    match error.into() {
        redb::Error::Corrupted(why) => CatalogError::DamagedFile(why),
        // A wrong reference points beyond the end of the file.
        redb::Error::Io(error) if error.kind() == ErrorKind::UnexpectedEof => {
            CatalogError::DamagedFile("a reference leads beyond its end".to_owned())
        }
        // An earlier call panicked over the file, and the database does not recover from that.
        redb::Error::LockPoisoned(_) => {
            CatalogError::DamagedFile("the database broke off over it before".to_owned())
        }
        // The program defines each table in only one way.
        error @ (redb::Error::TableTypeMismatch { .. }
        | redb::Error::TableIsMultimap(_)
        | redb::Error::TableIsNotMultimap(_)
        | redb::Error::TypeDefinitionChanged { .. }) => CatalogError::DamagedFile(error.to_string()),
        other => CatalogError::Failed(other.to_string()),
    }
}
