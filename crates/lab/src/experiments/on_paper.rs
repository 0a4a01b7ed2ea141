//! What is only calculated: placement by the policies of `plan` over racks and nodes that are only counted, and how long a search
//! takes.

use super::Bench;
use crate::error::{Result, bad};
use crate::report::{Axis, Measure, Results, Setup};
use codes::Code;
use plan::placement::{Spread, Terms, Trial, TrialReport};
use std::time::Instant;

/// Racks of EAR's simulations …
pub(super) const RACKS: u32 = 20;
/// … and nodes in each of them.
pub(super) const NODES_PER_RACK: u32 = 20;

/// The policies, as series are named.
pub(super) const RR: &str = "random (RR)";
pub(super) const EAR: &str = "ear";

/// Replicas of (n,k) stripes in two racks, `c` blocks of a stripe in a rack at most.
pub(super) struct Placement {
    pub policy: &'static str,
    pub code: &'static str,
    pub c: usize,
    pub racks: u32,
    pub nodes_per_rack: u32,
}

impl Placement {
    /// Of RS(14,10) over the racks of EAR's simulations.
    pub fn facebook(policy: &'static str, c: usize) -> Placement {
        Placement { policy, code: "rs-10+4", c, racks: RACKS, nodes_per_rack: NODES_PER_RACK }
    }

    /// What comes of so many blocks, in each of so many runs from this seed on.
    pub fn try_out(&self, blocks: usize, runs: u64, seed: u64) -> Result<TrialReport> {
        let terms = Terms {
            code: Code::parse(self.code).map_err(bad)?,
            rack_capacity: self.c,
            target_racks: None,
            replicas: 3,
            spread: Spread::TwoRacks,
        };
        let Placement { racks, nodes_per_rack, .. } = *self;
        let trial =
            Trial { policy: self.policy.to_owned(), terms, racks, nodes_per_rack, blocks, runs, seed };
        trial.run().map_err(bad)
    }
}

/// A record of what one thread calculates.
pub(super) fn record(
    bench: &Bench<'_>,
    experiment: &super::Experiment,
    runs: usize,
    x: Axis,
    y: Measure,
) -> Results {
    bench.record(experiment, Setup::here("one thread, nothing is sent or stored", runs), x, y)
}

/// Seconds, and what was found in them.
pub(super) type Timed<T> = (f64, T);

pub(super) fn timed<T>(search: impl FnOnce() -> T) -> Timed<T> {
    let started = Instant::now();
    let found = search();
    (started.elapsed().as_secs_f64(), found)
}
