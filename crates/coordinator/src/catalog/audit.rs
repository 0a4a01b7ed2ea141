//! The record of repairs: the last so many, numbered.

use super::Catalog;
use super::rows::AuditRow;
use super::table::{Key, Read, Row, Scan, decode};
use crate::error::Result;

impl Catalog {
    /// Adds an entry, and forgets the one that is `most` older.
    pub fn add_audit(&self, number: u64, json: &str, most: u64) -> Result<()> {
        self.change(|txn| {
            txn.put(&number, &AuditRow { json: json.to_owned() })?;
            if let Some(old) = number.checked_sub(most) {
                txn.remove::<AuditRow>(&old)?;
            }
            Ok(())
        })
    }

    /// The entries from that number on.
    pub fn audit(&self, from: u64) -> Result<Vec<String>> {
        self.view(|txn| {
            let mut entries = Vec::new();
            txn.raw_scan(AuditRow::TABLE, &from.to_bytes(), &mut |key, value| {
                entries.push(decode::<AuditRow>(key, value)?.json);
                Ok(Scan::Next)
            })?;
            Ok(entries)
        })
    }

    /// The number of the next entry.
    pub fn audit_end(&self) -> Result<u64> {
        self.view(|txn| Ok(txn.all::<AuditRow>(&[])?.last().map_or(0, |(number, _)| number + 1)))
    }
}
