//! The scalar twin of every kernel: one byte at a time, straight from the definitions.

use super::chunk::{PAIR_BYTES, ROW_BYTES};
use super::{Dot, MUL, Residue, Routines};
use crate::fingerprint::{FACTORS, LANES, MOVES, ROOT_SUM, ROW_WORDS};
use crate::{FINGERPRINT_BYTES, WORD_BYTES};

pub(super) static ROUTINES: Routines = Routines { xor, mul, mul_add, dot, sum, add_pairs, hop_pairs, finish };

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

unsafe fn sum(sources: &[*const u8], destination: *mut u8, bytes: usize, accumulate: bool) {
    for i in 0..bytes {
        // SAFETY: i < bytes, within all regions.
        unsafe {
            let before = if accumulate { *destination.add(i) } else { 0 };
            *destination.add(i) = sources.iter().fold(before, |sum, source| sum ^ *source.add(i));
        }
    }
}

unsafe fn add_pairs(pairs: *const u8, count: usize, residue: &mut Residue) {
    let products = &MUL[usize::from(ROOT_SUM)];
    let [r0, r1] = &mut residue.parts;
    for row in 0..2 * count {
        // SAFETY: row < 2·count, within the region; a row has no alignment to keep.
        let bytes = unsafe { &*pairs.add(row * ROW_BYTES).cast::<[u8; ROW_BYTES]>() };
        let exchange = row % 2 * (WORD_BYTES / 2);
        for i in 0..ROW_BYTES {
            (r0[i], r1[i]) = (r1[i] ^ bytes[i ^ exchange], r0[i] ^ products[usize::from(r1[i])]);
        }
    }
}

unsafe fn hop_pairs(
    c: u8,
    local: *const u8,
    acc: *mut u8,
    count: usize,
    local_residue: &mut Residue,
    acc_residue: &mut Residue,
) {
    // SAFETY: the caller's regions, passed on.
    unsafe {
        add_pairs(local, count, local_residue);
        add_pairs(acc, count, acc_residue);
        mul_add(c, local, acc, count * PAIR_BYTES);
    }
}

/// The residue gives a row for each of the sums; then Σ A^r(word r) and Σ B^r(word r) over the words of either.
fn finish(residue: &Residue) -> [u8; FINGERPRINT_BYTES] {
    let [r0, r1] = &residue.parts;
    let mut fingerprint = [0; FINGERPRINT_BYTES];
    for (which, out) in fingerprint.as_chunks_mut::<WORD_BYTES>().0.iter_mut().enumerate() {
        let [products0, products1] = residue.factors(which).map(|c| &MUL[usize::from(c)]);
        for word in (0..ROW_WORDS).rev() {
            step(which, out);
            for (i, byte) in out.iter_mut().enumerate() {
                let at = word * WORD_BYTES + i;
                *byte ^= products0[usize::from(r0[at])] ^ products1[usize::from(r1[at])];
            }
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
