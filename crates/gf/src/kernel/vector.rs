//! The kernels' loops, written once over a [`Vector`] and compiled for each level.
//!
//! Everything here is `#[inline(always)]`: a level's `#[target_feature]` functions pull the loops in, and only there
//! do they become instructions.

use super::Residue;
use super::chunk::{PAIR_BYTES, ROW_BYTES};
use crate::WORD_BYTES;
use crate::fingerprint::ROOT_SUM;

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

    /// The halves of a word exchanged; only called for a register that holds a whole word.
    #[inline(always)]
    unsafe fn exchange_halves(self) -> Self {
        self
    }

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

/// The XOR of `N` regions, in one pass.
///
/// # Safety
/// As [`Routines`](super::Routines) asks, with the vector's instructions enabled and as many sources.
#[inline(always)]
pub(super) unsafe fn sum<V: Vector, const N: usize>(
    sources: &[*const u8],
    destination: *mut u8,
    bytes: usize,
    accumulate: bool,
) {
    let mut from = [std::ptr::null(); N];
    from.copy_from_slice(sources);
    let mut at = 0;
    // SAFETY: every access ends at or before `bytes`, within all regions; the part is shorter than a vector.
    unsafe {
        while at + UNROLL * V::BYTES <= bytes {
            let mut sums = [V::zero(); UNROLL];
            for (u, sum) in sums.iter_mut().enumerate() {
                let offset = at + u * V::BYTES;
                *sum = if accumulate { V::load(destination.add(offset)) } else { V::zero() };
            }
            for source in from {
                for (u, sum) in sums.iter_mut().enumerate() {
                    *sum = sum.xor(V::load(source.add(at + u * V::BYTES)));
                }
            }
            for (u, sum) in sums.into_iter().enumerate() {
                sum.store(destination.add(at + u * V::BYTES));
            }
            at += UNROLL * V::BYTES;
        }
        while at < bytes {
            let part = (bytes - at).min(V::BYTES);
            let load = |from: *const u8| {
                if part == V::BYTES { V::load(from.add(at)) } else { V::load_part(from.add(at), part) }
            };
            let mut sum = if accumulate { load(destination) } else { V::zero() };
            for source in from {
                sum = sum.xor(load(source));
            }
            let to = destination.add(at);
            if part == V::BYTES {
                sum.store(to)
            } else {
                sum.store_part(to, part)
            }
            at += part;
        }
    }
}

/// Calls `$counted::<N>` for the number of sources. Other numbers are a bug of this crate; nothing is done.
macro_rules! for_count {
    ($sources:ident, $counted:ident, ($($rest:expr),*)) => {
        super::vector::for_count!(@ $sources, $counted, ($($rest),*); 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16)
    };
    (@ $sources:ident, $counted:ident, $rest:tt; $($n:literal)*) => {
        match $sources.len() {
            $( $n => super::vector::for_count!(@call $n, $counted, $sources, $rest), )*
            _ => debug_assert!(false, "no sum of so many"),
        }
    };
    (@call $n:literal, $counted:ident, $sources:ident, ($($rest:expr),*)) => {
        // SAFETY: the caller's promise; the count is the one matched.
        unsafe { $counted::<$n>($sources, $($rest),*) }
    };
}

pub(super) use for_count;

/// The residue over one strip of the rows, `W` vectors wide, held in registers. Neighbouring vectors do not depend on
/// each other, which hides the latency of a step.
struct Strip<V, const W: usize> {
    r0: [V; W],
    r1: [V; W],
}

impl<V: Vector, const W: usize> Strip<V, W> {
    const BYTES: usize = W * V::BYTES;

    #[inline(always)]
    unsafe fn load(residue: &Residue, offset: usize) -> Self {
        // SAFETY: strips lie within a row.
        unsafe {
            let mut strip = Self { r0: [V::zero(); W], r1: [V::zero(); W] };
            // A fresh residue is zero, and reading it would wait for narrower stores to reach the cache.
            if residue.rows > 0 {
                for i in 0..W {
                    strip.r0[i] = V::load(residue.parts[0].as_ptr().add(offset + i * V::BYTES));
                    strip.r1[i] = V::load(residue.parts[1].as_ptr().add(offset + i * V::BYTES));
                }
            }
            strip
        }
    }

    #[inline(always)]
    unsafe fn store(self, residue: &mut Residue, offset: usize) {
        for i in 0..W {
            // SAFETY: strips lie within a row.
            unsafe {
                self.r0[i].store(residue.parts[0].as_mut_ptr().add(offset + i * V::BYTES));
                self.r1[i].store(residue.parts[1].as_mut_ptr().add(offset + i * V::BYTES));
            }
        }
    }

    /// The next row.
    #[inline(always)]
    unsafe fn add(&mut self, i: usize, vector: V, root_sum: V::Factor) {
        // SAFETY: the caller's promise.
        unsafe {
            (self.r0[i], self.r1[i]) = (self.r1[i].xor(vector), self.r0[i].xor(self.r1[i].mul(root_sum)))
        }
    }
}

