//! Lies of a medium: what it does to bytes that it took and acknowledged.

use super::CrashDisk;
use super::content::PAGE_BYTES;
use super::media::Chance;
use crate::Result;
use std::path::Path;

/// The bytes of a file at some time, to serve single pages of it later: see [`CrashDisk::keep_pages`].
#[derive(Clone, Debug)]
pub struct KeptPages(Vec<u8>);

impl KeptPages {
    /// How many pages of 4 KiB there are; the last may be cut.
    pub fn pages(&self) -> u64 {
        self.0.len().div_ceil(PAGE_BYTES) as u64
    }

    /// The bytes of one page; none beyond the end.
    pub fn page(&self, page: u64) -> &[u8] {
        usize::try_from(page).ok().and_then(|page| self.0.chunks(PAGE_BYTES).nth(page)).unwrap_or_default()
    }
}

/// Page writes to a file that do not arrive.
#[derive(Debug)]
pub(super) struct LostWrites {
    per_mille: u64,
    chance: Chance,
}

impl LostWrites {
    /// Whether the next one is lost.
    pub(super) fn takes_next(&mut self) -> bool {
        self.chance.below(1000) < self.per_mille
    }
}

impl CrashDisk {
    /// Flips a bit (0 to 7) of the byte at `offset` behind everybody's back and for good. Nothing happens beyond the
    /// end of the file.
    pub fn flip_bit(&self, path: &Path, offset: u64, bit: u8) -> Result<()> {
        let mut media = self.media();
        let node = media.find_file(path)?;
        media.content(node).rot(offset, 1, |bytes| bytes[0] ^= 1 << (bit % 8));
        Ok(())
    }

    /// Keeps the present bytes of a file, for [`serve_stale`](Self::serve_stale).
    pub fn keep_pages(&self, path: &Path) -> Result<KeptPages> {
        let mut media = self.media();
        let node = media.find_file(path)?;
        Ok(KeptPages(media.content(node).live().to_vec()))
    }

    /// Makes one page of 4 KiB what it was, for good, as a medium does that lost its writes since. Nothing happens if
    /// the page lies beyond the end of the file, now or then.
    pub fn serve_stale(&self, path: &Path, kept: &KeptPages, page: u64) -> Result<()> {
        let mut media = self.media();
        let node = media.find_file(path)?;
        let old = kept.page(page);
        media.content(node).rot(page.saturating_mul(PAGE_BYTES as u64), old.len(), |bytes| {
            let both = bytes.len().min(old.len());
            bytes[..both].copy_from_slice(&old[..both]);
        });
        Ok(())
    }

    /// From now on loses each page of 4 KiB that is written to a file with a chance of `per_mille`, by `seed`: the
    /// write succeeds and the old bytes stay. A write that extends the file leaves zeros. Zero switches it off.
    pub fn lose_writes(&self, path: &Path, per_mille: u16, seed: u64) -> Result<()> {
        let mut media = self.media();
        let node = media.find_file(path)?;
        let lost = LostWrites { per_mille: per_mille.into(), chance: Chance::new(seed) };
        media.content(node).lost = (per_mille > 0).then_some(lost);
        Ok(())
    }
}
