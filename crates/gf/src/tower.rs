//! GF(2^16) as a tower: a + b·z with a, b in GF(2^8) and z² = z + c.
//!
//! Multiplication by a constant is then a 2×2 matrix over GF(2^8) on the pair (a, b). So a code over GF(2^16) *is* a code
//! over GF(2^8) with twice the symbols, and regions, flows and fingerprints need nothing but GF(2^8): a region of
//! elements is kept as two, one of their low and one of their high halves ([`Matrix::over_gf256`]).

use crate::field::{inv256, mul256};
use crate::{Field, Matrix};

/// c in z² = z + c: the smallest for which the polynomial is irreducible and z, the element 0x100, primitive.
const C: u8 = 34;

/// (low, high), the coefficients of 1 and z.
const fn halves(element: u16) -> (u8, u8) {
    (element as u8, (element >> 8) as u8)
}

const fn join(low: u8, high: u8) -> u16 {
    low as u16 | (high as u16) << 8
}

/// Product, by three products in GF(2^8) and one by c (Karatsuba).
pub(crate) const fn mul(x: u16, y: u16) -> u16 {
    let ((a, b), (d, e)) = (halves(x), halves(y));
    let (low, high) = (mul256(a, d), mul256(b, e));
    // (a + bz)(d + ez) = ad + c·be + ((a+b)(d+e) − ad)·z, as z² = z + c.
    join(low ^ mul256(C, high), mul256(a ^ b, d ^ e) ^ low)
}

/// Inverse: the conjugate a + b + b·z over the norm, which lies in GF(2^8); `None` for 0.
pub(crate) const fn inv(x: u16) -> Option<u16> {
    let (a, b) = halves(x);
    let norm = mul256(a, a ^ b) ^ mul256(C, mul256(b, b));
    match inv256(norm) {
        Some(scale) => Some(join(mul256(scale, a ^ b), mul256(scale, b))),
        None => None,
    }
}

