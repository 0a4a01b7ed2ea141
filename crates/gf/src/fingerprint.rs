//! Linear fingerprints: 128 bytes that tell whether a chunk is what an equation says it is.
//!
//! # Definition (version 1, on-disk format)
//! A chunk is a sequence of 64-byte words w₀, w₁, …, the last filled up with zeros; a word is eight lanes of eight
//! bytes. The fingerprint is two sums of 64 bytes,
//!
//! ```text
//!   Σ_j  A^j (w_j)      A: move every lane up by one (the top lane to the bottom), multiply every byte by 2
//!   Σ_j  B^j (w_j)      B: move every lane up by three, multiply the bytes of lanes 3 and 7 by 2⁻⁴ = 0xd8
//! ```
//!
//! with products in GF(2^8), polynomial 0x11d. What follows:
//! - fp(a·x + b·y) = a·fp(x) + b·fp(y). It is linear over a tower GF(2^16) on adjacent bytes as well: lanes move whole.
//! - Zeros at the end change nothing; a short chunk is a zero-padded one.
//! - A⁴ = 2⁴·σ and B⁴ = 2⁻⁴·σ, where σ exchanges the halves of a word: over rows of four words, no lane moves but
//!   that odd rows take part with halves exchanged. As the two factors are inverse to each other, the rows' polynomial
//!   modulo (x−2⁴)(x−2⁻⁴) = x²+s·x+1 costs one product per byte, and both sums follow from the residue. That is what
//!   kernels do.
//! - In 32 KiB, every fault of one or two bytes is found, and every exchange of two unequal words (no vector is fixed
//!   by both A^k and B^k for 0 < k < 512). A fault of one byte lane (every 64th byte) meets 16 check bytes.
//!
//! A block's fingerprint is Σ_i U^i(fp_i) over its chunks i, where U is multiplication by x in
//! GF(2^8)\[x\]/(x⁸+x⁷+x+2): eight lanes of 16 bytes are the coefficients, lane i that of xⁱ. The polynomial is
//! primitive, U has order 2⁶⁴−1, so chunks cannot trade places unnoticed in a block of any size.

use std::fmt;

use crate::kernel::{MUL, constant_mul};
use crate::{CHUNK_BYTES, kernels};

/// Bytes of a word, what one Horner step adds.
pub const WORD_BYTES: usize = 64;

/// Bytes of a fingerprint: two sums of a word each.
pub const FINGERPRINT_BYTES: usize = 2 * WORD_BYTES;

/// Version of the definition. Stored beside every fingerprint; a change of any constant is a new version.
pub const FINGERPRINT_VERSION: u16 = 1;

/// Lanes of a word.
pub(crate) const LANES: usize = 8;

/// Words of a row, after which both A and B have moved every lane to the other half of its word.
pub(crate) const ROW_WORDS: usize = 4;

/// How far A and B move lanes.
pub(crate) const MOVES: [usize; 2] = [1, 3];

/// 2⁻⁴, what B multiplies two of the lanes by.
pub(crate) const B_FACTOR: u8 = 0xd8;

/// What A and B multiply the bytes of each lane by, after moving them.
pub(crate) const FACTORS: [[u8; LANES]; 2] = [[2; LANES], [1, 1, 1, B_FACTOR, 1, 1, 1, B_FACTOR]];

/// The factors of A⁴ and B⁴, inverse to each other.
pub(crate) const ROW_FACTORS: [u8; 2] = [weights(0, ROW_WORDS)[0], weights(1, ROW_WORDS)[0]];

/// `ROW_POWERS[sum][i]` = `ROW_FACTORS[sum]`^i, for every row of a chunk.
pub(crate) static ROW_POWERS: [[u8; CHUNK_BYTES / WORD_BYTES / ROW_WORDS]; 2] = {
    let mut powers = [[1; CHUNK_BYTES / WORD_BYTES / ROW_WORDS]; 2];
    let mut i = 1;
    while i < powers[0].len() {
        powers[0][i] = constant_mul(powers[0][i - 1], ROW_FACTORS[0]);
        powers[1][i] = constant_mul(powers[1][i - 1], ROW_FACTORS[1]);
        i += 1;
    }
    powers
};

/// s of x²+s·x+1, which has the row factors as its roots.
pub(crate) const ROOT_SUM: u8 = ROW_FACTORS[0] ^ ROW_FACTORS[1];

