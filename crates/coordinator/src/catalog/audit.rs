//! The record of repairs: the last so many, numbered.

use super::Catalog;
use super::rows::AuditRow;
use super::table::Read;
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
            let rows = txn.all::<AuditRow>(&[])?;
            Ok(rows.into_iter().filter(|(number, _)| *number >= from).map(|(_, row)| row.json).collect())
        })
    }

    /// The number of the next entry.
    pub fn audit_end(&self) -> Result<u64> {
        self.view(|txn| Ok(txn.all::<AuditRow>(&[])?.last().map_or(0, |(number, _)| number + 1)))
    }
}
