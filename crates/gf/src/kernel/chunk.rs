//! Fingerprints of chunks: cuts regions into whole rows for the routines and fills up the ragged end.
//!
//! Rows are taken in the order of memory, row₀ first: a prefetcher follows no other order as well. Horner's rule then
//! leaves P(x) = Σ row_i·x^(n−1−i), and with the roots a and 1/a the sums are Σ row_i·aⁱ = a^(n−1)·P(1/a) and the same
//! with a and 1/a exchanged.

use super::Kernels;
use crate::fingerprint::{ROW_POWERS, ROW_WORDS};
use crate::{CHUNK_BYTES, Fingerprint, WORD_BYTES};

/// Bytes of a row.
pub(crate) const ROW_BYTES: usize = ROW_WORDS * WORD_BYTES;

/// Rows come in pairs, an even one and an odd one.
pub(crate) const PAIR_BYTES: usize = 2 * ROW_BYTES;

/// P(x) modulo x²+s·x+1 (see [`fingerprint`](crate::fingerprint)). The next row makes `r0 + r1·x` into
/// `row + r1 + (r0 + s·r1)·x`, an odd row with the halves of its words exchanged.
#[repr(align(64))]
pub(crate) struct Residue {
    /// Coefficients of 1 and of x, a row each.
    pub parts: [[u8; ROW_BYTES]; 2],
    /// Rows taken so far, an even number.
    pub rows: usize,
}

/// Two rows on the stack, for the end of a region.
#[repr(align(64))]
struct Pair([u8; PAIR_BYTES]);

/// What [`Kernels::hop`] saw pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HopFingerprints {
    /// The fingerprint of the local bytes.
    pub local: Fingerprint,
    /// The fingerprint of the accumulator as it came in.
    pub received: Fingerprint,
}

impl Residue {
    /// What r0 and r1 are multiplied by to make up sum A (0) or B (1): a^(n−1) and a^(n−2), a being its row factor.
    #[inline(always)]
    pub fn factors(&self, sum: usize) -> [u8; 2] {
        // The residue is zero if there are no rows, whatever its factors.
        let first = self.rows.max(2) - 2;
        [ROW_POWERS[sum][first + 1], ROW_POWERS[sum][first]]
    }

    fn zero() -> Self {
        Self { parts: [[0; ROW_BYTES]; 2], rows: 0 }
    }
}

impl Pair {
    /// `bytes` (at most two rows), then zeros.
    fn padded(bytes: &[u8]) -> Self {
        let mut pair = [0; PAIR_BYTES];
        pair[..bytes.len()].copy_from_slice(bytes);
        Self(pair)
    }
}

impl Kernels {
    /// The fingerprint of a chunk of at most [`CHUNK_BYTES`].
    ///
    /// # Panics
    /// When the chunk is longer.
    pub fn fingerprint(&self, chunk: &[u8]) -> Fingerprint {
        assert!(chunk.len() <= CHUNK_BYTES, "fingerprint of {} bytes, more than a chunk", chunk.len());
        let mut residue = Residue::zero();
        self.add(chunk, &mut residue);
        self.finish(&residue)
    }

    /// One hop of a pipeline: `acc += c · local` in one pass that also takes the fingerprints of both as they were.
    /// Bytes of `acc` beyond the end of `local` stay as they are. When `local` is the longer one, lengthen `acc` with
    /// zeros before: they do not change its fingerprint.
    ///
    /// # Panics
    /// When `local` is longer than `acc`, or `acc` than [`CHUNK_BYTES`].
    pub fn hop(&self, c: u8, local: &[u8], acc: &mut [u8]) -> HopFingerprints {
        assert!(
            local.len() <= acc.len() && acc.len() <= CHUNK_BYTES,
            "hop of {} to {}",
            local.len(),
            acc.len()
        );
        let (mut local_residue, mut acc_residue) = (Residue::zero(), Residue::zero());
        let (local_pairs, local_end) = local.as_chunks::<PAIR_BYTES>();
        let (acc_pairs, rest) = acc.split_at_mut(size_of_val(local_pairs));
        // The rows of both, the rows in which `local` ends, what only `acc` has.
        let end_bytes = if local_end.is_empty() { 0 } else { rest.len().min(PAIR_BYTES) };
        let (acc_end, acc_only) = rest.split_at_mut(end_bytes);
        self.hop_pairs(c, local_pairs.as_flattened(), acc_pairs, &mut local_residue, &mut acc_residue);
        if !local_end.is_empty() {
            let (local_pair, mut acc_pair) = (Pair::padded(local_end), Pair::padded(acc_end));
            self.hop_pairs(c, &local_pair.0, &mut acc_pair.0, &mut local_residue, &mut acc_residue);
            acc_end.copy_from_slice(&acc_pair.0[..end_bytes]);
        }
        self.add(acc_only, &mut acc_residue);
        HopFingerprints { local: self.finish(&local_residue), received: self.finish(&acc_residue) }
    }

    fn add(&self, bytes: &[u8], residue: &mut Residue) {
        let (pairs, end) = bytes.as_chunks::<PAIR_BYTES>();
        self.add_pairs(pairs.as_flattened(), residue);
        if !end.is_empty() {
            self.add_pairs(&Pair::padded(end).0, residue);
        }
    }

    fn add_pairs(&self, pairs: &[u8], residue: &mut Residue) {
        let count = pairs.len() / PAIR_BYTES;
        if count > 0 {
            // SAFETY: the region has as many pairs of rows as is said, and the processor can run what `Kernels::at`
            // hands out.
            unsafe { (self.routines.add_pairs)(pairs.as_ptr(), count, residue) }
            residue.rows += 2 * count;
        }
    }

    fn hop_pairs(
        &self,
        c: u8,
        local: &[u8],
        acc: &mut [u8],
        local_residue: &mut Residue,
        acc_residue: &mut Residue,
    ) {
        let count = local.len().min(acc.len()) / PAIR_BYTES;
        if count > 0 {
            // SAFETY: both regions have `count` pairs of rows and do not overlap; otherwise as above.
            unsafe {
                (self.routines.hop_pairs)(
                    c,
                    local.as_ptr(),
                    acc.as_mut_ptr(),
                    count,
                    local_residue,
                    acc_residue,
                )
            }
            local_residue.rows += 2 * count;
            acc_residue.rows += 2 * count;
        }
    }

    fn finish(&self, residue: &Residue) -> Fingerprint {
        // SAFETY: the processor can run what `Kernels::at` hands out.
        Fingerprint::from_bytes(unsafe { (self.routines.finish)(residue) })
    }
}
