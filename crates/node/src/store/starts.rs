//! What a store notes of itself: the words of its starts, and what it has heard of the catalog. Reading needs none of it to be
//! noted; writing does (docs/decisions/0061).

use super::{Folder, Identity, Result, Store, StoreError};
use model::{ClusterId, Incarnation};
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};

impl Folder {
    pub(super) fn locked_identity(&self) -> MutexGuard<'_, Identity> {
        self.identity.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what the store says of itself, durably. A disk that takes no writes is no error: the change holds as long as the process
    /// lives, nothing is written before it is noted, and each later change notes it too.
    pub(super) fn change(&self, to: impl FnOnce(&Identity) -> Identity) -> Result<()> {
        let mut identity = self.locked_identity();
        let changed = to(&identity);
        let was_noted = !self.is_unnoted.load(Ordering::Relaxed);
        if was_noted && *identity == changed {
            return Ok(());
        }
        let saved = changed.save(self.disk.as_ref());
        match &saved {
            Ok(()) => {}
            Err(StoreError::Disk(refused)) if refused.refuses_writes() => {
                if was_noted {
                    tracing::warn!(%refused, "the disk takes no writes: blocks can be read, and what is new is kept in memory");
                }
            }
            Err(_) => return saved,
        }
        self.is_unnoted.store(saved.is_err(), Ordering::Relaxed);
        *identity = changed;
        Ok(())
    }

    /// Before anything is written: what the store says of itself is noted.
    ///
    /// Errors: [`StoreError::TakesNoWrites`].
    pub(super) fn must_be_noted(&self) -> Result<()> {
        if self.is_unnoted.load(Ordering::Relaxed) {
            self.change(Identity::clone)?;
        }
        match self.is_unnoted.load(Ordering::Relaxed) {
            true => Err(StoreError::TakesNoWrites { why: "its start cannot be noted".to_owned() }),
            false => Ok(()),
        }
    }
}

impl Store {
    /// Whose store it is, which one, and the words of its starts.
    pub fn identity(&self) -> Identity {
        self.folder.locked_identity().clone()
    }

    /// The word of this start.
    pub fn incarnation(&self) -> Incarnation {
        self.folder.incarnation
    }

    /// Notes, durably, that this start is about to register: should it be accepted and nobody here hear of it, the next
    /// start can show its word. Returns the identity as it was before.
    ///
    /// On a disk that takes no writes the word is not noted. The next start is taken for one of a folder that was set back,
    /// which is true of what this one heard, and nothing else is lost: it writes nothing.
    pub fn try_start(&self) -> Result<Identity> {
        let before = self.identity();
        let word = self.folder.incarnation;
        self.folder.change(|identity| {
            let is_known = identity.accepted == Some(word) || identity.tried.contains(&word);
            if is_known { identity.clone() } else { identity.with_tried(word) }
        })?;
        Ok(before)
    }

    /// Notes, durably if the disk takes writes, that the coordinator of `cluster` welcomed this start. The store belongs to that
    /// cluster for good. [`StoreError::WrongCluster`] if it belongs to another.
    pub fn welcomed(&self, cluster: ClusterId) -> Result<()> {
        if let Some(found) = self.identity().cluster.filter(|found| *found != cluster) {
            return Err(StoreError::WrongCluster { expected: cluster, found });
        }
        let accepted = Some(self.folder.incarnation);
        self.folder.change(|identity| Identity {
            cluster: Some(cluster),
            accepted,
            tried: Vec::new(),
            ..identity.clone()
        })
    }
}
