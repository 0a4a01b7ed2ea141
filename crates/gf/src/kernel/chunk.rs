//! Fingerprints of chunks: cuts regions into whole rows for the routines and fills up the ragged end.
//!
//! Sums run downwards, from the last row to the first: `sum = row + factor · sum`. That gives row 0 the weight 1
//! without a correction at the end, and zeros beyond the end cost nothing.

use super::Kernels;
use crate::fingerprint::LANES;
use crate::{CHUNK_BYTES, Fingerprint, WORD_BYTES};

/// Bytes of a row: as many words as bring every lane back to its place.
pub(crate) const ROW_BYTES: usize = LANES * WORD_BYTES;

/// The two running sums of a fingerprint, a row each.
#[repr(align(64))]
pub(crate) struct Sums(pub [[u8; ROW_BYTES]; 2]);

/// One row on the stack, for the end of a region.
#[repr(align(64))]
struct Row([u8; ROW_BYTES]);

/// What [`Kernels::hop`] saw pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HopFingerprints {
    /// Of the local bytes.
    pub local: Fingerprint,
    /// Of the accumulator as it came in.
    pub received: Fingerprint,
}

impl Sums {
    fn zero() -> Self {
        Self([[0; ROW_BYTES]; 2])
    }
}

impl Row {
    /// `bytes` (at most a row), then zeros.
    fn padded(bytes: &[u8]) -> Self {
        let mut row = [0; ROW_BYTES];
        row[..bytes.len()].copy_from_slice(bytes);
        Self(row)
    }
}

impl Kernels {
    /// The fingerprint of a chunk of at most [`CHUNK_BYTES`].
    ///
    /// # Panics
    /// When the chunk is longer.
    pub fn fingerprint(&self, chunk: &[u8]) -> Fingerprint {
        assert!(chunk.len() <= CHUNK_BYTES, "fingerprint of {} bytes, more than a chunk", chunk.len());
        let mut sums = Sums::zero();
        self.sum(chunk, &mut sums);
        self.finish(&sums)
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
        let (mut local_sums, mut acc_sums) = (Sums::zero(), Sums::zero());
        let (local_rows, local_end) = local.as_chunks::<ROW_BYTES>();
        let (acc_rows, rest) = acc.split_at_mut(size_of_val(local_rows));
        // From the top down: what only `acc` has, the row in which `local` ends, the rows of both.
        let end_bytes = if local_end.is_empty() { 0 } else { rest.len().min(ROW_BYTES) };
        let (acc_end, acc_only) = rest.split_at_mut(end_bytes);
        self.sum(acc_only, &mut acc_sums);
        if !local_end.is_empty() {
            let (local_row, mut acc_row) = (Row::padded(local_end), Row::padded(acc_end));
            self.hop_rows(c, &local_row.0, &mut acc_row.0, &mut local_sums, &mut acc_sums);
            acc_end.copy_from_slice(&acc_row.0[..end_bytes]);
        }
        self.hop_rows(c, local_rows.as_flattened(), acc_rows, &mut local_sums, &mut acc_sums);
        HopFingerprints { local: self.finish(&local_sums), received: self.finish(&acc_sums) }
    }

    fn sum(&self, bytes: &[u8], sums: &mut Sums) {
        let (rows, end) = bytes.as_chunks::<ROW_BYTES>();
        if !end.is_empty() {
            self.sum_rows(&Row::padded(end).0, sums);
        }
        self.sum_rows(rows.as_flattened(), sums);
    }

    fn sum_rows(&self, rows: &[u8], sums: &mut Sums) {
        // SAFETY: the region has as many whole rows as is said, and the processor can run what `Kernels::at` hands
        // out.
        unsafe { (self.routines.sum_rows)(rows.as_ptr(), rows.len() / ROW_BYTES, sums) }
    }

    fn hop_rows(&self, c: u8, local: &[u8], acc: &mut [u8], local_sums: &mut Sums, acc_sums: &mut Sums) {
        let rows = local.len().min(acc.len()) / ROW_BYTES;
        // SAFETY: both regions have `rows` whole rows and do not overlap; otherwise as above.
        unsafe { (self.routines.hop_rows)(c, local.as_ptr(), acc.as_mut_ptr(), rows, local_sums, acc_sums) }
    }

    fn finish(&self, sums: &Sums) -> Fingerprint {
        // SAFETY: the processor can run what `Kernels::at` hands out.
        Fingerprint::from_bytes(unsafe { (self.routines.finish)(sums) })
    }
}
