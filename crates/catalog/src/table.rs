//! Rows and keys as bytes, and typed access to them within a transaction.
//!
//! A stored row is one version byte, the postcard encoding of a struct, and a checksum (`soundness/checksum.rs`). A key is written so
//! that its byte order is the order wanted of a scan: numbers big-endian, names as they are.

use crate::backend::{Rows, RowsMut, Scan, Visit};
use crate::error::{CatalogError, Result, damaged_row};
use crate::form::Stored;
use crate::soundness::Soundness;
use crate::soundness::checksum::{self, HAS_CHECKSUM};
use std::cell::{Cell, RefCell};

/// A kind of row: its table, key and version.
pub(crate) trait Row: Stored {
    /// The key.
    type Key: Key;
    /// The table's name.
    const TABLE: &'static str;
    /// The version byte that is written.
    const VERSION: u8 = 1;

    /// A row of an older version that is still read, by the bytes after its version byte; the others are refused.
    fn of_older(_version: u8, _bytes: &[u8]) -> Option<Self> {
        None
    }
}

/// A key.
pub(crate) trait Key: Sized {
    /// As stored.
    fn to_bytes(&self) -> Vec<u8>;
    /// From what was stored; `None` if it is no such key.
    fn from_bytes(bytes: &[u8]) -> Option<Self>;
}

/// Reading, from a snapshot or within a change.
pub(crate) trait Read {
    fn rows(&self) -> &dyn Rows;

    /// A scan met a row that does not pass its check: it goes on without that row, or ends with this error.
    fn skip(&self, error: CatalogError) -> Result<()> {
        Err(error)
    }

    /// Visits rows as they are stored, from key `from` on, in the order of their keys.
    fn raw_scan(&self, table: &'static str, from: &[u8], visit: &mut Visit<'_>) -> Result<()> {
        self.rows().scan(table, from, visit)
    }

    fn get<R: Row>(&self, key: &R::Key) -> Result<Option<R>> {
        let key = key.to_bytes();
        self.rows().get(R::TABLE, &key)?.map(|value| decode::<R>(&key, &value)).transpose()
    }

    /// The same of a row without which a damaged catalog is still read: if it is damaged, that is noted, and it is as if there were none.
    fn get_if_sound<R: Row>(&self, key: &R::Key) -> Result<Option<R>> {
        match self.get::<R>(key) {
            Err(error) if error.is_damage() => self.skip(error).map(|()| None),
            found => found,
        }
    }

    /// Visits the rows whose keys begin with `prefix`.
    fn scan<R: Row>(&self, prefix: &[u8], mut visit: impl FnMut(R::Key, R) -> Result<Scan>) -> Result<()> {
        self.raw_scan(R::TABLE, prefix, &mut |key, value| {
            match typed::<R>(key, value) {
                Ok(_) if !key.starts_with(prefix) => Ok(Scan::Stop),
                Ok((key, row)) => visit(key, row),
                // Its key may be wrong: others with the prefix may follow.
                Err(error) => self.skip(error).map(|()| Scan::Next),
            }
        })
    }

    /// Visits the rows from a key on.
    fn scan_from<R: Row>(&self, from: &[u8], mut visit: impl FnMut(R::Key, R) -> Result<Scan>) -> Result<()> {
        self.raw_scan(R::TABLE, from, &mut |key, value| match typed::<R>(key, value) {
            Ok((key, row)) => visit(key, row),
            Err(error) => self.skip(error).map(|()| Scan::Next),
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
pub(crate) struct Snapshot<'a> {
    rows: &'a dyn Rows,
    /// Scans pass over damaged rows, and note them here. `None`: they end with an error.
    noting: Option<&'a Soundness>,
}

impl<'a> Snapshot<'a> {
    /// Scans end with the first row that does not pass its check.
    pub(crate) fn strict(rows: &'a dyn Rows) -> Snapshot<'a> {
        Snapshot { rows, noting: None }
    }

    /// Scans see what passes its check, and note the rest.
    pub(crate) fn lenient(rows: &'a dyn Rows, soundness: &'a Soundness) -> Snapshot<'a> {
        Snapshot { rows, noting: Some(soundness) }
    }
}

/// A row that was put, or removed.
pub(crate) struct Written {
    pub table: &'static str,
    pub key: Vec<u8>,
    pub value: Option<Vec<u8>>,
}

/// One transaction: all of it becomes durable, or none.
pub(crate) struct Change<'a> {
    rows: &'a dyn RowsMut,
    /// Whether it has written or removed a row.
    wrote: Cell<bool>,
    /// What it put and removed, in order.
    journal: RefCell<Vec<Written>>,
}

impl Read for Snapshot<'_> {
    fn rows(&self) -> &dyn Rows {
        self.rows
    }

    fn skip(&self, error: CatalogError) -> Result<()> {
        match self.noting {
            Some(soundness) if error.is_damage() => {
                soundness.note(&error);
                Ok(())
            }
            _ => Err(error),
        }
    }
}

impl Read for Change<'_> {
    fn rows(&self) -> &dyn Rows {
        self.rows
    }
}

