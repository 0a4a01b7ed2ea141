//! What a flow costs on links and disks as they are known: seconds where a bandwidth or a rate is known, else timeslots.

use super::{Network, Planned};
use flow::{Direction, Member, Proved, Rates, Site, Time};
use model::NodeId;
use std::fmt;
use std::ops::Range;

/// Bytes per second of one Mb/s.
const BYTES_PER_MBIT: f64 = 125_000.0;

/// Prices that differ by less than this part are equal: links are not known that exactly.
const EQUAL: f64 = 1e-3;

/// What a link carries of its rate as payload: headers of Ethernet, IP and TCP take 4.4 % of it in packets of 1500 bytes, and
/// those of frames the rest.
const PAYLOAD: f64 = 0.95;

/// What a flow costs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Price {
    /// On equal links (RP §2.2).
    pub timeslots: f64,
    /// On links and disks as they are known, in seconds; `None` if none of them is known.
    pub time: Option<Time>,
    /// Between racks.
    pub cross_rack_bytes: u64,
}

impl Price {
    /// That of links and disks together.
    pub fn seconds(&self) -> Option<f64> {
        self.time.map(Time::whole)
    }

    /// Whether it takes less time or, if the times are equal, fewer bytes between racks.
    pub fn beats(&self, other: &Price) -> bool {
        let (mine, theirs) = match (self.seconds(), other.seconds()) {
            (Some(mine), Some(theirs)) => (mine, theirs),
            _ => (self.timeslots, other.timeslots),
        };
        if mine < theirs * (1.0 - EQUAL) {
            return true;
        }
        mine <= theirs * (1.0 + EQUAL) && self.cross_rack_bytes < other.cross_rack_bytes
    }

    /// As if it took `factor` times as long.
    pub fn times(self, factor: f64) -> Price {
        let time =
            self.time.map(|Time { links, disks }| Time { links: links * factor, disks: disks * factor });
        Price { timeslots: self.timeslots * factor, time, ..self }
    }

    /// By what prices like this one are compared.
    pub fn measure(&self) -> &'static str {
        match self.time {
            Some(Time { disks, .. }) if disks > 0.0 => {
                "least time on the links and disks as they are known, then fewest bytes between racks"
            }
            Some(_) => "least time on the links as they are known, then fewest bytes between racks",
            None => "fewest timeslots on equal links, then fewest bytes between racks",
        }
    }
}

impl fmt::Display for Price {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.time {
            Some(time) if time.disks > time.links => write!(f, "{:.3} s, of the disks", time.disks)?,
            Some(time) => write!(f, "{:.3} s", time.links)?,
            None => write!(f, "{:.3}", self.timeslots)?,
        }
        if self.cross_rack_bytes > 0 {
            write!(f, " ({} B between racks)", self.cross_rack_bytes)
        } else {
            Ok(())
        }
    }
}

impl Network<'_> {
    /// What a flow, or some slices of it, costs.
    pub fn price(&self, flow: &Proved, stored: impl Fn(Member) -> u64, slices: Option<Range<u64>>) -> Price {
        let cost = flow::predict(flow, &stored, slices);
        self.price_of(flow, &cost, stored)
    }

    /// The same of what was predicted already.
    pub fn price_of(&self, flow: &Proved, cost: &flow::Cost, stored: impl Fn(Member) -> u64) -> Price {
        let time = self.on_rates(|rates| flow::time(flow, cost, stored, rates));
        Price {
            timeslots: cost.timeslots,
            time: time.filter(|time| time.whole() > 0.0),
            cross_rack_bytes: cost.cross_rack_bytes(|site| self.rack_of(site)),
        }
    }

    /// Lets the lanes of a flow begin as fast as its busiest link or disk carries their payload. What begins faster piles up where
    /// lanes meet, and then lanes that need all of a link do not get it. One lane alone meets nobody.
    pub fn set_rate(&self, planned: &mut Planned) {
        let Planned { plan, cost } = planned;
        let seconds = self.on_rates(|rates| flow::busiest(cost, rates)).unwrap_or(0.0);
        if plan.flow.lanes.len() > 1 && seconds > 0.0 {
            let (geometry, slices) = (plan.flow.geometry, &plan.binding.slices);
            let bytes = (slices.end - slices.start).saturating_mul(u64::from(geometry.slice_bytes));
            let bytes = bytes.min(geometry.symbol_bytes());
            plan.symbol_bytes_per_s = (bytes as f64 / seconds * PAYLOAD) as u64;
        }
    }

    /// In bytes per second. Where nothing is limited, nothing can be said.
    fn on_rates<T>(&self, time: impl FnOnce(Rates<'_>) -> T) -> Option<T> {
        let rates = self.rates();
        let node = |site: Site| NodeId(site.0);
        let bytes = |mbit: f64| mbit * BYTES_PER_MBIT;
        let link = |from: Site, to: Site| bytes(rates.link(node(from), node(to)));
        let side = |site: Site, direction| match direction {
            Direction::Out => bytes(rates.up(node(site))),
            Direction::In => bytes(rates.down(node(site))),
        };
        let disk = |site: Site| bytes(rates.disk(node(site)));
        (!rates.is_empty()).then(|| time(Rates { link: &link, side: &side, disk: &disk }))
    }
}
