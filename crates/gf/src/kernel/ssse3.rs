//! SSSE3: 16 bytes at a time; c·x is the sum of two looked-up products, those of x's low and high half.

use std::arch::x86_64::*;

use super::Sums;
use super::chunk::ROW_BYTES;
use super::tables::HALVES;
use super::vector::{Vector, routines};
use crate::{FINGERPRINT_BYTES, WORD_BYTES};

routines!(__m128i, "ssse3", sum: 4, hop: 2, dot: 1, finish: finish);

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

/// Σ A^r(word r) and Σ B^r(word r) over the words of the running rows, by Horner's rule. Serves AVX2 as well: there
/// are too few bytes for wider registers to matter.
///
/// # Safety
/// The processor must have SSSE3.
#[target_feature(enable = "ssse3")]
pub(super) unsafe fn finish(sums: &Sums) -> [u8; FINGERPRINT_BYTES] {
    let (mut a, mut b) = ([_mm_setzero_si128(); 4], [_mm_setzero_si128(); 4]);
    for offset in (0..ROW_BYTES).step_by(WORD_BYTES).rev() {
        (a, b) = (step_a(a), step_b(b));
        for i in 0..4 {
            // SAFETY: word and register lie within the row.
            unsafe {
                a[i] = a[i].xor(__m128i::load(sums.0[0].as_ptr().add(offset + 16 * i)));
                b[i] = b[i].xor(__m128i::load(sums.0[1].as_ptr().add(offset + 16 * i)));
            }
        }
    }
    let mut fingerprint = [0; FINGERPRINT_BYTES];
    for (i, vector) in a.into_iter().chain(b).enumerate() {
        // SAFETY: eight registers of 16 bytes are a fingerprint.
        unsafe { vector.store(fingerprint.as_mut_ptr().add(16 * i)) }
    }
    fingerprint
}

/// A: lanes up by one, all times 2.
#[target_feature(enable = "ssse3")]
fn step_a(w: [__m128i; 4]) -> [__m128i; 4] {
    std::array::from_fn(|i| twice(_mm_alignr_epi8::<8>(w[i], w[(i + 3) % 4])))
}

/// B: lanes up by three, the top one times 4.
#[target_feature(enable = "ssse3")]
fn step_b(w: [__m128i; 4]) -> [__m128i; 4] {
    let mut moved: [__m128i; 4] =
        std::array::from_fn(|i| _mm_alignr_epi8::<8>(w[(i + 3) % 4], w[(i + 2) % 4]));
    let top = moved[3];
    // High half of the product, low half of what was there.
    moved[3] = _mm_unpacklo_epi64(top, _mm_unpackhi_epi64(twice(twice(top)), top));
    moved
}

/// Every byte times 2: shifted, and reduced where the top bit fell out.
#[target_feature(enable = "ssse3")]
fn twice(x: __m128i) -> __m128i {
    let overflown = _mm_cmpgt_epi8(_mm_setzero_si128(), x);
    _mm_xor_si128(_mm_add_epi8(x, x), _mm_and_si128(overflown, _mm_set1_epi8(0x1d)))
}
