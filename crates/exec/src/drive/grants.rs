//! Which slices may be carried by now: dealt to lanes, granted a window ahead of the lowest that is not delivered, and of each
//! lane no more than it has at hand.

use flow::LaneShare;
use flow::bound::FlowHeader;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use wire::proto;

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
    dealt: u64,
    granted: u64,
    lanes: Vec<LaneRuns>,
    /// Slices that each end of each lane has delivered, by lane and stage.
    ends: BTreeMap<(u32, u32), u64>,
}

#[derive(Default)]
struct LaneRuns {
    /// So many slices may be under way: its share of what may be in all lanes, for a lane's rate is what it has under way
    /// over the time that queues take, which lanes share; but never less than a run.
    window: u64,
    /// Runs not yet granted: the place of the first slice, and the slices.
    waiting: VecDeque<(u64, Range<u64>)>,
    /// Runs granted and not yet delivered whole: the place of the first slice, and their number.
    runs: VecDeque<(u64, u64)>,
    delivered: u64,
    granted: u64,
}

impl Grants {
    /// For the slices `ranges` of a flow of these lanes; at its stages `ends` (lane, stage) something is delivered.
    pub fn new(
        lanes: &[LaneShare],
        header: &FlowHeader,
        ranges: Vec<Range<u64>>,
        ends: impl Iterator<Item = (u32, u32)>,
    ) -> Grants {
        let deal = flow::deal(header.geometry, lanes, ranges);
        let shares: u64 = lanes.iter().map(|lane| u64::from(lane.share)).sum();
        let of_all = u64::from(header.lane_window_slices) * lanes.len() as u64;
        let lane = |lane: &LaneShare| {
            let window = of_all.saturating_mul(lane.share.into()) / shares.max(1);
            LaneRuns {
                window: window.max(deal.longest_run().min(header.window_slices.into())),
                ..Default::default()
            }
        };
        Grants {
            window: u64::from(header.window_slices),
            wanted: deal.left(),
            lanes: lanes.iter().map(lane).collect(),
            deal,
            dealt: 0,
            granted: 0,
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
        let reach = self.wanted.min(self.lowest().saturating_add(self.window));
        while let Some(run) = self.deal.next_within(reach.saturating_sub(self.dealt)) {
            let count = run.slices.end - run.slices.start;
            if let Some(lane) = self.lanes.get_mut(run.lane) {
                lane.wait(self.dealt, run.slices);
            }
            self.dealt += count;
        }
        if !self.is_worth_a_message() {
            return Vec::new();
        }
        let alone = self.lanes.len() == 1;
        let mut grants = Vec::new();
        for (number, lane) in self.lanes.iter_mut().enumerate() {
            while let Some(run) = lane.grant(alone) {
                let count = run.end - run.start;
                self.granted += count;
                grants.push(proto::Grant { lane: number as u32, first: run.start, count });
            }
        }
        grants
    }

    fn is_worth_a_message(&self) -> bool {
        let alone = self.lanes.len() == 1;
        let room: u64 = self.lanes.iter().map(|lane| lane.room(alone)).sum();
        let windows: u64 = self.lanes.iter().map(|lane| lane.window).sum();
        let parts = if alone { GRANTS_PER_WINDOW } else { GRANTS_PER_WINDOW_OF_LANES };
        // A slow lane does not wait until the others have room.
        let starves = |lane: &LaneRuns| lane.under_way() <= lane.window / 2 && lane.room(alone) > 0;
        room >= (windows / parts).max(1)
            || room == self.wanted - self.granted
            || (!alone && self.lanes.iter().any(starves))
    }

    /// The end (lane, stage) has delivered so many slices of its lane's, or all of them.
    pub fn note(&mut self, end: (u32, u32), delivered: Option<u64>) {
        let granted = self.lanes.get(end.0 as usize).map_or(0, |lane| lane.granted);
        let Some(known) = self.ends.get_mut(&end) else { return };
        *known = delivered.unwrap_or(granted).min(granted).max(*known);
        let least = self.ends.iter().filter(|((lane, _), _)| *lane == end.0).map(|(_, &slices)| slices).min();
        if let (Some(lane), Some(least)) = (self.lanes.get_mut(end.0 as usize), least) {
            lane.deliver(least);
        }
    }

    /// Slices that are delivered at every end.
    pub fn delivered(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.delivered).sum()
    }

    /// The place of the lowest slice that is not delivered at every end.
    pub fn lowest(&self) -> u64 {
        self.lanes.iter().filter_map(LaneRuns::lowest).min().unwrap_or(self.dealt)
    }
}

impl LaneRuns {
    fn wait(&mut self, place: u64, slices: Range<u64>) {
        match self.waiting.back_mut() {
            // Of a run that was cut off.
            Some((first, last)) if last.end == slices.start && *first + (last.end - last.start) == place => {
                last.end = slices.end;
            }
            _ => self.waiting.push_back((place, slices)),
        }
    }

    fn under_way(&self) -> u64 {
        self.granted - self.delivered
    }

