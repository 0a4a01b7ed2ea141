//! AVX-512 with GFNI: 64 bytes at a time; c·x is one instruction, the 8×8 bit matrix of c applied to every byte.

use std::arch::x86_64::*;

use super::Residue;
use super::tables::{BITS, bit_matrix};
use super::vector::{Vector, routines};
use crate::fingerprint::{LANES, MOVES, weights};
use crate::{FINGERPRINT_BYTES, WORD_BYTES};

routines!(__m512i, "gfni,avx512f,avx512bw", rows: 4, hop: 4, dot: 2, finish: finish);

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
    unsafe fn exchange_halves(self) -> Self {
        // SAFETY: see `factor`. Quarters 2, 3, 0, 1.
        unsafe { _mm512_shuffle_i64x2::<0b01_00_11_10>(self, self) }
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

/// Bit matrices of one and of two steps of A and of B, one for each lane.
static STEPS: [[[u64; LANES]; 2]; 2] = {
    let mut steps = [[[0; LANES]; 2]; 2];
    let mut i = 0;
    while i < 4 * LANES {
        let (sum, power, lane) = (i / LANES / 2, i / LANES % 2, i % LANES);
        steps[sum][power][lane] = bit_matrix(weights(sum, 1 << power)[lane]);
        i += 1;
    }
    steps
};

/// The residue gives a row for each of the sums; then Σ A^r(word r) and Σ B^r(word r) over the words of either, in
/// pairs.
#[target_feature(enable = "gfni,avx512f,avx512bw")]
fn finish(residue: &Residue) -> [u8; FINGERPRINT_BYTES] {
    let a = fold::<{ turn(0, 1) }, { turn(0, 2) }>(0, residue);
    let b = fold::<{ turn(1, 1) }, { turn(1, 2) }>(1, residue);
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
fn fold<const ONE: i32, const TWO: i32>(sum: usize, residue: &Residue) -> __m512i {
    // SAFETY: every word lies within its row, matrices of eight lanes are 64 bytes; the instructions are enabled.
    unsafe {
        let [f0, f1] = residue.factors(sum).map(|c| __m512i::factor(&__m512i::table(c)));
        let word = |r: usize| {
            let [r0, r1] =
                residue.parts.each_ref().map(|row| __m512i::load(row.as_ptr().add(r * WORD_BYTES)));
            r0.mul(f0).xor(r1.mul(f1))
        };
        let [one, two] = STEPS[sum].each_ref().map(|matrices| __m512i::load(matrices.as_ptr().cast()));
        let pair = |r| step::<ONE>(word(r), word(r + 1), one);
        step::<TWO>(pair(0), pair(2), two)
    }
}

/// `first` + steps(`then`).
#[target_feature(enable = "gfni,avx512f,avx512bw")]
fn step<const TURN: i32>(first: __m512i, then: __m512i, matrices: __m512i) -> __m512i {
    let moved = _mm512_alignr_epi64::<TURN>(then, then);
    _mm512_xor_si512(first, _mm512_gf2p8affine_epi64_epi8::<0>(moved, matrices))
}
