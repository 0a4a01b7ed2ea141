//! Which lane carries which slices: dealt out in runs, before a flow starts, so that bytes can be predicted.
//!
//! ```text
//!   shares 2 : 1     lane 0 ████████        ████████        ████        ██
//!                    lane 1         ████████                    ████        ██
//!                           slices ascending ─▶              shorter runs at the end
//! ```
//!
//! Each run goes to the lane that would have delivered it first: lanes end together, though a slow one takes long until its
//! first slice has passed all hops, and slices are delivered roughly in order. A run's ends lie between chunks, so that a
//! chunk comes whole from one lane. It is short, because a run comes through the ports that lanes share as one; towards the
//! end runs become shorter still.

use std::collections::VecDeque;
use std::ops::Range;

use gf::CHUNK_BYTES;

use crate::graph::Geometry;

/// The longest run of one lane among several: worth a read of what is cached, for the next lane reads on from there.
const RUN_BYTES: u64 = 64 * 1024;

/// What is left for a lane makes at least this many runs, so that each run is a small part of the lane's work.
const RUNS_LEFT: u64 = 4;

/// What there is to say of a lane before slices are dealt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LaneShare {
    /// Its rate in proportion to that of the others, at least 1.
    pub share: u32,
    /// Stages of its chain, one after another.
    pub stages: usize,
}

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
    /// The time, counted in slices, after which each lane would have delivered what it got so far.
    busy: Vec<u64>,
    ranges: VecDeque<Range<u64>>,
    /// The rest of a run that was cut off.
    rest: Option<Run>,
    left: u64,
    /// Slices of a chunk.
    unit: u64,
    longest: u64,
}

/// Deals the slices of `ranges`, which ascend and do not overlap, to lanes in proportion to their shares. Lane 0 gets
/// whole ranges if there is no other lane.
pub fn deal(geometry: Geometry, lanes: &[LaneShare], ranges: impl IntoIterator<Item = Range<u64>>) -> Deal {
    let ranges: VecDeque<Range<u64>> = ranges.into_iter().filter(|r| r.start < r.end).collect();
    let slice = u64::from(geometry.slice_bytes.max(1));
    let unit = (CHUNK_BYTES as u64 / slice).max(1);
    Deal {
        shares: lanes.iter().map(|lane| u64::from(lane.share)).collect(),
        // The first slice is on its way while the others wait for it.
        busy: lanes.iter().map(|lane| lane.stages.saturating_sub(2) as u64).collect(),
        left: ranges.iter().map(|r| r.end - r.start).sum(),
        ranges,
        rest: None,
        unit,
        longest: (RUN_BYTES / slice).max(unit),
    }
}

impl Deal {
    /// Slices that are not yet dealt.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Slices of the longest run of one lane among several.
    pub fn longest_run(&self) -> u64 {
        self.longest
    }

    /// The next run, cut off after `most` slices: then the same lane goes on with the rest of it. So who carries a slice does
    /// not depend on where runs are cut, and no chunk comes from two lanes.
    pub fn next_within(&mut self, most: u64) -> Option<Run> {
        if most == 0 {
            return None;
        }
        let Run { lane, slices } = match self.rest.take() {
            Some(rest) => rest,
            None => self.next_whole()?,
        };
        let end = slices.end.min(slices.start.saturating_add(most));
        if end < slices.end {
            self.rest = Some(Run { lane, slices: end..slices.end });
        }
        self.left -= end - slices.start;
        Some(Run { lane, slices: slices.start..end })
    }

    fn next_whole(&mut self) -> Option<Run> {
        let range = self.ranges.front()?.clone();
        let (lane, end) = if self.shares.len() < 2 {
            (0, range.end)
        } else {
            let lanes = self.shares.len() as u64;
            let length = (self.left / (lanes * RUNS_LEFT)).min(self.longest);
            // Ends lie between chunks, wherever the range begins.
            let end = (range.start + length) / self.unit * self.unit;
            let end = end.max((range.start / self.unit + 1) * self.unit).min(range.end);
            (self.first_to_deliver(end - range.start), end)
        };
        if let Some(busy) = self.busy.get_mut(lane) {
            *busy += end - range.start;
        }
        match self.ranges.front_mut() {
            Some(front) if end < range.end => front.start = end,
            _ => drop(self.ranges.pop_front()),
        }
        Some(Run { lane, slices: range.start..end })
    }

    /// The lane that would have delivered `length` slices more the soonest; the first among equals.
    fn first_to_deliver(&self, length: u64) -> usize {
        let after = |lane: usize| u128::from(self.busy[lane] + length);
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

    fn lanes(shares: &[u32], stages: usize) -> Vec<LaneShare> {
        shares.iter().map(|&share| LaneShare { share, stages }).collect()
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
                    let runs: Vec<Run> = deal(geometry, &lanes(&shares, 2), ranges.clone()).collect();
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
        let even: Vec<Run> = deal(geometry(32 << 10), &lanes(&[1; 9], 11), [0..2048]).collect();
        let totals = totals(&even, 9);
        assert!(totals.iter().max().unwrap() - totals.iter().min().unwrap() <= 1, "{totals:?}");
    }

    #[test]
    fn lanes_end_together_although_each_fills_first() {
        let shares = [1000, 100, 1000, 1];
        let runs: Vec<Run> = deal(geometry(8 << 10), &lanes(&shares, 13), [0..8192]).collect();
        let mut carried = vec![0_u64; 4];
        let mut last = 0.0;
        for run in &runs {
            carried[run.lane] += run.slices.end - run.slices.start;
            let delivered = (carried[run.lane] + 11) as f64 / f64::from(shares[run.lane]);
            // In order, but for a run of the slow lane, which nobody would have before.
            assert!(delivered >= last - 8.0 / 100.0, "{run:?}");
            last = delivered.max(last);
        }
        assert_eq!(carried[3], 0, "it would still be filling when the others have carried all");
        let end = |lane: usize| (carried[lane] + 11) as f64 / f64::from(shares[lane]);
        assert!((end(0) - end(1)).abs() < 0.1 && (end(0) - end(2)).abs() < 0.01, "{carried:?}");
    }

    /// … and who carries what is as it was predicted, wherever runs are cut.
    #[test]
    fn a_run_that_is_cut_off_goes_on_in_its_lane_and_loses_no_slice() {
        let by_slice = |runs: &[Run]| -> Vec<(u64, usize)> {
            runs.iter().flat_map(|run| run.slices.clone().map(|slice| (slice, run.lane))).collect()
        };
        for slice_bytes in [1 << 10, 4 << 10, 32 << 10] {
            for shares in [vec![1], vec![2, 1], vec![1; 9]] {
                let deal = || deal(geometry(slice_bytes), &lanes(&shares, 4), [5..1000, 2000..2003]);
                let whole: Vec<Run> = deal().collect();
                for most in [1, 3, 40] {
                    let mut cut = deal();
                    assert!(cut.next_within(0).is_none());
                    let mut runs = Vec::new();
                    while let Some(run) = cut.next_within(most) {
                        assert!(run.slices.end - run.slices.start <= most);
                        runs.push(run);
                        assert_eq!(cut.left(), 998 - by_slice(&runs).len() as u64);
                    }
                    assert_eq!(by_slice(&runs), by_slice(&whole), "{slice_bytes} {shares:?} {most}");
                }
            }
        }
    }
}
