//! Rows and keys as bytes, and typed access to them within a transaction.
//!
//! A stored row is one version byte and the postcard encoding of a struct. A key is written so that its byte order
//! is the order wanted of a scan: numbers big-endian, names as they are.

use crate::error::{CoordinatorError, Result};
use redb::{ReadTransaction, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction};
use serde::{Serialize, de::DeserializeOwned};

/// A kind of row: its table, key and version.
pub(crate) trait Row: Serialize + DeserializeOwned {
    /// The key.
    type Key: Key;
    /// The table's name.
    const TABLE: &'static str;
    /// The version byte that is written; others are refused.
    const VERSION: u8 = 1;
}

/// A key.
pub(crate) trait Key: Sized {
    /// As stored.
    fn to_bytes(&self) -> Vec<u8>;
    /// From what was stored; `None` if it is no such key.
    fn from_bytes(bytes: &[u8]) -> Option<Self>;
}

/// Whether a scan goes on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scan {
    /// With the next row.
    Next,
    /// Not at all.
    Stop,
}

/// Gets the key and the value of a row.
type Visit<'a> = dyn FnMut(&[u8], &[u8]) -> Result<Scan> + 'a;

type RawTable = TableDefinition<'static, &'static [u8], &'static [u8]>;

pub(crate) const fn raw(table: &'static str) -> RawTable {
    TableDefinition::new(table)
}

/// Reading, from a snapshot or within a change.
pub(crate) trait Read {
    fn raw_get(&self, table: &'static str, key: &[u8]) -> Result<Option<Vec<u8>>>;

    /// Visits rows from key `from` on, in key order.
    fn raw_scan(&self, table: &'static str, from: &[u8], visit: &mut Visit<'_>) -> Result<()>;

    fn get<R: Row>(&self, key: &R::Key) -> Result<Option<R>> {
        let key = key.to_bytes();
        self.raw_get(R::TABLE, &key)?.map(|value| decode::<R>(&key, &value)).transpose()
    }

    /// Visits the rows whose keys begin with `prefix`.
    fn scan<R: Row>(&self, prefix: &[u8], mut visit: impl FnMut(R::Key, R) -> Result<Scan>) -> Result<()> {
        self.raw_scan(R::TABLE, prefix, &mut |key, value| {
            if !key.starts_with(prefix) {
                return Ok(Scan::Stop);
            }
            let typed = R::Key::from_bytes(key).ok_or_else(|| malformed(R::TABLE, key, "the key is none"))?;
            visit(typed, decode::<R>(key, value)?)
        })
    }

    /// The rows whose keys begin with `prefix`.
    fn all<R: Row>(&self, prefix: &[u8]) -> Result<Vec<(R::Key, R)>> {
        let mut rows = Vec::new();
        self.scan::<R>(prefix, |key, row| {
            rows.push((key, row));
            Ok(Scan::Next)
        })?;
        Ok(rows)
    }
}

/// A consistent view of the catalog as it was when this was made.
pub(crate) struct Snapshot(ReadTransaction);

/// One transaction: all of it becomes durable, or none.
pub(crate) struct Change(WriteTransaction);

impl Snapshot {
    pub(super) fn begin(database: &redb::Database) -> Result<Snapshot> {
        Ok(Snapshot(database.begin_read().map_err(failed)?))
    }
}

impl Read for Snapshot {
    fn raw_get(&self, table: &'static str, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let table = self.0.open_table(raw(table)).map_err(failed)?;
        Ok(table.get(key).map_err(failed)?.map(|guard| guard.value().to_vec()))
    }

    fn raw_scan(&self, table: &'static str, from: &[u8], visit: &mut Visit<'_>) -> Result<()> {
        visit_all(&self.0.open_table(raw(table)).map_err(failed)?, from, visit)
    }
}

impl Change {
    pub(super) fn begin(database: &redb::Database) -> Result<Change> {
        Ok(Change(database.begin_write().map_err(failed)?))
    }

    /// Returns when everything is durable.
    pub(super) fn commit(self) -> Result<()> {
        self.0.commit().map_err(failed)
    }

    pub(super) fn create(&self, table: &'static str) -> Result<()> {
        self.0.open_table(raw(table)).map(|_| ()).map_err(failed)
    }

    pub(crate) fn put<R: Row>(&self, key: &R::Key, row: &R) -> Result<()> {
        let mut value = vec![R::VERSION];
        value = postcard::to_extend(row, value).map_err(|e| CoordinatorError::Bug(e.to_string()))?;
        self.raw_put(R::TABLE, &key.to_bytes(), &value)
    }

    pub(super) fn raw_put(&self, table: &'static str, key: &[u8], value: &[u8]) -> Result<()> {
        let mut table = self.0.open_table(raw(table)).map_err(failed)?;
        table.insert(key, value).map_err(failed)?;
        Ok(())
    }

    /// Whether there was such a row.
    pub(crate) fn remove<R: Row>(&self, key: &R::Key) -> Result<bool> {
        self.raw_remove(R::TABLE, &key.to_bytes())
    }

    pub(super) fn raw_remove(&self, table: &'static str, key: &[u8]) -> Result<bool> {
        let mut table = self.0.open_table(raw(table)).map_err(failed)?;
        let removed = table.remove(key).map_err(failed)?;
        Ok(removed.is_some())
    }
}

impl Read for Change {
    fn raw_get(&self, table: &'static str, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let table = self.0.open_table(raw(table)).map_err(failed)?;
        let value = table.get(key).map_err(failed)?.map(|guard| guard.value().to_vec());
        Ok(value)
    }

    fn raw_scan(&self, table: &'static str, from: &[u8], visit: &mut Visit<'_>) -> Result<()> {
        visit_all(&self.0.open_table(raw(table)).map_err(failed)?, from, visit)
    }
}

fn visit_all(
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

/// Reads a stored row; every byte of it must be used.
pub(super) fn decode<R: Row>(key: &[u8], value: &[u8]) -> Result<R> {
    match value.split_first() {
        Some((&version, rest)) if version == R::VERSION => match postcard::take_from_bytes::<R>(rest) {
            Ok((row, [])) => Ok(row),
            Ok(_) => Err(malformed(R::TABLE, key, "bytes are left over")),
            Err(error) => Err(malformed(R::TABLE, key, &error.to_string())),
        },
        Some((version, _)) => Err(malformed(R::TABLE, key, &format!("row version {version}"))),
        None => Err(malformed(R::TABLE, key, "an empty row")),
    }
}

pub(super) fn malformed(table: &'static str, key: &[u8], why: &str) -> CoordinatorError {
    let key = key.iter().map(|byte| format!("{byte:02x}")).collect();
    CoordinatorError::Malformed { table, key, why: why.to_owned() }
}

pub(super) fn failed(error: impl Into<redb::Error>) -> CoordinatorError {
    CoordinatorError::Catalog(error.into().to_string())
}
