//! Full-node recovery: which stripe first.

/// A stripe that lost blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Damaged<T> {
    /// The stripe.
    pub stripe: T,
    /// Blocks that survive.
    pub survivors: usize,
    /// Blocks that suffice to decode: k, if the code is MDS.
    pub needed: usize,
}

/// Puts the stripes that are nearest to loss first: those with the fewest survivors beyond those they need.
/// Equal ones keep their order. Stripes that can no longer be decoded come last: no haste helps them.
pub fn by_urgency<T>(stripes: &mut [Damaged<T>]) {
    stripes.sort_by_key(|damaged| match damaged.survivors.checked_sub(damaged.needed) {
        Some(margin) => (false, margin),
        None => (true, damaged.needed - damaged.survivors),
    });
}
