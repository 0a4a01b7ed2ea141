//! Which slices may be carried by now: dealt to lanes, granted a window ahead of the lowest that is not delivered.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use wire::proto;
use wire::spec::FlowHeader;

/// Grants are given in this many parts of a window. Each is a message that wakes every participant at once; where they
/// share processors that is a stall of a millisecond or two on all links, and no link ever makes up for it.
const GRANTS_PER_WINDOW: u64 = 4;

/// … but of several lanes in as many as this. What is granted at once goes through all ports at once, and arrives at once:
/// while the requestor takes it in, the others have nothing to do.
const GRANTS_PER_WINDOW_OF_LANES: u64 = 16;

/// The slices that a flow is to carry, in ascending order, and how far it is. A *place* is the number of a slice among
/// them.
pub(super) struct Grants {
    deal: flow::Deal,
    window: u64,
    wanted: u64,
    granted: u64,
    lanes: Vec<LaneRuns>,
    /// Slices that each end of each lane has delivered, by lane and stage.
    ends: BTreeMap<(u32, u32), u64>,
}

#[derive(Default)]
struct LaneRuns {
    /// Runs not yet delivered whole: the place of the first slice, and their number.
    runs: VecDeque<(u64, u64)>,
    /// Slices of the runs that were delivered whole.
    passed: u64,
    granted: u64,
}

impl Grants {
    /// For the slices `ranges` of `plan`; at its stages `ends` (lane, stage) something is delivered.
    pub fn new(
        plan: &proto::FlowPlan,
        header: &FlowHeader,
        ranges: Vec<Range<u64>>,
        ends: impl Iterator<Item = (u32, u32)>,
    ) -> Grants {
        let lanes = plan.stages.iter().map(|s| s.lane as usize + 1).max().unwrap_or(1);
        let shares = if plan.shares.is_empty() { vec![1; lanes] } else { plan.shares.clone() };
        let deal = flow::deal(header.geometry, &shares, ranges);
        Grants {
            window: u64::from(header.window_slices),
            wanted: deal.left(),
            deal,
            granted: 0,
            lanes: (0..lanes).map(|_| LaneRuns::default()).collect(),
            ends: ends.map(|end| (end, 0)).collect(),
        }
    }

    /// Slices to be carried in all.
    pub fn wanted(&self) -> u64 {
        self.wanted
    }

    /// Whether nothing further will be granted.
    pub fn all(&self) -> bool {
        self.granted == self.wanted
    }

    /// What may be granted now; nothing if it is not worth a message.
    pub fn next(&mut self) -> Vec<proto::Grant> {
        let reach = self.wanted.min(self.delivered().saturating_add(self.window));
        let parts = if self.lanes.len() > 1 { GRANTS_PER_WINDOW_OF_LANES } else { GRANTS_PER_WINDOW };
        let part = (self.window / parts).max(1);
        let mut grants: Vec<proto::Grant> = Vec::new();
        if reach <= self.granted || (reach - self.granted < part && reach != self.wanted) {
            return grants;
        }
        while let Some(run) = self.deal.next_within(reach - self.granted) {
            let count = run.slices.end - run.slices.start;
            if let Some(lane) = self.lanes.get_mut(run.lane) {
                lane.runs.push_back((self.granted, count));
                lane.granted += count;
            }
            self.granted += count;
            grants.push(proto::Grant { lane: run.lane as u32, first: run.slices.start, count });
        }
        grants
    }

    /// The end (lane, stage) has delivered so many slices of its lane's, or all of them.
    pub fn note(&mut self, end: (u32, u32), delivered: Option<u64>) {
        let granted = self.lanes.get(end.0 as usize).map_or(0, |lane| lane.granted);
        let Some(known) = self.ends.get_mut(&end) else { return };
        *known = delivered.unwrap_or(granted).min(granted).max(*known);
        let least = self.ends.iter().filter(|((lane, _), _)| *lane == end.0).map(|(_, &slices)| slices).min();
        if let (Some(lane), Some(least)) = (self.lanes.get_mut(end.0 as usize), least) {
            while let Some(&(_, count)) = lane.runs.front()
                && lane.passed + count <= least
            {
                lane.passed += count;
                lane.runs.pop_front();
            }
            if let Some((place, count)) = lane.runs.front_mut() {
                let within = least.saturating_sub(lane.passed);
                (*place, *count) = (*place + within, *count - within);
                lane.passed += within;
            }
        }
    }

    /// The place of the lowest slice that is not delivered at every end.
    pub fn delivered(&self) -> u64 {
        let lowest = self.lanes.iter().filter_map(|lane| lane.runs.front()).map(|&(place, _)| place).min();
        lowest.unwrap_or(self.granted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grants(shares: &[u32], window: u32, ranges: Vec<Range<u64>>) -> Grants {
        let geometry = flow::Geometry { block_bytes: 64 << 20, alpha: 1, slice_bytes: 32 << 10 };
        let header = FlowHeader { window_slices: window, ..FlowHeader::new(gf::Field::Gf256, geometry) };
        let stage = |lane| proto::Stage { lane, stage: 1, ..Default::default() };
        let lanes = shares.len() as u32;
        let plan = proto::FlowPlan {
            stages: (0..lanes).map(stage).collect(),
            shares: shares.to_vec(),
            ..Default::default()
        };
        Grants::new(&plan, &header, ranges, (0..lanes).map(|lane| (lane, 1)))
    }

    #[test]
    fn nothing_is_granted_beyond_a_window_past_the_lowest_slice_not_delivered() {
        let mut g = grants(&[1, 1, 1], 100, vec![Range { start: 0, end: 1000 }]);
        let mut carried = [0_u64; 3];
        let mut seen = vec![false; 1000];
        let mut lanes: Vec<VecDeque<u64>> = vec![VecDeque::new(); 3];
        let mut turn = 0;
        while g.delivered() < 1000 {
            let before = g.delivered();
            for grant in g.next() {
                for slice in grant.first..grant.first + grant.count {
                    assert!(!std::mem::replace(&mut seen[slice as usize], true));
                    assert!(slice < before + 100, "{slice} is granted while {before} is the lowest");
                    lanes[grant.lane as usize].push_back(slice);
                }
            }
            // One lane after another delivers a few; lane 2 lags.
            let lane = [0, 1, 0, 1, 2][turn % 5];
            turn += 1;
            for _ in 0..7 {
                carried[lane] += u64::from(lanes[lane].pop_front().is_some());
            }
            g.note((lane as u32, 1), Some(carried[lane]));
            let lowest = lanes.iter().filter_map(|l| l.front().copied()).min();
            assert_eq!(g.delivered(), lowest.unwrap_or(g.granted));
        }
        assert!(seen.into_iter().all(|granted| granted) && g.all());
    }

    #[test]
    fn what_is_carried_can_have_gaps() {
        let mut g = grants(&[1], 40, vec![3..5, 100..130]);
        let first = g.next();
        assert_eq!(first.iter().map(|g| (g.first, g.count)).collect::<Vec<_>>(), [(3, 2), (100, 30)]);
        assert!(g.all() && g.next().is_empty());
        g.note((0, 1), Some(7));
        assert_eq!((g.delivered(), g.wanted()), (7, 32));
        g.note((0, 1), None);
        assert_eq!(g.delivered(), 32);
    }
}
