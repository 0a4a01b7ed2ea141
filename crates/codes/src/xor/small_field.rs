//! GF(2^w) for any small w: what the bit matrices of Cauchy Reed-Solomon codes multiply by. Blocks never go through it.

/// A field of 2^w elements, which are numbers below that: bit i is the coefficient of x^i.
#[derive(Clone, Copy, Debug)]
pub(super) struct SmallField {
    degree: usize,
    polynomial: usize,
}

/// Primitive polynomials for w = 2 … 12, those of Jerasure and GF-Complete.
const POLYNOMIALS: [usize; 11] = [0x7, 0xb, 0x13, 0x25, 0x43, 0x89, 0x11d, 0x211, 0x409, 0x805, 0x1053];

impl SmallField {
    /// A stripe has at most 4096 symbols, so no wider one is of use.
    pub const MAX_DEGREE: usize = POLYNOMIALS.len() + 1;

    /// GF(2^w); `None` unless 2 ≤ w ≤ 12.
    pub fn of_degree(degree: usize) -> Option<Self> {
        let polynomial = *POLYNOMIALS.get(degree.checked_sub(2)?)?;
        Some(Self { degree, polynomial })
    }

    /// w.
    pub fn degree(self) -> usize {
        self.degree
    }

    /// Elements but 0.
    pub fn units(self) -> usize {
        (1 << self.degree) - 1
    }

    /// An element times x^power.
    pub fn times_power(self, element: usize, power: usize) -> usize {
        (0..power).fold(element, |product, _| {
            let doubled = product << 1;
            if doubled > self.units() { doubled ^ self.polynomial } else { doubled }
        })
    }

    /// a·b.
    pub fn multiply(self, a: usize, b: usize) -> usize {
        (0..self.degree).filter(|bit| b >> bit & 1 == 1).fold(0, |sum, bit| sum ^ self.times_power(a, bit))
    }

    /// 1/a, for a other than 0: a to the power of 2^w − 2.
    pub fn inverse(self, a: usize) -> usize {
        (1..self.degree)
            .fold((1, a), |(product, power), _| {
                let square = self.multiply(power, power);
                (self.multiply(product, square), square)
            })
            .0
    }

    /// a/b, for b other than 0.
    pub fn divide(self, a: usize, b: usize) -> usize {
        self.multiply(a, self.inverse(b))
    }

    /// Ones of the bit matrix that multiplies by an element.
    pub fn ones(self, element: usize) -> usize {
        (0..self.degree).map(|power| self.times_power(element, power).count_ones() as usize).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_but_0_is_a_power_of_x_and_has_an_inverse() {
        for degree in 2..=SmallField::MAX_DEGREE {
            let field = SmallField::of_degree(degree).unwrap();
            let order = (1..).find(|&power| field.times_power(1, power) == 1);
            assert_eq!(order, Some(field.units()), "2^{degree}");
            assert!((1..=field.units()).all(|a| field.multiply(a, field.inverse(a)) == 1));
        }
        assert!(SmallField::of_degree(1).is_none() && SmallField::of_degree(13).is_none());
    }
}
