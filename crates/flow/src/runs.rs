//! Which lane carries which slices: dealt out in runs, before a flow starts, so that bytes can be predicted.
//!
//! ```text
//!   shares 2 : 1     lane 0 ████████        ████████        ████        ██
//!                    lane 1         ████████                    ████        ██
//!                           slices ascending ─▶              shorter runs at the end
//! ```
//!
//! A run's ends lie between chunks, so that a chunk comes whole from one lane. It is short, because a run comes through
//! the ports that lanes share as one; towards the end runs become shorter still: lanes end together.

use std::collections::VecDeque;
use std::ops::Range;

use gf::CHUNK_BYTES;

use crate::graph::Geometry;

/// The longest run of one lane among several: worth a read of what is cached, for the next lane reads on from there.
const RUN_BYTES: u64 = 64 * 1024;

/// What is left is thought of as so many runs of each lane: so each is at most a small part of a lane's work.
const RUNS_LEFT: u64 = 4;

/// A run of slices, and the lane that carries it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Run {
    /// Index of the lane.
    pub lane: usize,
    /// The slices.
    pub slices: Range<u64>,
}

/// Runs that cover slices once, in ascending order.
#[derive(Clone, Debug)]
pub struct Deal {
    shares: Vec<u64>,
    /// Slices that each lane got so far.
    dealt: Vec<u64>,
    ranges: VecDeque<Range<u64>>,
    left: u64,
    /// Slices of a chunk.
    unit: u64,
    longest: u64,
}

/// Deals the slices of `ranges`, which ascend and do not overlap, to lanes in proportion to `shares` (each at least 1;
/// with a single lane, or none, lane 0 gets whole ranges).
pub fn deal(geometry: Geometry, shares: &[u32], ranges: impl IntoIterator<Item = Range<u64>>) -> Deal {
    let ranges: VecDeque<Range<u64>> = ranges.into_iter().filter(|r| r.start < r.end).collect();
    let slice = u64::from(geometry.slice_bytes.max(1));
    let unit = (CHUNK_BYTES as u64 / slice).max(1);
    Deal {
        shares: shares.iter().map(|&share| u64::from(share)).collect(),
        dealt: vec![0; shares.len()],
        left: ranges.iter().map(|r| r.end - r.start).sum(),
        ranges,
        unit,
        longest: (RUN_BYTES / slice).max(unit),
    }
}

impl Deal {
    /// Slices that are not yet dealt.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// The next run, cut off after `most` slices (then the rest of it is dealt anew).
    pub fn next_within(&mut self, most: u64) -> Option<Run> {
        let range = self.ranges.front()?.clone();
        if most == 0 {
            return None;
        }
        let (lane, end) = if self.shares.len() < 2 {
            (0, range.end)
        } else {
            let lanes = self.shares.len() as u64;
            let length = (self.left / (lanes * RUNS_LEFT)).min(self.longest);
            // Ends lie between chunks, wherever the range begins.
            let end = (range.start + length) / self.unit * self.unit;
            let end = end.max((range.start / self.unit + 1) * self.unit).min(range.end);
            (self.neediest(end - range.start), end)
        };
        let end = end.min(range.start.saturating_add(most));
        let run = Run { lane, slices: range.start..end };
        let length = end - range.start;
        self.left -= length;
        if let Some(dealt) = self.dealt.get_mut(lane) {
            *dealt += length;
        }
        match self.ranges.front_mut() {
            Some(front) if end < range.end => front.start = end,
            _ => drop(self.ranges.pop_front()),
        }
        Some(run)
    }

    /// The lane that would have the least for its share after `length` slices more; the first among equals.
    fn neediest(&self, length: u64) -> usize {
        let after = |lane: usize| u128::from(self.dealt[lane] + length);
        let mut best = 0;
        for lane in 1..self.shares.len() {
            let (mine, theirs) = (u128::from(self.shares[lane]), u128::from(self.shares[best]));
            if after(lane) * theirs < after(best) * mine {
                best = lane;
            }
        }
        best
    }
}

impl Iterator for Deal {
    type Item = Run;

    fn next(&mut self) -> Option<Run> {
        self.next_within(u64::MAX)
    }
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init)] // one range is a case among others
mod tests {
    use super::*;

    fn geometry(slice_bytes: u32) -> Geometry {
        Geometry { block_bytes: 64 << 20, alpha: 1, slice_bytes }
    }

    fn totals(runs: &[Run], lanes: usize) -> Vec<u64> {
        let mut totals = vec![0; lanes];
        runs.iter().for_each(|run| totals[run.lane] += run.slices.end - run.slices.start);
        totals
    }

    #[test]
    fn every_slice_is_dealt_once_in_order_and_in_proportion() {
        for slice_bytes in [1024, 32 << 10, 1 << 20] {
            let geometry = geometry(slice_bytes);
            let all = geometry.slices();
            for shares in [vec![1], vec![1; 9], vec![5, 1, 3], vec![1000, 1]] {
                for ranges in [vec![0..all], vec![3..7, 9..10, 40..all], vec![5..6]] {
                    let runs: Vec<Run> = deal(geometry, &shares, ranges.clone()).collect();
                    let dealt: Vec<u64> = runs.iter().flat_map(|run| run.slices.clone()).collect();
                    let wanted: Vec<u64> = ranges.iter().cloned().flatten().collect();
                    assert_eq!(dealt, wanted, "{slice_bytes} {shares:?}");
                    let unit = (CHUNK_BYTES as u64 / u64::from(slice_bytes)).max(1);
                    let whole = |s: u64| s.is_multiple_of(unit) || ranges.iter().any(|r| r.end == s);
                    assert!(runs.iter().all(|run| whole(run.slices.end)));
                    let sum: u32 = shares.iter().sum();
                    for (lane, got) in totals(&runs, shares.len()).into_iter().enumerate() {
                        let due = wanted.len() as f64 * f64::from(shares[lane]) / f64::from(sum);
                        let longest = (RUN_BYTES / u64::from(slice_bytes)).max(unit) as f64;
                        assert!((got as f64 - due).abs() <= 2.0 * longest, "{shares:?}: {got} for {due}");
                    }
                }
            }
        }
        // Equal lanes end within a slice of each other.
        let even: Vec<Run> = deal(geometry(32 << 10), &[1; 9], [0..2048]).collect();
        let totals = totals(&even, 9);
        assert!(totals.iter().max().unwrap() - totals.iter().min().unwrap() <= 1, "{totals:?}");
    }

    #[test]
    fn a_run_that_is_cut_off_goes_on_and_loses_no_slice() {
        let geometry = geometry(32 << 10);
        let mut deal = deal(geometry, &[2, 1], [0..100, 200..203]);
        let mut dealt = Vec::new();
        assert!(deal.next_within(0).is_none());
        while let Some(run) = deal.next_within(3) {
            assert!(run.slices.end - run.slices.start <= 3);
            dealt.extend(run.slices);
        }
        assert_eq!(dealt, (0..100).chain(200..203).collect::<Vec<u64>>());
        assert_eq!(deal.left(), 0);
    }
}
