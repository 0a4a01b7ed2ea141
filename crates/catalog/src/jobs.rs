//! Jobs that go on after a restart, and what operators want of tasks.

use crate::error::Result;
use crate::rows::{JobRow, MetaKey, TaskRow};
use crate::table::{Change, Read};
use crate::{Catalog, meta};
use model::Switch;
use std::collections::BTreeMap;

/// Tasks of version 6 that one does now.
const BECAME_THE_HEALER: [&str; 2] = ["repair-damaged", "lacks"];

impl Change<'_> {
    /// What an operator wants of a task stays so under its new name.
    pub(crate) fn take_over_switches(&self) -> Result<()> {
        for before in BECAME_THE_HEALER.map(str::to_owned) {
            if let Some(row) = self.get::<TaskRow>(&before)? {
                self.remove::<TaskRow>(&before)?;
                self.put(&"healer".to_owned(), &row)?;
            }
        }
        Ok(())
    }
}

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

    /// The job is over, well or not; nobody wants anything of its task any more.
    pub fn end_job(&self, job: u64, task: &str) -> Result<()> {
        self.change(|txn| {
            txn.remove::<TaskRow>(&task.to_owned())?;
            txn.remove::<JobRow>(&job).map(|_| ())
        })
    }

    /// Notes what an operator wants of a task.
    pub fn set_switch(&self, task: &str, switch: Switch) -> Result<()> {
        self.change(|txn| match switch {
            Switch::Go => txn.remove::<TaskRow>(&task.to_owned()).map(|_| ()),
            Switch::Pause | Switch::Stop => txn.put(&task.to_owned(), &TaskRow { switch }),
        })
    }

    /// What operators want of tasks that are not to go on.
    pub fn switches(&self) -> Result<BTreeMap<String, Switch>> {
        self.view(|txn| {
            Ok(txn.all::<TaskRow>(&[])?.into_iter().map(|(task, row)| (task, row.switch)).collect())
        })
    }

    /// Jobs that have not ended.
    pub fn jobs(&self) -> Result<Vec<(u64, JobRow)>> {
        self.view(|txn| txn.all::<JobRow>(&[]))
    }
}
