//! How long a flow takes over links of given bandwidths, from disks of given rates.

use crate::cost::{Cost, Direction};
use crate::extent::edge_extents;
use crate::graph::{Flow, Member, Site};
use crate::schedule;

/// Bandwidths, all in one unit; infinity is no limit.
#[derive(Clone, Copy)]
pub struct Rates<'a> {
    /// The bandwidth of the link from one site to another, at most what its ends allow.
    pub link: &'a dyn Fn(Site, Site) -> f64,
    /// The bandwidth of one side of a site's interface.
    pub side: &'a dyn Fn(Site, Direction) -> f64,
    /// What a site's disk reads.
    pub disk: &'a dyn Fn(Site) -> f64,
}

/// How long a flow takes. Links and disks work at the same time, so the slower of them decides.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Time {
    /// The busiest link or side of an interface, and the time in which the pipeline fills and drains.
    pub links: f64,
    /// The busiest disk.
    pub disks: f64,
}

impl Time {
    /// Of all.
    pub fn whole(self) -> f64 {
        self.links.max(self.disks)
    }
}

/// The time that the bytes of `cost`, which was [predicted](crate::predict), take through the slowest link, side of an
/// interface, or disk. In bytes over the unit of `rates`; 0 where nothing is limited.
pub fn busiest(cost: &Cost, rates: Rates<'_>) -> f64 {
    Time { links: busiest_link(cost, rates), disks: busiest_disk(cost, rates) }.whole()
}

fn busiest_disk(cost: &Cost, rates: Rates<'_>) -> f64 {
    cost.disk_read.iter().map(|(&site, &bytes)| took(bytes as f64, (rates.disk)(site))).fold(0.0, f64::max)
}

fn busiest_link(cost: &Cost, rates: Rates<'_>) -> f64 {
    let links = cost.links.iter().map(|(&(from, to), &bytes)| took(bytes as f64, (rates.link)(from, to)));
    let sides = cost.sides().into_iter().map(|((site, side), bytes)| {
        let rate = (rates.side)(site, side);
        took(bytes as f64, rate)
    });
    links.chain(sides).fold(0.0, f64::max)
}

/// The time that `cost`, what was [predicted](crate::predict) for `flow` or a share of it, takes: that of its busiest
/// link, and the time in which the pipeline fills and drains, which is what one slice of mean length takes beyond that; or that
/// of the busiest disk. On links of bandwidth 1 with interfaces as fast, and disks without limits, it is [`Cost::timeslots`]
/// times the block length.
///
/// # Panics
/// As slices do, if the flow is not [valid](crate::validate::validate).
pub fn time(flow: &Flow, cost: &Cost, stored: impl Fn(Member) -> u64, rates: Rates<'_>) -> Time {
    let slices = flow.geometry.slices().max(1) as f64;
    let mut filling = 0.0_f64;
    for lane in &flow.lanes {
        let site = |stage: crate::graph::StageId| lane.stages[usize::from(stage.0)].site;
        let extents = edge_extents(flow.geometry, lane, &stored);
        let slice: Vec<f64> = lane
            .edges
            .iter()
            .zip(extents)
            .map(|(edge, rows)| {
                let bytes = rows.iter().sum::<u64>() as f64 / slices;
                took(bytes, (rates.link)(site(edge.from), site(edge.to)))
            })
            .collect();
        filling = filling.max(schedule::filling(lane, &slice));
    }
    Time { links: busiest_link(cost, rates) + filling, disks: busiest_disk(cost, rates) }
}

/// No bytes take no time, even over a link that carries none.
fn took(bytes: f64, rate: f64) -> f64 {
    if bytes > 0.0 { bytes / rate } else { 0.0 }
}
