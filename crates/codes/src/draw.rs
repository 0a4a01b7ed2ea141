//! Numbers that look random and are the same for ever: what is drawn is part of the names of codes.

/// Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014.
pub(crate) struct SplitMix64(u64);

impl SplitMix64 {
    pub fn seeded(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn next_byte(&mut self) -> u8 {
        (self.next() >> 56) as u8
    }

    /// A number below `end`, which must be small beside 2^64.
    pub fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.next()) * end as u128) >> 64) as usize
    }

    /// A nonzero element of a field of 2^16 elements at most.
    pub fn unit(&mut self, order: u32) -> u16 {
        1 + self.below(order as usize - 1) as u16
    }
}
