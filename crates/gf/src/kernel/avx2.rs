//! AVX2: as SSSE3, 32 bytes at a time.

use std::arch::x86_64::*;

use super::tables::HALVES;
use super::vector::{Vector, routines};

routines!(__m256i, "avx2", rows: 8, hop: 4, dot: 2, finish: super::ssse3::finish);

impl Vector for __m256i {
    const BYTES: usize = 32;
    type Table = &'static [u8; 32];
    type Factor = [__m256i; 2];

    #[inline(always)]
    fn table(c: u8) -> Self::Table {
        &HALVES[usize::from(c)]
    }

    #[inline(always)]
    unsafe fn factor(table: &Self::Table) -> Self::Factor {
        // SAFETY: the table has two times 16 bytes. A look-up does not cross 16 bytes, so both halves of the register
        // hold the same.
        unsafe {
            let half = |at| _mm256_broadcastsi128_si256(_mm_loadu_si128(table.as_ptr().add(at).cast()));
            [half(0), half(16)]
        }
    }

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller's promise, here and below.
        unsafe { _mm256_setzero_si256() }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: 32 readable bytes.
        unsafe { _mm256_loadu_si256(from.cast()) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: 32 writable bytes.
        unsafe { _mm256_storeu_si256(to.cast(), self) }
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        // SAFETY: see `zero`.
        unsafe { _mm256_xor_si256(self, other) }
    }

    #[inline(always)]
    unsafe fn mul(self, [low, high]: Self::Factor) -> Self {
        // SAFETY: see `zero`.
        unsafe {
            let mask = _mm256_set1_epi8(0x0f);
            let of_low = _mm256_shuffle_epi8(low, _mm256_and_si256(self, mask));
            let of_high = _mm256_shuffle_epi8(high, _mm256_and_si256(_mm256_srli_epi64::<4>(self), mask));
            _mm256_xor_si256(of_low, of_high)
        }
    }
}
