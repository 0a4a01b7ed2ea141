//! Full-node recovery: which stripe first, who helps, who receives.

mod balanced;
mod bound;
mod index;
mod leaving;
mod spread;

pub use balanced::{Assignment, LostBlock, NodeLoad, balanced, loads_of};
pub use bound::busiest_bound;
pub use leaving::{Leaving, leaving};

/// A stripe that lost blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Damaged<T> {
    /// The stripe.
    pub stripe: T,
    /// Blocks that survive.
    pub survivors: usize,
    /// Blocks that are needed to decode, k.
    pub needed: usize,
}

/// Puts the stripes that are nearest to loss first: those with the fewest survivors beyond the k they need.
/// Equal ones keep their order. Stripes that can no longer be decoded come last: no haste helps them.
pub fn by_urgency<T>(stripes: &mut [Damaged<T>]) {
    stripes.sort_by_key(|damaged| match damaged.survivors.checked_sub(damaged.needed) {
        Some(margin) => (false, margin),
        None => (true, damaged.needed - damaged.survivors),
    });
}