    fn lowest(&self) -> Option<u64> {
        let granted = self.runs.front().map(|&(place, _)| place);
        granted.or_else(|| self.waiting.front().map(|&(place, _)| place))
    }

    /// What may be granted now. A run of one of several lanes is granted whole, for it is read whole.
    fn room(&self, alone: bool) -> u64 {
        let mut room = self.window.saturating_sub(self.under_way());
        let mut granted = 0;
        for (_, run) in &self.waiting {
            let count = run.end - run.start;
            if count <= room {
                (granted, room) = (granted + count, room - count);
                continue;
            }
            let idle = self.under_way() + granted == 0;
            return granted + if alone || idle { room } else { 0 };
        }
        granted
    }

    /// The next part of that.
    fn grant(&mut self, alone: bool) -> Option<Range<u64>> {
        let room = self.window.saturating_sub(self.under_way());
        let idle = self.under_way() == 0;
        let (place, run) = self.waiting.front_mut()?;
        let count = (run.end - run.start).min(room);
        if count == 0 || (count < run.end - run.start && !alone && !idle) {
            return None;
        }
        let part = run.start..run.start + count;
        self.runs.push_back((*place, count));
        self.granted += count;
        (*place, run.start) = (*place + count, part.end);
        if run.start == run.end {
            self.waiting.pop_front();
        }
        Some(part)
    }

    /// All ends have delivered so many.
    fn deliver(&mut self, least: u64) {
        while let Some((place, count)) = self.runs.front_mut()
            && self.delivered < least
        {
            let part = (*count).min(least - self.delivered);
            self.delivered += part;
            (*place, *count) = (*place + part, *count - part);
            if *count == 0 {
                self.runs.pop_front();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grants(shares: &[u32], window: u32, ranges: Vec<Range<u64>>) -> Grants {
        let geometry = flow::Geometry { block_bytes: 64 << 20, alpha: 1, slice_bytes: 32 << 10 };
        let header = FlowHeader {
            window_slices: window,
            ..FlowHeader::new(model::FlowId(1), gf::Field::Gf256, geometry)
        };
        let lanes: Vec<LaneShare> = shares.iter().map(|&share| LaneShare { share, stages: 1 }).collect();
        Grants::new(&lanes, &header, ranges, (0..shares.len() as u32).map(|lane| (lane, 1)))
    }

    #[test]
    fn nothing_is_granted_beyond_a_window_past_the_lowest_slice_not_delivered() {
        let mut g = grants(&[1, 1, 1], 100, vec![Range { start: 0, end: 1000 }]);
        let mut carried = [0_u64; 3];
        let mut seen = vec![false; 1000];
        let mut lanes: Vec<VecDeque<u64>> = vec![VecDeque::new(); 3];
        let mut turn = 0;
        while g.delivered() < 1000 {
            let before = g.lowest();
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
            let waiting = g.lanes.iter().filter_map(|l| l.waiting.front().map(|&(place, _)| place)).min();
            assert_eq!(g.lowest(), lowest.into_iter().chain(waiting).min().unwrap_or(g.granted));
            assert_eq!(g.delivered(), carried.iter().sum::<u64>());
        }
        assert!(seen.into_iter().all(|granted| granted) && g.all());
    }

    #[test]
    fn of_each_lane_no_more_is_under_way_than_its_window() {
        let geometry = flow::Geometry { block_bytes: 8 << 20, alpha: 1, slice_bytes: 8 << 10 };
        let header = FlowHeader {
            lane_window_slices: 26,
            ..FlowHeader::new(model::FlowId(1), gf::Field::Gf256, geometry)
        };
        let lanes = [10, 1, 10].map(|share| LaneShare { share, stages: 3 });
        let mut g = Grants::new(&lanes, &header, vec![Range { start: 0, end: 1024 }], (0..3).map(|l| (l, 2)));
        let (mut granted, mut delivered, mut messages) = ([0_u64; 3], [0_u64; 3], 0);
        // The slow lane delivers nothing before the others have delivered all.
        for turn in 0.. {
            let grants = g.next();
            messages += u32::from(!grants.is_empty());
            for grant in grants {
                assert!(grant.count <= 8 && grant.first % 4 == 0, "a run, whole: {grant:?}");
                granted[grant.lane as usize] += grant.count;
            }
            let fast_ones_go = [0, 2].iter().any(|&lane| granted[lane] > delivered[lane]);
            let lane = if !fast_ones_go { 1 } else { [0, 2][turn % 2] };
            // 78 in all, by their shares, and a run at least.
            assert!((0..3).all(|lane| granted[lane] - delivered[lane] <= [37, 8, 37][lane]));
            if granted == delivered {
                break;
            }
            delivered[lane] = granted[lane].min(delivered[lane] + 2);
            g.note((lane as u32, 2), Some(delivered[lane]));
        }
        assert!(g.all() && g.delivered() == 1024 && g.lowest() == 1024);
        assert!(messages < 1024 / 4, "{messages}");
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