/// The lane factors of `steps` steps of A (`sum` 0) or B (`sum` 1), whose move is `steps · MOVES[sum]`.
pub(crate) const fn weights(sum: usize, steps: usize) -> [u8; LANES] {
    let mut weights = [1; LANES];
    let mut step = 0;
    while step < steps {
        let before = weights;
        let mut lane = 0;
        while lane < LANES {
            let from = (lane + LANES - MOVES[sum]) % LANES;
            weights[lane] = constant_mul(FACTORS[sum][lane], before[from]);
            lane += 1;
        }
        step += 1;
    }
    weights
}

/// The fingerprint of a chunk, of a block, or of any combination of such. The default is that of zeros.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; FINGERPRINT_BYTES]);

impl Fingerprint {
    /// The fingerprint of zeros.
    pub const ZERO: Self = Self([0; FINGERPRINT_BYTES]);

    /// A fingerprint as it was stored or sent.
    pub const fn from_bytes(bytes: [u8; FINGERPRINT_BYTES]) -> Self {
        Self(bytes)
    }

    /// What to store or send.
    pub const fn as_bytes(&self) -> &[u8; FINGERPRINT_BYTES] {
        &self.0
    }

    /// Whether it is that of zeros.
    pub fn is_zero(&self) -> bool {
        self.0 == [0; FINGERPRINT_BYTES]
    }

    /// `self += c · other`.
    pub fn add_scaled(&mut self, c: u8, other: &Self) {
        kernels().mul_add(c, &other.0, &mut self.0);
    }

    /// Adds chunk `chunk_index` of a block to the block's fingerprint, `self += U^chunk_index(chunk)`. The order of
    /// chunks is free, chunks of zeros may be left out.
    pub fn fold(&mut self, chunk_index: u64, chunk: &Self) {
        self.add_scaled(1, &chunk.shifted(chunk_index));
    }

    /// Adds the fingerprint of what follows, `self = U(self) + next`: that of several pieces in a row, none of them longer
    /// than a chunk, whatever they are cut at. Linear as [`Fingerprint::fold`] is, and without powers of U, because the
    /// last piece is not shifted.
    pub fn append(&mut self, next: &Self) {
        const UNITS: usize = FINGERPRINT_BYTES / UNIT_BYTES;
        let units = self.0.as_chunks::<UNIT_BYTES>().0;
        let unit = |i: usize| u128::from_le_bytes(units[i]);
        let top = unit(UNITS - 1);
        let mut moved = [0; FINGERPRINT_BYTES];
        let (targets, added) = (moved.as_chunks_mut::<UNIT_BYTES>().0, next.0.as_chunks::<UNIT_BYTES>().0);
        for (i, (target, added)) in targets.iter_mut().zip(added).enumerate() {
            let below = if i == 0 { 0 } else { unit(i - 1) };
            let wrapped = match X_TO_DEGREE[i] {
                0 => 0,
                1 => top,
                _ => doubled(top),
            };
            *target = (below ^ wrapped ^ u128::from_le_bytes(*added)).to_le_bytes();
        }
        self.0 = moved;
    }

    /// The fingerprint of the same bytes `chunks` chunks further into a block, U^chunks(self). With symbols of whole
    /// chunks, block = Σ_s symbol_s shifted by s · (chunks of a symbol).
    pub fn shifted(&self, chunks: u64) -> Self {
        if chunks == 0 {
            return *self;
        }
        let mut shifted = [0; FINGERPRINT_BYTES];
        // Column i of the multiplication by x^chunks: what it makes of xⁱ.
        let mut column = power_of_x(chunks);
        for source in self.0.as_chunks::<UNIT_BYTES>().0 {
            for (target, factor) in shifted.as_chunks_mut::<UNIT_BYTES>().0.iter_mut().zip(column) {
                let products = &MUL[usize::from(factor)];
                target.iter_mut().zip(source).for_each(|(t, s)| *t ^= products[usize::from(*s)]);
            }
            column = times_x(column);
        }
        Self(shifted)
    }
}

impl Default for Fingerprint {
    fn default() -> Self {
        Self::ZERO
    }
}

impl fmt::Debug for Fingerprint {
    /// The first bytes of either sum: enough to tell two apart in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fingerprint(")?;
        for sum in self.0.chunks(WORD_BYTES) {
            sum[..4].iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
            f.write_str("…")?;
        }
        f.write_str(")")
    }
}

/// An element of GF(2^8)\[x\]/(x⁸+x⁷+x+2), coefficient of xⁱ at i.
type Polynomial = [u8; DEGREE];

const DEGREE: usize = 8;

