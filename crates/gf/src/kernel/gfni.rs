//! AVX-512 with GFNI: 64 bytes at a time; c·x is one instruction, the 8×8 bit matrix of c applied to every byte.

use std::arch::x86_64::*;

use super::Sums;
use super::tables::{BITS, bit_matrix};
use super::vector::{Vector, routines};
use crate::fingerprint::{LANES, MOVES, weights};
use crate::{FINGERPRINT_BYTES, WORD_BYTES};

routines!(__m512i, "gfni,avx512f,avx512bw", sum: 8, hop: 4, dot: 2, finish: finish);

impl Vector for __m512i {
    const BYTES: usize = 64;
    type Table = u64;
    type Factor = __m512i;

    #[inline(always)]
    fn table(c: u8) -> u64 {
        BITS[usize::from(c)]
    }

    #[inline(always)]
    unsafe fn factor(table: &u64) -> Self {
        // SAFETY: the caller's promise, here and below.
        unsafe { _mm512_set1_epi64(table.cast_signed()) }
    }

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: see `factor`.
        unsafe { _mm512_setzero_si512() }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: 64 readable bytes.
        unsafe { _mm512_loadu_si512(from.cast()) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: 64 writable bytes.
        unsafe { _mm512_storeu_si512(to.cast(), self) }
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        // SAFETY: see `factor`.
        unsafe { _mm512_xor_si512(self, other) }
    }

    #[inline(always)]
    unsafe fn mul(self, factor: Self) -> Self {
        // SAFETY: see `factor`.
        unsafe { _mm512_gf2p8affine_epi64_epi8::<0>(self, factor) }
    }

    #[inline(always)]
    unsafe fn load_part(from: *const u8, bytes: usize) -> Self {
        // SAFETY: masked bytes are not touched.
        unsafe { _mm512_maskz_loadu_epi8(first(bytes), from.cast()) }
    }

    #[inline(always)]
    unsafe fn store_part(self, to: *mut u8, bytes: usize) {
        // SAFETY: masked bytes are not touched.
        unsafe { _mm512_mask_storeu_epi8(to.cast(), first(bytes), self) }
    }
}

/// The mask of the first `bytes` < 64 bytes.
#[inline(always)]
fn first(bytes: usize) -> __mmask64 {
    (1 << bytes) - 1
}

/// Bit matrices of 1, 2 and 4 steps of A and of B, one for each lane.
static STEPS: [[[u64; LANES]; 3]; 2] = {
    let mut steps = [[[0; LANES]; 3]; 2];
    let mut i = 0;
    while i < 6 * LANES {
        let (sum, power, lane) = (i / LANES / 3, i / LANES % 3, i % LANES);
        steps[sum][power][lane] = bit_matrix(weights(sum, 1 << power)[lane]);
        i += 1;
    }
    steps
};

/// Σ A^r(word r) and Σ B^r(word r) over the words of the running rows, in pairs, then pairs of pairs: three steps deep.
#[target_feature(enable = "gfni,avx512f,avx512bw")]
fn finish(sums: &Sums) -> [u8; FINGERPRINT_BYTES] {
    let a = fold::<{ turn(0, 1) }, { turn(0, 2) }, { turn(0, 4) }>(&sums.0[0], &STEPS[0]);
    let b = fold::<{ turn(1, 1) }, { turn(1, 2) }, { turn(1, 4) }>(&sums.0[1], &STEPS[1]);
    let mut fingerprint = [0; FINGERPRINT_BYTES];
    // SAFETY: two words are a fingerprint.
    unsafe {
        a.store(fingerprint.as_mut_ptr());
        b.store(fingerprint.as_mut_ptr().add(WORD_BYTES));
    }
    fingerprint
}

/// How far `valignq` turns lanes down to move them up by `steps` steps of a sum.
const fn turn(sum: usize, steps: usize) -> i32 {
    ((LANES - steps * MOVES[sum] % LANES) % LANES) as i32
}

#[target_feature(enable = "gfni,avx512f,avx512bw")]
fn fold<const ONE: i32, const TWO: i32, const FOUR: i32>(
    row: &[u8; LANES * WORD_BYTES],
    steps: &[[u64; LANES]; 3],
) -> __m512i {
    // SAFETY: the words of the row, and matrices of 64 bytes.
    let (w, [one, two, four]) = unsafe {
        let word = |r| __m512i::load(row.as_ptr().add(r * WORD_BYTES));
        let words: [__m512i; LANES] =
            [word(0), word(1), word(2), word(3), word(4), word(5), word(6), word(7)];
        (words, [0, 1, 2].map(|i: usize| __m512i::load(steps[i].as_ptr().cast())))
    };
    let pairs = [0, 2, 4, 6].map(|r| step::<ONE>(w[r], w[r + 1], one));
    let fours = [0, 2].map(|r| step::<TWO>(pairs[r], pairs[r + 1], two));
    step::<FOUR>(fours[0], fours[1], four)
}

/// `first` + steps(`then`).
#[target_feature(enable = "gfni,avx512f,avx512bw")]
fn step<const TURN: i32>(first: __m512i, then: __m512i, matrices: __m512i) -> __m512i {
    let moved = _mm512_alignr_epi64::<TURN>(then, then);
    _mm512_xor_si512(first, _mm512_gf2p8affine_epi64_epi8::<0>(moved, matrices))
}
