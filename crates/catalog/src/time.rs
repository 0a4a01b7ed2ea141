//! The cluster's clock, as far as it outlives a coordinator. The catalog reads no clock: it keeps what it is told.

use crate::Catalog;
use crate::error::Result;
use crate::rows::{ClockRow, MetaKey};
use crate::table::Read;

impl Catalog {
    /// The clock as it was noted last; `None` if it never was.
    pub fn clock(&self) -> Result<Option<ClockRow>> {
        self.view(|txn| txn.get::<ClockRow>(&MetaKey))
    }

    /// Notes it.
    pub fn note_clock(&self, row: &ClockRow) -> Result<()> {
        self.change(|txn| txn.put(&MetaKey, row))
    }
}