impl<'a> Change<'a> {
    pub(crate) fn new(rows: &'a dyn RowsMut) -> Change<'a> {
        Change { rows, wrote: Cell::new(false), journal: RefCell::default() }
    }

    /// Whether anything is other than before.
    pub(crate) fn has_written(&self) -> bool {
        self.wrote.get()
    }

    pub(crate) fn put<R: Row>(&self, key: &R::Key, row: &R) -> Result<()> {
        let value = postcard::to_extend(&row.form(), vec![R::VERSION]);
        let mut value = value.map_err(|e| CatalogError::Bug(e.to_string()))?;
        let key = key.to_bytes();
        checksum::protect(R::TABLE, &key, &mut value);
        self.raw_put(R::TABLE, &key, &value)
    }

    /// Writes a row as it is stored, with its checksum.
    pub(crate) fn raw_put(&self, table: &'static str, key: &[u8], value: &[u8]) -> Result<()> {
        self.wrote.set(true);
        self.note(table, key, Some(value));
        self.rows.put(table, key, value)
    }

    fn note(&self, table: &'static str, key: &[u8], value: Option<&[u8]>) {
        let written = Written { table, key: key.to_vec(), value: value.map(<[u8]>::to_vec) };
        self.journal.borrow_mut().push(written);
    }

    /// What it did.
    pub(crate) fn journal(&self) -> Vec<Written> {
        self.journal.take()
    }

    /// Whether there was such a row.
    pub(crate) fn remove<R: Row>(&self, key: &R::Key) -> Result<bool> {
        let key = key.to_bytes();
        let was_there = self.rows.remove(R::TABLE, &key)?;
        if was_there {
            self.wrote.set(true);
            self.note(R::TABLE, &key, None);
        }
        Ok(was_there)
    }
}

/// A key and its row, of what is stored.
pub(crate) fn typed<R: Row>(key: &[u8], value: &[u8]) -> Result<(R::Key, R)> {
    let row = decode::<R>(key, value)?;
    let typed = R::Key::from_bytes(key).ok_or_else(|| damaged_row(R::TABLE, key, "the key is none"))?;
    Ok((typed, row))
}

/// Reads a stored row: its checksum must hold, and every byte of it must be used.
pub(crate) fn decode<R: Row>(key: &[u8], value: &[u8]) -> Result<R> {
    let row = checksum::verified(R::TABLE, key, value)?;
    match row.split_first() {
        Some((version, row)) => parse::<R>(key, version & !HAS_CHECKSUM, row),
        None => Err(damaged_row(R::TABLE, key, "an empty row")),
    }
}

/// Reads a row of a catalog in which rows had no checksums.
pub(crate) fn decode_of_before<R: Row>(key: &[u8], value: &[u8]) -> Result<R> {
    match value.split_first() {
        Some((version, row)) => parse::<R>(key, *version, row),
        None => Err(damaged_row(R::TABLE, key, "an empty row")),
    }
}

fn parse<R: Row>(key: &[u8], version: u8, row: &[u8]) -> Result<R> {
    let bad = |why: &str| damaged_row(R::TABLE, key, why);
    match version {
        version if version == R::VERSION => match postcard::take_from_bytes::<R::Form>(row) {
            Ok((form, [])) => R::of(form).ok_or_else(|| bad("a value that is none")),
            Ok(_) => Err(bad("bytes are left over")),
            Err(error) => Err(bad(&error.to_string())),
        },
        version => R::of_older(version, row).ok_or_else(|| bad(&format!("row version {version}"))),
    }
}

pub(crate) fn malformed(what: &'static str, why: &str) -> CatalogError {
    CatalogError::Malformed { what, why: why.to_owned() }
}
