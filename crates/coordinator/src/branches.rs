//! Catalogs that are kept aside, because another life of the coordinator went on from an older state (HEALING.md, "Broken history:
//! safe mode"). What is compared: `catalog::Branch`; who takes what they committed: `recovering.rs`.
//!
//! ```text
//!   kept aside ─▶ safe mode ─▶ nodes came: what the branch committed is taken ─▶ nothing is left, all were asked ─▶ settled
//!                                                    └─ listed by `catalog recover`, for people to decide ─────────┘
//! ```

use crate::error::{CoordinatorError, Result};
use crate::records::Records;
use catalog::aside::{self, Aside};
use catalog::{Branch, Catalog, CatalogError};
use disk::Disk;
use model::{NodeId, Stamp};
use std::sync::Arc;

/// Who has heard of the changes of catalogs that are kept aside: nodes begin at 1.
pub(crate) const ITSELF: NodeId = NodeId(0);

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
        let asides = self.read(move |_| aside::asides(disk.as_ref())).await?;
        Ok(asides.into_iter().filter(|aside| !aside.is_settled).collect())
    }

    /// What fails with a file that is kept aside is no failure of the catalog.
    async fn read<T: Send + 'static>(
        &self,
        call: impl FnOnce(&Catalog) -> catalog::Result<T> + Send + 'static,
    ) -> Result<T> {
        let failed = |error: CatalogError| {
            CoordinatorError::Conflict(format!("what is kept aside of the catalog: {error}"))
        };
        self.records.decide(move |catalog| call(catalog).map_err(failed)).await
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
            let compare = move |history: &Catalog| {
                let there = aside::open(&disk, &aside)?;
                let branch = Branch::of(&there, history);
                there.close();
                branch
            };
            branches.push(self.read(compare).await?);
        }
        Ok(branches)
    }

    /// Nothing of them is left to decide. They stay, under names that say so.
    pub async fn settle(&self) -> Result<()> {
        let _reading = self.reading.lock().await;
        for aside in self.open().await? {
            let disk = Arc::clone(&self.disk);
            self.read(move |_| aside::settle(disk.as_ref(), &aside)).await?;
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
