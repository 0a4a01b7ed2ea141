//! The kernels' loops, written once over a [`Vector`] and compiled for each level.
//!
//! Everything here is `#[inline(always)]`: a level's `#[target_feature]` functions pull the loops in, and only there
//! do they become instructions.

use super::Sums;
use super::chunk::ROW_BYTES;
use crate::fingerprint::ROW_FACTORS;

/// A register full of bytes and what a level can do with it.
///
/// # Safety
/// Every function may only be called where the level's instructions are enabled; pointers must be good for
/// [`BYTES`](Vector::BYTES) bytes, or for `bytes` where that is an argument, at any alignment.
pub(super) trait Vector: Copy {
    /// Bytes of a register.
    const BYTES: usize;
    /// Multiplication by a constant, as it is kept in memory.
    type Table: Copy;
    /// Multiplication by a constant, as it is kept in registers.
    type Factor: Copy;

    fn table(c: u8) -> Self::Table;
    unsafe fn factor(table: &Self::Table) -> Self::Factor;
    unsafe fn zero() -> Self;
    unsafe fn load(from: *const u8) -> Self;
    unsafe fn store(self, to: *mut u8);
    unsafe fn xor(self, other: Self) -> Self;
    unsafe fn mul(self, factor: Self::Factor) -> Self;

    /// Loads fewer bytes than a register has; the rest is zero.
    #[inline(always)]
    unsafe fn load_part(from: *const u8, bytes: usize) -> Self {
        let mut padded = [0; 64];
        // SAFETY: `bytes` are fewer than a register's, which has no more than the 64 of the buffer.
        unsafe {
            std::ptr::copy_nonoverlapping(from, padded.as_mut_ptr(), bytes);
            Self::load(padded.as_ptr())
        }
    }

    /// Stores only the first `bytes`.
    #[inline(always)]
    unsafe fn store_part(self, to: *mut u8, bytes: usize) {
        let mut padded = [0; 64];
        // SAFETY: as in `load_part`.
        unsafe {
            self.store(padded.as_mut_ptr());
            std::ptr::copy_nonoverlapping(padded.as_ptr(), to, bytes);
        }
    }
}

/// What a loop over two regions does with each vector: `dst = apply(src, dst)`.
pub(super) trait Step<V> {
    /// # Safety
    /// As for [`Vector`].
    unsafe fn apply(&self, src: V, dst: V) -> V;
}

pub(super) struct Xor;
pub(super) struct Mul<V: Vector>(pub V::Factor);
pub(super) struct MulAdd<V: Vector>(pub V::Factor);

impl<V: Vector> Step<V> for Xor {
    #[inline(always)]
    unsafe fn apply(&self, src: V, dst: V) -> V {
        // SAFETY: the caller's promise.
        unsafe { dst.xor(src) }
    }
}

impl<V: Vector> Step<V> for Mul<V> {
    #[inline(always)]
    unsafe fn apply(&self, src: V, _dst: V) -> V {
        // SAFETY: the caller's promise.
        unsafe { src.mul(self.0) }
    }
}

impl<V: Vector> Step<V> for MulAdd<V> {
    #[inline(always)]
    unsafe fn apply(&self, src: V, dst: V) -> V {
        // SAFETY: the caller's promise.
        unsafe { dst.xor(src.mul(self.0)) }
    }
}

/// Vectors per turn of [`each`]: enough to hide the loop's own work.
const UNROLL: usize = 4;

/// `dst = step(src, dst)` over whole regions.
///
/// # Safety
/// As [`Routines`](super::Routines) asks, with the vector's instructions enabled.
#[inline(always)]
pub(super) unsafe fn each<V: Vector>(step: impl Step<V>, src: *const u8, dst: *mut u8, bytes: usize) {
    let mut at = 0;
    // SAFETY: every access ends at or before `bytes`, within both regions.
    unsafe {
        while at + UNROLL * V::BYTES <= bytes {
            for i in 0..UNROLL {
                let (src, dst) = (src.add(at + i * V::BYTES), dst.add(at + i * V::BYTES));
                step.apply(V::load(src), V::load(dst)).store(dst);
            }
            at += UNROLL * V::BYTES;
        }
        while at + V::BYTES <= bytes {
            step.apply(V::load(src.add(at)), V::load(dst.add(at))).store(dst.add(at));
            at += V::BYTES;
        }
        if at < bytes {
            let (src, dst, left) = (src.add(at), dst.add(at), bytes - at);
            step.apply(V::load_part(src, left), V::load_part(dst, left)).store_part(dst, left);
        }
    }
}

/// Both running sums over one strip of the rows, `W` vectors wide, held in registers. The sums of neighbouring
/// vectors do not depend on each other, which hides the latency of a step.
struct Strip<V, const W: usize>([[V; W]; 2]);

impl<V: Vector, const W: usize> Strip<V, W> {
    const BYTES: usize = W * V::BYTES;

    #[inline(always)]
    unsafe fn load(sums: &Sums, offset: usize) -> Self {
        // SAFETY: strips lie within a row.
        unsafe {
            let mut strip = [[V::zero(); W]; 2];
            for (strip, sum) in strip.iter_mut().zip(&sums.0) {
                for (i, vector) in strip.iter_mut().enumerate() {
                    *vector = V::load(sum.as_ptr().add(offset + i * V::BYTES));
                }
            }
            Self(strip)
        }
    }

