//! Arithmetic of single field elements. Blocks go through the region kernels; this is what matrices are made with.

use crate::tower;
use std::fmt;

/// The field of a code's coefficients. Elements are `u16` in every field, so that code which only passes
/// coefficients on need not know how wide they are.
#[non_exhaustive]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Field {
    /// GF(2^8), polynomial x⁸+x⁴+x³+x²+1 (0x11d), generator 2: the field of ISA-L, Jerasure and HDFS.
    Gf256,
    /// GF(2^16), a tower over GF(2^8): the element 256·b + a is a + b·z, with z² = z + 34 and generator z. Regions are
    /// multiplied by way of [`Matrix::over_gf256`](crate::Matrix::over_gf256).
    Gf65536,
}

/// x⁸+x⁴+x³+x²+1, for which 2 is a primitive element.
const GF256_POLYNOMIAL: u16 = 0x11d;

/// Order of the multiplicative group of GF(2^8).
const GF256_UNITS: usize = 255;

/// Powers of 2, written twice so that a sum of two logarithms needs no reduction.
const GF256_EXP: [u8; 2 * GF256_UNITS] = gf256_exp();

/// Logarithms to the base 2. The entry for 0 means nothing and is never used.
const GF256_LOG: [u8; 256] = gf256_log();

const fn gf256_exp() -> [u8; 2 * GF256_UNITS] {
    let mut exp = [0; 2 * GF256_UNITS];
    let mut power: u16 = 1;
    let mut i = 0;
    while i < GF256_UNITS {
        exp[i] = power as u8;
        exp[i + GF256_UNITS] = power as u8;
        power <<= 1;
        if power > 0xff {
            power ^= GF256_POLYNOMIAL;
        }
        i += 1;
    }
    exp
}

const fn gf256_log() -> [u8; 256] {
    let mut log = [0; 256];
    let mut i = 0;
    while i < GF256_UNITS {
        log[GF256_EXP[i] as usize] = i as u8;
        i += 1;
    }
    log
}

/// Product in GF(2^8).
#[inline]
pub(crate) const fn mul256(a: u8, b: u8) -> u8 {
    let log = GF256_LOG[a as usize] as usize + GF256_LOG[b as usize] as usize;
    if a == 0 || b == 0 { 0 } else { GF256_EXP[log] }
}

/// Inverse in GF(2^8); `None` for 0.
pub(crate) const fn inv256(a: u8) -> Option<u8> {
    if a == 0 { None } else { Some(GF256_EXP[GF256_UNITS - GF256_LOG[a as usize] as usize]) }
}

/// Every operation takes elements below [`Field::order`]; multiplication and inversion panic on others.
/// Values from outside are checked once, by [`Matrix::from_rows`](crate::Matrix::from_rows) or [`Field::contains`].
impl Field {
    /// Number of elements, 2^w.
    pub const fn order(self) -> u32 {
        match self {
            Self::Gf256 => 256,
            Self::Gf65536 => 65_536,
        }
    }

    /// Whether `value` is an element.
    pub const fn contains(self, value: u16) -> bool {
        (value as u32) < self.order()
    }

    /// The element whose powers are all the units.
    pub const fn primitive(self) -> u16 {
        match self {
            Self::Gf256 => 2,
            Self::Gf65536 => 0x100,
        }
    }

    /// Sum; also the difference, for the characteristic is 2.
    pub const fn add(self, a: u16, b: u16) -> u16 {
        a ^ b
    }

    /// Product.
    #[inline]
    pub const fn mul(self, a: u16, b: u16) -> u16 {
        match self {
            Self::Gf256 => {
                assert!(a < 256 && b < 256);
                mul256(a as u8, b as u8) as u16
            }
            Self::Gf65536 => tower::mul(a, b),
        }
    }

    /// `target` += `factor` · `source`, element by element over the shorter of the two.
    pub fn add_multiple(self, target: &mut [u16], factor: u16, source: &[u16]) {
        if factor == 0 {
            return;
        }
        match self {
            Self::Gf256 => {
                assert!(factor < 256);
                let log = GF256_LOG[factor as usize] as usize;
                for (cell, &value) in target.iter_mut().zip(source) {
                    if value != 0 {
                        *cell ^= u16::from(GF256_EXP[log + GF256_LOG[usize::from(value)] as usize]);
                    }
                }
            }
            Self::Gf65536 => {
                for (cell, &value) in target.iter_mut().zip(source) {
                    *cell = self.add(*cell, self.mul(factor, value));
                }
            }
        }
    }

    /// Inverse; `None` for 0.
    pub const fn inv(self, a: u16) -> Option<u16> {
        match self {
            Self::Gf256 => {
                assert!(a < 256);
                match inv256(a as u8) {
                    Some(inverse) => Some(inverse as u16),
                    None => None,
                }
            }
            Self::Gf65536 => tower::inv(a),
        }
    }

    /// Quotient a / b; `None` when `b` is 0.
    pub const fn div(self, a: u16, b: u16) -> Option<u16> {
        match self.inv(b) {
            Some(inverse) => Some(self.mul(a, inverse)),
            None => None,
        }
    }

    /// `a` to the power `exponent`, with 0⁰ = 1.
    pub const fn pow(self, a: u16, exponent: u64) -> u16 {
        let (mut result, mut square, mut left) = (1, a, exponent);
        while left > 0 {
            if left & 1 == 1 {
                result = self.mul(result, square);
            }
            square = self.mul(square, square);
            left >>= 1;
        }
        result
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gf256 => "gf256",
            Self::Gf65536 => "gf65536",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Product by definition: carry-less multiplication, then reduction by the polynomial.
    fn slow_mul(a: u16, b: u16) -> u16 {
        let mut product = (0..8).filter(|bit| b >> bit & 1 == 1).fold(0u16, |sum, bit| sum ^ (a << bit));
        for bit in (8..16).rev() {
            if product >> bit & 1 == 1 {
                product ^= GF256_POLYNOMIAL << (bit - 8);
            }
        }
        product
    }

    #[test]
    fn products_and_inverses_are_those_of_the_polynomial() {
        let field = Field::Gf256;
        for a in 0..256 {
            for b in 0..256 {
                assert_eq!(field.mul(a, b), slow_mul(a, b), "{a}·{b}");
            }
            match field.inv(a) {
                Some(inverse) => assert_eq!(slow_mul(a, inverse), 1),
                None => assert_eq!(a, 0),
            }
        }
        assert_eq!(field.div(7, 0), None);
        assert_eq!(field.div(field.mul(7, 9), 9), Some(7));
    }

    #[test]
    fn powers_of_the_primitive_element_are_all_the_units() {
        let field = Field::Gf256;
        let powers: std::collections::HashSet<u16> =
            (0..255).map(|e| field.pow(field.primitive(), e)).collect();
        assert_eq!(powers.len(), 255);
        assert_eq!(field.pow(2, 8), 0x1d);
        assert_eq!((field.pow(0, 0), field.pow(0, 3), field.pow(2, 255)), (1, 0, 1));
    }
}
