//! Several pipelines at once, to fill every link (ours; RP §4.3 uses one path): on an uneven network one path
//! leaves bandwidth idle wherever its links are faster than its slowest.
//!
//! A **lane** is a path p of k different helpers that ends at the requestor R, with a rate r_p: the slices
//! of a block are shared out between lanes by rate. The best set of lanes solves this linear program, with a
//! variable for every path:
//!
//! ```text
//!   maximise  Σ_p r_p   subject to  r_p ≥ 0 and
//!     for each link i→j       Σ { r_p : p uses i→j }              ≤ bandwidth_ij
//!     for each helper h       Σ { r_p : p goes through h }        ≤ up_h
//!     for each helper h       Σ { r_p : p enters h from another } ≤ down_h
//!     for the requestor       Σ_p r_p                             ≤ down_R
//! ```
//! The first helper of a path receives nothing, which is what makes helpers with a slow downlink useful.
//!
//! - Limits of nodes alone: the optimum has a closed form, and lanes that reach it are found directly
//!   (`node_limits`).
//! - Limits of links, or of both: columns are generated (`columns`). With up to [`EXACT_HELPERS`] helpers the
//!   cheapest path at given prices is found exactly, so the bound is the program's optimum, or near it if the
//!   rounds run out. With more helpers it is not, and the bound is that of the closed form over what the links
//!   of each node carry in sum: true, but not tight. With more than about 44, the widest paths are taken one
//!   after another.

mod cheapest;
mod columns;
mod node_limits;
mod packing;

pub use cheapest::EXACT_HELPERS;

use super::check_helpers;
use super::links::{LinkMatrix, check_nodes};
use crate::error::PlanError;

/// Lanes at most, usually: each takes a connection per hop and a stage per helper, and further ones add little.
pub const MAX_LANES: usize = 64;

/// What nodes and links carry, in any one unit. Infinity is no limit.
#[derive(Clone, PartialEq, Debug)]
pub struct Bandwidth {
    up: Vec<f64>,
    down: Vec<f64>,
    links: Option<LinkMatrix>,
}

impl Bandwidth {
    /// What each node can send and receive in all.
    ///
    /// # Errors
    /// [`PlanError::WrongNodeCount`] unless there are as many of one as of the other; [`PlanError::BadNode`] for
    /// a number below 0 or none at all.
    pub fn of_nodes(up: Vec<f64>, down: Vec<f64>) -> Result<Self, PlanError> {
        check_nodes(&up, up.len())?;
        check_nodes(&down, up.len())?;
        Ok(Bandwidth { up, down, links: None })
    }

    /// What each link carries, independently of others.
    pub fn of_links(links: LinkMatrix) -> Self {
        let unlimited = vec![f64::INFINITY; links.nodes()];
        Bandwidth { up: unlimited.clone(), down: unlimited, links: Some(links) }
    }

    /// Limits the links too.
    ///
    /// # Errors
    /// [`PlanError::WrongNodeCount`] if the links are not between as many nodes.
    pub fn and_links(self, links: LinkMatrix) -> Result<Self, PlanError> {
        if links.nodes() != self.nodes() {
            return Err(PlanError::WrongNodeCount { given: self.nodes(), nodes: links.nodes() });
        }
        Ok(Bandwidth { links: Some(links), ..self })
    }

    /// How many nodes there are.
    pub fn nodes(&self) -> usize {
        self.up.len()
    }

    /// What one lane could carry over a link if it were the only one.
    fn link(&self, from: usize, to: usize) -> f64 {
        let link = self.links.as_ref().map_or(f64::INFINITY, |links| links.get(from, to));
        link.min(self.up[from]).min(self.down[to])
    }
}

/// One path and what it carries.
#[derive(Clone, PartialEq, Debug)]
pub struct RatedLane {
    /// The helpers in the order of the path, then the requestor.
    pub path: Vec<usize>,
    /// Its rate, in the unit of the bandwidths.
    pub rate: f64,
}

/// Lanes that run at the same time within all limits.
#[derive(Clone, PartialEq, Debug)]
pub struct MultiPath {
    /// The fastest first.
    pub lanes: Vec<RatedLane>,
    /// The rate of all lanes together.
    pub rate: f64,
    /// A rate that no set of lanes exceeds.
    pub bound: f64,
}

/// At most `most_lanes` lanes, at least one (usually [`MAX_LANES`]) over `k` of `helpers` each that end at `requestor`, with
/// about as much rate in all as bandwidth allows.
///
/// # Errors
/// [`PlanError::NotEnoughHelpers`], [`PlanError::NoHelpers`], [`PlanError::NoSuchNode`],
/// [`PlanError::RepeatedNode`], [`PlanError::TooManyNodes`]; [`PlanError::NoPath`] if no path has any bandwidth;
/// [`PlanError::NoLimit`] if nothing limits the rate.
pub fn multi_path(
    bandwidth: &Bandwidth,
    helpers: &[usize],
    k: usize,
    requestor: usize,
    most_lanes: usize,
) -> Result<MultiPath, PlanError> {
    check_helpers(helpers, k, requestor, bandwidth.nodes())?;
    let most_lanes = most_lanes.max(1);
    let no_path = PlanError::NoPath { helpers: k, requestor };
    let bound = node_limits::bound(&node_limits::ports(bandwidth, helpers, requestor), k);
    if bound == f64::INFINITY {
        return Err(PlanError::NoLimit);
    }
    if bound == 0.0 {
        return Err(no_path);
    }
    let (mut lanes, bound) = match bandwidth.links {
        None => (node_limits::lanes(bandwidth, helpers, k, bound, most_lanes), bound),
        Some(_) => columns::lanes(bandwidth, helpers, k, requestor, bound, most_lanes),
    };
    lanes.sort_by(|a, b| b.rate.total_cmp(&a.rate));
    for lane in &mut lanes {
        lane.path.push(requestor);
    }
    keep_within(bandwidth, &mut lanes);
    let rate: f64 = lanes.iter().map(|lane| lane.rate).sum();
    // The sum's rounding may put it above.
    let bound = bound.max(rate);
    if rate > 0.0 { Ok(MultiPath { lanes, rate, bound }) } else { Err(no_path) }
}

/// Slows all lanes down alike by what rounding put them above a limit.
fn keep_within(bandwidth: &Bandwidth, lanes: &mut [RatedLane]) {
    let nodes = bandwidth.nodes();
    let (mut up, mut down) = (vec![0.0; nodes], vec![0.0; nodes]);
    let mut links = vec![vec![0.0; nodes]; nodes];
    for lane in &*lanes {
        for link in lane.path.windows(2) {
            up[link[0]] += lane.rate;
            down[link[1]] += lane.rate;
            links[link[0]][link[1]] += lane.rate;
        }
    }
    let mut excess = 1.0_f64;
    let mut meet = |load: f64, limit: f64| {
        if load > limit {
            excess = excess.max(load / limit);
        }
    };
    for (from, to) in (0..nodes).flat_map(|from| (0..nodes).map(move |to| (from, to))) {
        let limit = bandwidth.links.as_ref().map_or(f64::INFINITY, |links| links.get(from, to));
        meet(links[from][to], limit);
    }
    for node in 0..nodes {
        meet(up[node], bandwidth.up[node]);
        meet(down[node], bandwidth.down[node]);
    }
    if excess > 1.0 {
        lanes.iter_mut().for_each(|lane| lane.rate /= excess);
    }
}