    #[inline(always)]
    unsafe fn store(self, sums: &mut Sums, offset: usize) {
        // SAFETY: strips lie within a row.
        unsafe {
            for (strip, sum) in self.0.into_iter().zip(&mut sums.0) {
                for (i, vector) in strip.into_iter().enumerate() {
                    vector.store(sum.as_mut_ptr().add(offset + i * V::BYTES));
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn add(&mut self, i: usize, vector: V, factors: [V::Factor; 2]) {
        // SAFETY: the caller's promise.
        unsafe {
            self.0[0][i] = self.0[0][i].mul(factors[0]).xor(vector);
            self.0[1][i] = self.0[1][i].mul(factors[1]).xor(vector);
        }
    }
}

#[inline(always)]
unsafe fn row_factors<V: Vector>() -> [V::Factor; 2] {
    // SAFETY: the caller's promise.
    unsafe { [V::factor(&V::table(ROW_FACTORS[0])), V::factor(&V::table(ROW_FACTORS[1]))] }
}

/// # Safety
/// As [`Routines`](super::Routines) asks, with the vector's instructions enabled. `W` vectors divide a row.
#[inline(always)]
pub(super) unsafe fn sum_rows<V: Vector, const W: usize>(rows: *const u8, count: usize, sums: &mut Sums) {
    // SAFETY: strips lie within a row, rows within the region.
    unsafe {
        let factors = row_factors::<V>();
        for offset in (0..ROW_BYTES).step_by(Strip::<V, W>::BYTES) {
            let mut strip = Strip::<V, W>::load(sums, offset);
            for row in (0..count).rev() {
                let at = rows.add(row * ROW_BYTES + offset);
                for i in 0..W {
                    strip.add(i, V::load(at.add(i * V::BYTES)), factors);
                }
            }
            strip.store(sums, offset);
        }
    }
}

/// # Safety
/// As [`Routines`](super::Routines) asks, with the vector's instructions enabled. `W` vectors divide a row.
#[inline(always)]
pub(super) unsafe fn hop_rows<V: Vector, const W: usize>(
    c: u8,
    local: *const u8,
    acc: *mut u8,
    count: usize,
    local_sums: &mut Sums,
    acc_sums: &mut Sums,
) {
    // SAFETY: strips lie within a row, rows within both regions.
    unsafe {
        let factors = row_factors::<V>();
        let coefficient = V::factor(&V::table(c));
        for offset in (0..ROW_BYTES).step_by(Strip::<V, W>::BYTES) {
            let mut of_local = Strip::<V, W>::load(local_sums, offset);
            let mut of_acc = Strip::<V, W>::load(acc_sums, offset);
            for row in (0..count).rev() {
                let at = row * ROW_BYTES + offset;
                for i in 0..W {
                    let mine = V::load(local.add(at + i * V::BYTES));
                    let to = acc.add(at + i * V::BYTES);
                    let received = V::load(to);
                    received.xor(mine.mul(coefficient)).store(to);
                    of_local.add(i, mine, factors);
                    of_acc.add(i, received, factors);
                }
            }
            of_local.store(local_sums, offset);
            of_acc.store(acc_sums, offset);
        }
    }
}

/// Defines `ROUTINES` of a level. `sum` and `hop` are the strips' widths in vectors, bounded by the registers; `dot`
/// the vectors of each output that are worked on together.
macro_rules! routines {
    ($vector:ty, $features:literal, sum: $sum:literal, hop: $hop:literal, dot: $dot:literal, finish: $finish:path) => {
        pub(super) static ROUTINES: super::Routines =
            super::Routines { xor, mul, mul_add, dot, sum_rows, hop_rows, finish: $finish };

        /// # Safety
        /// As [`Routines`](super::Routines) asks; so for all that follow.
        #[target_feature(enable = $features)]
        unsafe fn xor(src: *const u8, dst: *mut u8, bytes: usize) {
            // SAFETY: the caller's promise; the instructions are enabled here. So below.
            unsafe { super::vector::each::<$vector>(super::vector::Xor, src, dst, bytes) }
        }

        #[target_feature(enable = $features)]
        unsafe fn mul(c: u8, src: *const u8, dst: *mut u8, bytes: usize) {
            // SAFETY: as in `xor`.
            unsafe {
                let factor = <$vector>::factor(&<$vector>::table(c));
                super::vector::each::<$vector>(super::vector::Mul(factor), src, dst, bytes)
            }
        }

        #[target_feature(enable = $features)]
        unsafe fn mul_add(c: u8, src: *const u8, dst: *mut u8, bytes: usize) {
            // SAFETY: as in `xor`.
            unsafe {
                let factor = <$vector>::factor(&<$vector>::table(c));
                super::vector::each::<$vector>(super::vector::MulAdd(factor), src, dst, bytes)
            }
        }

        #[target_feature(enable = $features)]
        unsafe fn sum_rows(rows: *const u8, count: usize, sums: &mut super::Sums) {
            // SAFETY: as in `xor`.
            unsafe { super::vector::sum_rows::<$vector, $sum>(rows, count, sums) }
        }

        #[target_feature(enable = $features)]
        unsafe fn hop_rows(
            c: u8,
            local: *const u8,
            acc: *mut u8,
            count: usize,
            local_sums: &mut super::Sums,
            acc_sums: &mut super::Sums,
        ) {
            // SAFETY: as in `xor`.
            unsafe { super::vector::hop_rows::<$vector, $hop>(c, local, acc, count, local_sums, acc_sums) }
        }

        #[target_feature(enable = $features)]
        unsafe fn dot(dot: &super::Dot<'_>) {
            /// One function for each shape, so that counts are constants and accumulators stay in registers.
            #[target_feature(enable = $features)]
            unsafe fn shaped<const N: usize, const G: usize>(dot: &super::Dot<'_>) {
                // SAFETY: as in `xor`.
                unsafe { super::dot::dot::<$vector, N, G, $dot>(dot) }
            }
            // SAFETY: as in `xor`.
            super::dot::for_shape!(dot, shaped)
        }
    };
}

pub(super) use routines;
