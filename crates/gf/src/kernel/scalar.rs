//! The scalar twin of every kernel: one byte at a time, straight from the definitions.

use super::chunk::ROW_BYTES;
use super::{Dot, MUL, Routines, Sums};
use crate::fingerprint::{FACTORS, LANES, MOVES, ROW_FACTORS};
use crate::{FINGERPRINT_BYTES, WORD_BYTES};

pub(super) static ROUTINES: Routines = Routines { xor, mul, mul_add, dot, sum_rows, hop_rows, finish };

/// # Safety
/// As [`Routines`] asks; so for all that follow.
unsafe fn xor(src: *const u8, dst: *mut u8, bytes: usize) {
    for i in 0..bytes {
        // SAFETY: i < bytes, within both regions.
        unsafe { *dst.add(i) ^= *src.add(i) }
    }
}

unsafe fn mul(c: u8, src: *const u8, dst: *mut u8, bytes: usize) {
    let products = &MUL[usize::from(c)];
    for i in 0..bytes {
        // SAFETY: i < bytes, within both regions.
        unsafe { *dst.add(i) = products[usize::from(*src.add(i))] }
    }
}

unsafe fn mul_add(c: u8, src: *const u8, dst: *mut u8, bytes: usize) {
    let products = &MUL[usize::from(c)];
    for i in 0..bytes {
        // SAFETY: i < bytes, within both regions.
        unsafe { *dst.add(i) ^= products[usize::from(*src.add(i))] }
    }
}

unsafe fn dot(dot: &Dot<'_>) {
    for (&output, row) in dot.outputs.iter().zip(dot.coefficients.chunks(dot.inputs.len())) {
        for (i, (&input, &c)) in dot.inputs.iter().zip(row).enumerate() {
            // SAFETY: the caller's regions, passed on.
            unsafe {
                if i == 0 && !dot.accumulate {
                    mul(c, input, output, dot.bytes);
                } else {
                    mul_add(c, input, output, dot.bytes);
                }
            }
        }
    }
}

unsafe fn sum_rows(rows: *const u8, count: usize, sums: &mut Sums) {
    for row in (0..count).rev() {
        // SAFETY: row < count, within the region; a row has no alignment to keep.
        let row = unsafe { &*rows.add(row * ROW_BYTES).cast::<[u8; ROW_BYTES]>() };
        for (sum, factor) in sums.0.iter_mut().zip(ROW_FACTORS) {
            let products = &MUL[usize::from(factor)];
            sum.iter_mut().zip(row).for_each(|(s, byte)| *s = products[usize::from(*s)] ^ byte);
        }
    }
}

unsafe fn hop_rows(
    c: u8,
    local: *const u8,
    acc: *mut u8,
    count: usize,
    local_sums: &mut Sums,
    acc_sums: &mut Sums,
) {
    // SAFETY: the caller's regions, passed on.
    unsafe {
        sum_rows(local, count, local_sums);
        sum_rows(acc, count, acc_sums);
        mul_add(c, local, acc, count * ROW_BYTES);
    }
}

/// Σ A^r(word r) over the words of the running row, by Horner's rule from the last word; the same with B.
fn finish(sums: &Sums) -> [u8; FINGERPRINT_BYTES] {
    let mut fingerprint = [0; FINGERPRINT_BYTES];
    for (which, (out, row)) in fingerprint.as_chunks_mut::<WORD_BYTES>().0.iter_mut().zip(&sums.0).enumerate()
    {
        for word in row.as_chunks::<WORD_BYTES>().0.iter().rev() {
            step(which, out);
            out.iter_mut().zip(word).for_each(|(o, w)| *o ^= w);
        }
    }
    fingerprint
}

/// A (`which` 0) or B (1).
fn step(which: usize, word: &mut [u8; WORD_BYTES]) {
    const LANE_BYTES: usize = WORD_BYTES / LANES;
    word.rotate_right(MOVES[which] * LANE_BYTES);
    for (lane, factor) in word.chunks_mut(LANE_BYTES).zip(FACTORS[which]) {
        lane.iter_mut().for_each(|byte| *byte = MUL[usize::from(factor)][usize::from(*byte)]);
    }
}
