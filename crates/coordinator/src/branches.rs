//! Catalogs that are kept aside, because another life of the coordinator went on from an older state: what they committed is taken
//! from the nodes, unasked, as soon as these are back (HEALING.md, "Broken history: safe mode"). What is compared, and what is
//! taken: `catalog::Branch`, `Catalog::recover`.
//!
//! ```text
//!   kept aside ─▶ safe mode ─▶ nodes came: what the branch committed is taken ─▶ nothing is left, all were asked ─▶ settled
//!                                                    └─ listed by `catalog recover`, for people to decide ─────────┘
//! ```

use crate::error::{CoordinatorError, Result};
use crate::operator::Operator;
use crate::records::Records;
use catalog::Branch;
use catalog::aside::{self, Aside};
use disk::Disk;
use model::{NodeId, Stamp};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use worker::{Step, Task, Worker};

/// Nodes that come are looked for this often.
const LOOK: Duration = Duration::from_millis(500);

/// What could not be done is tried again after this long.
const RETRY: Duration = Duration::from_secs(10);

/// What is kept aside.
#[derive(Debug)]
pub(crate) struct Branches {
    disk: Arc<dyn Disk>,
    records: Records,
    /// Files are opened by one at a time.
    reading: tokio::sync::Mutex<()>,
}

impl Branches {
    pub fn new(disk: Arc<dyn Disk>, records: Records) -> Branches {
        Branches { disk, records, reading: tokio::sync::Mutex::default() }
    }

    /// Those of which something may be left to decide.
    async fn open(&self) -> Result<Vec<Aside>> {
        let disk = Arc::clone(&self.disk);
        let asides = self.records.run(move |_| aside::asides(disk.as_ref())).await?;
        Ok(asides.into_iter().filter(|aside| !aside.is_settled).collect())
    }

    pub async fn are_any(&self) -> Result<bool> {
        Ok(!self.open().await?.is_empty())
    }

    /// How they differ from the history now.
    pub async fn compared(&self) -> Result<Vec<Branch>> {
        let _reading = self.reading.lock().await;
        let mut branches = Vec::new();
        for aside in self.open().await? {
            let disk = Arc::clone(&self.disk);
            let compare = move |history: &catalog::Catalog| {
                let there = aside::open(&disk, &aside)?;
                let branch = Branch::of(&there, history);
                there.close();
                branch
            };
            branches.push(self.records.run(compare).await?);
        }
        Ok(branches)
    }

    /// Nothing of them is left to decide. They stay, under names that say so.
    pub async fn settle(&self) -> Result<()> {
        let _reading = self.reading.lock().await;
        for aside in self.open().await? {
            let disk = Arc::clone(&self.disk);
            self.records.run(move |_| aside::settle(disk.as_ref(), &aside)).await?;
            tracing::warn!(last = %aside.last, "nothing is left to decide of the catalog that is kept aside");
        }
        Ok(())
    }

    /// For people: which there are; empty if there are none.
    pub async fn text(&self) -> Result<String> {
        let files: Vec<String> =
            self.open().await?.iter().map(|aside| format!("'{}'", aside.file())).collect();
        if files.is_empty() {
            return Ok(String::new());
        }
        Ok(format!(
            "another coordinator took over from an older state of the catalog, and the coordinator's own one is kept aside in its folder \
             as {}: what that one committed is taken as nodes come back",
            files.join(" and ")
        ))
    }
}

/// Whether a change is one of theirs.
pub(crate) fn remember(branches: &[Branch], change: Stamp) -> bool {
    branches.iter().any(|branch| branch.remembers(change))
}

/// Takes what they committed, each time that nodes have come, until nothing is left of it.
pub(crate) struct Adopter {
    pub operator: Arc<Operator>,
    /// Who had been asked.
    asked: BTreeSet<NodeId>,
}

impl Adopter {
    pub fn new(operator: Arc<Operator>) -> Adopter {
        Adopter { operator, asked: BTreeSet::new() }
    }
}

impl Worker for Adopter {
    type Error = CoordinatorError;

    fn name(&self) -> &'static str {
        "branches"
    }

    fn pause(&self) -> Duration {
        RETRY
    }

    async fn step(&mut self, task: &Task) -> Result<Step> {
        let living = self.operator.living();
        if living.is_subset(&self.asked) || !self.operator.branches.are_any().await? {
            return Ok(Step::Wait(LOOK));
        }
        let taken = self.operator.take_from_branches().await?;
        self.asked = living;
        task.note(|report| {
            report.done += taken.objects;
            report.detail =
                format!("{} objects taken, {} versions left to decide", taken.objects, taken.left);
        });
        Ok(Step::Wait(LOOK))
    }
}

/// What came of it.
pub(crate) struct Adopted {
    pub objects: u64,
    /// Versions that are listed for people.
    pub left: usize,
}
