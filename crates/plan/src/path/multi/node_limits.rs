//! Lanes where only nodes have limits: the exact optimum, without a linear program.
//!
//! Let x_h be what helper h sends in all, y_h what it receives, f_h = x_h − y_h what it sends as the first of a
//! path, and r the sum of all rates. Lanes within the limits have
//!
//! ```text
//!   Σ y_h = (k−1)·r,  Σ f_h = r,  y_h ≤ down_h,  x_h = y_h + f_h ≤ min(up_h, r),  r ≤ down_R.
//! ```
//! Such numbers exist if and only if r is at most
//!
//! ```text
//!   min( down_R,  max { r : Σ min(up_h, r) ≥ k·r },  max { r : Σ min(up_h, down_h, r) ≥ (k−1)·r } ):
//! ```
//! fill the y_h up to min(up_h, down_h, r) first; what is left of up_h is then enough for the f_h. And any such
//! numbers are lanes. Read them as a timetable of length r: h must be "first" for f_h, "later" for y_h and
//! "idle" for the rest, and at every instant one helper is first and k−1 are later. That is preemptive
//! open-shop scheduling, where such a timetable always exists (Gonzalez and Sahni, J. ACM 23(4), 1976). Each
//! interval in which nobody changes its part is a lane, and its length the rate.

use super::{Bandwidth, RatedLane};

/// Amounts that are smaller, as part of the whole rate, are what rounding left.
const ROUNDING: f64 = 1e-9;

/// What helpers can send and receive in all, and the requestor receive.
pub(super) struct Ports {
    up: Vec<f64>,
    down: Vec<f64>,
    requestor: f64,
}

/// The limits of nodes; those of links count towards them by their sum.
pub(super) fn ports(bandwidth: &Bandwidth, helpers: &[usize], requestor: usize) -> Ports {
    let from_helpers = |to: usize| {
        let others = helpers.iter().filter(move |&&from| from != to);
        others.map(|&from| bandwidth.link(from, to)).sum::<f64>()
    };
    let to_all = |from: usize| {
        let others = helpers.iter().chain([&requestor]).filter(move |&&to| to != from);
        others.map(|&to| bandwidth.link(from, to)).sum::<f64>()
    };
    Ports {
        up: helpers.iter().map(|&helper| to_all(helper).min(bandwidth.up[helper])).collect(),
        down: helpers.iter().map(|&helper| from_helpers(helper).min(bandwidth.down[helper])).collect(),
        requestor: from_helpers(requestor).min(bandwidth.down[requestor]),
    }
}

/// The largest sum of rates.
pub(super) fn bound(ports: &Ports, k: usize) -> f64 {
    let both = ports.up.iter().zip(&ports.down).map(|(&up, &down)| up.min(down)).collect();
    ports.requestor.min(largest(ports.up.clone(), k)).min(largest(both, k - 1))
}

/// The largest r with Σ min(limit, r) ≥ count·r. The sum is the least, over the j largest limits being cut to r,
/// of j·r and the other limits, so r is the least quotient of those and count − j.
fn largest(mut limits: Vec<f64>, count: usize) -> f64 {
    limits.sort_unstable_by(|a, b| b.total_cmp(a));
    let quotient =
        |cut: usize| limits.get(cut..).unwrap_or_default().iter().sum::<f64>() / (count - cut) as f64;
    (0..count).map(quotient).fold(f64::INFINITY, f64::min)
}

/// What one helper has still to do, as first of a path, later in it, and not at all.
#[derive(Clone, Copy)]
struct Duty {
    first: f64,
    later: f64,
    idle: f64,
}

/// Lanes, without the requestor, whose rates sum up to the bound `rate`, or to less if that takes more than
/// `most_lanes`.
pub(super) fn lanes(
    bandwidth: &Bandwidth,
    helpers: &[usize],
    k: usize,
    rate: f64,
    most_lanes: usize,
) -> Vec<RatedLane> {
    let mut duties = duties(bandwidth, helpers, k, rate);
    let mut lanes = Vec::new();
    while lanes.len() < most_lanes {
        let Some((path, length)) = longest_interval(&duties, k, rate * ROUNDING) else { break };
        for (place, duty) in duties.iter_mut().enumerate() {
            let part = match path.iter().position(|&on_path| on_path == place) {
                Some(0) => &mut duty.first,
                Some(_) => &mut duty.later,
                None => &mut duty.idle,
            };
            *part -= length;
        }
        lanes.push(RatedLane { path: path.iter().map(|&place| helpers[place]).collect(), rate: length });
    }
    lanes
}

