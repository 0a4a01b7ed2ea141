//! SSSE3: 16 bytes at a time; c·x is the sum of two looked-up products, those of x's low and high half.

use std::arch::x86_64::*;

use super::Residue;
use super::chunk::ROW_BYTES;
use super::tables::HALVES;
use super::vector::{Vector, routines};
use crate::fingerprint::B_FACTOR;
use crate::{FINGERPRINT_BYTES, WORD_BYTES};

routines!(__m128i, "ssse3", rows: 8, hop: 2, dot: 1, finish: finish);

impl Vector for __m128i {
    const BYTES: usize = 16;
    type Table = &'static [u8; 32];
    type Factor = [__m128i; 2];

    #[inline(always)]
    fn table(c: u8) -> Self::Table {
        &HALVES[usize::from(c)]
    }

    #[inline(always)]
    unsafe fn factor(table: &Self::Table) -> Self::Factor {
        // SAFETY: the table has two times 16 bytes.
        unsafe { [Self::load(table.as_ptr()), Self::load(table.as_ptr().add(16))] }
    }

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller's promise, here and below.
        unsafe { _mm_setzero_si128() }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: 16 readable bytes.
        unsafe { _mm_loadu_si128(from.cast()) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: 16 writable bytes.
        unsafe { _mm_storeu_si128(to.cast(), self) }
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        // SAFETY: see `zero`.
        unsafe { _mm_xor_si128(self, other) }
    }

    #[inline(always)]
    unsafe fn mul(self, [low, high]: Self::Factor) -> Self {
        // SAFETY: see `zero`.
        unsafe {
            let mask = _mm_set1_epi8(0x0f);
            let of_low = _mm_shuffle_epi8(low, _mm_and_si128(self, mask));
            let of_high = _mm_shuffle_epi8(high, _mm_and_si128(_mm_srli_epi64::<4>(self), mask));
            _mm_xor_si128(of_low, of_high)
        }
    }
}

/// The residue gives a row for each of the sums; then Σ A^r(word r) and Σ B^r(word r) over the words of either, by
/// Horner's rule. Serves AVX2 as well: there are too few bytes for wider registers to matter.
#[target_feature(enable = "ssse3")]
pub(super) fn finish(residue: &Residue) -> [u8; FINGERPRINT_BYTES] {
    // SAFETY: here and below, SSSE3 is enabled.
    let factor = |c| unsafe { __m128i::factor(&__m128i::table(c)) };
    let factors = [0, 1].map(|sum| residue.factors(sum).map(factor));
    let mut sums = [[_mm_setzero_si128(); 4]; 2];
    for word in (0..ROW_BYTES).step_by(WORD_BYTES).rev() {
        sums = [step_a(sums[0]), step_b(sums[1])];
        for (i, at) in (word..word + WORD_BYTES).step_by(16).enumerate() {
            // SAFETY: 16 bytes from `at` lie within a row.
            unsafe {
                let [r0, r1] = residue.parts.each_ref().map(|row| __m128i::load(row.as_ptr().add(at)));
                for (sum, [f0, f1]) in sums.iter_mut().zip(factors) {
                    sum[i] = sum[i].xor(r0.mul(f0)).xor(r1.mul(f1));
                }
            }
        }
    }
    let mut fingerprint = [0; FINGERPRINT_BYTES];
    for (i, vector) in sums.into_iter().flatten().enumerate() {
        // SAFETY: eight registers of 16 bytes are a fingerprint.
        unsafe { vector.store(fingerprint.as_mut_ptr().add(16 * i)) }
    }
    fingerprint
}

/// A: lanes up by one, every byte times 2.
#[target_feature(enable = "ssse3")]
fn step_a(w: [__m128i; 4]) -> [__m128i; 4] {
    // SAFETY: SSSE3 is enabled.
    let two = unsafe { __m128i::factor(&__m128i::table(2)) };
    // SAFETY: as above.
    std::array::from_fn(|i| unsafe { _mm_alignr_epi8::<8>(w[i], w[(i + 3) % 4]).mul(two) })
}

/// B: lanes up by three, lanes 3 and 7 (the high ones of registers 1 and 3) times a constant.
#[target_feature(enable = "ssse3")]
fn step_b(w: [__m128i; 4]) -> [__m128i; 4] {
    let mut moved: [__m128i; 4] =
        std::array::from_fn(|i| _mm_alignr_epi8::<8>(w[(i + 3) % 4], w[(i + 2) % 4]));
    for i in [1, 3] {
        // SAFETY: SSSE3 is enabled.
        let product = unsafe { moved[i].mul(__m128i::factor(&__m128i::table(B_FACTOR))) };
        moved[i] = _mm_unpacklo_epi64(moved[i], _mm_unpackhi_epi64(product, product));
    }
    moved
}
