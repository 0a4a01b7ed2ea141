//! The bytes of a simulated file: as they are, and as they would be after a power cut.

use super::faults::LostWrites;
use super::media::Chance;
use std::ops::Range;

/// A page is written whole or not at all; what spans pages can be torn. The page size of the operating system.
pub(super) const PAGE_BYTES: usize = 4096;

/// A file's bytes.
#[derive(Debug, Default)]
pub(super) struct Content {
    live: Vec<u8>,
    durable: Vec<u8>,
    /// Shortest length since the last sync: durable bytes past it are replaced by zeros or later writes.
    floor: usize,
    /// Written since the last sync. May reach past the end if the file was cut since.
    dirty: Vec<Range<usize>>,
    pub(super) lost: Option<LostWrites>,
}

impl Content {
    pub(super) fn len(&self) -> u64 {
        self.live.len() as u64
    }

    pub(super) fn read_at(&self, offset: u64, out: &mut [u8]) -> usize {
        let from = usize::try_from(offset).map_or(self.live.len(), |at| at.min(self.live.len()));
        let bytes = out.len().min(self.live.len() - from);
        out[..bytes].copy_from_slice(&self.live[from..from + bytes]);
        bytes
    }

    /// Writes `bytes`; the caller has made sure that the end fits into memory.
    pub(super) fn write_at(&mut self, offset: u64, bytes: &[u8]) {
        let range = offset as usize..offset as usize + bytes.len();
        if self.live.len() < range.end {
            self.live.resize(range.end, 0);
        }
        self.store(range.clone(), bytes);
        match self.dirty.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => self.dirty.push(range),
        }
    }

    /// Copies what is not lost of a write.
    fn store(&mut self, range: Range<usize>, bytes: &[u8]) {
        let Some(lost) = &mut self.lost else {
            self.live[range].copy_from_slice(bytes);
            return;
        };
        let mut from = range.start;
        while from < range.end {
            let to = range.end.min((from / PAGE_BYTES + 1) * PAGE_BYTES);
            if !lost.takes_next() {
                self.live[from..to].copy_from_slice(&bytes[from - range.start..to - range.start]);
            }
            from = to;
        }
    }

    pub(super) fn live(&self) -> &[u8] {
        &self.live
    }

    pub(super) fn set_len(&mut self, bytes: u64) {
        self.live.resize(bytes as usize, 0);
        self.floor = self.floor.min(self.live.len());
    }

    pub(super) fn sync(&mut self) {
        self.durable.truncate(self.floor);
        self.durable.resize(self.live.len(), 0);
        for range in std::mem::take(&mut self.dirty) {
            let range = range.start.min(self.live.len())..range.end.min(self.live.len());
            self.durable[range.clone()].copy_from_slice(&self.live[range]);
        }
        self.floor = self.live.len();
    }

    /// Goes back to the last synced bytes, mixed with unsynced pages if `chance` is given.
    pub(super) fn revert(&mut self, chance: Option<&mut Chance>) {
        if let Some(chance) = chance {
            self.keep_some(chance);
        }
        self.live.clone_from(&self.durable);
        self.dirty.clear();
        self.floor = self.live.len();
    }

    fn keep_some(&mut self, chance: &mut Chance) {
        if chance.flip() {
            self.durable.truncate(self.floor);
            self.durable.resize(self.live.len(), 0);
        }
        let end = self.durable.len().min(self.live.len());
        for range in &self.dirty {
            for page in range.start / PAGE_BYTES..range.end.div_ceil(PAGE_BYTES) {
                let from = (page * PAGE_BYTES).max(range.start).min(end);
                let to = ((page + 1) * PAGE_BYTES).min(range.end).min(end);
                if chance.flip() {
                    self.durable[from..to].copy_from_slice(&self.live[from..to]);
                }
            }
        }
    }

    /// Changes up to `bytes` bytes at `offset`, the present and the durable ones; `change` is not called where there
    /// are none.
    pub(super) fn rot(&mut self, offset: u64, bytes: usize, change: impl Fn(&mut [u8])) {
        let Ok(from) = usize::try_from(offset) else { return };
        for content in [&mut self.live, &mut self.durable] {
            let to = content.len().min(from.saturating_add(bytes));
            if from < to {
                change(&mut content[from..to]);
            }
        }
    }

    pub(super) fn damage(&mut self, change: impl Fn(&mut Vec<u8>)) {
        change(&mut self.live);
        self.durable.clone_from(&self.live);
        self.dirty.clear();
        self.floor = self.live.len();
    }
}
