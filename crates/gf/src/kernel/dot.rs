//! Matrix products over regions, compiled for each count of inputs and outputs.

use super::Dot;
use super::vector::Vector;

/// `N` inputs, `G` outputs, `U` vectors of each at once.
///
/// # Safety
/// As [`Kernels::dot`](super::Kernels::dot) asks, with the vector's instructions enabled and the counts being those
/// of `dot`.
#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "the indices run over several arrays and the regions")]
pub(super) unsafe fn dot<V: Vector, const N: usize, const G: usize, const U: usize>(dot: &Dot<'_>) {
    let (mut inputs, mut outputs) = ([std::ptr::null(); N], [std::ptr::null_mut(); G]);
    inputs.copy_from_slice(dot.inputs);
    outputs.copy_from_slice(dot.outputs);
    let tables: [[V::Table; G]; N] =
        std::array::from_fn(|i| std::array::from_fn(|g| V::table(dot.coefficients[g * N + i])));
    let (bytes, mut at) = (dot.bytes, 0);
    // SAFETY: every access ends at or before `bytes`, within all regions; the part is shorter than a vector.
    unsafe {
        while at + U * V::BYTES <= bytes {
            let mut sums = [[V::zero(); U]; G];
            for g in 0..G {
                for u in 0..U {
                    if dot.accumulate {
                        sums[g][u] = V::load(outputs[g].add(at + u * V::BYTES));
                    }
                }
            }
            for i in 0..N {
                let mut vectors = [V::zero(); U];
                for u in 0..U {
                    vectors[u] = V::load(inputs[i].add(at + u * V::BYTES));
                }
                for g in 0..G {
                    let factor = V::factor(&tables[i][g]);
                    for u in 0..U {
                        sums[g][u] = sums[g][u].xor(vectors[u].mul(factor));
                    }
                }
            }
            for g in 0..G {
                for u in 0..U {
                    sums[g][u].store(outputs[g].add(at + u * V::BYTES));
                }
            }
            at += U * V::BYTES;
        }
        while at < bytes {
            let part = (bytes - at).min(V::BYTES);
            for g in 0..G {
                let output = outputs[g].add(at);
                let mut sum = if dot.accumulate { load_up_to::<V>(output, part) } else { V::zero() };
                for i in 0..N {
                    let vector = load_up_to::<V>(inputs[i].add(at), part);
                    sum = sum.xor(vector.mul(V::factor(&tables[i][g])));
                }
                if part == V::BYTES { sum.store(output) } else { sum.store_part(output, part) }
            }
            at += part;
        }
    }
}

/// # Safety
/// As for [`Vector`].
#[inline(always)]
unsafe fn load_up_to<V: Vector>(from: *const u8, bytes: usize) -> V {
    // SAFETY: the caller's promise.
    unsafe { if bytes == V::BYTES { V::load(from) } else { V::load_part(from, bytes) } }
}

/// Calls `$shaped::<N, G>` for the counts of `$dot`. Counts beyond the bounds are a bug of this crate; nothing is done.
macro_rules! for_shape {
    ($dot:ident, $shaped:ident) => {
        super::dot::for_shape!(@inputs $dot, $shaped; 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16)
    };
    (@inputs $dot:ident, $shaped:ident; $($n:literal)*) => {
        match ($dot.inputs.len(), $dot.outputs.len()) {
            $(
                // SAFETY: the caller's promise; the counts are those matched.
                ($n, 1) => unsafe { $shaped::<$n, 1>($dot) },
                // SAFETY: as above.
                ($n, 2) => unsafe { $shaped::<$n, 2>($dot) },
                // SAFETY: as above.
                ($n, 3) => unsafe { $shaped::<$n, 3>($dot) },
                // SAFETY: as above.
                ($n, 4) => unsafe { $shaped::<$n, 4>($dot) },
            )*
            _ => debug_assert!(false, "no dot product of this shape"),
        }
    };
}

pub(super) use for_shape;
