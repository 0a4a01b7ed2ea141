//! Facts that a store notes about itself: the words of its starts, and what it has heard of the catalog. Reading does not need them on disk;
//! writing does (docs/decisions/0061).

use super::{Folder, Identity, Result, Store, StoreError};
use model::{ClusterId, Incarnation};
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};

impl Folder {
    pub(super) fn locked_identity(&self) -> MutexGuard<'_, Identity> {
        self.identity.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the store's identity durably. If the disk takes no writes, the change lasts as long as the process, nothing is written before it
    /// is on disk, and each later change saves it too.
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

    /// Saves the store's identity if it is not on disk yet; every write needs that first.
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
    /// Returns the store's identity: its node, its id, and the words of its starts.
    pub fn identity(&self) -> Identity {
        self.folder.locked_identity().clone()
    }

    /// Returns the word of this start.
    pub fn incarnation(&self) -> Incarnation {
        self.folder.incarnation
    }

    /// Notes durably that this start is about to register. If the registration is accepted but its reply is lost, the next start can show this
    /// word. Returns the former identity.
    ///
    /// On a disk that takes no writes the word is not noted. The coordinator then treats the next start like that of a folder that was set back.
    /// That is right for what this start heard, and nothing else is lost because this start writes nothing.
    pub fn try_start(&self) -> Result<Identity> {
        let before = self.identity();
        let word = self.folder.incarnation;
        self.folder.change(|identity| {
            let is_known = identity.accepted == Some(word) || identity.tried.contains(&word);
            if is_known { identity.clone() } else { identity.with_tried(word) }
        })?;
        Ok(before)
    }

    /// Notes that the coordinator of `cluster` welcomed this start, durably if the disk takes writes. The store belongs to that cluster from then
    /// on. Returns [`StoreError::WrongCluster`] if it belongs to another.
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
