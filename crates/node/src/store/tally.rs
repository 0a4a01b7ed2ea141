//! How much is stored, by folder: counted when the store is opened, kept by what this process writes and deletes, and counted
//! anew where a list shows that files came or went by other hands.

use super::Result;
use super::inventory::Usage;
use super::names::{CopyId, Found, data_path, first_byte};
use disk::Disk;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What one folder holds.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Tally {
    usage: Usage,
    /// The ids of its whole copies, added up, so that one file in another's place is noticed. It keeps nobody from cheating.
    names: u128,
    /// A file turned out to be longer or shorter than it was written, so the bytes may be other ones by now.
    is_doubtful: bool,
}

impl Tally {
    /// By names alone: lengths are not known.
    fn of_names(found: &Found) -> Tally {
        let mut tally = Tally::default();
        for (&copy, pair) in &found.pairs {
            match pair.is_whole() {
                true => tally.came(copy, 0),
                false => tally.usage.half_blocks += 1,
            }
        }
        tally
    }

    /// Asks for the length of each copy; opens none.
    pub(super) fn with_lengths(disk: &dyn Disk, found: &Found) -> Result<Tally> {
        let mut tally = Tally::of_names(found);
        for (&copy, _) in found.pairs.iter().filter(|(_, pair)| pair.is_whole()) {
            tally.usage.stored_bytes += disk.len(&data_path(copy))?;
        }
        Ok(tally)
    }

    fn has_names_of(&self, other: &Tally) -> bool {
        let names = |tally: &Tally| (tally.names, tally.usage.blocks, tally.usage.half_blocks);
        names(self) == names(other)
    }

    fn came(&mut self, copy: CopyId, stored_bytes: u64) {
        self.usage.blocks += 1;
        self.usage.stored_bytes += stored_bytes;
        self.names = self.names.wrapping_add(number(copy));
    }

    fn halved(&mut self, copy: CopyId, stored_bytes: u64) {
        self.usage.blocks = self.usage.blocks.saturating_sub(1);
        self.usage.stored_bytes = self.usage.stored_bytes.saturating_sub(stored_bytes);
        self.usage.half_blocks += 1;
        self.names = self.names.wrapping_sub(number(copy));
    }
}

/// Ids are random; generations of one block follow each other.
fn number(copy: CopyId) -> u128 {
    copy.block.0.wrapping_add(u128::from(copy.generation))
}

/// Of all folders. Who changes a folder's names holds its lock.
#[derive(Default, Debug)]
pub(super) struct Totals {
    by_folder: Mutex<BTreeMap<u8, Tally>>,
}

impl Totals {
    fn locked(&self) -> MutexGuard<'_, BTreeMap<u8, Tally>> {
        self.by_folder.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Everything.
    pub(super) fn usage(&self) -> Usage {
        let mut sum = Usage::default();
        for Tally { usage, .. } in self.locked().values() {
            sum.blocks += usage.blocks;
            sum.stored_bytes += usage.stored_bytes;
            sum.half_blocks += usage.half_blocks;
        }
        sum
    }

    /// Whether what was counted of a folder are these names.
    pub(super) fn are_of(&self, first_byte: u8, found: &Found) -> bool {
        let listed = Tally::of_names(found);
        self.locked().entry(first_byte).or_default().has_names_of(&listed)
    }

    /// Notes that a file of this copy has another length than it was written with: its folder is to be counted again.
    pub(super) fn doubt(&self, copy: CopyId) {
        self.locked().entry(first_byte(copy.block)).or_default().is_doubtful = true;
    }

    /// Whether the folder is to be counted again.
    pub(super) fn is_doubtful(&self, first_byte: u8) -> bool {
        self.locked().get(&first_byte).is_some_and(|tally| tally.is_doubtful)
    }

    /// Returns a folder that is to be counted again.
    pub(super) fn doubtful(&self) -> Option<u8> {
        self.locked().iter().find(|(_, tally)| tally.is_doubtful).map(|(folder, _)| *folder)
    }

    /// A folder was counted.
    pub(super) fn count(&self, first_byte: u8, tally: Tally) {
        self.locked().insert(first_byte, tally);
    }

    /// A copy has both its names.
    pub(super) fn came(&self, copy: CopyId, stored_bytes: u64) {
        self.locked().entry(first_byte(copy.block)).or_default().came(copy, stored_bytes);
    }

    /// Only the sidecar of a copy is left.
    pub(super) fn halved(&self, copy: CopyId, stored_bytes: u64) {
        self.locked().entry(first_byte(copy.block)).or_default().halved(copy, stored_bytes);
    }

    /// Half a copy went.
    pub(super) fn half_went(&self, copy: CopyId) {
        let mut locked = self.locked();
        let tally = locked.entry(first_byte(copy.block)).or_default();
        tally.usage.half_blocks = tally.usage.half_blocks.saturating_sub(1);
    }
}