impl Matrix {
    /// This matrix over GF(2^8): over GF(2^16) each element becomes the 2×2 matrix by which it multiplies the pair (low
    /// half, high half), so that there are twice the rows and columns. Sums, products, inverses and ranks (doubled)
    /// carry over.
    ///
    /// ```text
    ///   a + b·z   becomes   a   c·b
    ///                       b   a+b
    /// ```
    pub fn over_gf256(&self) -> Matrix {
        if self.field() == Field::Gf256 {
            return self.clone();
        }
        let mut doubled = Matrix::zero(Field::Gf256, 2 * self.rows(), 2 * self.cols());
        for row in 0..self.rows() {
            for (col, &element) in self.row(row).iter().enumerate() {
                let (a, b) = halves(element);
                for (down, right, value) in [(0, 0, a), (0, 1, mul256(C, b)), (1, 0, b), (1, 1, a ^ b)] {
                    doubled.set(2 * row + down, 2 * col + right, value.into());
                }
            }
        }
        doubled
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{GfError, Product};
    use proptest::prelude::*;

    const FIELD: Field = Field::Gf65536;

    /// A slow twin that is another field of 2^16 elements: GF(2)[x] modulo x¹⁶+x¹²+x³+x+1.
    fn polynomial_mul(a: u16, b: u16) -> u16 {
        let mut product =
            (0..16).filter(|bit| b >> bit & 1 == 1).fold(0u32, |sum, bit| sum ^ (u32::from(a) << bit));
        for bit in (16..32).rev() {
            if product >> bit & 1 == 1 {
                product ^= 0x1_100b << (bit - 16);
            }
        }
        product as u16
    }

    /// The polynomial's value at `root`, an element of the tower.
    fn evaluate(polynomial: u32, root: u16) -> u16 {
        (0..17).rev().fold(0, |sum, bit| FIELD.add(FIELD.mul(sum, root), (polynomial >> bit & 1) as u16))
    }

    /// Where the twin's elements lie in the tower: x goes to a root of its polynomial.
    fn isomorphism() -> impl Fn(u16) -> u16 {
        let root = (2..=u16::MAX).find(|&root| evaluate(0x1_100b, root) == 0).unwrap();
        move |element| evaluate(element.into(), root)
    }

    #[test]
    fn the_tower_is_the_field_of_65536_elements() {
        let to_tower = isomorphism();
        let mut image: Vec<u16> = (0..=u16::MAX).map(&to_tower).collect();
        for a in (0..=u16::MAX).step_by(251) {
            for b in (0..=u16::MAX).step_by(257) {
                assert_eq!(to_tower(polynomial_mul(a, b)), FIELD.mul(to_tower(a), to_tower(b)), "{a}·{b}");
            }
        }
        image.sort_unstable();
        assert!(image.into_iter().eq(0..=u16::MAX), "one to one");
    }

    #[test]
    fn every_unit_has_its_inverse_and_is_a_power_of_z() {
        let mut power = 1;
        let mut seen = vec![false; 1 << 16];
        for _ in 0..65_535 {
            assert!(!std::mem::replace(&mut seen[usize::from(power)], true));
            assert_eq!(FIELD.mul(power, FIELD.inv(power).unwrap()), 1, "{power}");
            power = FIELD.mul(power, FIELD.primitive());
        }
        assert_eq!((power, FIELD.inv(0), seen[0]), (1, None, false));
        assert!(FIELD.contains(u16::MAX));
    }

    #[test]
    fn gf256_lies_in_it() {
        for (a, b) in (0..256).flat_map(|a| (0..256).map(move |b| (a, b))) {
            assert_eq!(FIELD.mul(a, b), Field::Gf256.mul(a, b));
        }
    }

    #[test]
    fn regions_know_only_gf256() {
        let matrix = Matrix::identity(FIELD, 2);
        assert_eq!(Product::new(&matrix).unwrap_err(), GfError::UnsupportedField(FIELD));
        assert_eq!(matrix.over_gf256(), Matrix::identity(Field::Gf256, 4));
        assert_eq!(matrix.over_gf256().over_gf256(), matrix.over_gf256());
    }

    fn any_matrix(rows: usize, cols: usize) -> impl Strategy<Value = Matrix> {
        proptest::collection::vec(proptest::collection::vec(any::<u16>(), cols), rows)
            .prop_map(|rows| Matrix::from_rows(FIELD, &rows).unwrap())
    }

    proptest! {
        #[test]
        fn doubling_keeps_sums_products_and_ranks(a in any_matrix(3, 4), b in any_matrix(4, 3), c in any_matrix(3, 4)) {
            prop_assert_eq!(a.mul(&b).unwrap().over_gf256(), a.over_gf256().mul(&b.over_gf256()).unwrap());
            prop_assert_eq!(a.add(&c).unwrap().over_gf256(), a.over_gf256().add(&c.over_gf256()).unwrap());
            let square = a.mul(&b).unwrap();
            prop_assert_eq!(square.over_gf256().rank(), 2 * square.rank());
            let thin = b.mul(&a).unwrap();
            prop_assert_eq!(thin.over_gf256().rank(), 2 * thin.rank());
        }

        /// Regions kept as halves are multiplied element by element.
        #[test]
        fn halves_of_regions_multiply(
            matrix in any_matrix(2, 3),
            elements in proptest::collection::vec(proptest::collection::vec(any::<u16>(), 150), 3),
        ) {
            let planes: Vec<Vec<u8>> = elements.iter().flat_map(|region| {
                let plane = |half: u32| region.iter().map(|e| (e >> (8 * half)) as u8).collect();
                [plane(0), plane(1)]
            }).collect();
            let inputs: Vec<&[u8]> = planes.iter().map(Vec::as_slice).collect();
            let mut outputs = vec![vec![0; 150]; 4];
            let product = Product::new(&matrix.over_gf256()).unwrap();
            product.apply(&inputs, &mut outputs.iter_mut().map(Vec::as_mut_slice).collect::<Vec<_>>());
            for (row, at) in (0..2).flat_map(|row| (0..150).map(move |at| (row, at))) {
                let expected = (0..3).fold(0, |sum, i| FIELD.add(sum, FIELD.mul(matrix.get(row, i), elements[i][at])));
                prop_assert_eq!(join(outputs[2 * row][at], outputs[2 * row + 1][at]), expected);
            }
        }
    }
}