/// Bytes of a fingerprint that share a coefficient of U.
const UNIT_BYTES: usize = FINGERPRINT_BYTES / DEGREE;

/// x⁸ = x⁷ + x + 2.
const X_TO_DEGREE: Polynomial = [2, 1, 0, 0, 0, 0, 0, 1];

/// Twice each of sixteen bytes, in GF(2^8).
const fn doubled(bytes: u128) -> u128 {
    const EACH: u128 = u128::from_le_bytes([1; UNIT_BYTES]);
    let carries = (bytes >> 7) & EACH;
    ((bytes & !(EACH << 7)) << 1) ^ (carries * constant_mul(2, 0x80) as u128)
}

/// Exponents are taken in digits of four bits, as a compromise between products and table.
const DIGIT_BITS: usize = 4;
const DIGITS: usize = u64::BITS as usize / DIGIT_BITS;

/// `POWERS[p][d]` = x^(d·16^p).
static POWERS: [[Polynomial; 1 << DIGIT_BITS]; DIGITS] = {
    let mut powers = [[[0; DEGREE]; 1 << DIGIT_BITS]; DIGITS];
    let mut base: Polynomial = [0, 1, 0, 0, 0, 0, 0, 0];
    let mut p = 0;
    while p < DIGITS {
        powers[p][0] = [1, 0, 0, 0, 0, 0, 0, 0];
        let mut d = 1;
        while d < 1 << DIGIT_BITS {
            powers[p][d] = polynomial_mul(powers[p][d - 1], base);
            d += 1;
        }
        base = polynomial_mul(powers[p][d - 1], base);
        p += 1;
    }
    powers
};

fn power_of_x(exponent: u64) -> Polynomial {
    let mut digits = (0..DIGITS).map(|p| (p, (exponent >> (p * DIGIT_BITS)) as usize % (1 << DIGIT_BITS)));
    let mut power = POWERS[0][digits.next().map_or(0, |(_, digit)| digit)];
    for (p, digit) in digits.filter(|&(_, digit)| digit != 0) {
        power = polynomial_mul(power, POWERS[p][digit]);
    }
    power
}

const fn times_x(a: Polynomial) -> Polynomial {
    let mut product = [0; DEGREE];
    let mut i = 0;
    while i < DEGREE {
        let below = if i == 0 { 0 } else { a[i - 1] };
        product[i] = below ^ constant_mul(a[DEGREE - 1], X_TO_DEGREE[i]);
        i += 1;
    }
    product
}

const fn polynomial_mul(a: Polynomial, b: Polynomial) -> Polynomial {
    let (mut product, mut shifted) = ([0; DEGREE], a);
    let mut i = 0;
    while i < DEGREE {
        let mut j = 0;
        while j < DEGREE {
            product[j] ^= constant_mul(b[i], shifted[j]);
            j += 1;
        }
        shifted = times_x(shifted);
        i += 1;
    }
    product
}

#[cfg(test)]
mod tests {
    use super::*;

    /// x has order 2⁶⁴−1, hence the polynomial is primitive: its power is 1 for the whole exponent, and for none of
    /// the exponent's maximal divisors.
    #[test]
    fn block_constant_is_primitive() {
        let one = POWERS[0][0];
        assert_eq!(power_of_x(u64::MAX), one);
        for prime in [3, 5, 17, 257, 641, 65_537, 6_700_417] {
            assert_eq!(u64::MAX % prime, 0);
            assert_ne!(power_of_x(u64::MAX / prime), one);
        }
    }

    #[test]
    fn appending_is_a_block_read_backwards() {
        let piece = |seed: u8| {
            Fingerprint(std::array::from_fn(|i| seed.wrapping_mul(31) ^ (i as u8).wrapping_mul(seed | 1)))
        };
        let (mut appended, mut folded) = (Fingerprint::ZERO, Fingerprint::ZERO);
        for i in 0..9 {
            appended.append(&piece(200 + i));
            folded.fold(8 - u64::from(i), &piece(200 + i));
        }
        assert_eq!(appended, folded);
    }

    #[test]
    fn a_row_exchanges_halves_and_multiplies_by_inverse_scalars() {
        assert_eq!(constant_mul(ROW_FACTORS[0], ROW_FACTORS[1]), 1);
        for (sum, factor) in ROW_FACTORS.into_iter().enumerate() {
            assert_eq!(weights(sum, ROW_WORDS), [factor; LANES]);
            assert_eq!(ROW_WORDS * MOVES[sum] % LANES, LANES / 2);
        }
    }
}
