//! Jobs that go on after a restart.

use super::rows::{JobRow, MetaKey};
use super::table::Read;
use super::{Catalog, meta};
use crate::error::Result;

impl Catalog {
    /// A number for a job; with a row, the job is resumed after a restart until it ends.
    pub fn begin_job(&self, row: Option<&JobRow>) -> Result<u64> {
        self.change(|txn| {
            let mut meta = meta(txn)?;
            let job = meta.next_job;
            meta.next_job += 1;
            txn.put(&MetaKey, &meta)?;
            if let Some(row) = row {
                txn.put(&job, row)?;
            }
            Ok(job)
        })
    }

    /// The job is over, well or not.
    pub fn end_job(&self, job: u64) -> Result<()> {
        self.change(|txn| txn.remove::<JobRow>(&job).map(|_| ()))
    }

    /// Jobs that have not ended.
    pub fn jobs(&self) -> Result<Vec<(u64, JobRow)>> {
        self.view(|txn| txn.all::<JobRow>(&[]))
    }
}
