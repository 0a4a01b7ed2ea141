//! Fingerprints of chunks: cuts regions into whole rows for the routines and fills up the ragged end.
//!
//! Rows are taken downwards, from the last to the first, as Horner's rule does: row 0 gets the weight 1 without a
//! correction at the end, and zeros beyond the end cost nothing.

use super::Kernels;
use crate::fingerprint::ROW_WORDS;
use crate::{CHUNK_BYTES, Fingerprint, WORD_BYTES};

/// Bytes of a row.
pub(crate) const ROW_BYTES: usize = ROW_WORDS * WORD_BYTES;

/// Rows come in pairs, an even one and an odd one.
pub(crate) const PAIR_BYTES: usize = 2 * ROW_BYTES;

/// The rows so far as a polynomial modulo x²+s·x+1 (see [`fingerprint`](crate::fingerprint)): the coefficients of 1 and
/// of x, a row each. The next row makes `r0 + r1·x` into `row + r1 + (r0 + s·r1)·x`, an odd row with the halves of its
/// words exchanged.
#[repr(align(64))]
pub(crate) struct Residue(pub [[u8; ROW_BYTES]; 2]);

/// Two rows on the stack, for the end of a region.
#[repr(align(64))]
struct Pair([u8; PAIR_BYTES]);

/// What [`Kernels::hop`] saw pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HopFingerprints {
    /// Of the local bytes.
    pub local: Fingerprint,
    /// Of the accumulator as it came in.
    pub received: Fingerprint,
}

impl Residue {
    fn zero() -> Self {
        Self([[0; ROW_BYTES]; 2])
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
        // From the top down: what only `acc` has, the rows in which `local` ends, the rows of both.
        let end_bytes = if local_end.is_empty() { 0 } else { rest.len().min(PAIR_BYTES) };
        let (acc_end, acc_only) = rest.split_at_mut(end_bytes);
        self.add(acc_only, &mut acc_residue);
        if !local_end.is_empty() {
            let (local_pair, mut acc_pair) = (Pair::padded(local_end), Pair::padded(acc_end));
            self.hop_pairs(c, &local_pair.0, &mut acc_pair.0, &mut local_residue, &mut acc_residue);
            acc_end.copy_from_slice(&acc_pair.0[..end_bytes]);
        }
        self.hop_pairs(c, local_pairs.as_flattened(), acc_pairs, &mut local_residue, &mut acc_residue);
        HopFingerprints { local: self.finish(&local_residue), received: self.finish(&acc_residue) }
    }

    fn add(&self, bytes: &[u8], residue: &mut Residue) {
        let (pairs, end) = bytes.as_chunks::<PAIR_BYTES>();
        if !end.is_empty() {
            self.add_pairs(&Pair::padded(end).0, residue);
        }
        self.add_pairs(pairs.as_flattened(), residue);
    }

    fn add_pairs(&self, pairs: &[u8], residue: &mut Residue) {
        // SAFETY: the region has as many pairs of rows as is said, and the processor can run what `Kernels::at` hands
        // out.
        unsafe { (self.routines.add_pairs)(pairs.as_ptr(), pairs.len() / PAIR_BYTES, residue) }
    }

    fn hop_pairs(
        &self,
        c: u8,
        local: &[u8],
        acc: &mut [u8],
        local_residue: &mut Residue,
        acc_residue: &mut Residue,
    ) {
        let pairs = local.len().min(acc.len()) / PAIR_BYTES;
        // SAFETY: both regions have `pairs` pairs of rows and do not overlap; otherwise as above.
        unsafe {
            (self.routines.hop_pairs)(c, local.as_ptr(), acc.as_mut_ptr(), pairs, local_residue, acc_residue)
        }
    }

    fn finish(&self, residue: &Residue) -> Fingerprint {
        // SAFETY: the processor can run what `Kernels::at` hands out.
        Fingerprint::from_bytes(unsafe { (self.routines.finish)(residue) })
    }
}
