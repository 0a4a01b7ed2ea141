//! Chance that can be replayed: the caller brings the seed, the same seed draws the same.

/// A pseudo-random sequence (SplitMix64: Steele, Lea, Flood, OOPSLA 2014). For placement, not for secrets.
#[derive(Clone, Debug)]
pub struct Draw(u64);

impl Draw {
    /// The sequence of `seed`.
    pub fn seeded(seed: u64) -> Self {
        Draw(seed)
    }

    /// A number in 0 … `count`−1; 0 if `count` is 0.
    pub fn below(&mut self, count: usize) -> usize {
        // The high half of a 128-bit product: bias below count/2^64.
        ((u128::from(self.next()) * count as u128) >> 64) as usize
    }

    /// One of `items`, each as likely as another.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.below(items.len()))
    }

    /// Puts `items` into a random order (Fisher–Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}
