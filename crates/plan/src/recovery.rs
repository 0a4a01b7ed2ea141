//! Full-node recovery: which stripe first, who helps, who receives.

mod balanced;
mod bound;
mod index;
mod leaving;
mod spread;

pub use balanced::{Assignment, LostBlock, NodeLoad, balanced, loads_of};
pub use bound::busiest_bound;
pub use leaving::{Leaving, leaving};

/// How urgent it is to make a block of a stripe: the least first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Urgency {
    /// It can no longer be decoded: no haste helps it, so it comes last.
    is_lost: bool,
    /// Survivors beyond those that are needed, or the ones that lack.
    distance: usize,
}

impl Urgency {
    /// Of a stripe with so many blocks that survive, of which k are needed to decode.
    pub fn of(survivors: usize, needed: usize) -> Urgency {
        Urgency { is_lost: survivors < needed, distance: survivors.abs_diff(needed) }
    }
}
