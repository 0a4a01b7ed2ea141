//! The record of repairs: the last so many, numbered.

use crate::Catalog;
use crate::backend::Scan;
use crate::error::Result;
use crate::rows::AuditRow;
use crate::table::{Key, Read, Row, decode};

impl Catalog {
    /// Adds an entry, and forgets the one that is `most` older.
    pub fn add_audit(&self, number: u64, row: &AuditRow, most: u64) -> Result<()> {
        self.change(|txn| {
            txn.put(&number, row)?;
            if let Some(old) = number.checked_sub(most) {
                txn.remove::<AuditRow>(&old)?;
            }
            Ok(())
        })
    }

    /// The entries from that number on.
    pub fn audit(&self, from: u64) -> Result<Vec<AuditRow>> {
        self.view(|txn| {
            let mut entries = Vec::new();
            txn.raw_scan(AuditRow::TABLE, &from.to_bytes(), &mut |key, value| {
                entries.push(decode::<AuditRow>(key, value)?);
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