/// A solution of the module's equations in which few helpers change their part: those with the most bandwidth
/// are always on the path.
fn duties(bandwidth: &Bandwidth, helpers: &[usize], k: usize, rate: f64) -> Vec<Duty> {
    let mut duties = vec![Duty { first: 0.0, later: 0.0, idle: rate }; helpers.len()];
    let up = |place: usize| bandwidth.up[helpers[place]].min(rate);
    let mut order: Vec<usize> = (0..helpers.len()).collect();
    let receives = |place: usize| up(place).min(bandwidth.down[helpers[place]]);
    order.sort_by(|&a, &b| receives(b).total_cmp(&receives(a)));
    let mut wanted = (k - 1) as f64 * rate;
    for &place in &order {
        duties[place].later = receives(place).min(wanted);
        wanted -= duties[place].later;
    }
    let left: Vec<f64> = (0..helpers.len()).map(|place| up(place) - duties[place].later).collect();
    order.sort_by(|&a, &b| left[b].total_cmp(&left[a]));
    let mut wanted = rate;
    for &place in &order {
        duties[place].first = left[place].min(wanted);
        wanted -= duties[place].first;
        duties[place].idle = (rate - duties[place].first - duties[place].later).max(0.0);
    }
    duties
}

/// Parts for all helpers that they can keep for as long as any: who is on the path, the first at the front. None
/// if they cannot for longer than `shortest`.
fn longest_interval(duties: &[Duty], k: usize, shortest: f64) -> Option<(Vec<usize>, f64)> {
    let mut lengths: Vec<f64> = duties.iter().flat_map(|duty| [duty.first, duty.later, duty.idle]).collect();
    lengths.retain(|&length| length > shortest);
    lengths.sort_unstable_by(f64::total_cmp);
    // Parts that can be kept for some time can be kept for a shorter one.
    let (mut low, mut high) = (0, lengths.len());
    let mut best = None;
    while low < high {
        let middle = low.midpoint(high);
        match parts(duties, k, lengths[middle]) {
            Some(path) => {
                best = Some((path, lengths[middle]));
                low = middle + 1;
            }
            None => high = middle,
        }
    }
    best
}

/// A path whose helpers, and those not on it, all have `length` left of that part.
fn parts(duties: &[Duty], k: usize, length: f64) -> Option<Vec<usize>> {
    // Helpers that can do either go first if they have more of their time to serve.
    let can_later = |duty: &Duty| duty.later >= length;
    let must_later = |duty: &Duty| duty.idle < length;
    let misfits = duties.iter().filter(|duty| must_later(duty) && !can_later(duty)).count();
    let bound = duties.iter().filter(|duty| must_later(duty) && can_later(duty)).count();
    let able = duties.iter().filter(|duty| can_later(duty)).count();
    let fits = |&first: &usize| {
        let duty = &duties[first];
        let misfits = misfits - usize::from(must_later(duty) && !can_later(duty));
        let bound = bound - usize::from(must_later(duty) && can_later(duty));
        let able = able - usize::from(can_later(duty));
        duty.first >= length && misfits == 0 && bound < k && able + 1 >= k
    };
    let firsts = (0..duties.len()).filter(fits);
    let first = firsts.max_by(|&a, &b| duties[a].first.total_cmp(&duties[b].first))?;
    let mut later: Vec<usize> =
        (0..duties.len()).filter(|&place| place != first && can_later(&duties[place])).collect();
    later.sort_by(|&a, &b| {
        let (a, b) = (&duties[a], &duties[b]);
        must_later(b).cmp(&must_later(a)).then(b.later.total_cmp(&a.later))
    });
    later.truncate(k - 1);
    Some([vec![first], later].concat())
}