/// Where in a pair of rows the vector for place `at` of the residue is. In an odd row the halves of a word are
/// exchanged: for a vector no longer than a half, that is to look at the other half.
#[inline(always)]
fn place<V: Vector>(odd: usize, at: usize) -> usize {
    let exchange = if V::BYTES < WORD_BYTES { odd * (WORD_BYTES / 2) } else { 0 };
    odd * ROW_BYTES + (at ^ exchange)
}

/// What a vector contributes to the residue: a whole word of an odd row has its halves exchanged here.
#[inline(always)]
unsafe fn contribution<V: Vector>(odd: usize, vector: V) -> V {
    // SAFETY: the caller's promise.
    if V::BYTES == WORD_BYTES && odd == 1 { unsafe { vector.exchange_halves() } } else { vector }
}

/// # Safety
/// As [`Routines`](super::Routines) asks, with the vector's instructions enabled. `W` vectors divide a row.
#[inline(always)]
pub(super) unsafe fn add_pairs<V: Vector, const W: usize>(
    pairs: *const u8,
    count: usize,
    residue: &mut Residue,
) {
    // SAFETY: strips lie within a row, rows within the region.
    unsafe {
        let root_sum = V::factor(&V::table(ROOT_SUM));
        for offset in (0..ROW_BYTES).step_by(Strip::<V, W>::BYTES) {
            let mut strip = Strip::<V, W>::load(residue, offset);
            for pair in 0..count {
                for odd in [0, 1] {
                    for i in 0..W {
                        let at = pair * PAIR_BYTES + place::<V>(odd, offset + i * V::BYTES);
                        strip.add(i, contribution(odd, V::load(pairs.add(at))), root_sum);
                    }
                }
            }
            strip.store(residue, offset);
        }
    }
}

/// # Safety
/// As [`Routines`](super::Routines) asks, with the vector's instructions enabled. `W` vectors divide a row.
#[inline(always)]
pub(super) unsafe fn hop_pairs<V: Vector, const W: usize>(
    c: u8,
    local: *const u8,
    acc: *mut u8,
    count: usize,
    local_residue: &mut Residue,
    acc_residue: &mut Residue,
) {
    // SAFETY: strips lie within a row, rows within both regions.
    unsafe {
        let root_sum = V::factor(&V::table(ROOT_SUM));
        let coefficient = V::factor(&V::table(c));
        for offset in (0..ROW_BYTES).step_by(Strip::<V, W>::BYTES) {
            let mut of_local = Strip::<V, W>::load(local_residue, offset);
            let mut of_acc = Strip::<V, W>::load(acc_residue, offset);
            for pair in 0..count {
                for odd in [0, 1] {
                    for i in 0..W {
                        let at = pair * PAIR_BYTES + place::<V>(odd, offset + i * V::BYTES);
                        let (mine, received) = (V::load(local.add(at)), V::load(acc.add(at)));
                        received.xor(mine.mul(coefficient)).store(acc.add(at));
                        of_local.add(i, contribution(odd, mine), root_sum);
                        of_acc.add(i, contribution(odd, received), root_sum);
                    }
                }
            }
            of_local.store(local_residue, offset);
            of_acc.store(acc_residue, offset);
        }
    }
}

/// Defines `ROUTINES` of a level. `rows` and `hop` are the strips' widths in vectors, bounded by the registers; `dot`
/// the vectors of each output that are worked on together.
macro_rules! routines {
    ($vector:ty, $features:literal, rows: $rows:literal, hop: $hop:literal, dot: $dot:literal, finish: $finish:path) => {
        pub(super) static ROUTINES: super::Routines =
            super::Routines { xor, mul, mul_add, dot, sum, add_pairs, hop_pairs, finish: $finish };

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
        unsafe fn add_pairs(rows: *const u8, count: usize, residue: &mut super::Residue) {
            // SAFETY: as in `xor`.
            unsafe { super::vector::add_pairs::<$vector, $rows>(rows, count, residue) }
        }

        #[target_feature(enable = $features)]
        unsafe fn hop_pairs(
            c: u8,
            local: *const u8,
            acc: *mut u8,
            count: usize,
            local_residue: &mut super::Residue,
            acc_residue: &mut super::Residue,
        ) {
            // SAFETY: as in `xor`.
            unsafe {
                super::vector::hop_pairs::<$vector, $hop>(c, local, acc, count, local_residue, acc_residue)
            }
        }

        #[target_feature(enable = $features)]
        unsafe fn sum(sources: &[*const u8], destination: *mut u8, bytes: usize, accumulate: bool) {
            /// As in `dot`.
            #[target_feature(enable = $features)]
            unsafe fn counted<const N: usize>(
                sources: &[*const u8],
                to: *mut u8,
                bytes: usize,
                accumulate: bool,
            ) {
                // SAFETY: as in `xor`.
                unsafe { super::vector::sum::<$vector, N>(sources, to, bytes, accumulate) }
            }
            // SAFETY: as in `xor`.
            super::vector::for_count!(sources, counted, (destination, bytes, accumulate))
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
