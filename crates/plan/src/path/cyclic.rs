//! Cyclic paths (RP §4.1): the requestor reads from k−1 helpers, so that no single link to it must carry the
//! whole block.
//!
//! ```text
//!   lane 0: N1 ▶ N2 ▶ N3 ▶ N4 ▶ R     slices 0, 3, 6 …
//!   lane 1: N2 ▶ N3 ▶ N4 ▶ N1 ▶ R     slices 1, 4, 7 …      k = 4
//!   lane 2: N3 ▶ N4 ▶ N1 ▶ N2 ▶ R     slices 2, 5, 8 …
//! ```
//! A group is one slice of each lane. At each step of a group k−1 helpers send to their successors, and the one
//! that does not delivers a slice of the group before. So a group takes k−1 steps of 1/s timeslots, the last one
//! as many more as it has slices: 1 + (k−1)/s timeslots for s slices, whether k−1 divides s or not.

/// The order of the helpers in each lane: the k−1 rotations that begin with all but the last of `helpers`. A
/// single helper is a lane by itself; no helper, no lane.
pub fn cyclic_lanes<T: Clone>(helpers: &[T]) -> Vec<Vec<T>> {
    let lanes = helpers.len().saturating_sub(1).max(helpers.len().min(1));
    (0..lanes).map(|first| [&helpers[first..], &helpers[..first]].concat()).collect()
}

/// The lane that carries a slice: in turn, so that any run of slices is shared out evenly.
///
/// # Panics
/// If there is no lane.
pub fn cyclic_lane_of(slice: u64, lanes: usize) -> usize {
    (slice % lanes as u64) as usize
}

/// How many of a block's `slices` a lane carries.
///
/// # Panics
/// If there is no lane.
pub fn cyclic_share(slices: u64, lane: usize, lanes: usize) -> u64 {
    (slices + lanes as u64 - 1).saturating_sub(lane as u64) / lanes as u64
}

/// What a repair takes over k helpers with equal links: 1 + (k−1)/s, in transfers of a block over a link.
pub fn cyclic_timeslots(k: usize, slices: u64) -> f64 {
    1.0 + k.saturating_sub(1) as f64 / slices.max(1) as f64
}
