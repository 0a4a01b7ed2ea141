//! What a flow will cost, exactly: payload bytes on every link, disk bytes at every site, and timeslots.
//!
//! The unit of transfer is the frame (slice, row). A row's *extent* is the number of bytes at its start that
//! can be nonzero: for a local symbol what is stored of it, for any other row the largest extent among the
//! inputs that have a nonzero coefficient. A frame carries the part of its slice that lies below the extent,
//! perhaps nothing (header only). So the sum over frames is a sum of clipped extents, and what a node counts
//! while it runs must equal it to the byte.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::extent::edge_extents;
use crate::graph::{Flow, Geometry, Input, Lane, Member, Output, Site};
use crate::runs;
use crate::schedule;

/// Into or out of a site.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Direction {
    /// Received.
    In,
    /// Sent.
    Out,
}

/// The busiest side of a site's network interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bottleneck {
    /// Whose.
    pub site: Site,
    /// Which side.
    pub direction: Direction,
    /// Payload bytes through it.
    pub bytes: u64,
}

/// Prediction for one flow, or one share of it. Bytes are payload, without frame headers.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Cost {
    /// Bytes from site to site; links that carry only headers are listed with 0.
    pub links: BTreeMap<(Site, Site), u64>,
    /// Bytes read from disk at each site that reads.
    pub disk_read: BTreeMap<Site, u64>,
    /// Bytes written to disk at each site that writes.
    pub disk_written: BTreeMap<Site, u64>,
    /// Time in units of one block over one link, on equal full-duplex links, network only (RP §2.2, §3.2):
    /// the busiest interface's bytes over the block length, plus the time for the pipeline to fill and drain:
    /// what one slice of mean length takes through the graph beyond its share of that interface. A chain of k
    /// hops comes to 1 + (k−1)/s, a star to k, a tree of whole blocks to ⌈log2(k+1)⌉. Latencies, disks and
    /// processors are not in it, so neither is what a serial chain waits for acknowledgements.
    pub timeslots: f64,
}

impl Cost {
    /// All bytes that cross the network.
    pub fn network_bytes(&self) -> u64 {
        self.links.values().sum()
    }

    /// Bytes between sites of different racks.
    pub fn cross_rack_bytes<R: PartialEq>(&self, rack_of: impl Fn(Site) -> R) -> u64 {
        let crossing = self.links.iter().filter(|&(&(from, to), _)| rack_of(from) != rack_of(to));
        crossing.map(|(_, bytes)| bytes).sum()
    }

    /// Bytes through each side of each site's interface, once, in rising order.
    pub fn sides(&self) -> Vec<((Site, Direction), u64)> {
        let ends = |(&(from, to), &bytes): (&(Site, Site), &u64)| {
            [((from, Direction::Out), bytes), ((to, Direction::In), bytes)]
        };
        let mut sides: Vec<_> = self.links.iter().flat_map(ends).collect();
        sides.sort_unstable_by_key(|(side, _)| *side);
        sides.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            kept.1 += if same { next.1 } else { 0 };
            same
        });
        sides
    }

    /// The busiest interface; the lowest site, receiving first, among equals. None if nothing is sent.
    pub fn bottleneck(&self) -> Option<Bottleneck> {
        let busiest = self.sides().into_iter().rev().max_by_key(|&(_, bytes)| bytes);
        busiest.map(|((site, direction), bytes)| Bottleneck { site, direction, bytes })
    }
}

/// Predicts `flow` for the slices in `slices` (default: all). `stored` tells the stored length in bytes of
/// every member that the flow reads, takes from the client or writes. Several lanes carry the slices that they are
/// [dealt](crate::runs::deal).
///
/// # Panics
/// As slices do, if the flow is not [valid](crate::validate::validate); a [`Proved`](crate::Proved) one is.
pub fn predict(flow: &Flow, stored: impl Fn(Member) -> u64, slices: Option<Range<u64>>) -> Cost {
    let all = 0..flow.geometry.slices();
    let asked = slices.map_or(all.clone(), |asked| asked.start.min(all.end)..asked.end.min(all.end));
    let mut runs: Vec<Vec<Range<u64>>> = vec![Vec::new(); flow.lanes.len()];
    for run in runs::deal(flow.geometry, &flow.lane_shares(), [asked]) {
        runs[run.lane].push(run.slices);
    }
    let mut cost = Cost::default();
    let mut filling = 0.0_f64;
    for (lane, runs) in flow.lanes.iter().zip(runs) {
        let extents = edge_extents(flow.geometry, lane, &stored);
        let slices = flow.geometry.slices().max(1) as f64;
        let mean: Vec<f64> = extents.iter().map(|rows| rows.iter().sum::<u64>() as f64 / slices).collect();
        filling = filling.max(schedule::filling(lane, &mean));
        Share { geometry: flow.geometry, lane, runs }.add_to(&mut cost, &extents, &stored);
    }
    if let Some(busiest) = cost.bottleneck() {
        let block = flow.geometry.block_bytes.max(1) as f64;
        cost.timeslots = busiest.bytes as f64 / block + filling / block;
    }
    cost
}

/// A lane and the slices that it carries.
struct Share<'a> {
    geometry: Geometry,
    lane: &'a Lane,
    runs: Vec<Range<u64>>,
}

impl Share<'_> {
    fn add_to(&self, cost: &mut Cost, extents: &[Vec<u64>], stored: &impl Fn(Member) -> u64) {
        let site = |stage: usize| self.lane.stages[stage].site;
        for (edge, extents) in self.lane.edges.iter().zip(extents) {
            let link = (site(usize::from(edge.from.0)), site(usize::from(edge.to.0)));
            *cost.links.entry(link).or_default() +=
                extents.iter().map(|&extent| self.clip(extent)).sum::<u64>();
        }
        let symbol =
            |index: u16, member: Member| self.clip(self.geometry.symbol_extent(index, stored(member)));
        for stage in &self.lane.stages {
            for input in &stage.inputs {
                if let Input::Local { member, symbols } = input {
                    let bytes: u64 = symbols.iter().map(|&index| symbol(index, *member)).sum();
                    *cost.disk_read.entry(stage.site).or_default() += bytes;
                }
            }
            for output in &stage.outputs {
                if let Output::Write { member } = output {
                    let bytes: u64 = (0..self.geometry.alpha).map(|index| symbol(index, *member)).sum();
                    *cost.disk_written.entry(stage.site).or_default() += bytes;
                }
            }
        }
    }

    /// Bytes of a row of this extent that lie within the runs.
    fn clip(&self, extent: u64) -> u64 {
        let start = |slice: u64| slice.saturating_mul(u64::from(self.geometry.slice_bytes));
        let within = |run: &Range<u64>| extent.min(start(run.end)).saturating_sub(start(run.start));
        self.runs.iter().map(within).sum()
    }
}

/// Sites that `cost` names.
pub(crate) fn sites(cost: &Cost) -> BTreeSet<Site> {
    let links = cost.links.keys().flat_map(|&(from, to)| [from, to]);
    links.chain(cost.disk_read.keys().copied()).chain(cost.disk_written.keys().copied()).collect()
}
